"""Subtitles: the words of a text with their times, in cues that can be read, as SubRip (.srt) or WebVTT (.vtt).

    with times_to(Path("book.srt"), text) as stamps: stamps.add(speech)

A cue is at most two lines of 42 characters and 7 seconds, and ends with its chunk; it is cut at a mark where one stands in its second half.
The words are those of the text as given: overrides and pauses of the markup are not shown.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from g2p.result import PUNCTUATION, Word
from pipeline.conductor import Speech
from pipeline.timestamps import words_of

LINE, LINES, LONGEST_S = 42, 2, 7.0
MARKUP = re.compile(r"\]\([^()]*\)|\[pause [^\]]*\]|\[")  # what stands between two words, their own brackets included
SPACES = re.compile(r"\s+")
Timed = tuple[Word, float, float]


@dataclass(frozen=True)
class Cue:
    """What is shown from `start_s` to `end_s`."""

    start_s: float
    end_s: float
    text: str


def shown(words: Sequence[Timed], text: str) -> str:
    """The words as the text has them; what stands between two is kept unless it is markup or white space."""
    pieces, last = [], -1
    for word, _, _ in words:
        if word.start < last:  # several spoken words of one written item
            continue
        gap = MARKUP.sub("", text[last : word.start]) if last >= 0 else ""
        pieces += [SPACES.sub(" ", gap), SPACES.sub(" ", word.text)]
        last = word.end
    return "".join(pieces)


def cues(words: Sequence[Timed], text: str) -> Iterator[Cue]:
    """The words of one chunk in cues."""
    while words:
        count = _fitting(words, text)
        yield Cue(words[0][1], words[count - 1][2], shown(words[:count], text))
        words = words[count:]


def _fitting(words: Sequence[Timed], text: str) -> int:
    """How many words make the next cue; marks stay with the word before them."""
    most = 1
    while most < len(words) and _fits(words[: most + 1], text):
        most += 1
    if most == len(words):
        return most
    marked = [place for place in range(most // 2 + 1, most + 1) if words[place - 1][0].text in PUNCTUATION]
    count = marked[-1] if marked else most
    while count < len(words) and _belongs(words[count][0], words[count - 1][0]):
        count += 1
    return count


def _belongs(word: Word, before: Word) -> bool:
    """A closing mark, or one more spoken word of the same written item."""
    return word.start < before.end or (word.source == "punctuation" and word.start == before.end)


def _fits(words: Sequence[Timed], text: str) -> bool:
    return len(folded(shown(words, text)).split("\n")) <= LINES and words[-1][2] - words[0][1] <= LONGEST_S


def folded(text: str) -> str:
    """Lines of at most LINE characters where words allow it."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}".strip()
        lines[-1:] = [joined] if len(joined) <= LINE or not lines[-1] else [lines[-1], word]
    return "\n".join(lines)


def clock(seconds: float, point: str) -> str:
    """hh:mm:ss,mmm."""
    whole = round(seconds * 1000)
    return f"{whole // 3_600_000:02}:{whole // 60_000 % 60:02}:{whole // 1000 % 60:02}{point}{whole % 1000:03}"


class Subtitles:
    """Cues written chunk by chunk."""

    def __init__(self, file: TextIO, text: str, suffix: str) -> None:
        self.file, self.text, self.point = file, text, "," if suffix == ".srt" else "."
        self.samples, self.count = 0, 0
        if suffix == ".vtt":
            file.write("WEBVTT\n\n")

    def add(self, speech: Speech) -> None:
        """The next chunk."""
        for cue in cues(words_of(speech, self.samples), self.text):
            self.count += 1
            shown_as = folded(cue.text)
            if self.point == ".":
                shown_as = shown_as.replace("&", "&amp;").replace("<", "&lt;")
            self.file.write(f"{self.count}\n{clock(cue.start_s, self.point)} --> {clock(cue.end_s, self.point)}\n{shown_as}\n\n")
        self.samples += len(speech.audio)

    def close(self) -> None:
        """Nothing comes behind the last cue."""
