"""Lines to try the g2p on: real ones from installed packages and the reader's documents, and
random ones from a seed.

    for line in lines(100_000, seed=0): ...
    problems(g2p, line)  # [] or what is wrong with the answer
"""

import random
import re
import string
from functools import cache, partial
from importlib.metadata import distributions
from pathlib import Path

from kokoro_g2p import G2P
from kokoro_g2p.alphabet import KNOWN, MAX_PHONEMES
from kokoro_g2p.lexicon import Lexicon
from kokoro_g2p.normalizer import normalize
from kokoro_g2p.overrides import extract
from kokoro_g2p.phonemizer import LateHeteronyms
from kokoro_g2p.result import Guess
from kokoro_g2p.splitting import cut_sentences, join_phonemes
from kokoro_g2p.word_lists import read

DOCUMENTS = (".md", ".rst", ".txt")
REAL = 0.4  # share of real lines; a quarter of these with a few characters changed
MAX_LINE = 1500  # characters
ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
PATTERNS = (DATA / "line_patterns.txt").read_text(encoding="utf-8").splitlines()


@cache
def real_lines():
    """Lines of the reader's documents and of installed packages' licences, descriptions and
    documents, each once.
    """
    files = {*ROOT.glob("*.md"), ROOT / "LICENSE"}
    for distribution in distributions():
        for file in distribution.files or ():
            if file.suffix in DOCUMENTS or file.name in (
                "METADATA",
                "LICENSE",
                "COPYING",
                "AUTHORS",
                "NOTICE",
            ):
                files.add(Path(str(distribution.locate_file(file))))
    unique_lines = {}
    for path in sorted(files):
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="surrogateescape")
            unique_lines.update(
                dict.fromkeys(line[:MAX_LINE] for line in text.splitlines() if line.strip())
            )
    return tuple(unique_lines)


@cache
def words():
    """Words of all four lists."""
    return tuple(
        sorted(
            {
                word
                for name in ("us_gold", "us_silver", "gb_gold", "gb_silver")
                for word in read(name)
            }
        )
    )


def lines(count, seed):
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


def sentence(generator):
    """Words, patterns and now and then a random character, with marks between."""
    parts = []
    for _ in range(generator.randint(1, 14)):
        kind = generator.random()
        item = (
            filled(generator.choice(PATTERNS), generator)
            if kind < 0.4
            else word(generator)
            if kind < 0.95
            else character(generator)
        )
        parts.append(
            item + generator.choice(("", "", "", ",", ".", "?", "!", ";", ":", " -", "..."))
        )
    return generator.choice((" ", " ", " ", "  ", "\t", "")).join(parts)


def word(generator):
    """A word of the lists as it is, capitalised, in capitals, or one nobody knows."""
    entry = generator.choice(words())
    change = generator.randrange(8)
    if change == 7:
        return "".join(
            generator.choice(string.ascii_lowercase) for _ in range(generator.randint(1, 16))
        )
    return (entry, entry, entry, entry, entry.capitalize(), entry.upper(), entry.replace("e", "é"))[
        change
    ]


def filled(pattern, generator):
    """A pattern with its places filled: w W a word, U capitals, L a letter, n a number, d a
    digit.
    """
    makers = {
        "w": lambda: generator.choice(words()).strip("'-."),
        "W": lambda: generator.choice(words()).strip("'-.").capitalize(),
        "U": lambda: "".join(
            generator.choice(string.ascii_uppercase) for _ in range(generator.randint(2, 5))
        ),
        "L": lambda: generator.choice(string.ascii_uppercase),
        "d": lambda: str(generator.randrange(10)),
        "n": lambda: str(generator.randrange(10 ** generator.randint(1, 12))),
    }
    return re.sub(r"\{(\w)\}", lambda match: makers[match.group(1)](), pattern)


def character(generator):
    """Any code point: ASCII, the first planes, private use and lone surrogates included."""
    return chr(
        generator.choice(
            (
                generator.randrange(32, 127),
                generator.randrange(0x0, 0x3000),
                generator.randrange(0x110000),
            )
        )
    )


def damaged(line, generator):
    """A line with up to five characters replaced, inserted or taken out."""
    characters = list(line)
    for _ in range(generator.randint(1, 5)):
        place = generator.randrange(len(characters) + 1)
        characters[place : place + generator.randrange(3)] = [
            character(generator)
        ] * generator.randrange(2)
    return "".join(characters)


