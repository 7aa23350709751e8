"""Constructs that no other file names: of law, kitchens, ratings, addresses, messages, chess and chemistry (5(b), 1/2 c., 8/10, E. coli).

    cups(Scan("Add 1/2 c. flour.", "us"), 8)
    chess(Scan("He played Nf3.", "us"), 10)        # knight [F] three
    formula(Scan("Rust is Fe2O3.", "us"), 8)       # [FE] two [O] three

Each handler answers its own position where it does not apply.
"""

import re

from kokoro_ane.g2p.normalize.number_words import cardinal, decimal, ordinal, plural
from kokoro_ane.g2p.normalize.short_forms import number_piece
from kokoro_ane.g2p.normalize.state import ABBREVIATIONS, NUMERIC, STARTERS, SYMBOL_NAMES, Scan
from kokoro_ane.g2p.result import GB
from kokoro_ane.g2p.word_lists import word_sets

WINDS = re.compile(r"(?:NNE|ENE|ESE|SSE|SSW|WSW|WNW|NNW|NE|NW|SE|SW|[NSEW])(?![\w'&.-])")
WIND_NEXT = re.compile(r"\s(?:winds?\b|(?:at\s)?\d{1,3}(?:\s?[-–]\s?\d{1,3}|\sto\s\d{1,3})?\s?(?:mph|km/h|kph|kts?|knots|m/s)\b)")
WIND_BEFORE = re.compile(r"(?:\bwinds?:?|\bgusts?|\bswell|\b(?:mph|km/h|kph|kts?|knots))\s$", re.IGNORECASE)
ROAD_BEFORE = re.compile(
    r"(?:\b(?:I|US|SR|CA|TX|FL|NY)-|\b(?:I|US|Hwy\.?|Highway|Route|Rte\.?|Interstate|exit|Exit|U\.S\.)\s?)\d{1,3}[A-Z]?\s$"
)
SIDED = re.compile(r"([LR])(?=\s+(?:arm|leg|knee|eye|ear|hand|foot|shoulder|hip|ankle|wrist|side|elbow)\b)")
TURN = re.compile(r"([LRNSEW])(?=\s+(?:(?:on|onto)\s+[A-Z\d]|at\s))")
BEFORE_TURN, ELEMENTS, PLAIN_FORMULAS = word_sets("words", "before_turn elements plain_formulas")
WAYS = {"N": "north", "S": "south", "E": "east", "W": "west", "NE": "northeast", "NW": "northwest", "SE": "southeast", "SW": "southwest"}
TURNS = WAYS | {"L": "left", "R": "right"}
_ROADS = (
    "St Ave Rd Blvd Dr Ln Ct Pl Pkwy Hwy Street Avenue Road Boulevard Drive Lane Court Place Parkway Highway Broadway Way Terrace Circle"
)
WAY_BEFORE = re.compile(
    rf"(NE|NW|SE|SW|[NSEW])(\.?)\s+(?=(?:[A-Z][a-z]{{1,15}}|\d{{1,3}}(?:st|nd|rd|th))\s+(?:{_ROADS.replace(' ', '|')})\b)"
)
WAY_AFTER = re.compile(r"(NE|NW|SE|SW|[NSEW])(\.?)(?![\w'&.-])")
ROADS = frozenset(_ROADS.lower().split())
CUPS = re.compile(r"([cT])\.(?=\s+[a-z(])")
ONE_BEFORE = re.compile(r"(?:/\d{1,2}|(?:^|\s)1)\s*$")
SPOONS = {"c": "cup", "T": "tablespoon"}
CENTURY = re.compile(r"(\d{1,2})(?:st|nd|rd|th)[ -]c\.?(?=\s+(?:AD|BC|A\.D|B\.C|CE|BCE)\b|[,;)]|\s*$)")
RATED = re.compile(r"(\d{1,2}(?:\.\d)?)/(5|10|100)(?![\d/]|\.\d|\s+of\b|\s?[a-z]{1,4}\b(?<!for))")
RATE_WORD = re.compile(r"(?:\b(?:rat(?:ed?|ing)|scor(?:ed?|ing)|review|stars?|gave|give|solid|pain|got|a)\b[^\d.]{0,24})$", re.IGNORECASE)
PART_OF = re.compile(r"(\d{1,3})/(\d{1,3})(?![\d/])")
PARTS = re.compile(
    r"\b(?:steps?|pages?|pg|parts?|questions?|slide|chapter|round|level|lesson|file|items?|batch|attempt|tracks?|laps?|holes?|days?|stops?|photos?)\s$",
    re.I,
)
NTHS = re.compile(r"(\d{1,2})/(\d{1,2})(?:st|nd|rd|th)s?(?!\w)")
ROUND = re.compile(r"(10{1,6})s(?=\s+of\b|\s+(?:more|and)\b|(?<=the \d00s)|(?<=the \d000s))")
ROUNDS = {2: "tens", 3: "hundreds", 4: "thousands", 5: "tens of thousands", 6: "hundreds of thousands", 7: "millions"}
LASTING = re.compile(r"(\d{1,3})\s?h(?:rs?)?\.?\s?([0-5]?\d)\s?(?:m(?:ins?)?\b|(?=\W|$))(?:\s?([0-5]?\d)\s?s(?:ecs?)?\b)?")
AGO = re.compile(r"(\d{1,3})([dwmy])(?=\s(?:ago|old)\b)")
AGO_NAMES = {"d": "day", "w": "week", "m": "minute", "y": "year"}
MINUTES = re.compile(r"(\d{1,3})\s?m(?:in)?\s?([0-5]?\d)\s?s(?:ec)?\b")
PARTY = re.compile(r"([DRI])-([A-Z][a-z]{2,12})(\.?)(?![\w-])")
GENUS = re.compile(r"([A-Z])\.\s+(?=([a-z]{3,20})(?![\w']))")
PORT = re.compile(r":(\d{2,5})(?![\w:]|\.\d)")
HIDDEN = re.compile(r"\.(?=(?:[a-z][a-z_]{2,30}|NET)(?!\w))")
SECTIONS = re.compile(r"(§§|¶¶?)\s?(?=\d)")
PERIODS = {"y": "year", "q": "quarter", "m": "month", "w": "week"}
COMPARED = re.compile(r"([yqmwYQMW])/\1(?![\w/])")  # one with the same a year before
NOON = re.compile(r"(noon|midnight)\s?[-–]\s?(?=\d|noon|midnight)", re.IGNORECASE)
ZONE = re.compile(r"(UTC|GMT)\s?([-+−])(\d{1,2})(?::([0-5]\d))?(?!\w)")
BOOKS = dict(pair.split(":") for pair in sorted(word_sets("words", "books")[0]))
VERSE = re.compile(rf"({'|'.join(sorted(BOOKS, key=len, reverse=True))})(\.?) (\d{{1,3}}):(\d{{1,3}})(?:[-–](\d{{1,3}}))?(?![\w:])")
LETTER_BOOK = re.compile(r"([123]) (?=(?:Sam|Kings|Chron|Cor|Thess|Tim|Pet|John|Jn|Corinthians|Peter|Timothy|Samuel)\b\.? \d)")
LOOK_BACK = 32  # characters


