"""What the exported functions are made of: the encoder's structural promises, read off the executed package.

facts = FunctionFacts.of(Program(path, function="duration"), DURATION)
facts.require(precision="fp16", buckets=10, lstms=5)
"""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from core.contract import DURATION, FRAMES, INPUT_IDS
from core.errors import CheckFailed
from mlprogram import Program

FORBIDDEN = ("random_normal", "random_uniform", "random_bernoulli", "random_categorical", "while_loop", "cond", "scatter", "scatter_nd",
             "scatter_along_axis", "gather_along_axis", "non_zero", "shape", "reverse", "reverse_sequence")  # fmt: skip
MAX_OPERATIONS = 1500  # a masked unrolled LSTM was 134,397 and compiled for ten minutes
_STORAGE = ("const", "constexpr_affine_dequantize", "constexpr_blockwise_shift_scale", "constexpr_lut_to_dense")


@dataclass(frozen=True)
class FunctionFacts:
    """Counts over the operations that compute (constants left out)."""

    function: str
    operations: dict[str, int]
    forbidden: dict[str, int]
    enumerated_shapes: int
    fp16_operations: int

    @classmethod
    def of(cls, program: Program, function: str) -> "FunctionFacts":
        """Walk the program."""
        operations = [op for op in program.operations if op.op_type not in _STORAGE]
        counts = Counter(op.op_type for op in operations)
        flexible = INPUT_IDS if function == DURATION else FRAMES
        return cls(
            function=function,
            operations=dict(sorted(counts.items())),
            forbidden={name: counts[name] for name in FORBIDDEN if counts[name]},
            enumerated_shapes=len(program.inputs[flexible].shapes),
            fp16_operations=sum(any(value.dtype.name == "fp16" for value in op.outputs) for op in operations),
        )

    @property
    def count(self) -> int:
        """Operations in all."""
        return sum(self.operations.values())

    def require(self, precision: str, buckets: int, lstms: int) -> None:
        """Raise CheckFailed naming the first promise that is broken. `lstms`: two-way LSTMs of the PyTorch function, one operation each."""
        found = self.operations.get("lstm", 0)
        promises = {
            f"operations that hang on data: {self.forbidden}": not self.forbidden,
            f"{self.count} operations, limit {MAX_OPERATIONS}": self.count < MAX_OPERATIONS,
            f"{found} LSTMs, expected {lstms}": found == lstms,
            f"{self.enumerated_shapes} enumerated shapes for {buckets} buckets": self.enumerated_shapes == buckets or buckets == 1,
            f"{self.fp16_operations} operations in fp16": precision == "fp16" or not self.fp16_operations,
        }
        for message, kept in promises.items():
            if not kept:
                raise CheckFailed(f"structure of function {self.function}: {message}")

    def as_dict(self) -> dict[str, Any]:
        """For the manifest."""
        return asdict(self) | {"count": self.count}
