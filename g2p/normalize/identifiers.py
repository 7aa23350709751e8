"""Numbers that are names: codes, orders, cards, accounts, tracking, ZIP and telephone numbers,
digit by digit and not as amounts.

    code(Scan("Your code is 482913.", "us"), 13)      # four eight two, nine one three
    code(Scan("ZIP 60614", "us"), 4)

A number is one where a word of g2p/data/normalize/identifiers.json stands before it, with nothing
between but `number`, `no.`, `is` and the like, and no plural noun follows (order 500 copies); where
# stands before five digits; or where it has ten digits and no comma.
"""

import re

from kokoro_ane.g2p.normalize.number_words import cardinal, digits
from kokoro_ane.g2p.normalize.quantities import has_unit
from kokoro_ane.g2p.normalize.short_forms import ODD, number_piece
from kokoro_ane.g2p.normalize.state import (
    COUNTED_NOUNS,
    DIAL,
    NO_NOUNS,
    NO_PLURALS,
    Scan,
    alternation,
    read,
)
from kokoro_ane.g2p.result import GB

DATA = read("identifiers")
STATES, DOUBTFUL = DATA["states"], frozenset(DATA["doubtful_states"].split())
_JOINTS = alternation(tuple(DATA["joints"].split()))
_BETWEEN = (
    rf"(?:'s)?(?:(?:\s*[:#.=*•]{{1,8}}\s*|\s+)(?:{_JOINTS})\b){{0,4}}"
    rf"(?:\s*[:#.=*•]{{1,16}}\s*|\s+)[#*]?"
)
CUE = re.compile(
    rf"(?<![\w'])({alternation(tuple(DATA['after'].split()))}){_BETWEEN}(?:(?-i:[A-Z]{{1,4}})["
    r" -])?$",
    re.IGNORECASE,
)
PAIRED = re.compile(
    rf"(?<![\w'])(?:{alternation(tuple(DATA['paired'].split()))})\.?(?:\s+(?:no\."
    rf"|number))?(?:\s|\s?#\s?)$",
    re.IGNORECASE,
)
SIGN = re.compile(r"#\s?$")
# Text JOIN to 72345
SENT = re.compile(r"\b(te?xt|send|reply|sms|msg)\s+[\"“']?\w{1,12}[\"”']?\s+to\s+$", re.IGNORECASE)
OFFER = re.compile(r"(?=\D*[AEIOUY])[A-Z]{4,12}\d{1,2}")  # SAVE20
HIDDEN = re.compile(r"(?:[*•xX]{2,16}[ -]?|(?<=[\s(A-Z#])(?:…|\.{3}))$")  # •••• 1234, (…3391)
COMBINATION = re.compile(r"\b(?:combo|combination)\b", re.IGNORECASE)
GROUPS = re.compile(r"\d{1,12}(?:[ -]\d{1,12}){1,7}(?![\w%$€£]|[.,:/]\d)")
RUN = re.compile(r"\d{3,40}(?![\w%°$€£/]|[.,:]\d)")
LONG = re.compile(r"\d{10,40}(?![\w%°$€£]|[.,:]\d)")
MIXED = re.compile(
    r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z\d]{4,40}(?:-[A-Za-z\d]{2,20}){0,4}(?![\w'])"
)
PIECE = re.compile(r"[A-Z]+|[a-z]+|\d+")
FORMULA = re.compile(r"(?:[CHONSP]\d{0,2}){2,9}")
SWITCH = re.compile(r"(?<=\d)(?=[A-Z])|(?<=[A-Z])(?=\d)")
NOUN = re.compile(r"\s([a-z]+)")
PHONE = {7: (3, 7), 10: (3, 6, 10), 11: (1, 4, 7, 11)}  # where a run of so many digits is cut
LOOK_BACK = 60  # characters
ROAD = re.compile(
    r"\b(?:take|on|onto|off|via|along|down|up)\s+the\s$|\b(?:traffic|accident|crash"
    r"|backup|delays)\s+on\s$",
    re.IGNORECASE,
)
ROAD_NUMBER = re.compile(
    r"\d{3}(?=\s+(?:to|north|south|east|west|freeway|toward|towards|exit|at|near|until"
    r"|from|and)\b|[.,;!?]|\s*$)"
)
ZIP, STATE_ENDS = (
    re.compile(r"\d{5}(?:-\d{4})?(?![\w,.]\d)"),
    frozenset(name.split()[-1] for name in STATES.values()),
)
STATE = re.compile(
    rf"({alternation(tuple(STATES))})(?=(\s+\d{{5}}(?:-\d{{4}})?\b)|\s*(?:$|[.,;)\n\x1e]))"
)
CITY = re.compile(r"[A-Z][\w.'-]+,? $")


def is_cued(scan: Scan, position: int) -> "re.Match[str] | None":
    """The word that makes a name of the number at `position`."""
    low = max(0, position - LOOK_BACK)
    return CUE.search(scan.text, low, position) or SENT.search(scan.text, low, position)


def counts(scan: Scan, end: int) -> bool:
    """Whether what follows is counted: a plural noun, or a unit."""
    noun = NOUN.match(scan.text, end)
    word = noun[1] if noun else ""
    plural = word.endswith("s") and not word.endswith("ss") and word not in NO_PLURALS | NO_NOUNS
    return word in COUNTED_NOUNS or plural or has_unit(scan, end) is not None


def one_by_one(text: str, scan: Scan) -> str:
    """Digits apart, a rest within a telephone number or between two halves of a long code."""
    zero = "oh" if scan.dialect == GB else "zero"
    ends = PHONE.get(len(text)) or (
        ((len(text) + 1) // 2, len(text)) if len(text) in (6, 8, 9) else (len(text),)
    )
    return " , ".join(
        digits(text[start:end], zero) for start, end in zip((0, *ends), ends, strict=False)
    )


def combination(scan: Scan, position: int) -> int:
    """combo 12-30-8: numbers with a rest between them."""
    match = GROUPS.match(scan.text, position)
    cue = match and is_cued(scan, position)
    if not match or not cue or not COMBINATION.search(cue[0]):
        return position
    parts = re.split(r"[ -]", match[0])
    return scan.say(
        " , ".join(cardinal(int(part), scan.dialect) for part in parts), position, match.end()
    )


def code(scan: Scan, position: int) -> int:
    """A number that is a name."""
    text = scan.text
    cue = is_cued(scan, position)
    match = ZIP.match(text, position)
    if match and scan.previous() in STATE_ENDS and scan.space_before(position):
        return scan.say(" , ".join(map(digits, match[0].split("-"))), position, match.end())
    match = GROUPS.match(text, position)
    if match and cue and sum(map(str.isdigit, match[0])) > 4:
        parts = re.split(r"[ -]", match[0])
        return scan.say(
            " , ".join(
                one_by_one(part, scan) if len(part) < 10 else digits(part) for part in parts
            ),
            position,
            match.end(),
        )
    match = RUN.match(text, position)
    hidden = HIDDEN.search(text, max(0, position - 20), position) is not None
    if (
        match
        and (
            cue
            or hidden
            or (SIGN.search(text, max(0, position - 2), position) and len(match[0]) > 4)
        )
        and not counts(scan, match.end())
    ):
        short = (len(match[0]) == 3 and not (cue and cue[1].lower() in DIAL)) or (
            len(match[0]) == 4
            and cue is not None
            and cue[1].lower() in ("order", "case", "ticket", "invoice")
        )
        return scan.say(
            number_piece(match[0], scan.dialect) if short else one_by_one(match[0], scan),
            position,
            match.end(),
        )
    # build #4412
    if (
        match
        and not cue
        and len(match[0]) == 4
        and SIGN.search(text, max(0, position - 2), position)
    ):
        return scan.say(number_piece(match[0], scan.dialect), position, match.end())
    match = LONG.match(text, position)
    if match and not counts(scan, match.end()):
        return scan.say(one_by_one(match[0], scan), position, match.end())
    return paired(scan, position)


def paired(scan: Scan, position: int) -> int:
    """Room 1412, flight 287, error 404, the 405: in pairs."""
    match = RUN.match(scan.text, position)
    if (
        match
        and len(match[0]) < 5
        and PAIRED.search(scan.text, max(0, position - LOOK_BACK), position)
        and not counts(scan, match.end())
    ):
        return scan.say(number_piece(match[0], scan.dialect), position, match.end())
    match = ROAD_NUMBER.match(scan.text, position)
    if match and ROAD.search(scan.text, max(0, position - 16), position):
        return scan.say(number_piece(match[0], scan.dialect), position, match.end())
    return position


def mixed(scan: Scan, position: int) -> int:
    """Letters and digits that are a code, by the word before it or by changing from one to the
    other three times: each apart.
    """
    match = MIXED.match(scan.text, position)
    if not match or scan.text[position - 1 : position].isalnum() and position:
        return position
    text = match[0]
    if FORMULA.fullmatch(text) or (
        OFFER.fullmatch(text) and not scan.unlisted(text.rstrip("0123456789").lower())
    ):
        return position
    loud = not any(map(str.islower, text))
    if not (
        (loud and len(text) > 5 and len(SWITCH.findall(text)) > 2)
        or (is_cued(scan, position) and (loud or text.islower()))
    ):
        return position
    spoken = [piece_of(piece, scan) for piece in PIECE.findall(text)]
    return scan.say(" ".join(spoken), position, match.end())


def piece_of(piece: str, scan: Scan) -> str:
    """Digits one by one, short letters as letters, a longer run as the word it probably is."""
    if piece.isdigit():
        return digits(piece)
    return (
        piece.lower()
        if len(piece) > 3 and not ODD.search(piece.upper()) and not scan.unlisted(piece.lower())
        else f"~{piece.upper()}"
    )


def state(scan: Scan, position: int) -> int:
    """The state behind a city: before a ZIP code, or at the end of a line where its letters can be
    nothing else.
    """
    match = STATE.match(scan.text, position)
    if (
        not match
        or scan.dialect == GB
        or not CITY.search(scan.text, max(0, position - 24), position)
    ):
        return position
    comma = scan.text[position - 2 : position - 1] == ","
    if (not match[2] or match[1] == "ID" and not comma) and (match[1] in DOUBTFUL or not comma):
        return position
    return scan.say(STATES[match[1]], position, match.end(1))
