"""How the reader's commands begin and end: a mistake is one line and exit 2, a pipe gets the report
as one JSON object on the last line.

    @command
    def main(argv: list[str] | None = None) -> int: ...
"""

import argparse
import io
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, NoReturn

from kokoro_g2p.errors import InputError

EXIT_GOOD, EXIT_REJECTED, EXIT_BAD_INPUT = 0, 1, 2
LONGEST_LINE = 1500  # of a message: a text of 100,000 characters is not repeated


class CommandParser(argparse.ArgumentParser):
    """An argument parser whose usage errors are one line. Its description is the first paragraph of
    the module's docstring.
    """

    def __init__(self, prog: str, doc: str | None) -> None:
        super().__init__(prog=prog, description=" ".join((doc or "").partition("\n\n")[0].split()))
        self.add_argument(
            "--json", action="store_true", help="end stdout with one JSON object on a terminal too"
        )

    def error(self, message: str) -> NoReturn:
        """Print the message and where help is, and exit."""
        help_hint = f"(`{self.prog} --help` lists what there is)"
        self.exit(EXIT_BAD_INPUT, f"error: {_one_line(message)} {help_hint}\n")


def command(main: Callable[[list[str] | None], int]) -> Callable[..., int]:
    """Decorate a function of argv that is a command."""

    @wraps(main)
    def run(argv: list[str] | None = None) -> int:
        # A terminal that knows only ASCII gets \\u0259 for a schwa, not a traceback.
        if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            return main(argv)
        except (InputError, OSError, ModuleNotFoundError) as problem:
            print(f"error: {_one_line(str(problem))}", file=sys.stderr)
            return EXIT_BAD_INPUT

    return run


def conclude(
    arguments: argparse.Namespace, report: Mapping[str, Any], code: int, meaning: str
) -> int:
    """End a command and return its exit code: in words for a person at a terminal, as one JSON
    object for a pipe and for --json.
    """
    is_terminal = sys.stdout.isatty()
    if is_terminal:
        print(f"exit {code}: {meaning}")
    if arguments.json or not is_terminal:
        print(json.dumps(report))
    return code


def print_table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], right: bool = False
) -> None:
    """Print a table whose columns are as wide as they need. `right`: all columns but the first hold
    numbers.
    """
    cells = [list(headings), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(title)
    for row in cells:
        places = enumerate(zip(row, widths, strict=True))
        print(
            "  ".join(
                cell.rjust(width) if right and place else cell.ljust(width)
                for place, (cell, width) in places
            ).rstrip()
        )


def _one_line(text: str) -> str:
    """Return `text` with what breaks a line or steers a terminal written as escapes."""
    shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
    return shown[:LONGEST_LINE]
