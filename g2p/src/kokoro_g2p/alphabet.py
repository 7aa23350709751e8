"""Kokoro's phoneme symbols and what is done with them: sounds for the neural models, stress moved
up or down, edits counted.

    # (tag, letters ...); the tag asks for an answer like the gold list's
    ids = encode("o'clock")
    AMERICAN.cut("həlˈO")         # ("h", "ə", "l", "ˈO"): a vowel and its stress are one sound
    restress("fɔɹ", 0.5)          # "fˌɔɹ": a capitalised function word
    edit_distance("kˈæt", "kˈAt")     # 1

Stress levels are misaki's, so `[word](-1)` means what its users know: -2 no stress at all, -1 one
step down, 0 and -0.5 no primary, 0.5 and 1 secondary where there was none (1 also lifts a secondary
to primary), 2 primary in any case.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from kokoro_g2p.errors import InputError
from kokoro_g2p.result import GB, US, Dialect, Language

MAX_PHONEMES = 510  # of one call: the encoder has 512 positions, a boundary stands at both ends
PADDING = 0
LETTERS = "abcdefghijklmnopqrstuvwxyz'-"
TAG_COUNT = 2
SYMBOL_COUNT = 1 + TAG_COUNT + len(LETTERS)
MAX_LETTERS = 31  # with the tag 32 symbols
FRAMES = 2  # of CTC, for each symbol
VOWEL_LETTER, CONSONANT_RUN = re.compile("[aeiouy]"), re.compile("[bcdfghjklmnpqrstvwxz]+")
MAX_RUN, MAX_ONSET = 6, 4

PRIMARY, SECONDARY = "ˈ", "ˌ"
AMERICAN_VOWELS = "AIOWYiuæɑɔəɛɜɪʊʌᵊᵻ"
AMERICAN_CONSONANTS = "bdfhjklmnpstvwzðŋɡɹʃʒʤʧθT"
BLANK = 0
LONG, NASAL = "ː", "\u0303"  # one sound with what they stand behind


@dataclass(frozen=True)
class Alphabet:
    """The symbols that one model reads and answers with: `sounds` in the order of its outputs, the
    first the CTC blank; `vowels` among them, without stress.
    """

    sounds: tuple[str, ...]
    vowels: tuple[str, ...]
    # the first symbol of every word: which list an answer shall resemble, or its language
    tags: tuple[str, ...]
    letters: str = LETTERS
    # Alike in every alphabet: the symbol behind a short word, the sound that CTC leaves out, the
    # frames of each symbol, and the letters of the longest word.
    padding: ClassVar[int] = PADDING
    blank: ClassVar[int] = BLANK
    frames: ClassVar[int] = FRAMES
    max_letters: ClassVar[int] = MAX_LETTERS

    @cached_property
    def ids(self) -> dict[str, int]:
        """Sound to its place."""
        return {sound: place for place, sound in enumerate(self.sounds)}

    @cached_property
    def letter_ids(self) -> dict[str, int]:
        """Letter to its symbol; padding and tags stand before."""
        return {one: 1 + len(self.tags) + place for place, one in enumerate(self.letters)}

    def cut(self, phonemes: str) -> tuple[str, ...] | None:
        """Kokoro phonemes as sounds; None when a symbol is unknown or a mark stands before no
        vowel.
        """
        sounds = SOUND.findall(phonemes)
        return tuple(sounds) if sounds and self.ids.keys() >= set(sounds) else None

    def can_read(self, word: str) -> bool:
        """Whether the model has a symbol for every character of `word`, and room for them."""
        return 0 < len(word) <= MAX_LETTERS and all(letter in self.letter_ids for letter in word)

    def encode(self, word: str, tag: int = 0) -> tuple[int, ...]:
        """Ids of a word that it can read, the place of its tag first. KeyError for others."""
        return (1 + tag, *(self.letter_ids[letter] for letter in word))


def list_sounds(consonants: Sequence[str], vowels: Sequence[str]) -> tuple[str, ...]:
    """Return the sounds of an English alphabet: vowels with their length, each without stress and
    with either mark.
    """
    marked = (mark + vowel for mark in (PRIMARY, SECONDARY) for vowel in vowels)
    return ("", *consonants, *vowels, *marked)


# with its stress, length and nasality
SOUND = re.compile(f"[{PRIMARY}{SECONDARY}]?[^{PRIMARY}{SECONDARY}{LONG}{NASAL}][{LONG}{NASAL}]*|.")
BRITISH_VOWELS = (*"AIQWYaiuɒɛɪʊʌəᵊ", "iː", "uː", "ɑː", "ɔː", "ɜː", "ɛː", "əː")
AMERICAN = Alphabet(
    list_sounds(AMERICAN_CONSONANTS, AMERICAN_VOWELS),
    tuple(AMERICAN_VOWELS),
    ("us_gold", "us_silver"),
)
BRITISH = Alphabet(
    list_sounds(AMERICAN_CONSONANTS.removesuffix("T"), BRITISH_VOWELS),
    BRITISH_VOWELS,
    ("gb_gold", "gb_silver"),
)
ALPHABETS: dict[Dialect, Alphabet] = {US: AMERICAN, GB: BRITISH}
SOUNDS, TAGS = AMERICAN.sounds, AMERICAN.tags
# what Kokoro v1.0 was trained on, misaki/en.py (`G2P.__call__`)
KOKORO = str.maketrans({"ɾ": "T", "ʔ": "t"})
WITHOUT_STRESS = str.maketrans("", "", PRIMARY + SECONDARY)


def fold_word(word: str) -> str:
    """Lower case, accents off, typographic apostrophes and hyphens made plain: what the model
    reads.
    """
    # NFKD makes accents characters of their own, which the next line drops.
    plain = unicodedata.normalize(
        "NFKD", word.replace("’", "'").replace("‐", "-").replace("‑", "-")
    )
    return "".join(c for c in plain.casefold() if not unicodedata.combining(c))


def is_readable(word: str) -> bool:
    """Whether the model has a symbol for every character of `word`, and room for them."""
    return AMERICAN.can_read(fold_word(word))


def is_pronounceable(word: str) -> bool:
    """Whether a word that the model reads can be pronounced; otherwise it is spelled out.

    It has a vowel letter, and no more consonant letters in a row, or at its beginning, than any of
    the 183,000 words of misaki's two American lists that has a vowel letter (`borschts`,
    `catchphrase`: 6; `Schwarzwald`: 4).
    """
    # Runs of consonant letters, the longest and the first
    letters = fold_word(word)
    longest = max(map(len, CONSONANT_RUN.findall(letters)), default=0)
    first = CONSONANT_RUN.match(letters)
    return (
        is_readable(word)
        and VOWEL_LETTER.search(letters) is not None
        and longest <= MAX_RUN
        and (not first or len(first[0]) <= MAX_ONSET)
    )


def encode(word: str, tag: int = 0) -> tuple[int, ...]:
    """Ids of a readable word, the tag (its place in Alphabet.tags) first. Raises KeyError for a
    character outside LETTERS.
    """
    return AMERICAN.encode(fold_word(word), tag)


def to_kokoro(phonemes: str) -> str:
    """misaki's symbols in Kokoro v1.0's vocabulary: flap and glottal stop written T and t."""
    return phonemes.translate(KOKORO)


def without_stress(phonemes: str) -> str:
    """The phonemes with both marks taken out."""
    return phonemes.translate(WITHOUT_STRESS)


# Keys of `vocab` in Kokoro-82M's config.json, in its order; a test compares.
SYMBOLS = (
    ';:,.!?—…"()“”'
    " ̃ʣʥʦʨᵝꭧAIOQSTWYᵊabcdefhijklmnopqrstuvwxyzɑɐɒæβɔɕçɖðʤəɚɛɜɟɡɥɨɪʝɯɰŋɳɲɴøɸθœ"
    "ɹɾɻʁɽʂʃʈʧʊʋʌɣɤχʎʒʔˈˌːʰʲ↓→↗↘ᵻ"
)
KNOWN = frozenset(SYMBOLS)
VOWELS = frozenset("AIOQWYaeiouæɐɑɒɔəɛɜɪʊʌᵊᵻ")
DIPHTHONGS = frozenset("AIOQWY")
AFFRICATES = frozenset("ʤʧ")
PAUSES = frozenset(";:,.!?—…")  # quotes and brackets do not part words


def find_unknown_symbol(phonemes: str) -> str | None:
    """The first character outside Kokoro's vocabulary, or None."""
    return next((symbol for symbol in phonemes if symbol not in KNOWN), None)


