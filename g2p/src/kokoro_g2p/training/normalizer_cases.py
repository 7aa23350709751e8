"""Measure the normalizer on its written cases (g2p/tests/data/normalize_cases.tsv) by category.

    python -m kokoro_g2p.training.normalizer_cases [--misses]

A case counts when the tokens are the expected ones, marks included. A spoken form is written with
spaces between words, `[FBI]` for letters and marks of punctuation as they are; the case of words
does not count, and hyphens separate words. Exit 0: at least 98 % are right; 1: fewer. A pipe's
last line is one JSON object.
"""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from kokoro_g2p.commands import (
    EXIT_GOOD,
    EXIT_REJECTED,
    CommandParser,
    command,
    conclude,
    print_table,
)
from kokoro_g2p.normalizer import normalize
from kokoro_g2p.result import Dialect, Normalized

LIMIT = 0.98  # share of the cases
CASES = Path(__file__).resolve().parents[3] / "tests" / "data" / "normalize_cases.tsv"
TOKEN = re.compile(r"\[[^\]]*\]|[^\s;:,.!?—…\"()“”\[\]-]+|[;:,.!?—…\"()“”]")
# before the rules; after them, eight times, counted before any fix
SETS = ("seen", "held", *(f"held{count}" for count in range(2, 9)))


@dataclass(frozen=True)
class Case:
    """A written text and its spoken form. part: one of SETS."""

    part: str
    category: str
    dialect: Dialect
    text: str
    spoken: str

    @property
    def tokens(self) -> list[str]:
        """The tokens that the normalizer makes of the text."""
        return read_spoken(normalize(self.text, dialect=self.dialect))

    @property
    def is_right(self) -> bool:
        """Whether the tokens are the expected ones."""
        return self.tokens == read_expected(self.spoken)


def read_cases(path: Path = CASES) -> list[Case]:
    """Read all cases in file order; lines that begin with # are comments. Raises ValueError for a
    line without five fields.
    """
    cases = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        if not line or line.startswith("#"):
            continue
        part, category, dialect, text, spoken = line.split("\t")
        if part not in SETS or dialect not in ("us", "gb"):
            raise ValueError(
                f"{path.name}: part {part!r} and dialect {dialect!r}; wanted one of {SETS} and us"
                " or gb"
            )
        cases.append(Case(part, category, "us" if dialect == "us" else "gb", text, spoken))
    return cases


def read_expected(spoken: str) -> list[str]:
    """Return a written spoken form as tokens, in lower case."""
    return [token.lower() for token in TOKEN.findall(spoken)]


def read_spoken(normalized: Normalized) -> list[str]:
    """Return the normalizer's tokens in the same form."""
    tokens: list[str] = []
    for token in normalized.tokens:
        text = token.text.lower()
        tokens += [f"[{text}]"] if token.kind == "letters" else text.split("-")
    return tokens


def print_categories(cases: list[Case]) -> None:
    """Print one row for each category, and one for all."""
    rows = []
    for category in [*dict.fromkeys(case.category for case in cases), "all"]:
        right = [case.is_right for case in cases if category in (case.category, "all")]
        rows.append(
            (category, str(len(right)), f"{sum(right)} ({100 * sum(right) / len(right):.1f} %)")
        )
    print_table("", ("category", "cases", "ours"), rows)


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    parser = CommandParser("kokoro_g2p.training.normalizer_cases", __doc__)
    parser.add_argument(
        "--misses", action="store_true", help="print each case that is wrong, with what was said"
    )
    arguments = parser.parse_args(argv)
    cases = read_cases()
    print_categories(cases)
    wrong = [case for case in cases if not case.is_right]
    for case in wrong if arguments.misses else ():
        print(
            f"{case.category}, {case.dialect}: {case.text!r}: wanted {case.spoken!r}, said"
            f" {' '.join(case.tokens)!r}"
        )
    accuracy = 1 - len(wrong) / len(cases)
    good = accuracy >= LIMIT
    sizes = Counter(case.part for case in cases)
    report = {"cases": len(cases), "sets": sizes, "ours": round(accuracy, 4), "good": good}
    if good:
        return conclude(arguments, report, EXIT_GOOD, "the share of right cases keeps its limit")
    return conclude(arguments, report, EXIT_REJECTED, "the share of right cases misses its limit")


if __name__ == "__main__":
    raise SystemExit(main())
