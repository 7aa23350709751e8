"""Verbalizers: a slot's text becomes words. A row chains them: `{number:measure}`, `{year:year:plural}`.

Each takes the text, all slots of the match and the context (the grammar with its dialect and word
sets). `[FBI]` in an answer are letters.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from kokoro_ane.g2p import number_words
from kokoro_ane.g2p.morphology import stems
from kokoro_ane.g2p.result import GB

if TYPE_CHECKING:
    from kokoro_ane.g2p.grammar.interpreter import Context

Parts = dict[str, str]
Verbalizer = Callable[[str, Parts, "Context"], str]

MEASURED = (24, 25, 30, 32, 40, 50, 60, 64, 100, 128, 1000)  # what people divide by
VULGAR = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5",
    "⅗": "3/5", "⅘": "4/5", "⅙": "1/6", "⅚": "5/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
}  # fmt: skip
PIECES = re.compile(r"[A-Z]+s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-zà-ÿ]+|\d+|\S")
SWITCH = re.compile(r"\d[A-Za-z]|[A-Za-z](?=\d)")
ODD = re.compile(
    r"^(?!SCH|KN[AEIO]|PSY|GN[AO]|PNEU|TSU)(?:[BCDFGHJKLMNPQRSTVWXZ]{4}"
    r"|[BDFGHJKLMNPQRTVXZ][BCDFGJKMNPQSTVXZ])"
    r"|[JQV]$|[BCDFGHJKLMNPQRSTVWXZ]{4}$(?<!GHTS|GTHS)|^(?=.{4,5}$).*"
    r"(?:[BCFGHJKMPQSTVXZ]D|[BDFGHJKMPQTVWXZ]C|[BCDFHJKLMPQSTVXZ]G"
    r"|[BCDFGHJKNPQSTVXZ]B|[BCDGHJKNQSTVWXZ]F|[BCDFJKNPQTVXZ]M|[BCDFJKPQSTVZ]N"
    r"|[BCDFGHJKNQTVZ]P|[BCDFGJLMNQSTVWXZ]R|[BDFGHJKMPQTVXZ]K)$"
)


# ---- numbers


def fraction_words(top: int, bottom: int, context: "Context") -> str:
    """1, 2 -> one half; 3, 4 -> three quarters; 17, 92 -> seventeen over ninety-two."""
    dialect = context.grammar.dialect
    if bottom > 20 and bottom not in MEASURED:
        return (
            f"{number_words.cardinal(top, dialect)} over {number_words.cardinal(bottom, dialect)}"
        )
    name = {2: "half", 4: "quarter"}.get(bottom) or number_words.ordinal(
        bottom, context.grammar.dialect
    )
    if top != 1:
        name = "halves" if name == "half" else f"{name}s"
    return f"{number_words.cardinal(top, context.grammar.dialect)} {name}"


def amount(value: str, parts: Parts, context: "Context") -> str:
    """Any way to write an amount: 12, 1,234.5, 1 000 000, 12,5, .5, 3/4, 1 1/2, 2½, 1e5."""
    dialect, text = context.grammar.dialect, value
    for sign, written in VULGAR.items():
        text = text.replace(sign, f" {written}")
    text = " ".join(text.split())
    match = re.fullmatch(r"(?:(\d+)[ -])?(\d+)/(\d+)", text)
    if match:
        whole, top, bottom = match[1], int(match[2]), int(match[3])
        words = fraction_words(top, bottom, context)
        if whole is None:
            return words
        joined = "a half" if (top, bottom) == (1, 2) else words
        return f"{number_words.whole(whole, dialect)} and {joined}"
    match = re.fullmatch(r"(.+?)[eE]([-+−]?)(\d+)", text)
    if match:
        power = ("minus " if match[2] in ("-", "−") else "") + number_words.whole(match[3], dialect)
        return f"{amount(match[1], parts, context)} times ten to the power of {power}"
    if re.fullmatch(r"\d+,\d{1,2}", text):
        text = text.replace(",", ".")
    return number_words.decimal(text.replace(" ", ""), dialect)


def is_one(value: str) -> bool:
    """Whether a unit behind this amount is singular: 1, 1/2, ¾; not 1.0, 0 or 1 1/2."""
    return value == "1" or value in VULGAR or re.fullmatch(r"\d+/\d+", value) is not None


def integer(value: str) -> int:
    """1,234 as a number."""
    return int(value.replace(",", "").replace(" ", ""))


def cardinal(value: str, parts: Parts, context: "Context") -> str:
    """One to 10^21 - 1, or a decimal."""
    return number_words.decimal(value.replace(" ", ""), context.grammar.dialect)


def count(value: str, parts: Parts, context: "Context") -> str:
    """A number that may begin with zeros: 05 -> five."""
    return number_words.cardinal(integer(value), context.grammar.dialect)


def ordinal(value: str, parts: Parts, context: "Context") -> str:
    """21 -> twenty-first."""
    return number_words.ordinal(integer(value), context.grammar.dialect)


def year(value: str, parts: Parts, context: "Context") -> str:
    """1999 -> nineteen ninety-nine."""
    return number_words.year(int(value), context.grammar.dialect)


def short(value: str, parts: Parts, context: "Context") -> str:
    """The year that two digits mean: 24 -> twenty twenty-four, 87 -> nineteen eighty-seven."""
    if len(value) == 4:
        return year(value, parts, context)
    return year(("20" if int(value) < 50 else "19") + value, parts, context)


def digits(value: str, parts: Parts, context: "Context") -> str:
    """Digit by digit."""
    return number_words.digits(re.sub(r"\D", "", value))


def oh(value: str, parts: Parts, context: "Context") -> str:
    """Digit by digit, zero as `oh`."""
    return number_words.digits(re.sub(r"\D", "", value), "oh")


def pairs(value: str, parts: Parts, context: "Context") -> str:
    """Digits in a name: 19 -> nineteen, 747 -> seven forty-seven, 2020 -> twenty twenty."""
    return number_words.name_digits(value, context.grammar.dialect)


def minutes(value: str, parts: Parts, context: "Context") -> str:
    """Minutes behind an hour: 05 -> oh five, 30 -> thirty."""
    number = int(value)
    return ("oh " if number < 10 else "") + number_words.cardinal(number, context.grammar.dialect)


def denominator(value: str, parts: Parts, context: "Context") -> str:
    """The name of a fraction's lower number; `parts` has its upper one as the slot `integer`."""
    return fraction_words(integer(parts["integer"]), integer(value), context).split(" ", 1)[1]