def weight(phonemes: str) -> int:
    """misaki's length of a word: one for each symbol, two for diphthongs and affricates."""
    return sum(2 if symbol in DIPHTHONGS or symbol in AFFRICATES else 1 for symbol in phonemes)


def restress(phonemes: str, level: float | None) -> str:
    """`phonemes` at another stress level (module docstring); None leaves them. A word without a
    vowel cannot carry stress.
    """
    if level is None:
        return phonemes
    primary, secondary = PRIMARY in phonemes, SECONDARY in phonemes
    # The cases go from the lowest level up, each for what marks there are.
    if level < -1:
        return phonemes.replace(PRIMARY, "").replace(SECONDARY, "")
    if level == -1 or (level in (0, -0.5) and primary):
        return phonemes.replace(SECONDARY, "").replace(PRIMARY, SECONDARY)
    if level in (0, 0.5, 1) and not primary and not secondary:
        return _mark_first_vowel(phonemes, SECONDARY)
    if level >= 1 and not primary:
        return (
            phonemes.replace(SECONDARY, PRIMARY)
            if secondary
            else _mark_first_vowel(phonemes, PRIMARY)
        )
    return phonemes


def _mark_first_vowel(phonemes: str, mark: str) -> str:
    place = next((index for index, symbol in enumerate(phonemes) if symbol in VOWELS), None)
    return phonemes if place is None else phonemes[:place] + mark + phonemes[place:]


