"""Words with what each list says of them, in one compact file that a port maps into memory:
text/us.words of a bundle.

    content = packed_words([("lead", "g:DEFAULT=lˈid\tt=nv"), ...])   # rising by code points
    dict(rows_of(content))["lead"]                                    # "g:DEFAULT=lˈid\tt=nv"

File: "KWRD", format, rows a block, count of blocks, the first byte of each block and of what is
behind the last; the codes of words, then those of what is said, each a length and UTF-8 texts with
a zero between them. Numbers are uint32, little-endian. A code is a byte that stands for its text. A
row: a byte, 16 times the characters that the word shares with the row before, plus those that what
is said shares with it from its second character on; codes of the rest of the word and a tab; codes
of what is said, less the shared part, and a line's end. The first row of a block shares nothing, so
that a search by halves looks at blocks' first words and then through one block.
"""

import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from os.path import commonprefix

import numpy as np

from kokoro_ane.core.errors import CheckFailed

MAGIC, FORMAT, BLOCK_ROWS, CODES, SAMPLE = b"KWRD", 1, 64, 256, 8
END_OF_WORD, END_OF_ROW, MOST_SHARED = "\t", "\n", 15


def packed_words(rows: Sequence[tuple[str, str]]) -> bytes:
    """The file of these rows, read again. CheckFailed where it does not give them back."""
    shares, words, readings = zip(*_parted(rows), strict=True)
    columns = [_coded(texts) for texts in (words, readings)]
    parts = [
        bytes((share,)) + word + rest
        for share, word, rest in zip(shares, columns[0][1], columns[1][1], strict=True)
    ]
    # a block is found by halves, then read from its start
    blocks = [
        b"".join(parts[start : start + BLOCK_ROWS]) for start in range(0, len(parts), BLOCK_ROWS)
    ]
    # codes of words, then those of readings
    tables = [b"\0".join(code.encode() for code in codes) for codes, _ in columns]
    tables = [struct.pack("<I", len(table)) + table for table in tables]
    first = 16 + 4 * (len(blocks) + 1) + sum(map(len, tables))
    starts = np.cumsum([first, *map(len, blocks)]).astype("<u4").tobytes()
    content = (
        MAGIC
        + struct.pack("<III", FORMAT, BLOCK_ROWS, len(blocks))
        + starts
        + b"".join([*tables, *blocks])
    )
    # read back at once, as a port reads it
    if list(rows_of(content)) != list(rows):
        raise CheckFailed("packed words are not the words that were given")
    return content


def _parted(rows: Sequence[tuple[str, str]]) -> Iterator[tuple[int, str, str]]:
    """Shared characters, the rest of the word, the rest of what is said."""
    for place, (before, row) in enumerate(pairwise([("", ""), *rows])):
        word, reading = row
        one = two = 0
        # the first row of a block shares nothing
        if place % BLOCK_ROWS:
            one = min(len(commonprefix((before[0], word))), MOST_SHARED)
            two = min(len(commonprefix((before[1][1:], reading[1:]))), MOST_SHARED)
        rest = reading[0] + reading[1 + two :]
        yield 16 * one + two, word[one:] + END_OF_WORD, rest + END_OF_ROW


def _coded(texts: Sequence[str]) -> tuple[list[str], list[bytes]]:
    """The text of each code, and every text in codes: in a sample the most frequent pair becomes a
    code until no code is left.
    """
    symbols, end = sorted({*"".join(texts)}), texts[0][-1]
    codes = list(symbols)
    characters = [ord(symbol) for symbol in symbols]

    def coded(some: Sequence[str]) -> np.ndarray:
        points = np.frombuffer("".join(some).encode("utf-32-le"), "<u4")
        return np.asarray(np.searchsorted(characters, points))

    content, sample = coded(texts), coded(texts[::SAMPLE])
    while len(codes) < CODES:
        # a row's last code has nothing behind it
        within = np.array([not code.endswith(end) for code in codes])[sample[:-1]]
        counts = np.bincount((sample[:-1] * CODES + sample[1:])[within], minlength=1)
        left, right = divmod(int(counts.argmax()), CODES)
        sample, content = (_joined(each, left, right, len(codes)) for each in (sample, content))
        codes.append(codes[left] + codes[right])
    ends = np.flatnonzero(np.array([code.endswith(end) for code in codes])[content]) + 1
    return codes, [part.tobytes() for part in np.split(content.astype(np.uint8), ends[:-1])]


def _joined(content: np.ndarray, left: int, right: int, code: int) -> np.ndarray:
    """Every `left` with a `right` behind it as one `code`; of three alike the first two."""
    places = np.flatnonzero((content[:-1] == left) & (content[1:] == right))
    if left == right:
        # of each run of neighbouring places every second one
        runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
        places = np.concatenate([run[::2] for run in runs])
    content[places] = code
    return np.delete(content, places + 1)


def rows_of(content: bytes) -> Iterator[tuple[str, str]]:
    """Every word with what is said of it, as a port reads them."""
    blocks = struct.unpack_from("<I", content, 12)[0]
    starts, place, tables = struct.unpack_from(f"<{blocks + 1}I", content, 16), 20 + 4 * blocks, []
    for _ in range(2):
        begin, place = place + 4, place + 4 + struct.unpack_from("<I", content, place)[0]
        tables.append(content[begin:place].decode().split("\0"))
    for start, end in pairwise(starts):
        place, word, reading = start, "", ""
        while place < end:
            share, place = content[place], place + 1
            rest, place = _text(content, place, tables[0], END_OF_WORD)
            word = word[: share >> 4] + rest
            rest, place = _text(content, place, tables[1], END_OF_ROW)
            reading = rest[0] + reading[1 : 1 + (share & 15)] + rest[1:]
            yield word, reading


def _text(content: bytes, place: int, codes: Sequence[str], end: str) -> tuple[str, int]:
    """A text without its end, and what is behind it."""
    text = ""
    while not text.endswith(end):
        text, place = text + codes[content[place]], place + 1
    return text[:-1], place
