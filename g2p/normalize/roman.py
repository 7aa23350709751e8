"""Roman numerals in context: Henry VIII, Chapter IV, World War II, the XIX century, MMXXIV; never I or mix.

scan = Scan("Henry VIII", "us")
"""

import re

from g2p.normalize.number_words import cardinal, ordinal, year
from g2p.normalize.state import Scan
from g2p.normalize.tables import COUNTED, REGNAL

VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
NUMERAL = re.compile(r"(M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3}))('s)?(?![\w'&-]|\.\w)")
LOWER = re.compile(r"(?=[ivx])(x{0,3}(?:ix|iv|v?i{0,3}))(?![\w']|-(?![ivx]))")
LAST = re.compile(r"[–-](?=[ivx])(x{0,3}(?:ix|iv|v?i{0,3}))(?![\w'-])")
CENTURY = re.compile(r"(?:st|nd|rd|th)?\s+(?:century|centuries|dynasty|Corps)")
# After `Elizabeth I` alone: what does not go on with the pronoun I.
NO_PRONOUN = re.compile(
    r"\s*(?:$|[,;:.!?)\"”—-]|'s\b|(?:of|and|was|is|had|died|became|ruled|reigned|in|to|the|who|did|made|came|at|signed|or|with)\b)"
)
ENDS_COUNT = re.compile(r"\s*(?:$|[,;:.!?)\"”—-]|of\b)")
LARGEST_PLAIN = 39  # beyond I, V and X a word of the list must stand before


def value(numeral: str) -> int:
    """XIV -> 14."""
    numbers = [VALUES[letter] for letter in numeral.upper()]
    return sum(-low if low < high else low for low, high in zip(numbers, [*numbers[1:], 0], strict=True))


def said(scan: Scan, numeral: str, end: int) -> str:
    """How the numeral is said here, empty where it is none."""
    before, number = scan.previous(), value(numeral)
    if (before, numeral) == ("Malcolm", "X"):
        return ""
    if CENTURY.match(scan.text, end):
        return ordinal(number, scan.dialect)
    if numeral == "I" and before in COUNTED and before.islower() and not ENDS_COUNT.match(scan.text, end):
        return ""  # the book I bought
    if before in COUNTED or (before in ("War", "II") and scan.previous(2) == "World"):
        return cardinal(number, scan.dialect)
    if before in REGNAL or (scan.previous(2) in REGNAL | {"Pope", "King", "Queen", "Emperor", "Tsar"} and before[:1].isupper()):
        return f"the {ordinal(number, scan.dialect)}" if len(numeral) > 1 or NO_PRONOUN.match(scan.text, end) else ""
    if len(numeral) >= 5 and numeral[0] == "M":
        return year(number, scan.dialect)
    name = before[:1].isupper() and before[1:].islower() and len(before) > 2
    return cardinal(number, scan.dialect) if name and 1 < number <= LARGEST_PLAIN and len(numeral) > 1 and numeral != "XL" else ""


def roman(scan: Scan, position: int) -> int:
    """A numeral at `position`."""
    if not scan.tokens and position:
        return position
    match = NUMERAL.match(scan.text, position)
    if match and match[1]:
        spoken = said(scan, match[1], match.end(1))
        if spoken:
            scan.say(spoken + (match[2] or ""), position, match.end())
            return match.end()
    match = LOWER.match(scan.text, position)
    if match and match[1] and scan.previous() in COUNTED:
        scan.say(cardinal(value(match[1]), scan.dialect), position, match.end())
        return to_last(scan, match.end())
    return position


def to_last(scan: Scan, position: int) -> int:
    """Behind the first page of a preface: the dash and the last one, pp. xi-xv."""
    match = LAST.match(scan.text, position)
    if not match:
        return position
    scan.say("to", position, match.start(1))
    scan.say(cardinal(value(match[1]), scan.dialect), match.start(1), match.end())
    return match.end()
