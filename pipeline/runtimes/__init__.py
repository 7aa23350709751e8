"""Who computes the chain, by name: PyTorch, the packages executed or in Core ML, ONNX Runtime, ExecuTorch, TVM. One module each.

    opened = open_runtime("mlprogram", Request(checkpoint, Path("build"), method="w8a8", form="windowed"))
    chain = Chain(vocab, voice, opened.encoder, opened.vocoder)

A new runtime is a line in RUNTIMES and a module with `open_chain(request) -> Opened`.
"""

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING

from core.contract import FORMS, LITERAL
from core.errors import InputError
from quantize.methods import CONVERTED, LEVELS

if TYPE_CHECKING:
    from core.checkpoint import Checkpoint
    from encoder.steps import EncoderBackend
    from vocoder.steps import VocoderBackend


PACKAGE, DEFAULT_RUNTIME = ".mlpackage", "mlprogram"


@dataclass(frozen=True)
class Request:
    """What is to be opened: packages of `checkpoint` in `build`, the vocoder's at that level and form; "" is the runtime's own level."""

    checkpoint: "Checkpoint"
    build: Path
    method: str = ""
    form: str = LITERAL


@dataclass(frozen=True, eq=False)
class Opened:
    """Who computes, and what they are made of by name: hashes that change whenever the audio may."""

    encoder: "EncoderBackend"
    vocoder: "VocoderBackend"
    made_of: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Runtime:
    """`levels`, `forms`: those it has, its own choice first; `module`: where open_chain stands; `platform`: the only one it runs on.

    `needs`: modules that must be there; `install`: the one command that installs them. `files`: suffix of what it opens, "" for nothing.
    A module with files has `manifest_paths(request)`, `open_manifests(encoders, vocoder)` and `open_vocoder(manifest)` too, and
    `vocoder_path(request)` where they are no packages.
    """

    title: str
    module: str
    levels: tuple[str, ...] = LEVELS
    forms: tuple[str, ...] = FORMS
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
        "torch": Runtime("PyTorch", "pipeline.runtimes.pytorch", levels=CONVERTED[::-1]),
        "mlprogram": Runtime("the packages, executed on any machine", "pipeline.runtimes.executed", files=PACKAGE),
        "coreml": Runtime("the packages, run by Core ML", "pipeline.runtimes.coreml", platform="darwin", files=PACKAGE),
        "onnx": Runtime(
            "ONNX Runtime",
            "pipeline.runtimes.onnx",
            levels=("fp32", "w8", "w8a8"),
            forms=(LITERAL,),
            needs=("onnxruntime",),
            install='pip install "kokoro-ane[onnx]"',
            files=".onnx",
        ),
        "executorch": Runtime(
            "ExecuTorch",
            "pipeline.runtimes.executorch",
            levels=("fp32",),
            forms=(LITERAL,),
            needs=("torch", "executorch"),
            install='pip install "kokoro-ane[executorch]"',
            files=".pte",
        ),
        "tvm": Runtime(
            "TVM",
            "pipeline.runtimes.tvm",
            levels=("fp32",),
            forms=(LITERAL,),
            needs=("tvm",),
            install='pip install "kokoro-ane[tvm]"',
            files=".so",
        ),
    }
)


def module_of(name: str) -> ModuleType:
    """The runtime's module, imported."""
    return importlib.import_module(RUNTIMES[name].module)


def runtime_for(package: str) -> str:
    """Who opens a file of that name, on any machine. InputError where nobody does, or it is not installed."""
    found = next((name for name, runtime in RUNTIMES.items() if runtime.files and package.endswith(runtime.files)), None)
    if found is None:
        raise InputError(f"{package} is of no runtime; there are {', '.join(sorted({r.files for r in RUNTIMES.values() if r.files}))}")
    check_runtime(found, RUNTIMES[found].levels[0])
    return found


def files_of(name: str, request: Request) -> tuple[tuple[Path, ...], Path]:
    """Manifests of the encoder and of the vocoder that a runtime opens. InputError as open_runtime, and for one that opens no files."""
    request = replace(request, method=level_for(name, request.method))
    check_names(name, request.method, request.form)
    if not RUNTIMES[name].files:
        raise InputError(f"--runtime {name} has no files: it reads the checkpoint")
    found: tuple[tuple[Path, ...], Path] = module_of(name).manifest_paths(request)
    return found


def default_runtime() -> str:
    """The executed packages; ONNX Runtime where PyTorch, which executes them, is not installed."""
    return "onnx" if RUNTIMES[DEFAULT_RUNTIME].missing else DEFAULT_RUNTIME


def level_for(name: str, method: str) -> str:
    """`method`, or the runtime's own level where none is named."""
    return method or (RUNTIMES[name].levels[0] if name in RUNTIMES else LEVELS[0])


def open_runtime(name: str, request: Request) -> Opened:
    """Raises InputError: unknown name, not this machine, not installed, no such package, packages of another checkpoint."""
    request = replace(request, method=level_for(name, request.method))
    check_runtime(name, request.method, form=request.form)
    return module_of(name).open_chain(request)


def check_runtime(name: str, method: str, platform: str = sys.platform, form: str = LITERAL) -> None:
    """InputError for names that do not exist, a level or form that the runtime has not, and a runtime that is not on this machine."""
    check_names(name, method, form)
    runtime = RUNTIMES[name]
    if runtime.platform is not None and platform != runtime.platform:
        system = {"darwin": "macOS"}.get(runtime.platform, runtime.platform)
        raise InputError(f"runtime {name} needs {system}, here is {platform}: --runtime mlprogram executes the same packages anywhere")
    if runtime.missing:
        raise InputError(f"runtime {name} needs {runtime.missing[0]}, which is not installed: {runtime.install}")


def check_names(name: str, method: str, form: str) -> None:
    """InputError for names that do not exist, and a level or form that the runtime has not."""
    _require_known("runtime", name, RUNTIMES)
    _require_known("method", method, LEVELS)
    _require_known("form", form, FORMS)
    runtime = RUNTIMES[name]
    if method not in runtime.levels:
        raise InputError(f"--method {method} is a package: {runtime.title} has only {', '.join(runtime.levels)}; use --runtime mlprogram")
    if form not in runtime.forms:
        raise InputError(f"--form {form} is a package: {runtime.title} has only {', '.join(runtime.forms)}; use --runtime mlprogram")


def _require_known(what: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        near = difflib.get_close_matches(name, known, n=2, cutoff=0.5)
        hint = f"; did you mean {' or '.join(near)}?" if near else "."
        raise InputError(f"unknown {what} {name!r}{hint} There are: {', '.join(known)}")
