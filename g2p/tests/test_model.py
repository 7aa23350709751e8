"""The neural model: its network, its decoder, and the bundled weights, which reach their figures on
words they never saw.
"""

import copy
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_g2p.alphabet import (
    AMERICAN,
    AMERICAN_VOWELS,
    BLANK,
    LETTERS,
    PRIMARY,
    SECONDARY,
    SOUNDS,
    encode,
    is_pronounceable,
)
from kokoro_g2p.ctc import (
    calibrate_guesses,
    collapse_path,
    decode_batch,
    find_stressed_path,
    is_legal,
    log_likelihoods,
)
from kokoro_g2p.network import LetterToSound
from kokoro_g2p.neural import WEIGHTS, Config, NeuralG2P, read_manifest
from kokoro_g2p.training.error_rates import compute_error_rates
from reader_tests.names import rows

TINY = Config(width=16, heads=2, inner=24, blocks=2, answers=(1,))
USED = [BLANK, *(AMERICAN.ids[sound] for sound in ("k", "ə", "ˈæ", "ˌæ", "ˈO"))]
LOGITS_APART = 1e-4  # of logits up to 30, in float32


@pytest.fixture(scope="module")
def tiny():
    torch.manual_seed(0)
    model = LetterToSound(TINY).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.mul_(3)  # answers that depend on the letters
    return model


@settings(max_examples=30, deadline=None)
@given(st.text(LETTERS, min_size=1, max_size=12), st.integers(1, 15))
def test_padding_changes_nothing(tiny, word, padding):
    """In float64: in float32 these large random weights alone come to 1e-4."""
    ids, exact = torch.tensor([encode(word)]), copy.deepcopy(tiny).double()
    wide = torch.nn.functional.pad(ids, (0, padding))
    assert float((exact(wide)[:, : ids.shape[1]] - exact(ids)).abs().max()) < 1e-9


def test_a_mask_left_out_is_seen(tiny):
    ids, longer = torch.tensor([encode("kokoro")]), torch.tensor([encode("kokoroo")])
    assert float((tiny(longer)[:, : ids.shape[1]] - tiny(ids)).abs().max()) > 100 * LOGITS_APART


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(max_size=40), max_size=6))
def test_any_text_gets_an_answer_a_word_and_each_is_legal(tiny, words):
    guesses = NeuralG2P(tiny.run).predict(words)
    assert len(guesses) == len(words)
    for word, guess in zip(words, guesses, strict=True):
        if not is_pronounceable(word):
            assert (guess.phonemes, guess.confidence) == ("", 0.0)
        if guess.phonemes:
            assert AMERICAN.cut(guess.phonemes) is not None
            assert guess.phonemes.count(PRIMARY) == any(
                symbol in AMERICAN_VOWELS for symbol in guess.phonemes
            )
            assert 0 < guess.confidence <= 1


def test_company_changes_nothing(tiny):
    reader, words = NeuralG2P(tiny.run), ["kokoro", "a", "zorbify", "well-read", "o'clock"]
    alone, together = [reader.predict([word])[0] for word in words], reader.predict(words)
    assert [guess.phonemes for guess in together] == [guess.phonemes for guess in alone]
    assert np.allclose([g.confidence for g in together], [g.confidence for g in alone], rtol=1e-3)


# log chances [frames, sounds] over the few sounds of USED
def _random_chances(generator, frames):
    chances = np.full((frames, len(SOUNDS)), -np.inf)
    drawn = generator.dirichlet(np.full(len(USED), 0.5), size=frames)
    chances[:, USED] = np.log(drawn + 1e-12)
    return chances


@pytest.mark.parametrize("seed", range(12))
def test_the_stressed_path_is_the_best_of_all_legal_ones(seed):
    chances = _random_chances(np.random.default_rng(seed), frames=5)
    stressed_path = find_stressed_path(chances)
    primary = [
        path for path in map(np.array, itertools.product(USED, repeat=5)) if _primaries(path) == 1
    ]
    best = max(chances[range(5), path].sum() for path in primary)
    assert _primaries(stressed_path) == 1
    assert chances[range(5), stressed_path].sum() == pytest.approx(best)


