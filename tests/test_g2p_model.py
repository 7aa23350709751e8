"""The neural model's structure and its decoding, with random weights: padding changes nothing, no illegal answer."""

import copy
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from g2p.alphabet import (
    BLANK,
    LETTERS,
    MAX_LETTERS,
    PRIMARY,
    SECONDARY,
    SOUND_ID,
    SOUNDS,
    VOWELS,
    encode,
    folded,
    readable,
    sounds,
    speakable,
    without_stress,
)
from g2p.decode import best_stressed_path, collapsed, decoded_batch, legal, log_likelihoods
from g2p.model import LetterToSound, frames_of
from g2p.neural import NeuralG2P
from g2p.sizes import Config

TINY = Config(width=16, heads=2, inner=24, blocks=2, answers=(1,))
USED = [BLANK, *(SOUND_ID[sound] for sound in ("k", "ə", "ˈæ", "ˌæ", "ˈO"))]
LOGITS_APART = 1e-4  # of logits up to 30, in float32


@pytest.fixture(scope="module")
def tiny() -> LetterToSound:
    torch.manual_seed(0)
    model = LetterToSound(TINY).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.mul_(3)  # answers that depend on the letters
    return model


@settings(max_examples=30, deadline=None)
@given(st.text(LETTERS, min_size=1, max_size=12), st.integers(1, 15))
def test_padding_changes_nothing(tiny: LetterToSound, word: str, padding: int) -> None:
    """In float64: in float32 these large random weights alone come to 1e-4."""
    ids, exact = torch.tensor([encode(word)]), copy.deepcopy(tiny).double()
    wide = torch.nn.functional.pad(ids, (0, padding))
    assert float((exact(wide)[:, : ids.shape[1]] - exact(ids)).abs().max()) < 1e-9


def test_a_mask_left_out_is_seen(tiny: LetterToSound) -> None:
    ids = torch.tensor([encode("kokoro")])
    longer = torch.tensor([encode("kokoroo")])
    assert float((tiny(longer)[:, : ids.shape[1]] - tiny(ids)).abs().max()) > 100 * LOGITS_APART


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(max_size=40), max_size=6))
def test_any_text_gets_an_answer_a_word_and_each_is_legal(tiny: LetterToSound, words: list[str]) -> None:
    guesses = NeuralG2P(tiny).predict(words)
    assert len(guesses) == len(words)
    for word, guess in zip(words, guesses, strict=True):
        if not speakable(word):
            assert (guess.phonemes, guess.confidence) == ("", 0.0)
        if guess.phonemes:
            assert sounds(guess.phonemes) is not None
            assert guess.phonemes.count(PRIMARY) == any(symbol in VOWELS for symbol in guess.phonemes)
            assert 0 < guess.confidence <= 1


def test_company_changes_nothing(tiny: LetterToSound) -> None:
    reader, words = NeuralG2P(tiny), ["kokoro", "a", "zorbify", "well-read", "o'clock"]
    alone = [reader.predict([word])[0] for word in words]
    together = reader.predict(words)
    assert [guess.phonemes for guess in together] == [guess.phonemes for guess in alone]
    assert np.allclose([g.confidence for g in together], [g.confidence for g in alone], rtol=1e-3)


def test_case_accents_and_typographic_marks_are_folded() -> None:
    assert encode("Café") == encode("cafe")
    assert encode("O’Clock") == encode("o'clock")
    assert folded("ÀÉ‑x") == "ae-x"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("kokoro", True),
        ("nasa", True),
        ("Schwarz", True),
        ("borschts", True),
        ("xkcd", False),
        ("grrrrrrrra", False),
        ("abcdfghjklma", False),
        ("", False),
        ("naïve", True),
        ("日本", False),
        ("a1", False),
        ("a" * MAX_LETTERS, True),
        ("a" * (MAX_LETTERS + 1), False),
    ],
)
def test_what_can_be_said(word: str, expected: bool) -> None:
    assert speakable(word) is expected
    assert readable(word) or not expected


