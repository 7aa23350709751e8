"""The data that the stages of g2p/ exchange: tokens out of the normalizer, guesses out of the
neural model, words and the result for the user.

    text --normalize--> Normalized(tokens) --lexicon, tagger, NeuralG2P--> Result(phonemes, words)

Every offset counts characters of the text the user gave, half-open: `text[word.start:word.end] ==
word.text`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from kokoro_g2p.errors import InputError

Dialect = Literal["us", "gb"]
Language = Literal[
    "us", "gb", "es", "it", "fr", "pt", "zh", "hi", "ja"
]  # from es on: g2p/languages
US: Dialect = "us"
GB: Dialect = "gb"
# word: look it up. letters: say letter by letter. punctuation: one of PUNCTUATION. override: a
# private-use placeholder, see `Token`.
Kind = Literal["word", "letters", "punctuation", "override"]
Drop = tuple[int, int, str]  # start, end, category of what is not said
Source = Literal[
    "override",
    "user",
    "rule",
    "gold",
    "ours",
    "cmudict",
    "silver",
    "morphology",
    "neural",
    "fallback",
    "spelled",
    "punctuation",
    "pause",
]
PUNCTUATION = ';:,.!?—…"()“”'  # of Kokoro's vocabulary


@dataclass(frozen=True)
class Token:
    """One spoken word or mark: `text` is the spoken form (`twenty`), start:end its place in the
    text (all words of `2026` share one span).

    The normalizer passes any private-use character (U+E000 to U+F8FF) through as a token of kind
    `override`, text unchanged: the caller put it where an inline override `[word](/phonemes/)`
    stood.
    """

    text: str
    start: int
    end: int
    kind: Kind = "word"
    space: bool = True  # white space follows


@dataclass(frozen=True)
class Normalized:
    """Tokens in order, and what was left out: category (`emoji`, `markup`, `script Cyrillic`, ...)
    to number of characters or tags.
    """

    tokens: tuple[Token, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)
    drops: tuple[Drop, ...] = ()  # each with its place


@dataclass(frozen=True)
class Guess:
    """The neural model's answer for one word: Kokoro phonemes with stress, and the probability of
    the path it chose, 0 to 1.
    """

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
    rate: float = 1.0  # of the pace: <prosody rate="slow">
    voice: str = ""  # asked for by the text: [voice:af_heart]


@dataclass(frozen=True)
class Result:
    """Phonemes in Kokoro's vocabulary, ready for `encoder.encoder_steps.input_ids`, the words they
    came from, and what was dropped.

    `drops` holds start, end (characters of the whole text) and name of each thing that was left
    out.
    """

    text: str
    phonemes: str
    words: tuple[Word, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)
    drops: tuple[tuple[int, int, str], ...] = ()


@dataclass(frozen=True)
class SpokenToken:
    """One written word or mark. `start_ts`, `end_ts`: seconds, None before synthesis; `start`,
    `end`: characters of the text.
    """

    text: str
    tag: str
    phonemes: str
    whitespace: str
    confidence: float
    source: Source
    start: int
    end: int
    pause_s: float = 0.0
    start_ts: float | None = None
    end_ts: float | None = None


MARK_TAGS = dict.fromkeys(";:—…", ":") | {
    ",": ",",
    "(": "-LRB-",
    ")": "-RRB-",
    "“": "``",
    "”": "''",
    '"': "''",
}


def make_spoken_tokens(result: Result, tags: Sequence[str]) -> list[SpokenToken]:
    """The words of a result with a Penn tag each."""
    return [
        SpokenToken(
            word.text,
            tag,
            word.phonemes,
            " " if word.space else "",
            word.confidence,
            word.source,
            word.start,
            word.end,
            word.pause_s,
        )
        for word, tag in zip(result.words, tags, strict=True)
    ]


def find_mark_tag(text: str) -> str:
    """misaki's tag of a punctuation mark."""
    return MARK_TAGS.get(text, ".")


def timed(
    tokens: Sequence[SpokenToken], frames: Sequence[float], seconds_per_frame: float
) -> list[SpokenToken]:
    """`tokens` with their times. `frames`: durations of the pad, of every symbol of the joined
    phonemes (spaces too), of the pad: [n + 2].

    A space belongs to no word. Raises InputError when the counts do not fit.
    """
    symbols = sum(len(token.phonemes) + len(token.whitespace) for token in tokens)
    symbols -= len(tokens[-1].whitespace) if tokens else 0
    if len(frames) != symbols + 2:
        raise InputError(
            f"{len(frames)} durations for {symbols} phoneme symbols: wanted {symbols + 2}, a pad at"
            " either end"
        )
    times = []
    place = 1
    now = float(frames[0]) if frames else 0.0
    for token in tokens:
        spoken = sum(frames[place : place + len(token.phonemes)])
        gap = sum(
            frames[
                place + len(token.phonemes) : place + len(token.phonemes) + len(token.whitespace)
            ]
        )
        times.append(
            replace(
                token, start_ts=now * seconds_per_frame, end_ts=(now + spoken) * seconds_per_frame
            )
        )
        now = now + spoken + gap
        place += len(token.phonemes) + len(token.whitespace)
    return times
