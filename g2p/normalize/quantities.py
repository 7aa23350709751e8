"""Numbers with what stands beside them: fractions, units, feet and inches, scientific notation,
dimensions, ordinals, counts and years.

    scan = Scan("3 3/4 cups, 5kg, 6'2\", 1.5e-10, 1999 people, in 1999", "us")
    quantity(scan, 0)

A range needs no rule of its own: `to` is said for the dash (marks.py), and each number for
itself.
"""

import re

from kokoro_ane.g2p.normalize.constructs import WAY_BEFORE, WAYS
from kokoro_ane.g2p.normalize.number_words import (
    cardinal,
    decimal,
    ordinal,
    plural,
    signed,
    whole,
)
from kokoro_ane.g2p.normalize.state import (
    ARTICLES,
    BEFORE_DEGREES,
    NO_NOUNS,
    NUMERIC,
    SPACED_UNITS,
    UNIT_PLURALS,
    UNITS,
    VERSIONED,
    WORDS,
    Scan,
    alternation,
)
from kokoro_ane.g2p.result import GB, US, Dialect
from kokoro_ane.g2p.word_lists import pairs, word_set

NUMBER = (
    r"(?:\d{1,2}(?:,\d{2}(?=,))++,\d{3}(?!\d)(?:\.\d++)?|\d{1,3}(?:,\d{3})++(?!\d)"
    r"(?:\.\d++)?|\d++(?:\.\d++)?|\.\d++)"
)
VULGAR = {
    sign: (int(parts[0]), int(parts[1]))
    for sign, parts in pairs(
        "½:12 ⅓:13 ⅔:23 ¼:14 ¾:34 ⅕:15 ⅖:25 ⅗:35 ⅘:45 ⅙:16 ⅚:56 ⅛:18 ⅜:38 ⅝:58 ⅞:78"
    ).items()
}
FRACTION = re.compile(r"(?:(\d{1,4})[ -](?=\d))?(\d{1,3})/(\d{1,3})(?![\d/]|[.,]\d)")
VULGAR_FRACTION = re.compile(rf"(\d{{1,6}})? ?([{''.join(VULGAR)}])")
DENOMINATORS = {2, *range(3, 21), 24, 25, 30, 32, 40, 50, 60, 64, 100, 128, 1000}
SCIENTIFIC = re.compile(
    rf"({NUMBER})(?:\s?[×xX*]\s?10\s?\^\s?\(?|[eE](?=[-+−]|\d{{1,2}}\b))([-+−]?\d{{1,4}})\)?(?!\w)"
)
POWER = re.compile(rf"({NUMBER})\^\(?([-+−]?\d{{1,4}})\)?(?!\w)")
UNIT_AFTER = re.compile(rf"(?P<gap>\s?|-)(?P<unit>{alternation(UNITS)})(?![\w^°']|\.[A-Z]\.)")
SPACED_UNIT = re.compile(rf"(?P<gap>\s)(?P<unit>{alternation(SPACED_UNITS)})(?![\w^°'.]|/[a-z])")
INCHES = re.compile(r"(?P<gap>)(?P<unit>in)(?![\w^°'.])")  # joined
DEGREES = re.compile(r"(?P<gap>)(?P<unit>[CF])(?!\w)")  # 21C after `of`, `at`, ...
DOTTED_UNITS = frozenset(("fl. oz", *WORDS["dotted"]))
DOT_INSIDE = re.compile(r"\.(?=\s*(?:[a-z(\d,;:)/]|[A-Z]{2}|[NSEW]\b))")
DOT_WITHIN = re.compile(r"\.(?=\s+\w|\))")
SCALE_AFTER = re.compile(r"\s(?:hundred|thousand|million|billion|trillion)\b")
FEET = re.compile(r"(\d{1,3})' ?(\d{1,2}(?:\.\d|½)?)(?:\"|''|”)")
ARC = re.compile(r"(\d{1,2})'(?:(\d{1,2}(?:\.\d+)?)\")?")
PRIME = re.compile(
    r"(\d{1,4}(?:\.\d+)?)(\"|'(?=\s(?:tall|wide|long|deep|high|by|x|[a-z]{3,})\b|\s*(?:$|[,;)])))"
)
FEET_BEFORE = re.compile(r"\d\s?(?:ft\.?|feet|foot)\s?\d{1,2}(?:\.\d+|½)?$")  # 6ft 2in
STONE_POUNDS = re.compile(r"(\d{1,2})\s?st\.?(?=\s?\d{1,2}(?:\.\d|½)?\s?lbs?\b)")
STONE_ALONE = re.compile(r"(\d{1,2})st(?![A-Za-z])")
ORDINAL = re.compile(r"(\d{1,3}(?:,\d{3})++|\d{1,15})(st|nd|rd|th)(?![A-Za-z])")
NEXT_WORD = re.compile(r"[- ]([a-z]++)")
HEATED = re.compile(r"(?:^|\D)(?:\d\d\.\d|[2-5]\d0)$")  # 99.1F, 350F
DIGITS_BEFORE = frozenset(
    (*WORDS["digits"], *(plural(cardinal(number, US)) for number in range(21)))
)
DIGITS_NEXT = re.compile(
    r"\s*(?:$|[.,;:!?)\"”])|\s(?:and|or|are|were|in|on|of|to|from|with|for|at|as|but|than|if|when"
    r"|you|he|she|they|we|I|instead)\b"
)
SPACED_GROUPS = re.compile(r"\d{1,3}(?:[ ]\d{3})++(?![\d.,-])")
LOWER_NEXT = re.compile(r"\s[a-z]")
COMMA = re.compile(r"(\d{1,3}),(\d{1,2})(?![\d,])")
PER_NAMES = {name: name for name in WORDS["per"]} | pairs("d:day wk:week mo:month yr:year")
PER_UNIT = re.compile(rf"/({alternation((*PER_NAMES, *UNITS))})(?![\w^°'])")
LETTER_UNITS = frozenset("AVWNJLsthmglBCFK")  # as joined units
NUMBERED = frozenset(WORDS["numbered"])  # nouns whose numbers take letters
JOINED = re.compile(
    r"\d(?:mm|cm|km|V|W|kW|A|GB|TB|MB|MP|Hz|kHz|MHz|GHz|ft|in|hr|min|yr|mo|wk|sec)$"
)
BEHIND_MEASURES = frozenset(WORDS["behind"])
ROAD_NEXT = re.compile(
    r"\s(?:St|Ave|Rd|Blvd|Street|Avenue|Road)\b|:\s?\d|(?<=\d [NSEW])\.?\s[A-Z][a-z]{2}"
)
COUNTS = frozenset(WORDS["counts"])
DOUBTFUL = word_set("in A t C F pt h l B gals")  # words or letters too


