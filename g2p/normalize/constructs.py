"""Constructs that no other file names: those of g2p/data/normalize/patterns.json (`patterned`),
ratings, addresses, chess, chemistry.

    cups(Scan("Add 1/2 c. flour.", "us"), 8)
    chess(Scan("He played Nf3.", "us"), 10)        # knight [F] three
    formula(Scan("Rust is Fe2O3.", "us"), 8)       # [FE] two [O] three

Each handler answers its own position where it does not apply. A row of the data has the characters
it begins with, a pattern of what stands before (perhaps none), a pattern, and how it is said,
perhaps another way in British: words, and groups of the match, .1 a number, #1 one that may begin
with 0, =1 in pairs, =1|s their plural, *1 its digits by groups, ^1 an ordinal, +1 its plural, ~1
letters, &1 letters and digits one by one, %1 a way or month, $1 as it is; hour|1 is an hour where
the group is 1, else hours.
"""

import re
from functools import cache

from kokoro_ane.g2p.normalize.number_words import cardinal, decimal, digits, ordinal, plural
from kokoro_ane.g2p.normalize.short_forms import finish, number_piece
from kokoro_ane.g2p.normalize.state import (
    ABBREVIATIONS,
    MONTH_FORMS,
    MONTHS,
    NUMERIC,
    STARTERS,
    WEEKDAY_NAMES,
    Scan,
    read,
)
from kokoro_ane.g2p.result import GB
from kokoro_ane.g2p.word_lists import pairs, word_sets

WINDS = re.compile(r"(?:NNE|ENE|ESE|SSE|SSW|WSW|WNW|NNW|NE|NW|SE|SW|[NSEW])(?![\w'&.-])")
WIND_NEXT = re.compile(
    r"\s(?:winds?\b|(?:at\s)?\d{1,3}(?:\s?[-–]\s?\d{1,3}|\sto\s\d{1,3})?\s?(?:mph|km/h"
    r"|kph|kts?|knots|m/s)\b)"
)
WIND_BEFORE = re.compile(
    r"(?:\bwinds?:?|\bgusts?|\bswell|\b(?:mph|km/h|kph|kts?|knots))\s$", re.IGNORECASE
)
ROAD_BEFORE = re.compile(
    r"(?:\b(?:I|US|SR|CA|TX|FL|NY)-|\b(?:I|US|Hwy\.?|Highway|Route|Rte\.?|Interstate|exit"
    r"|Exit|U\.S\.)\s?)\d{1,3}[A-Z]?\s$"
)
SIDED = re.compile(
    r"([LR])(?=\s+(?:arm|leg|knee|eye|ear|hand|foot|shoulder|hip|ankle|wrist|side|elbow)\b)"
)
TURN = re.compile(r"([LRNSEW])(?=\s+(?:(?:on|onto)\s+[A-Z\d]|at\s))")
BEFORE_TURN, ELEMENTS, PLAIN_FORMULAS = word_sets("words", "before_turn elements plain_formulas")
WAYS = pairs("N:north S:south E:east W:west NE:northeast NW:northwest SE:southeast SW:southwest")
TURNS = WAYS | {"L": "left", "R": "right"}
_TYPED = {form.lower(): name for form, name in WEEKDAY_NAMES.items()} | {
    str(number): name for number, name in enumerate(MONTHS, 1)
}
NAMED: dict[str, str] = TURNS | MONTH_FORMS | WEEKDAY_NAMES | _TYPED
_ROADS = (
    "St Ave Rd Blvd Dr Ln Ct Pl Pkwy Hwy Street Avenue Road Boulevard Drive Lane Court Place"
    " Parkway Highway Broadway Way Terrace Circle"
)
WAY_BEFORE = re.compile(
    rf"(NE|NW|SE|SW|[NSEW])(\.?)\s+(?=(?:[A-Z][a-z]{{1,15}}|\d{{1,3}}(?:st|nd|rd|th))\s+"
    rf"(?:{_ROADS.replace(' ', '|')})\b)"
)
WAY_AFTER = re.compile(r"(NE|NW|SE|SW|[NSEW])(\.?)(?![\w'&.-])")
ROADS = frozenset(_ROADS.lower().split())
CUPS = re.compile(r"([cT])\.(?=\s+(?:[a-z(]|[A-Z]{2})|\s*[),;])")
ONE_BEFORE = re.compile(r"(?:(?<!\d[ -])(?<!\d)\d{1,2}/\d{1,2}|(?:^|[\s(])1)\s*$")
MANY_BEFORE = re.compile(r"\d[¼½¾⅓⅔⅛⅜⅝⅞]?\s*$")
SPOONS = {"c": "cup", "T": "tablespoon"}
RATED = re.compile(r"(\d{1,2}(?:\.\d)?)/(5|10|100)(?![\d/]|\.\d|\s+of\b|\s?[a-z]{1,4}\b(?<!for))")
RATE_WORD = re.compile(
    r"(?:\b(?:rat(?:ed?|ing)|scor(?:ed?|ing)|review|stars?|gave|give|solid|pain|got"
    r"|a)\b[^\d.]{0,24})$",
    re.IGNORECASE,
)
PARTY = re.compile(r"([DRI])-([A-Z][a-z]{2,12})(\.?)(?![\w-])")
GENUS = re.compile(r"([A-Z])\.\s+(?=([a-z]{3,20})(?![\w']))")
PORT = re.compile(r":(\d{2,5})(?![\w:]|\.\d)")
BOOKS = dict(pair.split(":") for pair in sorted(word_sets("words", "books")[0]))
VERSE = re.compile(
    rf"({'|'.join(sorted(BOOKS, key=len, reverse=True))})(\.?)"
    r" (\d{1,3}):(\d{1,3})(?:[-–](\d{1,3}))?(?![\w:])"
)
LOOK_BACK, ROW_BACK = 32, 120  # characters
_DATA = read("patterns")
TRIGGERS = frozenset(_DATA["triggers"].split())  # words of plain form that rows begin with
Row = tuple[re.Pattern[str], re.Pattern[str] | None, str, str]