def is_wind(scan: Scan, position: int) -> bool:
    """Wind: NW 15 mph; 15 mph SSE; I-80 E."""
    match, before = WINDS.match(scan.text, position), scan.text[max(0, position - 24) : position]
    if not match:
        return False
    return bool(WIND_BEFORE.search(before) or ROAD_BEFORE.search(before) or WIND_NEXT.match(scan.text, match.end()))


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
        found = WINDS.match(scan.text, position)
        assert found
        whole = found[0] if len(found[0]) < 3 else f"{found[0][0]} {found[0][1:]}"
        return scan.say(" ".join(WAYS[part] for part in whole.split()), position, found.end())
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
    many = scan.text[max(0, position - 4) : position].strip()[-1:].isdigit() and not ONE_BEFORE.search(
        scan.text[max(0, position - 8) : position]
    )
    return scan.say(SPOONS[match[1]] + "s" * many, position, match.end())


def century(scan: Scan, position: int) -> int:
    """the 1st c. AD, a 12th-c. church."""
    match = CENTURY.match(scan.text, position)
    if not match:
        return position
    end = match.end() - (scan.text[match.end() - 1] == "." and not scan.text[match.end() :].strip())
    return scan.say(f"{ordinal(int(match[1]), scan.dialect)} century", position, end)


