"""Days that are written as two numbers (on 12/25, due 4/15, 6/3-6/10), and other short dates: 0600
hours, exp. 09/27.

    short_date(Scan("See you on 12/25.", "us"), 11)     # December twenty-fifth

Two numbers and a slash are a day where a word of g2p/data/normalize/calendar.json stands before
them, or a weekday, or another such day; a fraction where `of`, a measure or a word of change says
so (cut by 1/3).
"""

import re

from kokoro_ane.g2p.normalize.dates import AT, SHORT, full_year, ordered, say_date
from kokoro_ane.g2p.normalize.number_words import cardinal, ordinal, year
from kokoro_ane.g2p.normalize.state import MONTHS, VERSIONED, WEEKDAYS, Scan, alternation, read
from kokoro_ane.g2p.result import GB

DATA = read("calendar")
STRONG = frozenset(DATA["before"].split()) - frozenset(DATA["weak"].split())
CHANGE = frozenset(DATA["change"].split())
BEFORE = re.compile(
    rf"(?:^|[^\w'/-])({alternation(tuple(DATA['before'].split()))})(?:\s*[:.,(]\s*|\s+)"
    rf"(?:the\s+)?$",
    re.IGNORECASE,
)
DAY_BEFORE = re.compile(
    rf"\b(?:(?:{alternation(tuple(WEEKDAYS))})\.?,?|(?:(?:week|wk) of|w/[ec]|day is|see"
    r" (?:yo)?u|ya|seen|EO[DB]|COB|flight|night,?"
    r"|[Ww]?[Hh](?:ow|at) about|[Cc]an (?:you|we) do|free|[Aa]s of"
    r"|(?:\d{1,3}th|day|anniv\w*|party|wedding|game|recital|test|exam|appt|reunion"
    r"|surgery|flight|trip|deadline)"
    r" (?:is|was)))\s+$"
)
HOUR_AFTER = re.compile(
    r"\s*(?:@|at\b|,)?\s*\d{1,2}(?::\d\d|\s?[ap]\.?m\b)|\s+\d{1,2}[-–]\d{1,2}\b|\s+(?:works?\b|at"
    r" the latest|or (?:earlier|later|sooner))"
    rf"|\s+(?:{alternation(tuple(DATA['after'].split()))})\b(?! (?:is|are|was) (?:full|done))",
    re.I,
)
SCORED = re.compile(
    r"\b(?:got|scored?|grade|quiz|exam|result|won|lost|beat|odds)\b[^\d]{0,12}$", re.IGNORECASE
)
PARTS = frozenset((16, 32))  # denominators beyond 12 that are not rare
MEASURED = re.compile(rf"[\s-]*(?:{alternation(tuple(DATA['measured'].split()))})\b|\s*[\"%]")
RANGE = re.compile(r"\s?[-–—]\s?(\d{1,2})/(\d{1,2})(?![\d/]|[.,]\d)")
LAST_DAY = re.compile(r"[-–](\d{1,2})(?![\w/:]|[.,-]\d)")  # 4/1-3
JOINT = re.compile(r"\s*(?:[-–—,&]|to|through|thru|until|and|or)\s*")
EXPIRES = re.compile(
    r"(?:exp(?:ires|iry|iration)?|valid thru|good thru)(?: date)?[.:]?\s*$", re.IGNORECASE
)
MONTH_YEAR = re.compile(r"(0[1-9]|1[0-2])/(\d\d)(?![\d/])")
NEXT = re.compile(
    r"(?:\s?[-–]\s?|\s+(?:to|thru|through|until|till)\s+|(,? (?:and|or|&) |,"
    r" ))(\d{1,2})/(\d{1,2})(?![\d/]|[.,]\d)"
)
MILITARY = re.compile(r"([01]\d|2[0-4])([0-5]\d)(?:(h)\b|(?=\s?(?:hours|hrs?\b|h\b)))")
EARLY = re.compile(r"(0\d)([0-5]\d)()(?!\w|[.,:/-]\d(?!\d{3}\b))")  # at 0730, 0900-1700
SHIFT = re.compile(r"0\d{3}(?:[-–]\d{4}\b| sharp\b)")
RUN_TOGETHER = re.compile(r"((?:19|20)\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?![^\W_]|[.,/-]\d)")
# denominators that kitchens and tools have
COMMON, RARE = frozenset((2, 3, 4, 5, 6, 8, 10, 16)), frozenset((7, 9, 11, 12))
LOOK_BACK = 28  # characters


