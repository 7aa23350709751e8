"""What the package is made of: the structural promises of the neural model, read off the executed program.

facts = ProgramFacts.of(Program(path))
facts.require(method="w8", shapes=15)
"""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from g2p.sizes import Config
from mlprogram import Program
from pipeline.errors import CheckFailed

IDS, LOGITS = "ids", "logits"
FORBIDDEN = ("lstm", "gru", "rnn", "while_loop", "cond", "shape", "reshape", "scatter", "scatter_nd", "scatter_along_axis",
             "gather_along_axis", "gather_nd", "non_zero", "random_normal", "random_uniform", "random_bernoulli")  # fmt: skip
MAX_OPERATIONS = 400
_STORAGE = ("const", "constexpr_affine_dequantize", "constexpr_blockwise_shift_scale", "constexpr_lut_to_dense")


@dataclass(frozen=True)
class ProgramFacts:
    """Counts over the operations that compute (constants left out)."""

    operations: dict[str, int]
    forbidden: dict[str, int]
    enumerated_shapes: int
    fp16_operations: int
    int8_weights: int

    @classmethod
    def of(cls, program: Program) -> "ProgramFacts":
        """Walk the program."""
        computing = [op for op in program.operations if op.op_type not in _STORAGE]
        counts = Counter(op.op_type for op in computing)
        return cls(
            operations=dict(sorted(counts.items())),
            forbidden={name: counts[name] for name in FORBIDDEN if counts[name]},
            enumerated_shapes=len(program.inputs[IDS].shapes),
            fp16_operations=sum(any(value.dtype.name == "fp16" for value in op.outputs) for op in computing),
            int8_weights=sum(op.op_type in _STORAGE[1:3] for op in program.operations),
        )

    @property
    def count(self) -> int:
        """Operations in all."""
        return sum(self.operations.values())

    def require(self, method: str, shapes: int, config: Config) -> None:
        """Raise CheckFailed naming the first promise that is broken."""
        gathers, matrices = self.operations.get("gather", 0), matrix_count(config)
        promises = {
            f"operations of recurrence, of shapes or of data: {self.forbidden}": not self.forbidden,
            f"{gathers} gathers, expected 1: the embedding": gathers == 1,
            f"{self.count} operations, limit {MAX_OPERATIONS}": self.count <= MAX_OPERATIONS,
            f"{self.enumerated_shapes} enumerated shapes, expected {shapes}": self.enumerated_shapes == shapes,
            f"{self.fp16_operations} operations in fp16": method == "fp16" or not self.fp16_operations,
            f"{self.int8_weights} weights in int8, expected {matrices}": self.int8_weights == (matrices if method == "w8" else 0),
        }
        for message, kept in promises.items():
            if not kept:
                raise CheckFailed(f"structure of the package: {message}")

    def as_dict(self) -> dict[str, Any]:
        """For the manifest."""
        return asdict(self) | {"count": self.count}


def matrix_count(config: Config) -> int:
    """Linear layers: six in a block, the answer (a second time for each answer midway when it is not shared), the condition."""
    return 6 * config.blocks + 2
