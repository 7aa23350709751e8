"""Verbalizers of numbers and of what they count: amounts, measures, money.

Each takes the text of its slot and the context, which holds all slots of the match, and answers
words; `[FBI]` in them are letters.
"""

import re

import kokoro_g2p.number_words as number_words
from kokoro_g2p import word_lists
from kokoro_g2p.grammar.table import SlotContext
from kokoro_g2p.result import GB

# what people divide by
MEASURED = word_lists.parse_set("24 25 30 32 40 50 60 64 100 128 1000")
VULGAR = word_lists.parse_pairs(
    "½:1/2 ⅓:1/3 ⅔:2/3 ¼:1/4 ¾:3/4 ⅕:1/5 ⅖:2/5 ⅗:3/5 ⅘:4/5 ⅙:1/6 ⅚:5/6 ⅛:1/8 ⅜:3/8 ⅝:5/8 ⅞:7/8"
)


def name_fraction(top: int, bottom: int, context: SlotContext) -> str:
    """1, 2 -> one half; 3, 4 -> three quarters; 17, 92 -> seventeen over ninety-two."""
    dialect = context.dialect
    # Nobody says ninety-seconds: by an unusual denominator one divides.
    if bottom > 20 and str(bottom) not in MEASURED:
        return (
            f"{number_words.cardinal(top, dialect)} over {number_words.cardinal(bottom, dialect)}"
        )
    name = {2: "half", 4: "quarter"}.get(bottom) or number_words.ordinal(bottom, context.dialect)
    if top != 1:
        name = "halves" if name == "half" else f"{name}s"
    return f"{number_words.cardinal(top, context.dialect)} {name}"


def amount(value: str, context: SlotContext) -> str:
    """Any way to write an amount: 12, 1,234.5, 1 000 000, 12,5, .5, 3/4, 1 1/2, 2½, 1e5."""
    dialect = context.dialect
    text = value
    # 2½ becomes 2 1/2, which the pattern below reads.
    for sign, written in VULGAR.items():
        text = text.replace(sign, f" {written}")
    text = " ".join(text.split())
    match = re.fullmatch(r"(?:(\d+)[ -])?(\d+)/(\d+)", text)
    if match:
        whole, top, bottom = match[1], int(match[2]), int(match[3])
        words = name_fraction(top, bottom, context)
        if whole is None:
            return words
        joined = "a half" if (top, bottom) == (1, 2) else words
        return f"{number_words.whole(whole, dialect)} and {joined}"
    match = re.fullmatch(r"(.+?)[eE]([-+−]?)(\d+)", text)
    if match:
        power = ("minus " if match[2] in ("-", "−") else "") + number_words.whole(match[3], dialect)
        return f"{amount(match[1], context)} times ten to the power of {power}"
    # Before one or two digits a comma is a decimal point; before three it parts thousands.
    if re.fullmatch(r"\d+,\d{1,2}", text):
        text = text.replace(",", ".")
    return number_words.decimal(text.replace(" ", ""), dialect)


def is_one(value: str) -> bool:
    """Whether a unit behind this amount is singular: 1, 1/2, ¾; not 1.0, 0 or 1 1/2."""
    return value == "1" or value in VULGAR or re.fullmatch(r"\d+/\d+", value) is not None


def parse_integer(value: str) -> int:
    """1,234 as a number."""
    return int(value.replace(",", "").replace(" ", ""))


def cardinal(value: str, context: SlotContext) -> str:
    """One to 10^21 - 1, or a decimal."""
    return number_words.decimal(value.replace(" ", ""), context.dialect)


def count(value: str, context: SlotContext) -> str:
    """A number that may begin with zeros: 05 -> five."""
    return number_words.cardinal(parse_integer(value), context.dialect)


def ordinal(value: str, context: SlotContext) -> str:
    """21 -> twenty-first."""
    return number_words.ordinal(parse_integer(value), context.dialect)


def year(value: str, context: SlotContext) -> str:
    """1999 -> nineteen ninety-nine."""
    return number_words.year(int(value), context.dialect)


def short(value: str, context: SlotContext) -> str:
    """The year that two digits mean: 24 -> twenty twenty-four, 87 -> nineteen eighty-seven."""
    if len(value) == 4:
        return year(value, context)
    # Two digits below 50 are a year of this century.
    return year(("20" if int(value) < 50 else "19") + value, context)


def digits(value: str, context: SlotContext) -> str:
    """Digit by digit."""
    return number_words.digits(re.sub(r"\D", "", value))


