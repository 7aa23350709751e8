"""F0 and THD+N: closed forms, Praat, and what a change of pitch does to them."""

import numpy as np
import pytest

from core.contract import SAMPLE_RATE_HZ
from core.corpus import heldout
from core.errors import InputError
from demo.features import resampled
from eval.metrics.level import pause_floor_db
from eval.metrics.pitch import f0_rmse_cents, voicing_error_percent
from eval.metrics.pitch_tracker import PITCH_FRAME, PITCH_HOP, track_pitch
from eval.metrics.tone import thd_n_db, thd_n_increase_db
from eval.metrics.trial import Tone, Trial

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
