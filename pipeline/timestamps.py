"""When each word and phoneme is heard, by durations and energy (joins.py), written while the audio
is: JSON, or subtitles.

    with open_times_file(Path("words.json"), text) as times:
        for speech in pipeline.speak(text, voice, options): times.add(speech)

{"sample_rate_hz": 24000, "chunks": [{"start_s", "pause_s", "end_s", "phonemes": [[symbol, start_s,
end_s], ...], "words": [{"text", "start", "end", "start_s", "end_s", "phonemes"}, ...]}, ...],
"chapters": [{"title", "start_s"}, ...], "seconds": total}. `start` and `end` of a word are offsets
into the text. The first and last phoneme of a chunk is the boundary token, symbol "". Chunks follow
one another without a gap: each starts where the one before it ended plus its own pause, and the
last ends where the audio does. A pause that the text asks for is no word. In subtitles the cue of a
heading is bold (.srt), or of the class `chapter` (.vtt).
"""

import contextlib
import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

from kokoro_ane.core import SAMPLE_RATE_HZ, staged
from kokoro_ane.pipeline.synthesis import Speech, is_chapter_start
from kokoro_g2p import PUNCTUATION, LiveText, TextParts, Word, without_markup

DIGITS = 6  # a sample is 41.7 microseconds
Timed = tuple[Word, float, float]  # a word, and the seconds where it begins and ends
Text = str | LiveText | TextParts  # sliced by the words' offsets


@dataclass(frozen=True)
class TimedWord:
    """A word or mark as written, its place in the text (characters), when it is heard (seconds of
    the whole audio), and its phonemes.
    """

    text: str
    start: int
    end: int
    start_s: float
    end_s: float
    phonemes: str


def convert_to_seconds(samples: int) -> float:
    """Samples to seconds."""
    return round(samples / SAMPLE_RATE_HZ, DIGITS)


def find_edges_s(speech: Speech, offset: int) -> list[float]:
    """The seconds where each token of a chunk begins and the last one ends: [tokens + 1]. The
    chunk's pause begins at sample `offset`.
    """
    return [convert_to_seconds(offset + speech.pause + edge) for edge in speech.edges]


def time_words(speech: Speech, offset: int) -> list[Timed]:
    """The words and marks of a chunk with their times; a pause that was asked for is left out."""
    edges = find_edges_s(speech, offset)
    # token 0 is the boundary
    return [
        (word, edges[place + 1], edges[place + 1 + len(word.phonemes)])
        for word, place in zip(speech.chunk.words, speech.chunk.places, strict=True)
        if word.source != "pause"
    ]


def list_timed_words(speech: Speech, offset: int) -> tuple[TimedWord, ...]:
    """The same for those who build on it."""
    return tuple(
        TimedWord(word.text, word.start, word.end, start_s, end_s, word.phonemes)
        for word, start_s, end_s in time_words(speech, offset)
    )


def stamp(speech: Speech, offset: int) -> dict[str, Any]:
    """The times of one chunk whose pause begins at sample `offset`."""
    edges = find_edges_s(speech, offset)
    # The two boundary tokens have times, and no symbol.
    symbols = ("", *speech.chunk.phonemes, "")
    return {
        "index": speech.index,
        "start_s": edges[0],
        "pause_s": convert_to_seconds(speech.pause),
        "end_s": edges[-1],
        # There is one edge more than symbols: each ends where the next begins.
        "phonemes": list(map(list, zip(symbols, edges, edges[1:], strict=False))),
        "words": [asdict(word) for word in list_timed_words(speech, offset)],
    }


LINE, LINES, LONGEST_S = 42, 2, 7.0  # characters, lines and seconds of a cue
SPACES = re.compile(r"\s+")


def show_words(words: Sequence[Timed], text: Text) -> str:
    """The words as the text has them; what stands between two words stays unless it is markup or
    white space.
    """
    pieces = []
    last = -1
    for word, _, _ in words:
        # "2026" is several spoken words and one written item
        if word.start < last:
            continue
        # Nothing that stands before the first word is shown.
        gap = text[last : word.start] if last >= 0 else ""
        pieces += [SPACES.sub(" ", without_markup(piece)) for piece in (gap, word.text)]
        last = word.end
    return "".join(pieces)


def fold_lines(words: Sequence[Timed], text: Text) -> list[str]:
    """The words as shown, in lines of at most LINE characters where words allow it."""
    spaced = " ".join(show_words(words, text).split())
    return textwrap.wrap(spaced, LINE, break_long_words=False, break_on_hyphens=False)


