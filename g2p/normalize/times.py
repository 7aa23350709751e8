"""Times of day and durations with colons: 3:30 pm, 14:05, 9:00, 5pm, 3.30pm, 1:02:03.

scan = Scan("at 3:30 pm", "us")
clock(scan, 3)
"""

import re

from g2p.normalize.number_words import cardinal
from g2p.normalize.state import Scan
from g2p.result import Dialect

CLOCK = re.compile(r"([01]?\d|2[0-4])[:h]([0-5]\d)(?::([0-5]\d)(?:\.\d{1,6})?)?(?![\d:]|h)")
HALF_DAY = re.compile(r"\s?([AaPp])(?:\.\s?[Mm]\.?|[Mm])(?![\w])")
DOTTED = re.compile(r"(1[0-2]|0?[1-9])\.([0-5]\d)(?=\s?[AaPp]\.?[Mm])")
HOUR = re.compile(r"(1[0-2]|0?[1-9])(?=\s?[AaPp]\.?[Mm](?:\W|$))")
AT = frozenset(("at", "by", "until", "till", "before", "after", "from", "since", "around"))  # before a time of day
RATIO_WORDS = re.compile(r"\s+(?:ratio|aspect|screen|odds|mix|scale|split|display|monitor|dilution)\b")
TEXT_END = re.compile(r"[\"”')]*(?:\s*$|\s*\n\s*\n|\s+[\"“(]?[A-Z](?!S?T\b|[A-Z]T\b))")


def half_day(scan: Scan, position: int) -> int:
    """am, pm, a.m., P.M. after a time; its dot ends the sentence too where the text does."""
    match = HALF_DAY.match(scan.text, position)
    if not match:
        return position
    start, end = match.start(1), match.end()
    stops = scan.text[end - 1] == "." and TEXT_END.match(scan.text, end) is not None
    scan.letters(f"{match[1].upper()}M", start, end - stops, False if stops else None)
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
    return " ".join(counted(number, noun, dialect) for number, noun in parts if number) or "zero seconds"


def clock(scan: Scan, position: int) -> int:
    """A time of day at `position`."""
    text, dialect = scan.text, scan.dialect
    match = CLOCK.match(text, position) or DOTTED.match(text, position)
    if (
        match
        and not RATIO_WORDS.match(text, match.end())
        and not (scan.previous_word() == "of" and scan.previous(2) in ("ratio", "odds", "scale"))
    ):
        twelve = HALF_DAY.match(text, match.end()) is not None
        spoken = spoken_clock(int(match[1]), int(match[2]), twelve, dialect)
        if match.re is CLOCK and match[3]:
            hour, minute, second = (int(match[group]) for group in (1, 2, 3))
            of_day = twelve or match[1][0] == "0" or hour > 9 or scan.previous_word() in AT
            spoken = (spoken_time if of_day else lasting)(hour, minute, second, dialect)
        scan.say(spoken, position, match.end())
        return half_day(scan, match.end())
    match = HOUR.match(text, position)
    if match:
        scan.say(cardinal(int(match[1]), dialect), position, match.end())
        return half_day(scan, match.end())
    return position