def problems(g2p, line):
    """What is wrong with the answer to `line`: foreign symbols, empty words, lost words, offsets,
    spaces, sentences that differ.
    """
    result, faults = g2p.phonemize(line), []
    if not KNOWN.issuperset(result.phonemes):
        faults.append(f"symbols {sorted(set(result.phonemes) - KNOWN)}")
    if any(not each.phonemes.strip() for each in result.words):
        faults.append("a word without phonemes")
    if any(line[each.start : each.end] != each.text or not each.text for each in result.words):
        faults.append("offsets")
    if [each.start for each in result.words] != sorted(each.start for each in result.words):
        faults.append("order")
    if join_phonemes(result.words) != result.phonemes or "  " in result.phonemes:
        faults.append("spaces")
    lost = lost_words(line, result)
    if lost:
        faults.append(f"lost {lost}")
    parts = list(g2p.sentences(line))
    if any(not 0 < len(part.phonemes) <= MAX_PHONEMES for part in parts):
        faults.append("length of a sentence")
    if "".join(part.phonemes for part in parts).replace(" ", "") != result.phonemes.replace(
        " ", ""
    ):
        faults.append("sentences differ from the whole")
    return faults


def lost_words(line, result):
    """Runs of Latin letters and digits that no word covers, and that are neither named among the
    drops nor the target of an override.
    """
    marked = extract(line)
    covered = bytearray(b"\1" * len(line))  # override markup is not text
    for start, piece in zip((*marked.starts,), (*marked.starts[1:], len(marked.text)), strict=True):
        if start < piece:
            first, last = marked.find_original(start, piece)
            covered[first:last] = bytes(last - first)
    for first, last in [drop[:2] for drop in result.drops if drop[2] not in UNSPOKEN] + [
        (each.start, each.end) for each in result.words
    ]:
        covered[first:last] = b"\1" * (last - first)
    return [
        match.group()
        for match in re.finditer(r"[A-Za-z0-9À-ÖØ-öø-ſ]+", line)
        if 0 in covered[match.start() : match.end()]
    ]


UNSPOKEN = ("symbol", "bracket")  # reasons that no letter and no digit may be dropped for
BREAKS = (
    "\n",
    "\n\n",
    "\r\n",
    "\t",
    "\v",
    "\f",
    "\x85",
    "\u2028",
    " \n ",
    "\n- ",
    "\n1. ",
    "\n\t",
    "\xa0",
    "\u200b",
    " ",
)
MARKS = "<>/\\|&%$€£#@^~*_-–—−=+'\"“”‘’«»¿¡()[]{}.,;:!?…°ºª½∛²•→←★©§😀❤️1️⃣"
HEADS = (
    "<Enter>§</b>§<b>§<p class=x>§<time>§code§PIN:§on 3/4§12/25§30s§B-§"
    "-inf§A$AP§R$5§$20§€3,5§el 3/4§II§S. Pietro§nº 5§24/7§l'ABC§Ⅳ§f'(2)§x2§"
    "M-F§0600 hours§<break time='1s'/>§"
    "<say-as interpret-as='digits'>12</say-as>§<sub alias='x'>y</sub>§"
    "<phoneme ph='a'>b</phoneme>§</speak>§[x](/a/)§a<b"
).split("§")
SCRIPTS = "абвΩλअआกขㄱ가日本語かなカナعربيעבאქართ"


def mixed(generator):
    """Lines of words, marks, codes and letters of many scripts, with every kind of white space
    between them.
    """
    makers = (
        lambda: word(generator),
        lambda: generator.choice(HEADS),
        lambda: generator.choice(MARKS) * generator.randint(1, 3),
        lambda: str(generator.randrange(10 ** generator.randint(1, 12))),
        lambda: generator.choice(SCRIPTS),
        lambda: character(generator),
        lambda: filled(generator.choice(PATTERNS), generator),
        lambda: generator.choice(BREAKS),
    )
    pieces = (
        generator.choice(makers)() + generator.choice((" ", " ", "", *BREAKS))
        for _ in range(generator.randint(1, 24))
    )
    return "".join(pieces)


class Letters:
    """In the network's place, which is most of the time: the same answer to every word."""

    def predict(self, words):
        return [Guess("blˈɔɹf", 0.5) for _ in words]


def reader(language):
    """All stages but the network."""
    if language not in ("us", "gb"):
        return G2P.load(language)
    lists = Lexicon.load(language)
    return G2P(partial(normalize, known=lists.has_word), lists, LateHeteronyms(), Letters())


def pieces_of(text, step):
    """Offset and text of the segments of a text, which are the same where it arrives in pieces of
    `step` characters.
    """
    whole = list(cut_sentences(text))
    assert all(text[offset : offset + len(part)] == part for offset, part in whole)
    assert whole == list(cut_sentences(text[at : at + step] for at in range(0, len(text), step)))
    return whole
