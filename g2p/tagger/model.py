"""The tagger: probabilities of part-of-speech tags for one word of a sentence, from a table of int8 weights.

    .venv/bin/python -c 'from g2p.tagger.model import Tagger; print(Tagger.load().tag("They record a song .".split(), 1))'

A maximum-entropy model that looks at one word at a time, so only the words that need a tag cost anything.
"""

import io
import json
import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.errors import InputError
from core.staging import staged
from g2p.tagger.classes import Classes
from g2p.tagger.features import keys
from g2p.tagger.words import word_set

PATH = Path(__file__).resolve().parents[1] / "data" / "tagger.npz"
FORMAT = 1
TAGS = ("nn", "nns", "jj", "rb", "vb", "vbp", "vbz", "vbd", "vbn", "vbg", "dt", "in", "wdt")
FINITE, FINITE_LETTERS = frozenset(("vb", "vbp", "vbz", "vbd")), frozenset("vzdM")
VERBLESS = 2.5  # log-odds for the finite tags where a sentence has no other verb; set on the sentences to tune on
ENDS = frozenset(".?!…")
BASE = ("nn", "jj", "rb", "vb", "vbp")
PAST = (*BASE, "vbd", "vbn")
FORMS = {"ing": ("vbg", "nn", "jj"), "ed": ("vbd", "vbn", "jj"), "s": ("nns", "vbz"), "that": ("dt", "in", "wdt", "rb")}
IRREGULAR = word_set("read reread wound dove upset overcast offset undercut overrun put cut set hit")  # base and past alike


@dataclass(frozen=True)
class Tagger:
    """`rows`: CRC-32 of a feature to its row of `weights` [R, T] int8; `scale` makes them log-odds; `heteronyms`: words that are features
    themselves, with the tags they can have."""

    rows: Mapping[int, int]
    weights: np.ndarray  # [R, T] int8
    scale: float
    classes: Classes
    heteronyms: Mapping[str, tuple[str, ...]]

    @classmethod
    def load(cls, path: Path = PATH) -> "Tagger":
        """Read a file of `save`. Raises InputError when it is missing, damaged or of another format."""
        try:
            content = path.read_bytes()
        except (FileNotFoundError, IsADirectoryError):
            raise InputError(f"{path} does not exist: `python -m g2p.training.tagger.train` writes it") from None
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                return cls.from_arrays({name: arrays[name] for name in arrays.files})
        except (ValueError, KeyError, OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as problem:
            raise InputError(f"{path} is no tagger of format {FORMAT} ({problem}): `python -m g2p.training.tagger.train`") from None

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "Tagger":
        """Check and take apart what `to_arrays` made. Raises ValueError or KeyError."""
        head = json.loads(arrays["head"].tobytes().decode("utf-8"))
        if head["format"] != FORMAT or tuple(head["tags"]) != TAGS:
            raise ValueError(f"format {head['format']} with tags {' '.join(head['tags'])}")
        features, weights = arrays["features"], arrays["weights"]
        if weights.shape != (len(features), len(TAGS)) or weights.dtype != np.int8:
            raise ValueError(f"weights {weights.shape} {weights.dtype} for {len(features)} features")
        stored = {word: kind for kind, words in head["classes"].items() for word in words.split()}
        heteronyms = {word: tuple(tags.split()) for word, tags in head["heteronyms"].items()}
        rows = dict(zip(features.tolist(), range(len(features)), strict=True))
        return cls(rows, weights, float(head["scale"]), Classes(stored), heteronyms)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Arrays to store: `features` [R] uint32, `weights` [R, T] int8, `head` JSON as bytes."""
        grouped: dict[str, list[str]] = {}
        for word, kind in sorted(self.classes.stored.items()):
            grouped.setdefault(kind, []).append(word)
        head = {
            "format": FORMAT,
            "tags": TAGS,
            "scale": self.scale,
            "heteronyms": {word: " ".join(tags) for word, tags in sorted(self.heteronyms.items())},
            "classes": {kind: " ".join(words) for kind, words in sorted(grouped.items())},
        }
        content = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
        return {"features": np.fromiter(self.rows, np.uint32), "weights": self.weights, "head": np.frombuffer(content, np.uint8)}

    def save(self, path: Path = PATH) -> None:
        """Write by rename; the same tagger gives the same bytes (zip members carry no time)."""
        with staged(path) as aside:
            np.savez_compressed(aside, allow_pickle=False, **self.to_arrays())

    def probabilities(self, words: Sequence[str], at: int, tags: Sequence[str] | None = None) -> dict[str, float]:
        """Probability of each tag of `words[at]` among `tags` (default: those the word, or its form, can have)."""
        lower, rows = words[at].lower(), self.rows
        allowed = tags or self.heteronyms.get(lower) or possible(lower)
        known = lower in self.heteronyms and lower not in IRREGULAR
        found = [rows[key] for key in keys(words, at, self.classes, known) if key in rows]
        scores = self.weights[found].sum(0, dtype=np.int32) * self.scale  # [T]
        bonus = VERBLESS if self.lacks_verb(words, at) else 0.0
        chosen = [float(scores[TAGS.index(tag)]) + bonus * (tag in FINITE) for tag in allowed]
        top = max(chosen)
        shares = [math.exp(score - top) for score in chosen]
        total = sum(shares)
        return {tag: share / total for tag, share in zip(allowed, shares, strict=True)}

    def lacks_verb(self, words: Sequence[str], at: int) -> bool:
        """Is this a whole sentence (it ends with a mark) in which no other word can be its verb?"""
        return words[-1] in ENDS and not any(FINITE_LETTERS & {*self.classes(word)} for index, word in enumerate(words) if index != at)

    def tag(self, words: Sequence[str], at: int, tags: Sequence[str] | None = None) -> str:
        """The most probable tag of `words[at]`."""
        shares = self.probabilities(words, at, tags)
        return max(shares, key=lambda tag: shares[tag])


def possible(word: str) -> tuple[str, ...]:
    """Tags the form of a word allows."""
    lower = word.lower()
    if lower in IRREGULAR:
        return PAST
    if lower in FORMS:
        return FORMS[lower]
    for ending in ("ing", "ed", "s"):
        if lower.endswith(ending) and not lower.endswith(("ss", "eed", "us", "is")) and len(lower) > len(ending) + 2:
            return FORMS[ending]
    return BASE