# 48"W x 24"D
SIDE_LETTER, SIDE_NAMES = (
    re.compile(r"\s?([WDHL])(?![\w'])"),
    pairs("W:wide D:deep H:high L:long"),
)
BESIDE_FEET = re.compile(
    r"\s(?:tall|wide|long|deep|high|by|x|and|or|away|above|below|of|from|to|in|is|was"
    r"|apart)\b|\s*(?:$|[,;)])"
)
OF_THINGS = frozenset(WORDS["of_things"])
THING_NEXT = re.compile(
    rf"(?:[ ](?!(?:I[MV]|PO|S[CQ]|PRN|[BTQ]ID)\b)[A-Z]{{2,5}}\b|"
    r"(?i:\.?\)?[ -](?:(?!of|in|for|and|or|with|to|per|on|at)[a-z]+"
    rf" )?(?:{alternation(WORDS['things'])})s?\b))"
)
SPAN_NEXT = re.compile(rf"\.?[ -](?:{alternation(WORDS['spans'])})\b")


def attributive(scan: Scan, end: int) -> bool:
    """Whether an article or a count stands before and a noun after (a 45° angle, two 8 oz glasses):
    the unit stays singular.
    """
    after = NEXT_WORD.match(scan.text, end)
    counted = scan.previous_word() in COUNTS and after is not None and after[1].endswith("s")
    if (
        after
        and scan.text[end - 1].isalpha()
        and JOINED.search(scan.text[max(0, end - 12) : end])
        and scan.text[end] == " "
    ):
        # a 12V battery, 50mm lens
        return after[1] not in NO_NOUNS | BEHIND_MEASURES and not after[1].endswith("ly")
    return (
        (counted or scan.previous_word() in ARTICLES | {"by"})
        and after is not None
        and after[1] not in NO_NOUNS
    )


