"""The two annotated sources the tagger learns from, both from Debian packages with permissive licences (docs/g2p_heteronyms.md).

    apt-get install festlex-poslex wordnet-base
    .venv/bin/python -c 'from g2p.training.tagger.sources import examples, WORDNET; print(next(examples(WORDNET)))'

festlex-poslex 2.4 (University of Edinburgh): log P(word | tag) and tag trigrams of the Wall Street Journal, Penn tags in lower case.
wordnet-base 3.0 (Princeton): definitions and example sentences; the part of speech of the word an example illustrates is known.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.errors import InputError
from g2p.tagger.words import split_words

POSLEX = Path("/usr/share/festival/dicts")
WORDNET = Path("/usr/share/wordnet")
SHA256 = {
    "wsj.wp39.poslexR": "670916022d176c5f4c3e96cd182dbd938524a6e0283622a53f59e9bc5fa584c0",
    "wsj.wp39.tri.ngrambin": "ac8ba772b5f3e0a6f48fce9b485914df1a281315e5a4f5ca38db959d74797b1e",
    "data.adj": "c89120dfc1f046ddff4a631bf9b7e9fa1a36b5e86565a23bf82dbe14f30b88a7",
    "data.noun": "fea17d2f9656611334eac790e5d69e47645fa180c4aa481fb4cd9b3520754ca2",
    "data.verb": "adcf43e35b581e8036d8b5a52d63d9cd3d3b4870b2720d3c03c799df44777bc2",
    "data.adv": "444a63bf3955080ab7524f5079cfc07ff9bc682cb98bdb1db73b0fb9829f1139",
}


@dataclass(frozen=True)
class Example:
    """Words of one example or definition; `target` is the index of the illustrated word (None in a definition), `pos` its n, v, a or r."""

    words: tuple[str, ...]
    target: int | None
    pos: str


@dataclass(frozen=True)
class TagModel:
    """`emit[word][tag]` = log P(word | tag); `trigrams[a, b, c]` = log P(tag c | tags a, b); `prior[tag]` = log P(tag)."""

    tags: tuple[str, ...]
    emit: dict[str, dict[str, float]]
    trigrams: np.ndarray  # [T, T, T] float64
    prior: np.ndarray  # [T] float64


def read_bytes(folder: Path, name: str) -> bytes:
    """The file's content. Raises InputError when it is missing or has another SHA-256."""
    path = folder / name
    if not path.is_file():
        raise InputError(f"{path} does not exist: training needs the Debian packages festlex-poslex 2.4-1 and wordnet-base 1:3.0-37")
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[name]:
        raise InputError(f"{path} has SHA-256 {found[:12]}, the tagger was trained on {SHA256[name][:12]}")
    return content


def tag_model(folder: Path, smoothing: float = 0.1) -> TagModel:
    """Festival's lexicon and trigram table; counts are interpolated with the bigrams and the prior."""
    raw = read_bytes(folder, "wsj.wp39.tri.ngrambin")
    _, line, _, body = raw.split(b"\n", 3)
    tags = tuple(line.decode("ascii").split())
    counts = expand(np.frombuffer(body[: len(body) // 8 * 8], ">f8"), len(tags))  # [T, T, T]
    bigrams, singles = counts.sum(0), counts.sum((0, 1))  # [T, T], [T]
    prior = singles / singles.sum()
    second = (bigrams + smoothing * 50 * prior) / (bigrams.sum(1, keepdims=True) + smoothing * 50)
    third = (counts + smoothing * 50 * second[None]) / (counts.sum(2, keepdims=True) + smoothing * 50)
    return TagModel(tags, emissions(read_bytes(folder, "wsj.wp39.poslexR").decode("latin-1")), np.log(third), np.log(prior + 1e-12))


def expand(stream: np.ndarray, size: int) -> np.ndarray:
    """[T, T, T] counts from Festival's stream of doubles, where -n says that the value before it stands n times."""
    counts: list[float] = []
    for value in stream.tolist():
        if value < 0:
            counts.extend([counts[-1]] * int(-value - 1))
        else:
            counts.append(value)
    return np.array(counts).reshape(size, size, size)  # [T, T, T]


def emissions(text: str) -> dict[str, dict[str, float]]:
    """log P(word | tag) per word, from lines such as `("bow" ((nn -9.1) (vb -10.2) ) () )`."""
    found = {}
    for word, tags in re.findall(r'^\("([^"]+)" \((.*?)\) \(\) \)$', text, re.MULTILINE):
        found[word] = {tag: float(value) for tag, value in re.findall(r"\((\S+) (-?[\d.]+)\)", tags)}
    return found


def examples(folder: Path) -> Iterator[Example]:
    """Every example sentence of WordNet that shows a word of its synset, and every definition."""
    for pos in ("noun", "verb", "adj", "adv"):
        for line in read_bytes(folder, f"data.{pos}").decode("latin-1").splitlines():
            if not line.startswith("  "):
                yield from of_synset(line, {"adv": "r"}.get(pos, pos[0]))


def of_synset(line: str, pos: str) -> Iterator[Example]:
    """Definition and examples of one synset line."""
    head, _, gloss = line.partition(" | ")
    fields = head.split()
    names = {name.split("(")[0].lower() for name in fields[4 : 4 + 2 * int(fields[3], 16) : 2]}
    definition = gloss.split('; "')[0].strip(' ;"')
    yield Example(split_words(definition), None, pos)
    for sentence in re.findall(r'"([^"]+)"', gloss):
        words = split_words(sentence)
        target = next((index for index, word in enumerate(words) if shows(word.lower(), names, pos)), None)
        if target is not None:
            yield Example(words, target, pos)


def shows(word: str, names: set[str], pos: str) -> bool:
    """Is `word` a regular form of a name of the synset?"""
    if word in names:
        return True
    endings = {"n": ("s", "es"), "v": ("s", "es", "d", "ed", "ing"), "a": (), "r": ()}[pos]
    stems = {word[: -len(ending)] for ending in endings if word.endswith(ending) and len(word) > len(ending) + 2}
    if pos == "v":
        stems |= {stem + "e" for stem in stems} | {stem[:-1] for stem in stems if len(stem) > 2 and stem[-1] == stem[-2]}
    return bool(stems & names)