def oh(value: str, context: SlotContext) -> str:
    """Digit by digit, zero as `oh`."""
    return number_words.digits(re.sub(r"\D", "", value), "oh")


def pairs(value: str, context: SlotContext) -> str:
    """Digits in a name: 19 -> nineteen, 747 -> seven forty-seven, 2020 -> twenty twenty."""
    return number_words.name_digits(value, context.dialect)


def minutes(value: str, context: SlotContext) -> str:
    """Minutes behind an hour: 05 -> oh five, 30 -> thirty."""
    number = int(value)
    return ("oh " if number < 10 else "") + number_words.cardinal(number, context.dialect)


def denominator(value: str, context: SlotContext) -> str:
    """The name of a fraction's lower number; its upper one is the slot `integer`."""
    # The name without its number, which another slot says.
    return name_fraction(
        parse_integer(context.parts["integer"]), parse_integer(value), context
    ).split(" ", 1)[1]


def roman(value: str, context: SlotContext) -> str:
    """XIV -> 14, as digits for the next verbalizer."""
    return str(number_words.parse_roman(value.upper()) or 0)


def plural(value: str, context: SlotContext) -> str:
    """The last word in the plural."""
    return number_words.plural(value)


def name_amount(value: str, one: str, many: str, single: bool, context: SlotContext) -> str:
    """An amount and the name of what it counts."""
    name = one if single or is_one(value) else many or f"{one}s"
    words = f"{amount(value, context)} {name}"
    # The word sets spell American: meter, liter.
    if context.dialect == GB:
        words = re.sub(r"(met|lit)er(s?)\b", r"\1re\2", words)
    return words


def measure(value: str, context: SlotContext) -> str:
    """An amount with the slot `unit` or `spacedunit`."""
    name = "unit" if "unit" in context.parts else "spacedunit"
    one, many, _ = context.find_entry(name, context.parts[name])
    return name_amount(value, one, many, False, context)


def single(value: str, context: SlotContext) -> str:
    """The same before what it measures: a ten mile run."""
    one, many, _ = context.find_entry("unit", context.parts["unit"])
    return name_amount(value, one, many, True, context)


def name_money(value: str, context: SlotContext, single: bool) -> str:
    """An amount with the slots `currency` and perhaps `scale`."""
    dialect = context.dialect
    one, many, minor = context.find_entry("currency", context.parts["currency"])
    # 1.234,50 is written as in Europe: the comma is the decimal point.
    if re.search(r",\d\d$", value):
        value = value.replace(".", "").replace(",", ".")
    written = (
        context.parts.get("scale")
        or context.parts.get("scaleword")
        or context.parts.get("fullscale")
    )
    if written:
        scale = context.find_entry("scale", written)[0]
        return f"{amount(value, context)} {scale} {one if single else many or one + 's'}"
    value = value.replace(",", "")
    # Without two decimals, or a coin for them, the amount is a decimal number.
    whole, _, cents = value.partition(".")
    if len(cents) != 2 or not minor or (single and cents.strip("0")):
        return name_amount(value, one, many, single, context)
    penny, pence = minor.split("|")
    words = []
    # $0.50 is fifty cents, $0.00 zero dollars.
    if whole.strip("0") or not cents.strip("0"):
        words.append(name_amount(whole or "0", one, many, single, context))
    if cents.strip("0"):
        name = penny if cents == "01" else pence
        words.append(f"{number_words.cardinal(int(cents), dialect)} {name}")
    return " and ".join(words)


def money(value: str, context: SlotContext) -> str:
    """Dollars and cents."""
    return name_money(value, context, False)


def worth(value: str, context: SlotContext) -> str:
    """The same before what costs it: a five dollar bill."""
    return name_money(value, context, True)


def signed(value: str, context: SlotContext) -> str:
    """A whole number with its sign."""
    return number_words.signed(value, context.dialect)


def others(value: str, context: SlotContext) -> str:
    """The plural of a unit or a currency."""
    name = next(name for name in ("aloneunit", "currency", "unit") if name in context.parts)
    one, plural_name, _ = context.find_entry(name, value)
    return plural_name or f"{one}s"


def name_amount_of(name: str, value: str, context: SlotContext) -> str:
    """An amount of something, perhaps behind a zero: 05 -> five hours."""
    return name_amount(re.sub(r"^0+(?=\d)", "", value), name, f"{name}s", False, context)
