"""Words built from others: stems and the sounds of -s, -ed, -ing and the clitics behind them;
strings said letter by letter.

    list(list_stems("tries"))        # [("s", "try"), ("s", "trie"), ("s", "tri")]
    with_ed("wˈAt", "us")       # "wˈATᵻd": the flap of American English
    spell("FBI", letters)       # "ˌɛfbˌiˈI": one word, the last letter carries the stress

Allophones: en.wiktionary.org/wiki/-s, /-ed and /-ing, as misaki/en.py has them (_s, _ed, _ing). The
order of the candidates is ours: spelling says which stem is meant (docs/g2p.md has the figures).
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping

from kokoro_g2p.alphabet import PRIMARY, SECONDARY, restress
from kokoro_g2p.number_words import ONES
from kokoro_g2p.result import GB, US, Dialect
from kokoro_g2p.word_lists import parse_pairs, parse_set

VOICELESS = frozenset("ptkfθsʃʧ")
SIBILANTS = frozenset("szʃʒʧʤ")
# American t between one of these and an unstressed vowel
FLAPS_AFTER = frozenset("AIOWYiuæɑəɛɪɹʊʌ")
_DOUBLED = re.compile(r"([bcdgklmnprstvxz])\1(?:ing|ed)$|ck(?:ing|ed)$")
# where a word without and one with silent e are both known: hoping is hope, breathing is breathe;
# bombed is bomb, not bombe
_SILENT_E = re.compile(r"(?:^|[^aeiou])[aeiouy][^aeiouwxy]$|th$")
_CLUSTER = re.compile(r"[^aeiouy]{2}$(?<!th)")
# unstressed words that lean on the one before: John'll, who've, it'd
_CLITICS = {
    US: parse_pairs("ll:əl ve:əv re:əɹ m:m em:əm"),
    GB: parse_pairs("ll:əl ve:əv re:ə m:m em:əm"),
}


def with_s(stem: str, dialect: Dialect) -> str:
    """The stem's phonemes with plural, possessive or third person -s: s, z or a syllable of its
    own.
    """
    last = stem[-1]
    if last in SIBILANTS:
        return stem + ("ɪz" if dialect == GB else "ᵻz")
    return stem + ("s" if last in VOICELESS else "z")


def with_ed(stem: str, dialect: Dialect) -> str:
    """The stem's phonemes with -ed: t, d, or a syllable behind d and t; American t becomes the flap
    T behind a vowel or ɹ.
    """
    last = stem[-1]
    if last == "d":
        return stem + ("ɪd" if dialect == GB else "ᵻd")
    if last == "t":
        if dialect == GB or len(stem) < 2:
            return stem + "ɪd"
        return (stem[:-1] + "Tᵻd") if stem[-2] in FLAPS_AFTER else stem + "ᵻd"
    return stem + ("t" if last in VOICELESS else "d")


def with_ing(stem: str, dialect: Dialect) -> str:
    """The stem's phonemes with -ing; American t becomes the flap T as before -ed."""
    if dialect == US and len(stem) > 1 and stem[-1] == "t" and stem[-2] in FLAPS_AFTER:
        return stem[:-1] + "Tɪŋ"
    if dialect == GB and stem[-1] in "əː" and stem[-2:] not in ("iː", "uː"):
        return stem + "ɹɪŋ"  # linking r: stirring, wandering
    return stem + "ɪŋ"


def is_clitic(text: str) -> bool:
    """Whether `text` is a contracted word that may stand behind an apostrophe: s, d, ll, ve, re, m,
    em.
    """
    return text.lower() in ("s", "d", *_CLITICS[US])


def with_clitic(stem: str, clitic: str, dialect: Dialect) -> str:
    """The stem's phonemes with a contracted word, one of `is_clitic`."""
    if clitic in ("s", "S"):
        return with_s(stem, dialect)
    if clitic in ("d", "D"):
        return stem + (("ɪd" if dialect == GB else "ᵻd") if stem[-1] in "td" else "d")
    return stem + _CLITICS[dialect][clitic.lower()]


SUFFIXES: dict[str, Callable[[str, Dialect], str]] = {"s": with_s, "ed": with_ed, "ing": with_ing}


