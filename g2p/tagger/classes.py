"""Ambiguity class of any word: a short string of letters, the likeliest part of speech first, such as `nv` for `record`.

    .venv/bin/python -c 'from g2p.tagger.model import Tagger; print(Tagger.load().classes("record"))'

n N nouns (singular and names, plural), v verb base and present, z third person, d past, e past participle, g -ing, j adjective, r adverb,
M modal, D determiner, S possessive, P subject pronoun, O object pronoun, I preposition, T to, C conjunction, W wh-word, 0 number; a mark is
its own class. Words that the ending rules get right are not stored.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from g2p.tagger.words import word_set

LETTERS = {
    "nn": "n", "nnp": "n", "nns": "N", "nnps": "N", "vb": "v", "vbp": "v", "vbz": "z", "vbd": "d", "vbn": "e", "vbg": "g",
    "jj": "j", "jjr": "j", "jjs": "j", "rb": "r", "rbr": "r", "rbs": "r", "rp": "r", "md": "M", "dt": "D", "pdt": "D", "prp": "P",
    "in": "I", "of": "I", "to": "T", "cc": "C", "wdt": "W", "wp": "W", "wrb": "W", "cd": "0", "ex": "X", "pos": "'",
}  # fmt: skip
PRONOUNS = (
    dict.fromkeys(word_set("my your his her its our their whose"), "S")
    | dict.fromkeys(word_set("i he she we they you it"), "P")
    | dict.fromkeys(word_set("me him us them myself himself herself itself themselves yourself ourselves"), "O")
)
CONTRACTIONS = (("n't", "M"), ("'ll", "PM"), ("'d", "PM"), ("'ve", "Pv"), ("'re", "Pv"), ("'m", "Pv"), ("'s", "n'"), ("s'", "N'"))
ENDINGS = tuple(
    (ending, letters)
    for letters, endings in (
        ("r", "ly"),
        ("g", "ing"),
        ("ed", "ed"),
        ("j", "ous ful able ible less ive"),
        ("n", "ness ment tion sion ity ss us is"),
        ("N", "s"),
    )
    for ending in endings.split(" ")
)
SHARE = 0.1  # a reading under this share is left out of the class


@dataclass
class Classes:
    """Call with a word: its class. `stored` holds what the rules would get wrong; answers are kept for the life of the object."""

    stored: Mapping[str, str]
    kept: dict[str, str] = field(default_factory=dict)

    def __call__(self, word: str) -> str:
        """Class of `word`; capital letters matter only for unknown words."""
        found = self.kept.get(word)
        if found is None:
            lower = word.lower()
            found = self.stored.get(lower) or guess(word)
            if len(self.kept) < 50_000:
                self.kept[word] = found
        return found


def guess(word: str) -> str:
    """Class from the form of the word alone."""
    lower = word.lower()
    if lower in PRONOUNS:
        return PRONOUNS[lower]
    if not word or not word[0].isalnum():
        return word[:1]
    if word[0].isdigit():
        return "0"
    for ending, letter in CONTRACTIONS:
        if lower.endswith(ending):
            return letter
    if word[0].isupper():
        return "n"
    for ending, letter in ENDINGS:
        if lower.endswith(ending):
            return letter
    return "n"


def of_readings(readings: Mapping[str, float], prior: Mapping[str, float]) -> str:
    """Class from log P(word | tag) and log P(tag)."""
    shares: dict[str, float] = {}
    for tag, value in readings.items():
        if tag in LETTERS:
            letter = LETTERS[tag]
            shares[letter] = shares.get(letter, 0.0) + math.exp(value + prior[tag])
    total = sum(shares.values())
    return "".join(sorted((letter for letter in shares if shares[letter] >= SHARE * total), key=lambda letter: -shares[letter]))
