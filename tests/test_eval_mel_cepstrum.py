"""The mel-cepstrum and MCD against pysptk, an independent implementation, on a real recording."""

import importlib
import sys
import types

import numpy as np
import pytest

from core.corpus import heldout
from demo.features import resampled
from eval.metrics.framing import FFT_SIZE, FRAME_LENGTH, frames
from eval.metrics.mel_cepstrum import ALPHA, ORDER, mel_cepstrum, warping
from eval.metrics.spectral import mcd_db
from eval.metrics.trial import Trial


@pytest.fixture(scope="module")
def sptk() -> types.ModuleType:
    """pysptk 1.0.1 imports pkg_resources, which setuptools 81 dropped; it needs it only to find its example audio."""
    sys.modules.setdefault("pkg_resources", types.SimpleNamespace(resource_filename=lambda *_: ""))
    return importlib.import_module("pysptk")


@pytest.fixture(scope="module")
def trial() -> Trial:
    """A second of speech, and the same with a little noise."""
    utterance = heldout()[0]
    speech = resampled(utterance.recording, 16_000)[24_000:48_000]
    return Trial(speech, speech + 1e-3 * np.random.default_rng(0).standard_normal(len(speech)))


def sptk_cepstrum(sptk: types.ModuleType, trial: Trial, signal: np.ndarray) -> np.ndarray:
    """pysptk's mcep of the trial's active frames, same window, FFT size and power floor."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME_LENGTH) / FRAME_LENGTH)
    padded = np.pad(frames(signal)[trial.baseline.active] * window, ((0, 0), (0, FFT_SIZE - FRAME_LENGTH)))
    options = {"miniter": 2, "maxiter": 30, "threshold": 1e-6, "etype": 1, "eps": trial.baseline.power_floor}
    return np.array([sptk.mcep(frame, ORDER, ALPHA, **options) for frame in padded])


def test_the_mel_constant_is_sptks_for_24_khz(sptk: types.ModuleType) -> None:
    assert sptk.util.mcepalpha(24_000) == pytest.approx(ALPHA, abs=5e-4)


def test_cepstrum_equals_sptk(sptk: types.ModuleType, trial: Trial) -> None:
    ours, theirs = trial.baseline.cepstrum, sptk_cepstrum(sptk, trial, trial.reference)
    assert ours.shape == theirs.shape == (int(trial.baseline.active.sum()), ORDER + 1)
    assert np.abs(ours - theirs).max() < 1e-4


def test_mcd_equals_sptk(sptk: types.ModuleType, trial: Trial) -> None:
    apart = sptk_cepstrum(sptk, trial, trial.reference) - sptk_cepstrum(sptk, trial, trial.test)
    expected = 6.14185 * np.linalg.norm(apart[:, 1:], axis=1).mean()  # 10 sqrt(2) / ln 10
    assert mcd_db(trial) == pytest.approx(expected, rel=1e-4)
    assert expected > 0.5


def test_warping_equals_sptks_freqt(sptk: types.ModuleType) -> None:
    cepstrum = np.random.default_rng(1).standard_normal(40)
    assert np.allclose(warping(40, ORDER + 1, ALPHA) @ cepstrum, sptk.freqt(cepstrum, ORDER, ALPHA), atol=1e-10)


def test_flat_spectrum_has_only_a_gain() -> None:
    cepstrum = mel_cepstrum(np.full((3, FFT_SIZE // 2 + 1), np.e**4))
    assert np.allclose(cepstrum[:, 0], 2.0)
    assert np.allclose(cepstrum[:, 1:], 0.0, atol=1e-9)


def test_gain_moves_only_c0(trial: Trial) -> None:
    power = trial.baseline.spectrum[:20]
    louder = mel_cepstrum(power * 4.0)
    assert np.allclose(louder[:, 1:], mel_cepstrum(power)[:, 1:], atol=1e-4)
    assert np.allclose(louder[:, 0] - mel_cepstrum(power)[:, 0], np.log(2.0), atol=1e-4)
