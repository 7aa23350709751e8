"""The weights that come with the repository reach their figures on a fixed sample of words they never saw."""

from pathlib import Path

import pytest

from g2p.neural import NeuralG2P
from g2p.rates import error_rates
from g2p.weights import WEIGHTS, read_manifest

SAMPLE = Path(__file__).parent / "data" / "g2p" / "held_out_words.tsv"
LARGEST_BYTES = 4_000_000


@pytest.fixture(scope="module")
def reader() -> NeuralG2P:
    return NeuralG2P.load()


def words_of(kind: str) -> dict[str, str]:
    """Word to phonemes; the sample is part of misaki's gold list."""
    rows = [line.split("\t") for line in SAMPLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {word: phonemes for name, word, phonemes in rows if name == kind}


@pytest.mark.parametrize(("kind", "per", "wer"), [("word", 5.0, 27.0), ("family", 9.0, 50.0)])
def test_held_out_words(reader: NeuralG2P, kind: str, per: float, wer: float) -> None:
    words = words_of(kind)
    assert len(words) == 150
    rates = error_rates([guess.phonemes for guess in reader.predict(list(words))], list(words.values()))
    assert rates.per <= per and rates.wer <= wer, rates


def test_confidence_tells_right_from_wrong(reader: NeuralG2P) -> None:
    words = words_of("word") | words_of("family")
    guesses = dict(zip(words, reader.predict(list(words)), strict=True))
    sure = [guess.phonemes == words[word] for word, guess in guesses.items() if guess.confidence > 0.9]
    unsure = [guess.phonemes == words[word] for word, guess in guesses.items() if guess.confidence < 0.3]
    assert len(sure) > 30 and sum(sure) / len(sure) > 0.9
    assert len(unsure) > 20 and sum(unsure) / len(unsure) < 0.4


def test_what_cannot_be_said_is_left_to_be_spelled(reader: NeuralG2P) -> None:
    for guess in reader.predict(["xkcd", "", "日本", "b2b", "a" * 40]):
        assert (guess.phonemes, guess.confidence) == ("", 0.0)


def test_names_nobody_listed(reader: NeuralG2P) -> None:
    found = dict(zip(["kokoro", "Blorf"], reader.predict(["kokoro", "Blorf"]), strict=True))
    assert found["kokoro"].phonemes.startswith("k") and found["Blorf"].phonemes == "blˈɔɹf"


def test_the_weights_are_small_and_say_where_they_came_from() -> None:
    assert WEIGHTS.stat().st_size <= LARGEST_BYTES
    assert {"seed", "steps", "plan", "examples"} <= set(read_manifest(WEIGHTS)["training"])
