"""Hindi: Devanagari to Kokoro's symbols by rule, as espeak-ng reads it, on whose answers the voices
were trained; numbers in Indian groups.

    read_word("भारतीय")        # "bʰˌaːɾtˈiːj"
    cardinal("12,34,567")   # "बारह लाख चौंतीस हज़ार पाँच सौ सड़सठ"

A word is cut into syllables; the last heaviest one before the final bears the stress (a long vowel
and a cluster behind it weigh one each); then short a's that nobody says are left out. Words that
this reads otherwise than espeak-ng stand in data/hindi.txt.gz (training/hindi_words.py).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kokoro_g2p.alphabet import NASAL, PRIMARY, SECONDARY
from kokoro_g2p.bundled import read_json
from kokoro_g2p.languages.rows import Numerals
from kokoro_g2p.word_lists import parse_pairs, parse_set

TABLES: Mapping[str, Any] = read_json("hindi.json")
CONSONANTS, DOTTED, SIGNS, VOWELS, NASALS = (
    parse_pairs(TABLES[name]) for name in ("consonants", "dotted", "signs", "vowels", "nasals")
)
SAID, UNITS, MONEY, CENTS = (TABLES[name] for name in ("signs_said", "units", "money", "cents"))
NUMBERS: tuple[str, ...] = tuple(TABLES["numbers"].split())
MONTHS: tuple[str, ...] = tuple(TABLES["months"].split())
# Letters and signs of Devanagari, without the dandas and digits between them.
LETTERS = "\u0900-\u0963\u0970-\u097f"
VIRAMA, DOT, ANUSVARA, CANDRABINDU, VISARGA = "्", "़", "ं", "ँ", "ः"
# one code for a letter and its dot, as two
COMPOSED = {0x0958 + place: letter + DOT for place, letter in enumerate("कखगजडढफय")}
INHERENT, INITIAL = "ə", "A"  # the a that no sign writes, and that of अ
LONG = parse_set("aː iː uː eː ɛː oː ɔː")
SONORANT = frozenset("mnɳjʋlsʃʂhɾrzf")  # r is a trill before these
CHANGES = (
    # सत्य is sˈʌtːjə: k, p, t and c are long before j.
    (re.compile("([kptc])j"), r"\1ːj"),
    # बच्चा is bˈʌcːaː: a doubled stop is a long one.
    (re.compile("([tdckpɟɡ])\\1(?!ʰ)"), r"\1ː"),
    # बुद्ध is bˈʊdʰː: a doubled dental is aspirated before its length.
    (re.compile("([td])\\1ʰ"), r"\1ʰː"),
    # अच्छा is ˈʌcʰcʰaː: other doubled stops are aspirated twice.
    (re.compile("([cʈɖɟ])\\1ʰ"), r"\1ʰ\1ʰ"),
)


@dataclass
class Syllable:
    """Consonants, the vowel behind them, and its nasal or breathed ending as it is written."""

    onset: list[str]
    vowel: str
    ending: str = ""
    stress: str = ""
    silent: bool = False  # its short a is left out

    @property
    def is_short_a(self) -> bool:
        """Whether its vowel is a short a."""
        return self.vowel in (INHERENT, INITIAL)


def parse_syllables(word: str) -> tuple[list[Syllable], list[str]]:
    """The syllables of a word, each a open, and the consonants behind the last one."""
    plain = word.translate(COMPOSED)
    syllables: list[Syllable] = []
    onset: list[str] = []
    place = 0
    while place < len(plain):
        letter, following = plain[place], plain[place + 1 : place + 2]
        vowel = ""
        if letter in CONSONANTS:
            sound = CONSONANTS[letter]
            # A dot below makes another consonant, mostly of loan words: ज is ɟ, ज़ is z.
            if following == DOT:
                sound = DOTTED.get(letter, sound)
                place += 1
                following = plain[place + 1 : place + 2]
            # क्ष is kʃ, though ष alone is retroflex.
            if onset and (onset[-1], sound) == ("k", "ʂ"):
                sound = "ʃ"
            if onset and (onset[-1], sound) == ("ɟ", "ɲ"):  # ज्ञ
                onset[-1], sound = "ɡ", "j"
            onset.append(sound)
            # A virama takes the vowel away, so that the next consonant joins this one.
            if following == VIRAMA:
                place += 2
                continue
            # A consonant without a sign bears the inherent short a.
            vowel = SIGNS.get(following, INHERENT)
            place += following in SIGNS
        elif letter in VOWELS:
            vowel = VOWELS[letter]
        elif letter in SIGNS:
            vowel = SIGNS[letter]
        # Nasal and breathed endings belong to the syllable that is already open.
        elif syllables and letter in (ANUSVARA, CANDRABINDU, VISARGA):
            syllables[-1].ending = letter
        if vowel:
            # The vowel ऋ is a consonant and a vowel: ऋषि is ɾˈɪʂɪ.
            if vowel == "ɾɪ":
                onset.append("ɾ")
                vowel = "ɪ"
            syllables.append(Syllable(onset, vowel))
            onset = []
        place += 1
    return syllables, onset


def find_next_onset(syllables: list[Syllable], place: int, coda: list[str]) -> list[str]:
    """The consonants behind a syllable's vowel."""
    return syllables[place + 1].onset if place + 1 < len(syllables) else coda


