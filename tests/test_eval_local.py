"""The worst 60 ms: found where it is, whatever the rest of the clip does; other seeds are allowed for, a noisy voice hides nothing."""

from dataclasses import replace

import numpy as np
import pytest

from kokoro_ane.eval.gates import COMMON
from kokoro_ane.eval.metrics.catalog import METRICS, measure
from kokoro_ane.eval.metrics.framing import WINDOW, mel_bank, windows_of
from kokoro_ane.eval.metrics.local import ALLOWED_DB, click_db, gain_variation_db, local_level_db, local_pitch_cents, local_spectrum_db
from kokoro_ane.eval.metrics.trial import Baseline, Tone, Trial
from kokoro_ane.eval.metrics.whole_clip import lag_samples, literature_mcd_db, mcd_db, polarity, snr_db
from kokoro_ane.eval.waveform_faults import dipped, swaying
from kokoro_ane.quantize.corpus import heldout
from tests.signals import delayed, glitched, replaced, resampled, white_noise

LIMITS = {gate.metric: gate.limit for gate in COMMON}
SEEDS = (1, 2, 3)


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    """Six seconds of a held-out recording at 24 kHz."""
    return resampled(heldout()[0].recording, 16_000)[:144_000]


@pytest.fixture(scope="module")
def known(speech: np.ndarray) -> Baseline:
    """The recording, and three others that differ from it by noise 50 dB down."""
    return Baseline(speech, tuple(white_noise(speech, 50, seed) for seed in SEEDS))


def trial(known: Baseline, test: np.ndarray) -> Trial:
    return Trial(known.reference, test, known.other_seeds, known=known)


def test_one_wrong_sound_breaks_the_gate_and_no_mean(known: Baseline) -> None:
    wrong = trial(known, replaced(known.reference, 75.0))
    assert local_spectrum_db(wrong) > LIMITS["local_spectrum_db"]
    assert mcd_db(wrong) < 0.5  # what a mean makes of it


def test_a_dip_of_9_db_breaks_the_gate(known: Baseline) -> None:
    assert local_level_db(trial(known, dipped(known.reference, 9.0))) > LIMITS["local_level_db"]
    assert local_level_db(trial(known, dipped(known.reference, 9.0))) == pytest.approx(9.0, abs=0.6)


@pytest.mark.parametrize("hz", [0.7, 2.0, 5.0, 8.0])
def test_a_level_that_sways_is_found_and_a_gain_is_not(known: Baseline, hz: float) -> None:
    assert gain_variation_db(trial(known, swaying(known.reference, 2.0, hz))) > LIMITS["gain_variation_db"]
    assert gain_variation_db(trial(known, swaying(known.reference, 0.3, hz))) < LIMITS["gain_variation_db"] / 2
    assert gain_variation_db(trial(known, known.reference * 1.3)) == pytest.approx(0, abs=0.05)
    assert gain_variation_db(trial(known, known.other_seeds[0])) < LIMITS["gain_variation_db"] / 2


def test_a_pitch_glitch_breaks_the_gate(known: Baseline) -> None:
    assert local_pitch_cents(trial(known, glitched(known.reference, 300.0))) > LIMITS["local_pitch_cents"]


def test_another_seed_and_a_gain_break_none(known: Baseline) -> None:
    for harmless in (white_noise(known.reference, 50, seed=9), known.reference * 10 ** (-0.3 / 20)):
        figures = measure(trial(known, harmless), ("local_spectrum_db", "local_level_db", "local_pitch_cents"))
        assert all(value < LIMITS[name] / 2 for name, value in figures.items())


def test_what_other_seeds_do_there_is_allowed_up_to_a_limit(known: Baseline) -> None:
    """Another seed that has the same dip excuses 3 dB of it, not all."""
    dip = dipped(known.reference, 9.0)
    excused = replace(known, other_seeds=(dip, *known.other_seeds[1:]))
    assert local_level_db(trial(known, dip)) - local_level_db(trial(excused, dip)) == pytest.approx(ALLOWED_DB, abs=0.3)


def test_windows_are_mean_powers(speech: np.ndarray) -> None:
    windows = windows_of(speech)
    assert windows.level[7] == pytest.approx(np.square(speech[840 : 840 + WINDOW]).mean())
    assert windows.mel.shape[1] == 40
    assert mel_bank(40).sum(axis=0)[10:500].min() > 0  # no gap between bands