def is_adjective(scan: Scan, unit: re.Match[str]) -> bool:
    """A unit before what it measures: a two terabyte SSD, a five minute read."""
    if unit["unit"] in ("min", "hr", "yr", "mi", "day", "mo", "wk"):
        return SPAN_NEXT.match(scan.text, unit.end()) is not None
    return (
        unit["unit"].split(" ")[-1] in OF_THINGS
        and THING_NEXT.match(scan.text, unit.end()) is not None
    )


def fraction_words(top: int, bottom: int, dialect: Dialect) -> str:
    """1, 2 -> one half; 3, 4 -> three quarters."""
    name = {2: "half", 4: "quarter"}.get(bottom) or ordinal(bottom, dialect)
    if top != 1:
        name = "halves" if name == "half" else f"{name}s"
    return f"{cardinal(top, dialect)} {name}"


def fraction(scan: Scan, position: int) -> int:
    """1/2, 3 3/4, ½, 2½; 120/80 is `over`; 24/7 and 9/11 as people say them; after a product's name
    none.
    """
    # 4/5/6
    match = (
        None if scan.text[position - 1 : position] == "/" else FRACTION.match(scan.text, position)
    )
    if match and (scan.previous() in VERSIONED or "0" in (match[2][0], match[3][0])):
        return position
    if match and not match[1] and int(match[2]) >= int(match[3]):
        scan.say(
            " over ".join(cardinal(int(group), scan.dialect) for group in match.groups()[1:]),
            position,
            match.end(),
        )
        return unit_after(scan, match.end(), many=True)
    pair: tuple[int, int] | None = None
    if match and int(match[3]) in DENOMINATORS:
        pair, front = (int(match[2]), int(match[3])), match[1]
    elif not match:
        match = VULGAR_FRACTION.match(scan.text, position)
        if match:
            pair, front = VULGAR[match[2]], match[1]
    if not match or not pair:
        return position
    words = fraction_words(*pair, scan.dialect)
    if front:
        words = f"{cardinal(int(front), scan.dialect)} and {'a half' if pair == (1, 2) else words}"
    scan.say(words, position, match.end(), True)
    return fraction_unit(scan, match.end(), many=bool(front))


def fraction_unit(scan: Scan, position: int, many: bool) -> int:
    """½ lb, 3/4 in.: the unit of a bare fraction is singular."""
    if scan.text[position : position + 1] == '"' and not scan.double_open:
        return scan.say(
            "inches" if many and not THING_NEXT.match(scan.text, position + 1) else "inch",
            position,
            position + 1,
        )
    return unit_after(scan, position, many)


def unit_name(unit: str, many: bool, dialect: str) -> str:
    """kilogram or kilograms; British spelling in gb."""
    name = UNITS.get(unit) or SPACED_UNITS[unit]
    if many:
        head, joint, tail = name.partition(" of " if " of " in name else " per ")
        words = head.split(" ")
        place = 0 if words[0] in ("degree", "part", "pound") else -1
        words[place] = UNIT_PLURALS.get(words[place]) or f"{words[place]}s"
        name = " ".join(words) + joint + tail
    return re.sub(r"(met|lit)er(s?)\b", r"\1re\2", name) if dialect == GB else name


def are_digits(scan: Scan, end: int) -> bool:
    """Whether 9s are nines and no seconds: behind the, two, all, a pair of, or other such digits,
    where nothing is measured.
    """
    before = scan.previous_word()
    if before in NUMERIC or before == "by":
        return True
    if before in ("and", "or", "to", "of"):
        before = scan.previous(2).lower()
    return before in DIGITS_BEFORE and DIGITS_NEXT.match(scan.text, end) is not None


def has_unit(scan: Scan, position: int) -> re.Match[str] | None:
    """The unit that follows a number."""
    match = (
        UNIT_AFTER.match(scan.text, position)
        or SPACED_UNIT.match(scan.text, position)
        or INCHES.match(scan.text, position)
    )
    # exit 12A, Section 8A
    if (
        match
        and not match["gap"]
        and match["unit"] in LETTER_UNITS
        and scan.previous_word() in NUMBERED
    ):
        return None
    # two 2s
    if match and match["unit"] == "s" and not match["gap"] and are_digits(scan, match.end()):
        return None
    if (
        match
        and len(match["unit"]) == 1
        and (
            WAY_BEFORE.match(scan.text, match.end("gap")) or ROAD_NEXT.match(scan.text, match.end())
        )
    ):
        return None  # 40 N. Oak St., 12 K St.
    if scan.previous_word() in BEFORE_DEGREES or HEATED.search(
        scan.text, max(0, position - 5), position
    ):
        match = DEGREES.match(scan.text, position) or match
    if not match or (match["unit"] in DOUBTFUL and not unit_certain(scan, match)):
        return None
    return match


