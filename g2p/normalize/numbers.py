"""A number that is no date, time, phone number or money: version, score, ratio, dimension, year, or
a count with its unit perhaps.

    scan = Scan("1999 people in 1999", "us")
    number(scan, 0)
"""

import re

from kokoro_ane.g2p.normalize.number_words import (
    NUMERAL,
    ONES,
    cardinal,
    decimal,
    digits,
    ordinal,
    plural,
    roman_value,
    year,
)
from kokoro_ane.g2p.normalize.quantities import (
    NUMBER,
    NUMBERED,
    SCALE_AFTER,
    attributive,
    has_unit,
    is_adjective,
    say_unit,
    unit_after,
)
from kokoro_ane.g2p.normalize.short_forms import number_piece, say_pieces
from kokoro_ane.g2p.normalize.state import (
    COUNTED,
    COUNTED_NOUNS,
    DIAL,
    MONEY,
    MONTH_FORMS,
    NO_NOUNS,
    NO_PLURALS,
    PAIRED,
    REGNAL,
    SCORE,
    VERSIONED,
    YEAR_BEFORE,
    Scan,
    alternation,
)
from kokoro_ane.g2p.result import GB, Dialect
from kokoro_ane.g2p.word_lists import word_set

PLAIN = re.compile(NUMBER)
DOTTED = re.compile(r"\d{1,9}(?:\.\d{1,9}){2,9}(?![\w]|\.\d)")
TWO_PART = re.compile(r"(\d{1,9})\.(\d{1,9})(?:\.x)?(?![\w]|\.\d)")
SCORE_PAIR = re.compile(r"(\d{1,3})[-–](\d{1,3})(?![\w-])")
SCORE_AFTER = re.compile(
    r",?\s+(?:win|victory|defeat|loss|draw|lead|score|scoreline|thriller|rout|aggregate"
    r"|up|down|to|against|over|on)\b"
)
STREET_AFTER = re.compile(
    r"\s(?:[NSEW]{1,2}\.? )?(?:(?:[A-Z][a-z]{1,20}|\d{1,3}(?:st|nd|rd|th)) ){1,3}"
    r"(?:St|Street|Ave|Avenue|Rd|Road|Blvd|Boulevard|Dr|Drive|Ln|Lane|Ct|Court|Way)\b"
)
PAIR = re.compile(r"(\d{2,3})-(\d{1,4})(?![\w-]|\.\d)")
EVEN = {"50-50": "fifty-fifty", "20-20": "twenty twenty", "80-20": "eighty twenty"}
AIRCRAFT = word_set("Boeing Airbus Embraer Bombardier Cessna McDonnell Douglas Lockheed")
RATIO = re.compile(r"(\d{1,7}):(\d{1,7})(?::(\d{1,7}))?(?![\d:])")
TOOK = re.compile(r"\b(?:in|at|time|PR|PB|ran|finished|split|mark)[:\s]\s?$")
TIMES_SIGN = re.compile(r"(?P<gap> ?)(?P<sign>[x×X])(?P=gap)(?=[$£€]?\d)")
PIECEWISE = re.compile(r"(?:480|720|1080|1440|2160)[pi]")
FOUR = re.compile(r"\d{4}(?![\d,]|\.\d)")
SURE_YEAR = word_set("fiscal year circa since class copyright ad ce")
EQUALS_NEAR = re.compile(r"[^\n=]{0,40}=")
PLURAL_NEXT = re.compile(r"\s[a-z]+s\b|\+|\sof\b")
NOUN_AFTER = re.compile(r"\s([a-z]+)")
LETTERS = re.compile(r"[A-Za-z]++")
SHORT_SCALE = re.compile(
    r"[ \xa0]?(bn|mn|tn|trn)(?!\w)|(k)(?!\w|-[A-Za-z])|(?<=\.\d)([MBK])(?!\w)"
    r"|([MBK])(?=\+|\s[a-z]{3,}s\b)"
    r"|([mb])(?=\+|\s(?:people|of (?:them|these|those|us|you|its|the (?:people|users))\b))"
    r"|([mb])(?=\s(?:(?:active|monthly|daily|weekly|new|unique|paid|paying|registered|total) )?"
    r"([a-z]{3,}s)\b)"
)
# what is metres long
LONG_THINGS = word_set(
    "boards boats cables chains drops fences heats hurdles intervals ladders laps lengths logs"
    " masts nets panels pipes planks platforms poles pools races rails repeats rods rolls ropes"
    " sections sheets sprints steps strides strips swims towers walls waves yachts"
)
# what people run, and sizes of pictures, memory and gold
SIZE_NEXT = re.compile(
    r"k\s(?:run|race|walk|jog|course|pace|(?i:tv|video|screen|display|monitor|camera)s?|resolution"
    r"|footage|streaming|memory|gold|RAM|ROM|UHD|HDR)\b"
)
TIMES_MORE = re.compile(
    r"x(?=/[a-z]|\s(?:daily|weekly|more|less|better|worse|the|as|an?|per|every|each|that"
    r"|in|on|this|[a-z]{2,12}er)\b|[,.;!?]\s)"
)  # 3x faster
TO_NOW = re.compile(
    rf"[-–](?:present|today|now|noon|midnight|(?:{alternation(MONTH_FORMS)})(?!-\d))\b"
)
HYPHEN_WORD = re.compile(r"-(?=[A-Za-z])")


