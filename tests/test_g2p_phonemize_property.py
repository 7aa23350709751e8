"""3,000 real and random lines through the g2p: no foreign symbol, no empty word, no lost word; `bench.g2p_property` does 100,000.

The neural model is replaced by one that misbehaves, so that the rules around it are what is tested.
"""

import random
from collections.abc import Sequence
from functools import cache

import pytest

from bench.g2p_lines import character, lines, problems
from core.contract import MAX_PHONEMES
from g2p import G2P
from g2p.lexicon import Lexicon
from g2p.normalize import normalize
from g2p.result import Dialect, Guess, Normalized
from g2p.stages import LateHeteronyms


class Unruly:
    """Guesses with foreign symbols, without phonemes, and good ones."""

    def predict(self, words: Sequence[str]) -> list[Guess]:
        return [Guess(("blˈɔɹf", "", "g#", "\ue000")[len(word) % 4], 0.5) for word in words]


@cache
def g2p(dialect: Dialect) -> G2P:
    return G2P(normalize, Lexicon.load(dialect), LateHeteronyms(), Unruly())


@pytest.mark.parametrize(("dialect", "count", "seed"), [("us", 2000, 7), ("gb", 1000, 8)])
def test_lines(dialect: Dialect, count: int, seed: int) -> None:
    wrong = [(found, line) for line in lines(count, seed) if (found := problems(g2p(dialect), line))]
    assert not wrong, [(found, ascii(line)) for found, line in wrong[:5]]


@pytest.mark.parametrize("seed", range(3))
def test_a_word_of_any_length(seed: int) -> None:
    """Nothing is too long: letters, digits, marks, one override, each thousands of characters long."""
    generator = random.Random(seed)
    letters = "".join(generator.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(6000))
    for line in (
        letters,
        letters.upper(),
        "7" * 5000,
        "a." * 3000,
        "!?" * 3000,
        "[" * 5000,
        "[a](/" + "h" * 390 + "/)" * 9,
        "-" * 5000 + "a",
        "a'" * 2000,
    ):
        assert not problems(g2p("us"), line), line[:20]
        assert all(len(part.phonemes) <= MAX_PHONEMES for part in g2p("us").sentences(line))


def test_the_check_can_fail() -> None:
    """A normalizer that loses words, one that lies about offsets, and phonemes nobody knows are all caught."""
    whole = Lexicon.load("us")

    def losing(text: str, dialect: Dialect) -> Normalized:
        return Normalized(normalize(text, dialect=dialect).tokens[1:])

    def lying(text: str, dialect: Dialect) -> Normalized:
        return Normalized(tuple(reversed(normalize(text, dialect=dialect).tokens)))

    assert problems(G2P(losing, whole), "one two three") == ["lost ['one']"]
    assert "order" in problems(G2P(lying, whole), "one two three")
    assert "symbols ['#']" in problems(G2P(normalize, Lexicon.load("us", {"two": "t#"})), "one two three")
    assert problems(G2P(normalize, whole), "one two three") == []


def test_the_lines_are_those_of_the_seed() -> None:
    assert list(lines(50, 3)) == list(lines(50, 3)) != list(lines(50, 4))
    assert character(random.Random(1)) == character(random.Random(1))
