"""PyTorch module to a library of machine code by TVM, any length up to a longest one, in float32,
and TVM's virtual machine to run it.

    write(function, Path("aside.so"))
    program = TvmProgram(Path("x.so"), inputs, outputs)
    waveform = program({"features": features, "style": style})["waveform"]

The library holds the weights and is made for one version of TVM and one kind of processor: both
stand in TARGET, which manifests keep. Writing needs torch and a C compiler as the linker; running
needs apache-tvm alone. LSTMs come as operators (encoder/lstm.py).
"""

import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_ane.core import InputError
from kokoro_ane.runtimes.portable import PortableFunction

if TYPE_CHECKING:
    from torch import nn

    from kokoro_ane.vocoder import Vocoder

NAME, SUFFIX = "tvm", ".so"
TOOLS: tuple[str, ...] = ("torch", "apache-tvm", "numpy")
# the version that the project was run with, as in pyproject.toml; it stands in for none installed
TESTED_VERSION = "0.27.0.post1"
MAIN = "main"
# levels of x86-64: the flags that a processor must have, and the values of time and the outputs
# that a convolution keeps in its registers
LEVELS = {
    "x86-64-v4": (
        {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx2", "fma", "bmi2"},
        (32, 8),
    ),
    "x86-64-v3": ({"avx2", "fma", "bmi2", "f16c", "movbe"}, (16, 4)),
    "x86-64": (set[str](), (16, 4)),
}
# of other processors
SMALL_TILE = (16, 4)


def find_processor(cpuinfo: str, machine: str) -> str:
    """The highest level of x86-64 that the text of /proc/cpuinfo shows; elsewhere the machine's
    name.
    """
    if machine not in ("x86_64", "AMD64"):
        return machine
    # One line of flags for each core; those of the first stand for all.
    lines = [line for line in cpuinfo.splitlines() if line.startswith("flags")]
    flags = set(" ".join(lines[:1]).split())
    # The levels fall, and the last needs no flag, so there is always one.
    return next(level for level, (needed, _) in LEVELS.items() if needed <= flags)


def read_version() -> str:
    """TVM's version."""
    try:
        return version("apache-tvm")
    except PackageNotFoundError:
        return TESTED_VERSION


CPUINFO = Path("/proc/cpuinfo")
PROCESSOR = find_processor(CPUINFO.read_text() if CPUINFO.is_file() else "", platform.machine())
TARGET = f"TVM {read_version()}, {PROCESSOR}"


def write(function: PortableFunction, path: Path) -> None:
    """Export, import, compile with LLVM, link."""
    import tvm
    from tvm import relax

    from kokoro_ane.runtimes.tvm.tvm_import import imported

    _, tile = LEVELS.get(PROCESSOR, (None, SMALL_TILE))
    # a product and a sum may become one operation, and a sum may be divided into lanes
    target: dict[str, Any] = {"kind": "llvm", "fast-math-contract": True, "fast-math-reassoc": True}
    if PROCESSOR in LEVELS:
        target["mcpu"] = PROCESSOR
    # What the decompositions left without a reader would be compiled too.
    module = relax.transform.DeadCodeElimination()(imported(function, tile))
    relax.build(module, tvm.target.Target(target)).export_library(str(path))


class TvmProgram:
    """One library in TVM's virtual machine.

    Raises InputError for a file that TVM does not load. A library knows positions only: values
    stand in the order of their names.
    """

    def __init__(self, path: Path, inputs: Iterable[str], outputs: Iterable[str]) -> None:
        import tvm
        from tvm import relax

        self.path = path
        self.inputs = tuple(sorted(inputs))
        self.names = tuple(sorted(outputs))
        self.tensor = tvm.runtime.tensor
        try:
            self.machine = relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu())
            self.main = self.machine[MAIN]
        except (RuntimeError, AttributeError, OSError, ValueError) as problem:
            reason = next(iter(str(problem).splitlines()), "")[:160]
            raise InputError(f"{path} is not read by {TARGET}: {reason}") from None

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Named inputs to named outputs."""
        outputs: Any = self.main(
            *(self.tensor(np.ascontiguousarray(inputs[name])) for name in self.inputs)
        )
        return {name: value.numpy() for name, value in zip(self.names, outputs, strict=True)}


open_file = TvmProgram


def counts_of(_: TvmProgram) -> dict[str, int]:
    """Its entries: compiled code has no operations that could be counted."""
    return {MAIN: 1}


def encoder_graph(function: "nn.Module") -> "nn.Module":
    """The function with each LSTM's loop as one operator, which has a kernel here."""
    from kokoro_ane.encoder import use_lstm_operators

    return use_lstm_operators(function)


def vocoder_network(vocoder: "Vocoder") -> "nn.Module":
    """The eager vocoder with norms that have a kernel here."""
    from kokoro_ane.runtimes.exported import replace_norms

    return replace_norms(vocoder)