def unit_after(scan: Scan, position: int, many: bool) -> int:
    """Say the unit that follows a number, at its own place; the same position where there is
    none.
    """
    match = has_unit(scan, position)
    return say_unit(scan, match, many) if match else position


def say_unit(scan: Scan, match: re.Match[str], many: bool) -> int:
    """The unit `has_unit` found, with its dot (2 oz. of) unless the sentence ends there."""
    end = match.end()
    many = many and match["gap"] != "-"  # 32-oz. cans
    inside = DOT_WITHIN if match["gap"] == "-" else DOT_INSIDE  # a 220-lb. QB
    if match["unit"] in DOTTED_UNITS and inside.match(scan.text, end):
        end += 1
    return scan.say(
        unit_name(match["unit"], many, scan.dialect), match.end("gap") - (match["gap"] == "-"), end
    )


def unit_certain(scan: Scan, match: re.Match[str]) -> bool:
    """Words that are units too (in, A, F): only at a clause's end, before a mark, or joined."""
    if match["gap"] == "-":
        return False
    joined = not match["gap"]
    after = scan.text[match.end() : match.end() + 12]
    if match["unit"] in ("h", "min") and re.match(r"\s*\d", after):
        return True
    if match["unit"] not in ("in", "gals") and attributive(
        scan, match.end()
    ):  # a 90 min film, a 15 A breaker
        return True
    if match["unit"] == "in":
        inches = re.match(r"\s*(?:$|[,;:.)×x/]|tall|wide|long|deep|high|of\b|by\b)", after)
        return (
            joined
            or inches is not None
            or FEET_BEFORE.search(scan.text, max(0, match.start() - 20), match.start()) is not None
        )
    return joined or re.match(r"\s*(?:$|[,;:.)]|of\b)", after) is not None


def scientific(scan: Scan, position: int) -> int:
    """1.5e-10, 6.02×10^23, 10^6."""
    match = SCIENTIFIC.match(scan.text, position)
    if match:
        power = signed(match[2].lstrip("+"), scan.dialect)
        scan.say(
            f"{decimal(match[1], scan.dialect)} times ten to the power of {power}",
            position,
            match.end(),
        )
        return unit_after(scan, match.end(), many=True)
    match = POWER.match(scan.text, position)
    if match:
        name = {"2": "squared", "3": "cubed"}.get(
            match[2]
        ) or f"to the power of {signed(match[2], scan.dialect)}"
        return scan.say(f"{decimal(match[1], scan.dialect)} {name}", position, match.end())
    return position


def feet(scan: Scan, position: int) -> int:
    """6'2": six feet two inches; 12": twelve inches; 40°42'46": degrees, minutes, seconds."""
    arc = ARC.match(scan.text, position) if scan.text[position - 1 : position] == "°" else None
    if arc:
        spoken = f"{cardinal(int(arc[1]), scan.dialect)} minutes"
        return scan.say(
            spoken + (f" {decimal(arc[2], scan.dialect)} seconds" if arc[2] else ""),
            position,
            arc.end(),
            True,
        )
    match = FEET.match(scan.text, position)
    if match:
        foot, inch = (
            ("foot" if match[1] == "1" else "feet"),
            ("inch" if match[2] == "1" else "inches"),
        )
        inches = match[2].replace("½", ".5")
        return scan.say(
            f"{cardinal(int(match[1]), scan.dialect)} {foot} {decimal(inches, scan.dialect)}"
            f" {inch}",
            position,
            match.end(),
        )
    match = PRIME.match(scan.text, position)
    if match and not (scan.double_open if match[2] == '"' else scan.quote_open):
        single = (
            match[1] == "1"
            or attributive(scan, match.end())
            or (match[2] == "'" and not BESIDE_FEET.match(scan.text, match.end()))
        )
        single = single or THING_NEXT.match(scan.text, match.end()) is not None
        name = (
            ("inch" if single else "inches") if match[2] == '"' else ("foot" if single else "feet")
        )
        side = SIDE_LETTER.match(scan.text, match.end())
        if side:
            return scan.say(
                f"{decimal(match[1], scan.dialect)} {name} {SIDE_NAMES[side[1]]}",
                position,
                side.end(),
            )
        return scan.say(f"{decimal(match[1], scan.dialect)} {name}", position, match.end())
    return position


