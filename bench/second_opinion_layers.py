"""Where two executions of one package part: the operations whose outputs fall below a limit though all that they read lies above it.

    found = layers(subject, runtime, limit_db=50, shown=10)
    print(told_layers(found))

A difference of two large numbers that almost cancel agrees with itself badly and with them well, so an error counts against the scale of
what the value was made from: that of the largest operand, carried on through products.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.second_opinion_cases import Subject
from bench.second_opinion_runtime import Runtime, RuntimeRefused
from mlprogram.graph import Operation

MOVES = frozenset(("concat", "expand_dims", "reshape", "slice_by_index", "split", "squeeze", "transpose"))  # compute nothing: not watched
CANCELS = frozenset(("add", "sub", "reduce_mean", "reduce_sum"))
SCALES = frozenset(("mul", "real_div", "cast"))
EQUAL_DB = 1e3


def rms(value: np.ndarray) -> float:
    """Root of the mean square, in float64; 0 for nothing."""
    return float(np.sqrt(np.square(value.astype(np.float64)).mean())) if value.size else 0.0


@dataclass(eq=False)
class Comparison:
    """Values of both executions by name, and what was found out on the way: dB and scale of every value, in program order."""

    ours: Mapping[str, np.ndarray]
    theirs: Mapping[str, np.ndarray]
    agreement_db: dict[str, float] = field(default_factory=dict)
    surplus: dict[str, float] = field(default_factory=dict)  # scale of a value over its own RMS, 1 or more

    def follow(self, op: Operation) -> tuple[float, float]:
        """Lowest dB among the outputs of an operation and among the values it reads."""
        read = [name for names in op.inputs.values() for name in names if name in self.agreement_db]
        before = min((self.agreement_db[name] for name in read), default=EQUAL_DB)
        for value in op.outputs:
            self.surplus[value.name] = self._surplus(op.op_type, value.name, read)
            self.agreement_db[value.name] = before if op.op_type in MOVES else self._db(value.name)
        return min((self.agreement_db[value.name] for value in op.outputs), default=EQUAL_DB), before

    def _surplus(self, op_type: str, name: str, read: Iterable[str]) -> float:
        carried = max((self.surplus[source] for source in read), default=1.0)
        if op_type in MOVES | SCALES:
            return carried
        own = rms(self.ours[name]) if name in self.ours else 0.0
        largest = max((rms(self.ours[source]) * self.surplus[source] for source in read if source in self.ours), default=0.0)
        return max(1.0, largest / own) if op_type in CANCELS and own else 1.0

    def _db(self, name: str) -> float:
        if name not in self.theirs:
            return EQUAL_DB
        ours, theirs = self.ours[name], self.theirs[name]
        if ours.shape != theirs.shape or not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
            return -EQUAL_DB
        error = rms(ours.astype(np.float64) - theirs)
        return float(20 * np.log10(max(rms(ours) * self.surplus[name], 1e-30) / error)) if error else EQUAL_DB


def parted(operations: Iterable[Operation], comparison: Comparison, limit_db: float) -> list[dict[str, Any]]:
    """Operations that fall below the limit by themselves, in program order."""
    found = []
    for op in operations:
        after, before = comparison.follow(op)
        if after < limit_db <= before:
            found.append({"operation": op.op_type, "output": op.outputs[0].name, "agreement_db": after, "read_db": before})
    return found


def same_values(operations: Iterable[Operation]) -> dict[str, str]:
    """What is one value twice where fp16 is computed in fp32, and a graph may give back once: what a cast reads -> what it gives."""
    casts = [(op.inputs["x"][0], op.outputs[0].name) for op in operations if op.op_type == "cast"]
    return dict(casts)


def layers(subject: Subject, runtime: Runtime, limit_db: float, shown: int) -> dict[str, Any]:
    """`parted` on the first case, `shown` of them at most; every value that is computed and not only moved is watched."""
    case = subject.cases[0]
    ours: dict[str, np.ndarray] = dict(case.given)
    operations = [op for op in subject.program.operations if op.op_type != "const" and not op.op_type.startswith("constexpr_")]
    subject.program(dict(case.given), hook=lambda name, op_type, value: ours.update({name: value.numpy().copy()}))
    same = same_values(operations) if subject.wide else {}
    watched = [value.name for op in operations if op.op_type not in MOVES for value in op.outputs if value.name in ours]
    watched = [name for name in watched if name not in subject.program.outputs and name not in same]
    found = {"package": subject.package.stem, "function": subject.function, "limit_db": limit_db, "watched": len(watched)}
    try:
        answers, _ = runtime.ask(subject.package, subject.function, [case.given], watched, wide=subject.wide)
    except RuntimeRefused as problem:
        return found | {"refused": str(problem), "count": 0, "parted": []}
    theirs = answers[0] | {name: answers[0][source] for name, source in same.items() if source in answers[0]}
    below = parted(operations, Comparison(ours, theirs), limit_db)
    return found | {"refused": "", "count": len(below), "parted": below[:shown]}


def told_layers(found: Mapping[str, Any]) -> str:
    """In words."""
    head = f"{found['package']} {found['function']}: "
    if found["refused"]:
        return f"{head}layers refused: {found['refused']}"
    lines = [f"{head}{found['count']} of {found['watched']} operations fall below {found['limit_db']:g} dB by themselves"]
    return "\n".join([*lines, *(_line(row) for row in found["parted"])])


def _line(row: Mapping[str, Any]) -> str:
    return f"  {row['agreement_db']:7.1f} dB, reads {row['read_db']:.1f} dB or more: {row['operation']} {row['output']}"