def weigh_syllable(syllables: list[Syllable], place: int, coda: list[str]) -> int:
    """How heavy a syllable is: one for a long vowel, one for a cluster behind it."""
    one = syllables[place]
    after = find_next_onset(syllables, place, coda)
    is_last = place + 1 == len(syllables)
    # An anusvara behind a short vowel closes its syllable like a consonant.
    is_nasal = one.ending == ANUSVARA and one.vowel not in LONG and bool(after)
    # One consonant closes the last syllable; inside a word it opens the next one.
    is_closed = bool(after) if is_last else len(after) > 1 or is_nasal
    return (one.vowel in LONG) + is_closed


def mark_stress(syllables: list[Syllable], coda: list[str]) -> None:
    """Mark the last heaviest syllable before the final one, the first where all are light; and
    every other one whose neighbours have no mark.
    """
    weights = [weigh_syllable(syllables, place, coda) for place in range(len(syllables))]
    # Of equally heavy syllables the later one wins; the last one is judged apart.
    heaviest, chosen = -1, 0
    for place in range(len(syllables) - 1):
        if weights[place] >= heaviest:
            heaviest, chosen = weights[place], place
    # The last syllable has the stress only if it alone is both long and closed.
    if len(syllables) > 1 and weights[-1] == 2 and heaviest < 2:
        chosen = len(syllables) - 1
    elif heaviest <= 0:
        chosen = 0
    syllables[chosen].stress = PRIMARY
    # Marks set here count for the next syllable, so that every other one gets one.
    for place, one in enumerate(syllables):
        is_free = place == 0 or not syllables[place - 1].stress
        following = syllables[place + 1].stress if place + 1 < len(syllables) else ""
        if not one.stress and is_free and not following:
            one.stress = SECONDARY


def mark_silent(syllables: list[Syllable], coda: list[str]) -> None:
    """Leave out short a's: inside a word between a vowel and a syllable with another vowel, and at
    its end unless it stands behind some clusters.
    """
    # The first vowel is always said; the last one is judged below.
    for place in range(1, len(syllables) - 1):
        one, before, after = syllables[place], syllables[place - 1], syllables[place + 1]
        sounds = "".join(one.onset)
        is_single = len(one.onset) == 1 or sounds in ("tt", "ddʰ")
        # a nasal and a consonant are a cluster too
        is_behind_nasal = before.ending == CANDRABINDU or (
            before.ending == ANUSVARA and before.is_short_a
        )
        # लड़का is lˈʌr.kˌaː: its middle a is silent, since the vowel behind it is another. That of
        # पहला is said, for it stands behind an h.
        one.silent = (
            one.vowel == INHERENT
            and one.ending in ("", ANUSVARA)
            and is_single
            and sounds[-1] != "h"
            and one.stress != PRIMARY
            and after.vowel != INHERENT
            and not before.silent
            and not is_behind_nasal
        )
    # A final a is silent (कमल is kˈʌməl) but for some clusters: मित्र is mˈɪtɾə.
    last = syllables[-1]
    if len(syllables) > 1 and last.vowel == INHERENT and not last.ending and not coda:
        cluster = last.onset[-2:]
        is_said = len(cluster) == 2 and (
            cluster[1] in ("j", "ɾ", "ɳ")
            or (cluster[1] == "n" and cluster[0] != "ɾ")
            or (cluster[1] == "m" and cluster[0] != "ɾ")
            or cluster == ["ɾ", "l"]
        )
        last.silent = not is_said


