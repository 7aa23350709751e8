"""A measured figure against its limit, and the signal-to-noise ratio that most of them are.

Check("F0 against PyTorch", snr_db(reference, other), limit=100.0, at_least=True, unit="dB").holds
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_ane.core.errors import CheckFailed

if TYPE_CHECKING:
    from mlprogram import OpenProgram, Operation, Program


# What a package or file of a precision must reach against the model in float64. fp32: speech of the
# usual level, -26 dB below full scale (ITU-T P.56), has 75 dB once it is written as 16 bits, so an
# error below that is in no file; float32's own rounding leaves 90 dB of a sentence, more or less
# by processor. fp16: noise at 40 dB costs less PESQ than another noise seed does.
LIMIT_SNR_DB = {"fp16": 40.0, "fp32": 75.0}


def snr_db(reference: np.ndarray, other: np.ndarray) -> float:
    """10 log10(|reference|^2 / |reference - other|^2) in float64; infinite where they are equal."""
    reference, other = np.asarray(reference, np.float64), np.asarray(other, np.float64)
    # The sum of squares is 0 only where every sample is equal.
    noise = np.square(reference - other).sum()
    return float(10 * np.log10(np.square(reference).sum() / noise)) if noise else float("inf")


def rmse(reference: np.ndarray, other: np.ndarray) -> float:
    """Root of the mean squared difference, in the unit of both."""
    return float(
        np.sqrt(np.square(np.asarray(reference, np.float64) - np.asarray(other, np.float64)).mean())
    )


@dataclass(frozen=True)
class Check:
    """One measured figure against its limit."""

    name: str
    value: float
    limit: float
    at_least: bool
    unit: str = "dB"

    @property
    def holds(self) -> bool:
        """NaN never holds."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def text(self) -> tuple[str, str]:
        """Return the figure and its limit as text."""
        return (
            f"{self.value:.3g} {self.unit}",
            f"{'>=' if self.at_least else '<='} {self.limit:g} {self.unit}",
        )


def open_functions(path: Path) -> "tuple[OpenProgram, ...]":
    """Every function of a package, for examination. Raises ProgramError as open_program."""
    from mlprogram import open_package, open_program

    return tuple(open_program(path, name) for name in open_package(path).function_names())


INT8_STORAGE = ("constexpr_affine_dequantize", "constexpr_blockwise_shift_scale")
STORAGE = ("const", *INT8_STORAGE, "constexpr_lut_to_dense")


def computing(program: "Program") -> "list[Operation]":
    """Return the operations that compute, without constants and the unpacking of weights."""
    return [op for op in program.operations if op.op_type not in STORAGE]


@dataclass(frozen=True)
class ProgramFacts:
    """Counts over the operations that compute. `forbidden`: those that the stage promises not to
    use, with how often they stand there.
    """

    operations: dict[str, int]
    forbidden: dict[str, int]
    enumerated_shapes: int
    fp16_operations: int
    int8_weights: int

    @classmethod
    def from_program(
        cls, program: "Program", flexible: str, forbidden: tuple[str, ...]
    ) -> "ProgramFacts":
        """Walk the program. `flexible`: the input whose shapes are enumerated."""
        operations = computing(program)
        counts = Counter(op.op_type for op in operations)
        return cls(
            operations=dict(sorted(counts.items())),
            forbidden={name: counts[name] for name in forbidden if counts[name]},
            enumerated_shapes=len(program.inputs[flexible].shapes),
            fp16_operations=sum(
                any(value.dtype.name == "fp16" for value in op.outputs) for op in operations
            ),
            int8_weights=sum(op.op_type in INT8_STORAGE for op in program.operations),
        )

    @property
    def count(self) -> int:
        """Operations in all."""
        return sum(self.operations.values())

    def promises(self, precision: str, lengths: int) -> dict[str, bool]:
        """Return what every stage promises: message -> whether it holds."""
        return {
            f"operations that do not belong there: {self.forbidden}": not self.forbidden,
            # One length is a fixed shape, of which a program lists none.
            f"{self.enumerated_shapes} enumerated shapes for {lengths} lengths": (
                self.enumerated_shapes == lengths or lengths == 1
            ),
            f"{self.fp16_operations} operations in fp16": (
                precision == "fp16" or not self.fp16_operations
            ),
        }

    def as_dict(self) -> dict[str, Any]:
        """For the manifest."""
        return asdict(self) | {"count": self.count}


def require(promises: Mapping[str, bool], where: str) -> None:
    """Raise CheckFailed naming the first promise that is broken."""
    for message, holds in promises.items():
        if not holds:
            raise CheckFailed(f"structure of {where}: {message}")