def is_day(scan: Scan, match: "re.Match[str]") -> bool:
    """Whether d/d is a day by what stands around it."""
    text, position = scan.text, match.start()
    if MEASURED.match(text, match.end()):
        return False
    if scan.dated and JOINT.fullmatch(text, scan.dated, position):
        return True
    low = max(0, position - LOOK_BACK)
    if DAY_BEFORE.search(text, low, position) or HOUR_AFTER.match(text, match.end()):
        return True
    top, bottom = int(match[1]), int(match[2])
    rare = (
        top > bottom or (bottom > 12 and bottom not in PARTS) or (bottom in RARE and top != bottom)
    )
    apart = (
        bottom > 8
        and text[position - 1 : position] == "("
        and text[match.end() : match.end() + 1] == ")"
    )
    if (
        "0" in (match[1][0], match[2][0])
        or apart
        or rare
        and not SCORED.search(text, low, position)
    ):
        return True
    fraction = top < bottom and bottom in COMMON
    cue = BEFORE.search(text, low, position)
    if cue and (cue[1].lower() in STRONG or not fraction):
        return True
    if cue or scan.dated:
        changed = CHANGE & {token[0].lower() for token in scan.tokens[-6:]}
        return not changed and (
            scan.dated > 0
            or (cue is not None and cue[1].lower() in ("by", "from", "before", "after", "between"))
        )
    other = NEXT.match(text, match.end())
    if (
        not other
        or not ordered(int(other[2]), int(other[3]), "/", scan.dialect)
        or MEASURED.match(text, other.end())
    ):
        return False
    first, last = int(other[2]), int(other[3])
    if other[1]:  # 5/5 & 5/6; 3/12 or 3/13
        return (last > 12 and last not in PARTS) or top == bottom and top == first
    return max(bottom, first, last) > 12 or first > last


def short_date(scan: Scan, position: int) -> int:
    """A day without a year."""
    is_dated = scan.previous_word() in AT or SHIFT.match(scan.text, position)
    match = MILITARY.match(scan.text, position) or (
        EARLY.match(scan.text, position) if is_dated else None
    )
    if match:
        minutes = "hundred" if match[2] == "00" else cardinal(int(match[2]), scan.dialect)
        hours = (
            f"{'zero ' * (match[1][0] == '0')}{cardinal(int(match[1]), scan.dialect)}"
            f" {minutes}{' hours' * bool(match[3])}"
        )
        return scan.say(hours, position, match.end())
    match = MONTH_YEAR.match(scan.text, position)
    if (
        match
        and match[1][0] == "0"
        and EXPIRES.search(scan.text, max(0, position - LOOK_BACK), position)
    ):
        return scan.say(
            f"{MONTHS[int(match[1]) - 1]} {year(full_year(match[2]), scan.dialect)}",
            position,
            match.end(),
        )
    match = SHORT.match(scan.text, position)
    pair = match and ordered(int(match[1]), int(match[2]), "/", scan.dialect)
    if (
        not match
        or not pair
        or match[0] in ("24/7", "50/50", "20/20", "9/11")
        or scan.previous() in VERSIONED
        or not is_day(scan, match)
    ):
        return position
    name, nth = MONTHS[pair[0] - 1], ordinal(pair[1], scan.dialect)
    scan.dated = scan.say(
        f"the {nth} of {name}" if scan.dialect == GB else f"{name} {nth}", position, match.end()
    )
    following = RANGE.match(scan.text, scan.dated)
    if following and ordered(int(following[1]), int(following[2]), "/", scan.dialect):
        # the second day looks back at where the first ended
        return scan.say("to", scan.dated, following.start(1), True)
    following = LAST_DAY.match(scan.text, scan.dated)
    if following and pair[1] < int(following[1]) < 32:
        return scan.say(
            f"to {ordinal(int(following[1]), scan.dialect)}", scan.dated, following.end()
        )
    return scan.dated


def run_together(scan: Scan, position: int) -> int:
    """20250309, where no word makes a code of it."""
    match = RUN_TOGETHER.match(scan.text, position)
    if not match:
        return position
    return say_date(scan, (int(match[1]), int(match[2]), int(match[3])), position, match.end())
