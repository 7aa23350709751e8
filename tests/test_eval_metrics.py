"""Every metric against a closed form or an independent formula, its properties, and clear errors for signals that cannot be measured."""

import math

import numpy as np
import pesq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_ane.core.checks import snr_db as package_check_snr_db
from kokoro_ane.core.contract import SAMPLE_RATE_HZ
from kokoro_ane.core.errors import InputError
from kokoro_ane.eval.metrics.catalog import METRICS, measure
from kokoro_ane.eval.metrics.framing import FFT_SIZE, FRAME_HOP, FRAME_LENGTH, at_16_khz, defect
from kokoro_ane.eval.metrics.listeners import pauses_between
from kokoro_ane.eval.metrics.local import click_db
from kokoro_ane.eval.metrics.trial import Baseline, Heard, Tone, Trial
from kokoro_ane.eval.metrics.whole_clip import (
    band_db,
    clipping_percent,
    lag_samples,
    level_db,
    log_spectral_distance_db,
    mcd_db,
    mcd_increase_db,
    peak_db,
    pesq_wb,
    snr_db,
)
from kokoro_ane.eval.waveform_faults import low_pass
from kokoro_ane.quantize.corpus import heldout
from tests.signals import one_sample_late, resampled, white_noise

SECONDS = np.arange(SAMPLE_RATE_HZ) / SAMPLE_RATE_HZ


def tone(hz: float, amplitude: float = 0.3) -> np.ndarray:
    """One second of a sine."""
    return amplitude * np.sin(2 * np.pi * hz * SECONDS)


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    """Two seconds of a held-out recording at 24 kHz."""
    return resampled(heldout()[0].recording, 16_000)[12_000:60_000]


def noise_of(seed: int, samples: int = SAMPLE_RATE_HZ) -> np.ndarray:
    """White noise."""
    return 0.1 * np.random.default_rng(seed).standard_normal(samples)


