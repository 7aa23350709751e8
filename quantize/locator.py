"""The places of a chain's packages and files, and the options that build those that are missing.

request = PackageRequest(checkpoint, Path("build"), method="w8a8", layout="padded")
# manifests; InputError names the command for a missing one
encoders, vocoder = request.check_paths()
# the vocoder's manifest, with its package's hash verified
manifest = request.load_verified()
# the same, after building it and its parent where they are missing
manifest = ensure_vocoder(request, build_package)
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kokoro_ane.core import (
    CORE_ML,
    DEFAULT_LAYOUT,
    DURATION,
    ENCODER_NAME,
    LAYOUTS,
    PADDED,
    PROSODY,
    VOCODER_NAME,
    BuildOptions,
    InputError,
    Manifest,
    QuantizeOptions,
    is_there,
    level_name,
    package_name,
)
from kokoro_ane.quantize.methods import CONVERTED, Method, find_method
from kokoro_ane.vocoder import explain_missing_predictor, find_predictor_file

if TYPE_CHECKING:
    from kokoro_ane.core import Checkpoint

# the level of exported files; the level that others are made from
FLOAT, HALF = CONVERTED[::-1]
# a function that builds what the options say; callers pass it (pipeline/package_builds.py)
Build = Callable[[BuildOptions | QuantizeOptions], object]
ENCODER_PARTS = {name: ENCODER_NAME + name.capitalize() for name in (DURATION, PROSODY)}


@dataclass(frozen=True)
class PackageRequest:
    """The packages to open or build: those of `checkpoint` in the folder `build`, the vocoder's at
    one level and layout.

    method: the vocoder's level; "" is the runtime's default.
    layout: the vocoder's layout; "" is the default one.
    files: the runtime whose files are meant; "" means Core ML packages.
    source: the value of --checkpoint, where it is known.
    encoder: the encoder's level; "" is the one that belongs to `method`.
    """

    checkpoint: "Checkpoint"
    build: Path
    method: str = ""
    layout: str = ""
    files: str = ""
    source: str | None = None
    encoder: str = ""

    @property
    def level(self) -> str:
        """The vocoder's level and layout, as they stand in a package's name."""
        return level_name(self.method, self.layout)

    def path(self, stage: str) -> Path:
        """Where a stage's manifest stands once it is built, as in
        build/KokoroVocoder-padded-fp16.json.
        """
        if stage == VOCODER_NAME:
            level = self.level
        elif self.files:
            level = FLOAT
        else:
            level = self.encoder or (FLOAT if self.method == FLOAT else HALF)
        if self.files:
            level = f"{self.files}-{level}"
        name = package_name(stage, self.checkpoint.name, self.checkpoint.releasable, level)
        return self.build / f"{name}.json"

    @property
    def vocoder(self) -> Path:
        """The vocoder's manifest."""
        return self.path(VOCODER_NAME)

    @property
    def encoders(self) -> tuple[Path, ...]:
        """The encoder's manifests: one, or two where each function has its own file (iOS 17, other
        runtimes).
        """
        whole = self.path(ENCODER_NAME)
        parts = tuple(map(self.path, ENCODER_PARTS.values()))
        # Where a whole package and two parts are there, the whole one is taken.
        return (
            parts
            if self.files or (not is_there(whole) and any(path.is_file() for path in parts))
            else (whole,)
        )

    def make_options(self, path: Path) -> BuildOptions | QuantizeOptions:
        """The options of the command that builds the package or file of that manifest."""
        source = self.source or self.checkpoint.source
        runtime = self.files or CORE_ML
        encoder = path.stem.startswith(ENCODER_NAME)
        # A compressed encoder is made by `quantize`, whatever the vocoder's level is.
        if encoder and self.encoder not in ("", *CONVERTED):
            return QuantizeOptions(
                self.encoder, stage="encoder", checkpoint=source, build=self.build
            )
        if encoder or self.method in CONVERTED:
            return BuildOptions(
                "encoder" if encoder else "vocoder",
                runtime=runtime,
                layout="" if encoder else self.layout,
                # a file of another runtime has one precision, which is not asked for
                precision=FLOAT if self.method == FLOAT and not self.files else HALF,
                checkpoint=source,
                out=self.build,
            )
        return QuantizeOptions(
            self.method, layout=self.layout, checkpoint=source, build=self.build, runtime=runtime
        )

    def command(self, path: Path) -> str:
        """The command that builds the package or file of that manifest."""
        return self.make_options(path).command

    def load_manifest(self, path: Path, hint: str = "") -> Manifest:
        """Load the manifest at `path`. Raises InputError where it is not built, with the command
        and then `hint`, and where it is of another checkpoint or level.
        """
        command = self.command(path)
        if not is_there(path):
            raise InputError(f"{path} does not exist: run `{command}`{hint}")
        manifest = Manifest.load(path)
        manifest.require_made_from(self.checkpoint, command)
        # A file can be renamed by hand; its manifest says what it holds.
        if path == self.vocoder and manifest.level != self.level:
            raise InputError(
                f"{path} says method {manifest.level!r}, expected {self.level!r}: run `{command}`"
                " again"
            )
        return manifest

    def load_verified(self) -> Manifest:
        """The vocoder's manifest, with its package's hash verified. Raises InputError as
        `load_manifest` does, and for a package that differs from its manifest.
        """
        manifest = self.load_manifest(self.vocoder)
        manifest.verify()
        return manifest

    def check_paths(self) -> tuple[tuple[Path, ...], Path]:
        """The paths of the encoder's manifests and of the vocoder's. Raises InputError as
        `load_manifest` does.
        """
        for path in (*self.encoders, self.vocoder):
            self.load_manifest(path, hint=" (or speak with --runtime torch)")
        return self.encoders, self.vocoder


