"""The tables and functions by which the normalizer reads a language: numbers that agree with what
is counted, dates, times, units, abbreviations.

    build_grammar(read_words("spanish"), cardinal=...).cardinal(21, "personas")      # "veintiuna"

Words and tables are data (g2p/data/spanish.json ...); what puts them together stands in the
language's file.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kokoro_g2p.bundled import read_json
from kokoro_g2p.word_lists import parse_set

LONGEST_NUMBER = 14  # digits; a longer one is said digit by digit


@dataclass(frozen=True)
class LanguageGrammar:
    """The words of one language and how they are put together. `cardinal(number, following word)`
    agrees with the noun that is counted; `ordinal(number, feminine)`.
    """

    cardinal: Callable[[int, str], str]
    ordinal: Callable[[int, bool], str]
    digits: tuple[str, ...]
    months: tuple[str, ...]
    date: Callable[[int, str, str], str]  # day, month, year (or "") as words
    clock: Callable[[int, int], str]
    point: str  # of a decimal
    minus: str
    percent: str
    degrees: tuple[str, str]  # one, several
    of_millions: str  # stands between a round million and what is counted
    # one, several, one hundredth, several; Spanish joins with con
    currencies: Mapping[str, tuple[str, str, str, str]]
    money_joint: str
    units: Mapping[str, tuple[str, str]]
    abbreviations: Mapping[str, str]
    signs: Mapping[str, str]
    web: Mapping[str, str]
    roman_after: re.Pattern[str]  # a numeral behind these is one for certain
    roman_ordinal: Callable[[int, str], str]  # value, the word before
    spelled: frozenset[str]  # acronyms that could be words and are not
    fractions: Mapping[str, str]
    range_joint: str  # between those of a score or a range
    over: str  # between the numbers of another fraction
    elided: str  # articles that stand before a number with an apostrophe
    codes: re.Pattern[str]  # words before a number that is said digit by digit
    day_before: re.Pattern[str]  # words that make a day of 3/4
    always: Mapping[str, str]
    money_words: re.Pattern[str]  # currencies that the text names itself, behind a sign
    roman_first: re.Pattern[str]  # a numeral before these is an ordinal
    respelled: Mapping[str, str]  # English words as this language spells their sound
    saints: str  # a pattern: the abbreviation of san, santa, sant'

    def read_number(self, text: str, counted: str) -> str:
        """A number as it is written, with its sign and decimals, in words that agree with the noun
        behind it.
        """
        sign = text[0] in "-−"
        plain = text.lstrip("-−")
        whole, fraction = split_number(plain)
        spoken = self.read_integer(whole, "" if fraction else counted)
        # Zeros behind the point are said one by one, then up to two digits as a number: 3,05 is
        # tres coma cero cinco.
        if fraction:
            zeros = len(fraction) - len(fraction.lstrip("0"))
            tail = fraction.lstrip("0")
            names = [self.digits[0]] * zeros + [
                self.read_integer(tail, counted) if 0 < len(tail) <= 2 else self.read_digits(tail)
            ]
            spoken = f"{spoken} {self.point} {' '.join(names)}".strip()
        # A round million needs a joint before its noun: un millón de personas.
        elif counted and counted.lower() != self.of_millions and self.find_joint(whole):
            spoken = f"{spoken} {self.of_millions}"
        return f"{self.minus} {spoken}" if sign else spoken

    def read_integer(self, text: str, counted: str) -> str:
        """A run of digits in words; digit by digit where it is long or begins with a zero."""
        # A leading zero marks a code and not an amount: 007.
        if len(text) > LONGEST_NUMBER or (len(text) > 2 and text[0] == "0"):
            return self.read_digits(text)
        return self.cardinal(int(text), counted)

    def read_digits(self, text: str) -> str:
        """The name of each digit."""
        return " ".join(self.digits[int(digit)] for digit in text)

    def find_joint(self, whole: str) -> str:
        """The word between a round million and its noun, with a space; empty for other numbers."""
        number = int(whole)
        is_round = number >= 1_000_000 and number % 1_000_000 == 0
        return f"{self.of_millions} " if is_round else ""


def split_number(text: str) -> tuple[str, str]:
    """Whole part and decimals of a number as it is written: a point before three digits parts
    thousands, a comma decimals.
    """
    plain = text.replace(" ", "")
    # Only groups of three digits make a point part thousands; 3.14 has decimals.
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+(?:,\d+)?", plain):
        plain = plain.replace(".", "")
    whole, _, fraction = plain.replace(".", ",").partition(",")
    return whole, fraction


def read_words(language: str) -> dict[str, Any]:
    """The tables of a language; a line of words as a tuple."""
    words = read_json(f"{language}.json")
    # A line of words is split once here, so that grammars index tuples.
    numbers = {name: tuple(names.split()) for name, names in words["numbers"].items()}
    return words | numbers | {"months": tuple(words["months"].split())}


def build_grammar(words: Mapping[str, Any], **functions: Any) -> LanguageGrammar:
    """The tables and the functions that put their words together."""
    ready = {
        # The ones run on to 19 and beyond; digits are the first ten of them.
        "digits": words["ones"][:10],
        "roman_after": re.compile(words["roman_after"], re.IGNORECASE),
    }
    listed = {
        name: "|".join(map(re.escape, words[name].split()))
        for name in ("codes", "joints", "day_before", "money_words", "roman_first")
    }
    # Small words and a colon may stand between such a word and its number: código postal: 28001.
    between = rf"(?:\s*[:#]?\s+(?:{listed['joints']}))*\s*[:#]?\s*$"
    ready["codes"] = re.compile(rf"(?<!\w)(?:{listed['codes']}){between}", re.IGNORECASE)
    ready["day_before"] = re.compile(rf"(?<!\w)(?:{listed['day_before']}),?\s+$", re.IGNORECASE)
    ready |= {
        name: re.compile(rf"\s*({listed[name]})(?!\w)", re.IGNORECASE)
        for name in ("money_words", "roman_first")
    }
    # Square and cubic units are found under m^2 as well as under m².
    ready["units"] = words["units"] | {
        key.replace("²", "^2").replace("³", "^3"): forms for key, forms in words["units"].items()
    }
    # at the beginning of a line too: Pág. 5
    longer = {key: full for key, full in words["abbreviations"].items() if len(key) > 3}
    ready["abbreviations"] = {
        **{key[0].upper() + key[1:]: full for key, full in longer.items()},
        **words["abbreviations"],
    }
    ready["spelled"] = parse_set(words["spelled"])
    # Every field that neither a function nor this one makes is a table of the same name.
    names = set(LanguageGrammar.__dataclass_fields__) - set(ready) - set(functions)
    return LanguageGrammar(**ready, **functions, **{name: words[name] for name in names})