@lru_cache(maxsize=4096)
def read_word(word: str) -> str:
    """Kokoro's symbols for a word in Devanagari; empty for one without a letter."""
    syllables, coda = parse_syllables(word)
    # Consonants with viramas alone are left as a coda.
    if not syllables:
        return "".join(coda)
    mark_stress(syllables, coda)
    mark_silent(syllables, coda)
    said = ""
    for place in range(len(syllables)):
        said += join_onset(syllables[place].onset, place > 0)
        said += join_rime(syllables, place, coda)
    return said + "".join(coda)


def join_onset(onset: list[str], is_inside: bool) -> str:
    """Consonants as they are said together."""
    parts = [*onset]
    # कर्म is kˈʌrm: inside a word r is a trill before a sonorant.
    if is_inside and len(parts) > 1 and parts[0] == "ɾ" and parts[1][0] in SONORANT:
        parts[0] = "r"
    said = "".join(parts)
    for pattern, form in CHANGES:
        said = pattern.sub(form, said)
    return said


def join_rime(syllables: list[Syllable], place: int, coda: list[str]) -> str:
    """The stress, the vowel and what is nasal of a syllable."""
    one = syllables[place]
    after = find_next_onset(syllables, place, coda)
    is_last = place + 1 == len(syllables)
    vowel, mark = one.vowel, one.stress
    # A stressed short a is more open: कमल begins kˈʌ. A lone open syllable keeps its ə.
    if vowel == INHERENT and one.stress == PRIMARY and (len(syllables) > 1 or one.ending or coda):
        vowel = "ʌ"
    elif vowel == INITIAL:
        # अहमद is ˈɛhəmˌəd: a first stressed a is raised before h and another a.
        is_before_h = not is_last and after == ["h"] and syllables[place + 1].vowel == INHERENT
        is_open = place == 0 or one.stress == PRIMARY
        is_raised = is_before_h and place == 0 and one.stress == PRIMARY
        vowel = "ɛ" if is_raised else "ʌ" if is_open else "ə"
    # The vowel ऊ without a consonant before it is short.
    elif vowel == "uː" and not one.onset:
        vowel = "u"
    # A final or unstressed ī is short: हिंदी ends in i.
    elif vowel == "iː" and ((is_last and not coda) or not one.stress):
        vowel = "i"
    is_low = vowel in ("ʌ", "ə", "ɛ") and one.is_short_a
    nasal = "h" if one.ending == VISARGA else ""
    if one.ending in (ANUSVARA, CANDRABINDU):
        # A candrabindu writes a nasal vowel, an anusvara often a nasal consonant.
        is_written = one.ending == CANDRABINDU
        # A candrabindu before a consonant is n behind a short a, or where no consonant opens.
        if is_written and after and (is_low or not one.onset):
            nasal = "n"
        # An anusvara behind a short a is the nasal of the next consonant's place: ŋ, ɲ, ɳ, n, m.
        elif not is_written and (is_low or (vowel == "ʊ" and not one.onset and place > 0)):
            nasal = NASALS.get(after[0][0], "n") if after else "n"
        elif is_glide(syllables, place, after, is_written):
            return "j" if vowel == "eː" else "w"
        else:
            nasal = "n" if is_written and after else ""
            # Elsewhere the vowel itself is nasal, with the nasal mark on its plain quality: hˈĩdi.
            plain = {"ɪ": "i", "ʊ": "u"}.get(vowel[0], vowel[0])
            vowel = f"{plain}{NASAL}" + "ː" * (vowel == "eː")
    # A silent a leaves its nasal consonant.
    if one.silent:
        return nasal
    # Before a final य whose own a is silent, a short a is ɛ: विद्यालय.
    if one.is_short_a and not is_last and len(syllables) > 1 and place + 2 == len(syllables):
        following = syllables[place + 1]
        if following.silent and following.onset == ["j"] and vowel in ("ʌ", "ə"):
            # jay, vidyalay
            return f"{mark or SECONDARY}{'ʌɛ' if vowel == 'ʌ' else 'ɛ'}{nasal}"
    return f"{mark}{vowel}{nasal}"


