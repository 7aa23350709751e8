"""Describe a Core ML program, or forecast what a chip's Neural Engine takes of it, on any machine.

    python -m mlprogram describe KokoroVocoder.mlpackage --shape features=1,3157,1,81
    python -m mlprogram ane KokoroVocoder.mlpackage --chip m1 --per-op
    python -m mlprogram rules

Exit 0: done. Exit 1: `ane --at-least` or `rules --check` was not met. Exit 2: bad input. The last
line of stdout is the exit code in words on a terminal, else one JSON object.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

from mlprogram.errors import run_command
from mlprogram.examine import parse_shape


def count_argument(text: str) -> int:
    """A whole number of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def build_parser(kind: type[argparse.ArgumentParser] = argparse.ArgumentParser) -> Any:
    """A parser of this kind with the flags of the three verbs."""
    # Only the first line of the module's text: the rest is for readers of the code.
    parser = kind(prog="mlprogram", description=(__doc__ or "").partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="describe | ane | rules")
    describe = verbs.add_parser(
        "describe", help="operations, weights, arithmetic, bytes moved, live memory"
    )
    _add_package(describe)
    _add_json(describe)
    describe.add_argument(
        "--top", type=count_argument, default=10, help="how many of the heaviest operations to list"
    )
    describe.add_argument(
        "--by",
        choices=("bytes", "macs", "flops"),
        default="bytes",
        help="what makes an operation heavy",
    )
    ane = verbs.add_parser(
        "ane",
        help="forecast placement on the Neural Engine; on a Mac, measure beside it",
    )
    _add_package(ane)
    _add_forecast(ane)
    rules = verbs.add_parser(
        "rules", help="print the rules and chips of data/ane_rules.json as Markdown"
    )
    rules.add_argument(
        "--check",
        type=Path,
        metavar="FILE",
        help="exit 1 if the generated part of FILE is out of date",
    )
    rules.add_argument(
        "--write", type=Path, metavar="FILE", help="renew the generated part of FILE"
    )
    _add_json(rules)
    return parser


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="end stdout with one JSON object on a terminal too"
    )


def _add_package(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("package", type=Path, help="an .mlpackage folder or a .mlmodel file")
    parser.add_argument(
        "--function",
        help="one of several; default: of describe the package's own default, of ane all",
    )
    parser.add_argument(
        "--shape",
        type=parse_shape,
        action="append",
        default=[],
        metavar="NAME=n,n,...",
        help="shape of an input; else its default, of ane every enumerated one",
    )


def _add_forecast(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--chip",
        action="append",
        default=[],
        help="a chip such as m1 or a17, repeatable; default: all of the rules file",
    )
    parser.add_argument(
        "--per-op", action="store_true", help="list every operation with its verdict and rules"
    )
    parser.add_argument(
        "--at-least",
        type=float,
        metavar="PERCENT",
        help="exit 1 if the lowest share of MACs is below this anywhere",
    )
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        nargs="?",
        # --json without a file arrives as "-".
        const=Path("-"),
        help="write everything, operations included; without FILE, end stdout with one JSON object"
        " on a terminal too",
    )
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="draw the segments of the first shape (.png, .svg, .pdf)",
    )
    parser.add_argument("--rules", type=Path, metavar="FILE", help="another rules file")
    parser.add_argument(
        "--no-device", action="store_true", help="on a Mac: forecast only, call nothing of Core ML"
    )


def run(arguments: argparse.Namespace) -> int:
    """Exit code of a parsed command line. Raises ProgramError for what a user can put right."""
    # Imported only now, so that --help need not wait for PyTorch.
    code: int = import_module(f"mlprogram.examine.{arguments.verb}").run(arguments)
    return code


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command; a user's mistake is one line on stderr."""
    return run_command(lambda: run(build_parser().parse_args(argv)))


if __name__ == "__main__":
    raise SystemExit(main())
