"""Training words for the tagger, from the silver tags: features, tag, the tags the form allows, weight.

.venv/bin/python -c 'from g2p.training.tagger.items import collect; print(len(collect(limit=500).labels))'
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from g2p.misaki_data import read
from g2p.tagger.classes import PRONOUNS, Classes, guess, of_readings
from g2p.tagger.features import keys
from g2p.tagger.model import BASE, IRREGULAR, PAST, TAGS, possible
from g2p.training.tagger.patterns import sentences
from g2p.training.tagger.silver import PARTS, Silver
from g2p.training.tagger.sources import WORDNET, Example, examples

SAME = {"nnp": "nn", "nnps": "nns", "jjr": "jj", "jjs": "jj", "rbr": "rb", "rbs": "rb", "rp": "rb"}
EXTRA = (
    "lead",
    "leads",
    "resume",
    "resumes",
    "protest",
    "protests",
    "aged",
    "row",
)  # not in misaki's list, told apart by g2p.tagger.senses
HELD_OUT = 20  # one sentence of so many is kept out of training
KNOWN, SENTENCE, DEFINITION, PATTERN = 0, 1, 2, 3  # a tag is from WordNet itself, the tag model in an example, in a definition, the grammar
PATTERNS = 30_000  # made-up sentences


@dataclass(frozen=True)
class Items:
    """All M training words: `features` [total] uint32, `lengths` [M], `labels` [M], `allowed` [M, T], `origins` [M], `held_out` [M]."""

    features: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray
    allowed: np.ndarray
    origins: np.ndarray
    held_out: np.ndarray
    classes: Classes
    heteronyms: Mapping[str, tuple[str, ...]]


def collect(seed: int = 0, limit: int | None = None) -> Items:
    """Tag WordNet's sentences (the first `limit`), make as many others up as PATTERNS says, and take every word that has one of TAGS.

    A minute for all. Raises InputError.
    """
    silver = Silver.load()
    classes, heteronyms = Classes(stored_classes(silver)), word_tags(silver)
    named = heteronyms.keys() - IRREGULAR
    found: list[tuple[list[int], int, tuple[str, ...], int, bool]] = []

    def add(words: Sequence[str], at: int, tag: str, origin: int, number: int) -> None:
        allowed = PAST if possible(words[at]) == BASE else possible(words[at])
        if tag in allowed:
            features = keys(words, at, classes, origin != PATTERN and words[at].lower() in named)
            found.append((features, TAGS.index(tag), allowed, origin, number % HELD_OUT == 0))

    for number, example in enumerate(islice(examples(WORDNET), limit)):
        for at, tag, origin in tagged(silver, example):
            add(example.words, at, tag, origin, number)
    for number, pairs in enumerate(sentences(silver, PATTERNS if limit is None else limit, seed)):
        for at, (_, tag) in enumerate(pairs):
            if tag:
                add([word for word, _ in pairs], at, tag, PATTERN, number)
    return Items(
        features=np.fromiter((key for item in found for key in item[0]), np.uint32),
        lengths=np.array([len(item[0]) for item in found]),
        labels=np.array([item[1] for item in found]),
        allowed=np.array([[tag in item[2] for tag in TAGS] for item in found]),  # [M, T]
        origins=np.array([item[3] for item in found]),
        held_out=np.array([item[4] for item in found]),
        classes=Classes(classes.stored),
        heteronyms=heteronyms,
    )


def tagged(silver: Silver, example: Example) -> Iterator[tuple[int, str, int]]:
    """Index, tag and origin of each word of the example that can teach something."""
    known: dict[int, tuple[str, ...]] = {}
    if example.target is not None:
        known[example.target] = PARTS[example.pos]
    elif example.pos == "v" and example.words and "vb" in silver.readings(example.words[0]):
        known[0] = ("vb",)  # the definition of a verb begins with one
    for at, (word, tag) in enumerate(zip(example.words, silver.tags(example.words, known) if example.words else (), strict=True)):
        tag = SAME.get(tag, tag)
        if tag in TAGS and word[0].isalpha() and (tag not in ("dt", "in", "wdt") or word.lower() == "that"):
            yield at, tag, DEFINITION if example.target is None else KNOWN if at == example.target else SENTENCE


def stored_classes(silver: Silver) -> dict[str, str]:
    """Ambiguity class of every word of both sources that the ending rules would get wrong."""
    prior = dict(zip(silver.model.tags, silver.model.prior.tolist(), strict=True))
    stored = {}
    for word in sorted({*silver.model.emit, *silver.lemmas}):
        if word.isascii() and word.replace("'", "").isalpha() and len(word) <= 20 and word not in PRONOUNS:
            kind = of_readings(silver.readings(word), prior)
            if kind and kind != guess(word):
                stored[word] = kind
    return stored


def word_tags(silver: Silver) -> dict[str, tuple[str, ...]]:
    """Every heteronym of misaki's two gold lists, and EXTRA, with the tags the sources know for it."""
    words = {
        word
        for name in ("us_gold", "gb_gold")
        for word, entry in read(name).items()
        if isinstance(entry, dict) and {*entry} - {"DEFAULT", "None"}
    }
    found = {}
    for word in sorted({*words, *EXTRA}):
        if word == word.lower():
            readings = {SAME.get(tag, tag) for tag in silver.readings(word)} | ({"vbd", "vbn"} if word in IRREGULAR else set())
            found[word] = tuple(tag for tag in possible(word) if tag in readings) or possible(word)
    return found
