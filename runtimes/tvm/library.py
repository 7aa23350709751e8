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
from typing import Any

import numpy as np

from kokoro_ane.core.errors import InputError
from kokoro_ane.runtimes.portable import PortableFunction

NAME, SUFFIX = "tvm", ".so"
TOOLS: tuple[str, ...] = ("torch", "apache-tvm", "numpy")
# what the project was run with: pyproject.toml
MADE_WITH = "0.27.0.post1"
MAIN = "main"
SMALL_TILE = (16, 4)
# of x86-64: what a processor must have for it, and a convolution's tile in its registers: values of
# time, outputs
LEVELS = {
    "x86-64-v4": (
        {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx2", "fma", "bmi2"},
        (48, 8),
    ),
    "x86-64-v3": ({"avx2", "fma", "bmi2", "f16c", "movbe"}, SMALL_TILE),
}


def processor(described: str, machine: str) -> str:
    """The level of x86-64 that a /proc/cpuinfo shows, "" for none; the machine's own name
    elsewhere.
    """
    if machine not in ("x86_64", "AMD64"):
        return machine
    flags = set(
        next((line for line in described.splitlines() if line.startswith("flags")), "").split()
    )
    return next((level for level, (needed, _) in LEVELS.items() if needed <= flags), "x86-64")


def _here() -> str:
    listed = Path("/proc/cpuinfo")
    return processor(listed.read_text() if listed.is_file() else "", platform.machine())


def _version() -> str:
    try:
        return version("apache-tvm")
    except PackageNotFoundError:
        return MADE_WITH


PROCESSOR = _here()
TARGET = f"TVM {_version()}, {PROCESSOR}"


def write(function: PortableFunction, path: Path) -> None:
    """Export, import, compile with LLVM, link."""
    import tvm
    from tvm import relax

    from kokoro_ane.runtimes.tvm.tvm_import import imported

    _, (tile, rows) = LEVELS.get(PROCESSOR, (set(), SMALL_TILE))
    # a product and a sum may become one operation
    made_for = {"kind": "llvm", "fast-math-contract": True} | (
        {"mcpu": PROCESSOR} if PROCESSOR.startswith("x86-64") else {}
    )
    module = relax.transform.DeadCodeElimination()(imported(function, tile, rows))
    relax.build(module, tvm.target.Target(made_for)).export_library(str(path))


class TvmProgram:
    """One library in TVM's virtual machine.

    Raises InputError for a file that TVM does not load. A library knows positions only: values
    stand in the order of their names.
    """

    def __init__(self, path: Path, inputs: Iterable[str], outputs: Iterable[str]) -> None:
        import tvm
        from tvm import relax

        self.path, self.inputs, self.names = path, tuple(sorted(inputs)), tuple(sorted(outputs))
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
    """Its entries: what was compiled has no operations any more."""
    return {MAIN: 1}
