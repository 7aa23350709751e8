"""The normalizer's word lists, read once from g2p/data/normalize/*.json and never changed.

from g2p.normalize.tables import MONTHS, UNITS
"""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "data" / "normalize"


def read(name: str) -> dict[str, Any]:
    """One file of the package's own data."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


ABBREVIATIONS, MONEY, WEB, NAMES = read("abbreviations"), read("money"), read("web"), read("names")
_UNITS, _ACRONYMS = read("units"), read("acronyms")

MONTHS: tuple[str, ...] = tuple(NAMES["months"])
# Every form of a month's name -> its full name.
MONTH_FORMS = {name: name for name in MONTHS} | {key: value for key, value in ABBREVIATIONS["plain"].items() if value in MONTHS}
WEEKDAY_NAMES = {key: value for key, value in ABBREVIATIONS["plain"].items() if value.endswith("day")}
WEEKDAYS = frozenset(NAMES["weekdays"].split())
REGNAL, COUNTED, VERSIONED, PAIRED, SCORE, DIAL = (
    frozenset(NAMES[key].split()) for key in ("regnal", "counted", "versioned", "paired", "score", "dial")
)
YEAR_BEFORE = frozenset(NAMES["year_before"].split())

READ, SPELLED, SHORT, AMBIGUOUS, KEEP = (frozenset(_ACRONYMS[key].split()) for key in ("read", "spelled", "short", "ambiguous", "keep"))
PREFIXES = frozenset(_ACRONYMS["prefixes"].split())
RESPELLED: dict[str, str] = _ACRONYMS["respelled"]

LETTERED = frozenset(NAMES["lettered"].split())
STARTERS, COUNTED_NOUNS, NO_PLURALS, ARTICLES, NO_NOUNS, BEFORE_DEGREES, NUMERIC = (
    frozenset(NAMES[key].split())
    for key in ("starters", "counted_nouns", "no_plurals", "articles", "no_nouns", "before_degrees", "numeric")
)
SYMBOL_NAMES: dict[str, str] = read("symbols")["names"]
GREEK: dict[str, str] = read("symbols")["greek"]

DOMAINS, EXTENSIONS, WEB_WORDS, WEB_LETTERS = (frozenset(WEB[key].split()) for key in ("domains", "extensions", "words", "letters"))
BARE_DOMAINS = frozenset(WEB["bare"].split())

UNIT_PLURALS: dict[str, str] = _UNITS["plural"]
UNITS: dict[str, str] = _UNITS["always"] | _UNITS["letter"]
SPACED_UNITS: dict[str, str] = _UNITS["spaced"]  # only with white space between number and unit


def alternation(words: "frozenset[str] | dict[str, Any] | tuple[str, ...]") -> str:
    """A regex alternation of literal words, longest first."""
    import re

    return "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))