def roman(value: str, parts: Parts, context: "Context") -> str:
    """XIV -> 14, as digits for the next verbalizer."""
    return str(number_words.roman_value(value.upper()) or 0)


def plural(value: str, parts: Parts, context: "Context") -> str:
    """The last word in the plural."""
    return number_words.plural(value)


# ---- values with a name


def counted(value: str, one: str, many: str, single: bool, context: "Context") -> str:
    """An amount and the name of what it counts."""
    name = one if single or is_one(value) else many or f"{one}s"
    words = f"{amount(value, {}, context)} {name}"
    if context.grammar.dialect == GB:
        words = re.sub(r"(met|lit)er(s?)\b", r"\1re\2", words)
    return words


def measure(value: str, parts: Parts, context: "Context") -> str:
    """An amount with the slot `unit`."""
    one, many, _ = context.grammar.entry("unit", parts["unit"])
    return counted(value, one, many, False, context)


def single(value: str, parts: Parts, context: "Context") -> str:
    """The same before what it measures: a ten mile run."""
    one, many, _ = context.grammar.entry("unit", parts["unit"])
    return counted(value, one, many, True, context)


def money_words(value: str, parts: Parts, context: "Context", single: bool) -> str:
    """An amount with the slots `currency` and perhaps `scale`."""
    dialect = context.grammar.dialect
    one, many, minor = context.grammar.entry("currency", parts["currency"])
    if re.search(r",\d\d$", value):
        value = value.replace(".", "").replace(",", ".")
    written = parts.get("scale") or parts.get("scaleword") or parts.get("fullscale")
    if written:
        scale = context.grammar.entry("scale", written)[0]
        return f"{amount(value, parts, context)} {scale} {one if single else many or one + 's'}"
    value = value.replace(",", "")
    whole, _, cents = value.partition(".")
    if len(cents) != 2 or not minor or (single and cents.strip("0")):
        return counted(value, one, many, single, context)
    penny, pence = minor.split("|")
    words = []
    if whole.strip("0") or not cents.strip("0"):
        words.append(counted(whole or "0", one, many, single, context))
    if cents.strip("0"):
        name = penny if cents == "01" else pence
        words.append(f"{number_words.cardinal(int(cents), dialect)} {name}")
    return " and ".join(words)


