"""Portuguese of Brazil: numbers, the grammar of the normalizer, and the forms of words beside one
another.

portuguese(1981)  # "mil novecentos e oitenta e um"
joined("ˈisʊ", "", "ˈɐ̃ŋʧys")  # "ˈisw"
"""

import re

from kokoro_g2p.alphabet import PRIMARY, SECONDARY
from kokoro_g2p.languages.grammar import build_grammar, read_words
from kokoro_g2p.languages.language_normalizer import Normalizer
from kokoro_g2p.languages.scan import Scan
from kokoro_g2p.word_lists import parse_pairs, parse_set

PT = read_words("portuguese")
SIZES = (
    (10**12, "trilhão", "trilhões"),
    (10**9, "bilhão", "bilhões"),
    (10**6, "milhão", "milhões"),
)
# Endings of feminine nouns, for uma and duas: casas, canções, cidade, viagem, televisão.
FEMININE = re.compile(r"(?:as?|ções|ção|dades?|agens?|agem|sões|são)$")
# Masculine nouns in -a, among them the unit: um problema, duzentos gramas.
MASCULINE = parse_set(
    "dia dias mapa mapas problema problemas programa programas sistema sistemas gramas grama"
)
FEMININES = parse_set(PT["feminine"])
ELIDED = parse_pairs("d:d l:l m:m n:n s:s")
# D. Pedro; D. Maria and D. Inês are ladies
DOM = re.compile(r" (?!\w*a\b|Inês|Isabel|Beatriz|Leonor|Carlot)[A-ZÀ-Þ]")
PHONE = re.compile(
    r"(?:\+\d{2,3} ?)?(?:\(\d{2}\) ?|\b\d{2} (?=9?\d{4}-))?"
    r"(?![12]\d{3}-[12]\d{3}\b)\d{4,5}-\d{4}(?!\d)"  # no years
)
# Before voiced consonants and before vowels a final s is z: mais de, mais alto.
VOICED, SOUNDED = frozenset("bdɡvzʒmnlrɾɲʎʤjwx"), frozenset("aeiouyæɐəɛɪɔʊAIOWYãõũĩẽ")


