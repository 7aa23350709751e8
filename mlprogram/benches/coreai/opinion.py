"""Apple's Core AI runtime as a second opinion on mlprogram: the same package and the same inputs,
executed by both.

    # or random ones of the declared shapes
    python -m mlprogram.benches.coreai.opinion PKG [--inputs spoken.npz]
    # both computing fp16 in fp32: is the graph the same?
    python -m mlprogram.benches.coreai.opinion PKG --precision declared,exact
    # mlprogram rounds where Core AI does: only rounding?
    python -m mlprogram.benches.coreai.opinion PKG --precision core_ai
    # each operation of ours on what theirs read
    python -m mlprogram.benches.coreai.opinion PKG --layers 50

Figures are the agreement of the two executions, worst of the inputs. Exit 0: every output agrees by
55 dB, or by 2 less than mlprogram with itself when its sums are taken in another order; 1: not, or
Apple's tools refuse; 2: bad input, or the environment is missing. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mlprogram import Program
from mlprogram.benches.coreai.asked import PYTHON, Case, Runtime, RuntimeRefused, Subject
from mlprogram.benches.shared import add_input_flags, inputs_of, markdown, snr_db
from mlprogram.command import Parser, exit_code
from mlprogram.errors import EXIT_GOOD, EXIT_MISSED, ProgramError
from mlprogram.graph import Operation

PRECISIONS = ("declared", "exact", "core_ai")
# one execution in fp16 against another: 57 to 60 where nothing differs but roundings
LIMIT_DB = 55.0
# below what a package lets mlprogram agree with itself by, if that is less: two draws of one chaos
MARGIN_DB = 2.0
SHOWN = 10
# compute nothing: not watched
MOVES = frozenset(
    ("concat", "expand_dims", "reshape", "slice_by_index", "split", "squeeze", "transpose")
)
CANCELS = frozenset(("add", "sub", "reduce_mean", "reduce_sum"))
EQUAL_DB = 1e3
Row = dict[str, Any]
Columns = Mapping[str, Callable[[Row], str]]  # of a table: heading -> cell


def agreement_db(ours: np.ndarray, theirs: np.ndarray) -> float | None:
    """dB between two answers, None where they are equal; minus a thousand where they cannot be
    compared: other shapes, not finite.
    """
    if ours.shape != theirs.shape or not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
        return -EQUAL_DB
    found = snr_db(ours, theirs)
    return None if found == float("inf") else found


def worst(values: Iterable[float | None]) -> float | None:
    """The lowest; None where all are equal."""
    return min((value for value in values if value is not None), default=None)


def opinion(subject: Subject, runtime: Runtime, free: bool = False) -> list[Row]:
    """A row for every output of a function."""
    axes = subject.open_axes if free else {}
    answers, told = [], {"convert_s": 0.0, "execute_s": 0.0, "versions": {}}
    for cases in subject.groups(bool(axes)):
        try:
            found, own = runtime.ask(
                subject.package,
                subject.function,
                [case.given for case in cases],
                free=axes,
                wide=subject.wide,
            )
        except RuntimeRefused as problem:
            return [
                _named(subject, name) | {"refused": str(problem)}
                for name in subject.program.outputs
            ]
        answers += zip(cases, found, strict=True)
        told = {name: told[name] + own[name] for name in ("convert_s", "execute_s")} | {
            "versions": own["versions"]
        }
    return rows_of(subject, answers, told)


def rows_of(
    subject: Subject,
    answers: Sequence[tuple[Case, Mapping[str, np.ndarray]]],
    told: Mapping[str, Any],
) -> list[Row]:
    """One row an output: worst agreement, what mlprogram agrees with itself by, and what the
    subject adds.
    """
    reordered = reordered_db(subject)
    return [
        _named(subject, name)
        | {
            "agreement_db": worst(
                agreement_db(case.ours[name], theirs[name]) for case, theirs in answers
            ),
            "reordered_db": reordered[name],
        }
        | subject.judged(answers, name)
        | dict(told)
        for name in subject.program.outputs
    ]


def reordered_db(subject: Subject) -> dict[str, float | None]:
    """By output: worst agreement of mlprogram with itself when only the order of additions changes;
    None: equal, or no sum is rounded.
    """
    if subject.wide:
        return dict.fromkeys(subject.program.outputs)
    other = Program(subject.package, subject.function, f"{subject.program.precision.name}64")
    answers = [(case.ours, other(case.given)) for case in subject.cases]
    return {
        name: worst(agreement_db(ours[name], theirs[name].numpy()) for ours, theirs in answers)
        for name in subject.program.outputs
    }


def _named(subject: Subject, output: str) -> Row:
    named = {
        "package": subject.package.stem,
        "function": subject.function,
        "precision": subject.program.precision.name,
        "output": output,
    }
    return named | {
        "cases": len(subject.cases),
        "quantizes": subject.quantizes,
        "refused": "",
        "agreement_db": None,
        "reordered_db": None,
    }


def good(row: Row) -> bool:
    """By agreement."""
    limit_db = (
        LIMIT_DB if row["reordered_db"] is None else min(LIMIT_DB, row["reordered_db"] - MARGIN_DB)
    )
    return not row["refused"] and (row["agreement_db"] is None or row["agreement_db"] >= limit_db)


def _db(value: float | None) -> str:
    return "equal" if value is None else f"{value:.1f}"


COLUMNS: Columns = {
    **{
        name: lambda row, name=name: str(row[name])
        for name in ("package", "function", "precision", "output")
    },
    "inputs": lambda row: str(row["cases"]),
    "agreement, dB": lambda row: (
        f"refused: {row['refused']}" if row["refused"] else _db(row["agreement_db"])
    ),
    "ours, sums reordered, dB": lambda row: (
        "" if row["reordered_db"] is None else f"{row['reordered_db']:.1f}"
    ),
    "CPU s: convert, execute": lambda row: (
        "" if row["refused"] else f"{row['convert_s']:.0f}, {row['execute_s']:.0f}"
    ),
}


def table(
    rows: Sequence[Row], columns: Columns = COLUMNS, holds: Callable[[Row], bool] = good
) -> str:
    """In Markdown."""
    return markdown(
        (*columns, "good"),
        [
            (*(cell(row) for cell in columns.values()), "yes" if holds(row) else "NO")
            for row in rows
        ],
    )


def rms(value: np.ndarray) -> float:
    """Root of the mean square, in float64; 0 for nothing."""
    return float(np.sqrt(np.square(value.astype(np.float64)).mean())) if value.size else 0.0


@dataclass(eq=False)
class OnTheirs:
    """The hook of a run: notes our result of every operation beside `theirs`, and hands theirs on,
    so that no error travels.
    """

    operations: Mapping[str, Operation]  # by output
    theirs: Mapping[str, np.ndarray]
    scale: dict[str, float] = field(default_factory=dict)  # RMS of every value so far
    rows: list[Row] = field(default_factory=list)

    def __call__(self, name: str, op_type: str, value: torch.Tensor) -> torch.Tensor | None:
        """See mlprogram.execute.Hook."""
        ours = value.numpy()
        self.scale[name] = rms(ours)
        if name not in self.theirs:
            return None
        theirs = self.theirs[name]
        kind = f"{op_type} with bias" if "bias" in self.operations[name].inputs else op_type
        row = {"operation": kind, "output": name, "values": ours.size}
        if ours.shape != theirs.shape or not (
            np.isfinite(ours).all() and np.isfinite(theirs).all()
        ):
            self.rows.append(row | {"differ": ours.size, "agreement_db": -EQUAL_DB})
            return None
        self.rows.append(
            row
            | {
                "differ": int((ours != theirs).sum()),
                "agreement_db": self._db(name, op_type, ours, theirs),
            }
        )
        self.scale[name] = rms(theirs)
        return torch.from_numpy(np.ascontiguousarray(theirs)).to(value.dtype)

    def _db(self, name: str, op_type: str, ours: np.ndarray, theirs: np.ndarray) -> float:
        """A sum of numbers that cancel counts against what it was made from."""
        error = rms(ours.astype(np.float64) - theirs)
        read = [
            self.scale.get(source, 0.0)
            for names in self.operations[name].inputs.values()
            for source in names
        ]
        size = max([self.scale[name], *read]) if op_type in CANCELS else self.scale[name]
        return float(20 * np.log10(max(size, 1e-30) / error)) if error else EQUAL_DB


def by_kind(rows: Iterable[Row]) -> list[Row]:
    """One row a kind of operation, that with most different values first."""
    kinds: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        kinds[row["operation"]].append(row)
    found = [
        {
            "operation": kind,
            "operations": len(own),
            "differ_percent": (
                100 * sum(row["differ"] for row in own) / max(1, sum(row["values"] for row in own))
            ),
            "worst_db": min(row["agreement_db"] for row in own),
        }
        for kind, own in kinds.items()
    ]
    return sorted(found, key=lambda row: -row["differ_percent"])


def layers(subject: Subject, runtime: Runtime, limit_db: float, shown: int) -> dict[str, Any]:
    """Kinds, and operations below the limit in program order, `shown` at most, of the first case;
    what only moves values is not watched.
    """
    given = dict(subject.cases[0].given)
    seen: set[str] = set()
    operations = [
        op
        for op in subject.program.operations
        if op.op_type != "const" and not op.op_type.startswith("constexpr_")
    ]
    subject.program(given, hook=lambda name, op_type, value: seen.add(name))
    casts = {op.inputs["x"][0]: op.outputs[0].name for op in operations if op.op_type == "cast"}
    # one value twice where fp16 is computed in fp32, and a graph may give it back once
    same = casts if subject.wide else {}
    watched = [
        value.name
        for op in operations
        if op.op_type not in MOVES
        for value in op.outputs
        if value.name in seen
    ]
    watched = [name for name in watched if name not in subject.program.outputs and name not in same]
    found = {
        "package": subject.package.stem,
        "function": subject.function,
        "limit_db": limit_db,
        "watched": len(watched),
    }
    try:
        answers, _ = runtime.ask(
            subject.package, subject.function, [given], watched, wide=subject.wide
        )
    except RuntimeRefused as problem:
        return found | {"refused": str(problem), "count": 0, "kinds": [], "parted": []}
    theirs = answers[0] | {
        name: answers[0][source] for name, source in same.items() if source in answers[0]
    }
    hook = OnTheirs({value.name: op for op in operations for value in op.outputs}, theirs)
    hook.scale |= {name: rms(np.asarray(value)) for name, value in given.items()}
    subject.program(given, hook=hook)
    below = [row for row in hook.rows if row["agreement_db"] < limit_db]
    return found | {
        "refused": "",
        "count": len(below),
        "kinds": by_kind(hook.rows),
        "parted": below[:shown],
    }


def told_layers(found: Mapping[str, Any]) -> str:
    """In words and a table."""
    head = f"{found['package']} {found['function']}: "
    if found["refused"]:
        return f"{head}layers refused: {found['refused']}"
    first = (
        f"{head}{found['count']} of {found['watched']} operations are below {found['limit_db']:g}"
        " dB on the same inputs"
    )
    lines = [
        f"  {row['agreement_db']:7.1f} dB: {row['operation']} {row['output']}"
        for row in found["parted"]
    ]
    cells = [
        (
            row["operation"],
            str(row["operations"]),
            f"{row['differ_percent']:.2f}",
            _db(None if row["worst_db"] == EQUAL_DB else row["worst_db"]),
        )
        for row in found["kinds"]
    ]
    return "\n".join(
        [
            first,
            *lines,
            markdown(("operation", "how many", "values that differ, %", "worst, dB"), cells),
        ]
    )


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that do not say where inputs come from."""
    parser.add_argument(
        "--precision",
        type=_precisions,
        default=PRECISIONS[:1],
        help="declared, exact, core_ai: several by commas (default: declared)",
    )
    parser.add_argument(
        "--layers",
        type=float,
        metavar="DB",
        help="every operation on Core AI's inputs; name the first that agree by less",
    )
    parser.add_argument(
        "--free",
        action="store_true",
        help="export with open lengths instead of one length a conversion",
    )
    parser.add_argument(
        "--python",
        type=Path,
        default=PYTHON,
        help="of the environment with Core AI (default: .venv-coreai/bin/python)",
    )


