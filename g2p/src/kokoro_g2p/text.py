"""Text in, chunks out: where a text is read from, the g2p stage, what the models say in one call,
and how long the silence between chunks is.

    text = read_text("-", None, sys.stdin.buffer, live=True)
    for chunk in chunks(text_reader("us")(text), text):
        print(chunk.phonemes, chunk.ending)

One sentence is one chunk. A sentence longer than LONGEST_PHONEMES, or one that the encoder refuses
as too long, is cut in two (g2p/splitting.py says where), and each part again.

A text that is still being written comes from an open pipe, in parts that can be spoken at once. A
part ends with a sentence, at a blank line, or with the pipe. Behind a full stop the next word
decides whether the sentence is over, as in a whole text; where nothing comes for 0.2 s, the stop is
taken for one before a new sentence. Nothing is cut inside markup.
"""

import codecs
import os
import re
import select
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from kokoro_g2p.alphabet import MAX_PHONEMES
from kokoro_g2p.errors import InputError
from kokoro_g2p.pauses import Ending, Opening, find_opening, is_paragraph_end
from kokoro_g2p.result import PUNCTUATION, US, Language, Result, Source, Word
from kokoro_g2p.splitting import (
    cut_in_halves,
    cut_words,
    find_ending,
    find_sentence_ends,
    has_sound,
    join_phonemes,
)

if TYPE_CHECKING:
    from kokoro_g2p.neural import Run


# about 20 s at pace 1: below both limits of the packages, 510 phonemes and 30 s
LONGEST_PHONEMES = 300
# a chunk of fewer shares its call with such neighbours, as long as the call is no longer
SHORT_PHONEMES, MOST_SHARED = 12, 60
_SAYABLE = re.compile(r"[A-Za-z0-9]{2}|\b[AaIi0-9]\b")
# the g2p stage: all sentences of a text in order, those without words too; offsets of words count
# characters of the whole text
Phonemizer = Callable[[str], Iterator[Result]]


@dataclass(frozen=True)
class Chunk:
    """Words that are spoken together. `phonemes`: of all words, with one space where white space
    follows a word. `places`: where the phonemes of each word begin.

    `before_s`: the silence that the text asks for in front ([pause 300ms]), which replaces the
    silence of the ending before; None: the text asks for none. `opening`: what it is the first
    chunk of.
    """

    words: tuple[Word, ...]
    phonemes: str
    places: tuple[int, ...]
    ending: Ending
    before_s: float | None = None
    opening: Opening = ""

    @property
    def rate(self) -> float:
        """The pace that the text asks for, 1 for the usual one; all words of a chunk have the
        same.
        """
        return self.words[0].rate if self.words else 1.0

    @property
    def voice(self) -> str:
        """The voice that the text asks for, the same for all words; "" where it asks for none."""
        return self.words[0].voice if self.words else ""

    def moved(self, offset: int) -> "Chunk":
        """The same chunk of a part that begins at `offset` of the text."""
        words = [replace(one, start=one.start + offset, end=one.end + offset) for one in self.words]
        return replace(self, words=tuple(words))

    def halves(self) -> "tuple[Chunk, Chunk]":
        """Two chunks of about half the phonemes each. Raises UtteranceTooLong when one phoneme is
        too long.
        """
        first, second = cut_in_halves(self.words)
        left = replace(Chunk.from_words(first), before_s=self.before_s, opening=self.opening)
        return left, Chunk.from_words(second, self.ending)

    @classmethod
    def from_words(cls, words: tuple[Word, ...], ending: Ending | None = None) -> "Chunk":
        """The chunk of these words. Without `ending`, the last mark decides it."""
        ends = accumulate((len(word.phonemes) + word.space for word in words), initial=0)
        phonemes = join_phonemes(words)
        return cls(words, phonemes, tuple(ends)[:-1], ending or find_ending(phonemes))


