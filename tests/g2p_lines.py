"""Lines to try the g2p on: real ones from installed packages and this repository's documents, and random ones from a seed.

for line in lines(100_000, seed=0): ...
problems(g2p, line)       # [] or what is wrong with the answer
"""

import random
import re
import string
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

from kokoro_ane.core.contract import MAX_PHONEMES
from kokoro_ane.g2p import G2P
from kokoro_ane.g2p.alphabet import KNOWN
from kokoro_ane.g2p.chunks import joined
from kokoro_ane.g2p.normalize import analyse
from kokoro_ane.g2p.overrides import extract
from kokoro_ane.g2p.word_lists import read

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = (".md", ".rst", ".txt")
REAL = 0.4  # share of real lines; a quarter of these with a few characters changed
MAX_LINE = 1500  # characters
PATTERNS = (ROOT / "tests" / "data" / "g2p" / "line_patterns.txt").read_text(encoding="utf-8").splitlines()


@cache
def real_lines() -> tuple[str, ...]:
    """Lines of the repository's documents and of installed packages' licences, descriptions and documents, each once."""
    files = set((ROOT / "docs").glob("*.md")) | {ROOT / "README.md", ROOT / "LICENSE"}
    for distribution in distributions():
        for file in distribution.files or ():
            if file.suffix in DOCUMENTS or file.name in ("METADATA", "LICENSE", "COPYING", "AUTHORS", "NOTICE"):
                files.add(Path(str(distribution.locate_file(file))))
    found: dict[str, None] = {}
    for path in sorted(files):
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="surrogateescape")
            found.update(dict.fromkeys(line[:MAX_LINE] for line in text.splitlines() if line.strip()))
    return tuple(found)


@cache
def words() -> tuple[str, ...]:
    """Words of all four lists."""
    return tuple(sorted({word for name in ("us_gold", "us_silver", "gb_gold", "gb_silver") for word in read(name)}))


def lines(count: int, seed: int) -> Iterator[str]:
    """`count` lines: real, real with damage, sentences of words and patterns, random Unicode."""
    generator = random.Random(seed)
    for _ in range(count):
        kind = generator.random()
        if kind < REAL:
            line = generator.choice(real_lines())
            yield damaged(line, generator) if kind < REAL / 4 else line
        elif kind < 0.9:
            yield sentence(generator)
        else:
            yield "".join(character(generator) for _ in range(generator.randint(1, 60)))


def sentence(generator: random.Random) -> str:
    """Words, patterns and now and then a random character, with marks between."""
    parts = []
    for _ in range(generator.randint(1, 14)):
        kind = generator.random()
        item = filled(generator.choice(PATTERNS), generator) if kind < 0.4 else word(generator) if kind < 0.95 else character(generator)
        parts.append(item + generator.choice(("", "", "", ",", ".", "?", "!", ";", ":", " -", "...")))
    return generator.choice((" ", " ", " ", "  ", "\t", "")).join(parts)


def word(generator: random.Random) -> str:
    """A word of the lists as it is, capitalised, in capitals, or one nobody knows."""
    found = generator.choice(words())
    change = generator.randrange(8)
    if change == 7:
        return "".join(generator.choice(string.ascii_lowercase) for _ in range(generator.randint(1, 16)))
    return (found, found, found, found, found.capitalize(), found.upper(), found.replace("e", "é"))[change]


def filled(pattern: str, generator: random.Random) -> str:
    """A pattern with its places filled: w W a word, U capitals, L a letter, n a number, d a digit."""
    makers = {
        "w": lambda: generator.choice(words()).strip("'-."), "W": lambda: generator.choice(words()).strip("'-.").capitalize(),
        "U": lambda: "".join(generator.choice(string.ascii_uppercase) for _ in range(generator.randint(2, 5))),
        "L": lambda: generator.choice(string.ascii_uppercase), "d": lambda: str(generator.randrange(10)),
        "n": lambda: str(generator.randrange(10 ** generator.randint(1, 12))),
    }  # fmt: skip
    return re.sub(r"\{(\w)\}", lambda match: makers[match.group(1)](), pattern)


def character(generator: random.Random) -> str:
    """Any code point: ASCII, the first planes, private use and lone surrogates included."""
    return chr(generator.choice((generator.randrange(32, 127), generator.randrange(0x0, 0x3000), generator.randrange(0x110000))))


def damaged(line: str, generator: random.Random) -> str:
    """A line with up to five characters replaced, inserted or taken out."""
    characters = list(line)
    for _ in range(generator.randint(1, 5)):
        place = generator.randrange(len(characters) + 1)
        characters[place : place + generator.randrange(3)] = [character(generator)] * generator.randrange(2)
    return "".join(characters)


def warm(g2p: G2P, batch: Sequence[str]) -> None:
    """Let the neural model read the unknown words of many lines together: it is faster, and it answers the same."""
    for _ in g2p.sentences("\n\n".join(batch)):
        pass


def problems(g2p: G2P, line: str) -> list[str]:
    """What is wrong with the answer to `line`: foreign symbols, empty words, lost words, offsets, spaces, sentences that differ."""
    result, found = g2p.phonemize(line), []
    if not KNOWN.issuperset(result.phonemes):
        found.append(f"symbols {sorted(set(result.phonemes) - KNOWN)}")
    if any(not each.phonemes.strip() for each in result.words):
        found.append("a word without phonemes")
    if any(line[each.start : each.end] != each.text or not each.text for each in result.words):
        found.append("offsets")
    if [each.start for each in result.words] != sorted(each.start for each in result.words):
        found.append("order")
    if joined(result.words) != result.phonemes or "  " in result.phonemes:
        found.append("spaces")
    lost = lost_words(line, [(each.start, each.end) for each in result.words])
    if lost:
        found.append(f"lost {lost}")
    parts = list(g2p.sentences(line))
    if any(not 0 < len(part.phonemes) <= MAX_PHONEMES for part in parts):
        found.append("length of a sentence")
    if "".join(part.phonemes for part in parts).replace(" ", "") != result.phonemes.replace(" ", ""):
        found.append("sentences differ from the whole")
    return found


def lost_words(line: str, spans: list[tuple[int, int]]) -> list[str]:
    """Runs of ASCII letters and digits that no word covers and nobody counted as dropped or as the target of an override."""
    marked = extract(line)
    covered = bytearray(b"\1" * len(line))  # override markup is not text
    for start, piece in zip((*marked.starts,), (*marked.starts[1:], len(marked.text)), strict=True):
        if start < piece:
            first, last = marked.original(start, piece)
            covered[first:last] = bytes(last - first)
    for start, end, _ in analyse(marked.text)[1]:
        if start < end:
            first, last = marked.original(start, end)
            covered[first:last] = b"\1" * (last - first)
    for first, last in spans:
        covered[first:last] = b"\1" * (last - first)
    return [match.group() for match in re.finditer(r"[A-Za-z0-9]+", line) if 0 in covered[match.start() : match.end()]]
