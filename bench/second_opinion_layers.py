"""Where two executions of one package part: every operation of ours on what the other's read, so that no error travels.

    found = layers(subject, runtime, limit_db=50, shown=10)
    print(told_layers(found))

mlprogram runs once more, and after each operation its result is noted and Core AI's put in its place. By kind of operation: how many of all
values differ, and the worst dB; and the operations below a limit. A sum of numbers that cancel counts against what it was made from.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from bench.second_opinion_cases import Subject
from bench.second_opinion_runtime import Runtime, RuntimeRefused
from mlprogram.graph import Operation

MOVES = frozenset(("concat", "expand_dims", "reshape", "slice_by_index", "split", "squeeze", "transpose"))  # compute nothing: not watched
CANCELS = frozenset(("add", "sub", "reduce_mean", "reduce_sum"))
EQUAL_DB = 1e3


def rms(value: np.ndarray) -> float:
    """Root of the mean square, in float64; 0 for nothing."""
    return float(np.sqrt(np.square(value.astype(np.float64)).mean())) if value.size else 0.0


@dataclass(eq=False)
class OnTheirs:
    """The hook of a run: notes our result of every operation beside `theirs`, and hands theirs on."""

    operations: Mapping[str, Operation]  # by output
    theirs: Mapping[str, np.ndarray]
    scale: dict[str, float] = field(default_factory=dict)  # RMS of every value so far
    rows: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, name: str, op_type: str, value: torch.Tensor) -> torch.Tensor | None:
        """See mlprogram.execute.Hook."""
        ours = value.numpy()
        self.scale[name] = rms(ours)
        if name not in self.theirs:
            return None
        theirs = self.theirs[name]
        row = {"operation": self._kind(name, op_type), "output": name, "values": ours.size}
        if ours.shape != theirs.shape or not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
            self.rows.append(row | {"differ": ours.size, "agreement_db": -EQUAL_DB})
            return None
        self.rows.append(row | {"differ": int((ours != theirs).sum()), "agreement_db": self._db(name, op_type, ours, theirs)})
        self.scale[name] = rms(theirs)
        return torch.from_numpy(np.ascontiguousarray(theirs)).to(value.dtype)

    def _kind(self, name: str, op_type: str) -> str:
        return f"{op_type} with bias" if "bias" in self.operations[name].inputs else op_type

    def _db(self, name: str, op_type: str, ours: np.ndarray, theirs: np.ndarray) -> float:
        error = rms(ours.astype(np.float64) - theirs)
        read = [self.scale.get(source, 0.0) for names in self.operations[name].inputs.values() for source in names]
        size = max([self.scale[name], *read]) if op_type in CANCELS else self.scale[name]
        return float(20 * np.log10(max(size, 1e-30) / error)) if error else EQUAL_DB


def by_kind(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row a kind of operation, that with most different values first."""
    kinds: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        kinds[row["operation"]].append(row)
    found = [
        {
            "operation": kind,
            "operations": len(own),
            "differ_percent": 100 * sum(row["differ"] for row in own) / max(1, sum(row["values"] for row in own)),
            "worst_db": min(row["agreement_db"] for row in own),
        }
        for kind, own in kinds.items()
    ]
    return sorted(found, key=lambda row: -row["differ_percent"])


def same_values(operations: Iterable[Operation]) -> dict[str, str]:
    """What is one value twice where fp16 is computed in fp32, and a graph may give back once: what a cast reads -> what it gives."""
    casts = [(op.inputs["x"][0], op.outputs[0].name) for op in operations if op.op_type == "cast"]
    return dict(casts)


def layers(subject: Subject, runtime: Runtime, limit_db: float, shown: int) -> dict[str, Any]:
    """Kinds, and operations below the limit in program order, `shown` at most, of the first case; what only moves values is not watched."""
    given = dict(subject.cases[0].given)
    seen: set[str] = set()
    operations = [op for op in subject.program.operations if op.op_type != "const" and not op.op_type.startswith("constexpr_")]
    subject.program(given, hook=lambda name, op_type, value: seen.add(name))
    same = same_values(operations) if subject.wide else {}
    watched = [value.name for op in operations if op.op_type not in MOVES for value in op.outputs if value.name in seen]
    watched = [name for name in watched if name not in subject.program.outputs and name not in same]
    found = {"package": subject.package.stem, "function": subject.function, "limit_db": limit_db, "watched": len(watched)}
    try:
        answers, _ = runtime.ask(subject.package, subject.function, [given], watched, wide=subject.wide)
    except RuntimeRefused as problem:
        return found | {"refused": str(problem), "count": 0, "kinds": [], "parted": []}
    theirs = answers[0] | {name: answers[0][source] for name, source in same.items() if source in answers[0]}
    hook = OnTheirs({value.name: op for op in operations for value in op.outputs}, theirs)
    hook.scale |= {name: rms(np.asarray(value)) for name, value in given.items()}
    subject.program(given, hook=hook)
    below = [row for row in hook.rows if row["agreement_db"] < limit_db]
    return found | {"refused": "", "count": len(below), "kinds": by_kind(hook.rows), "parted": below[:shown]}


def told_layers(found: Mapping[str, Any]) -> str:
    """In words and a table."""
    from bench.markdown import markdown

    head = f"{found['package']} {found['function']}: "
    if found["refused"]:
        return f"{head}layers refused: {found['refused']}"
    first = f"{head}{found['count']} of {found['watched']} operations are below {found['limit_db']:g} dB on the same inputs"
    lines = [f"  {row['agreement_db']:7.1f} dB: {row['operation']} {row['output']}" for row in found["parted"]]
    cells = [(row["operation"], str(row["operations"]), f"{row['differ_percent']:.2f}", _shown(row["worst_db"])) for row in found["kinds"]]
    return "\n".join([first, *lines, markdown(("operation", "how many", "values that differ, %", "worst, dB"), cells)])


def _shown(agreement_db: float) -> str:
    return "equal" if agreement_db == EQUAL_DB else f"{agreement_db:.1f}"