def chunks(
    results: Iterator[Result],
    text: str,
    longest: int = LONGEST_PHONEMES,
    dropped: Counter[str] | None = None,
    before: str = "",
) -> Iterator[Chunk]:
    """Chunks of at most `longest` phonemes, in order; sentences with nothing to say give none. A
    pause that is asked for ends a chunk. `dropped` counts what g2p left out. `before`: what stands
    before the text, where that is a part.

    A pause behind the last word gives a chunk of no words, which is its silence alone; a text of
    pauses alone gives nothing.
    """
    silence_s: float | None = None
    spoken = False
    for result in results:
        if dropped is not None:
            dropped.update(result.dropped)
        for words in cut_at_pauses(tuple(word for word in result.words if word.phonemes)):
            chunk = replace(Chunk.from_words(words), before_s=silence_s)
            if has_sound(chunk.phonemes):
                if is_paragraph_end(text, words[-1].end):
                    chunk = replace(chunk, ending="paragraph")
                begin = next(word.start for word in words if has_sound(word.phonemes))
                opening = find_opening(before + text, len(before) + begin)
                # a heading is a paragraph, with or without a blank line behind it
                if opening == "chapter" and chunk.ending == "none":
                    chunk = replace(chunk, ending="paragraph")
                chunk = replace(chunk, opening=opening)
                yield from cut(chunk, longest)
                silence_s, spoken = None, True
            # pauses that follow one another add up
            if words[-1].pause_s:
                silence_s = (silence_s or 0.0) + words[-1].pause_s
    if silence_s is not None and spoken:
        yield Chunk((), "", (), "none", before_s=silence_s)


def nothing_to_say(dropped: Counter[str]) -> InputError:
    """The error of a text without a word; `dropped`: what g2p left out."""
    counts = ", ".join(f"{count} {what}" for what, count in dropped.items())
    left_out = f" (left out: {counts})" if counts else ""
    return InputError(f"nothing to say: the text holds no word{left_out}")


def check_sayable(text: str, language: Language) -> None:
    """Raises InputError for a text without a word, before any model is opened."""
    # a letter that every language reads, or a digit, is said in any case
    if not _SAYABLE.search(text):
        dropped = Counter[str]()
        if next(chunks(text_reader(language)(text), text, dropped=dropped), None) is None:
            raise nothing_to_say(dropped)


def calls(chunks: Iterator[Chunk]) -> Iterator[tuple[Chunk, ...]]:
    """The chunks that the models speak in one call: very short neighbours of one pace and voice,
    which Kokoro says badly alone; any other chunk by itself.
    """
    call: tuple[Chunk, ...] = ()
    for chunk in chunks:
        short = 0 < len(chunk.phonemes) < SHORT_PHONEMES
        # a space stands between the chunks of a call
        length = len(" ".join([one.phonemes for one in (*call, chunk)]))
        alike = call and (chunk.rate, chunk.voice) == (call[0].rate, call[0].voice)
        if call and not (short and alike and length <= MOST_SHARED):
            yield call
            call = ()
        call = (*call, chunk)
        if not short:
            yield call
            call = ()
    if call:
        yield call


def cut_at_pauses(words: tuple[Word, ...]) -> Iterator[tuple[Word, ...]]:
    """`words` cut behind every pause that the text asks for, and where their pace changes. No
    space stands before a pause's mark, because the mark ends its part.
    """
    start = 0
    for place, word in enumerate(words):
        if place > start and word.rate != words[start].rate and word.source != "punctuation":
            yield words[start:place]
            start = place
        if word.pause_s:
            # the space before a pause's mark goes with the words behind it
            part = words[start : place + 1]
            yield (*part[:-2], replace(part[-2], space=False), word) if len(part) > 1 else part
            start = place + 1
    if start < len(words):
        yield words[start:]


def cut_parts(words: tuple[Word, ...]) -> Iterator[tuple[Word, ...]]:
    """The words of a whole sentence, cut as `text_reader` and `chunks` cut them, for a port."""
    for group in (
        cut_words(words, MAX_PHONEMES) if len(join_phonemes(words)) > MAX_PHONEMES else (words,)
    ):
        yield from cut_at_pauses(tuple(word for word in group if word.phonemes))


