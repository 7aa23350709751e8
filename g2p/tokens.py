"""Words as misaki's users know them: text, tag, phonemes, white space, and after synthesis when each is heard.

phonemes, tokens = G2P.load("a")("Hello, world.")
tokens = timed(tokens, frames, seconds_per_frame=0.025)    # frames: the vocoder's durations, one for each phoneme symbol and pad
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.errors import InputError
from g2p.result import Result, Source


@dataclass(frozen=True)
class SpokenToken:
    """One written word or mark. `start_ts`, `end_ts`: seconds, None before synthesis; `start`, `end`: characters of the text."""

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


MARK_TAGS = {",": ",", ";": ":", ":": ":", "—": ":", "…": ":", "(": "-LRB-", ")": "-RRB-", "“": "``", "”": "''", '"': "''"}


def tokens_of(result: Result, tags: Sequence[str]) -> list[SpokenToken]:
    """The words of a result with a Penn tag each."""
    return [
        SpokenToken(
            word.text, tag, word.phonemes, " " if word.space else "", word.confidence, word.source, word.start, word.end, word.pause_s
        )
        for word, tag in zip(result.words, tags, strict=True)
    ]


def tag_of_mark(text: str) -> str:
    """misaki's tag of a punctuation mark."""
    return MARK_TAGS.get(text, ".")


def timed(tokens: Sequence[SpokenToken], frames: Sequence[float], seconds_per_frame: float) -> list[SpokenToken]:
    """`tokens` with their times. `frames`: durations of the pad, of every symbol of the joined phonemes (spaces too), of the pad: [n + 2].

    A space belongs to no word. Raises InputError when the counts do not fit.
    """
    symbols = sum(len(token.phonemes) + len(token.whitespace) for token in tokens)
    symbols -= len(tokens[-1].whitespace) if tokens else 0
    if len(frames) != symbols + 2:
        raise InputError(f"{len(frames)} durations for {symbols} phoneme symbols: wanted {symbols + 2}, a pad at either end")
    found, place, now = [], 1, float(frames[0]) if frames else 0.0
    for token in tokens:
        spoken = sum(frames[place : place + len(token.phonemes)])
        gap = sum(frames[place + len(token.phonemes) : place + len(token.phonemes) + len(token.whitespace)])
        found.append(replace(token, start_ts=now * seconds_per_frame, end_ts=(now + spoken) * seconds_per_frame))
        now, place = now + spoken + gap, place + len(token.phonemes) + len(token.whitespace)
    return found
