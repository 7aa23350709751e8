"""The normalizer on its written cases, by category; its speed, plain and hostile.

    python -m bench.g2p_normalize [--misses]

A case counts when the tokens are the expected ones, marks included. Exit 0: every limit holds; 1:
one is missed. The last line of stdout is one JSON object.
"""

import json
import time
from collections import Counter
from collections.abc import Callable

from bench.chain_speed import print_markdown
from bench.g2p_cases import HOSTILE, Case, expected_tokens, read_cases, spoken_tokens
from kokoro_ane.core.errors import EXIT_GOOD, EXIT_REJECTED, Parser, command

LIMIT, PLAIN_LIMIT_US = 0.98, 15.0
PLAIN = (
    "The quick brown fox jumps over the lazy dog, and nobody in the small town was surprised by"
    " what it did then. "
)


def marks(cases: list[Case], is_right: Callable[[Case], bool]) -> list[bool]:
    """Right or wrong for each case; an exception is wrong."""
    found = []
    for case in cases:
        try:
            found.append(is_right(case))
        except (
            ValueError,
            KeyError,
            IndexError,
            TypeError,
            AttributeError,
            AssertionError,
            OverflowError,
        ) as problem:
            print(f"crash: {case.text!r}: {problem!r}")
            found.append(False)
    return found


def ours(case: Case) -> bool:
    """Whether the tokens are the expected ones."""
    from kokoro_ane.g2p.normalize import normalize

    return spoken_tokens(normalize(case.text, dialect=case.dialect)) == expected_tokens(case.spoken)


def seconds(text: str) -> float:
    """Processor time of one call."""
    from kokoro_ane.g2p.normalize import normalize

    start = time.process_time()
    normalize(text)
    return time.process_time() - start


def speed() -> dict[str, float]:
    """Microseconds of processor time: a plain word; a character of the slowest hostile run of
    10,000 and of 100,000 (equal: linear).
    """
    words = len(PLAIN.split()) * 500
    seconds(PLAIN)
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


def table(cases: list[Case], exact: list[bool]) -> None:
    """One row a category, one for all."""
    rows = []
    for category in [*dict.fromkeys(case.category for case in cases), "all"]:
        right = [
            good
            for case, good in zip(cases, exact, strict=True)
            if category in (case.category, "all")
        ]
        rows.append(
            (category, str(len(right)), f"{sum(right)} ({100 * sum(right) / len(right):.1f} %)")
        )
    print_markdown(("category", "cases", "ours"), rows)


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
    exact = marks(cases, ours)
    table(cases, exact)
    if arguments.misses:
        print_misses(cases, exact)
    figures = {key: round(value, 2) for key, value in speed().items()}
    accuracy = sum(exact) / len(cases)
    good = accuracy >= LIMIT and figures["plain_word_us"] <= PLAIN_LIMIT_US
    sizes = Counter(case.part for case in cases)
    result = {"cases": len(cases), "sets": sizes, "ours": round(accuracy, 4)}
    print(json.dumps(result | figures | {"good": good}))
    return EXIT_GOOD if good else EXIT_REJECTED


def print_examples(cases: list[Case]) -> None:
    """Four short cases of each category; gb where the dialect matters."""
    rows = []
    for category in dict.fromkeys(case.category for case in cases):
        short = [
            case
            for case in cases
            if case.category == category and len(case.text) < 32 and "|" not in case.text
        ][:4]
        said = [f"{case.text}{' (gb)' * (case.dialect == 'gb')} → {case.spoken}" for case in short]
        rows.append((category, "; ".join(f"`{line}`" for line in said if "`" not in line)))
    print_markdown(("category", "examples"), rows)


def print_misses(cases: list[Case], exact: list[bool]) -> None:
    """What was wanted and what was said."""
    from kokoro_ane.g2p.normalize import normalize

    for case, is_right in zip(cases, exact, strict=True):
        if not is_right:
            said = " ".join(spoken_tokens(normalize(case.text, dialect=case.dialect)))
            print(
                f"{case.category}, {case.dialect}: {case.text!r}: wanted {case.spoken!r}, said"
                f" {said!r}"
            )


if __name__ == "__main__":
    raise SystemExit(main())