def parse_level(name: str, layout: str = DEFAULT_LAYOUT) -> tuple[Method, str]:
    """The method and layout of a level's name: 'padded-w8a8' -> (w8a8, padded). A name without a
    layout has `layout`. Raises InputError for an unknown method.
    """
    # variants first: the name of one begins as its layout's does
    for prefix in reversed(LAYOUTS):
        if name.startswith(f"{prefix}-"):
            return find_method(name.removeprefix(f"{prefix}-")), prefix
    return find_method(name), layout


def default_layout(checkpoint: "Checkpoint", layouts: tuple[str, ...] = LAYOUTS) -> str:
    """The layout of a request that names none: the default one, or the padded one where the
    checkpoint, or a runtime or target with these layouts, cannot have it. A line on stderr says
    why.
    """
    if DEFAULT_LAYOUT not in layouts:
        why = f"this runtime or target has no {DEFAULT_LAYOUT} layout"
    elif find_predictor_file(checkpoint) is None:
        why = explain_missing_predictor(checkpoint)
    else:
        return DEFAULT_LAYOUT
    print(f"{why}: --layout {PADDED}", file=sys.stderr)
    return PADDED


def make_options(method: Method, layout: str) -> BuildOptions | QuantizeOptions:
    """The options that build a vocoder's package, whatever the checkpoint."""
    if method.parent:
        return QuantizeOptions(method.name, layout=layout)
    return BuildOptions("vocoder", layout=layout)


def ensure_vocoder(request: PackageRequest, build: Build) -> Manifest:
    """The vocoder's manifest, after building it and its parent where they are missing.

    Raises InputError for a package of another checkpoint or one that changed since it was built,
    and CheckFailed for a build that was refused.
    """
    if not is_there(request.vocoder):
        if request.method not in CONVERTED:
            parent = FLOAT if request.files else find_method(request.method).parent
            assert parent is not None  # only what the converter makes has none
            ensure_vocoder(replace(request, method=parent), build)
        _build(request, request.vocoder, build)
    return request.load_verified()


def ensure_encoder(request: PackageRequest, build: Build | None) -> tuple[Path, ...]:
    """The encoder's manifests, after building them where they are missing. Without `build` they
    have to exist. Raises as `ensure_vocoder` does.
    """
    lacking = [path for path in request.encoders if not is_there(path)]
    if build and lacking and request.encoder not in ("", *CONVERTED):
        ensure_encoder(replace(request, encoder=""), build)
    # where one of two packages is there, the check below names the command for the other
    if build and lacking and (request.files or len(lacking) == len(request.encoders)):
        _build(request, lacking[0], build)
    for path in request.encoders:
        request.load_manifest(path)
    return request.encoders


def _build(request: PackageRequest, path: Path, build: Build) -> None:
    print(f"{path.stem} is not built yet: building it", file=sys.stderr)
    build(request.make_options(path))
