"""What the normalizer must know of a language: its number words, names of months, units and currencies, abbreviations, signs.

SPANISH.cardinal(21, "personas")      # "veintiuna": g2p/languages/spanish_grammar.py
ITALIAN.clock(14, 5)                  # "quattordici e cinque": g2p/languages/italian_grammar.py
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Grammar:
    """One language. `cardinal(number, following word)` agrees with what is counted; `ordinal(number, feminine)`."""

    cardinal: Callable[[int, str], str]
    ordinal: Callable[[int, bool], str]
    digits: tuple[str, ...]
    months: tuple[str, ...]
    date: Callable[[int, str, str], str]  # day, month, year (or "") as words
    clock: Callable[[int, int], str]
    point: str  # of a decimal
    minus: str
    percent: str
    degrees: tuple[str, str]  # one, several
    of_millions: str  # stands between a round million and what is counted
    currencies: Mapping[str, tuple[str, str, str, str]]  # one, several, one hundredth, several; Spanish joins with con
    money_joint: str
    units: Mapping[str, tuple[str, str]]
    abbreviations: Mapping[str, str]
    signs: Mapping[str, str]
    web: Mapping[str, str]
    roman_after: re.Pattern[str]  # a numeral behind these is one for certain
    roman_ordinal: Callable[[int, str], str]  # value, the word before
    spelled: frozenset[str]  # acronyms that could be words and are not
    fractions: Mapping[str, str]
    over: str  # between the numbers of another fraction
    elided: str  # articles that stand before a number with an apostrophe


def pairs(lines: str) -> dict[str, str]:
    """Lines of `short=said`."""
    return {short: said.strip() for short, _, said in (line.partition("=") for line in lines.strip().split("\n"))}


def units(lines: str) -> dict[str, tuple[str, str]]:
    """Lines of `unit|one|several`."""
    return {short: (one, several) for short, one, several in (line.split("|") for line in lines.strip().split("\n"))}