def list_stems(word: str) -> Iterator[tuple[str, str]]:
    """(suffix, stem) in the order to try them: -s before -ed before -ing, the plain stem before the
    restored one.
    """
    yield from (("s", stem) for stem in _list_s_stems(word))
    yield from (("ed", stem) for stem in _list_ed_stems(word))
    yield from (("ing", stem) for stem in _list_ing_stems(word))


def _list_s_stems(word: str) -> Iterator[str]:
    if len(word) < 3 or not word.endswith("s"):
        return
    # -ies is mostly -y, but short words keep their ie: ties, pies.
    if len(word) > 4 and word.endswith("ies"):
        yield word[:-3] + "y"
    # Not a plural: class, boss
    if not word.endswith("ss"):
        yield word[:-1]
    if len(word) > 4 and word.endswith("es"):
        yield word[:-2]


def _list_ed_stems(word: str) -> Iterator[str]:
    if len(word) < 4 or not word.endswith("ed"):
        return
    if word.endswith("ied"):
        yield word[:-3] + "y"
    # Words in -eed have a stem in -ee only: agreed.
    plain = len(word) > 4 and not word.endswith("eed")
    # Behind two consonants a silent e is rare, so that the bare stem goes first: bombed.
    if plain and _CLUSTER.search(word[:-2]):
        yield word[:-2]
    yield word[:-1]
    if plain:
        yield word[:-2]
    # stopped is stop: the consonant was doubled before the ending.
    if plain and _DOUBLED.search(word):
        yield word[:-3]


def _list_ing_stems(word: str) -> Iterator[str]:
    if len(word) < 5 or not word.endswith("ing"):
        return
    stem = word[:-3]
    # severing, not severe
    if _SILENT_E.search(stem) and not (len(stem) > 4 and stem.endswith("er")):
        yield stem + "e"
    if len(word) > 5:
        yield stem
    yield stem + "e"
    if len(word) > 5 and _DOUBLED.search(word):
        yield stem[:-1]


# Stems that go last: rarer in wordfreq than their neighbour with or without an e, and past tenses
_RARER = parse_set(
    "ach bast bing corps daube emerg fixe hamm hast past paye poss puls rang revers rout tens ting"
    " toile travers vy"
)
_SOUNDED_E = re.compile("[^aeiouy]e$")


def rank_stem(stem: str, phonemes: str) -> tuple[bool, bool]:
    """Sort key of a stem among the candidates of one word: the rarer one is last, before it a loan
    word or name whose last e is said (Haile, Toure).
    """
    sounded = _SOUNDED_E.search(stem) is not None and phonemes[-1:] in ("A", "i", "ə")
    return stem.lower() in _RARER, sounded


def has_wrong_ending(word: str, stem: str, phonemes: str) -> bool:
    """Whether `word` adds -es to a stem that wants -s: only sibilants and o have -es."""
    return word == f"{stem}es" and stem[-1] != "o" and phonemes[-1:] not in SIBILANTS


# letters said in one breath; a longer string gets a space, and a stressed letter, every so often
GROUP = 8
DIGIT_NAMES = ONES[:10]


def fold(text: str) -> str:
    """`text` without accents and ligatures, as far as Unicode decomposes it: `café` to `cafe`;
    letters such as ø and ß by table.
    """
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text.translate(_PLAIN))
    return "".join(character for character in decomposed if not unicodedata.combining(character))


_PLAIN = str.maketrans(
    parse_pairs(
        "ø:o Ø:O ß:ss æ:ae Æ:AE œ:oe Œ:OE ð:th Ð:Th þ:th Þ:Th đ:d Đ:D ł:l Ł:L ı:i ħ:h Ħ:H"
        " ŋ:ng Ŋ:Ng ’:' ‘:' ʼ:'"
    )
)


def spell(text: str, names: Mapping[str, str]) -> str:
    """Letter names joined as misaki joins them (G2P.get_NNP): secondary stress but on the last; ""
    when no character has a name.

    `names`: upper-case letter or digit to its phonemes. Characters without a name are skipped; the
    caller counts them.
    """
    letters = [names[character] for character in fold(text).upper() if character in names]
    groups = [letters[start : start + GROUP] for start in range(0, len(letters), GROUP)]
    return " ".join(_join_letters(group) for group in groups)


def _join_letters(letters: list[str]) -> str:
    # Every name has a secondary stress, and the last one becomes primary.
    before, mark, last = "".join(restress(name, 0) for name in letters).rpartition(SECONDARY)
    return before + (PRIMARY if mark else "") + last
