"""Dates: 2026-03-15, 3/15/2026 (month first in us, day first in gb), March 3, 3 March, Jan. 5;
decades and years with an apostrophe.

    scan = Scan("3/15/2026", "us")
    numeric_date(scan, 0)     # March fifteenth, twenty twenty-six

Named months are spoken where they stand, so only the day beside one is special: `day`.
"""

import re

from kokoro_ane.g2p.normalize.number_words import cardinal, ordinal, plural, year
from kokoro_ane.g2p.normalize.quantities import are_digits
from kokoro_ane.g2p.normalize.short_forms import TITLES, WORDS, finish, is_signed
from kokoro_ane.g2p.normalize.state import (
    ABBREVIATIONS,
    MONTH_FORMS,
    MONTHS,
    VERSIONED,
    WEEKDAYS,
    Scan,
    alternation,
)
from kokoro_ane.g2p.result import GB, US, Dialect
from kokoro_ane.g2p.word_lists import word_set, word_sets

CLOCK = re.compile(r"([01]?\d|2[0-4])[:h]([0-5]\d)(?::([0-5]\d)(?:\.\d{1,6})?)?(?!\d|:\d|h)")
HALF_DAY = re.compile(r"\s?([AaPp])(?:\.\s?[Mm]\.?|[Mm])(?![\w])|(?<=\d)([AaPp])(?![\w'])")
DOTTED = re.compile(r"(1[0-2]|0?[1-9])\.([0-5]\d)(?=\s?[AaPp]\.?[Mm])")
# 7p, 11a-2p
HOUR = re.compile(
    r"(1[0-2]|0?[1-9])(?=\s?[AaPp]\.?[Mm](?:\W|$)|p(?![\w']|\.\w)|a\s?[-–]\s?\d{1,2}"
    r"(?::\d\d)?[ap](?![\w']))"
)
HOUR_AM = re.compile(r"(1[0-2]|0?[1-9])(?=a(?![\w'-]|\.\w))")
AM_BEFORE = re.compile(
    rf"(?:\d[ap]\s?[-–]\s?|(?<![\d-])[1-9]\d?(?::\d\d)?\s?[-–]\s?|@\s?|\b(?:at|by|from"
    rf"|until|till?|{alternation(tuple(WEEKDAYS))}),?\s)$"
)  # 10p-2a, Fri 6a
# before a time of day
AT = word_set("at by until till before after from since around")
RATIO_WORDS = re.compile(
    r"\s+(?:ratio|aspect|screen|odds|mix|scale|split|display|monitor|dilution)\b"
)
TEXT_END = re.compile(r"[\"”')]*(?:\s*$|\s*\n\s*\n|\s+[\"“(]?[A-Z](?!S?T\b|[A-Z]T\b))")


def half_day(scan: Scan, position: int) -> int:
    """am, pm, a.m., P.M. after a time; its dot ends the sentence too where the text does."""
    match = HALF_DAY.match(scan.text, position)
    if not match:
        return position
    start, end = match.start(match.lastindex or 1), match.end()
    stops = scan.text[end - 1] == "." and TEXT_END.match(scan.text, end) is not None
    scan.letters(f"{(match[1] or match[2]).upper()}M", start, end - stops, False if stops else None)
    if stops:
        scan.mark(".", end - 1, end)
    return end


def spoken_clock(hour: int, minute: int, twelve: bool, dialect: Dialect) -> str:
    """Hours and minutes; `twelve`: am or pm follows."""
    hours = cardinal(hour, dialect)
    if minute:
        return f"{hours} {'oh ' if minute < 10 else ''}{cardinal(minute, dialect)}"
    if twelve:
        return hours
    return f"{hours} o'clock" if 1 <= hour <= 12 else f"{hours} hundred"


def counted(number: int, noun: str, dialect: Dialect) -> str:
    """one hour, two hours."""
    return f"{cardinal(number, dialect)} {noun}{'' if number == 1 else 's'}"