SPOKEN: dict[Language, str] = {
    US: "us a en-us en", GB: "gb b en-gb uk en-uk", "es": "es e es-es", "it": "it i it-it",
    "fr": "fr f fr-fr", "pt": "pt p pt-br", "zh": "zh z zh-cn cmn", "hi": "hi h hi-in",
    "ja": "ja j ja-jp",
}  # fmt: skip
# one letter is the first of a voice's name: af_heart, ef_dora
NAMES = {name: language for language, names in SPOKEN.items() for name in names.split()}
LANGUAGES_READ = tuple(SPOKEN)
LANGUAGES = ("en", "es", "it", "fr", "pt", "zh", "hi", "ja")
LIKE_BRITAIN = ("gb", "uk", "ie", "au", "nz", "in", "za")


def dialect_of(name: str) -> Language:
    """The dialect or language of a name, case and underscores ignored; of a BCP 47 tag (es-MX,
    en-AU) its language's.

    Raises InputError with the list for one that is unknown.
    """
    plain = name.lower().replace("_", "-") if isinstance(name, str) else ""
    regions = plain.split("-")[1:]
    language_name = NAMES.get(plain) or (find_language(plain) if regions else None)
    if language_name is None:
        raise InputError(
            f"there is no dialect or language {name!r}: one of {', '.join(NAMES)}, or a tag that"
            f" begins with {', '.join(LANGUAGES)}"
        )
    # the region of a tag may have a script before it and variants behind (en-GB-oxendict)
    is_british = any(region in LIKE_BRITAIN for region in regions)
    return GB if language_name == US and is_british else language_name


def find_language(tag: str) -> Language | None:
    """The language of a BCP 47 tag, of whatever region; None for one that is not read."""
    language = re.split("[-_]", tag.lower())[0]
    return NAMES[language] if language in LANGUAGES else None


def voice_language(voice: str) -> Language:
    """The language that a voice of Kokoro speaks, by its name: American where the name is of
    another kind.
    """
    return NAMES.get(voice[0], US) if voice[1:3] in ("f_", "m_") else US


def edit_distance(produced: Sequence[str], expected: Sequence[str]) -> int:
    """Fewest insertions, deletions and substitutions, each of cost 1 (Levenshtein 1966)."""
    row = list(range(len(expected) + 1))
    for i, symbol in enumerate(produced, start=1):
        # `before` is the cell above on the left, kept because the row is written over.
        before, row[0] = row[0], i
        for j, other in enumerate(expected, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (symbol != other))
    return row[-1]
