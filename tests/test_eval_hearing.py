"""Words, voices and predicted quality: each tells apart what it claims to tell apart, and a missing package is one clear line."""

import importlib.util

import numpy as np
import pytest

from kokoro_ane.core.errors import InputError
from kokoro_ane.eval.metrics import listeners
from kokoro_ane.eval.metrics.listeners import distillmos_of, dnsmos_of, recognized, voiceprint_of, words_heard, words_of
from kokoro_ane.eval.metrics.trial import Baseline, Heard, Trial
from kokoro_ane.eval.metrics.whole_clip import distillmos_loss, dnsmos_loss, speaker_distance, word_errors_added, words_changed
from kokoro_ane.quantize.corpus import heldout
from tests.signals import resampled, white_noise


def recording(index: int) -> np.ndarray:
    """A held-out recording at 24 kHz."""
    return resampled(heldout()[index].recording, 16_000)


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    return recording(0)


@pytest.fixture(scope="module")
def known(speech: np.ndarray) -> Baseline:
    return Baseline(speech, (), heldout()[0].text, Heard(speech))


def test_words_of_a_text_are_as_said() -> None:
    assert words_of("Dr. Smith paid $3.50; isn't it?") == (
        "doctor",
        "smith",
        "paid",
        "three",
        "dollars",
        "and",
        "fifty",
        "cents",
        "isn't",
        "it",
    )
    assert words_of("well-known") == ("well", "known")


def test_the_recognizer_hears_most_of_a_recording_and_forgets_the_last(speech: np.ndarray) -> None:
    first = words_heard(speech)
    wanted = set(words_of(heldout()[0].text))
    assert len(wanted & set(first)) >= len(wanted) / 2
    words_heard(recording(1))
    assert words_heard(speech) == first
    listeners._decoder.cache_clear()
    assert words_heard(speech) == first  # a fresh recognizer hears the same
    assert recognized(np.zeros(8000)) == ()


def test_words_lost_are_counted(known: Baseline) -> None:
    same = Trial(known.reference, known.reference, text=known.text, known=known)
    assert (word_errors_added(same), words_changed(same)) == (0, 0)
    gone = known.reference.copy()
    gone[len(gone) // 3 : 2 * len(gone) // 3] *= 1e-3
    muted = Trial(known.reference, gone, text=known.text, known=known)
    assert word_errors_added(muted) >= 2
    assert words_changed(muted) >= 2


def test_words_need_a_text(speech: np.ndarray) -> None:
    with pytest.raises(InputError, match="what is said"):
        word_errors_added(Trial(speech, speech))


def test_voices_are_told_apart(known: Baseline) -> None:
    """Another sentence of the voice is nearer than the same speaker's pitch half an octave up, or another speaker."""
    ours, again, other = (voiceprint_of(recording(i)) for i in (0, 3, 1))
    assert heldout()[0].voice == heldout()[3].voice != heldout()[1].voice
    assert np.linalg.norm(ours) == pytest.approx(1.0, abs=1e-5)
    assert ours @ again > ours @ other + 0.1
    assert speaker_distance(Trial(known.reference, 0.5 * known.reference, known=known)) == pytest.approx(0.0, abs=0.01)
    assert speaker_distance(Trial(known.reference, white_noise(known.reference, 10), known=known)) > 1


def test_noise_costs_predicted_quality(known: Baseline) -> None:
    noisy = Trial(known.reference, white_noise(known.reference, 10), known=known)
    assert dnsmos_loss(noisy) > 0.3
    assert distillmos_loss(noisy) > 0.3
    assert 1 < dnsmos_of(known.reference) < 5
    assert 1 < distillmos_of(known.reference) < 5


def test_a_long_clip_is_heard_in_pieces(speech: np.ndarray) -> None:
    long = np.tile(speech, 5)
    assert dnsmos_of(long) == pytest.approx(dnsmos_of(speech), abs=0.3)
    assert distillmos_of(long) == pytest.approx(distillmos_of(speech), abs=0.5)
    assert dnsmos_of(3 * speech / np.abs(speech).max()) > 1  # beyond full scale is brought down, not refused


def test_what_was_heard_is_kept_whole(speech: np.ndarray, known: Baseline) -> None:
    assert known.kept is not None
    again = Heard.read(known.kept.plain())
    assert again.words == known.kept.words
    assert np.array_equal(again.voiceprint, known.kept.voiceprint)
    assert (again.dnsmos, again.distillmos) == (known.kept.dnsmos, known.kept.distillmos)


@pytest.mark.parametrize(("package", "ask"), [("speechmos", dnsmos_of), ("distillmos", distillmos_of), ("resemblyzer", voiceprint_of)])
def test_a_missing_package_is_one_line(package: str, ask, speech: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == package else found(name, *more))
    for loader in (listeners._dnsmos, listeners._distillmos, listeners._voice_encoder):
        loader.cache_clear()
    with pytest.raises(InputError, match=f"{package}, which is not installed: pip install"):
        ask(speech)


def test_a_missing_recognizer_is_one_line(speech: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pocketsphinx", None)
    listeners._decoder.cache_clear()
    with pytest.raises(InputError, match="pocketsphinx, which is not installed"):
        words_heard(speech)