def spoken_time(hour: int, minute: int, second: int, dialect: Dialect) -> str:
    """A time of day with its seconds, where there are any."""
    if not second:
        return spoken_clock(hour, minute, False, dialect)
    hours = f"{cardinal(hour, dialect)} {'oh ' if minute < 10 else ''}{cardinal(minute, dialect)}"
    return f"{hours} and {counted(second, 'second', dialect)}"


def lasting(hour: int, minute: int, second: int, dialect: Dialect) -> str:
    """2:05:13 without a sign of the day is how long something took; what is zero is not said."""
    parts = ((hour, "hour"), (minute, "minute"), (second, "second"))
    return (
        " ".join(counted(number, noun, dialect) for number, noun in parts if number)
        or "zero seconds"
    )


def clock(scan: Scan, position: int) -> int:
    """A time of day at `position`."""
    text, dialect = scan.text, scan.dialect
    match = CLOCK.match(text, position) or DOTTED.match(text, position)
    ratio = scan.previous_word() == "of" and scan.previous(2) in ("ratio", "odds", "scale")
    if match and not ratio and not RATIO_WORDS.match(text, match.end()):
        twelve = HALF_DAY.match(text, match.end()) is not None
        spoken = spoken_clock(int(match[1]), int(match[2]), twelve, dialect)
        if match.re is CLOCK and match[3]:
            hour, minute, second = (int(match[group]) for group in (1, 2, 3))
            of_day = twelve or match[1][0] == "0" or hour > 9 or scan.previous_word() in AT
            spoken = (spoken_time if of_day else lasting)(hour, minute, second, dialect)
        scan.say(spoken, position, match.end())
        return half_day(scan, match.end())
    morning = AM_BEFORE.search(text, max(0, position - 12), position)
    match = HOUR.match(text, position) or (HOUR_AM.match(text, position) if morning else None)
    # 5p is money
    if match and (
        dialect == US
        or text[match.end()] not in "ap"
        or text[match.end() + 1 : match.end() + 2] in "mM."
    ):
        scan.say(cardinal(int(match[1]), dialect), position, match.end())
        return half_day(scan, match.end())
    return position


