"""Apple's Core AI runtime as a second opinion on mlprogram: the same package and the same inputs, executed by both.

    make venv-second-opinion                                                # once: an environment of its own
    python -m bench.second_opinion build/KokoroVocoder-demo-fp16.json       # one package, or several
    python -m bench.second_opinion PKG --precision declared,exact           # and with both computing fp16 in fp32: is the graph the same?
    python -m bench.second_opinion PKG --precision core_ai                  # mlprogram rounds where Core AI does: is it only the rounding?
    python -m bench.second_opinion PKG --layers 50                          # also each operation of ours on what theirs read: which differ?
    python -m bench.second_opinion PKG --free                               # lengths left open instead of one length a conversion

PKG is a package of this project or its manifest. Figures are the agreement of the two executions, worst of the sentences; for a vocoder
also both against the fp32 render, in dB and, where activations are int8, in PESQ. Exit 0: every output agrees by 55 dB, or by 2 less
than mlprogram with itself when its sums are taken in another order, or, where activations are int8, PESQ differs by 0.02 at most; 1: not,
or Apple's tools refuse; 2: bad input, or the environment is missing. What this proves is in docs/mlprogram.md. The last line is JSON.
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not bench/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
import math
import sys
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, run_cli

if TYPE_CHECKING:
    from bench.second_opinion_cases import Subject
    from bench.second_opinion_runtime import Runtime

PRECISIONS = ("declared", "exact", "core_ai")
LIMIT_DB = 55.0  # one execution in fp16 against another: 57 to 60 of the demo voice where nothing differs but roundings
MARGIN_DB = 2.0  # below what a package lets mlprogram agree with itself by, if that is less: two draws of one chaos
LIMIT_PESQ = 0.02  # int8 codes on a rounding edge part two good executions by 38 to 41 dB, which nobody hears
SHOWN = 10
HEADINGS = (
    "package", "function", "precision", "output", "inputs", "agreement, dB", "ours, sums reordered, dB",
    "against fp32: ours / Core AI's, dB", "the same, PESQ",
    "CPU s: convert, execute", "good",
)  # fmt: skip


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="bench.second_opinion", description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="+", type=Path, metavar="PKG", help=".mlpackage, or its manifest")
    parser.add_argument("--sentences", type=_count, default=1, help="so many of the tuning set (default: %(default)s)")
    parser.add_argument("--frames", type=_lengths, default=(20,), help="of excerpts for the vocoder, 40 a second: 20,40 (default: 20)")
    parser.add_argument(
        "--precision", type=_precisions, default=PRECISIONS[:1], help="declared, exact, core_ai: several by commas (default: declared)"
    )
    parser.add_argument("--layers", type=float, metavar="DB", help="every operation on Core AI's inputs; name the first that agree by less")
    parser.add_argument("--free", action="store_true", help="export with open lengths")
    parser.add_argument("--checkpoint", help="the package's own (default: by its manifest's name for it)")
    parser.add_argument("--python", type=Path, help="of the environment with Core AI (default: .venv-coreai/bin/python)")
    return parser.parse_args(argv)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= 1200):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number from 1 to 1200")
    return int(text)


def _lengths(text: str) -> tuple[int, ...]:
    return tuple(_count(part) for part in text.split(","))


def _precisions(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(",")))
    if not set(names) <= set(PRECISIONS):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not of {', '.join(PRECISIONS)}")
    return names


def subjects(path: Path, precision: str, arguments: argparse.Namespace) -> "list[Subject]":
    """The functions of one package with their sentences. InputError for a package that is not what its manifest says."""
    from bench.second_opinion_cases import Asked, subjects_of
    from core.checkpoint import open_checkpoint
    from core.contract import G2P_NAME
    from core.manifest import Manifest

    manifest = Manifest.load(path.with_suffix(".json"))
    manifest.verify()
    asked = Asked(arguments.sentences, arguments.frames, precision)
    if manifest.stage == G2P_NAME:
        return subjects_of(manifest, None, asked)
    checkpoint = open_checkpoint(arguments.checkpoint or manifest.checkpoint["name"])
    manifest.require_made_from(checkpoint, f"--checkpoint of {path.name}")
    return subjects_of(manifest, checkpoint, asked)


def opinion(subject: "Subject", runtime: "Runtime", arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for every output of a function."""
    from bench.second_opinion_compare import groups, refused_rows, rows_of
    from bench.second_opinion_runtime import RuntimeRefused

    free = subject.open_axes if arguments.free else {}
    answers, seconds = [], [0.0, 0.0]
    for cases in groups(subject.cases, bool(free)):
        try:
            found, told = runtime.ask(subject.package, subject.function, [case.given for case in cases], free=free, wide=subject.wide)
        except RuntimeRefused as problem:
            return refused_rows(subject, str(problem))
        answers += zip(cases, found, strict=True)
        seconds = [seconds[0] + told["convert_s"], seconds[1] + told["execute_s"]]
    return rows_of(subject, answers, {"convert_s": seconds[0], "execute_s": seconds[1], "versions": told["versions"]})