def dotted(scan: Scan, position: int) -> int:
    """1.2.3 -> one point two point three; four groups up to 255 are an address, digit by digit;
    3.11 after a product's name.
    """
    match = DOTTED.match(scan.text, position)
    groups = match[0].split(".") if match else []
    if match and len(groups) == 4 and all(int(group) < 256 for group in groups):
        return scan.say(" dot ".join(digits(group) for group in groups), position, match.end())
    if match:
        return scan.say(
            " point ".join(version_part(group, scan.dialect) for group in groups),
            position,
            match.end(),
        )
    match = TWO_PART.match(scan.text, position)
    if match and (scan.previous() in VERSIONED or scan.previous() == "OS"):
        return scan.say(
            " point ".join(version_part(group, scan.dialect) for group in match.groups()),
            position,
            match.end(),
        )
    return position


def version_part(text: str, dialect: Dialect) -> str:
    """11 -> eleven, 04 -> zero four, 1234 -> one two three four."""
    hundreds = len(text) == 3 and text[0] != "0"
    spelled = len(text) == 4 and text[:2] != "20"
    return (
        cardinal(int(text), dialect)
        if hundreds
        else digits(text)
        if spelled
        else number_piece(text, dialect)
    )


def pair(scan: Scan, position: int) -> int:
    """50-50 as people say it; the two numbers of an aircraft (Boeing 747-400), which are no
    range.
    """
    match = PAIR.match(scan.text, position)
    if match and match[0] in EVEN:
        return scan.say(EVEN[match[0]], position, match.end())
    if not match or scan.previous() not in AIRCRAFT:
        return position
    return scan.say(
        " ".join(number_piece(part, scan.dialect) for part in match.groups()), position, match.end()
    )


def score(scan: Scan, position: int) -> int:
    """British scores: won 3-2 -> three two, 1-0 -> one nil. American ones are said with `to`, as
    ranges are.
    """
    match = SCORE_PAIR.match(scan.text, position) if scan.dialect == GB else None
    near = any(token[0].lower() in SCORE for token in scan.tokens[-4:])
    if not match or not (near or SCORE_AFTER.match(scan.text, match.end())):
        return position
    for group in (1, 2):
        number = int(match[group])
        scan.say(
            "nil" if not number else cardinal(number, GB),
            match.start(group),
            match.end(group) + (group == 1),
            None if group == 2 else True,
        )
    return match.end()


def ratio(scan: Scan, position: int) -> int:
    """16:9 -> sixteen to nine."""
    match = RATIO.match(scan.text, position)
    if not match:
        return position
    if TOOK.search(scan.text, max(0, position - 16), position):  # 10K in 52:10
        return scan.say(
            " ".join(version_part(group, scan.dialect) for group in match.groups() if group),
            position,
            match.end(),
        )
    return scan.say(
        " to ".join(cardinal(int(group), scan.dialect) for group in match.groups() if group),
        position,
        match.end(),
    )