ISO = re.compile(r"(\d{4})([-/.])(\d{2})\2(\d{2})(?![\d/-])")
SLASHED = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4}|\d{2})(?![\d/]|[.-]\d)")
TIME_OF_DAY = re.compile(
    r"T([01]\d|2[0-4]):([0-5]\d)(?::([0-5]\d)(?:[.,]\d{1,9})?)?(Z|([-+−])(\d{2}):?"
    r"(\d{2}))?(?![\w:])"
)
SHORT = re.compile(r"(\d{1,2})/(\d{1,2})(?![\d/]|[.,]\d|c\b)")
DAY = re.compile(r"(\d{1,2})(st|nd|rd|th)?(?![\d/%]|[.,:]\d|\w)")
FORMS = alternation(tuple(MONTH_FORMS))
# 04-Jul-1999, 5 Nov 24
NAMED = re.compile(
    rf"(\d{{1,2}})(?:[-/]({FORMS})[-/](\d{{4}}|\d{{2}})(?![\w-])| ({FORMS})\.?"
    r" (\d{2})(?=[.,;!?)]?(?:\s*$|\s*[\n\x1e])))"
)
DATED = re.compile(
    r"\b(?:dated?|dob|born|married|signed|filed|since|before|by|due|on|until|exp(?:ires"
    r"|iry)?)[:.]?\s*$",
    re.IGNORECASE,
)
MONTH_YEAR = re.compile(r"(0?[1-9]|1[0-2])/((?:19|20)\d\d)(?![\d/])")
YEAR_MONTH = re.compile(r"(20(\d\d))-(0[1-9]|1[0-2])(?![\w-]|\.\d)")  # 2025-03; 2003-05 are years
SEASON = re.compile(r"((?:19|20)\d\d)/(\d\d)(?![\d/])")  # 2020/21
DASH = re.compile(r"\s?[-–—]\s?")
MONTH_BEFORE = re.compile(
    rf"(?:^|[^\w])(?:{FORMS})\.?\s+(?:\d{{1,2}}(?:st|nd|rd|th)?\s?[-–&/]\s?)?$"
)
_MORE = r"\d{1,2}(?:st|nd|rd|th)?(?:,? ?(&|and) ?|, ?)"
# Nov. 5, 7 & 9
LIST_BEFORE = re.compile(rf"\b(?:{FORMS})\.?\s+(?:{_MORE.replace('(&', '(?:&')}){{0,6}}{_MORE}$")
LIST_AFTER, LIST_ENDS = (
    re.compile(r",? ?(?:&|and|, \d{1,2},? ?(?:&|and)) ?\d{1,2}\b"),
    re.compile(r"\s*(?:$|[.;!?)\n\x1e])"),
)
MONTH_AFTER = re.compile(
    rf"(?:\s+(?:of\s+)?|-)(?:{FORMS})(?!\w)\.?(?!\s+(?:be|have|not|also|I|he|she|we|they|you)\b)"
)
MONTH_AFTER_RANGE = re.compile(rf"\s?[-–]\s?\d{{1,2}}(?:st|nd|rd|th)?\s+(?:{FORMS})(?!\w)")
MONTH = re.compile(rf"({FORMS})(\.?)(?![\w'])")
MONTH_NUMBER_NEXT = re.compile(
    rf"\s+(?:\d|the \d|of \d|')|/(?:{FORMS})(?!\w)|-(?:\d\d){{1,2}}(?![\w-])"
)
DECADE = re.compile(r"'?(?:(\d{4}|\d0)'?|(\d{1,3})')s(?!\w)")  # the 1990s, the 12's
DECADE_BEFORE, NO_DAY = word_sets("words", "decade_before no_day")
DECADE_NEXT = re.compile(
    r"[ -](?:music|hits?|fashion|style|kids?|movies?|films?|rock|pop|nostalgia|party"
    r"|night|show|era|vibes?|(?:and|or|to)(?=\s\d))\b"
)
APOSTROPHE_YEAR = re.compile(r"'(\d{2})(?![\w'\"])")
YEAR_OR_MONTH = re.compile(rf"'\d\d(?![\w'\"])|(?:{FORMS})(?!\w)")
DAY_CUE = re.compile(
    r"(?:\b(?:on|by|every|next|last|this|EOD|COB|until|open|closed|due)\s|\d(?:st|nd|rd"
    r"|th)\s|(?:day|[ap]m),?\s"
    r"|\b(?:Mon|Tues?|Weds?|Thu(?:rs?)?|Fri|Sat|Sun)(?:\s?[,/&-]\s?|\s(?:and|or|to|thru"
    r"|through)\s))$",
    re.IGNORECASE,
)
DAY_NEXT = re.compile(
    rf",?\s+(?:\d|[A-Z][a-z]{{2,8}}\.?\s+\d)|\s?(?:[/&,]|and|or|to|thru|through)\s?"
    rf"(?:{alternation(tuple(WEEKDAYS))})(?!\w)"
    r"|\s+(?:the \d|@|morning|afternoon|evening|night)"
)
DAY_ENDS = re.compile(r"[ \t]*(?:$|[\n\x1e,;!?)|@&]|\.\s|[-–]\s)")
WEEKDAY = re.compile(rf"({alternation(tuple(WEEKDAYS))})(\.?)(?![\w'])")
LOOK_BACK = 32  # characters


def say_date(scan: Scan, parts: tuple[int, int, int], start: int, end: int) -> int:
    """(year, month, day) in the dialect's order."""
    number, month, day = parts
    name, nth = MONTHS[month - 1], ordinal(day, scan.dialect)
    date = f"the {nth} of {name}" if scan.dialect == GB else f"{name} {nth}"
    return scan.say(f"{date} , {year(number, scan.dialect)}", start, end)


def full_year(text: str) -> int:
    """99 -> 1999, 26 -> 2026: two digits from 40 on are of the last century."""
    number = int(text)
    return number if len(text) == 4 else number + (1900 if number >= 40 else 2000)


def ordered(first: int, second: int, mark: str, dialect: Dialect) -> tuple[int, int] | None:
    """(month, day) of two numbers; the other order where the dialect's is no date; with dots always
    day first.
    """
    both = [(first, second), (second, first)]
    if mark == "." or dialect != US:
        both.reverse()
    return next(((month, day) for month, day in both if 1 <= month <= 12 and 1 <= day <= 31), None)


