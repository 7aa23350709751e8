"""The normalizer's cases: tests/data/g2p/normalize_cases.tsv, and how a spoken form is written
there.

    from bench.g2p_cases import read_cases, expected_tokens, spoken_tokens
    case = read_cases()[0]
    spoken_tokens(normalize(case.text, dialect=case.dialect)) == expected_tokens(case.spoken)

Written form: words apart, `[FBI]` for letters, marks of PUNCTUATION as they are; case of words does
not count, hyphens part words.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from kokoro_ane.g2p.result import Dialect, Normalized

CASES = Path(__file__).resolve().parents[1] / "tests" / "data" / "g2p" / "normalize_cases.tsv"
TOKEN = re.compile(r"\[[^\]]*\]|[^\s;:,.!?—…\"()“”\[\]-]+|[;:,.!?—…\"()“”]")
# before the rules; after them, eight times, counted before any fix
SETS = ("seen", "held", *(f"held{count}" for count in range(2, 9)))
# Pieces that a slow or greedy pattern would stumble over, repeated to long texts.
HOSTILE = (
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
    "\u0301",
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
)


@dataclass(frozen=True)
class Case:
    """`part`: one of SETS."""

    part: str
    category: str
    dialect: Dialect
    text: str
    spoken: str


def read_cases(path: Path = CASES) -> list[Case]:
    """All cases in file order; lines that begin with # are remarks. Raises ValueError on a line
    without five fields.
    """
    lines = [
        line
        for line in path.read_text(encoding="utf-8").split("\n")
        if line and not line.startswith("#")
    ]
    cases = []
    for line in lines:
        part, category, dialect, text, spoken = line.split("\t")
        if part not in SETS or dialect not in ("us", "gb"):
            raise ValueError(
                f"{path.name}: part {part!r} and dialect {dialect!r}; wanted one of {SETS} and us"
                " or gb"
            )
        cases.append(Case(part, category, "us" if dialect == "us" else "gb", text, spoken))
    return cases


def expected_tokens(spoken: str) -> list[str]:
    """A written spoken form as tokens, lower case."""
    return [token.lower() for token in TOKEN.findall(spoken)]


def spoken_tokens(normalized: Normalized) -> list[str]:
    """The normalizer's tokens in the same form."""
    found: list[str] = []
    for token in normalized.tokens:
        found += (
            [f"[{token.text}]".lower()]
            if token.kind == "letters"
            else token.text.lower().split("-")
        )
    return found