def reads_as_year(scan: Scan, value: int, end: int) -> bool:
    """Whether four bare digits are a year (or said like one: Flight 1549)."""
    before = scan.previous_word()
    if before == "," and re.fullmatch(r"[A-Za-z]+|\w+th|\w+st|\w+nd|\w+rd", scan.previous(2)):
        before = "in"
    after = NOUN_AFTER.match(scan.text, end)
    noun = after[1] if after else ""
    if before in SURE_YEAR or (before == "the" and 1900 <= value < 2100):
        return True
    if noun in COUNTED_NOUNS or (
        noun.endswith("s") and noun not in NO_PLURALS and noun not in NO_NOUNS
    ):
        return False
    if before in YEAR_BEFORE and value >= 1000:
        return True
    return 1010 <= value < 2100 or scan.previous() in PAIRED


def after_letters(scan: Scan, end: int) -> bool:
    """RTX 4090, ISO 8601: a name's number, not a count."""
    noun = NOUN_AFTER.match(scan.text, end)
    name = (
        bool(scan.tokens)
        and scan.tokens[-1][3] == "letters"
        and scan.tokens[-1][0] not in ("AM", "PM")
    )
    return name and (noun is None or not noun[1].endswith("s"))


def bare(scan: Scan, text: str, end: int) -> str:
    """The reading of a number without unit, sign or mark."""
    if PIECEWISE.match(scan.text, end - len(text)):
        return number_piece(text, scan.dialect)
    if (
        FOUR.fullmatch(text)
        and text[0] != "0"
        and not SCALE_AFTER.match(scan.text, end)
        and reads_as_year(scan, int(text), end)
    ):
        return year(int(text), scan.dialect)
    # a ZIP code
    if (
        len(text) == 5
        and text.isdigit()
        and scan.tokens
        and scan.tokens[-1][3] == "letters"
        and len(scan.tokens[-1][0]) == 2
    ):
        return digits(text)
    if FOUR.fullmatch(text) and text[0] != "0" and after_letters(scan, end):
        return number_piece(text, scan.dialect)
    if scan.previous_word() in DIAL and text.isdigit() and len(text) in (3, 4):
        return digits(text)
    paired = scan.previous().removesuffix("'s") in PAIRED or STREET_AFTER.match(scan.text, end)
    if paired and text.isdigit() and len(text) in (3, 4) and text[0] != "0":
        return number_piece(text, scan.dialect)
    return decimal(text, scan.dialect)


def number(scan: Scan, position: int) -> int:
    """The number at `position`, its unit, and letters that hang on it (3D, 4K, 10-year-old)."""
    for handler in (dotted, pair, score, ratio):
        end = handler(scan, position)
        if end > position:
            return end
    match = PLAIN.match(scan.text, position)
    if not match:
        return position
    text, end = match[0], match.end()
    scale = SHORT_SCALE.match(scan.text, end)
    if scale and is_scale(scan, scale):
        scan.say(
            f"{decimal(text, scan.dialect)} {MONEY['scale'][scale[0].strip()]}",
            position,
            scale.end(),
        )
        return unit_after(scan, scale.end(), many=True)
    unit = has_unit(scan, end)
    dotted_end = unit.end() + (scan.text[unit.end() : unit.end() + 1] == ".") if unit else end
    singular = (
        text == "1"
        or (unit is not None and is_adjective(scan, unit))
        or attributive_unit(scan, end)
        or (unit is not None and attributive(scan, dotted_end))
    )
    scan.say(
        decimal(text, scan.dialect) if unit else bare(scan, text, end),
        position,
        end,
        True if unit else None,
    )
    return say_unit(scan, unit, many=not singular) if unit else hanging(scan, end)


def is_scale(scan: Scan, scale: "re.Match[str]") -> bool:
    """Whether a letter behind a number is thousand, million or billion: no gate 5B, no 5k that
    people run, no metres of cable.
    """
    before = scan.previous_word()
    if scale[0] == "k" and "." not in scan.text[scale.start() - 2 : scale.start()]:
        plural_next = PLURAL_NEXT.match(scan.text, scale.end()) is not None
        ran = before in ("a", "the", "my", "his", "her", "our", "first", "ran", "run", "running")
        if SIZE_NEXT.match(scan.text, scale.start()) or (ran and not plural_next):
            return False
    noun = scale[7] or ""
    is_count = noun not in LONG_THINGS | NO_NOUNS | NO_PLURALS and not noun.endswith("ss")
    return before not in NUMBERED and is_count


