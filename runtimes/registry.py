"""Who computes the chain, by name: PyTorch, the packages executed or in Core ML, ONNX Runtime,
ExecuTorch, TVM. One module each.

    request = Request(checkpoint, Path("build"), method="w8a8")
    opened = open_runtime("mlprogram", request)
    chain = Chain(vocab, voice, opened.encoder, opened.vocoder)

A new runtime is a line in RUNTIMES and a module with `open_chain(request) -> Opened`.
"""

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kokoro_ane.core.commands import LAYOUT_FLAGS
from kokoro_ane.core.contract import LAYOUTS, PADDED, STREAMING
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.voices import parse_blend
from kokoro_ane.quantize.locator import default_layout
from kokoro_ane.quantize.methods import CONVERTED, LEVELS, METHODS, Method, method_named

if TYPE_CHECKING:
    from kokoro_ane.core.manifest import Manifest
    from kokoro_ane.encoder.encoder_steps import EncoderBackend
    from kokoro_ane.quantize.locator import Build, Request
    from kokoro_ane.vocoder.vocoder_steps import VocoderBackend


PACKAGE, DEFAULT_RUNTIME = ".mlpackage", "mlprogram"
# what stands in `made_of` where no encoder package was used
ENCODER_BY_PYTORCH = "checkpoint"


@dataclass(frozen=True, eq=False)
class Opened:
    """Who computes, and what they are made of by name: hashes that change whenever the audio
    may.
    """

    encoder: "EncoderBackend"
    vocoder: "VocoderBackend"
    made_of: dict[str, str] = field(default_factory=dict)
    # those that the vocoder's statistics were fitted on; None: it measures them, for any voice
    voices: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls, encoder: "EncoderBackend", vocoder: Any, encoders: "Iterable[Manifest]"
    ) -> "Opened":
        """With the hash of each package or file by its name. `encoders`: the encoder's
        manifests. What is longer than the vocoder takes is refused once its durations are known.
        """
        limits = encoder.limits
        if vocoder.buckets is not None:
            total_frames = min(limits.total_frames, vocoder.buckets[-1])
            encoder = replace(encoder, limits=replace(limits, total_frames=total_frames))
        made_of = {
            manifest.path.stem: manifest.package_sha256
            for manifest in (*encoders, vocoder.manifest)
        }
        return cls(encoder, vocoder, made_of, vocoder.voices)

    def require_voice(self, name: str) -> str:
        """The name; InputError for a voice, or part of a blend, that the vocoder does not know."""
        unknown = [part for part, _ in parse_blend(name) if part not in (self.voices or (part,))]
        if unknown:
            raise InputError(
                f"the streaming layout's statistics were fitted without voice {unknown[0]!r}: fit"
                f" them with it (python -m training.fit_statistics), take --layout {PADDED}, or"
                f" one of {', '.join(self.voices or ())}"
            )
        return name


@dataclass(frozen=True)
class Runtime:
    """`levels`: those it has, its own choice first; `layouts`: those it has; `platform`: the only
    one.

    `module`: where open_chain stands, behind a colon the name of a FileRuntime. `needs`: modules
    that must be there; `install`: the one command that installs them. `files`: suffix of what it
    opens, "" for nothing; it then has `open_manifests(encoders, vocoder)` and
    `open_vocoder(manifest)` too.
    """

    title: str
    module: str
    levels: tuple[str, ...] = LEVELS
    layouts: tuple[str, ...] = LAYOUTS
    platform: str | None = None
    needs: tuple[str, ...] = ("torch",)
    install: str = "make venv"
    files: str = ""

    @property
    def packages(self) -> bool:
        """Whether it runs .mlpackage folders."""
        return self.files == PACKAGE

    @property
    def missing(self) -> tuple[str, ...]:
        """Modules that are not installed."""
        return tuple(name for name in self.needs if importlib.util.find_spec(name) is None)


RUNTIMES = MappingProxyType(
    {
        "torch": Runtime("PyTorch", "kokoro_ane.runtimes.torch_runtime", levels=CONVERTED[::-1]),
        "mlprogram": Runtime(
            "the packages, executed on any machine", "kokoro_ane.runtimes.executed", files=PACKAGE
        ),
        "coreml": Runtime(
            "the packages, run by Core ML",
            "kokoro_ane.runtimes.coreml",
            platform="darwin",
            files=PACKAGE,
        ),
        "onnx": Runtime(
            "ONNX Runtime",
            "kokoro_ane.runtimes.files:ONNX",
            levels=("fp32", "w8", "w8a8"),
            layouts=(PADDED, STREAMING),
            needs=("onnxruntime",),
            install='pip install "kokoro-ane[onnx]"',
            files=".onnx",
        ),
        "executorch": Runtime(
            "ExecuTorch",
            "kokoro_ane.runtimes.files:EXECUTORCH",
            levels=("fp32",),
            layouts=(PADDED,),
            needs=("torch", "executorch"),
            install='pip install "kokoro-ane[executorch]"',
            files=".pte",
        ),
        "tvm": Runtime(
            "TVM",
            "kokoro_ane.runtimes.files:TVM",
            levels=("fp32",),
            layouts=(PADDED,),
            needs=("tvm",),
            install='pip install "kokoro-ane[tvm]"',
            files=".so",
        ),
    }
)


def module_of(name: str) -> Any:
    """What opens its chain, imported: the runtime's module, or its FileRuntime."""
    module, _, inside = RUNTIMES[name].module.partition(":")
    imported = importlib.import_module(module)
    return getattr(imported, inside) if inside else imported


