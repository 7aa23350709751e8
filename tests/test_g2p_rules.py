"""Rules that the fresh sets of issue 20 and misaki's prose asked for, each on sentences of its own; and the fitted confidence."""

import numpy as np
import pytest

from bench.g2p_names import read_words, wrong
from g2p import G2P
from g2p.decode import calibrated
from g2p.result import Guess
from g2p.training.calibrate import fitted


@pytest.fixture(scope="module")
def us() -> G2P:
    return G2P.load("us")


def said(g2p: G2P, text: str, place: int) -> str:
    words = [word for word in g2p.phonemize(text).words if word.source != "punctuation"]
    return words[place].phonemes


@pytest.mark.parametrize(
    ("text", "place", "phonemes"),
    [
        ("A Tale Of A Tub", 3, "ɐ"),
        ("Take vitamin A daily.", 2, "ˈA"),
        ("He got an A in math.", 3, "ˈA"),
        ("A and B", 0, "ˈA"),
        ("(a) Wash it.", 0, "ˈA"),
        ("This is a joke that's old.", 4, "ðæts"),
        ("I think that's old.", 2, "ðˈæts"),
        ("He agreed that cats sleep.", 2, "ðæt"),
        ("I fed that cat.", 2, "ðˈæt"),
        ("Our farmers live in huts.", 2, "lˈɪv"),
        ("A toad lives under it.", 2, "lˈɪvz"),
        ("The band played live in Rome.", 3, "lˈIv"),
        ("To never desert us is good.", 2, "dəzˈɜɹt"),
        ("A 9 minute wait", 2, "mˈɪnət"),
        ("He felt very upset.", 3, "ˌʌpsˈɛt"),
        ("It took his car permit away.", 4, "pˈɜɹmɪt"),
        ("They orbit the Sun.", 3, "sˈʌn"),
        ("Noooo", 0, "nˈO"),
        ("the NGOs", 1, "ˌɛnʤˌiˈOz"),
        ("my THOUGHTS exactly", 1, "θˈɔts"),
        ("a GNOME came", 1, "nˈOm"),
        ("a TSMC chip", 1, "tˌiˌɛsˌɛmsˈi"),
    ],
)
def test_rules(us: G2P, text: str, place: int, phonemes: str) -> None:
    assert said(us, text, place) == phonemes


@pytest.mark.parametrize(
    ("text", "spoken"), [("c u soon", "see you soon"), ("r u in", "are you in"), ("30 000 L of oil", "thirty thousand liters of oil")]
)
def test_shorthand_and_groups(us: G2P, text: str, spoken: str) -> None:
    assert " ".join(word.spoken for word in us.phonemize(text).words) == spoken


@pytest.mark.parametrize(("name", "dialect", "share"), [("frequent_later", "us", 0.03), ("british_later", "gb", 0.05)])
def test_few_of_the_later_words_are_wrong(name: str, dialect: str, share: float) -> None:
    g2p, words = G2P.load(dialect), read_words(name)[name]
    assert len(wrong(lambda word: g2p.phonemize(word).phonemes, words)) <= share * len(words)


def test_fitted_confidence_is_the_share_of_right_answers() -> None:
    draw = np.random.default_rng(0)
    true = draw.uniform(0.05, 0.95, 20000)
    claimed = 1 / (1 + np.exp(-2 * np.log(true / (1 - true))))  # twice as sure as it may be
    slope, shift = fitted(claimed, draw.uniform(size=20000) < true)
    assert slope == pytest.approx(0.5, abs=0.03) and shift == pytest.approx(0, abs=0.05)
    shown = calibrated([Guess("x", float(one)) for one in claimed[:50]], slope, shift)
    assert np.allclose([guess.confidence for guess in shown], true[:50], atol=0.03)
    assert calibrated([Guess("", 0.0)], slope, shift) == [Guess("", 0.0)]


def test_the_american_network_shows_the_fitted_confidence() -> None:
    from g2p.neural import NeuralG2P

    shown = NeuralG2P.load()
    own = NeuralG2P(run=shown.run)
    word = ["blorfkin"]
    assert shown.confidence != (1.0, 0.0)
    assert shown.predict(word) == calibrated(own.predict(word), *shown.confidence) and shown.predict(word) != own.predict(word)