class TestClosedForms:
    def test_snr_of_known_noise(self) -> None:
        assert snr_db(Trial(tone(100), tone(100) + tone(1000, 0.003))) == pytest.approx(40.0, abs=1e-6)

    def test_snr_is_the_one_the_converter_checks_with(self, speech: np.ndarray) -> None:
        noisy = white_noise(speech)
        assert snr_db(Trial(speech, noisy)) == pytest.approx(package_check_snr_db(speech, noisy), abs=1e-9)

    @pytest.mark.parametrize("gain", [0.25, 0.5, 0.98, 1.5, 3.0])
    def test_level_and_peak_are_the_gain(self, gain: float) -> None:
        trial = Trial(tone(440, 0.1), gain * tone(440, 0.1))
        assert level_db(trial) == pytest.approx(20 * math.log10(gain))
        assert peak_db(trial) == pytest.approx(20 * math.log10(gain))

    @pytest.mark.parametrize(("hz", "low_hz", "high_hz"), [(1000, 0, 2000), (3000, 2000, 4000), (6000, 4000, 8000), (10_000, 8000, 12_000)])
    def test_band_sees_its_own_tone_only(self, hz: float, low_hz: float, high_hz: float) -> None:
        everything = tone(1000) + tone(3000) + tone(6000) + tone(10_000)
        trial = Trial(everything, everything + tone(hz))
        for band in ((0, 2000), (2000, 4000), (4000, 8000), (8000, 12_000)):
            expected = 20 * math.log10(2) if band == (low_hz, high_hz) else 0.0
            assert band_db(trial, *band) == pytest.approx(expected, abs=1e-3)

    def test_empty_band_stays_at_zero_and_a_lost_one_does_not(self, speech: np.ndarray) -> None:
        dull = low_pass(speech, 3000)
        hiss = dull + 1e-6 * noise_of(0, len(speech))
        assert abs(band_db(Trial(dull, hiss), 8000, 12_000)) < 0.01
        assert band_db(Trial(speech, dull), 4000, 8000) < -5

    def test_band_of_the_other_side(self) -> None:
        assert band_db(Trial(tone(1000) + tone(6000), tone(1000)), 4000, 8000) == pytest.approx(-10 * math.log10(0.5 / 1e-5), abs=0.01)

    def test_lsd_of_a_gain_is_the_gain(self) -> None:
        noise = noise_of(0)
        assert log_spectral_distance_db(Trial(noise, 2 * noise)) == pytest.approx(20 * math.log10(2), abs=0.01)

    def test_lsd_against_a_loop(self, speech: np.ndarray) -> None:
        trial = Trial(speech, white_noise(speech))
        window = np.hanning(FRAME_LENGTH + 1)[:-1]
        total, active = 0.0, np.flatnonzero(trial.baseline.active)
        for index in active:
            cut = slice(index * FRAME_HOP, index * FRAME_HOP + FRAME_LENGTH)
            powers = [
                np.abs(np.fft.rfft(s[cut] * window, FFT_SIZE)) ** 2 + trial.baseline.power_floor for s in (trial.reference, trial.test)
            ]
            total += math.sqrt(np.mean((10 * np.log10(powers[0] / powers[1])) ** 2))
        assert log_spectral_distance_db(trial) == pytest.approx(total / len(active))

    def test_jump_finds_a_silenced_frame(self) -> None:
        holed = tone(1000).copy()
        holed[12_000:12_240] = 0
        assert click_db(Trial(tone(1000), holed)) == pytest.approx(30.0, abs=0.01)  # down to the floor, 30 dB below

    def test_clipping_counts_flat_tops_and_overflow(self) -> None:
        ramp = np.linspace(-1, 1, 6 * SAMPLE_RATE_HZ)
        assert clipping_percent(Trial(ramp, np.clip(ramp, -0.75, 0.75))) == pytest.approx(25.0, abs=0.2)
        assert clipping_percent(Trial(ramp, 2 * ramp)) == pytest.approx(50.0, abs=0.2)
        second = np.linspace(-1, 1, SAMPLE_RATE_HZ)  # counts as 6 s
        assert clipping_percent(Trial(second, np.clip(second, -0.75, 0.75))) == pytest.approx(25.0 / 6, abs=0.2)

    @pytest.mark.parametrize("lag", [-7, -1, 0, 1, 100])
    def test_lag(self, speech: np.ndarray, lag: int) -> None:
        assert lag_samples(Trial(speech, np.roll(speech, lag))) == lag