def money(value: str, parts: Parts, context: "Context") -> str:
    """Dollars and cents."""
    return money_words(value, parts, context, False)


def worth(value: str, parts: Parts, context: "Context") -> str:
    """The same before what costs it: a five dollar bill."""
    return money_words(value, parts, context, True)


def many(value: str, parts: Parts, context: "Context") -> str:
    """A currency's name in the plural."""
    one, plural_name, _ = context.grammar.entry("currency", value)
    return plural_name or f"{one}s"


def clock(value: str, parts: Parts, context: "Context") -> str:
    """5:09, 14:00; with the slot `half` (a.m., p.m.) a full hour has no more words."""
    hour, minute = re.split(r"[:.h]", value)[:2]
    start = (
        "zero" if not hour.strip("0") else number_words.cardinal(int(hour), context.grammar.dialect)
    )
    if minute != "00":
        return f"{start} {minutes(minute, parts, context)}"
    if parts.get("half"):
        return start
    is_army = len(hour) == 2 and not 10 <= int(hour) <= 12
    return f"{start} hundred" if is_army else f"{start} o'clock"


def month(value: str, parts: Parts, context: "Context") -> str:
    """The name of a month from its number."""
    return number_words.MONTHS[int(value) - 1]


# ---- names and addresses


VOWEL = re.compile("[aeiouyà-öø-ÿ]")


def is_speakable(word: str) -> bool:
    """Whether letters can be read as a word."""
    return len(word) > 2 and VOWEL.search(word) is not None


def letter(sign: str, context: "Context") -> str:
    """One letter: a Greek one by its name."""
    sets = context.grammar.slots.sets
    named = sets["greek"].get(sign) or sets["sym"].get(sign)
    return named[0] if named else f"[{sign.upper()}]"


def spell(part: str, context: "Context") -> str:
    """A part of a name or address: digits, letters or a word."""
    sets = context.grammar.slots.sets
    if len(part) == 1 and part.isalpha():
        return letter(part, context)
    if part.isdigit():
        return pairs(part, {}, context)
    low = part.lower()
    if low in sets["respelled"]:
        return sets["respelled"][low][0]
    if low in sets["webword"]:
        return part
    if low in sets["spelled"]:
        return f"[{part.upper()}]"
    if len(part) == 2 and part.islower() and context.known and context.known(low):
        return part
    if part.isupper() or (part[:-1].isupper() and part[-1] == "s"):
        return acronym(part, {}, context)
    return part if is_speakable(low) or low in sets["short"] else f"[{part.upper()}]"


def name(value: str, parts: Parts, context: "Context") -> str:
    """camelCase, snake_case, B2B, iPhone15: the parts in it; whole where a lexicon lists it."""
    if context.known and value.isalpha() and context.known(value):
        return value
    if len(value) > 5 and value.isalnum() and len(SWITCH.findall(value)) > 2:
        return code(value, parts, context)
    mixed = any(map(str.isdigit, value))
    words = []
    for part in PIECES.findall(value):
        if part.isdigit():
            words.append(pairs(part, parts, context))
        elif part.isupper() and "_" in value and is_common(part, context):
            words.append(part)
        elif part.isupper() or (part[:-1].isupper() and part[-1] == "s"):
            words.append(acronym(part, parts, context))
        elif part[0].isalpha():
            is_coded = (mixed or "_" in value) and part.lower() in context.grammar.slots.sets[
                "spelled"
            ]
            as_letters = is_coded or (mixed and not re.search("[aeiouy]", part.lower()))
            if len(part) == 1:
                words.append(letter(part, context))
            else:
                words.append(f"[{part.upper()}]" if as_letters else part)
    return " ".join(words)


