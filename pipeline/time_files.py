"""A file of times by its suffix: .json (pipeline/timestamps.py), or subtitles as .srt or .vtt (pipeline/subtitles.py).

    with times_to(Path("words.json"), text) as stamps:
        stamps.add(speech)
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from core.staging import staged
from pipeline.conductor import Speech
from pipeline.subtitles import Subtitles
from pipeline.timestamps import Timestamps

SUFFIXES = (".json", ".srt", ".vtt")


class Stamps(Protocol):
    """Takes chunks in order."""

    def add(self, speech: Speech) -> None:
        """The next chunk."""

    def close(self) -> None:
        """Write the end."""


@contextlib.contextmanager
def times_to(path: Path, text: str) -> Iterator[Stamps]:
    """A file that appears under its name when it is complete: .json, or subtitles as .srt or .vtt. `text`: what is spoken."""
    with staged(path) as aside, aside.open("w", encoding="utf-8") as file:
        stamps: Stamps = Timestamps(file) if path.suffix.lower() == ".json" else Subtitles(file, text, path.suffix.lower())
        yield stamps
        stamps.close()
