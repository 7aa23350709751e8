"""Characters in, sounds out: the two alphabets of the neural model, and the map from misaki's symbols to Kokoro v1.0's.

    ids = encode("o'clock")       # (tag, letters ...); the tag asks for an answer like the gold list's
    sounds("həlˈO")                       # ("h", "ə", "l", "ˈO")

A vowel and its stress are one sound, so the model cannot put a mark anywhere but directly before a vowel.
"""

import re
import unicodedata

PADDING = 0
TAGS = ("us_gold", "us_silver")  # which list an answer shall resemble; the first symbol of every word
LETTERS = "abcdefghijklmnopqrstuvwxyz'-"
LETTER_ID = {letter: 1 + len(TAGS) + place for place, letter in enumerate(LETTERS)}
SYMBOLS = 1 + len(TAGS) + len(LETTERS)
MAX_LETTERS = 31  # with the tag 32 symbols
FRAMES = 2  # of CTC, for each symbol
VOWEL_LETTER, CONSONANT_RUN = re.compile("[aeiouy]"), re.compile("[bcdfghjklmnpqrstvwxz]+")
MAX_RUN, MAX_ONSET = 6, 4

PRIMARY, SECONDARY = "ˈ", "ˌ"
VOWELS = "AIOWYiuæɑɔəɛɜɪʊʌᵊᵻ"
CONSONANTS = "bdfhjklmnpstvwzðŋɡɹʃʒʤʧθT"
BLANK = 0
SOUNDS = ("", *CONSONANTS, *VOWELS, *(PRIMARY + v for v in VOWELS), *(SECONDARY + v for v in VOWELS))  # "" is the CTC blank
SOUND_ID = {sound: place for place, sound in enumerate(SOUNDS)}
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


def encode(word: str, tag: str = TAGS[0]) -> tuple[int, ...]:
    """Ids of a `readable` word, the tag first. Raises KeyError for a character outside LETTERS."""
    return (1 + TAGS.index(tag), *(LETTER_ID[letter] for letter in folded(word)))


def to_kokoro(phonemes: str) -> str:
    """misaki's symbols as Kokoro v1.0 wants them: flap and glottal stop written T and t."""
    return phonemes.translate(KOKORO)


def without_stress(phonemes: str) -> str:
    """The phonemes with both marks taken out."""
    return phonemes.translate(WITHOUT_STRESS)


def sounds(phonemes: str) -> tuple[str, ...] | None:
    """Kokoro phonemes cut into SOUNDS; None when a symbol is unknown or a mark stands before no vowel."""
    found, mark = [], ""
    for symbol in phonemes:
        if symbol in (PRIMARY, SECONDARY):
            if mark:
                return None
            mark = symbol
        elif mark + symbol in SOUND_ID:
            found.append(mark + symbol)
            mark = ""
        else:
            return None
    return None if mark or not found else tuple(found)