def is_common(word: str, context: "Context") -> bool:
    """Whether capitals make an ordinary word when shouted."""
    low = word.lower()
    return low in context.grammar.slots.sets["short"] or (
        len(word) > 3 and is_speakable(low) and not ODD.search(word)
    )


def web(value: str, parts: Parts, context: "Context") -> str:
    """Addresses and paths: the signs by name, the parts as words or letters."""
    signs, words = context.grammar.slots.sets["sign"], []
    for part in PIECES.findall(re.sub(r"^[a-z]+://", "", value)):
        if part in signs or part[0].isalpha() or part[0].isdecimal():
            words.append(signs[part][0] if part in signs else spell(part, context))
    return " ".join(words)


def file(value: str, parts: Parts, context: "Context") -> str:
    """A file's name: as an address, but _ and - are pauses and v2 is a version."""
    return web(re.sub(r"\bv(?=\d)", "version ", re.sub(r"[_-]", " ", value)), parts, context)


def dotted(value: str, parts: Parts, context: "Context") -> str:
    """Digit by digit, with the dots."""
    return " dot ".join(number_words.digits(part) for part in value.split("."))


def acronym(value: str, parts: Parts, context: "Context") -> str:
    """Capitals, perhaps with a plural s: letters, or a word where they can be one."""
    sets = context.grammar.slots.sets
    stem = value[:-1] if value[-1:] == "s" else value
    ending = value[len(stem) :]
    if stem in sets["readcaps"]:
        return value
    if stem.lower() in sets["respelled"]:
        return sets["respelled"][stem.lower()][0]
    if len(stem) == 1 or stem in sets["spelledcaps"] or stem.lower() in sets["ambiguous"]:
        return f"[{stem}]{ending}"
    return value if is_common(stem, context) else f"[{stem}]{ending}"


def nthday(value: str, parts: Parts, context: "Context") -> str:
    """A day of a month, with its ending or without: 3rd, 3 -> third."""
    return ordinal(re.sub(r"\D", "", value), parts, context)


def spaced(value: str, parts: Parts, context: "Context") -> str:
    """An amount with the slot `spacedunit`."""
    one, many_name, _ = context.grammar.entry("spacedunit", parts["spacedunit"])
    return counted(value, one, many_name, False, context)


def signed(value: str, parts: Parts, context: "Context") -> str:
    """A whole number with its sign."""
    return number_words.signed(value, context.grammar.dialect)


def outof(value: str, parts: Parts, context: "Context") -> str:
    """4/5 -> four out of five."""
    return " out of ".join(amount(part, parts, context) for part in value.split("/"))


def code(value: str, parts: Parts, context: "Context") -> str:
    """A code by its groups: letters and digits one by one, words as words; a comma between groups
    of digits. Where no run has more than two digits (combo 12-30-8, 5W-30, MERV 13) they are
    numbers.
    """
    groups_of = re.findall(r"[A-Za-z\d]+", value)
    if re.fullmatch(r"[1-9]\d?", value.strip()):
        return count(value, parts, context)
    runs = re.findall(r"\d+", value)
    is_lettered = re.search("[A-Za-z]", value) is not None
    is_short = len(groups_of) > 1 and all(re.fullmatch(r"[1-9]\d?", run) for run in runs)
    if is_short and not is_lettered and not all(len(run) == 2 for run in runs):
        return ", ".join(count(group, parts, context) for group in groups_of)
    is_short &= is_lettered and len(runs) < 3 and len(groups_of) == 2
    words = code_group(groups_of[0], is_short, context)
    for before, group in zip(groups_of, groups_of[1:], strict=False):
        numeric = before[-1].isdecimal() and group[0].isdecimal()
        words += (", " if numeric else " ") + code_group(group, is_short, context)
    return words


