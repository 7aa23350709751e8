"""Text of any length in sentences, with bounded memory: what arrives is held only until its sentence is complete.

    for offset, sentence in segments(open("book.txt")): ...

The cuts do not depend on how the text is handed over: in one string, in lines or in blocks.
"""

import re
from collections.abc import Iterable, Iterator

from g2p.chunks import sentence_ends
from g2p.overrides import LINK, MAX_TARGET, MAX_TEXT

BLOCK = 4096  # characters looked at together: small, so that the first sentence is there early
MAX_SEGMENT = 4000  # characters: a sentence without an end is cut at a clause, a space, or here
AHEAD = 64  # characters that must be there behind a sentence end to judge it
_CUTS = (re.compile(r"[;:—,](?=\s)"), re.compile(r"\s"))


def segments(text: str | Iterable[str]) -> Iterator[tuple[int, str]]:
    """(offset, sentence) in order, white space around it stripped; empty ones left out. An override is never cut."""
    pieces = (text[at : at + BLOCK] for at in range(0, len(text), BLOCK)) if isinstance(text, str) else _blocks(text)
    buffer, offset = "", 0
    for piece in pieces:
        buffer += piece
        used = 0
        for start, end in _complete(buffer, final=False):
            yield from _stripped(buffer, offset, start, end)
            used = end
        buffer, offset = buffer[used:], offset + used
    for start, end in _complete(buffer, final=True):
        yield from _stripped(buffer, offset, start, end)


def _blocks(pieces: Iterable[str]) -> Iterator[str]:
    """Short pieces (lines) gathered to about BLOCK characters, long ones cut."""
    gathered: list[str] = []
    size = 0
    for piece in pieces:
        gathered.append(piece)
        size += len(piece)
        if size >= BLOCK:
            whole = "".join(gathered)
            yield from (whole[at : at + BLOCK] for at in range(0, size, BLOCK))
            gathered, size = [], 0
    yield "".join(gathered)


def _stripped(buffer: str, offset: int, start: int, end: int) -> Iterator[tuple[int, str]]:
    sentence = buffer[start:end]
    bare = sentence.strip()
    if bare:
        yield offset + start + len(sentence) - len(sentence.lstrip()), bare


def _complete(buffer: str, final: bool) -> Iterator[tuple[int, int]]:
    """Spans of `buffer` that are whole sentences whatever comes next; with `final` all of it."""
    links = [match.span() for match in LINK.finditer(buffer)] if "[" in buffer else []
    safe = len(buffer) if final else _settled(buffer, links)
    start = 0
    for end in (*(end for end in sentence_ends(buffer) if end <= safe and not _inside(end, links)), *((len(buffer),) if final else ())):
        for cut in _pieces(buffer, start, end, links):
            yield start, cut
            start = cut
    while not final and safe - start > MAX_SEGMENT:
        cut = _cut(buffer, start, links)
        yield start, cut
        start = cut


def _settled(buffer: str, links: list[tuple[int, int]]) -> int:
    """Up to where nothing that arrives later changes a decision: not into an override that may still be open."""
    safe = len(buffer) - AHEAD
    tail = max(len(buffer) - MAX_TEXT - MAX_TARGET - AHEAD, 0)
    opened = buffer.find("[", tail)
    while opened >= 0 and _inside(opened + 1, links):
        opened = buffer.find("[", opened + 1)
    return min(safe, opened) if opened >= 0 else safe


def _pieces(buffer: str, start: int, end: int, links: list[tuple[int, int]]) -> Iterator[int]:
    """Ends of the pieces of one sentence: itself, or cuts where it is longer than MAX_SEGMENT."""
    while end - start > MAX_SEGMENT:
        start = _cut(buffer, start, links)
        yield start
    if start < end:
        yield end


def _cut(buffer: str, start: int, links: list[tuple[int, int]]) -> int:
    """Where to cut a run of more than MAX_SEGMENT characters: the last clause mark, else space, else the limit, outside overrides."""
    limit = start + MAX_SEGMENT
    for pattern in _CUTS:
        ends = [match.end() for match in pattern.finditer(buffer, start + 1, limit) if not _inside(match.end(), links)]
        if ends:
            return ends[-1]
    return next((begin for begin, end in links if start < begin < limit < end), limit)


def _inside(place: int, links: list[tuple[int, int]]) -> bool:
    return any(begin < place < end for begin, end in links)