@cache
def patterns() -> dict[str, list[Row]]:
    """The rows by their first character, 0 for any digit; compiled when the first text asks, which
    takes 0.05 s.
    """
    rows_by_first: dict[str, list[Row]] = {}
    for first, behind, pattern, *spoken in _DATA["rows"]:
        row = (
            re.compile(pattern),
            re.compile(f"(?:{behind})$") if behind else None,
            spoken[0],
            spoken[-1],
        )
        for character in first:
            rows_by_first.setdefault(character, []).append(row)
    return rows_by_first


def patterned(scan: Scan, position: int) -> int:
    """The first row of the data that fits."""
    character = scan.text[position]
    # of most sentences
    if character == "." and not scan.text[position + 1 : position + 2].isalpha():
        return position
    for pattern, behind, spoken, british in patterns().get(
        "0" if character.isdecimal() else character, ()
    ):
        match = pattern.match(scan.text, position)
        if match and (
            behind is None or behind.search(scan.text, max(0, position - ROW_BACK), position)
        ):
            pieces = [
                part(piece, match, scan)
                for piece in (british if scan.dialect == GB else spoken).split()
            ]
            return finish(scan, " ".join(pieces), position, match.end(), False)
    return position


def part(piece: str, match: "re.Match[str]", scan: Scan) -> str:
    """One piece of a row's last column."""
    noun, bar, number = piece.partition("|")
    if number == "s":
        return plural(part(noun, match, scan))
    if bar:
        return noun + "s" * (match[int(number)] != "1") if match[int(number)] else ""
    if len(piece) != 2 or not piece[1].isdecimal():
        return piece
    sign, text = piece[0], match[int(piece[1])] or ""
    if sign in "^+" or not text:
        return (
            ""
            if not text
            else (
                ordinal(int(text), scan.dialect)
                if sign == "^"
                else plural(ordinal(int(text), scan.dialect))
            )
        )
    if sign in ".#":
        return decimal(text, scan.dialect) if sign == "." else cardinal(int(text), scan.dialect)
    groups = re.findall(r"\d+", text)
    if sign in "*=":
        return (" , " if sign == "*" else " ").join(
            digits(one) if sign == "*" else number_piece(one, scan.dialect) for one in groups
        )
    if sign == "&":
        return " , ".join(
            " ".join(digits(c) if c.isdecimal() else f"~{c}" for c in group)
            for group in re.findall(r"\w+", text.upper())
        )
    return {"~": f"~{text.upper()}", "%": NAMED.get(text, text)}.get(sign, text)