def test_sounds_are_cut_and_bad_ones_refused() -> None:
    assert sounds("həlˈO") == ("h", "ə", "l", "ˈO")
    assert without_stress("ˌæbdˈO") == "æbdO"
    for bad in ("hˈl", "hˈˈO", "hOˈ", "h?", ""):
        assert sounds(bad) is None


def _random_chances(generator: np.random.Generator, frames: int) -> np.ndarray:
    """Log chances [frames, sounds] over the few sounds of USED."""
    chances = np.full((frames, len(SOUNDS)), -np.inf)
    drawn = generator.dirichlet(np.full(len(USED), 0.5), size=frames)
    chances[:, USED] = np.log(drawn + 1e-12)
    return chances


@pytest.mark.parametrize("seed", range(12))
def test_the_stressed_path_is_the_best_of_all_legal_ones(seed: int) -> None:
    chances = _random_chances(np.random.default_rng(seed), frames=5)
    found = best_stressed_path(chances)
    primary = [path for path in map(np.array, itertools.product(USED, repeat=5)) if _primaries(path) == 1]
    best = max(chances[range(5), path].sum() for path in primary)
    assert _primaries(found) == 1
    assert chances[range(5), found].sum() == pytest.approx(best)


def _primaries(path: np.ndarray) -> int:
    return sum(SOUNDS[sound].startswith(PRIMARY) for sound in collapsed(path))


@pytest.mark.parametrize("seed", range(4))
def test_likelihoods_are_sums_over_paths(seed: int) -> None:
    chances = _random_chances(np.random.default_rng(seed), frames=5)
    answers = [(USED[1], USED[3]), (USED[2],), (USED[1], USED[1])]
    wanted = []
    for answer in answers:
        paths = (path for path in map(np.array, itertools.product(USED, repeat=5)) if collapsed(path) == answer)
        wanted.append(np.logaddexp.reduce([chances[range(5), path].sum() for path in paths]))
    assert log_likelihoods(np.stack([chances] * 3), answers) == pytest.approx(np.array(wanted))


def test_likelihood_agrees_with_torch(tiny: LetterToSound) -> None:
    ids = torch.tensor([encode("kokoro")])
    chances = frames_of(tiny(ids)).log_softmax(dim=2)
    answer = tuple(SOUND_ID[sound] for sound in ("k", "ə", "k", "ˈO"))
    loss = torch.nn.functional.ctc_loss(chances.transpose(0, 1), torch.tensor([answer]), [14], [4], reduction="none")
    assert float(log_likelihoods(chances.numpy(), [answer])[0]) == pytest.approx(-float(loss), rel=1e-5)


def test_two_stresses_or_none_are_repaired_and_no_vowel_needs_none() -> None:
    def logits(*row: str) -> np.ndarray:
        found = np.full((1, len(row), len(SOUNDS)), -4.0)
        for frame, sound in enumerate(row):
            found[0, frame, SOUND_ID[sound]] = 4.0
        return found

    assert decoded_batch(logits("ˈæ", "k", "ˈO", ""), [2])[0].phonemes.count(PRIMARY) == 1
    assert decoded_batch(logits("ə", "k", "ˌO", ""), [2])[0].phonemes.count(PRIMARY) == 1
    assert decoded_batch(logits("s", "", "t", ""), [2])[0].phonemes == "st"
    assert decoded_batch(logits("ˌæ", "t", "ˈO", ""), [2])[0].phonemes == SECONDARY + "æt" + PRIMARY + "O"
    assert not legal(()) and not legal((SOUND_ID["ə"],)) and legal((SOUND_ID["k"],))


def test_a_reader_has_one_source_of_logits(tiny: LetterToSound) -> None:
    with pytest.raises(ValueError, match="one of the two"):
        NeuralG2P()
    with pytest.raises(ValueError, match="one of the two"):
        NeuralG2P(tiny, run=lambda ids: ids)
