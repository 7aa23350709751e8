"""When each word and phoneme is heard: sums of the durations, 600 samples to a frame, written as the audio is.

    with to_json(Path("words.json")) as stamps:
        stamps.add(speech)

{"sample_rate_hz": 24000, "chunks": [{"start_s", "pause_s", "end_s", "phonemes": [[symbol, start_s, end_s], ...],
"words": [{"text", "start", "end", "start_s", "end_s", "phonemes"}, ...]}, ...], "seconds": total}. `start` and `end` of a word are offsets
into the text. The first and last phoneme of a chunk is the boundary token, symbol "". Chunks follow one another without a gap: each
starts where the one before it ended plus its own pause, and the last ends where the audio does.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from core.contract import FRAME_SAMPLES, SAMPLE_RATE_HZ
from core.staging import staged
from pipeline.conductor import Speech

DIGITS = 6  # a sample is 41.7 microseconds


def seconds(samples: int) -> float:
    """Samples to seconds."""
    return round(samples / SAMPLE_RATE_HZ, DIGITS)


def stamp(speech: Speech, offset: int) -> dict[str, Any]:
    """Times of one chunk whose pause begins at sample `offset`."""
    start = offset + speech.pause
    edges = [int(edge) for edge in start + FRAME_SAMPLES * np.concatenate([[0], np.cumsum(speech.durations)])]  # [tokens + 1] samples
    symbols = ("", *speech.chunk.phonemes, "")
    words = []
    for word, place in zip(speech.chunk.words, speech.chunk.places, strict=True):
        first, last = place + 1, place + 1 + len(word.phonemes)  # token 0 is the boundary
        times = {"start_s": seconds(edges[first]), "end_s": seconds(edges[last])}
        words.append({"text": word.text, "start": word.start, "end": word.end, **times, "phonemes": word.phonemes})
    return {
        "index": speech.index,
        "start_s": seconds(start),
        "pause_s": seconds(speech.pause),
        "end_s": seconds(edges[-1]),
        "phonemes": [[s, seconds(a), seconds(b)] for s, a, b in zip(symbols, edges, edges[1:], strict=False)],
        "words": words,
    }


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


@contextlib.contextmanager
def to_json(path: Path) -> Iterator[Timestamps]:
    """A file that appears under its name when it is complete."""
    with staged(path) as aside, aside.open("w", encoding="utf-8") as file:
        stamps = Timestamps(file)
        yield stamps
        stamps.close()