def test_a_jump_that_other_seeds_have_is_none(known: Baseline) -> None:
    holed = known.reference.copy()
    loudest = int(np.argmax(np.convolve(np.square(holed), np.ones(240), mode="valid")))
    holed[loudest : loudest + 240] = 0
    assert click_db(trial(known, holed)) > LIMITS["click_db"]
    excused = Trial(known.reference, holed, [holed])
    assert click_db(Trial(known.reference, holed)) - click_db(excused) == pytest.approx(6.0)


@pytest.mark.parametrize("at", [0.0, 0.5])
def test_lag_of_a_part(known: Baseline, at: float) -> None:
    """A sample too many, at the start or in the middle."""
    start = int(at * len(known.reference))
    late = np.concatenate([known.reference[:start], delayed(known.reference[start:], 1)])
    assert lag_samples(trial(known, late)) == 1
    assert lag_samples(trial(known, known.other_seeds[0])) == 0


def test_lag_of_features_of_its_own(known: Baseline) -> None:
    """Another F0 turns phases: no delay by the render of the same features. A sample late is one by that render too."""
    turned = np.concatenate([known.reference[:72_000], delayed(known.reference[72_000:], 1)])
    assert lag_samples(trial(known, turned)) == 1
    assert lag_samples(replace(trial(known, turned), clock=turned)) == 0
    assert lag_samples(replace(trial(known, delayed(turned, 1)), clock=turned)) == 1


def test_polarity_is_taken_out_once(known: Baseline) -> None:
    noisy = white_noise(known.reference, 30)
    upright, over = measure(trial(known, noisy)), measure(trial(known, -noisy))
    assert (upright.pop("polarity"), over.pop("polarity")) == (1.0, -1.0)
    assert over == pytest.approx(upright, abs=1e-6)
    assert snr_db(trial(known, -noisy)) == pytest.approx(30.0, abs=0.1)
    assert polarity(trial(known, delayed(known.reference, 3))) == 1.0


def test_thd_n_is_blind_to_gain_sign_and_delay(speech: np.ndarray) -> None:
    seconds = np.arange(28_800) / 24_000
    vowel = sum(0.1 / k * np.sin(2 * np.pi * 100 * k * seconds + k) for k in range(1, 9)) + 1e-3 * np.random.default_rng(0).normal(
        size=28_800
    )
    changed = {"gain": 0.9 * vowel, "sign": -vowel, "delay": np.roll(vowel, 5)}
    for name, test in changed.items():
        figures = measure(Trial(speech, speech, tone=Tone(100.0, vowel, test)), ("thd_n_increase_db",))
        assert abs(figures["thd_n_increase_db"]) < 0.2, name
    bent = vowel + 0.01 * np.sin(2 * np.pi * 300 * seconds)
    assert measure(Trial(speech, speech, tone=Tone(100.0, vowel, bent)), ("thd_n_increase_db",))["thd_n_increase_db"] > 3


def test_literature_mcd_of_one_cepstral_coefficient() -> None:
    """A log spectrum that differs by 2 d cos(pi k (n + 1/2) / N) over the mel bands differs by d in c_k alone: MCD is 6.14 d."""
    from librosa.feature import mfcc

    from kokoro_ane.eval.metrics.whole_clip import LITERATURE_BANDS, MCD_DB

    bands = np.arange(LITERATURE_BANDS) + 0.5
    log_magnitude = 2 * 0.5 * np.cos(np.pi * 7 * bands / LITERATURE_BANDS)
    cepstrum = mfcc(S=log_magnitude[:, None], n_mfcc=25)[:, 0] / np.sqrt(2 * LITERATURE_BANDS)
    assert cepstrum[7] == pytest.approx(0.5)
    assert np.abs(np.delete(cepstrum, 7)).max() < 1e-9
    assert pytest.approx(3.07, abs=0.01) == MCD_DB * 0.5


def test_literature_mcd_counts_more_with_more_coefficients_and_in_pauses(speech: np.ndarray) -> None:
    noisy = Trial(speech, white_noise(speech, 40))
    assert 0 < literature_mcd_db(noisy, 13) < literature_mcd_db(noisy, 24)
    one, other = (np.concatenate([speech, 1e-4 * np.random.default_rng(seed).standard_normal(48_000)]) for seed in (1, 2))
    assert literature_mcd_db(Trial(one, other), 13) > 0.3  # no floor: a pause that nobody hears weighs
    assert mcd_db(Trial(one, other)) < 0.01
    assert METRICS["mcd13_db"].function(noisy) == literature_mcd_db(noisy, 13)
