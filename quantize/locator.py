"""Where the packages and files of a chain stand, and what builds those that are missing: one place
for every command.

    request = Request(checkpoint, Path("build"), method="w8a8", layout="streaming")
    # manifests; InputError names the command for a missing one
    encoders, vocoder = request.paths()
    # the vocoder's, its package's hash verified
    manifest = find_package(Path("build"), checkpoint, METHODS["w8a8"])
    # after building it and its parent where they are missing
    manifest = built(request, build_package)
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kokoro_ane.core.commands import CORE_ML, BuildOptions, QuantizeOptions
from kokoro_ane.core.contract import DURATION, ENCODER_NAME, LAYOUTS, PADDED, PROSODY, VOCODER_NAME
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest, level_name, package_name
from kokoro_ane.core.staging import there
from kokoro_ane.quantize.methods import CONVERTED, Method, method_named

if TYPE_CHECKING:
    from kokoro_ane.core.checkpoint import Checkpoint

FLOAT, HALF = CONVERTED[::-1]  # the level of exported files; what levels are made from
# builds what the options say: a caller above this room hands it in (pipeline/package_builds.py)
Build = Callable[[BuildOptions | QuantizeOptions], object]
ENCODER_PARTS = {name: ENCODER_NAME + name.capitalize() for name in (DURATION, PROSODY)}


@dataclass(frozen=True)
class Request:
    """What is to be opened or built: packages of `checkpoint` in `build`, the vocoder's at that
    level and layout.

    `method`: "" is the runtime's own level. `files`: the runtime whose files are meant, "" for
    packages. `source`: as --checkpoint was given, where that is known. `encoder`: the encoder's
    level, "" for the one that goes with `method`.
    """

    checkpoint: "Checkpoint"
    build: Path
    method: str = ""
    layout: str = PADDED
    files: str = ""
    source: str | None = None
    encoder: str = ""

    def path(self, stage: str) -> Path:
        """Where a stage's manifest stands, or would:
        build/KokoroVocoder-streaming-fp16.json.
        """
        if self.files:
            level = f"{self.files}-{level_name(self.method, self.layout) if stage == VOCODER_NAME else FLOAT}"
        elif stage == VOCODER_NAME:
            level = level_name(self.method, self.layout)
        else:
            level = self.encoder or (FLOAT if self.method == FLOAT else HALF)
        return (
            self.build
            / f"{package_name(stage, self.checkpoint.name, self.checkpoint.releasable, level)}.json"
        )

    @property
    def vocoder(self) -> Path:
        """The vocoder's manifest."""
        return self.path(VOCODER_NAME)

    @property
    def encoders(self) -> tuple[Path, ...]:
        """The encoder's manifests: one, or two where each function is a file of its own (iOS 17,
        other runtimes).
        """
        whole, parts = self.path(ENCODER_NAME), tuple(map(self.path, ENCODER_PARTS.values()))
        return (
            parts
            if self.files or (not there(whole) and any(path.is_file() for path in parts))
            else (whole,)
        )

    def options(self, path: Path) -> BuildOptions | QuantizeOptions:
        """What builds the package or file of that manifest."""
        source, runtime = self.source or self.checkpoint.source, self.files or CORE_ML
        encoder = path.stem.startswith(ENCODER_NAME)
        if encoder and self.encoder not in ("", *CONVERTED):
            return QuantizeOptions(
                self.encoder, stage="encoder", checkpoint=source, build=self.build
            )
        if encoder or self.method in CONVERTED:
            return BuildOptions(
                "encoder" if encoder else "vocoder",
                runtime=runtime,
                layout=PADDED if encoder else self.layout,
                # a file of another runtime has one precision, which is not asked for
                precision=FLOAT if self.method == FLOAT and not self.files else HALF,
                checkpoint=source,
                out=self.build,
            )
        return QuantizeOptions(
            self.method, layout=self.layout, checkpoint=source, build=self.build, runtime=runtime
        )

    def command(self, path: Path) -> str:
        """The command that builds it, for the user to type."""
        return self.options(path).command

    def manifest(self, path: Path, hint: str = "") -> Manifest:
        """The manifest there. InputError: not built (naming the command, then `hint`), of another
        checkpoint or level.
        """
        command, level = self.command(path), level_name(self.method, self.layout)
        if not there(path):
            raise InputError(f"{path} does not exist: run `{command}`{hint}")
        manifest = Manifest.load(path)
        manifest.require_made_from(self.checkpoint, command)
        if path == self.vocoder and manifest.level != level:
            raise InputError(
                f"{path} says method {manifest.level!r}, expected {level!r}: run `{command}` again"
            )
        return manifest

    def paths(self) -> tuple[tuple[Path, ...], Path]:
        """Manifests of the encoder and of the vocoder, each as `manifest`."""
        for path in (*self.encoders, self.vocoder):
            self.manifest(path, hint=" (or speak with --runtime torch)")
        return self.encoders, self.vocoder


