"""What the commands of this folder share: exit codes, agreement in dB, inputs for a
program, memory of the process.

    given = some_inputs(Program("Model.mlpackage").inputs, seed=0)
    snr_db(reference["y"], other["y"])
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from mlprogram.dtypes import BY_NAME
from mlprogram.errors import ProgramError
from mlprogram.examine import shape_argument
from mlprogram.examine.storage import choose_shapes
from mlprogram.interface import TensorSpec

ROOT = Path(__file__).resolve().parents[2]  # the folder that holds mlprogram/


def snr_db(reference: np.ndarray, other: np.ndarray) -> float:
    """10 log10(|reference|^2 / |reference - other|^2) in float64; infinite where they are equal."""
    reference, other = np.asarray(reference, np.float64), np.asarray(other, np.float64)
    noise = np.square(reference - other).sum()
    return float(10 * np.log10(np.square(reference).sum() / noise)) if noise else float("inf")


def some_inputs(
    specs: Mapping[str, TensorSpec], seed: int, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> dict[str, np.ndarray]:
    """Numbers of the declared types: normal ones of scale 0.3, or 0 and 1. `shapes`: others than
    the defaults.
    """
    random = np.random.default_rng(seed)
    given = {}
    for name, shape in choose_shapes(specs, shapes or {}, paired=True).items():
        dtype = BY_NAME[specs[name].dtype]
        numbers = (
            random.standard_normal(shape) * 0.3 if dtype.is_float else random.integers(0, 2, shape)
        )
        given[name] = numbers.astype(dtype.numpy)
    return given


def stored_inputs(path: Path, specs: Mapping[str, TensorSpec]) -> dict[str, np.ndarray]:
    """The inputs that an .npz file holds by name. Raises ProgramError for another file, and for one
    without an input.
    """
    try:
        with np.load(path) as arrays:
            given = {name: arrays[name] for name in specs if name in arrays}
    except (ValueError, TypeError) as problem:
        raise ProgramError(f"{path} is not an .npz file: {problem}") from None
    missing = sorted(set(specs) - set(given))
    if missing:
        raise ProgramError(
            f"{path} holds no {', '.join(missing)}; the program takes {', '.join(specs)}"
        )
    return given


def add_input_flags(parser: argparse.ArgumentParser) -> None:
    """Where the inputs of a package come from: see inputs_of."""
    parser.add_argument(
        "--inputs",
        type=Path,
        metavar="FILE",
        help="an .npz file with inputs by name (default: random ones)",
    )
    parser.add_argument(
        "--shape",
        type=shape_argument,
        action="append",
        default=[],
        metavar="NAME=n,n,...",
        help="shape of a random input",
    )
    parser.add_argument("--seed", type=int, default=0, help="of random inputs")


def inputs_of(
    arguments: argparse.Namespace, specs: Mapping[str, TensorSpec]
) -> dict[str, np.ndarray]:
    """The inputs that the flags ask for. Raises ProgramError where they do not fit."""
    return (
        stored_inputs(arguments.inputs, specs)
        if arguments.inputs
        else some_inputs(specs, arguments.seed, dict(arguments.shape))
    )


def resident_kib(field: str) -> int:
    """VmRSS or VmHWM of this process in KiB (Linux)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith(field)).split()[1])


def peak_mib(call: Callable[[], object]) -> float:
    """Most memory held during `call` above what was held before, in MiB (Linux: resident memory,
    its high-water mark reset before).
    """
    import ctypes

    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # give freed pages back, so that they count again
    before = resident_kib("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets VmHWM
    call()
    return (resident_kib("VmHWM") - before) / 1024
