"""Second stage: one pass over the cleaned text. Plain words take one regex and one set look-up;
anything else goes to the handlers.

    scan = Scan("Dr. Smith, 42.", "us")
    run(scan)
    scan.tokens

A handler that does not apply answers its own position; the first that moves on wins. Every pattern
is bounded or possessive: linear time.
"""

import re

import kokoro_ane.g2p.normalize.calendar_days as calendar_days
import kokoro_ane.g2p.normalize.compounds as compounds
import kokoro_ane.g2p.normalize.constructs as constructs
import kokoro_ane.g2p.normalize.dates as dates
import kokoro_ane.g2p.normalize.identifiers as identifiers
import kokoro_ane.g2p.normalize.marks as marks
import kokoro_ane.g2p.normalize.money as money
import kokoro_ane.g2p.normalize.numbers as numbers
import kokoro_ane.g2p.normalize.quantities as quantities
import kokoro_ane.g2p.normalize.short_forms as short_forms
import kokoro_ane.g2p.normalize.tags as tags
import kokoro_ane.g2p.normalize.web as web
from kokoro_ane.g2p.normalize.characters import LATIN
from kokoro_ane.g2p.normalize.lines import BREAK
from kokoro_ane.g2p.normalize.state import MONTH_FORMS, MONTHS, RESPELLED, WEEKDAYS, Handler, Scan
from kokoro_ane.g2p.word_lists import word_set

# White space, then a word, then what cannot change how the word is read.
PLAIN = re.compile(
    rf"[^\S{BREAK}]*+((?![aA]\)\s|[A-Za-z][a-z]{{2,6}}(?<![aeiou])\.(?:\s+[a-z\d&–-]"
    rf"|[,;:)]|\s*$)|.[b-df-hj-np-tv-xz]{{3}}(?<=[b-df-hj-np-tv-xzB-DF-HJ-NP-TV-XZ]...))"
    rf"(?!(?<=[\s(\"`]-)a\b)[{LATIN}][{compounds.LOWER}]*+(?:'[a-z]{{1,2}}"
    rf"(?![{LATIN}]))?)(?=[\s,;!?)”]|[.:](?:\s|$)|$)"
)
SPACES = re.compile(rf"[^\S{BREAK}]*+")
SINGLE = frozenset("ABCDEFGHJKLMNOPQRSTUVWXYZIbcdefghijklmnopqrstuvwxyz")
FULL_NAMES = frozenset(
    (*MONTHS, "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
)
LOWER_ROMAN = word_set("ii iii iv vi vii viii ix xi xii")
# Words of plain form that need a look all the same.
TRIGGERS = (
    short_forms.KNOWN
    | SINGLE
    | LOWER_ROMAN
    | (frozenset(MONTH_FORMS) | WEEKDAYS) - FULL_NAMES
    | frozenset(RESPELLED)
    | frozenset(constructs.BOOKS)
    | constructs.TRIGGERS
    | quantities.MEASURES
    | frozenset(("UTC", "GMT"))
)

LETTER: tuple[Handler, ...] = (
    constructs.patterned,
    short_forms.dollar_letter,
    compounds.weekly,
    identifiers.mixed,
    identifiers.state,
    constructs.enumerated,
    constructs.chess,
    constructs.formula,
    compounds.chat,
    quantities.unit,
    quantities.side,
    constructs.verse,
    constructs.direction,
    constructs.cups,
    constructs.party,
    constructs.genus,
    web.address,
    web.path,
    compounds.word_range,
    short_forms.abbreviation,
    dates.month,
    dates.weekday,
    numbers.roman,
    compounds.sharp,
    compounds.initial,
    money.amount,
    compounds.word,
)
DIGIT: tuple[Handler, ...] = (
    constructs.patterned,
    web.address,
    web.path,
    compounds.chat_number,
    dates.numeric_date,
    calendar_days.short_date,
    identifiers.mixed,
    quantities.scientific,
    identifiers.combination,
    numbers.phone,
    identifiers.code,
    calendar_days.run_together,
    constructs.rating,
    dates.clock,
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
    **dict.fromkeys("$£¥₹₩₽₿−", (money.amount,)),
    **dict.fromkeys("[]!*_`|=", (marks.markup,)),
    ">": (tags.closing, marks.markup, marks.menu),
    **dict.fromkeys("§¶≈⌘⌥⇧⌃", (constructs.patterned,)),
    **dict.fromkeys(quantities.VULGAR, (quantities.fraction,)),
    "€": (money.with_comma, money.amount),
    "-": (constructs.patterned, marks.markup, money.amount),
    "+": (numbers.phone, marks.markup),
    "(": (marks.plural, numbers.phone),
    "'": (marks.possessive, dates.decade),
    "#": (marks.markup, constructs.patterned, web.hashtag),
    "@": (web.hashtag,),
    "/": (constructs.patterned, quantities.per_unit, web.path),
    "~": (web.path, marks.markup),
    ":": (marks.emoticon, constructs.port),
    **dict.fromkeys(";^", (marks.emoticon,)),
    ".": (web.path, constructs.patterned, web.extension, numbers.number),
    "<": (marks.emoticon, tags.tag),
    BREAK: (marks.line_break,),
}
# Numbers and marks without a letter, longer than any cue: short forms, units and codes need words,
# so that few handlers are asked in their middle. Asking all took 40 s for 100 KB of "1-".
LETTERLESS = re.compile(rf"(?<![^{LATIN}\ue000-\uf8ff])[^{LATIN}\ue000-\uf8ff]{{300,}}+")
EDGE = 100  # characters at either end that are read as all others
BARE_DIGIT: tuple[Handler, ...] = (
    dates.numeric_date,
    numbers.phone,
    dates.clock,
    quantities.fraction,
    numbers.number,
)
IS_LETTER = re.compile(f"[{LATIN}]")


def handlers_for(character: str) -> tuple[Handler, ...]:
    """The handlers that may begin with `character`."""
    if IS_LETTER.match(character):
        return LETTER
    return DIGIT if character.isdecimal() else SIGN.get(character, ())


def special(scan: Scan, position: int, is_bare: bool) -> int:
    """What is no plain word, by the first handler that moves on; marks and signs last."""
    character = scan.text[position]
    bare = is_bare and character.isdecimal()
    for handler in BARE_DIGIT if bare else handlers_for(character):
        end = handler(scan, position)
        if end > position:
            return end
    return marks.symbol(scan, position)


def run(scan: Scan) -> None:
    """Fill `scan` with the tokens and drops of its text."""
    text, position, append = scan.text, 0, scan.tokens.append
    length, plain, spaces = len(text), PLAIN.match, SPACES.match
    bare = [(match.start() + EDGE, match.end() - EDGE) for match in LETTERLESS.finditer(text)]
    while position < length:
        match = plain(text, position)
        if match and match[1] not in TRIGGERS:
            start, position = match.span(1)
            append((match[1], start, position, "word", None))
            continue
        gap = spaces(text, position)
        position = gap.end() if gap else position
        while bare and position >= bare[0][1]:
            bare.pop(0)
        if position < length:
            position = special(scan, position, bool(bare) and position >= bare[0][0])
