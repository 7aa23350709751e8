"""Verbalizers of days and times. What each takes and answers: quantities.py."""

import re

import kokoro_g2p.number_words as number_words
from kokoro_g2p.grammar.quantities import minutes, ordinal, short, year
from kokoro_g2p.grammar.table import SlotContext
from kokoro_g2p.result import GB


def clock(value: str, context: SlotContext) -> str:
    """5:09, 14:00; with the slot `half` (a.m., p.m.) a full hour has no more words."""
    hour, minute = re.split(r"[:.h]", value)[:2]
    start = "zero" if not hour.strip("0") else number_words.cardinal(int(hour), context.dialect)
    if minute != "00":
        return f"{start} {minutes(minute, context)}"
    if context.parts.get("half"):
        return start
    # 14:00 and 09:00 are of the 24-hour clock, 10:00 to 12:00 of either.
    is_army = len(hour) == 2 and not 10 <= int(hour) <= 12
    return f"{start} hundred" if is_army else f"{start} o'clock"


def month(value: str, context: SlotContext) -> str:
    """The name of a month from its number."""
    return number_words.MONTHS[int(value) - 1]


def nthday(value: str, context: SlotContext) -> str:
    """A day of a month, with its ending or without: 3rd, 3 -> third."""
    return ordinal(re.sub(r"\D", "", value), context)


def name_day(first: int, second: int, context: SlotContext) -> str:
    """A day of two numbers in the dialect's order, or in the other one where only that is a day."""
    gb = context.dialect == GB
    number, day = (second, first) if gb else (first, second)
    # No month has a number above 12, so that it must be the day.
    if number > 12:
        number, day = day, number
    nth = number_words.ordinal(day, context.dialect)
    name_of = number_words.MONTHS[min(number, 12) - 1]
    return f"the {nth} of {name_of}" if gb else f"{name_of} {nth}"


def shortday(value: str, context: SlotContext) -> str:
    """12/25, 12/25/2026, 12.25.26: December twenty-fifth; two of them are a range."""
    numbers = re.findall(r"\d+", value)
    words = name_day(int(numbers[0]), int(numbers[1]), context)
    if len(numbers) == 4:
        return f"{words} to {name_day(int(numbers[2]), int(numbers[3]), context)}"
    return f"{words}, {short(numbers[2], context)}" if len(numbers) == 3 else words


def dotday(value: str, context: SlotContext) -> str:
    """6.7.26 as 6/7/26; with a leading zero (03.09.85) the day is first, as in Europe."""
    first, second, *rest = re.findall(r"\d+", value)
    if first[0] == "0" and int(second) < 13 and context.dialect != GB:
        first, second = second, first
    return shortday("/".join((first, second, *rest)), context)


def compactday(value: str, context: SlotContext) -> str:
    """20231107: November seventh, twenty twenty-three."""
    return isoday(f"{value[:4]}-{value[4:6]}-{value[6:]}", context)


def isoday(value: str, context: SlotContext) -> str:
    """2026-03-15: March fifteenth, twenty twenty-six."""
    numbers = re.findall(r"\d+", value)
    month_day = (numbers[2], numbers[1]) if context.dialect == GB else numbers[1:3]
    words = name_day(int(month_day[0]), int(month_day[1]), context)
    return f"{words}, {year(numbers[0], context)}"


def decade(value: str, context: SlotContext) -> str:
    """90s -> nineties."""
    return number_words.plural(number_words.cardinal(int(value[:-1]), context.dialect))


def half(value: str, context: SlotContext) -> str:
    """a, p -> AM, PM."""
    return f"[{value.upper()}M]"


def military(value: str, context: SlotContext) -> str:
    """0730 -> zero seven thirty, 1600 -> sixteen hundred."""
    dialect = context.dialect
    hour, minute = int(value[:2]), int(value[2:])
    start = ("zero " if hour < 10 else "") + number_words.cardinal(hour, dialect)
    return f"{start} {number_words.cardinal(minute, dialect) if minute else 'hundred'}"
