"""Measure the normalizer on its written cases (tests/data/g2p/normalize_cases.tsv) by category, and
its speed on plain and hostile text.

    python -m bench.g2p_normalize [--misses]

A case counts when the tokens are the expected ones, marks included. A spoken form is written with
spaces between words, `[FBI]` for letters and marks of punctuation as they are; the case of words
does not count, and hyphens separate words. Exit 0: every limit holds; 1: one is missed. A pipe's
last line is one JSON object.
"""

import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from kokoro_ane.core.commands import conclude, print_table
from kokoro_ane.core.errors import EXIT_GOOD, EXIT_REJECTED, Parser, command
from kokoro_ane.g2p.normalize import normalize
from kokoro_ane.g2p.result import Dialect, Normalized

LIMIT, PLAIN_LIMIT_US = 0.98, 15.0
PLAIN = (
    "The quick brown fox jumps over the lazy dog, and nobody in the small town was surprised by"
    " what it did then. "
)
CASES = Path(__file__).resolve().parents[1] / "tests" / "data" / "g2p" / "normalize_cases.tsv"
TOKEN = re.compile(r"\[[^\]]*\]|[^\s;:,.!?—…\"()“”\[\]-]+|[;:,.!?—…\"()“”]")
# before the rules; after them, eight times, counted before any fix
SETS = ("seen", "held", *(f"held{count}" for count in range(2, 9)))
# Pieces that a slow or greedy pattern would stumble over, repeated to long texts.
HOSTILE = [
    "1",
    "1.",
    "1,",
    "1/",
    "1-",
    "1:",
    "(",
    "[",
    "[a",
    "<",
    "<a ",
    "<!--",
    "/",
    "/a",
    "./",
    "a.",
    "a@",
    "a-",
    "a'",
    "a_",
    "A",
    "A.",
    "$1-",
    "-",
    "'",
    '"',
    "`",
    "*",
    "_",
    "#",
    "@a",
    "&",
    "^",
    "°",
    "́",
    "😀",
    "\u200b",
    "п",
    "1e",
    "+1-",
    "1'",
    "a:\\",
    "](",
    "1st ",
    ".",
    "U.S.",
    "I ",
    "http://",
    "www.",
    "½",
    "\n- ",
    "a/",
    "1 ",
    "- ",
    "#a",
    "1 1/2 ",
    "Jan. 1 ",
]


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
        return spoken_tokens(normalize(self.text, dialect=self.dialect))

    @property
    def is_right(self) -> bool:
        """Whether the tokens are the expected ones."""
        return self.tokens == expected_tokens(self.spoken)


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


def expected_tokens(spoken: str) -> list[str]:
    """Return a written spoken form as tokens, in lower case."""
    return [token.lower() for token in TOKEN.findall(spoken)]


def spoken_tokens(normalized: Normalized) -> list[str]:
    """Return the normalizer's tokens in the same form."""
    tokens: list[str] = []
    for token in normalized.tokens:
        text = token.text.lower()
        tokens += [f"[{text}]"] if token.kind == "letters" else text.split("-")
    return tokens


def seconds(text: str) -> float:
    """Return the processor time of one call."""
    start = time.process_time()
    normalize(text)
    return time.process_time() - start


def speed() -> dict[str, float]:
    """Return microseconds of processor time for a plain word, and for a character of the slowest
    hostile text of 10,000 and of 100,000 characters: equal where time is linear.
    """
    words = len(PLAIN.split()) * 500
    # the first call compiles patterns and loads tables
    seconds(PLAIN)
    # the best of five: other jobs only add time
    plain = min(seconds(PLAIN * 500) for _ in range(5)) / words
    slow = {
        length: max(seconds((piece * length)[:length]) for piece in HOSTILE) / length
        for length in (10_000, 100_000)
    }
    return {
        "plain_word_us": plain * 1e6,
        "hostile_10k_us": slow[10_000] * 1e6,
        "hostile_100k_us": slow[100_000] * 1e6,
    }


def print_categories(cases: list[Case]) -> None:
    """Print one row for each category, and one for all."""
    rows = []
    for category in [*dict.fromkeys(case.category for case in cases), "all"]:
        right = [case.is_right for case in cases if category in (case.category, "all")]
        rows.append(
            (category, str(len(right)), f"{sum(right)} ({100 * sum(right) / len(right):.1f} %)")
        )
    print_table("", ("category", "cases", "ours"), rows)


def print_examples(cases: list[Case]) -> None:
    """Print four short cases of each category, marked gb where the dialect matters."""
    rows = []
    for category in dict.fromkeys(case.category for case in cases):
        short = [
            case
            for case in cases
            if case.category == category and len(case.text) < 32 and "|" not in case.text
        ][:4]
        lines = [f"{case.text}{' (gb)' * (case.dialect == 'gb')} → {case.spoken}" for case in short]
        rows.append((category, "; ".join(f"`{line}`" for line in lines if "`" not in line)))
    print_table("", ("category", "examples"), rows)


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    parser = Parser("bench.g2p_normalize", __doc__)
    parser.add_argument(
        "--misses", action="store_true", help="print each case that is wrong, with what was said"
    )
    parser.add_argument(
        "--examples",
        action="store_true",
        help="print a few cases of each category, as docs/g2p.md holds them",
    )
    arguments = parser.parse_args(argv)
    cases = read_cases()
    if arguments.examples:
        print_examples(cases)
        return EXIT_GOOD
    print_categories(cases)
    wrong = [case for case in cases if not case.is_right]
    for case in wrong if arguments.misses else ():
        print(
            f"{case.category}, {case.dialect}: {case.text!r}: wanted {case.spoken!r}, said"
            f" {' '.join(case.tokens)!r}"
        )
    figures = {key: round(value, 2) for key, value in speed().items()}
    accuracy = 1 - len(wrong) / len(cases)
    good = accuracy >= LIMIT and figures["plain_word_us"] <= PLAIN_LIMIT_US
    sizes = Counter(case.part for case in cases)
    result = {"cases": len(cases), "sets": sizes, "ours": round(accuracy, 4)}
    report = result | figures | {"good": good}
    if good:
        return conclude(arguments, report, EXIT_GOOD, "accuracy and speed keep their limits")
    return conclude(arguments, report, EXIT_REJECTED, "accuracy or speed misses its limit")


if __name__ == "__main__":
    raise SystemExit(main())
