"""Who computes the chain, by name: PyTorch, the executed packages, Core ML on a Mac. One module a runtime, imported when it is asked for.

    opened = open_runtime("mlprogram", Request(checkpoint, Path("build"), method="w8a8", form="windowed"))
    chain = Chain(vocab, voice, opened.encoder, opened.vocoder)

A new runtime is a line in RUNTIMES and a module with `open_chain(request) -> Opened`.
"""

import difflib
import importlib
import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from core.contract import LITERAL
from core.errors import InputError
from quantize.methods import CONVERTED, LEVELS

if TYPE_CHECKING:
    from core.checkpoint import Checkpoint
    from encoder.steps import EncoderBackend
    from vocoder.steps import VocoderBackend


@dataclass(frozen=True)
class Request:
    """What is to be opened: packages of `checkpoint` in `build`, the vocoder's at that level and form."""

    checkpoint: "Checkpoint"
    build: Path
    method: str = "fp16"
    form: str = LITERAL


@dataclass(frozen=True, eq=False)
class Opened:
    """Who computes, and what they are made of by name: hashes that change whenever the audio may."""

    encoder: "EncoderBackend"
    vocoder: "VocoderBackend"
    made_of: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Runtime:
    """`levels`: those it has; `module`: where open_chain stands; `platform`: the only one it runs on."""

    title: str
    module: str
    levels: tuple[str, ...] = LEVELS
    platform: str | None = None


RUNTIMES = MappingProxyType(
    {
        "torch": Runtime("PyTorch", "pipeline.runtimes.pytorch", levels=CONVERTED),
        "mlprogram": Runtime("the packages, executed on any machine", "pipeline.runtimes.executed"),
        "coreml": Runtime("the packages, run by Core ML", "pipeline.runtimes.coreml", platform="darwin"),
    }
)


def open_runtime(name: str, request: Request) -> Opened:
    """Raises InputError: unknown name, not this machine, no such package, packages of another checkpoint."""
    check_runtime(name, request.method)
    return importlib.import_module(RUNTIMES[name].module).open_chain(request)


def check_runtime(name: str, method: str, platform: str = sys.platform) -> None:
    """InputError for names that do not exist, a level that the runtime has not, and a runtime that is not on this machine."""
    _require_known("runtime", name, RUNTIMES)
    _require_known("method", method, LEVELS)
    runtime = RUNTIMES[name]
    if method not in runtime.levels:
        raise InputError(f"--method {method} is a package: {runtime.title} has only {', '.join(runtime.levels)}; use --runtime mlprogram")
    if runtime.platform is not None and platform != runtime.platform:
        system = {"darwin": "macOS"}.get(runtime.platform, runtime.platform)
        raise InputError(f"runtime {name} needs {system}, here is {platform}: --runtime mlprogram executes the same packages anywhere")


def _require_known(what: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        near = difflib.get_close_matches(name, known, n=2, cutoff=0.5)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise InputError(f"unknown {what} {name!r}{hint} There are: {', '.join(known)}")