def _primaries(path):
    return sum(SOUNDS[sound].startswith(PRIMARY) for sound in collapse_path(path))


@pytest.mark.parametrize("seed", range(4))
def test_likelihoods_are_sums_over_paths(seed):
    chances = _random_chances(np.random.default_rng(seed), frames=5)
    answers, expected = [(USED[1], USED[3]), (USED[2],), (USED[1], USED[1])], []
    for answer in answers:
        paths = (
            path
            for path in map(np.array, itertools.product(USED, repeat=5))
            if collapse_path(path) == answer
        )
        expected.append(np.logaddexp.reduce([chances[range(5), path].sum() for path in paths]))
    assert log_likelihoods(np.stack([chances] * 3), answers) == pytest.approx(np.array(expected))


def test_two_stresses_or_none_are_repaired_and_no_vowel_needs_none():
    def logits(*row):
        scores = np.full((1, len(row), len(SOUNDS)), -4.0)
        for frame, sound in enumerate(row):
            scores[0, frame, AMERICAN.ids[sound]] = 4.0
        return scores

    assert decode_batch(logits("ˈæ", "k", "ˈO", ""), [2])[0].phonemes.count(PRIMARY) == 1
    assert decode_batch(logits("ə", "k", "ˌO", ""), [2])[0].phonemes.count(PRIMARY) == 1
    assert decode_batch(logits("s", "", "t", ""), [2])[0].phonemes == "st"
    assert (
        decode_batch(logits("ˌæ", "t", "ˈO", ""), [2])[0].phonemes
        == SECONDARY + "æt" + PRIMARY + "O"
    )
    assert not is_legal(())
    assert not is_legal((AMERICAN.ids["ə"],))
    assert is_legal((AMERICAN.ids["k"],))


LARGEST_BYTES = 4_000_000


@pytest.fixture(scope="module")
def reader():
    return NeuralG2P.load()


# word to phonemes; the sample is part of misaki's gold list
def words_of(kind):
    return {word: phonemes for name, word, phonemes in rows("held_out_words") if name == kind}


@pytest.mark.parametrize(("kind", "per", "wer"), [("word", 5.0, 27.0), ("family", 9.0, 50.0)])
def test_held_out_words(reader, kind, per, wer):
    words = words_of(kind)
    assert len(words) == 150
    rates = compute_error_rates(
        [guess.phonemes for guess in reader.predict(list(words))], list(words.values())
    )
    assert rates.per <= per, rates
    assert rates.wer <= wer, rates


def test_confidence_tells_right_from_wrong(reader):
    words = words_of("word") | words_of("family")
    guesses = dict(zip(words, reader.predict(list(words)), strict=True))
    sure = [
        guess.phonemes == words[word] for word, guess in guesses.items() if guess.confidence > 0.9
    ]
    unsure = [
        guess.phonemes == words[word] for word, guess in guesses.items() if guess.confidence < 0.3
    ]
    assert len(sure) > 30
    assert sum(sure) / len(sure) > 0.9
    assert len(unsure) > 20
    assert sum(unsure) / len(unsure) < 0.4


def test_the_weights_are_small_and_say_where_they_came_from():
    assert WEIGHTS.stat().st_size <= LARGEST_BYTES
    assert {"seed", "steps", "plan", "examples"} <= set(read_manifest(WEIGHTS)["training"])


def test_the_american_network_shows_the_fitted_confidence(reader):
    uncalibrated, word = NeuralG2P(run=reader.run), ["blorfkin"]
    assert reader.confidence != (1.0, 0.0)
    assert reader.predict(word) == calibrate_guesses(uncalibrated.predict(word), *reader.confidence)
    assert reader.predict(word) != uncalibrated.predict(word)
