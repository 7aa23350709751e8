"""Text that is still being written: an open pipe, cut into parts that can be spoken at once.

    for part in LiveText(sys.stdin.buffer): speak(part)     # "".join(parts) is the text

A part ends with a sentence, at a blank line, or with the pipe. Behind a full stop the next word
decides whether the sentence is over, as in a whole text; where nothing comes for 0.2 s, the stop is
taken for one before a new sentence. Nothing is cut inside markup.
"""

import codecs
import os
import re
import select
import stat
from collections.abc import Iterator
from typing import BinaryIO

from kokoro_ane.core.errors import InputError
from kokoro_ane.g2p.chunks import sentence_ends

BLOCK_BYTES = 65_536
# A text that is all there is one part up to here, however fast its pipe brings it.
PART = 4096  # characters
TOKEN_S, IDLE_S = 0.02, 0.2  # a writer's pause between two tokens, and one behind a sentence
_NEXT_WORD = re.compile(r"\s*\S+\s")
# an element's tags, and what may still become a tag or a link
_TAG = re.compile(r"<(/?)[A-Za-z][^<>]*?(/?)>")
_OPEN = re.compile(r"<[^<>]{0,200}\Z|\[[^\[\]]{0,200}(?:\](?:\([^()]{0,200})?)?\Z")


def is_pipe(stream: BinaryIO) -> bool:
    """Whether more may come: a pipe, a socket or a terminal, and no file and no memory."""
    try:
        return not stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, AttributeError):
        return False


class LiveText:
    """The text of a pipe, part by part, and as much of it as has been read: `text[5:9]`."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream, self.read = stream, ""
        self._bytes = 0

    def __getitem__(self, place: slice) -> str:
        return self.read[place]

    def __iter__(self) -> Iterator[str]:
        """Parts in order. Raises InputError for what is not UTF-8."""
        decoder, spoken, open_pipe = codecs.getincrementaldecoder("utf-8-sig")(), 0, True
        idle_s: float | None = None
        file = self.stream.fileno()
        while open_pipe:
            data = os.read(file, BLOCK_BYTES) if select.select([file], [], [], idle_s)[0] else None
            if data is None:
                # nothing came: what is whole is spoken; then the pipe is waited for
                end = spoken + whole_part(self.read[spoken:], idle=idle_s == IDLE_S)
                idle_s = IDLE_S if idle_s == TOKEN_S else None
            else:
                open_pipe, idle_s = bool(data), TOKEN_S
                self._take(decoder, data)
                end = len(self.read)
                if open_pipe:
                    end = spoken
                    if len(self.read) - spoken >= PART:
                        end += whole_part(self.read[spoken : spoken + PART])
            if end > spoken:
                yield self.read[spoken:end]
                spoken = end

    def _take(self, decoder: codecs.IncrementalDecoder, data: bytes) -> None:
        try:
            self.read += decoder.decode(data, final=not data)
        except UnicodeDecodeError as problem:
            at = self._bytes + len(data) - len(problem.object) + problem.start
            raise InputError(
                f"standard input is not UTF-8: byte {problem.object[problem.start]:#04x} at {at};"
                " convert it to UTF-8"
            ) from None
        self._bytes += len(data)


def whole_part(text: str, idle: bool = False) -> int:
    """How many characters of `text` can be spoken whatever comes next; `idle`: nothing comes for
    now.
    """
    # where nothing comes, a word stands in for the next sentence's first
    for end in reversed(list(sentence_ends(f"{text} The end" if idle else text))):
        end = min(end, len(text))
        part = text[:end]
        if (idle or part.endswith("\n") or _NEXT_WORD.match(text, end)) and not _is_open(part):
            return end
    return 0


def _is_open(text: str) -> bool:
    """Whether an element, a tag or a link may still be open."""
    opened = sum(-1 if close else not alone for close, alone in _TAG.findall(text))
    return opened > 0 or _OPEN.search(text) is not None
