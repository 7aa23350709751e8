"""What the exported program is made of: the structural promises of the vocoder, read off the executed package.

facts = ProgramFacts.of(Program(path)); facts.require(precision="fp16")
"""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from core.contract import FEATURES
from core.errors import CheckFailed
from mlprogram import Program
from mlprogram.graph import Operation

FORBIDDEN = (
    "linear",
    "matmul",
    "transpose",
    "gather",
    "gather_nd",
    "gather_along_axis",
    "scatter",
    "scatter_nd",
    "scatter_along_axis",
    "shape",
    "random_normal",
    "random_uniform",
    "random_bernoulli",
    "random_categorical",
    "mod",
    "lstm",
    "crop",
    "cond",
    "while_loop",
)
_STORAGE = ("const", "constexpr_affine_dequantize", "constexpr_blockwise_shift_scale", "constexpr_lut_to_dense")


@dataclass(frozen=True)
class ProgramFacts:
    """Counts over the operations that compute (constants and weight decompression left out)."""

    operations: dict[str, int]
    forbidden: dict[str, int]
    not_rank_4: int
    fp32_outside_tail: tuple[str, ...]
    fp16_inside_tail: tuple[str, ...]
    tail_operations: int
    enumerated_shapes: int

    @classmethod
    def of(cls, program: Program) -> "ProgramFacts":
        """Walk the program. The tail is conv_post (the convolution that feeds exp), all that is computed from it, and the envelope."""
        operations = [op for op in program.operations if op.op_type not in _STORAGE]
        counts = Counter(op.op_type for op in operations)
        tail = _tail(operations)
        floats = [(op, value) for op in operations for value in op.outputs if value.dtype.is_float]
        return cls(
            operations=dict(sorted(counts.items())),
            forbidden={name: counts[name] for name in FORBIDDEN if counts[name]},
            not_rank_4=sum(len(value.shape) != 4 for _, value in floats),
            fp32_outside_tail=tuple(op.name for op, value in floats if value.dtype.name == "fp32" and op.name not in tail),
            fp16_inside_tail=tuple(op.name for op, value in floats if value.dtype.name == "fp16" and op.name in tail),
            tail_operations=len(tail),
            enumerated_shapes=len(program.inputs[FEATURES].shapes),
        )

    def require(self, precision: str, buckets: int) -> None:
        """Raise CheckFailed naming the first promise that is broken."""
        promises = {
            f"operations that do not belong on the engine: {self.forbidden}": not self.forbidden,
            f"{self.not_rank_4} tensors are not of rank 4": not self.not_rank_4,
            f"{self.enumerated_shapes} enumerated shapes for {buckets} buckets": self.enumerated_shapes == buckets or buckets == 1,
            f"fp16 inside the fp32 tail: {self.fp16_inside_tail[:3]}": not self.fp16_inside_tail,
            f"fp32 outside the tail: {self.fp32_outside_tail[:3]}": precision == "fp32" or not self.fp32_outside_tail,
        }
        for message, kept in promises.items():
            if not kept:
                raise CheckFailed(f"program structure: {message}")

    def as_dict(self) -> dict[str, Any]:
        """For the manifest, without the operation counts it holds elsewhere."""
        data = asdict(self)
        del data["operations"]
        return data


def _tail(operations: list[Operation]) -> set[str]:
    """Names of tail operations: conv_post, all that is computed from it, and fp32 operations that only these read (casts, envelope)."""
    producer = {value.name: op for op in operations for value in op.outputs}
    conv_post = next((op for op in operations if op.op_type == "exp"), None)
    if conv_post is None:
        return set()
    while conv_post.op_type != "conv":
        conv_post = next(producer[name] for name in _sources(conv_post) if name in producer)
    tail = {conv_post.name}
    for op in operations:
        if any(name in producer and producer[name].name in tail for name in _sources(op)):
            tail.add(op.name)
    read_by: dict[str, list[Operation]] = {}
    for op in operations:
        for name in _sources(op):
            read_by.setdefault(name, []).append(op)
    for op in reversed(operations):
        readers = [reader for value in op.outputs for reader in read_by.get(value.name, ())]
        if readers and op.outputs[0].dtype.name == "fp32" and all(reader.name in tail for reader in readers):
            tail.add(op.name)
    return tail


def _sources(op: Operation) -> list[str]:
    return [name for names in op.inputs.values() for name in names]
