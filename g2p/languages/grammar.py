"""What the normalizer must know of Spanish and Italian: numbers that agree with what is counted,
dates, times, units, abbreviations.

    SPANISH.cardinal(21, "personas")      # "veintiuna"
    ITALIAN.clock(14, 5)                  # "quattordici e cinque"

Words and tables are data (g2p/data/spanish.json, italian.json); here is what they are put together
by.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kokoro_ane.g2p.bundled import table
from kokoro_ane.g2p.word_lists import word_set


@dataclass(frozen=True)
class Grammar:
    """One language. `cardinal(number, following word)` agrees with what is counted;
    `ordinal(number, feminine)`.
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
    over: str  # between the numbers of another fraction
    elided: str  # articles that stand before a number with an apostrophe
    codes: re.Pattern[str]  # words before a number that is said digit by digit
    day_before: re.Pattern[str]  # words that make a day of 3/4
    always: Mapping[str, str]
    money_words: re.Pattern[str]  # currencies that the text names itself, behind a sign
    roman_first: re.Pattern[str]  # a numeral before these is an ordinal
    respelled: Mapping[str, str]  # English words as this language spells their sound
    saints: str  # the abbreviation of san, santa, sant'
    unstressed: frozenset[str]  # words whose stress goes, but before a pause
    secondary: frozenset[str]  # and those whose stress weakens


def read_words(language: str) -> dict[str, Any]:
    """The tables of a language; a line of words as a tuple."""
    words = table(f"{language}.json")
    numbers = {name: tuple(names.split()) for name, names in words["numbers"].items()}
    return words | numbers | {"months": tuple(words["months"].split())}


def grammar_of(words: Mapping[str, Any], **functions: Any) -> Grammar:
    """The tables and the functions that put their words together."""
    ready = {
        "digits": words["ones"][:10],
        "roman_after": re.compile(words["roman_after"], re.IGNORECASE),
    }
    listed = {
        name: "|".join(map(re.escape, words[name].split()))
        for name in ("codes", "joints", "day_before", "money_words", "roman_first")
    }
    between = rf"(?:\s*[:#]?\s+(?:{listed['joints']}))*\s*[:#]?\s*$"
    ready["codes"] = re.compile(rf"(?<!\w)(?:{listed['codes']}){between}", re.IGNORECASE)
    ready["day_before"] = re.compile(rf"(?<!\w)(?:{listed['day_before']}),?\s+$", re.IGNORECASE)
    ready |= {
        name: re.compile(rf"\s*({listed[name]})(?!\w)", re.IGNORECASE)
        for name in ("money_words", "roman_first")
    }
    ready["units"] = words["units"] | {
        key.replace("²", "^2").replace("³", "^3"): forms for key, forms in words["units"].items()
    }
    ready |= {name: word_set(words[name]) for name in ("spelled", "unstressed", "secondary")}
    names = set(Grammar.__dataclass_fields__) - set(ready) - set(functions)
    return Grammar(**ready, **functions, **{name: words[name] for name in names})


ES, IT = read_words("spanish"), read_words("italian")


def spanish(number: int, one: str = "uno") -> str:
    """A whole number from 0 to below LARGEST. `one`: the form of a final one: uno, un (before a
    masculine noun) or una.
    """
    if number < 1000:
        return _es_below_1000(number, one)
    for size, singular, plural in (
        (1_000_000_000_000, "un billón", "billones"),
        (1_000_000, "un millón", "millones"),
        (1000, "mil", "mil"),
    ):
        if number >= size:
            count, rest = divmod(number, size)
            counted = one if size == 1000 and one == "una" else "un"
            head = singular if count == 1 else f"{spanish(count, counted)} {plural}"
            return f"{head} {spanish(rest, one)}" if rest else head
    raise AssertionError("a number of 1000 or more is 1000 or more")