def rating(scan: Scan, position: int) -> int:
    """4.5/5, and 8/10 where something is rated: `out of`; step 2/5: `of`."""
    part = PART_OF.match(scan.text, position)
    if part and PARTS.search(scan.text[max(0, position - 12) : position]):
        return scan.say(f"{cardinal(int(part[1]), scan.dialect)} of {cardinal(int(part[2]), scan.dialect)}", position, part.end())
    match = RATED.match(scan.text, position)
    if not match or float(match[1]) > int(match[2]):
        return position
    full = match[1] == match[2] != "100"  # 10/10
    if "." not in match[1] and not full and not RATE_WORD.search(scan.text[max(0, position - LOOK_BACK) : position]):
        return position
    return scan.say(f"{decimal(match[1], scan.dialect)} out of {cardinal(int(match[2]), scan.dialect)}", position, match.end())


def nths(scan: Scan, position: int) -> int:
    """1/3rd, 2/3rds."""
    match = NTHS.match(scan.text, position)
    if not match:
        return position
    part = ordinal(int(match[2]), scan.dialect)
    return scan.say(f"{cardinal(int(match[1]), scan.dialect)} {part if match[1] == '1' else plural(part)}", position, match.end())


def rounded(scan: Scan, position: int) -> int:
    """100s of people, 1000s of them."""
    match = ROUND.match(scan.text, position)
    if not match:
        return position
    return scan.say(ROUNDS[len(match[1])], position, match.end())