def is_wind(scan: Scan, position: int) -> bool:
    """Wind: NW 15 mph; 15 mph SSE; I-80 E."""
    match, before = WINDS.match(scan.text, position), scan.text[max(0, position - 24) : position]
    if not match:
        return False
    return bool(
        WIND_BEFORE.search(before)
        or ROAD_BEFORE.search(before)
        or WIND_NEXT.match(scan.text, match.end())
    )


def direction(scan: Scan, position: int) -> int:
    """N. Main St., 5th Ave. NW: a way before a street's name or behind it."""
    sided, turn = SIDED.match(scan.text, position), TURN.match(scan.text, position)
    if sided:
        return scan.say(TURNS[sided[1]], position, sided.end())
    if turn and (not scan.previous_word() or scan.previous_word() in BEFORE_TURN):
        return scan.say(TURNS[turn[1]], position, turn.end())
    match = WAY_BEFORE.match(scan.text, position)
    if match:
        end = match.end(2)
    elif is_wind(scan, position):
        winds = WINDS.match(scan.text, position)
        assert winds
        whole = winds[0] if len(winds[0]) < 3 else f"{winds[0][0]} {winds[0][1:]}"
        return scan.say(" ".join(WAYS[part] for part in whole.split()), position, winds.end())
    else:
        match = WAY_AFTER.match(scan.text, position)
        if not match or scan.previous_word() not in ROADS:
            return position
        end = match.end(1)
    return scan.say(WAYS[match[1]], position, end)


def cups(scan: Scan, position: int) -> int:
    """1/2 c. flour, 2 T. sugar, behind a count."""
    match = CUPS.match(scan.text, position)
    if not match or scan.previous_word() not in NUMERIC | {"third", "half", "halves", "cups"}:
        return position
    before = scan.text[max(0, position - 8) : position]
    many = MANY_BEFORE.search(before) is not None and not ONE_BEFORE.search(before)
    return scan.say(SPOONS[match[1]] + "s" * many, position, match.end())


def rating(scan: Scan, position: int) -> int:
    """4.5/5, and 8/10 where something is rated: `out of`."""
    match = RATED.match(scan.text, position)
    if not match or float(match[1]) > int(match[2]):
        return position
    full = match[1] == match[2] != "100"  # 10/10
    if (
        "." not in match[1]
        and not full
        and not RATE_WORD.search(scan.text[max(0, position - LOOK_BACK) : position])
    ):
        return position
    return scan.say(
        f"{decimal(match[1], scan.dialect)} out of {cardinal(int(match[2]), scan.dialect)}",
        position,
        match.end(),
    )


def party(scan: Scan, position: int) -> int:
    """(D-Calif.), R-Texas: the party's letter and the state."""
    match = PARTY.match(scan.text, position)
    state = match and (ABBREVIATIONS["plain"].get(match[2]) if match[3] else match[2])
    if not match or not state or scan.previous() not in ("(", ","):
        return position
    scan.letters(match[1], position, position + 2, True)
    return scan.word(state, position + 2, match.end())