def code_group(group: str, is_short: bool, context: "Context") -> str:
    """One group of a code."""
    words: list[str] = []
    behind_word = False
    for piece in re.findall(r"[A-Za-z]+|\d+", group):
        low = piece.lower()
        is_listed = context.known is not None and any(
            map(context.known, (low, *(stem for _, stem in stems(low))))
        )
        at_edge = group.startswith(piece) or group.endswith(piece)
        if piece.isdecimal() and ((is_short and at_edge) or (behind_word and len(piece) < 5)):
            words.append(number_words.name_digits(piece, context.grammar.dialect))
        elif piece.isdecimal():
            words.append(in_groups(piece))
        elif len(piece) > 3 and (is_listed or (piece.islower() and is_speakable(piece))):
            words.append(low)
            behind_word = True
        else:
            words.append(f"[{piece.upper()}]")
    return " ".join(words)


def in_groups(run: str) -> str:
    """Digits one by one; six to twelve of them in groups of three or four, a pause between."""
    if not 6 <= len(run) <= 12:
        return number_words.digits(run)
    size = 4 if len(run) % 4 == 0 else 3
    cuts = [*range(0, len(run) - size, size), len(run)]
    parts = [run[start:end] for start, end in zip(cuts, cuts[1:], strict=False)]
    return ", ".join(map(number_words.digits, parts))


def prefix(value: str, parts: Parts, context: "Context") -> str:
    """The letters before the first hyphen."""
    return value.partition("-")[0]


def parted(value: str, parts: Parts, context: "Context") -> str:
    """5-649 of a room or unit, P2-118: five, six forty-nine."""
    return " ".join(name(part, parts, context) for part in value.split("-"))


def span(value: str, parts: Parts, context: "Context") -> str:
    """2-3: two to three."""
    return " to ".join(count(part, parts, context) for part in re.findall(r"\d+", value))


def route(value: str, parts: Parts, context: "Context") -> str:
    """FRA-IAH: from one airport to another; two words in capitals stay words."""
    first, second = re.findall("[A-Z]+", value)
    is_prefixed = first in context.grammar.slots.sets["prefixcaps"]
    if is_prefixed or (is_common(first, context) and is_common(second, context)):
        return loud(value, parts, context)
    return f"[{first}] to [{second}]"


def day_words(first: int, second: int, context: "Context") -> str:
    """A day of two numbers in the dialect's order, or in the other one where that alone is a day."""
    gb = context.grammar.dialect == GB
    number, day = (second, first) if gb else (first, second)
    if number > 12:
        number, day = day, number
    nth, name_of = (
        number_words.ordinal(day, context.grammar.dialect),
        number_words.MONTHS[min(number, 12) - 1],
    )
    return f"the {nth} of {name_of}" if gb else f"{name_of} {nth}"


def shortday(value: str, parts: Parts, context: "Context") -> str:
    """12/25, 12/25/2026, 12.25.26: December twenty-fifth; two of them are a range."""
    numbers = re.findall(r"\d+", value)
    words = day_words(int(numbers[0]), int(numbers[1]), context)
    if len(numbers) == 4:
        return f"{words} to {day_words(int(numbers[2]), int(numbers[3]), context)}"
    return f"{words}, {short(numbers[2], parts, context)}" if len(numbers) == 3 else words


def dotday(value: str, parts: Parts, context: "Context") -> str:
    """6.7.26 as 6/7/26; with a leading zero (03.09.85) the day is first, as in Europe."""
    first, second, *rest = re.findall(r"\d+", value)
    if first[0] == "0" and int(second) < 13 and context.grammar.dialect != GB:
        first, second = second, first
    return shortday("/".join((first, second, *rest)), parts, context)


def yearmonth(value: str, parts: Parts, context: "Context") -> str:
    """2025-03: March twenty twenty-five."""
    number, month_number = value.split("-")
    return f"{month(month_number, parts, context)} {year(number, parts, context)}"


def compactday(value: str, parts: Parts, context: "Context") -> str:
    """20231107: November seventh, twenty twenty-three."""
    return isoday(f"{value[:4]}-{value[4:6]}-{value[6:]}", parts, context)