class TestPerceptual:
    def test_pesq_of_equal_signals_is_its_maximum(self, speech: np.ndarray) -> None:
        assert pesq_wb(Trial(speech, speech)) == pytest.approx(4.644, abs=5e-4)  # P.862.2's mapping of 4.5 raw

    def test_pesq_falls_with_noise_and_ignores_gain(self, speech: np.ndarray) -> None:
        scores = [pesq_wb(Trial(speech, white_noise(speech, snr))) for snr in (50, 40, 30, 20)]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] > 4.0
        assert scores[-1] < 2.0
        assert pesq_wb(Trial(speech, 0.5 * speech)) == pytest.approx(4.644, abs=0.01)

    def test_pesq_does_not_hang_on_the_first_sample(self, speech: np.ndarray) -> None:
        noisy = white_noise(speech, 45)
        scores = [pesq_wb(Trial(speech[cut:], noisy[cut:])) for cut in (0, 1, 50)]
        assert max(scores) - min(scores) < 0.05

    def test_resampling_keeps_what_16_khz_can_hold(self) -> None:
        resampled_tone = at_16_khz(tone(1000))
        expected = 0.3 * np.sin(2 * np.pi * 1000 * np.arange(16_000) / 16_000)
        assert len(resampled_tone) == 16_000
        assert np.abs(resampled_tone - expected)[200:-200].max() < 3e-3
        assert np.abs(at_16_khz(tone(11_000))[200:-200]).max() < 3e-3

    def test_a_long_clip_is_cut_in_its_pauses(self, speech: np.ndarray) -> None:
        long = np.tile(np.concatenate([speech, np.zeros(4800)]), 14)  # 30.8 s
        cuts = pauses_between(long)
        assert len(cuts) == 2
        assert max(np.abs(long[cut - 600 : cut + 600]).max() for cut in cuts) == 0
        assert max(np.diff([0, *cuts, len(long)])) <= 15 * SAMPLE_RATE_HZ
        assert pauses_between(speech) == []
        assert pesq_wb(Trial(long, white_noise(long, 30))) == pytest.approx(pesq_wb(Trial(speech, white_noise(speech, 30))), abs=0.3)

    def test_half_a_second_is_measured_by_everything(self, speech: np.ndarray) -> None:
        short, vowel = speech[6000:18_000], tone(1000) + tone(1500)
        noisy, seeds = white_noise(short, 60), [white_noise(short, 50, seed) for seed in (1, 2)]
        figures = measure(Trial(short, noisy, seeds, Tone(100.0, vowel, vowel), "hello"))
        assert set(figures) == set(METRICS)
        assert all(math.isfinite(value) for value in figures.values())
        assert figures["stoi"] > 0.95

    def test_pesq_without_speech(self, speech: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
        def nothing_heard(*_: object) -> float:
            raise pesq.NoUtterancesError("No utterances detected")

        monkeypatch.setattr(pesq, "pesq", nothing_heard)
        with pytest.raises(InputError, match="no utterance"):
            pesq_wb(Trial(speech, speech))


class TestProperties:
    def test_equal_signals_score_perfect_everywhere(self, speech: np.ndarray) -> None:
        vowel = tone(1000) + tone(1500)
        figures = measure(Trial(speech, speech, [white_noise(speech, 40)], Tone(100.0, vowel, vowel), "Who said so?"))
        assert set(figures) == set(METRICS)
        assert figures.pop("thd_n_db") < -200
        for name, value in figures.items():
            assert value == pytest.approx(METRICS[name].perfect, abs=1e-3), name

    def test_what_is_known_changes_no_figure(self, speech: np.ndarray) -> None:
        seeds, noisy = [white_noise(speech, 40, seed=seed) for seed in (1, 2)], white_noise(speech, 30)
        known, fresh = Baseline(speech, tuple(seeds), "so"), Trial(speech, noisy, seeds, text="so")
        figures = measure(fresh)
        assert measure(Trial(speech, noisy, seeds, text="so", known=known)) == figures
        kept = Baseline(speech, tuple(seeds), "so", Heard.read(Heard(speech).plain()))
        assert measure(Trial(speech, noisy, seeds, text="so", known=kept)) == pytest.approx(figures)
        left = known.without(0)
        only = ("mcd_db", "mcd_increase_db", "local_spectrum_db", "local_level_db", "local_pitch_cents", "lsd_db")
        assert measure(Trial(speech, noisy, seeds[1:], known=left), only) == measure(Trial(speech, noisy, seeds[1:]), only)

    @settings(max_examples=15, deadline=None)
    @given(seed=st.integers(0, 10_000), gain=st.floats(0.2, 5.0))
    def test_distances_are_symmetric_up_to_the_floor_and_blind_to_a_common_gain(self, seed: int, gain: float) -> None:
        one, other = noise_of(seed, 8000), noise_of(seed + 1, 8000)
        for metric in (mcd_db, log_spectral_distance_db):
            there = metric(Trial(one, other))
            assert there > 0
            assert metric(Trial(gain * one, gain * other)) == pytest.approx(there, rel=1e-4)
            assert metric(Trial(other, one)) == pytest.approx(there, rel=0.02)
        for metric in (snr_db, level_db):
            assert metric(Trial(gain * one, gain * other)) == pytest.approx(metric(Trial(one, other)), abs=1e-6)
        assert level_db(Trial(other, one)) == pytest.approx(-level_db(Trial(one, other)))

    @settings(max_examples=15, deadline=None)
    @given(seed=st.integers(0, 10_000), amount=st.floats(0.01, 2.0))
    def test_mcd_increase_never_passes_mcd(self, seed: int, amount: float) -> None:
        reference, other_seed = noise_of(seed, 8000), noise_of(seed + 1, 8000)
        test = reference + amount * noise_of(seed + 2, 8000)
        trial = Trial(reference, test, [other_seed])
        assert abs(mcd_increase_db(trial)) <= mcd_db(trial) + 1e-9
        assert mcd_increase_db(Trial(reference, other_seed, [other_seed])) == pytest.approx(-mcd_db(Trial(reference, other_seed)))

    def test_documented_blindness(self, speech: np.ndarray) -> None:
        """MCD hardly sees a gain or a late sample; SNR sees nothing else. docs/metrics.md says so."""
        late = Trial(speech, one_sample_late(speech))
        assert mcd_db(late) < 0.1
        assert pesq_wb(late) > 4.5
        assert snr_db(late) < 25
        assert lag_samples(late) == 1
        assert mcd_db(Trial(speech, 1.05 * speech)) < 0.15

    def test_holes_do_not_explode(self, speech: np.ndarray) -> None:
        """Digital silence and an empty band against a whisper of noise: finite and small."""
        gapped = low_pass(speech, 7000)
        gapped[20_000:26_000] = 0
        figures = measure(Trial(gapped, gapped + 1e-6 * noise_of(1, len(gapped))))
        assert all(math.isfinite(value) for value in figures.values())
        assert figures["mcd_db"] < 0.05
        assert figures["lsd_db"] < 0.1


class TestBadSignals:
    @pytest.mark.parametrize(
        ("signal", "message"),
        [
            (np.zeros(24_000), "is silent"),
            (np.ones(3000), r"lasts 0\.125 s: at least 0\.25 s"),
            (np.full(24_000, np.nan), "holds 24000 samples that are NaN or infinite"),
            (np.ones((2, 24_000)), "mono"),
            (np.ones(24_000, dtype=np.int16), "mono float array"),
            ([0.1] * 24_000, "mono float array"),
        ],
    )
    def test_one_line_says_what_is_wrong(self, signal: np.ndarray, message: str) -> None:
        with pytest.raises(InputError, match=f"the reference signal .*{message}"):
            Trial(signal, tone(100))
        with pytest.raises(InputError, match=f"the test signal .*{message}"):
            Trial(tone(100), signal)

    def test_lengths(self) -> None:
        with pytest.raises(InputError, match="the test signal holds 23999 samples, the reference 24000"):
            Trial(tone(100), tone(100)[1:])

    def test_other_seed_is_needed_where_it_is_needed(self, speech: np.ndarray) -> None:
        with pytest.raises(InputError, match="under other noise seeds"):
            mcd_increase_db(Trial(speech, speech))
        assert "mcd_increase_db" not in measure(Trial(speech, speech))

    def test_defect_is_none_for_speech(self, speech: np.ndarray) -> None:
        assert defect(speech) is None
        assert defect(speech.astype(np.float32)) is None


def test_registry_is_complete_and_immutable() -> None:
    for name, metric in METRICS.items():
        assert metric.name == name
        assert all((metric.title, metric.unit, metric.source)), name
    with pytest.raises(TypeError):
        METRICS["pesq"] = None  # type: ignore[index]


def test_worst_follows_the_direction() -> None:
    assert METRICS["pesq"].worst([4.0, 3.0, 4.5]) == 3.0
    assert METRICS["mcd_db"].worst([0.1, 0.7]) == 0.7
    assert METRICS["level_db"].worst([0.2, -0.9, 0.5]) == -0.9
