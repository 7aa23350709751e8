"""Sentences to chunks: what the models say in one call, where a long sentence is cut, and how long the silence between chunks is.

    for chunk in chunks(g2p.sentences(text), text): print(chunk.phonemes, chunk.ending)

One sentence is one chunk. A sentence longer than LONGEST_PHONEMES, or one that the encoder refuses as too long, is cut in two at a mark
near its middle, else between words, else inside a word.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from core.contract import SAMPLE_RATE_HZ
from core.errors import UtteranceTooLong
from g2p.result import PUNCTUATION, Result, Word

LONGEST_PHONEMES = 300  # about 20 s at pace 1: below both limits of the packages, 510 phonemes and 30 s
CLOSING = '"”)'  # stand behind the mark that ends a sentence
SENTENCE_MARKS, CLAUSE_MARKS = ".!?…", ",;:—"
PARAGRAPH_BREAK = re.compile(r"[^\S\n]*\n[^\S\n]*\n")
Ending = Literal["paragraph", "sentence", "clause", "none"]


@dataclass(frozen=True)
class Pauses:
    """Silence between chunks at pace 1, beside what the model itself leaves at both ends; a pace of 2 halves it."""

    paragraph_s: float = 0.5
    sentence_s: float = 0.2
    clause_s: float = 0.08
    none_s: float = 0.0

    def samples(self, ending: Ending, speed: float) -> int:
        """Whole samples of silence behind a chunk that ends so."""
        return int(getattr(self, f"{ending}_s") * SAMPLE_RATE_HZ / speed + 0.5)


def asked_samples(seconds: float) -> int:
    """Whole samples of a silence that the text asks for: the same at every pace."""
    return int(seconds * SAMPLE_RATE_HZ + 0.5)


@dataclass(frozen=True)
class Chunk:
    """Words that are said in one call. `phonemes`: theirs, one space where white space follows; `places`: where each word's begin.

    `before_s`: silence that the text asks for in front ([pause 300ms]), in the place of what the ending before gives; None: none asked for.
    """

    words: tuple[Word, ...]
    phonemes: str
    places: tuple[int, ...]
    ending: Ending
    before_s: float | None = None

    @classmethod
    def of(cls, words: tuple[Word, ...], ending: Ending | None = None) -> "Chunk":
        """Join the words; without `ending` the last mark decides."""
        phonemes, places = "", []
        for word in words:
            places.append(len(phonemes))
            phonemes += word.phonemes + (" " if word.space else "")
        phonemes = phonemes.rstrip()
        return cls(words, phonemes, tuple(places), ending or ending_of(phonemes))


def ending_of(phonemes: str) -> Ending:
    """By the last mark; a closing quote or bracket is looked through."""
    last = phonemes.rstrip(" " + CLOSING)[-1:]
    return "sentence" if last and last in SENTENCE_MARKS else "clause" if last and last in CLAUSE_MARKS else "none"


def speakable(phonemes: str) -> bool:
    """Whether anything but marks and white space is in it."""
    return any(symbol not in PUNCTUATION and not symbol.isspace() for symbol in phonemes)


def chunks(results: Iterator[Result], text: str, longest: int = LONGEST_PHONEMES) -> Iterator[Chunk]:
    """Chunks of at most `longest` phonemes, in order; sentences with nothing to say give none. A pause that is asked for ends a chunk.

    One behind the last word gives a chunk of no words, which is its silence alone; a text of pauses alone gives nothing.
    """
    asked: float | None = None
    said = False
    for result in results:
        for words in between_pauses(tuple(word for word in result.words if word.phonemes)):
            chunk = replace(Chunk.of(words), before_s=asked)
            if speakable(chunk.phonemes):
                if PARAGRAPH_BREAK.match(text, words[-1].end):
                    chunk = replace(chunk, ending="paragraph")
                yield from cut(chunk, longest)
                asked, said = None, True
            if words[-1].pause_s:
                asked = (asked or 0.0) + words[-1].pause_s
    if asked is not None and said:
        yield Chunk((), "", (), "none", before_s=asked)


def between_pauses(words: tuple[Word, ...]) -> Iterator[tuple[Word, ...]]:
    """`words` cut behind every pause that the text asks for. Its mark ends the part, so no space stands before it."""
    start = 0
    for place, word in enumerate(words):
        if word.pause_s:
            part = words[start : place + 1]
            yield (*part[:-2], replace(part[-2], space=False), word) if len(part) > 1 else part
            start = place + 1
    if start < len(words):
        yield words[start:]


def cut(chunk: Chunk, longest: int) -> Iterator[Chunk]:
    """The chunk, or its parts of at most `longest` phonemes."""
    if len(chunk.phonemes) <= longest:
        yield chunk
        return
    for part in halves(chunk):
        yield from cut(part, longest)


def halves(chunk: Chunk) -> tuple[Chunk, Chunk]:
    """Two chunks of about half the phonemes each, both with something to say. Raises UtteranceTooLong when one phoneme is too long."""
    places = [index for index in range(1, len(chunk.words)) if _apart(chunk, index)]
    if places:
        index = min(places, key=lambda place: _cost(chunk, place))
        return replace(Chunk.of(chunk.words[:index]), before_s=chunk.before_s), Chunk.of(chunk.words[index:], chunk.ending)
    index = max(range(len(chunk.words)), key=lambda place: len(chunk.words[place].phonemes))
    left, right = _halved(chunk.words[index])
    first = replace(Chunk.of((*chunk.words[:index], left)), before_s=chunk.before_s)
    return first, Chunk.of((right, *chunk.words[index + 1 :]), chunk.ending)


def _apart(chunk: Chunk, index: int) -> bool:
    """Whether the words before and from `index` on can be said apart."""
    place = chunk.places[index]
    return chunk.words[index - 1].space and speakable(chunk.phonemes[:place]) and speakable(chunk.phonemes[place:])


def _cost(chunk: Chunk, index: int) -> float:
    """Distance from the middle, 0 to 1; a cut that is not at a mark costs a quarter more."""
    place, length = chunk.places[index], len(chunk.phonemes)
    at_mark = ending_of(chunk.phonemes[:place]) != "none"
    return abs(2 * place - length) / length + (0.0 if at_mark else 0.5)


def _halved(word: Word) -> tuple[Word, Word]:
    """A word said in two parts; both keep its place in the text."""
    if len(word.phonemes) < 2:
        raise UtteranceTooLong(f"{word.text!r} at {word.start} does not fit one utterance: speak faster")
    middle = len(word.phonemes) // 2
    return replace(word, phonemes=word.phonemes[:middle], space=False), replace(word, phonemes=word.phonemes[middle:])