def cut(chunk: Chunk, longest: int) -> Iterator[Chunk]:
    """The chunk, or its parts of at most `longest` phonemes."""
    if len(chunk.phonemes) <= longest:
        yield chunk
        return
    for part in chunk.halves():
        yield from cut(part, longest)


# ---- the g2p stage

_SENTENCE = re.compile(r"\s*(\S.*?(?:[.!?…]+[\"”)]*(?=\s)|(?=\n)|$))", re.DOTALL)
_WORD = re.compile(rf"[{re.escape(PUNCTUATION)}]|[^\s{re.escape(PUNCTUATION)}]+")


def text_reader(
    dialect: Language,
    lexicon: Path | None = None,
    network: "Run | None" = None,
    language_of: Callable[[str], Language] | None = None,
) -> Phonemizer:
    """The g2p stage: lexicon, rules and neural model.

    `network` computes the American network in place of NumPy, as the G2P package does.
    `language_of` gives the language of a voice that the text names; None: all of the text is in
    `dialect`. Raises InputError for a bad lexicon.
    """
    from kokoro_g2p.phonemizer import G2P

    @cache
    def load_reader(language: Language) -> G2P:
        if network is None or language != US:
            return G2P.load(language, lexicon)
        from kokoro_g2p.neural import NeuralG2P

        return G2P.load(language, lexicon, neural=NeuralG2P(run=network))

    first = load_reader(dialect)
    if language_of is not None:
        first.follow(lambda voice: load_reader(language_of(voice)))
    return partial(first.sentences, keep_empty=True)


def phoneme_sentences(text: str) -> Iterator[Result]:
    """The Phonemizer of a text of phonemes. A sentence ends at . ! ? … before white space, or with
    its line; a word is what stands between spaces and marks.
    """
    for sentence in _SENTENCE.finditer(text):
        words = []
        for match in _WORD.finditer(text, *sentence.span(1)):
            symbols = match[0]
            end = match.end()
            source: Source = "punctuation" if symbols in PUNCTUATION else "override"
            space = text[end : end + 1].isspace()
            words.append(Word(symbols, match.start(), end, symbols, symbols, source, space=space))
        if words:
            yield Result(sentence[1], join_phonemes(words), tuple(words))


# ---- where a text is read from

STDIN = "-"
BLOCK_BYTES = 65_536
# A text that is complete is one part up to here, however fast its pipe brings it.
PART = 4096  # characters
TOKEN_S, IDLE_S = 0.02, 0.2  # a writer's pause between two tokens, and one behind a sentence
_NEXT_WORD = re.compile(r"\s*\S+\s")
# an element's tags, and what may still become a tag or a link
_TAG = re.compile(r"<(/?)[A-Za-z][^<>]*?(/?)>")
_OPEN = re.compile(r"<[^<>]{0,200}\Z|\[[^\[\]]{0,200}(?:\](?:\([^()]{0,200})?)?\Z")


def read_text(
    argument: str | None, file: Path | None, stdin: BinaryIO, live: bool = False
) -> "str | LiveText":
    """`argument`, or the content of `file`, or of `stdin` where either is "-". With `live` an open
    pipe is not read to its end first. Raises InputError: none or two, unreadable, not UTF-8.
    """
    if (argument is None) == (file is None):
        raise InputError(
            "give either a text, or --file FILE, or - for standard input"
            + (", not both" if file else "")
        )
    if argument is not None and argument != STDIN:
        # Python gives a byte that is not UTF-8 as half of a surrogate pair, which no file takes
        half = re.search("[\ud800-\udfff]", argument)
        if half:
            raise InputError(
                f"the text is not UTF-8: {ascii(half[0])} is no character, at {half.start()};"
                " convert it to UTF-8"
            )
        return argument
    if file is None or str(file) == STDIN:
        if live and is_pipe(stdin):
            return LiveText(stdin)
        where = "standard input"
        data = stdin.read()
    elif file.is_file():
        try:
            where = str(file)
            data = file.read_bytes()
        except OSError as problem:
            raise InputError(f"cannot read {file}: {problem.strerror}") from None
    else:
        raise InputError(
            f"{file} is a folder, not a text file" if file.is_dir() else f"{file} does not exist"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise _describe_not_utf8(where, problem, problem.start) from None


def _describe_not_utf8(where: str, problem: UnicodeDecodeError, at: int) -> InputError:
    byte = problem.object[problem.start]
    return InputError(f"{where} is not UTF-8: byte {byte:#04x} at {at}; convert it to UTF-8")


def is_pipe(stream: BinaryIO) -> bool:
    """Whether more may come: a pipe, a socket or a terminal, and no file and no memory."""
    try:
        return not stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, AttributeError):
        return False