def stone(scan: Scan, position: int) -> int:
    """12st 6lb, and 12st alone, which is no ordinal."""
    match = STONE_POUNDS.match(scan.text, position) or STONE_ALONE.match(scan.text, position)
    if not match or (
        match.re is STONE_ALONE and ordinal(int(match[1]), scan.dialect).endswith("first")
    ):
        return position
    return scan.say(f"{cardinal(int(match[1]), scan.dialect)} stone", position, match.end())


def nth(scan: Scan, position: int) -> int:
    """1st, 21st, 1,000th."""
    match = ORDINAL.match(scan.text, position)
    if not match:
        return position
    return scan.say(ordinal(int(match[1].replace(",", "")), scan.dialect), position, match.end())


def thousands(scan: Scan, position: int) -> int:
    """1 000 000 with spaces (SI style): at least two groups, or one before a word or a unit."""
    match = SPACED_GROUPS.match(scan.text, position)
    if (
        not match
        or (
            match[0].count(" ") < 2
            and not LOWER_NEXT.match(scan.text, match.end())
            and not has_unit(scan, match.end())
        )
        or match[0][0] == "0"
        or not scan.space_before(position)
    ):
        return position
    scan.say(whole(match[0].replace(" ", ""), scan.dialect), position, match.end(), True)
    return unit_after(scan, match.end(), many=True)


def with_comma(scan: Scan, position: int) -> int:
    """3,5 kg: a comma is a point where one or two digits and a unit of more than a letter (or m, g,
    L) follow.
    """
    match = COMMA.match(scan.text, position)
    unit = UNIT_AFTER.match(scan.text, match.end()) if match else None
    if not match or not unit or unit["unit"] in DOUBTFUL:
        return position
    singular = attributive(scan, unit.end())
    scan.say(decimal(f"{match[1]}.{match[2]}", scan.dialect), position, match.end(), True)
    return say_unit(scan, unit, many=not singular)


def per_unit(scan: Scan, position: int) -> int:
    """The slash of mg/kg/day, 72 beats/min, 2 tablets/day: `per`, behind a count and what it
    counts.
    """
    match = PER_UNIT.match(scan.text, position)
    if (
        not match
        or not scan.tokens
        or scan.tokens[-1][2] != position
        or scan.tokens[-1][3] != "word"
    ):
        return position
    counted = [
        token[0].lower() in NUMERIC for token in scan.tokens[-6:-1] if token[3] != "punctuation"
    ]
    # 2/customer
    if not any(counted) and not (match[1] in PER_NAMES and scan.previous_word() in NUMERIC):
        return position
    scan.say("per", position, position + 1, True)
    return scan.say(per_name(match[1], scan.dialect), position + 1, match.end())


def per_name(unit: str, dialect: str) -> str:
    """What stands behind `per`: the unit, or a longer span of time by its short form."""
    return PER_NAMES.get(unit) or unit_name(unit, False, dialect)


RATES = tuple(name for name in UNITS if re.fullmatch(r"[A-Za-z]+/[a-z]+", name))
RATE = re.compile(rf"(?:{alternation(RATES)})(?![\w/^'])")
MEASURES = frozenset(WORDS["alone"])
MEASURE = re.compile(rf"(?:{alternation(MEASURES)})(?![\w/^'])")
ONE_BEFORE = frozenset(("per", "half"))
MANY_BEFORE = frozenset(("in", "into", "plus"))
SIDE = re.compile(r"[NSEW](?![\w'])")
ANGLE_BEFORE = re.compile(r"(?:°|\d['\"′″])\s?$")


def unit(scan: Scan, position: int) -> int:
    """km/h, m/s; per kg, in mm."""
    if scan.text[position - 1 : position].isalnum():
        return position
    match, many = RATE.match(scan.text, position), True
    if not match:
        match = MEASURE.match(scan.text, position)
        many = scan.previous_word() in MANY_BEFORE
        if not match or not (many or scan.previous_word() in ONE_BEFORE):
            return position
    return scan.say(unit_name(match[0], many, scan.dialect), position, match.end())


def side(scan: Scan, position: int) -> int:
    """40° N: north."""
    match = SIDE.match(scan.text, position)
    if not match or not ANGLE_BEFORE.search(scan.text, max(0, position - 4), position):
        return position
    return scan.say(WAYS[match[0]], position, match.end(), True)
