"""Capitals: said letter by letter (FBI), read as a word (NASA), or shouted (STOP NOW); and pieces of mixed strings (B2B, iPhone15).

acronym("FBI", shouted=False)   # "~FBI"
pieces("getHTTPUser2")          # get HTTP User 2
"""

import re

from g2p.normalize.characters import LATIN
from g2p.normalize.number_words import below_hundred, cardinal, digits, plural
from g2p.normalize.state import Scan
from g2p.normalize.tables import AMBIGUOUS, READ, RESPELLED, SHORT, SPELLED, WEB_LETTERS
from g2p.result import Dialect

UPPER, LOWER = "A-ZÀ-ÖØ-Þ", "a-zß-öø-ÿĀ-ſ"
PIECE = re.compile(rf"[{UPPER}]++s(?![{LOWER}])|[{UPPER}]+(?![{LOWER}])|[{UPPER}]?[{LOWER}]++|\d++(?:s(?![{LOWER}]))?|[{LATIN}]")
VOWEL = re.compile("[aeiouyà-öø-ÿ]", re.IGNORECASE)
# Beginnings and endings that no English word has: such capitals are spelled.
ODD = re.compile(
    r"^(?!SCH|KN[AEIO]|PSY|GN[AO]|PNEU|TSU)(?:[BCDFGHJKLMNPQRSTVWXZ]{4}|[BDFGHJKLMNPQRTVXZ][BCDFGJKMNPQSTVXZ])"
    r"|[JQV]$|[BCDFGHJKLMNPQRSTVWXZ]{4}$(?<!GHTS|GTHS)"
)
CAPITALS_NEXT = re.compile(r"[^\w\n]{1,3}([A-Z]{2,20})(?![\w])")


def is_common(word: str) -> bool:
    """Whether capitals make an ordinary word when shouted."""
    return word.lower() in SHORT or (len(word) > 3 and VOWEL.search(word) is not None and not ODD.search(word))


def is_shouted(scan: Scan, text: str, end: int) -> bool:
    """Whether the neighbours are shouted words too."""
    if not is_common(text) or text in SPELLED and text.lower() not in SHORT:
        return False
    before, after = scan.previous(), CAPITALS_NEXT.match(scan.text, end)
    if before in (",", "!", ":"):
        before = scan.previous(2)
    left = len(before) > 1 and before.isupper() and before.isalpha() and before not in READ
    right = after is not None and is_common(after[1]) and after[1] not in READ | SPELLED - AMBIGUOUS_CAPITALS
    return bool(left or right)


AMBIGUOUS_CAPITALS = frozenset(word.upper() for word in AMBIGUOUS)


def acronym(text: str, shouted: bool) -> str:
    """Capitals (with a plural s perhaps) as spoken text."""
    if text in RESPELLED:
        return RESPELLED[text]
    stem = text[:-1] if text.endswith("s") else text
    if stem in READ or shouted:
        return text
    if stem in SPELLED or len(stem) == 1:
        return f"~{text}"
    if len(stem) <= 3:
        common = stem.lower() in SHORT and stem.lower() not in AMBIGUOUS
        return text if common else f"~{text}"
    return f"~{text}" if not VOWEL.search(stem) or ODD.search(stem) else text


def lower_piece(text: str) -> str:
    """A lower-case or capitalized piece beside digits or in an address: a word where it can be one, else letters."""
    if text.lower() in WEB_LETTERS or len(text) == 1 or not VOWEL.search(text):
        return f"~{text.upper()}"
    return text


def number_piece(text: str, dialect: Dialect) -> str:
    """Digits inside a name: 19 -> nineteen, 747 -> seven forty-seven, 2020 -> twenty twenty, 007 and long ones digit by digit."""
    if (text[0] == "0" and len(text) > 1) or len(text) > 4:
        return digits(text)
    if len(text) < 3 or int(text) % 1000 == 0:
        return cardinal(int(text), dialect)
    head, tail = int(text[:-2]), int(text[-2:])
    if len(text) == 4 and head % 10 == 0 and tail < 10:
        return cardinal(int(text), dialect)
    low = "hundred" if not tail else f"oh {below_hundred(tail)}" if tail < 10 else below_hundred(tail)
    return f"{below_hundred(head)} {low}"


def say_pieces(scan: Scan, start: int, end: int, mixed: bool) -> None:
    """text[start:end], letters and digits only, piece by piece; `mixed`: lower-case pieces need not be words."""
    previous = start
    for match in PIECE.finditer(scan.text, start, end):
        text, first, last = match[0], match.start(), match.end()
        if first > previous:
            scan.silent(previous, first)
        previous = last
        space = None if last == end else True
        if text[0].isdigit() and text[-1] == "s":
            scan.say(plural(number_piece(text[:-1], scan.dialect)), first, last, space)
        elif text.isdigit():
            scan.say(number_piece(text, scan.dialect), first, last, space)
        elif text in RESPELLED:
            scan.say(RESPELLED[text], first, last, space)
        elif text.isupper() or (text[:-1].isupper() and text[-1] == "s" and (mixed or len(text) > 2)):
            scan.say(acronym(text, False), first, last, space)
        elif text.lower() == "v" and scan.text[last : last + 1].isdigit():
            scan.say("version", first, last, space)
        elif mixed or len(text) == 1:
            scan.say(lower_piece(text), first, last, space)
        else:
            scan.word(text, first, last, space)
    if previous < end:
        scan.silent(previous, end)
