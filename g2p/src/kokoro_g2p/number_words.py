"""Numbers as words: cardinals, ordinals, years, digits, decimals, plurals. American without `and`,
British with it.

    from kokoro_g2p.number_words import cardinal, ordinal, year
    cardinal(1234, "gb")  # one thousand two hundred and thirty-four
"""

import re
from functools import lru_cache

from kokoro_g2p.result import GB, Dialect
from kokoro_g2p.word_lists import parse_pairs

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen"
)
ONES = _ONES.split()
TENS = [".", ".", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
SCALES = ["", *["thousand", "million", "billion", "trillion", "quadrillion", "quintillion"]]
_MONTHS = "January February March April May June July August September October November December"
MONTHS = _MONTHS.split()
LARGEST_DIGITS = 18  # longer runs are read digit by digit
IRREGULAR = parse_pairs(
    "one:first two:second three:third five:fifth eight:eighth nine:ninth twelve:twelfth"
)


def below_hundred(number: int) -> str:
    """0 to 99."""
    if number < 20:
        return ONES[number]
    tens, ones = divmod(number, 10)
    return TENS[tens] + (f"-{ONES[ones]}" if ones else "")


def below_thousand(number: int, dialect: Dialect) -> str:
    """0 to 999."""
    hundreds, rest = divmod(number, 100)
    if not hundreds:
        return below_hundred(rest)
    joint = " and " if dialect == GB else " "
    return f"{ONES[hundreds]} hundred" + (joint + below_hundred(rest) if rest else "")


@lru_cache(maxsize=4096)
def cardinal(number: int, dialect: Dialect) -> str:
    """0 to 10^21 - 1; commas left out, tens and ones joined by a hyphen."""
    if number < 1000:
        return below_thousand(number, dialect)
    groups = []
    rest = number
    scale = 0
    while rest:
        rest, group = divmod(rest, 1000)
        if group:
            groups.append(f"{below_thousand(group, dialect)} {SCALES[scale]}".strip())
        scale += 1
    last = number % 1000
    # In British `and` stands before a small rest: one thousand and five.
    if dialect == GB and 0 < last < 100:
        groups[0] = f"and {groups[0]}"
    return " ".join(reversed(groups))


def ordinal(number: int, dialect: Dialect) -> str:
    """21 -> twenty-first."""
    words = cardinal(number, dialect)
    last = re.split("[ -]", words)[-1]
    head = words[: len(words) - len(last)]
    if last.endswith("y"):
        return f"{head}{last[:-1]}ieth"
    return head + IRREGULAR.get(last, f"{last}th")


def plural(words: str) -> str:
    """The last word in the plural: nineteen ninety -> nineteen nineties."""
    if words.endswith("y"):
        return f"{words[:-1]}ies"
    return words + ("es" if words.endswith(("x", "s")) else "s")


def digits(text: str, zero: str = "zero") -> str:
    """Digit by digit: 105 -> one zero five."""
    return " ".join(ONES[int(digit)] if digit != "0" else zero for digit in text)


def name_digits(text: str, dialect: Dialect) -> str:
    """Digits inside a name: 19 -> nineteen, 747 -> seven forty-seven, 2020 -> twenty twenty, 007
    and long ones digit by digit.
    """
    if (text[0] == "0" and len(text) > 1) or len(text) > 4:
        return digits(text)
    # One or two digits, and round thousands, are plain numbers: 2000 and 19.
    if len(text) < 3 or int(text) % 1000 == 0:
        return cardinal(int(text), dialect)
    head, tail = int(text[:-2]), int(text[-2:])
    # 2005 is two thousand five, not twenty oh five.
    if len(text) == 4 and head % 10 == 0 and tail < 10:
        return cardinal(int(text), dialect)
    if not tail:
        return f"{below_hundred(head)} hundred"
    return f"{below_hundred(head)} {'oh ' if tail < 10 else ''}{below_hundred(tail)}"


def year(number: int, dialect: Dialect) -> str:
    """1999 -> nineteen ninety-nine, 1905 -> nineteen oh five, 1900 -> nineteen hundred, 2005 -> two
    thousand (and) five.
    """
    high, low = divmod(number, 100)
    if not 10 <= high <= 99 or high % 10 == 0 and low < 10:
        return cardinal(number, dialect)
    if not low:
        return f"{below_hundred(high)} hundred"
    return f"{below_hundred(high)} {'oh ' if low < 10 else ''}{below_hundred(low)}"


def whole(text: str, dialect: Dialect) -> str:
    """Digits, with or without commas; leading zeros and more than 18 digits digit by digit."""
    plain = text.replace(",", "")
    if len(plain) > LARGEST_DIGITS or (plain[0] == "0" and len(plain) > 1):
        return digits(plain)
    return cardinal(int(plain), dialect)


def decimal(text: str, dialect: Dialect) -> str:
    """3.14 -> three point one four; .5 -> point five; no point: `whole`."""
    head, point, tail = text.partition(".")
    if not point:
        return whole(head, dialect)
    return f"{whole(head, dialect) if head else ''} point {digits(tail)}".strip()


def signed(text: str, dialect: Dialect) -> str:
    """A leading hyphen or minus sign is `minus`, a plus sign `plus`."""
    name = {"-": "minus ", "−": "minus ", "–": "minus ", "+": "plus "}.get(text[0], "")
    return name + decimal(text[1:] if name else text, dialect)


ROMAN = {
    letter: int(value)
    for letter, value in parse_pairs("I:1 V:5 X:10 L:50 C:100 D:500 M:1000").items()
}
NUMERAL = r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"


def parse_roman(numeral: str) -> int | None:
    """XIV -> 14; None for what is no numeral below 4000."""
    if not numeral or not re.fullmatch(NUMERAL, numeral):
        return None
    # A numeral below the next one is taken off: IX is ten less one.
    numbers = [ROMAN[letter] for letter in numeral]
    return sum(
        -low if low < high else low for low, high in zip(numbers, [*numbers[1:], 0], strict=True)
    )