def attributive_unit(scan: Scan, end: int) -> bool:
    """An article before the number and a noun after its unit."""
    match = re.match(r"(?:\s|-)?[^\s,.;:!?]{1,6}", scan.text[end : end + 8])
    return match is not None and attributive(scan, end + match.end())


def hanging(scan: Scan, end: int) -> int:
    """What hangs on a number: 4K, 3D, 10x; the hyphen of 10-year-old; 4 x 6, 1920×1080."""
    by = TIMES_SIGN.match(scan.text, end)
    if by:
        product = (
            scan.text[by.end()] in "$£€"
            or (by["sign"] == "×" or by["gap"])
            and EQUALS_NEAR.match(scan.text, end) is not None
        )
        return scan.say("times" if product else "by", by.start("sign"), by.end("sign"), True)
    if TIMES_MORE.match(scan.text, end):
        scan.space_last()
        return scan.say("time" if scan.previous() == "one" else "times", end, end + 1)
    match = LETTERS.match(scan.text, end)
    if match and match[0] == "yo":
        scan.space_last()
        return scan.say("year old", end, match.end())
    if match and match[0] == "s":
        text, start, _, kind, _ = scan.tokens.pop()
        scan.tokens.append((plural(text), start, match.end(), kind, None))
        return match.end()
    if match:
        scan.space_last()
        say_pieces(scan, end, match.end(), True)
        return match.end()
    if TO_NOW.match(scan.text, end):
        return scan.say("to", end, end + 1, True)
    match = HYPHEN_WORD.match(scan.text, end)
    if match:
        scan.space_last()
        scan.silent(end, match.end())
        return match.end()
    return end


END = r"(?![\w]|[-.]\d)"
FORMS = (
    # +44 20 7946 0958
    re.compile(
        r"\+(?=(?:[ ().-]{0,2}\d){7})\d{1,3}(?:[ .-]?\(\d{1,4}\))?(?:["
        rf" .-]\d{{1,6}}){{1,6}}{END}"
    ),
    re.compile(rf"\+\d{{8,15}}{END}"),
    re.compile(rf"(?:1[ .-])?\(\d{{3}}\) ?\d{{3}}[ .-]\d{{4}}{END}"),  # (555) 123-4567
    re.compile(rf"(?:1[ .-])?\d{{3}}([.-])\d{{3}}\1\d{{4}}{END}"),  # 555-123-4567, 1-800-555-0199
    re.compile(rf"\d{{3}}-\d{{4}}{END}"),  # 555-0123
    # 020 7946 0958, 07700 900123
    re.compile(rf"\(?0\d{{2,4}}\)? \d{{3,4}}(?: \d{{3,4}}|\d{{2,3}})?{END}"),
    re.compile(rf"\d{{5}}-\d{{4}}{END}"),  # 02139-4307, a ZIP code
)
HUNDREDS = re.compile(r"(0?)([1-9])00")
THREE_WAY = re.compile(r"\d{1,6}(?:-\d{1,6}){2,8}(?![\w-])")  # 123-45-6789, an ISBN


VANITY = re.compile(r"1-8(?:00|33|44|55|66|77|88)-(?=[A-Z]{2,12}\b)")  # 1-800-FLOWERS


def hundreds(group: str, zero: str) -> str:
    """800 -> eight hundred, 0800 -> oh eight hundred; other groups digit by digit."""
    match = HUNDREDS.fullmatch(group)
    return (
        f"{zero if match[1] else ''} {ONES[int(match[2])]} hundred"
        if match
        else digits(group, zero)
    )


def grouped(scan: Scan, start: int, end: int) -> int:
    """Say text[start:end]: each run of digits, a comma between them."""
    zero = "oh" if scan.dialect == GB else "zero"
    groups = re.findall(r"\d+", scan.text[start:end])
    spoken = [
        hundreds(group, zero) if index + 2 < len(groups) else digits(group, zero)
        for index, group in enumerate(groups)
    ]
    return scan.say(("plus " if scan.text[start] == "+" else "") + " , ".join(spoken), start, end)


