"""Characters in, sounds out: the alphabets of the neural models, and the map from misaki's symbols to Kokoro v1.0's.

    ids = encode("o'clock")       # (tag, letters ...); the tag asks for an answer like the gold list's
    sounds("həlˈO")                       # ("h", "ə", "l", "ˈO")

A vowel and its stress are one sound, so the model cannot put a mark anywhere but directly before a vowel.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property

from g2p.result import GB, US, Dialect

PADDING = 0
LETTERS = "abcdefghijklmnopqrstuvwxyz'-"
TAG_COUNT = 2
LETTER_ID = {letter: 1 + TAG_COUNT + place for place, letter in enumerate(LETTERS)}
SYMBOLS = 1 + TAG_COUNT + len(LETTERS)
MAX_LETTERS = 31  # with the tag 32 symbols
FRAMES = 2  # of CTC, for each symbol
VOWEL_LETTER, CONSONANT_RUN = re.compile("[aeiouy]"), re.compile("[bcdfghjklmnpqrstvwxz]+")
MAX_RUN, MAX_ONSET = 6, 4

PRIMARY, SECONDARY = "ˈ", "ˌ"
VOWELS = "AIOWYiuæɑɔəɛɜɪʊʌᵊᵻ"
CONSONANTS = "bdfhjklmnpstvwzðŋɡɹʃʒʤʧθT"
BLANK = 0
LONG = "ː"  # of a British vowel; one sound with it


@dataclass(frozen=True)
class Alphabet:
    """What one dialect's model answers with: consonants, and vowels with their length, each without stress and with either mark."""

    consonants: tuple[str, ...]
    vowels: tuple[str, ...]
    tags: tuple[str, str]  # which list an answer shall resemble; the first symbol of every word

    @cached_property
    def sounds(self) -> tuple[str, ...]:
        """The outputs in order; the first is the CTC blank."""
        return ("", *self.consonants, *self.vowels, *(PRIMARY + v for v in self.vowels), *(SECONDARY + v for v in self.vowels))

    @cached_property
    def ids(self) -> dict[str, int]:
        """Sound to its place."""
        return {sound: place for place, sound in enumerate(self.sounds)}

    def cut(self, phonemes: str) -> tuple[str, ...] | None:
        """Kokoro phonemes as sounds; None when a symbol is unknown or a mark stands before no vowel."""
        found = []
        for match in _SOUND.finditer(phonemes):
            if match[0] not in self.ids:
                return None
            found.append(match[0])
        return tuple(found) or None


_SOUND = re.compile(f"[{PRIMARY}{SECONDARY}]?[^{PRIMARY}{SECONDARY}{LONG}]{LONG}?|.")
AMERICAN = Alphabet(tuple(CONSONANTS), tuple(VOWELS), ("us_gold", "us_silver"))
BRITISH = Alphabet(
    tuple(CONSONANTS.removesuffix("T")), (*"AIQWYaiuɒɛɪʊʌəᵊ", "iː", "uː", "ɑː", "ɔː", "ɜː", "ɛː", "əː"), ("gb_gold", "gb_silver")
)
ALPHABETS: dict[Dialect, Alphabet] = {US: AMERICAN, GB: BRITISH}
SOUNDS, SOUND_ID, TAGS = AMERICAN.sounds, AMERICAN.ids, AMERICAN.tags
KOKORO = str.maketrans({"ɾ": "T", "ʔ": "t"})  # what Kokoro v1.0 was trained on, misaki/en.py (`G2P.__call__`)
WITHOUT_STRESS = str.maketrans("", "", PRIMARY + SECONDARY)


def folded(word: str) -> str:
    """Lower case, accents off, typographic apostrophes and hyphens made plain: what the model reads."""
    plain = unicodedata.normalize("NFKD", word.replace("’", "'").replace("‐", "-").replace("‑", "-"))
    return "".join(c for c in plain.casefold() if not unicodedata.combining(c))


def readable(word: str) -> bool:
    """Whether the model has a symbol for every character of `word`, and room for it."""
    letters = folded(word)
    return 0 < len(letters) <= MAX_LETTERS and all(letter in LETTER_ID for letter in letters)


def speakable(word: str) -> bool:
    """Whether a `readable` word can be said at all; otherwise it is spelled out.

    It has a vowel letter, and no more consonant letters in a row, or at its beginning, than any of the 183,000 words of misaki's two
    American lists that has a vowel letter (`borschts`, `catchphrase`: 6; `Schwarzwald`: 4).
    """
    letters = folded(word)
    longest = max(map(len, CONSONANT_RUN.findall(letters)), default=0)
    first = CONSONANT_RUN.match(letters)
    return readable(word) and VOWEL_LETTER.search(letters) is not None and longest <= MAX_RUN and (not first or len(first[0]) <= MAX_ONSET)


def encode(word: str, tag: int = 0) -> tuple[int, ...]:
    """Ids of a `readable` word, the tag (its place in Alphabet.tags) first. Raises KeyError for a character outside LETTERS."""
    return (1 + tag, *(LETTER_ID[letter] for letter in folded(word)))


def to_kokoro(phonemes: str) -> str:
    """misaki's symbols as Kokoro v1.0 wants them: flap and glottal stop written T and t."""
    return phonemes.translate(KOKORO)


def without_stress(phonemes: str) -> str:
    """The phonemes with both marks taken out."""
    return phonemes.translate(WITHOUT_STRESS)


def sounds(phonemes: str) -> tuple[str, ...] | None:
    """American phonemes cut into SOUNDS; None when a symbol is unknown or a mark stands before no vowel."""
    return AMERICAN.cut(phonemes)
