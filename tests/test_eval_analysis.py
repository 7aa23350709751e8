"""Mel-cepstrum, F0 and THD+N: closed forms, and the independent implementations of SPTK and Praat on a real recording."""

import importlib
import sys
import types

import numpy as np
import pytest

from kokoro_ane.core.contract import SAMPLE_RATE_HZ
from kokoro_ane.core.errors import InputError
from kokoro_ane.eval.metrics.framing import (
    ALPHA,
    FFT_SIZE,
    FRAME_LENGTH,
    ORDER,
    PITCH_FRAME,
    PITCH_HOP,
    frames,
    mel_cepstrum,
    track_pitch,
    warping,
)
from kokoro_ane.eval.metrics.trial import Tone, Trial
from kokoro_ane.eval.metrics.whole_clip import f0_rmse_cents, mcd_db, pause_floor_db, thd_n_db, thd_n_increase_db, voicing_error_percent
from kokoro_ane.quantize.corpus import heldout
from tests.signals import resampled


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


SECONDS = np.arange(36_000) / SAMPLE_RATE_HZ


def vowel(hz: float, brightness: float = 0.5) -> np.ndarray:
    """1.5 s of ten harmonics."""
    return 0.1 * sum(brightness**k * np.sin(2 * np.pi * hz * (k + 1) * SECONDS + k) for k in range(10))


@pytest.mark.parametrize("hz", [75.0, 110.0, 163.7, 220.0, 330.0])
def test_tracker_on_known_pitch(hz: float) -> None:
    track = track_pitch(vowel(hz))
    assert track.voiced.all()
    assert np.abs(1200 * np.log2(track.hz / hz)).max() < 5


def test_tracker_against_praat() -> None:
    import parselmouth

    speech = resampled(heldout()[0].recording, 16_000)
    track = track_pitch(speech)
    praat = parselmouth.Sound(speech, SAMPLE_RATE_HZ).to_pitch_ac(time_step=0.01, pitch_floor=60, pitch_ceiling=400)
    times = (np.arange(len(track.hz)) * PITCH_HOP + PITCH_FRAME / 2) / SAMPLE_RATE_HZ
    theirs = np.nan_to_num([praat.get_value_at_time(t) for t in times])
    both = track.voiced & (theirs > 0)
    assert np.mean(track.voiced == (theirs > 0)) > 0.9
    assert np.median(np.abs(1200 * np.log2(track.hz[both] / theirs[both]))) < 5


def test_noise_is_unvoiced() -> None:
    assert np.mean(track_pitch(np.random.default_rng(0).standard_normal(36_000)).voiced) < 0.02


def test_three_percent_is_51_cents() -> None:
    trial = Trial(vowel(150), vowel(150 * 1.03))
    assert f0_rmse_cents(trial) == pytest.approx(1200 * np.log2(1.03), abs=2)
    assert voicing_error_percent(trial) == 0


def test_a_lost_voice_and_an_octave_are_voicing_errors() -> None:
    noise = 0.05 * np.random.default_rng(0).standard_normal(36_000)
    assert voicing_error_percent(Trial(vowel(150), noise)) > 95
    assert voicing_error_percent(Trial(vowel(100), vowel(200))) > 95
    assert f0_rmse_cents(Trial(vowel(150), noise)) >= 0


class TestTone:
    def test_known_noise(self) -> None:
        clean = vowel(150)
        power = np.square(clean[8400:27_600]).mean()
        noise = np.random.default_rng(0).standard_normal(36_000) * np.sqrt(power) * 10 ** (-30 / 20)
        assert thd_n_db(Trial(clean, clean, tone=Tone(150.0, clean, clean + noise))) == pytest.approx(-30, abs=0.3)

    def test_known_distortion(self) -> None:
        """A third harmonic added at 1 % of a sine: -40 dB, 1 % THD."""
        sine, third = (np.sin(2 * np.pi * hz * SECONDS) for hz in (200, 600))
        assert thd_n_db(Trial(sine, sine, tone=Tone(200.0, sine, sine + 0.01 * third))) == pytest.approx(-40, abs=1e-3)

    def test_the_references_own_noise_is_no_increase(self) -> None:
        noisy = vowel(120) + 1e-3 * np.random.default_rng(0).standard_normal(36_000)
        assert thd_n_increase_db(Trial(noisy, noisy, tone=Tone(120.0, noisy, noisy))) == 0

    def test_bad_tones(self) -> None:
        with pytest.raises(InputError, match="a tone of 133"):
            Tone(133.0, vowel(133), vowel(133))
        with pytest.raises(InputError, match="19200 are needed"):
            Tone(150.0, vowel(150)[:9600], vowel(150)[:9600])
        with pytest.raises(InputError, match="is silent"):
            Tone(150.0, vowel(150), np.zeros(36_000))
        with pytest.raises(InputError, match="holds 35999 samples"):
            Tone(150.0, vowel(150), vowel(150)[1:])


def test_pause_floor_hears_hiss_only_in_pauses() -> None:
    speech = np.concatenate([np.zeros(6000), vowel(150), np.zeros(6000)])
    hiss = 1e-3 * np.random.default_rng(0).standard_normal(len(speech))
    assert pause_floor_db(Trial(speech, speech + hiss)) > 10
    assert abs(pause_floor_db(Trial(speech, 1.05 * speech))) < 0.1