def count_fitting(words: Sequence[Timed], text: Text) -> int:
    """How many words make the next cue; marks stay with the word before them."""
    # One word at least, however long it takes.
    most = 1
    while most < len(words):
        longer = words[: most + 1]
        if len(fold_lines(longer, text)) > LINES or longer[-1][2] - longer[0][1] > LONGEST_S:
            break
        most += 1
    if most == len(words):
        return most
    # a cue that is half full ends at its last mark
    marks = [place for place in range(most // 2, most) if words[place][0].text in PUNCTUATION]
    count = marks[-1] + 1 if marks else most
    # a closing mark, and one more spoken word of the same written item, stay with the word before
    while count < len(words):
        word = words[count][0]
        before = words[count - 1][0]
        closes = word.source == "punctuation" and word.start == before.end
        if not (closes or word.start < before.end):
            break
        count += 1
    return count


def format_clock(time_s: float, point: str) -> str:
    """hh:mm:ss,mmm."""
    # Rounded as a whole, so that 0.9996 s carries over into the seconds.
    whole_s, ms = divmod(round(time_s * 1000), 1000)
    return f"{whole_s // 3600:02}:{whole_s // 60 % 60:02}:{whole_s % 60:02}{point}{ms:03}"


HEADS = MappingProxyType(
    {
        ".json": f'{{"sample_rate_hz": {SAMPLE_RATE_HZ}, "chunks": [',
        ".srt": "",
        ".vtt": "WEBVTT\n\n",
    }
)
SUFFIXES = tuple(HEADS)


class TimesFile:
    """A file of times, written chunk by chunk, so that memory does not grow with the text: one
    JSON object, or subtitles.
    """

    def __init__(self, file: TextIO, text: Text, suffix: str) -> None:
        self.file, self.text, self.suffix = file, text, suffix
        self.samples = self.count = 0  # of audio so far; of chunks, or of cues
        self.chapters: list[tuple[str, float]] = []  # the title and where it begins to be heard
        self.before: Speech | None = None
        file.write(HEADS[suffix])

    def add(self, speech: Speech) -> None:
        """Write the next chunk."""
        is_heading = speech.chunk.opening == "chapter"
        if is_chapter_start(self.before, speech.chunk):
            words = time_words(speech, self.samples)
            self.chapters.append((show_words(words, self.text), words[0][1]))
        self.before = speech
        if self.suffix == ".json":
            # A comma before every chunk but the first: none is left over at the end.
            self.file.write(",\n" if self.count else "\n")
            self.file.write(json.dumps(stamp(speech, self.samples), ensure_ascii=False))
            self.count += 1
        else:
            words = time_words(speech, self.samples)
            while words:
                count = count_fitting(words, self.text)
                self._write_cue(words[:count], is_heading)
                words = words[count:]
        self.samples += speech.pause + len(speech.samples)

    def _write_cue(self, words: Sequence[Timed], is_heading: bool) -> None:
        lines = "\n".join(fold_lines(words, self.text))
        point = ","
        heading = "<b>{}</b>"
        if self.suffix == ".vtt":
            # WebVTT reads both as markup.
            lines = lines.replace("&", "&amp;").replace("<", "&lt;")
            point = "."
            heading = "<c.chapter>{}</c>"
        if is_heading:
            lines = heading.format(lines)
        self.count += 1
        start, end = format_clock(words[0][1], point), format_clock(words[-1][2], point)
        self.file.write(f"{self.count}\n{start} --> {end}\n{lines}\n\n")

    def close(self) -> None:
        """Write the end."""
        if self.suffix == ".json":
            chapters = [{"title": title, "start_s": start_s} for title, start_s in self.chapters]
            marks = json.dumps(chapters, ensure_ascii=False)
            # Here the length of the whole is known.
            self.file.write(
                f'\n], "chapters": {marks}, "seconds": {convert_to_seconds(self.samples)}}}\n'
            )


@contextlib.contextmanager
def open_times_file(path: Path, text: Text) -> Iterator[TimesFile]:
    """A file that appears under its name when it is complete: .json, or subtitles as .srt or .vtt.
    `text`: what is spoken.
    """
    with staged(path) as aside, aside.open("w", encoding="utf-8") as file:
        times = TimesFile(file, text, path.suffix.lower())
        yield times
        times.close()