def isoday(value: str, parts: Parts, context: "Context") -> str:
    """2026-03-15: March fifteenth, twenty twenty-six."""
    numbers = re.findall(r"\d+", value)
    month_day = (numbers[2], numbers[1]) if context.grammar.dialect == GB else numbers[1:3]
    words = day_words(int(month_day[0]), int(month_day[1]), context)
    return f"{words}, {year(numbers[0], parts, context)}"


def zip_code(value: str, parts: Parts, context: "Context") -> str:
    """The digits behind a state's letters."""
    return groups(value[2:].strip(), parts, context)


def decade(value: str, parts: Parts, context: "Context") -> str:
    """90s -> nineties."""
    return number_words.plural(number_words.cardinal(int(value[:-1]), context.grammar.dialect))


def half(value: str, parts: Parts, context: "Context") -> str:
    """a, p -> AM, PM."""
    return f"[{value.upper()}M]"


def military(value: str, parts: Parts, context: "Context") -> str:
    """0730 -> zero seven thirty, 1600 -> sixteen hundred."""
    dialect = context.grammar.dialect
    hour, minute = int(value[:2]), int(value[2:])
    start = ("zero " if hour < 10 else "") + number_words.cardinal(hour, dialect)
    return f"{start} {number_words.cardinal(minute, dialect) if minute else 'hundred'}"


def monthcaps(value: str, parts: Parts, context: "Context") -> str:
    """The name of a month from its three capitals."""
    return context.grammar.entry("monthcaps", re.sub("[^A-Z]", "", value))[0]


def units(value: str, parts: Parts, context: "Context") -> str:
    """The plural of a unit."""
    one, plural_name, _ = context.grammar.entry("unit", value)
    return plural_name or f"{one}s"


def partof(value: str, parts: Parts, context: "Context") -> str:
    """The first number of 22.1/24 GB."""
    return amount(value.split("/")[0], parts, context)


def kilo(value: str, parts: Parts, context: "Context") -> str:
    """5K -> five K."""
    return f"{number_words.cardinal(int(value[:-1]), context.grammar.dialect)} [K]"


def house(value: str, parts: Parts, context: "Context") -> str:
    """The number of a house before a direction."""
    return pairs(value.split(" ")[0], parts, context)


def compass(value: str, parts: Parts, context: "Context") -> str:
    """N -> north."""
    return context.grammar.entry("direction", value)[0]


def place(value: str, parts: Parts, context: "Context") -> str:
    """A street's kind, short or whole."""
    return context.grammar.entry("place", value)[0]


def tablespoons(value: str, parts: Parts, context: "Context") -> str:
    """An amount of tablespoons."""
    return counted(value, "tablespoon", "tablespoons", False, context)


def minutesof(value: str, parts: Parts, context: "Context") -> str:
    """An amount of minutes."""
    return counted(value, "minute", "minutes", False, context)


def daysof(value: str, parts: Parts, context: "Context") -> str:
    """An amount of days."""
    return counted(value, "day", "days", False, context)


def dollar(value: str, parts: Parts, context: "Context") -> str:
    """A$AP, Ke$ha: the sign is an s."""
    return value.replace("$", "s").capitalize()


def loud(value: str, parts: Parts, context: "Context") -> str:
    """MID-WEEK is one word; in NON-GMO the prefix is a word and the rest letters."""
    sets, pieces = context.grammar.slots.sets, value.split("-")
    listed = context.known is not None and context.known(value.lower())
    words = [
        is_common(piece, context) or piece in sets["prefixcaps"]
        for piece in pieces
        if piece not in sets["spelledcaps"]
    ]
    if listed or (len(words) == len(pieces) and all(words)):
        return value.lower().replace("-", "‑")
    return " ".join(
        piece.lower()
        if piece in sets["prefixcaps"] and piece not in sets["spelledcaps"]
        else acronym(piece, parts, context)
        for piece in pieces
    )


def plurals(value: str, parts: Parts, context: "Context") -> str:
    """One letter behind &, perhaps with an ending: M&Ms."""
    return f"[{value[0]}]{value[1:]}"


