"""What an exported function is made of: counts read off the program, and the promises that a stage makes about them.

facts = ProgramFacts.of(Program(path), flexible="features", forbidden=("transpose", "gather"))
require({f"{facts.count} operations, limit 400": facts.count <= 400}, "function main")
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from core.errors import CheckFailed
from mlprogram import Program
from mlprogram.graph import Operation

INT8_STORAGE = ("constexpr_affine_dequantize", "constexpr_blockwise_shift_scale")
STORAGE = ("const", *INT8_STORAGE, "constexpr_lut_to_dense")


def computing(program: Program) -> list[Operation]:
    """The operations that compute: constants and the unpacking of weights left out."""
    return [op for op in program.operations if op.op_type not in STORAGE]


@dataclass(frozen=True)
class ProgramFacts:
    """Counts over the operations that compute. `forbidden`: those that the stage promises not to use, with how often they stand there."""

    operations: dict[str, int]
    forbidden: dict[str, int]
    enumerated_shapes: int
    fp16_operations: int
    int8_weights: int

    @classmethod
    def of(cls, program: Program, flexible: str, forbidden: tuple[str, ...]) -> "ProgramFacts":
        """Walk the program. `flexible`: the input whose shapes are enumerated."""
        operations = computing(program)
        counts = Counter(op.op_type for op in operations)
        return cls(
            operations=dict(sorted(counts.items())),
            forbidden={name: counts[name] for name in forbidden if counts[name]},
            enumerated_shapes=len(program.inputs[flexible].shapes),
            fp16_operations=sum(any(value.dtype.name == "fp16" for value in op.outputs) for op in operations),
            int8_weights=sum(op.op_type in INT8_STORAGE for op in program.operations),
        )

    @property
    def count(self) -> int:
        """Operations in all."""
        return sum(self.operations.values())

    def promises(self, precision: str, lengths: int) -> dict[str, bool]:
        """What every stage promises: message -> kept."""
        return {
            f"operations that do not belong there: {self.forbidden}": not self.forbidden,
            f"{self.enumerated_shapes} enumerated shapes for {lengths} lengths": self.enumerated_shapes == lengths or lengths == 1,
            f"{self.fp16_operations} operations in fp16": precision == "fp16" or not self.fp16_operations,
        }

    def as_dict(self) -> dict[str, Any]:
        """For the manifest."""
        return asdict(self) | {"count": self.count}


def require(promises: Mapping[str, bool], where: str) -> None:
    """Raise CheckFailed naming the first promise that is broken."""
    for message, kept in promises.items():
        if not kept:
            raise CheckFailed(f"structure of {where}: {message}")