def _precisions(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(",")))
    if not set(names) <= set(PRECISIONS):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not of {', '.join(PRECISIONS)}")
    return names


def compare(
    subjects: Iterable[Subject],
    arguments: argparse.Namespace,
    columns: Columns = COLUMNS,
    holds: Callable[[Row], bool] = good,
) -> int:
    """Ask both about every subject, print tables and the JSON line. Raises ProgramError where the
    environment is missing.
    """
    if arguments.layers is not None and not math.isfinite(arguments.layers):
        raise ProgramError(f"--layers {arguments.layers}: a number of dB is needed")
    runtime, rows, below = Runtime(arguments.python), [], []
    for subject in subjects:
        rows += opinion(subject, runtime, arguments.free)
        print(table(rows[-1:], columns, holds).splitlines()[-1], file=sys.stderr)
        if arguments.layers is not None:
            below.append(layers(subject, runtime, arguments.layers, SHOWN))
    print(table(rows, columns, holds))
    for layer in below:
        print(told_layers(layer))
    kept, limits = all(map(holds, rows)), {"dB": LIMIT_DB, "below_reordered_dB": MARGIN_DB}
    print(
        json.dumps({"rows": rows, "layers": below, "limits": limits, "good": kept}, allow_nan=False)
    )
    return EXIT_GOOD if kept else EXIT_MISSED


def _subject(path: Path, precision: str, arguments: argparse.Namespace) -> Subject:
    subject = Subject.of(path, arguments.function, precision)
    subject.ask(inputs_of(arguments, subject.program.inputs))
    return subject


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = Parser("mlprogram.benches.coreai.opinion", __doc__)
    parser.add_argument("packages", nargs="+", type=Path, metavar="PKG", help=".mlpackage")
    parser.add_argument("--function", help="of a package with several (default: the package's own)")
    add_input_flags(parser)
    add_flags(parser)
    arguments = parser.parse_args(argv)
    return compare(
        (
            _subject(path, precision, arguments)
            for path, precision in product(arguments.packages, arguments.precision)
        ),
        arguments,
    )


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return exit_code(lambda: run(argv))


if __name__ == "__main__":
    raise SystemExit(main())