def genus(scan: Scan, position: int) -> int:
    """E. coli, H. sapiens: a capital with a dot before a lower-case word is no sentence's end."""
    match = GENUS.match(scan.text, position)
    starts = (
        match is not None
        and match[2].capitalize() in STARTERS
        and not scan.previous()[:1].isupper()
    )
    if (
        not match
        or starts
        or scan.previous_word()
        in ("vitamin", "plan", "type", "hepatitis", "grade", "class", "group", "i")
    ):
        return position
    return scan.letters(match[1], position, position + 2)


def port(scan: Scan, position: int) -> int:
    """The port behind an address of four numbers or localhost."""
    match = PORT.match(scan.text, position)
    is_address = "dot" in (scan.previous(2), scan.previous(3))
    if not match or not is_address or scan.tokens[-1][2] != position:
        return position
    scan.space_last()
    return scan.say(f"port {number_piece(match[1], scan.dialect)}", position, match.end())


def verse(scan: Scan, position: int) -> int:
    """Gen. 1:1, Matt. 5:3-12: book, chapter, verse."""
    match = VERSE.match(scan.text, position)
    if not match:
        return position
    numbers = [cardinal(int(group), scan.dialect) for group in match.groups()[2:] if group]
    return scan.say(
        f"{BOOKS[match[1]]} {' '.join(numbers[:2])}"
        + (f" to {numbers[2]}" if len(numbers) > 2 else ""),
        position,
        match.end(),
    )


PIECES = pairs("K:king Q:queen R:rook B:bishop N:knight")
MOVE = re.compile(r"([KQRBN])([a-h]?)([1-8]?)(x?)([a-h])([1-8])([+#]?)(?![\w#+])")
FORMULA = re.compile(r"(?:[A-Z][a-z]?\d{0,3}){2,8}(?![\w'-])")
ATOM = re.compile(r"([A-Z][a-z]?)(\d*)")
ENUMERATED = re.compile(r"([A-HJ-Za-z])(?=\)\s)")


def chess(scan: Scan, position: int) -> int:
    """Nf3, Qxd5+, Rad1: piece, file and row, check or mate."""
    match = MOVE.match(scan.text, position)
    if not match:
        return position
    piece, own_file, own_row, takes, file, row, sign = match.groups()
    extension = (f" ~{own_file.upper()}" if own_file else "") + (
        f" {cardinal(int(own_row), scan.dialect)}" if own_row else ""
    )
    end = {"+": " check", "#": " mate", "": ""}[sign]
    spoken = (
        f"{PIECES[piece]}{extension}{' takes' * bool(takes)} ~{file.upper()}"
        f" {cardinal(int(row), scan.dialect)}{end}"
    )
    return scan.say(spoken, position, match.end())


def formula(scan: Scan, position: int) -> int:
    """Fe2O3, NaCl: letters run up to a number; only where an element of two letters makes other
    rules fail.
    """
    match = FORMULA.match(scan.text, position)
    if not match or not (
        "NO" in match[0] or "SO" in match[0] or any(character.islower() for character in match[0])
    ):
        return position
    atoms = ATOM.findall(match[0])
    if not all(symbol in ELEMENTS for symbol, _ in atoms) or (
        match[0] not in PLAIN_FORMULAS and not any(count for _, count in atoms)
    ):
        return position
    spoken, letters = [], ""
    for symbol, count in atoms:
        letters += symbol.upper()
        if count:
            spoken += [f"~{letters}", cardinal(int(count), scan.dialect)]
            letters = ""
    return scan.say(
        " ".join([*spoken, *([f"~{letters}"] if letters else [])]), position, match.end()
    )


def enumerated(scan: Scan, position: int) -> int:
    """a), (b) before the points of a list: the letter."""
    match = ENUMERATED.match(scan.text, position)
    before = scan.text[position - 1 : position]
    if not match or not (before == "" or before in " \t\n("):
        return position
    return scan.letters(match[1].upper(), position, position + 1, False)
