"""Pack words and their list entries into one compact file that a port maps into memory:
text/us.words of a bundle.

    content = pack_words([("lead", "g:DEFAULT=lˈid\tt=nv"), ...])   # sorted by code points
    dict(read_rows(content))["lead"]                                    # "g:DEFAULT=lˈid\tt=nv"

File: "KWRD", format, rows a block, count of rows, the offset of each block and of the end, three
tables of codes: of shares, of words, of entries. Numbers are uint32, little-endian. A table: its
length, how many codes have 1, 2, ... LONGEST bits, and their texts in that order, UTF-8 with a zero
between them: a canonical Huffman code (RFC 1951, 3.2.2), whose first bit is the highest of a byte.
A row: a share, which is 16 times the number of characters that the word shares with the row before,
plus the number that its entry shares with the entry before from the second character on; codes of
the rest of the word and a tab; codes of the rest of the entry and a line's end. The first row of a
block shares nothing, so that a binary search over the first words of the blocks finds the one block
to read.
"""

import heapq
import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from os.path import commonprefix

import numpy as np

from kokoro_g2p.errors import InputError

MAGIC, FORMAT, BLOCK_ROWS, CODES, SAMPLE, LONGEST = b"KWRD", 2, 64, 512, 8, 32
END_OF_WORD, END_OF_ROW, MOST_SHARED = "\t", "\n", 15


@dataclass(frozen=True)
class HuffmanCode:
    """A canonical code: its texts, the shortest code first, and the bits of each as text."""

    texts: Sequence[str]
    bits: Sequence[str]

    @classmethod
    def from_lengths(cls, texts: Sequence[str], lengths: Sequence[int]) -> "HuffmanCode":
        """Assign codes of these sorted lengths: each is its predecessor plus one, extended by
        zeros.
        """
        bits = []
        code = -1
        for before, length in pairwise((0, *lengths)):
            # Codes of one length count up; a longer one goes on with zeros behind.
            code = (code + 1) << (length - before)
            bits.append(f"{code:0{length}b}")
        return cls(texts, bits)

    @property
    def content(self) -> bytes:
        """The bytes of the table in the file."""
        lengths = [len(bits) for bits in self.bits]
        counts = [lengths.count(length) for length in range(1, LONGEST + 1)]
        content = struct.pack(f"<{LONGEST}I", *counts) + "\0".join(self.texts).encode()
        return struct.pack("<I", len(content)) + content

    def decode_text(self, bits: str, place: int) -> tuple[str, int]:
        """Return the text of the code that begins at `place`, and the place of the next code."""
        # Codes in order are sorted as text too: the last one not above the bits is their beginning.
        code = bisect_right(self.bits, bits[place : place + LONGEST]) - 1
        return self.texts[code], place + len(self.bits[code])

    def decode_until(self, end: str, bits: str, place: int) -> tuple[str, int]:
        """Return the joined texts from `place` to the first that ends in `end`, without `end`, and
        the place of the next code.
        """
        joined = ""
        while not joined.endswith(end):
            text, place = self.decode_text(bits, place)
            joined += text
        return joined[:-1], place