def parse_level(name: str, layout: str = PADDED) -> tuple[Method, str]:
    """'streaming-w8a8' -> (w8a8, streaming); a name without a layout is of `layout`. InputError for
    an unknown method.
    """
    for prefix in sorted(LAYOUTS, key=len, reverse=True):
        if name.startswith(f"{prefix}-"):
            return method_named(name.removeprefix(f"{prefix}-")), prefix
    return method_named(name), layout


def options_for(method: Method, layout: str = PADDED) -> BuildOptions | QuantizeOptions:
    """What builds a vocoder's package, whatever the checkpoint."""
    if method.parent:
        return QuantizeOptions(method.name, layout=layout)
    return BuildOptions("vocoder", layout=layout)


def manifest_path(
    build: Path, checkpoint: "Checkpoint", method: Method, layout: str = PADDED
) -> Path:
    """Where the vocoder's manifest stands, or would."""
    return Request(checkpoint, build, method.name, layout).vocoder


def find_package(
    build: Path, checkpoint: "Checkpoint", method: Method, layout: str = PADDED
) -> Manifest:
    """The vocoder's manifest, its package's hash verified. InputError as Request.manifest, and for a
    package that differs from it.
    """
    request = Request(checkpoint, build, method.name, layout)
    manifest = request.manifest(request.vocoder)
    manifest.verify()
    return manifest


def missing(method: Method, layout: str, checkpoint: "Checkpoint", build: Path) -> str | None:
    """The command for a package that is not there; None where it is."""
    return (
        None
        if there(manifest_path(build, checkpoint, method, layout))
        else f"not built; `{options_for(method, layout).command}` builds it"
    )


def built(request: Request, build: Build) -> Manifest:
    """The vocoder's manifest, after building it and its parent where they are missing.

    Raises InputError (a package of another checkpoint, or changed since), CheckFailed (a build that
    was refused).
    """
    if not there(request.vocoder):
        if request.method not in CONVERTED:
            parent = FLOAT if request.files else method_named(request.method).parent
            assert parent is not None  # only what the converter makes has none
            built(replace(request, method=parent), build)
        _build(request, request.vocoder, build)
    manifest = request.manifest(request.vocoder)
    manifest.verify()
    return manifest


def built_encoder(request: Request, build: Build | None) -> tuple[Path, ...]:
    """The encoder's manifests, after building them where they are missing; with no `build` they
    have to be there. Raises as `built`.
    """
    lacking = [path for path in request.encoders if not there(path)]
    if build and lacking and request.encoder not in ("", *CONVERTED):
        built_encoder(replace(request, encoder=""), build)
    if build and lacking and (request.files or len(lacking) == len(request.encoders)):
        _build(request, lacking[0], build)
    for path in request.encoders:
        request.manifest(path)
    return request.encoders


def _build(request: Request, path: Path, build: Build) -> None:
    print(f"{path.stem} is not built yet: building it", file=sys.stderr)
    build(request.options(path))
