"""When each word and phoneme is heard: sums of the durations, 600 samples to a frame, written as the audio is.

    tokens = with_times(g2p(text)[1], speeches)      # misaki's way: tokens with start_ts and end_ts

A file of them is written by pipeline/time_files.py:

{"sample_rate_hz": 24000, "chunks": [{"start_s", "pause_s", "end_s", "phonemes": [[symbol, start_s, end_s], ...],
"words": [{"text", "start", "end", "start_s", "end_s", "phonemes"}, ...]}, ...], "seconds": total}. `start` and `end` of a word are offsets
into the text. The first and last phoneme of a chunk is the boundary token, symbol "". Chunks follow one another without a gap: each
starts where the one before it ended plus its own pause, and the last ends where the audio does. A pause that the text asks for is no word.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TextIO

import numpy as np

from core.contract import FRAME_SAMPLES, SAMPLE_RATE_HZ
from core.errors import InputError
from g2p.result import Word
from g2p.tokens import SpokenToken
from pipeline.conductor import Speech

DIGITS = 6  # a sample is 41.7 microseconds


def seconds(samples: int) -> float:
    """Samples to seconds."""
    return round(samples / SAMPLE_RATE_HZ, DIGITS)


def edges_of(speech: Speech, offset: int) -> list[int]:
    """Where each token of a chunk begins, and where the last ends, in samples: [tokens + 1]. Its pause begins at sample `offset`."""
    return [int(edge) for edge in offset + speech.pause + FRAME_SAMPLES * np.concatenate([[0], np.cumsum(speech.durations)])]


def words_of(speech: Speech, offset: int) -> list[tuple[Word, float, float]]:
    """The words and marks of a chunk with the seconds where each begins and ends; a pause that was asked for is left out."""
    edges = edges_of(speech, offset)
    placed = zip(speech.chunk.words, speech.chunk.places, strict=True)  # token 0 is the boundary
    spans = ((word, edges[place + 1], edges[place + 1 + len(word.phonemes)]) for word, place in placed if word.source != "pause")
    return [(word, seconds(first), seconds(last)) for word, first, last in spans]


def stamp(speech: Speech, offset: int) -> dict[str, Any]:
    """Times of one chunk whose pause begins at sample `offset`."""
    edges = edges_of(speech, offset)
    symbols = ("", *speech.chunk.phonemes, "")
    words = [
        {"text": word.text, "start": word.start, "end": word.end, "start_s": start, "end_s": end, "phonemes": word.phonemes}
        for word, start, end in words_of(speech, offset)
    ]
    return {
        "index": speech.index,
        "start_s": seconds(edges[0]),
        "pause_s": seconds(speech.pause),
        "end_s": seconds(edges[-1]),
        "phonemes": [[s, seconds(a), seconds(b)] for s, a, b in zip(symbols, edges, edges[1:], strict=False)],
        "words": words,
    }


def with_times(tokens: Sequence[SpokenToken], speeches: Iterable[Speech]) -> list[SpokenToken]:
    """`tokens` of `G2P.__call__` with `start_ts` and `end_ts` in seconds of the whole audio; None for what no chunk says.

    `speeches`: every chunk of the same text by the same g2p, in order. A word cut over two chunks ends where its last part does.
    """
    found, place, offset = list(tokens), 0, 0
    for speech in speeches:
        for word, start, end in words_of(speech, offset):
            while place < len(found) and not _says(found[place], word):
                place += 1
            if place == len(found):
                raise InputError(f"no token says {word.text!r} at {word.start}: tokens and speech are of two texts, or of two dialects")
            first = found[place].start_ts
            found[place] = replace(found[place], start_ts=start if first is None else first, end_ts=end)
            place += found[place].phonemes.endswith(word.phonemes)
        offset += len(speech.audio)
    return found


def _says(token: SpokenToken, word: Word) -> bool:
    """Whether `word` is this token, or a part of it."""
    return (token.start, token.end) == (word.start, word.end) and word.phonemes in token.phonemes


class Timestamps:
    """One JSON object, written chunk by chunk, so that memory does not grow with the text."""

    def __init__(self, file: TextIO) -> None:
        self.file, self.samples, self.chunks = file, 0, 0
        file.write(f'{{"sample_rate_hz": {SAMPLE_RATE_HZ}, "chunks": [')

    def add(self, speech: Speech) -> None:
        """The next chunk."""
        self.file.write(",\n" if self.chunks else "\n")
        self.file.write(json.dumps(stamp(speech, self.samples), ensure_ascii=False))
        self.chunks += 1
        self.samples += speech.pause + len(speech.samples)

    def close(self) -> None:
        """Write the end."""
        self.file.write(f'\n], "seconds": {seconds(self.samples)}}}\n')