def ampersand(value: str, parts: Parts, context: "Context") -> str:
    """AT&T: letters one by one on both sides."""
    return " and ".join(" ".join(f"[{one}]" for one in part) for part in value.split("&"))


def millions(value: str, parts: Parts, context: "Context") -> str:
    """12m, 100m+ -> twelve million, one hundred million plus."""
    number = amount(value.rstrip("+mM"), parts, context)
    return f"{number} million{' plus' if value[-1] == '+' else ''}"


def stone(value: str, parts: Parts, context: "Context") -> str:
    """12st -> twelve stone."""
    return f"{count(value[:-2], parts, context)} stone"


def alone(value: str, parts: Parts, context: "Context") -> str:
    """The plural of a unit without a number."""
    return context.grammar.entry("aloneunit", value)[1]


def tollfree(value: str, parts: Parts, context: "Context") -> str:
    """1-800- -> one, eight hundred."""
    return f"one, {phone(value[2:5], parts, context)}"


def over(value: str, parts: Parts, context: "Context") -> str:
    """120/80 -> one hundred twenty over eighty."""
    return " over ".join(amount(part, parts, context) for part in value.split(" ")[0].split("/"))


def cups(value: str, parts: Parts, context: "Context") -> str:
    """An amount of cups."""
    return counted(value, "cup", "cups", False, context)


def groups(value: str, parts: Parts, context: "Context") -> str:
    """Digits by groups, a comma between them; a leading plus is said."""
    zero = "oh" if context.grammar.dialect == GB else "zero"
    words = ", ".join(number_words.digits(part, zero) for part in re.findall(r"\d+", value))
    return f"plus {words}" if value[0] == "+" else words


def phone(value: str, parts: Parts, context: "Context") -> str:
    """An area code: 800 -> eight hundred, others digit by digit."""
    if value[1:] == "00" and value[0] != "0":
        return f"{number_words.cardinal(int(value[0]), context.grammar.dialect)} hundred"
    return number_words.digits(value, "oh" if context.grammar.dialect == GB else "zero")


def titled(value: str, parts: Parts, context: "Context") -> str:
    """A title without its dot."""
    return context.grammar.entry("titled", value.rstrip("."))[0]


def spelled(value: str, parts: Parts, context: "Context") -> str:
    """One part of a name or address."""
    return spell(value, context)


def letters(value: str, parts: Parts, context: "Context") -> str:
    """Letter by letter; dots between them are silent."""
    return f"[{value.replace('.', '').replace(' ', '').upper()}]"


def formula(value: str, parts: Parts, context: "Context") -> str:
    """CaCO3: letters and numbers."""
    return " ".join(
        number_words.cardinal(int(part), context.grammar.dialect)
        if part.isdigit()
        else f"[{part.upper()}]"
        for part in re.findall(r"[A-Za-z]+|\d+", value)
    )


def chess(value: str, parts: Parts, context: "Context") -> str:
    """Qxd5: the piece, what it does, the square."""
    square = value.replace("x", "")[1:3]
    piece = context.grammar.entry("piece", value[0])[0]
    takes = "takes " if "x" in value else ""
    return f"{piece} {takes}[{square[0].upper()}] {number_words.digits(square[1])}"


def raw(value: str, parts: Parts, context: "Context") -> str:
    """As it stands."""
    return value


def lower(value: str, parts: Parts, context: "Context") -> str:
    """In small letters."""
    return value.lower()


VERBALIZERS: dict[str, Verbalizer] = {"spell": spelled, "zip": zip_code} | {
    function.__name__: function
    for function in (
        amount, cardinal, count, ordinal, year, short, digits, oh, pairs, minutes, denominator,
        roman, plural, measure, single, money, worth, many, clock, month, name, web, file, dotted,
        acronym, letters, formula, chess, raw, lower,
        nthday, spaced, signed, outof, plurals, ampersand, millions, loud, stone, alone, tollfree, house, compass, place, tablespoons, minutesof, daysof, dollar, units, partof, kilo, code, shortday, dotday, yearmonth, compactday, prefix, parted, span, route, isoday, decade, half, military, monthcaps, over, cups, groups, phone, titled,
    )
}  # fmt: skip