def phone(scan: Scan, position: int) -> int:
    """A telephone number or another number in three groups at `position`."""
    for form in FORMS:
        match = form.match(scan.text, position)
        if match:
            return grouped(scan, position, match.end())
    vanity = VANITY.match(scan.text, position)
    if vanity:
        return scan.say(f"one , {hundreds(vanity[0][2:5], 'zero')} ,", position, vanity.end())
    match = THREE_WAY.match(scan.text, position)
    if match and all(len(part) < 3 for part in match[0].split("-")):  # a record of 12-3-1
        return scan.say(
            " , ".join(cardinal(int(part), scan.dialect) for part in match[0].split("-")),
            position,
            match.end(),
        )
    return grouped(scan, position, match.end()) if match else position


ROMAN = re.compile(rf"({NUMERAL})('s)?(?![\w'&-]|\.\w)")
LOWER = re.compile(r"(?=[ivx])(x{0,3}(?:ix|iv|v?i{0,3}))(?![\w']|-(?![ivx]))")
LAST = re.compile(r"[–-](?=[ivx])(x{0,3}(?:ix|iv|v?i{0,3}))(?![\w'-])")
CENTURY = re.compile(r"(?:st|nd|rd|th)?\s+(?:century|centuries|dynasty|Corps)")
# After `Elizabeth I` alone: what does not go on with the pronoun I.
NO_PRONOUN = re.compile(
    r"\s*(?:$|[,;:.!?)\"”—-]|'s\b|(?:of|and|was|is|had|died|became|ruled|reigned|in|to"
    r"|the|who|did|made|came|at|signed|or|with)\b)"
)
ENDS_COUNT = re.compile(r"\s*(?:$|[,;:.!?)\"”—-]|of\b)")
LARGEST_PLAIN = 39  # beyond I, V and X a word of the list must stand before


def spoken_numeral(scan: Scan, numeral: str, end: int) -> str:
    """How the numeral is said here, empty where it is none."""
    before, number = scan.previous(), roman_value(numeral) or 0
    if (before, numeral) == ("Malcolm", "X"):
        return ""
    if CENTURY.match(scan.text, end):
        return ordinal(number, scan.dialect)
    if (
        numeral == "I"
        and before in COUNTED
        and before.islower()
        and not ENDS_COUNT.match(scan.text, end)
    ):
        return ""  # the book I bought
    if before in COUNTED or (before in ("War", "II") and scan.previous(2) == "World"):
        return cardinal(number, scan.dialect)
    # Henry C. Gatz
    if numeral in ("C", "D", "L", "M") and scan.text[end : end + 1] == ".":
        return ""
    if before in REGNAL or (
        scan.previous(2) in REGNAL | {"Pope", "King", "Queen", "Emperor", "Tsar"}
        and before[:1].isupper()
    ):
        return (
            f"the {ordinal(number, scan.dialect)}"
            if len(numeral) > 1 or NO_PRONOUN.match(scan.text, end)
            else ""
        )
    if len(numeral) >= 5 and numeral[0] == "M":
        return year(number, scan.dialect)
    name = before[:1].isupper() and before[1:].islower() and len(before) > 2
    return (
        cardinal(number, scan.dialect)
        if name and 1 < number <= LARGEST_PLAIN and len(numeral) > 1 and numeral != "XL"
        else ""
    )


def roman(scan: Scan, position: int) -> int:
    """A numeral at `position`."""
    if not scan.tokens and position:
        return position
    match = ROMAN.match(scan.text, position)
    if match and match[1]:
        spoken = spoken_numeral(scan, match[1], match.end(1))
        if spoken:
            return scan.say(spoken + (match[2] or ""), position, match.end())
    match = LOWER.match(scan.text, position)
    if match and match[1] and scan.previous() in COUNTED:
        scan.say(cardinal(roman_value(match[1].upper()) or 0, scan.dialect), position, match.end())
        return to_last(scan, match.end())
    return position


def to_last(scan: Scan, position: int) -> int:
    """Behind the first page of a preface: the dash and the last one, pp. xi-xv."""
    match = LAST.match(scan.text, position)
    if not match:
        return position
    scan.say("to", position, match.start(1))
    return scan.say(
        cardinal(roman_value(match[1].upper()) or 0, scan.dialect), match.start(1), match.end()
    )