def is_glide(syllables: list[Syllable], place: int, after: list[str], is_written: bool) -> bool:
    """Whether a nasal e or o behind a long a is a glide: शाखाओं."""
    one = syllables[place]
    follows = place > 0 and syllables[place - 1].vowel == "aː" and not one.onset and not after
    return follows and (one.vowel == "oː" or (one.vowel == "eː" and is_written))


# ---- numbers

LAKHS = (
    (10**11, "खरब"),
    (10**9, "अरब"),
    (10**7, "करोड़"),
    (10**5, "लाख"),
    (1000, "हज़ार"),
    (100, "सौ"),
)
LONGEST = 13  # digits


def cardinal(number: str) -> str:
    """A number as it is written, commas and decimals in it, in words."""
    whole, _, fraction = number.replace(",", "").partition(".")
    # A hundred alone is said without its one.
    if whole == "100" and not fraction:
        return "सौ"
    said = NUMERALS.read_digits(whole) if len(whole) > LONGEST else whole_number(int(whole))
    return f"{said} दशमलव {NUMERALS.read_digits(fraction)}" if fraction else said


def whole_number(number: int) -> str:
    """A whole number by lakh and crore."""
    if number < 100:
        return NUMBERS[number]
    for size, name in LAKHS:
        if number >= size:
            head = f"{whole_number(number // size)} {name}"
            return f"{head} {whole_number(number % size)}" if number % size else head
    return ""


def year(number: str) -> str:
    """A year: hundreds from 1100 to 1999."""
    value = int(number)
    # 1947 is said as nineteen hundred forty-seven, 2024 as a plain number.
    if 1100 <= value < 2000:
        rest = f" {NUMBERS[value % 100]}" if value % 100 else ""
        return f"{NUMBERS[value // 100]} सौ{rest}"
    return whole_number(value)


def ordinal(number: str, ending: str) -> str:
    """A rank with its ending: वाँ, वीं, वें; the first six have forms of their own."""
    return f"{whole_number(int(number))}{ending}"


def price(text: str) -> str:
    """An amount with its sign before it; two decimals are the smaller coin."""
    sign = re.match(r"[^\d ]+", text)
    name = MONEY[sign[0]] if sign else ""
    amount = re.sub(r"^[^\d]+", "", text)
    whole, _, fraction = amount.partition(".")
    # ₹10.50 has coins; with other decimals the amount is a decimal number.
    if len(fraction) != 2 or name not in CENTS:
        return f"{cardinal(amount)} {name}"
    cents = f" {whole_number(int(fraction))} {CENTS[name]}" if int(fraction) else ""
    return f"{cardinal(whole)} {name}{cents}"


NUMERALS = Numerals(cardinal, NUMBERS, " दशमलव ", SAID, " ")
VERBALIZERS: Mapping[str, Callable[[str], str]] = NUMERALS.list_verbalizers() | {
    "month": lambda number: MONTHS[int(number) - 1],
    "year": year,
    "masculine": lambda number: ordinal(number, "वाँ"),
    "feminine": lambda number: ordinal(number, "वीं"),
    "oblique": lambda number: ordinal(number, "वें"),
    "price": price,
    "unit": lambda unit: UNITS[unit.strip()],
    "money": lambda sign: MONEY[sign.strip()],
    "symbol": lambda sign: SAID[sign],
}
ROW_BEGINS = r"[-−+\d$¥€£₹=%×÷RUIर]"
