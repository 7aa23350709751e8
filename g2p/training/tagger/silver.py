"""Tags for training: Festival's trigram model over a sentence, with what WordNet says of the illustrated word as a constraint.

    python -c 'from g2p.training.tagger.silver import Silver; print(Silver.load().tags(("They", "record", "a", "record", "."), {}))'

Run at training only. The words around an illustrated word get better tags because its own part of speech is known.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from g2p.tagger.words import word_set
from g2p.training.tagger.sources import POSLEX, WORDNET, TagModel, read_bytes, tag_model

PARTS = {
    "n": ("nn", "nns", "nnp", "nnps"),
    "v": ("vb", "vbp", "vbz", "vbd", "vbn", "vbg"),
    "a": ("jj", "jjr", "jjs"),
    "r": ("rb", "rbr", "rbs"),
}
VERBAL = ("vb", "vbp", "vbz", "vbd", "md")
POSSESSIVES, SUBJECTS = word_set("my your our their its whose"), word_set("i he she we they")
UNSEEN = -12.5  # log P(word | tag) of a reading only WordNet knows; the rarest word Festival has seen stands at -11.7
SEQUENCE_START = ("punc", "punc")


@dataclass(frozen=True)
class Silver:
    """The tag model, and which words WordNet lists as n, v, a, r."""

    model: TagModel
    lemmas: Mapping[str, str]

    @classmethod
    def load(cls, poslex: Path = POSLEX, wordnet: Path = WORDNET) -> "Silver":
        """Read both sources. Raises InputError when one is missing or another version."""
        return cls(tag_model(poslex), lemmas(wordnet))

    @cached_property
    def table(self) -> list[list[list[float]]]:
        """[T][T][T] log P(tag | two tags) as lists: faster than an array for single numbers."""
        return self.model.trigrams.tolist()

    @cached_property
    def index(self) -> dict[str, int]:
        """Number of each tag."""
        return {tag: number for number, tag in enumerate(self.model.tags)}

    def readings(self, word: str) -> dict[str, float]:
        """log P(word | tag) for each tag the word can have; a guess from its form for an unknown one."""
        lower = word.lower()
        found = {tag: value for tag, value in self.model.emit.get(lower, {}).items() if tag not in ("1", "2", "sym", "ls", "fw")}
        closed = any(tag in found for tag in ("dt", "in", "prp", "md", "cc", "to", "of", "wdt", "wp", "punc"))
        if word == lower and len(found) > 1:
            found.pop("nnp", None)
        for tag in () if closed else self.known_tags(lower):
            found.setdefault(tag, UNSEEN)
        return found or by_form(word)

    def known_tags(self, word: str) -> set[str]:
        """Tags that WordNet's parts of speech allow for this form."""
        tags: set[str] = set()
        for form, per_part in forms(word):
            for part in self.lemmas.get(form, ""):
                tags.update(per_part.get(part, ()))
        return tags

    def tags(self, words: Sequence[str], known: Mapping[int, tuple[str, ...]]) -> list[str]:
        """Best tag sequence (Viterbi); `known` restricts the tags at some indices where one of them is possible."""
        index, table = self.index, self.table
        first, second = (index[tag] for tag in SEQUENCE_START)
        states: dict[tuple[int, int], float] = {(first, second): 0.0}
        back: list[dict[tuple[int, int], int]] = []
        for position, word in enumerate(words):
            choices = after_pronoun(words[position - 1].lower() if position else "", self.readings(word))
            if position in known:
                choices = {tag: value for tag, value in choices.items() if tag in known[position]} or dict.fromkeys(known[position], UNSEEN)
            step: dict[tuple[int, int], float] = {}
            came: dict[tuple[int, int], int] = {}
            for tag, emission in choices.items():
                number = index[tag]
                for (before, last), score in states.items():
                    total = score + table[before][last][number] + emission
                    if total > step.get((last, number), -math.inf):
                        step[last, number] = total
                        came[last, number] = before
            states = step
            back.append(came)
        return self.trace(states, back)

    def trace(self, states: Mapping[tuple[int, int], float], back: list[dict[tuple[int, int], int]]) -> list[str]:
        """Follow the best last state back to the start."""
        last = max(states, key=lambda state: states[state])
        found = []
        for came in reversed(back):
            found.append(self.model.tags[last[1]])
            last = (came[last], last[0])
        return found[::-1]


def after_pronoun(pronoun: str, readings: dict[str, float]) -> dict[str, float]:
    """No verb after my, no noun after they: Festival's corpus has one tag for both kinds of pronoun."""
    if pronoun in POSSESSIVES:
        left = {tag: value for tag, value in readings.items() if tag not in VERBAL}
    elif pronoun in SUBJECTS:
        left = {tag: value for tag, value in readings.items() if tag not in ("nn", "nns", "nnp", "jj")}
    else:
        return readings
    return left or readings


def lemmas(wordnet: Path) -> dict[str, str]:
    """Word to the letters of its parts of speech, from the synsets; only single lower-case words."""
    found: dict[str, set[str]] = {}
    for pos in ("noun", "verb", "adj", "adv"):
        for line in read_bytes(wordnet, f"data.{pos}").decode("latin-1").splitlines():
            if line.startswith("  "):
                continue
            fields = line.split(" | ")[0].split()
            for name in fields[4 : 4 + 2 * int(fields[3], 16) : 2]:
                word = name.split("(")[0]
                if word.isalpha() and word == word.lower():
                    found.setdefault(word, set()).add({"adv": "r"}.get(pos, pos[0]))
    return {word: "".join(sorted(parts)) for word, parts in found.items()}


ENDINGS: tuple[tuple[str, dict[str, tuple[str, ...]]], ...] = (
    ("s", {"n": ("nns",), "v": ("vbz",)}),
    ("ed", {"v": ("vbd", "vbn")}),
    ("ing", {"v": ("vbg",)}),
)


def forms(word: str) -> list[tuple[str, dict[str, tuple[str, ...]]]]:
    """Possible lemma of a form, with the tags the form would have for each part of speech."""
    found: list[tuple[str, dict[str, tuple[str, ...]]]] = [(word, {"n": ("nn",), "v": ("vb", "vbp"), "a": ("jj",), "r": ("rb",)})]
    for ending, tags in ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 2:
            stem = word[: -len(ending)]
            doubled = [stem[:-1]] if ending != "s" and stem[-1] == stem[-2] else []
            ies = [stem[:-2] + "y"] if word.endswith("ies") else [stem[:-1]] if word.endswith("es") else []
            found += [(form, tags) for form in (stem, stem + "e", *doubled, *ies)]
    return found


def by_form(word: str) -> dict[str, float]:
    """A reading for a word in neither source."""
    if not any(letter.isalnum() for letter in word):
        return {"punc": UNSEEN}
    if word[0].isdigit():
        return {"cd": UNSEEN}
    if word[0].isupper():
        return {"nnp": UNSEEN, "jj": UNSEEN - 2}
    for ending, tags in (("ly", ("rb",)), ("ing", ("vbg", "nn")), ("ed", ("vbn", "vbd", "jj")), ("s", ("nns", "vbz"))):
        if word.endswith(ending):
            return dict.fromkeys(tags, UNSEEN)
    return {"nn": UNSEEN, "jj": UNSEEN - 0.5, "vb": UNSEEN - 1.5}
