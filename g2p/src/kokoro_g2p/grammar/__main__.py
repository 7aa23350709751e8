"""Conflicts of the grammar's rows over a corpus.

    python -m kokoro_g2p.grammar --conflicts FILE... [--dialect gb]

FILE: UTF-8; each column of each line is a text, lines that begin with # are remarks. Prints pairs
of rows that match one text with equal length and read it differently: those of equal weight, and
those that weight alone decides. Exit 0: every row compiles and there is no pair of equal
weight; 1: not so; 2: bad input.
"""

from collections.abc import Iterator
from pathlib import Path

from kokoro_g2p.commands import EXIT_GOOD, EXIT_REJECTED, CommandParser, command, conclude
from kokoro_g2p.errors import InputError


def read_columns(paths: list[Path]) -> Iterator[str]:
    """Return the columns of all lines. Raises InputError where a file cannot be read."""
    for path in paths:
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as problem:
            raise InputError(f"{path} cannot be read: {problem}") from None
        yield from (
            column
            for line in lines
            if line and not line.startswith("#")
            for column in line.split("\t")
        )


@command
def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = CommandParser("kokoro_g2p.grammar", __doc__)
    parser.add_argument("--conflicts", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--dialect", choices=("us", "gb"), default="us")
    arguments = parser.parse_args(argv)
    from kokoro_g2p.grammar.conflicts import find_conflicts
    from kokoro_g2p.grammar.load import grammar_of
    from kokoro_g2p.lexicon import Lexicon

    known = Lexicon.load(arguments.dialect).has_word
    grammar = grammar_of(arguments.dialect)
    try:
        rows = grammar.compile()
    except ValueError as problem:
        return conclude(arguments, {"rows": None}, EXIT_REJECTED, str(problem))
    report = find_conflicts(grammar, read_columns(arguments.conflicts), known)
    for title, pairs in (("equal weight", report.equal), ("decided by weight", report.weighed)):
        for (winner, other), example in pairs.items():
            print(f"{title}: {winner} before {other}: {example}")
    figures = {"rows": rows, "equal": len(report.equal), "weighed": len(report.weighed)}
    if report.equal:
        return conclude(arguments, figures, EXIT_REJECTED, "rows of equal weight read one text")
    return conclude(arguments, figures, EXIT_GOOD, "no two rows of equal weight read one text")


if __name__ == "__main__":
    raise SystemExit(main())