def numeric_date(scan: Scan, position: int) -> int:
    """All-digit dates with a year."""
    match = ISO.match(scan.text, position)
    if match:
        number, month, day = (int(group) for group in match.group(1, 3, 4))
        if 1 <= month <= 12 and 1 <= day <= 31:
            return time_of_day(scan, say_date(scan, (number, month, day), position, match.end()))
    match = NAMED.match(scan.text, position)
    if match and 1 <= int(match[1]) <= 31:
        name, short = match[2] or match[4], match[3] or match[5]
        return say_date(
            scan,
            (full_year(short), MONTHS.index(MONTH_FORMS[name]) + 1, int(match[1])),
            position,
            match.end(),
        )
    match = SLASHED.match(scan.text, position)
    is_dated = DATED.search(scan.text, max(0, position - LOOK_BACK), position)
    # 6.7.26
    recent = (
        match and match[2] == "." and "23" < match[4] < "36" and scan.previous() not in VERSIONED
    )
    if match and (is_dated or recent or match[2] == "/" or len(match[4]) > 2):
        pair = ordered(
            int(match[1]),
            int(match[3]),
            "/" if recent and match[1][0] != "0" else match[2],
            scan.dialect,
        )
        if pair:
            return ranged(
                scan, say_date(scan, (full_year(match[4]), *pair), position, match.end()), SLASHED
            )
    return year_after_slash(scan, position)


def ranged(scan: Scan, end: int, other: "re.Pattern[str]") -> int:
    """`to` for the dash behind a day where another day follows."""
    dash = DASH.match(scan.text, end)
    return (
        scan.say("to", end, dash.end(), True)
        if dash and other.match(scan.text, dash.end())
        else end
    )


def year_after_slash(scan: Scan, position: int) -> int:
    """05/2024 is May, 2020/21 a season."""
    match = MONTH_YEAR.match(scan.text, position)
    if match:
        return scan.say(
            f"{MONTHS[int(match[1]) - 1]} {year(int(match[2]), scan.dialect)}",
            position,
            match.end(),
        )
    match = YEAR_MONTH.match(scan.text, position)
    if match and match[3] <= match[2] and scan.text[position - 1 : position] != "#":
        return scan.say(
            f"{MONTHS[int(match[3]) - 1]} {year(int(match[1]), scan.dialect)}",
            position,
            match.end(),
        )
    match = SEASON.match(scan.text, position)
    if match and (int(match[1]) + 1) % 100 == int(match[2]):
        return scan.say(
            f"{year(int(match[1]), scan.dialect)}"
            f" {year(int(match[1]) + 1, scan.dialect).split(' ', 1)[-1]}",
            position,
            match.end(),
        )
    return position


def time_of_day(scan: Scan, position: int) -> int:
    """What follows the T of an ISO date-time: the clock, its seconds where there are any, the
    zone.
    """
    match = TIME_OF_DAY.match(scan.text, position)
    if not match:
        return position
    spoken = spoken_time(int(match[1]), int(match[2]), int(match[3] or 0), scan.dialect)
    if match[5]:
        sign, hours, minutes = match[5], int(match[6]), int(match[7])
        zone = f" {'plus' if sign == '+' else 'minus'} {cardinal(hours, scan.dialect)}"
        spoken += " ~UTC" + (
            zone + (f" {cardinal(minutes, scan.dialect)}" if minutes else "")
            if hours or minutes
            else ""
        )
    elif match[4]:
        spoken += " ~UTC"
    return scan.say(f", {spoken}", position, match.end())


