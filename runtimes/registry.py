"""The runtimes by name: PyTorch, the packages executed or in Core ML, ONNX Runtime, ExecuTorch and
TVM. One module each.

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
    """An opened encoder and vocoder. `made_of`: the hash of each package or file by its name; a
    hash changes whenever the audio may.
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
        """Both with their hashes. `encoders`: the encoder's manifests. An utterance longer than the
        vocoder takes is refused as soon as its durations are known.
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
    """A runtime and what it can open.

    module: the module with open_chain; after a colon the name of a FileRuntime in it.
    levels, layouts: the ones that it has; the first level is its default.
    platform: the only platform that it runs on; None means any.
    needs: the modules that it imports; install: the command that installs them.
    files: the suffix of the files that it opens; "" means none. One that opens files also has
        open_manifests(encoders, vocoder) and open_vocoder(manifest).
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
    """The runtime's imported module, or its FileRuntime: what opens its chain."""
    module, _, inside = RUNTIMES[name].module.partition(":")
    imported = importlib.import_module(module)
    return getattr(imported, inside) if inside else imported


def default_runtime() -> str:
    """The executed packages; ONNX Runtime where PyTorch, which executes them, is not installed."""
    return "onnx" if RUNTIMES[DEFAULT_RUNTIME].missing else DEFAULT_RUNTIME


def runtime_for(package: str) -> str:
    """The first runtime that opens a file of that name. InputError where there is none, or where it
    is not installed.
    """
    for name, runtime in RUNTIMES.items():
        if runtime.files and package.endswith(runtime.files):
            check_runtime(name)
            return name
    raise InputError(
        f"{package} is of no runtime; there are"
        f" {', '.join(sorted({r.files for r in RUNTIMES.values() if r.files}))}"
    )


def resolve(name: str, request: "Request") -> "Request":
    """The request for a runtime: its first level and the default layout where the request has none,
    and the runtime's own files where it does not run packages. InputError as check_names.
    """
    check_names(name, request.method, request.layout)
    runtime = RUNTIMES[name]
    return replace(
        request,
        method=request.method or runtime.levels[0],
        layout=request.layout or default_layout(request.checkpoint, runtime.layouts),
        files=name if runtime.files and not runtime.packages else "",
    )


def open_runtime(name: str, request: "Request") -> Opened:
    """Open encoder and vocoder. Raises InputError: unknown name, not this machine, not installed,
    no such package, packages of another checkpoint.
    """
    request = resolve(name, request)
    check_runtime(name, request.method)
    return module_of(name).open_chain(request)


def files_of(name: str, request: "Request") -> tuple[tuple[Path, ...], Path]:
    """The manifests of the encoder and of the vocoder that a runtime opens. InputError as
    open_runtime, and for a runtime that opens no files.
    """
    request = resolve(name, request)
    if not RUNTIMES[name].files:
        raise InputError(f"--runtime {name} has no files: it reads the checkpoint")
    return module_of(name).paths(request) if request.files else request.paths()


def judged_manifest(runtime: str, request: "Request", build: "Build") -> "tuple[Method, Manifest]":
    """The method and the vocoder's manifest of a runtime's level, built where it is missing. Raises
    InputError and CheckFailed as quantize.locator.built.
    """
    from kokoro_ane.quantize.locator import built

    request = resolve(runtime, request)
    level = request.method
    check_runtime(runtime, level)
    if not RUNTIMES[runtime].files:
        raise InputError(
            f"--runtime {runtime} is what levels are judged against: nothing of it can be lost"
        )
    method = (
        (METHODS.get(level) or Method(level, f"{level}, as exported", None))
        if request.files
        else method_named(level)
    )
    manifest = built(request, build)
    if request.files:
        module_of(runtime).check(manifest, request)
    return method, manifest


def build_missing(runtime: str, request: "Request", build: "Build") -> None:
    """Build encoder and vocoder of a resolved request where they are missing. fp32 packages are a
    reference, which is not built on the way. Raises as judged_manifest.
    """
    from kokoro_ane.quantize.locator import built, built_encoder

    if request.files or (RUNTIMES[runtime].packages and request.method in METHODS):
        built_encoder(request, build)
        built(request, build)


def check_runtime(
    name: str, method: str = "", platform: str = sys.platform, layout: str = ""
) -> None:
    """InputError for names that do not exist, a level or layout that the runtime does not have, and
    a runtime that cannot run on this machine. An empty method or layout stands for any.
    """
    check_names(name, method, layout)
    runtime = RUNTIMES[name]
    if runtime.platform is not None and platform != runtime.platform:
        raise InputError(
            f"runtime {name} needs macOS, here is {platform}: --runtime mlprogram executes the same"
            " packages anywhere"
        )
    if runtime.missing:
        raise InputError(
            f"runtime {name} needs {runtime.missing[0]}, which is not installed: {runtime.install}"
        )


def check_names(name: str, method: str, layout: str) -> None:
    """InputError for names that do not exist, and a level or layout that the runtime does not
    have.
    """
    for what, value, names in (
        ("runtime", name, RUNTIMES),
        ("method", method, ("", *LEVELS)),
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
    layout_flag = LAYOUT_FLAGS.get(layout) or f"--layout {layout}"
    for flag, value, names in (
        (f"--method {method}", method, runtime.levels),
        (layout_flag, layout, runtime.layouts),
    ):
        if value and value not in names:
            raise InputError(
                f"{flag} is a package: {runtime.title} has only {', '.join(names)}; use --runtime"
                " mlprogram"
            )