def runtime_for(package: str) -> str:
    """Who opens a file of that name, on any machine. InputError where nobody does, or it is not
    installed.
    """
    for name, runtime in RUNTIMES.items():
        if runtime.files and package.endswith(runtime.files):
            check_runtime(name, runtime.levels[0])
            return name
    raise InputError(
        f"{package} is of no runtime; there are"
        f" {', '.join(sorted({r.files for r in RUNTIMES.values() if r.files}))}"
    )


def files_of(name: str, request: "Request") -> tuple[tuple[Path, ...], Path]:
    """Manifests of the encoder and of the vocoder that a runtime opens. InputError as open_runtime,
    and for one that opens no files.
    """
    request = completed(name, request)
    if not RUNTIMES[name].files:
        raise InputError(f"--runtime {name} has no files: it reads the checkpoint")
    if RUNTIMES[name].packages:
        return request.paths()
    paths: tuple[tuple[Path, ...], Path] = module_of(name).paths(request)
    return paths


def named(runtime: str, request: "Request") -> "Request":
    """The request, for packages or for that runtime's files, which are no packages."""
    return request if RUNTIMES[runtime].packages else replace(request, files=runtime)


def judged_manifest(runtime: str, request: "Request", build: "Build") -> "tuple[Method, Manifest]":
    """The level of a runtime, built where it is missing. Raises InputError and CheckFailed as
    quantize.locator.built.
    """
    from kokoro_ane.quantize.locator import built

    request = completed(runtime, request)
    level = request.method
    check_runtime(runtime, level)
    if not RUNTIMES[runtime].files:
        raise InputError(
            f"--runtime {runtime} is what levels are judged against: nothing of it can be lost"
        )
    method = (
        method_named(level)
        if RUNTIMES[runtime].packages
        else METHODS.get(level) or Method(level, f"{level}, as exported", None)
    )
    request = named(runtime, request)
    manifest = built(request, build)
    if request.files:
        module_of(runtime).check(manifest, request)
    return method, manifest


def build_missing(runtime: str, request: "Request", build: "Build") -> None:
    """Build encoder and vocoder of a level, each where it is missing; nothing of fp32 packages, a
    reference. Raises as judged_manifest.
    """
    from kokoro_ane.quantize.locator import built, built_encoder

    if RUNTIMES[runtime].files and (request.method in METHODS or not RUNTIMES[runtime].packages):
        built_encoder(named(runtime, request), build)
        built(named(runtime, request), build)


def default_runtime() -> str:
    """The executed packages; ONNX Runtime where PyTorch, which executes them, is not installed."""
    return "onnx" if RUNTIMES[DEFAULT_RUNTIME].missing else DEFAULT_RUNTIME


def level_for(name: str, method: str) -> str:
    """`method`, or the runtime's own level where none is named."""
    return method or (RUNTIMES[name].levels[0] if name in RUNTIMES else LEVELS[0])


def open_runtime(name: str, request: "Request") -> Opened:
    """Raises InputError: unknown name, not this machine, not installed, no such package, packages
    of another checkpoint.
    """
    request = completed(name, request)
    check_runtime(name, request.method)
    return module_of(name).open_chain(request)


def completed(name: str, request: "Request") -> "Request":
    """With the runtime's own level and the default layout where none is named. InputError as
    check_names.
    """
    method = level_for(name, request.method)
    check_names(name, method, request.layout)
    layouts = RUNTIMES[name].layouts
    layout = request.layout or default_layout(request.checkpoint, layouts)
    return replace(request, method=method, layout=layout)


def check_runtime(name: str, method: str, platform: str = sys.platform, layout: str = "") -> None:
    """InputError for names that do not exist, a level or layout that the runtime has not, and a
    runtime that is not on this machine.
    """
    check_names(name, method, layout)
    runtime = RUNTIMES[name]
    if runtime.platform is not None and platform != runtime.platform:
        system = {"darwin": "macOS"}.get(runtime.platform, runtime.platform)
        raise InputError(
            f"runtime {name} needs {system}, here is {platform}: --runtime mlprogram executes the"
            " same packages anywhere"
        )
    if runtime.missing:
        raise InputError(
            f"runtime {name} needs {runtime.missing[0]}, which is not installed: {runtime.install}"
        )


def check_names(name: str, method: str, layout: str) -> None:
    """InputError for names that do not exist, and a level or layout that the runtime has not."""
    for what, value, names in (
        ("runtime", name, RUNTIMES),
        ("method", method, LEVELS),
        ("layout", layout, ("", *LAYOUTS)),
    ):
        if value not in names:
            # the message proposes the nearest names
            near = difflib.get_close_matches(value, names, n=2, cutoff=0.5)
            hint = f"; did you mean {' or '.join(near)}?" if near else "."
            raise InputError(
                f"unknown {what} {value!r}{hint} There are: {', '.join(filter(None, names))}"
            )
    runtime = RUNTIMES[name]
    if method not in runtime.levels:
        raise InputError(
            f"--method {method} is a package: {runtime.title} has only {', '.join(runtime.levels)};"
            " use --runtime mlprogram"
        )
    if layout and layout not in runtime.layouts:
        raise InputError(
            f"{LAYOUT_FLAGS.get(layout) or f'--layout {layout}'} is a package: {runtime.title} has"
            f" only {', '.join(runtime.layouts)}; use --runtime mlprogram"
        )