def good(row: dict[str, Any]) -> bool:
    """By PESQ where activations are int8, else by agreement."""
    if row["refused"]:
        return False
    if row["quantizes"]:
        return row["pesq"] is not None and abs(row["pesq_theirs"] - row["pesq"]) <= LIMIT_PESQ
    limit_db = LIMIT_DB if row["reordered_db"] is None else min(LIMIT_DB, row["reordered_db"] - MARGIN_DB)
    return row["agreement_db"] is None or row["agreement_db"] >= limit_db


def table(rows: list[dict[str, Any]]) -> str:
    """In Markdown."""
    from bench.markdown import markdown

    return markdown(HEADINGS, [_cells(row) for row in rows])


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    first = (row["package"], row["function"], row["precision"], row["output"], str(row["sentences"]))
    if row["refused"]:
        return (*first, f"refused: {row['refused']}", "", "", "", "", "NO")
    agreement = "equal" if row["agreement_db"] is None else f"{row['agreement_db']:.1f}"
    reference = "" if row["ours_db"] is None else f"{row['ours_db']:.1f} / {row['theirs_db']:.1f}"
    pesq = "" if row["pesq"] is None else f"{row['pesq']:.3f} / {row['pesq_theirs']:.3f}"
    reordered = "" if row["reordered_db"] is None else f"{row['reordered_db']:.1f}"
    return (*first, agreement, reordered, reference, pesq, f"{row['convert_s']:.0f}, {row['execute_s']:.0f}", "yes" if good(row) else "NO")


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    if arguments.layers is not None and not math.isfinite(arguments.layers):
        raise InputError(f"--layers {arguments.layers}: a number of dB is needed")
    from bench.second_opinion_layers import layers, told_layers
    from bench.second_opinion_runtime import PYTHON, Runtime

    runtime, rows, below = Runtime(arguments.python or PYTHON), [], []
    for path, precision in product(arguments.packages, arguments.precision):
        for subject in subjects(path, precision, arguments):
            rows += opinion(subject, runtime, arguments)
            print(table(rows[-1:]).splitlines()[-1], file=sys.stderr)
            if arguments.layers is not None:
                below.append(layers(subject, runtime, arguments.layers, SHOWN))
    print(table(rows))
    for layer in below:
        print(told_layers(layer))
    kept = all(good(row) for row in rows)
    print(
        json.dumps(
            {"rows": rows, "layers": below, "limits": {"dB": LIMIT_DB, "below_reordered_dB": MARGIN_DB, "PESQ": LIMIT_PESQ}, "good": kept},
            allow_nan=False,
        )
    )
    return EXIT_GOOD if kept else EXIT_REJECTED


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from bench.second_opinion import main  # one module identity, however it was started

    raise SystemExit(main())