def day(scan: Scan, position: int) -> int:
    """A day's number beside a month's name."""
    match = DAY.match(scan.text, position)
    if not match or not 1 <= int(match[1]) <= 31:
        return position
    nth, end = ordinal(int(match[1]), scan.dialect), match.end()
    if MONTH_BEFORE.search(scan.text[max(0, position - LOOK_BACK) : position]):
        return ranged(scan, scan.say(nth, position, end), MONTH)
    listed = LIST_BEFORE.search(scan.text, max(0, position - LOOK_BACK), position)
    if listed and (
        LIST_AFTER.match(scan.text, end) or (listed[1] and LIST_ENDS.match(scan.text, end))
    ):
        return scan.say(nth, position, end)
    if MONTH_AFTER.match(scan.text, end) or (
        not match[2] and MONTH_AFTER_RANGE.match(scan.text, end)
    ):
        article = (
            ""
            if scan.previous_word() in ("the", "to", "and") and scan.previous() != "to"
            else "the "
        )
        joint = (
            ""
            if re.match(r"\s+of\b", scan.text[end : end + 8])
            or MONTH_AFTER_RANGE.match(scan.text, end)
            else " of"
        )
        return scan.say(f"{article}{nth}{joint}", position, end)
    return position


def month(scan: Scan, position: int) -> int:
    """An abbreviated month, with a dot or beside a number; Mar, Sat and Sun alone are words."""
    match = MONTH.match(scan.text, position)
    if match and match[1] not in MONTHS:
        before = scan.text[max(0, position - 5) : position]
        beside = MONTH_NUMBER_NEXT.match(scan.text, match.end()) or re.search(
            r"(?:\d(?:st|nd|rd|th)?[\s/-]+|\bof\s|[a-z]/)$", before
        )
        signed = match[1] not in WORDS or is_signed(scan.text, position, match.end())
        if beside or (match[2] and signed):
            return finish(scan, MONTH_FORMS[match[1]], position, match.end(), False)
    return position


def weekday(scan: Scan, position: int) -> int:
    """Mon., Tues, Sat.: with a dot or before a comma and a date."""
    match = WEEKDAY.match(scan.text, position)
    full = match and ABBREVIATIONS["plain"].get(match[1])
    if not match or not full:
        return position
    follows = DAY_NEXT.match(scan.text, match.end())
    no_day = scan.previous_word() in NO_DAY or scan.previous() in TITLES.values()
    if match[1] in ("Sat", "Sun", "Wed", "Mon") and not (
        follows
        or scan.text[position - 1 : position] == "/"
        or (scan.previous_word() and not no_day and DAY_ENDS.match(scan.text, match.end(1)))
        or (match[1] != "Wed" and DAY_CUE.search(scan.text, max(0, position - 24), position))
        or (match[2] and not no_day and not scan.text[match.end() :].strip()[:1].isupper())
    ):
        return position
    return finish(scan, full, position, match.end(), False)


def is_decade(scan: Scan, match: "re.Match[str]") -> bool:
    """30s is a decade, or a range of degrees, behind an article and the like, and before what
    decades have; else seconds.
    """
    before = scan.previous_word()
    if before in ("to", "and", "or"):  # the 1920s-30s
        before = scan.previous(2).lower()
    return (
        before in DECADE_BEFORE
        or before.endswith("ies")
        or DECADE_NEXT.match(scan.text, match.end()) is not None
    )


def decade(scan: Scan, position: int) -> int:
    """1990s, '90s, 90s, 1800s, 2000s; '69."""
    match = DECADE.match(scan.text, position)
    bare = match is not None and match[0].isalnum() and len(match[0]) < 4
    if match and bare and not is_decade(scan, match) and not are_digits(scan, match.end()):
        number = int(match[0][:-1])
        return scan.say(f"{cardinal(number, scan.dialect)} seconds", position, match.end())
    if match:
        number = int(match[1] or match[2])
        # '00s
        words = (
            year(number, scan.dialect)
            if number >= 100 and match[1]
            else cardinal(number or 2000, scan.dialect)
        )
        return scan.say(plural(words), position, match.end())
    match = APOSTROPHE_YEAR.match(scan.text, position)
    if match:
        number = int(match[1])
        end = scan.say(
            (
                f"oh {cardinal(number, scan.dialect)}"
                if number < 10
                else cardinal(number, scan.dialect)
            ),
            position,
            match.end(),
        )
        return ranged(scan, end, YEAR_OR_MONTH)
    return position
