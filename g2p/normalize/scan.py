"""Second stage: one pass over the cleaned text. Plain words take one regex and one set look-up; anything else goes to the handlers.

    scan = Scan("Dr. Smith, 42.", "us")
    run(scan)
    scan.tokens

A handler that does not apply answers its own position; the first that moves on wins. Every pattern is bounded or possessive: linear time.
"""

import re

import g2p.normalize.abbreviations as abbreviations
import g2p.normalize.bare_units as bare_units
import g2p.normalize.constructs as constructs
import g2p.normalize.dates as dates
import g2p.normalize.markup as markup
import g2p.normalize.money as money
import g2p.normalize.notation as notation
import g2p.normalize.numbers as numbers
import g2p.normalize.phones as phones
import g2p.normalize.quantities as quantities
import g2p.normalize.roman as roman
import g2p.normalize.symbols as symbols
import g2p.normalize.times as times
import g2p.normalize.web as web
import g2p.normalize.words as words
from g2p.normalize.characters import LATIN
from g2p.normalize.state import Handler, Scan
from g2p.normalize.tables import MONTH_FORMS, MONTHS, RESPELLED, WEEKDAYS

# White space, then a word, then what cannot change how the word is read.
PLAIN = re.compile(
    rf"\s*+((?![aA]\)\s)(?!(?<=[\s(\"`]-)a\b)[{LATIN}][{words.LOWER}]*+(?:'[a-z]{{1,2}}(?![{LATIN}]))?)(?=[\s,;!?)”]|[.:](?:\s|$)|$)"
)
SPACES = re.compile(r"\s*+")
SINGLE = frozenset("ABCDEFGHJKLMNOPQRSTUVWXYZIbcdefghijklmnopqrstuvwxyz")
FULL_NAMES = frozenset((*MONTHS, "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"))
LOWER_ROMAN = frozenset(["ii", "iii", "iv", "vi", "vii", "viii", "ix", "xi", "xii"])
# Words of plain form that need a look all the same.
TRIGGERS = (
    abbreviations.KNOWN
    | SINGLE
    | LOWER_ROMAN
    | (frozenset(MONTH_FORMS) | WEEKDAYS) - FULL_NAMES
    | frozenset(RESPELLED)
    | frozenset(constructs.BOOKS)
    | bare_units.MEASURES
    | frozenset(("UTC", "GMT"))
)

LETTER: tuple[Handler, ...] = (
    notation.port,
    notation.enumerated,
    notation.chess,
    notation.castling,
    notation.formula,
    words.chat,
    constructs.compared,
    bare_units.unit,
    bare_units.side,
    constructs.noon,
    constructs.zone,
    constructs.verse,
    constructs.direction,
    constructs.cups,
    constructs.party,
    constructs.genus,
    web.address,
    web.path,
    words.word_range,
    abbreviations.abbreviation,
    dates.month,
    dates.weekday,
    roman.roman,
    words.sharp,
    words.initial,
    money.amount,
    words.word,
)
DIGIT: tuple[Handler, ...] = (
    web.address,
    web.path,
    dates.numeric_date,
    dates.after_weekday,
    quantities.scientific,
    phones.phone,
    constructs.letter,
    constructs.lasting,
    constructs.century,
    constructs.nths,
    constructs.rating,
    constructs.rounded,
    times.clock,
    quantities.fraction,
    dates.decade,
    quantities.feet,
    dates.day,
    quantities.stone,
    quantities.nth,
    money.with_comma,
    money.amount_after,
    quantities.thousands,
    quantities.with_comma,
    numbers.number,
)
SIGN: dict[str, tuple[Handler, ...]] = {
    "+": (phones.phone, markup.markup),
    "(": (phones.phone,),
    "$": (money.amount,),
    "£": (money.amount,),
    "€": (money.with_comma, money.amount),
    "¥": (money.amount,),
    "₹": (money.amount,),
    "₩": (money.amount,),
    "₽": (money.amount,),
    "₿": (money.amount,),
    "-": (markup.markup, money.amount),
    "−": (money.amount,),
    "'": (dates.decade,),
    "#": (markup.markup, web.hashtag),
    "@": (web.hashtag,),
    "/": (quantities.per_unit, web.path),
    "~": (web.path, markup.markup),
    ":": (markup.emoticon, constructs.port),
    ";": (markup.emoticon,),
    "§": (constructs.sections,),
    "¶": (constructs.sections,),
    ".": (web.path, constructs.hidden, web.extension, numbers.number),
    "<": (markup.emoticon, markup.markup),
    "[": (markup.markup,),
    "]": (markup.markup,),
    "!": (markup.markup,),
    "*": (markup.markup,),
    "_": (markup.markup,),
    "`": (markup.markup,),
    "|": (markup.markup,),
    ">": (markup.markup,),
    "=": (markup.markup,),
    "≈": (bare_units.about,),
    "½": (quantities.fraction,),
    **dict.fromkeys(quantities.VULGAR, (quantities.fraction,)),
}
IS_LETTER = re.compile(f"[{LATIN}]")


def handlers_for(character: str) -> tuple[Handler, ...]:
    """The handlers that may begin with `character`."""
    if IS_LETTER.match(character):
        return LETTER
    return DIGIT if character.isdecimal() else SIGN.get(character, ())


def special(scan: Scan, position: int) -> int:
    """What is no plain word, by the first handler that moves on; marks and signs last."""
    for handler in handlers_for(scan.text[position]):
        end = handler(scan, position)
        if end > position:
            return end
    return symbols.symbol(scan, position)


def run(scan: Scan) -> None:
    """Fill `scan` with the tokens and drops of its text."""
    text, position, append = scan.text, 0, scan.tokens.append
    length, plain, spaces = len(text), PLAIN.match, SPACES.match
    while position < length:
        match = plain(text, position)
        if match and match[1] not in TRIGGERS:
            start, position = match.span(1)
            append((match[1], start, position, "word", None))
            continue
        gap = spaces(text, position)
        position = gap.end() if gap else position
        if position < length:
            position = special(scan, position)