def pack_words(rows: Sequence[tuple[str, str]]) -> bytes:
    """Return the file of these rows. Raises RuntimeError where reading it does not return them."""
    shares, *texts = zip(*_split_rows(rows), strict=True)
    # Three codes, one for each column: a byte of shares, then words, then entries
    columns = [([*map(str, range(256))], [[share] for share in shares]), *map(_encode_texts, texts)]
    tables = [_build_table(texts, parts) for texts, parts in columns]
    # a block is found by binary search, then read from its start
    blocks = []
    for start in range(0, len(rows), BLOCK_ROWS):
        parts = zip(*(column[1][start : start + BLOCK_ROWS] for column in columns), strict=True)
        bits = "".join(
            codes[code]
            for row in parts
            for (_, codes), part in zip(tables, row, strict=True)
            for code in part
        )
        # Bits fill whole bytes, the last one with zeros.
        size = -(-len(bits) // 8)
        blocks.append(int(bits.ljust(8 * size, "0"), 2).to_bytes(size, "big"))
    contents = [table.content for table, _ in tables]
    # The head is 16 bytes, then a place for each block and the end, then the tables.
    first = 16 + 4 * (len(blocks) + 1) + sum(map(len, contents))
    starts = accumulate(map(len, blocks), initial=first)
    content = (
        MAGIC
        + struct.pack(f"<III{len(blocks) + 1}I", FORMAT, BLOCK_ROWS, len(rows), *starts)
        + b"".join([*contents, *blocks])
    )
    # read back at once, as a port reads it
    if list(read_rows(content)) != list(rows):
        raise RuntimeError("packed words are not the words that were given")
    return content


def _build_table(
    texts: Sequence[str], parts: Sequence[Sequence[int]]
) -> tuple[HuffmanCode, dict[int, str]]:
    """Return Huffman's code (1952) of the numbers in `parts` as a table, and the bits of each
    number.
    """
    counts = Counter(chain.from_iterable(parts))
    codes = sorted(counts)
    lengths = dict.fromkeys(counts, 0)
    # the two rarest groups become one, and every code in it a bit longer
    # Ties go by the code, so that the same words give the same file.
    groups = [(counts[code], code, [code]) for code in codes]
    heapq.heapify(groups)
    while len(groups) > 1:
        one, other = heapq.heappop(groups), heapq.heappop(groups)
        members = one[2] + other[2]
        for code in members:
            lengths[code] += 1
        heapq.heappush(groups, (one[0] + other[0], one[1], members))
    codes.sort(key=lambda code: (lengths[code], code))
    # A single code has no partner, and takes one bit all the same.
    table = HuffmanCode.from_lengths(
        [texts[code] for code in codes], [lengths[code] or 1 for code in codes]
    )
    return table, dict(zip(codes, table.bits, strict=True))


def _split_rows(rows: Sequence[tuple[str, str]]) -> Iterator[tuple[int, str, str]]:
    """Return of each row the share, the rest of the word, and the rest of the entry."""
    for place, (before, row) in enumerate(pairwise([("", ""), *rows])):
        word, entry = row
        word_shared = entry_shared = 0
        # the first row of a block shares nothing
        if place % BLOCK_ROWS:
            word_shared = min(len(commonprefix((before[0], word))), MOST_SHARED)
            entry_shared = min(len(commonprefix((before[1][1:], entry[1:]))), MOST_SHARED)
        rest = entry[0] + entry[1 + entry_shared :]
        yield 16 * word_shared + entry_shared, word[word_shared:] + END_OF_WORD, rest + END_OF_ROW


def _encode_texts(texts: Sequence[str]) -> tuple[list[str], list[list[int]]]:
    """Return the text of each code, and every text as codes. By byte-pair encoding: the most
    frequent pair of a sample becomes a code until CODES are used.
    """
    symbols = sorted({*"".join(texts)})
    # All texts end in one character, which no other place of them has.
    end = texts[0][-1]
    codes = list(symbols)
    characters = [ord(symbol) for symbol in symbols]

    def encode(some: Sequence[str]) -> np.ndarray:
        points = np.frombuffer("".join(some).encode("utf-32-le"), "<u4")
        return np.asarray(np.searchsorted(characters, points))

    content, sample = encode(texts), encode(texts[::SAMPLE])
    while len(codes) < CODES:
        # a row's last code has nothing behind it
        within = np.array([not code.endswith(end) for code in codes])[sample[:-1]]
        # A pair of codes as one number, so that a single count finds the most frequent
        counts = np.bincount((sample[:-1] * CODES + sample[1:])[within], minlength=1)
        left, right = divmod(int(counts.argmax()), CODES)
        # The sample is only counted; both texts get the new code.
        sample, content = (
            _replace_pair(each, left, right, len(codes)) for each in (sample, content)
        )
        codes.append(codes[left] + codes[right])
    ends = np.flatnonzero(np.array([code.endswith(end) for code in codes])[content]) + 1
    every = content.tolist()
    return codes, [every[start:end] for start, end in pairwise((0, *ends.tolist()))]


def _replace_pair(content: np.ndarray, left: int, right: int, code: int) -> np.ndarray:
    """Replace every `left` that `right` follows by `code`; of three alike the first two."""
    places = np.flatnonzero((content[:-1] == left) & (content[1:] == right))
    if left == right:
        # of each run of neighbouring places every second one
        runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
        places = np.concatenate([run[::2] for run in runs])
    # The left one becomes the pair, the right one goes.
    content[places] = code
    return np.delete(content, places + 1)


def read_rows(content: bytes) -> Iterator[tuple[str, str]]:
    """Return every word with its entry, read as a port reads them. Raises InputError for another
    format.
    """
    form, size, count = struct.unpack_from("<III", content, 4)
    if content[:4] != MAGIC or form != FORMAT:
        raise InputError(f"words of format {form}, not {FORMAT}: bundle again")
    blocks = -(-count // size)
    starts = struct.unpack_from(f"<{blocks + 1}I", content, 16)
    # Behind the head and the block's places
    place = 20 + 4 * blocks
    tables = []
    for _ in range(3):
        begin, place = place + 4, place + 4 + struct.unpack_from("<I", content, place)[0]
        counts = struct.unpack_from(f"<{LONGEST}I", content, begin)
        lengths = [length for length, count in enumerate(counts, 1) for _ in range(count)]
        texts = content[begin + 4 * LONGEST : place].decode().split("\0")
        tables.append(HuffmanCode.from_lengths(texts, lengths))
    shares, words, readings = tables
    for number, (start, end) in enumerate(pairwise(starts)):
        # Zeros at the front belong to the codes and must not be lost.
        bits = f"{int.from_bytes(content[start:end], 'big'):0{8 * (end - start)}b}"
        place, word, reading = 0, "", ""
        # The last block may hold fewer rows.
        for _ in range(min(size, count - number * size)):
            share, place = shares.decode_text(bits, place)
            rest, place = words.decode_until(END_OF_WORD, bits, place)
            word = word[: int(share) // 16] + rest
            rest, place = readings.decode_until(END_OF_ROW, bits, place)
            reading = rest[0] + reading[1 : 1 + int(share) % 16] + rest[1:]
            yield word, reading
