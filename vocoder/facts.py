"""What the exported program is made of: the structural promises of the vocoder, read off the executed package.

facts = VocoderFacts.of(Program(path)); facts.require(precision="fp16", buckets=14)
"""

from dataclasses import dataclass

from core.contract import FEATURES
from core.facts import ProgramFacts, computing, require
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


@dataclass(frozen=True)
class VocoderFacts(ProgramFacts):
    """Also the ranks, and where fp16 ends and the fp32 tail begins."""

    not_rank_4: int
    fp32_outside_tail: tuple[str, ...]
    fp16_inside_tail: tuple[str, ...]
    tail_operations: int

    @classmethod
    def of(cls, program: Program, flexible: str = FEATURES, forbidden: tuple[str, ...] = FORBIDDEN) -> "VocoderFacts":
        """Walk the program. The tail is conv_post (the convolution that feeds exp), all that is computed from it, and the envelope."""
        operations = computing(program)
        tail = _tail(operations)
        floats = [(op, value) for op in operations for value in op.outputs if value.dtype.is_float]
        return cls(
            **vars(ProgramFacts.of(program, flexible, forbidden)),
            not_rank_4=sum(len(value.shape) != 4 for _, value in floats),
            fp32_outside_tail=tuple(op.name for op, value in floats if value.dtype.name == "fp32" and op.name not in tail),
            fp16_inside_tail=tuple(op.name for op, value in floats if value.dtype.name == "fp16" and op.name in tail),
            tail_operations=len(tail),
        )

    def require(self, precision: str, buckets: int) -> None:
        """Raise CheckFailed naming the first promise that is broken."""
        own = {
            f"{self.not_rank_4} tensors are not of rank 4": not self.not_rank_4,
            f"fp16 inside the fp32 tail: {self.fp16_inside_tail[:3]}": not self.fp16_inside_tail,
            f"fp32 outside the tail: {self.fp32_outside_tail[:3]}": precision == "fp32" or not self.fp32_outside_tail,
        }
        require(self.promises(precision, buckets) | own, "the program")


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