def lasting(scan: Scan, position: int) -> int:
    """2h 30m, 2h30, 1h 5m 10s, 4m 30s."""
    ago = AGO.match(scan.text, position)
    if ago:
        number, name = int(ago[1]), AGO_NAMES[ago[2]]
        return scan.say(f"{cardinal(number, scan.dialect)} {name}{'s' * (number != 1)}", position, ago.end())
    match = LASTING.match(scan.text, position)
    names: tuple[str, ...] = ("hour", "minute", "second")
    numbers = match.groups() if match else ()
    if not match:
        match = MINUTES.match(scan.text, position)
        if not match:
            return position
        numbers, names = match.groups(), ("minute", "second")
    pairs = [(int(number), name) for number, name in zip(numbers, names, strict=True) if number]
    return scan.say(
        " ".join(f"{cardinal(number, scan.dialect)} {name}{'s' * (number != 1)}" for number, name in pairs), position, match.end()
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
    before = scan.previous_word()
    if not match or match[2].capitalize() in STARTERS or before in ("vitamin", "plan", "type", "hepatitis", "grade", "class", "group", "i"):
        return position
    return scan.letters(match[1], position, position + 2)


def port(scan: Scan, position: int) -> int:
    """The port behind an address of four numbers or localhost."""
    match = PORT.match(scan.text, position)
    address = (
        scan.tokens and scan.tokens[-1][2] == position and ("dot" in (scan.previous(2), scan.previous(3)) or scan.previous() == "host")
    )
    if not match or not address:
        return position
    from kokoro_ane.g2p.normalize.short_forms import number_piece

    scan.space_last()
    return scan.say(f"port {number_piece(match[1], scan.dialect)}", position, match.end())


def hidden(scan: Scan, position: int) -> int:
    """.gitignore, .bashrc: a dot and a name behind white space."""
    match = HIDDEN.match(scan.text, position)
    if not match or not (scan.space_before(position) or scan.text[position - 1] in "(\"'`"):
        return position
    return scan.say("dot", position, position + 1, True)


def sections(scan: Scan, position: int) -> int:
    """§§ 12-14, ¶ 3."""
    match = SECTIONS.match(scan.text, position)
    if not match:
        return position
    name = SYMBOL_NAMES["§"] if match[1][0] == "§" else "paragraph"
    return scan.say(name + "s" * (len(match[1]) == 2), position, match.end(1))


def compared(scan: Scan, position: int) -> int:
    """y/y, q/q, m/m: year over year; on in British."""
    match = COMPARED.match(scan.text, position)
    if not match or scan.text[position - 1 : position].isalnum():
        return position
    period = PERIODS[match[1].lower()]
    return scan.say(f"{period} {'on' if scan.dialect == GB else 'over'} {period}", position, match.end())


def noon(scan: Scan, position: int) -> int:
    """midnight-6 a.m.: `to`."""
    match = NOON.match(scan.text, position)
    if not match:
        return position
    scan.word(match[1], position, match.end(1), True)
    return scan.say("to", match.end(1), match.end(), True)


def zone(scan: Scan, position: int) -> int:
    """UTC-5, GMT+1."""
    match = ZONE.match(scan.text, position)
    if not match:
        return position
    minutes = f" {cardinal(int(match[4]), scan.dialect)}" if match[4] else ""
    sign = "plus" if match[2] == "+" else "minus"
    return scan.say(f"~{match[1]} {sign} {cardinal(int(match[3]), scan.dialect)}{minutes}", position, match.end())


def verse(scan: Scan, position: int) -> int:
    """Gen. 1:1, Matt. 5:3-12: book, chapter, verse."""
    match = VERSE.match(scan.text, position)
    if not match:
        return position
    numbers = [cardinal(int(group), scan.dialect) for group in match.groups()[2:] if group]
    return scan.say(f"{BOOKS[match[1]]} {' '.join(numbers[:2])}" + (f" to {numbers[2]}" if len(numbers) > 2 else ""), position, match.end())


def letter(scan: Scan, position: int) -> int:
    """1 Cor. 13: First Corinthians."""
    match = LETTER_BOOK.match(scan.text, position)
    if not match:
        return position
    return scan.say(ordinal(int(match[1]), scan.dialect), position, match.end(1))


PIECES = {"K": "king", "Q": "queen", "R": "rook", "B": "bishop", "N": "knight"}
MOVE = re.compile(r"([KQRBN])([a-h]?)([1-8]?)(x?)([a-h])([1-8])([+#]?)(?![\w#+])")
CASTLING = re.compile(r"O-O(-O)?(?![\w-])")
FORMULA = re.compile(r"(?:[A-Z][a-z]?\d{0,3}){2,8}(?![\w'-])")
ATOM = re.compile(r"([A-Z][a-z]?)(\d*)")
ENUMERATED = re.compile(r"([A-HJ-Za-z])(?=\)\s)")
HOST_PORT = re.compile(r"localhost:(\d{2,5})(?!\d)")


def chess(scan: Scan, position: int) -> int:
    """Nf3, Qxd5+, Rad1: piece, file and row, check or mate."""
    match = MOVE.match(scan.text, position)
    if not match:
        return position
    piece, own_file, own_row, takes, file, row, sign = match.groups()
    own = (f" ~{own_file.upper()}" if own_file else "") + (f" {cardinal(int(own_row), scan.dialect)}" if own_row else "")
    end = {"+": " check", "#": " mate", "": ""}[sign]
    spoken = f"{PIECES[piece]}{own}{' takes' * bool(takes)} ~{file.upper()} {cardinal(int(row), scan.dialect)}{end}"
    return scan.say(spoken, position, match.end())


def castling(scan: Scan, position: int) -> int:
    """O-O and O-O-O."""
    match = CASTLING.match(scan.text, position)
    if not match:
        return position
    return scan.say("castles queenside" if match[1] else "castles kingside", position, match.end())


def formula(scan: Scan, position: int) -> int:
    """Fe2O3, NaCl: letters run up to a number; only where an element of two letters makes other rules fail."""
    match = FORMULA.match(scan.text, position)
    if not match or not ("NO" in match[0] or "SO" in match[0] or any(character.islower() for character in match[0])):
        return position
    atoms = ATOM.findall(match[0])
    if not all(symbol in ELEMENTS for symbol, _ in atoms) or (match[0] not in PLAIN_FORMULAS and not any(count for _, count in atoms)):
        return position
    said, letters = [], ""
    for symbol, count in atoms:
        letters += symbol.upper()
        if count:
            said += [f"~{letters}", cardinal(int(count), scan.dialect)]
            letters = ""
    return scan.say(" ".join([*said, *([f"~{letters}"] if letters else [])]), position, match.end())


def enumerated(scan: Scan, position: int) -> int:
    """a), (b) before the points of a list: the letter."""
    match = ENUMERATED.match(scan.text, position)
    before = scan.text[position - 1 : position]
    if not match or not (before == "" or before in " \t\n("):
        return position
    return scan.letters(match[1].upper(), position, position + 1, False)


def local_host(scan: Scan, position: int) -> int:
    """localhost:8080: the port in pairs."""
    match = HOST_PORT.match(scan.text, position)
    if not match:
        return position
    colon = match.start(1) - 1
    scan.say("local host", position, colon, True)
    scan.say("colon", colon, colon + 1, True)
    return scan.say(number_piece(match[1], scan.dialect), colon + 1, match.end())