class LiveText:
    """The text of a pipe: its parts in order, and slices of what has been read so far."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream, self.read = stream, ""

    def __getitem__(self, place: slice) -> str:
        return self.read[place]

    def __iter__(self) -> Iterator[str]:
        """Parts in order. Raises InputError for what is not UTF-8."""
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        spoken = 0
        count = 0
        open_pipe = True
        wait_s: float | None = None
        file = self.stream.fileno()
        while open_pipe:
            if not select.select([file], [], [], wait_s)[0]:
                # nothing came: what is whole is spoken; then the pipe is waited for
                end = spoken + measure_whole_part(self.read[spoken:], idle=wait_s == IDLE_S)
                wait_s = IDLE_S if wait_s == TOKEN_S else None
            else:
                data = os.read(file, BLOCK_BYTES)
                count += len(data)
                try:
                    self.read += decoder.decode(data, final=not data)
                except UnicodeDecodeError as problem:
                    # the decoder may hold bytes of the block before
                    at = count - len(problem.object) + problem.start
                    raise _describe_not_utf8("standard input", problem, at) from None
                open_pipe = bool(data)
                wait_s = TOKEN_S
                end = spoken
                if not open_pipe:
                    end = len(self.read)
                elif len(self.read) - spoken >= PART:
                    end += measure_whole_part(self.read[spoken : spoken + PART])
            if end > spoken:
                yield self.read[spoken:end]
                spoken = end


class TextParts:
    """A text that comes in parts of any length, as a language model's tokens or the lines of a
    file: its sentences as they are complete, and slices of the latest ones.
    """

    def __init__(self, parts: Iterable[str]) -> None:
        self.parts, self.held, self.start = parts, "", 0

    def __getitem__(self, place: slice) -> str:
        return self.held[place.start - self.start : place.stop - self.start]

    def __iter__(self) -> Iterator[str]:
        """Sentences in order. Raises InputError for a part that is no str."""
        spoken = 0  # characters of `held`
        for part in self.parts:
            if not isinstance(part, str):
                raise InputError(f"a part of the text is of type {type(part).__name__}: give str")
            self.held += part
            count = measure_whole_part(self.held[spoken:])
            if count:
                # what was spoken is held no longer: a text may be endless
                self.start += spoken
                self.held = self.held[spoken:]
                yield self.held[:count]
                spoken = count
        self.start += spoken
        self.held = self.held[spoken:]
        if self.held:
            yield self.held


def measure_whole_part(text: str, idle: bool = False) -> int:
    """How many characters of `text` can be spoken whatever comes next. `idle`: nothing comes for
    now.
    """
    # where nothing comes, a word stands in for the next sentence's first
    for end in reversed(list(find_sentence_ends(f"{text} The end" if idle else text))):
        end = min(end, len(text))
        part = text[:end]
        if idle or part.endswith("\n") or _NEXT_WORD.match(text, end):
            # no element, tag or link is open
            depth = sum(-1 if close else not alone for close, alone in _TAG.findall(part))
            if depth <= 0 and not _OPEN.search(part):
                return end
    return 0
