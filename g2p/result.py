"""What crosses the seams of g2p/: tokens out of the normalizer, guesses out of the neural model, words and the result for the user.

    text --normalize--> Normalized(tokens) --lexicon, tagger, NeuralG2P--> Result(phonemes, words)

Every offset counts characters of the text the user gave, half-open: `text[word.start:word.end] == word.text`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Dialect = Literal["us", "gb"]
Language = Literal["us", "gb", "es", "it"]  # es, it: g2p/languages
US: Dialect = "us"
GB: Dialect = "gb"
# word: look it up. letters: say letter by letter. punctuation: one of PUNCTUATION. override: a private-use placeholder, see `Token`.
Kind = Literal["word", "letters", "punctuation", "override"]
Source = Literal[
    "override", "user", "rule", "gold", "ours", "cmudict", "silver", "morphology", "neural", "fallback", "spelled", "punctuation", "pause"
]
PUNCTUATION = ';:,.!?—…"()“”'  # of Kokoro's vocabulary


@dataclass(frozen=True)
class Token:
    """One spoken word or mark: `text` is what is said (`twenty`), start:end where it came from (all words of `2026` share one span).

    The normalizer passes any private-use character (U+E000 to U+F8FF) through as a token of kind `override`, text unchanged: the caller
    put it where an inline override `[word](/phonemes/)` stood.
    """

    text: str
    start: int
    end: int
    kind: Kind = "word"
    space: bool = True  # white space follows


@dataclass(frozen=True)
class Normalized:
    """Tokens in order, and what was left out: category (`emoji`, `markup`, `script Cyrillic`, ...) to number of characters or tags."""

    tokens: tuple[Token, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Guess:
    """The neural model's answer for one word: Kokoro phonemes with stress, and the probability of the path it chose, 0 to 1."""

    phonemes: str
    confidence: float


@dataclass(frozen=True)
class Word:
    """One written word or mark of the text, its phonemes, and where they come from."""

    text: str
    start: int
    end: int
    spoken: str
    phonemes: str
    source: Source
    confidence: float = 1.0
    space: bool = True
    pause_s: float = 0.0  # silence asked for here: [pause 300ms]


@dataclass(frozen=True)
class Result:
    """Phonemes in Kokoro's vocabulary, ready for `encoder.vocab.input_ids`, the words they came from, and what was dropped."""

    text: str
    phonemes: str
    words: tuple[Word, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)