def portuguese(number: int, feminine: bool = False) -> str:
    """A whole number from 0 to below 10^15. `feminine`: what is counted is."""
    for size, one, several in SIZES:
        if number >= size:
            count, rest = divmod(number, size)
            head = f"{portuguese(count)} {one if count == 1 else several}"
            return f"{head}{_joint(rest)}{portuguese(rest, feminine)}" if rest else head
    if number >= 1000:
        count, rest = divmod(number, 1000)
        # Mil stands without its one, and its count agrees: duas mil pessoas.
        head = "mil" if count == 1 else f"{portuguese(count, feminine)} mil"
        return f"{head}{_joint(rest)}{portuguese(rest, feminine)}" if rest else head
    # A hundred alone is cem; with a rest it is cento e um.
    if number == 100:
        return "cem"
    if number > 100:
        head, rest = PT["hundreds"][number // 100], number % 100
        head = head[:-2] + "as" if feminine and number >= 200 else head
        return f"{head} e {portuguese(rest, feminine)}" if rest else head
    if number < 20:
        # Among the ones only 1 and 2 have a feminine: vinte e duas casas.
        return (
            {1: "uma", 2: "duas"}.get(number, PT["ones"][number])
            if feminine
            else PT["ones"][number]
        )
    tens, rest = PT["tens"][number // 10], number % 10
    return f"{tens} e {portuguese(rest, feminine)}" if rest else tens


def _joint(rest: int) -> str:
    # Only a rest below a hundred or of round hundreds is joined by e: mil e duzentos, but mil
    # duzentos e cinquenta.
    return " e " if rest < 100 or (rest < 1000 and rest % 100 == 0) else " "


def portuguese_ordinal(number: int, feminine: bool = False) -> str:
    """First to 999th; beyond that the cardinal."""
    if not 0 < number < 1000:
        return portuguese(number, feminine)
    parts = (
        PT["hundredths"][number // 100],
        PT["tenths"][number // 10 % 10],
        PT["ordinals"][number % 10],
    )
    # The tables write _ where a digit is zero and nothing is said.
    spoken = " ".join(part for part in parts if part != "_")
    # All parts of an ordinal agree: vigésima primeira.
    return re.sub(r"o\b", "a", spoken) if feminine else spoken


def _cardinal(number: int, following: str) -> str:
    following = following.lower()
    return portuguese(
        number,
        following not in MASCULINE and (following in FEMININES or bool(FEMININE.search(following))),
    )


def _roman(value: int, before: str) -> str:
    """Centuries and rulers are ordinals up to ten."""
    ordered = value <= 10 and (before[:1].isupper() or before.lower() in ("século", *FEMININES))
    return portuguese_ordinal(value, before.lower() in FEMININES) if ordered else portuguese(value)


def _clock(hour: int, minute: int) -> str:
    hours = f"{portuguese(hour, True)} hora{'s' * (hour != 1)}"
    return hours + (f" e {portuguese(minute)} minuto{'s' * (minute != 1)}" if minute else "")


PORTUGUESE = build_grammar(
    PT,
    cardinal=_cardinal,
    ordinal=portuguese_ordinal,
    date=lambda day, month, year: " de ".join(
        filter(None, ("primeiro" if day == 1 else portuguese(day), month, year))
    ),
    clock=_clock,
    roman_ordinal=_roman,
)


class PortugueseNormalizer(Normalizer):
    """Spanish's and Italian's, with words of several parts and 14h30."""

    # Hyphens join the parts of one word: guarda-chuva.
    word = Normalizer.word.replace("'", "['-]")
    # Times as 14h30, 14:30h or 14:30:00, but not the beginning of a longer number.
    clock = r"\b(?:[01]?\d|2[0-4])(?: ?h ?|:)[0-5]\d(?::[0-5]\d)?(?:min\b| ?h\b)?(?!\d|[,.]\d)"

    def expand_short(self, scan: Scan, match: "re.Match[str]", words: str) -> str:
        """Dona Maria, but Dom Pedro."""
        return "dom" if words == "dona" and DOM.match(scan.text, match.end()) else words

    def _read_phone(self, scan: Scan, place: int) -> int:
        phone = PHONE.match(scan.text, place)
        # Digits right behind a letter or another digit are part of a code.
        if phone is None or (scan.text[place - 1 : place].isalnum() and place):
            return place
        groups = re.findall(r"\d+", phone[0])
        spoken = " , ".join(map(self.grammar.read_digits, groups))
        return scan.say(spoken, place, phone.end())


def joined(reading: str, before: str, after: str) -> str:
    """The form of a reading, END/INSIDE or one for both, between its neighbours ("" at a pause): s,
    r and last weak vowels.
    """
    end, _, inside = reading.partition("/")
    if not after:
        return end
    form = inside or end
    following = after.lstrip(PRIMARY + SECONDARY)
    last = form[-1:]
    vowel = following[:1] in SOUNDED
    # A final s takes its voice from the next sound: os dias has z, os carros s.
    if last == "s":
        return form[:-1] + ("z" if vowel or following[:1] in VOICED else "s")
    # Nothing else changes before a consonant, nor where two vowels end the word.
    if not vowel or form[-2:-1] in SOUNDED and last != "r":
        return form
    # The article o before a vowel is u, but it stays weak before another o.
    if form == "ʊ":
        return form if following[0] in "oɔ" else "u"
    # A last vowel is weak in a word with a main stress; in one without it only y is.
    weak = PRIMARY in form or (last == "y" and SECONDARY not in form)
    # Weak last vowels before a vowel: o becomes w (isso é), e becomes j, and a is lost in a long a.
    glide = {
        "ʊ": "w",
        "y": "i" if form[-2:-1] in "lrɾ" else "j",
        "æ": "" if following.startswith("aː") else "æ",
    }.get(last, last)
    # A final r between vowels is a tap: falar alto.
    return form[:-1] + ("ɾ" if last == "r" else glide if weak else last)