def _es_below_1000(number: int, one: str) -> str:
    if number == 100:
        return "cien"
    if number > 100:
        hundreds = ES["hundreds"][number // 100]
        hundreds = hundreds[:-2] + "as" if one == "una" and number >= 200 else hundreds
        return f"{hundreds} {_es_below_1000(number % 100, one)}" if number % 100 else hundreds
    if number >= 30:
        tens = ES["tens"][number // 10]
        return f"{tens} y {_es_below_1000(number % 10, one)}" if number % 10 else tens
    if number % 10 == 1 and number != 11:
        return {
            "uno": ES["ones"][number],
            "un": "un" if number == 1 else "veintiún",
            "una": "una" if number == 1 else "veintiuna",
        }[one]
    return ES["ones"][number]


def spanish_ordinal(number: int, feminine: bool) -> str:
    """First to twentieth; beyond that people say the cardinal."""
    if not 1 <= number < len(ES["ordinals"]):
        return spanish(number, "una" if feminine else "uno")
    return ES["ordinals"][number][:-1] + ("a" if feminine else "o")


def italian(number: int, one: str = "uno") -> str:
    """A whole number from 0 to below LARGEST; a final tre of a longer word has its accent. `one`:
    the form of 1 itself: uno, un, una.
    """
    if number == 1:
        return one
    for size, singular, plural in IT_SIZES:
        if number >= size:
            count, rest = divmod(number, size)
            head = (
                singular
                if count == 1
                else f"{italian(count)}{'' if plural[:4] == 'mila' else ' '}{plural}"
            )
            return f"{head} {italian(rest)}" if rest else head
    word = _it_below_million(number)
    return word[:-3] + "tré" if word.endswith("tre") and word != "tre" else word


def _it_below_million(number: int) -> str:
    if number >= 1000:
        count, rest = divmod(number, 1000)
        head = "mille" if count == 1 else _it_below_million(count) + "mila"
        return head + (_it_below_million(rest) if rest else "")
    if number >= 100:
        count, rest = divmod(number, 100)
        head = ("" if count == 1 else IT["ones"][count]) + (
            "cent" if rest == 8 or rest // 10 == 8 else "cento"
        )
        return head + (_it_below_million(rest) if rest else "")
    if number >= 20:
        tens, ones = IT["tens"][number // 10], number % 10
        return (tens[:-1] if ones in (1, 8) else tens) + (IT["ones"][ones] if ones else "")
    return IT["ones"][number]


def italian_ordinal(number: int, feminine: bool = False) -> str:
    """Any ordinal from 1 on."""
    if number < len(IT["ordinals"]):
        spoken = IT["ordinals"][number]
    else:
        word = _it_below_million(number) if number < 1_000_000 else italian(number).replace(" ", "")
        spoken = (word if word.endswith(("tre", "sei")) else word[:-1]) + (
            "lesimo" if word.endswith("mille") else "esimo"
        )
    return spoken[:-1] + ("a" if feminine else "o")


IT_SIZES = (
    (10**12, "mille miliardi", "mila miliardi"),
    (10**9, "un miliardo", "miliardi"),
    (10**6, "un milione", "milioni"),
)


FEMININE = re.compile(
    r"(?:as?|ciones|ción|dades|dad|sión|siones|noches?|veces|vez|mujeres|mujer|horas?|libras?)$"
)
MASCULINE = word_set("día días mapa mapas problema problemas programa programas sistema sistemas")
AFTER_UNO = word_set("a al de del y o que es en con por para el la los las se más menos")
ORDERED = word_set("secolo secoli parte classe sezione atto scena") | word_set(IT["roman_first"])
ES_FIRST, ES_FEMININE, IT_FEMININE = (
    word_set(ES["roman_first"]),
    word_set(ES["feminine"]),
    word_set(IT["feminine"]),
)


def _es_cardinal(number: int, following: str) -> str:
    following = following.lower()
    if not following[:1].isalpha() or following in AFTER_UNO:
        return spanish(number)
    feminine = FEMININE.search(following) and following not in MASCULINE
    return spanish(number, "una" if feminine else "un")


def _es_roman(value: int, before: str) -> str:
    counts = before[:1].isupper() or before in ES_FIRST
    return (
        spanish_ordinal(value, before.lower() in ES_FEMININE)
        if counts and value <= 10
        else spanish(value)
    )


def _it_cardinal(number: int, following: str) -> str:
    return italian(number, "uno" if not following else "una" if following.endswith("a") else "un")


def _it_roman(value: int, before: str) -> str:
    return (
        italian_ordinal(value, before.lower() in IT_FEMININE)
        if before[:1].isupper() or before in ORDERED
        else italian(value)
    )


SPANISH = grammar_of(
    ES,
    cardinal=_es_cardinal,
    ordinal=spanish_ordinal,
    date=lambda day, month, year: f"{spanish(day)} de {month}" + (f" de {year}" if year else ""),
    clock=lambda hour, minute: (
        spanish(hour, "una") + (f" {'cero ' * (minute < 10)}{spanish(minute)}" if minute else "")
    ),
    roman_ordinal=_es_roman,
)
ITALIAN = grammar_of(
    IT,
    cardinal=_it_cardinal,
    ordinal=italian_ordinal,
    date=lambda day, month, year: (
        f"{'primo' if day == 1 else italian(day)} {month}" + (f" {year}" if year else "")
    ),
    clock=lambda hour, minute: italian(hour, "una") + (f" e {italian(minute)}" if minute else ""),
    roman_ordinal=_it_roman,
)
