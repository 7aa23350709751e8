"""Spanish (Castilian): numbers, the grammar of the normalizer, and the forms of words beside one
another.

spanish(1981)  # "mil novecientos ochenta y uno"
joined("bˈaka", "la", "")  # "βˈaka"
"""

import re

from kokoro_g2p.alphabet import PRIMARY, SECONDARY
from kokoro_g2p.languages.forms import choose_form
from kokoro_g2p.languages.grammar import build_grammar, read_words
from kokoro_g2p.word_lists import parse_set

ES = read_words("spanish")
# Endings of feminine nouns, with which a final one agrees: una persona, veintiuna ciudades.
FEMININE = re.compile(
    r"(?:as?|ciones|ción|dades|dad|sión|siones|noches?|veces|vez|mujeres|mujer|horas?|libras?)$"
)
# These end in a and are masculine nevertheless: un problema, veintiún días.
MASCULINE = parse_set("día días mapa mapas problema problemas programa programas sistema sistemas")
# Words that cannot be counted, so that a number before them keeps uno: uno de ellos.
AFTER_UNO = parse_set("a al de del y o que es en con por para el la los las se más menos")
ES_FIRST, ES_FEMININE = parse_set(ES["roman_first"]), parse_set(ES["feminine"])
# Inside a phrase b, d and g are approximants: la vaca is la βˈaka.
SOFT = {"b": "β", "d": "ð", "ɡ": "ɣ"}


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
            # The count of mil agrees (veintiuna mil personas); millón is a masculine noun that is
            # counted itself (veintiún millones).
            counted = one if size == 1000 and one == "una" else "un"
            head = singular if count == 1 else f"{spanish(count, counted)} {plural}"
            return f"{head} {spanish(rest, one)}" if rest else head
    raise AssertionError("a number of 1000 or more is 1000 or more")


def _es_below_1000(number: int, one: str) -> str:
    if number == 100:
        return "cien"
    if number > 100:
        hundreds = ES["hundreds"][number // 100]
        # From 200 on hundreds agree in gender: doscientos libros, doscientas casas.
        hundreds = hundreds[:-2] + "as" if one == "una" and number >= 200 else hundreds
        return f"{hundreds} {_es_below_1000(number % 100, one)}" if number % 100 else hundreds
    if number >= 30:
        tens = ES["tens"][number // 10]
        return f"{tens} y {_es_below_1000(number % 10, one)}" if number % 10 else tens
    # Below thirty only 1 and 21 end in a one: veintiún libros, veintiuna casas.
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


def _es_cardinal(number: int, following: str) -> str:
    following = following.lower()
    if not following[:1].isalpha() or following in AFTER_UNO:
        return spanish(number)
    feminine = FEMININE.search(following) and following not in MASCULINE
    return spanish(number, "una" if feminine else "un")


def _es_roman(value: int, before: str) -> str:
    # Rulers and numbered events are ordinals up to ten: Felipe II is segundo, Luis XIV catorce.
    counts = before[:1].isupper() or before in ES_FIRST
    return (
        spanish_ordinal(value, before.lower() in ES_FEMININE)
        if counts and value <= 10
        else spanish(value)
    )


SPANISH = build_grammar(
    ES,
    cardinal=_es_cardinal,
    ordinal=spanish_ordinal,
    date=lambda day, month, year: f"{spanish(day)} de {month}" + (f" de {year}" if year else ""),
    # Hours are feminine (la una), and minutes below ten keep their zero: dos cero cinco.
    clock=lambda hour, minute: (
        spanish(hour, "una") + (f" {'cero ' * (minute < 10)}{spanish(minute)}" if minute else "")
    ),
    roman_ordinal=_es_roman,
)


def joined(reading: str, before: str, after: str) -> str:
    """A word between its neighbours ("" at a pause): b, d, g soft but behind a nasal, n as the next
    sound, final d soft before a vowel.
    """
    phonemes = choose_form(reading, after)
    first = len(phonemes) - len(phonemes.lstrip(PRIMARY + SECONDARY))
    # After a pause or a nasal the stop stays hard: un banco has b.
    if before and before[-1] not in "mnŋ" and phonemes[first : first + 1] in SOFT:
        phonemes = phonemes[:first] + SOFT[phonemes[first]] + phonemes[first + 1 :]
    following = after.lstrip(PRIMARY + SECONDARY)
    # A final n takes the place of the next consonant: em paɾˈis, eŋ ɡˈato. Of f only fl and fr have
    # that effect.
    if phonemes.endswith("n") and following:
        if following[0] in "pb" or (following[0] == "f" and following[1:2] in ("l", "ɾ")):
            return phonemes[:-1] + "m"
        return phonemes[:-1] + ("ŋ" if following[0] == "ɡ" else "n")
    return (
        phonemes[:-1] + "ð"
        if phonemes.endswith("d") and following[:1] in set("aeiouɛAIWO")
        else phonemes
    )
