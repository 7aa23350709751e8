"""Every metric against a closed form, an independent formula, SPTK or Praat; its properties; clear
errors for what cannot be measured.
"""

import importlib
import math
import sys
import types

import numpy as np
import pesq
import pytest

from kokoro_ane.core.contract import SAMPLE_RATE_HZ
from kokoro_ane.eval.metrics.catalog import SOUND, measure
from kokoro_ane.eval.metrics.framing import (
    ALPHA,
    FFT_SIZE,
    FRAME_HOP,
    FRAME_LENGTH,
    ORDER,
    PITCH_FRAME,
    PITCH_HOP,
    frames,
    track_pitch,
    warping,
)
from kokoro_ane.eval.metrics.listeners import pauses_between
from kokoro_ane.eval.metrics.local import click_db
from kokoro_ane.eval.metrics.trial import Baseline, Heard, Tone, Trial
from kokoro_ane.eval.metrics.whole_clip import (
    band_db,
    clipping_percent,
    f0_rmse_cents,
    lag_samples,
    level_db,
    log_spectral_distance_db,
    mcd_db,
    mcd_increase_db,
    pause_floor_db,
    peak_db,
    pesq_wb,
    snr_db,
    thd_n_db,
    thd_n_increase_db,
    voicing_error_percent,
)
from kokoro_ane.eval.waveform_faults import low_pass
from tests.commands import refused, table
from tests.demo_voice import recording
from tests.signals import one_sample_late, white_noise

SECONDS = np.arange(SAMPLE_RATE_HZ) / SAMPLE_RATE_HZ


def tone(hz, amplitude=0.3):
    return amplitude * np.sin(2 * np.pi * hz * SECONDS)


@pytest.fixture(scope="module")
def speech():
    return recording(0)[12_000:60_000]


def noise_of(seed, samples=SAMPLE_RATE_HZ):
    return 0.1 * np.random.default_rng(seed).standard_normal(samples)


class TestClosedForms:
    def test_snr_of_known_noise(self):
        assert snr_db(Trial(tone(100), tone(100) + tone(1000, 0.003))) == pytest.approx(
            40.0, abs=1e-6
        )

    @pytest.mark.parametrize("gain", [0.25, 0.5, 0.98, 1.5, 3.0])
    def test_level_and_peak_are_the_gain(self, gain):
        trial = Trial(tone(440, 0.1), gain * tone(440, 0.1))
        assert level_db(trial) == pytest.approx(20 * math.log10(gain))
        assert peak_db(trial) == pytest.approx(20 * math.log10(gain))

    @table(
        "hz low_hz high_hz",
        """
        1000 | 0 | 2000
        3000 | 2000 | 4000
        6000 | 4000 | 8000
        10000 | 8000 | 12000
    """,
    )
    def test_band_sees_its_own_tone_only(self, hz, low_hz, high_hz):
        everything = tone(1000) + tone(3000) + tone(6000) + tone(10_000)
        trial = Trial(everything, everything + tone(hz))
        for band in ((0, 2000), (2000, 4000), (4000, 8000), (8000, 12_000)):
            expected = 20 * math.log10(2) if band == (low_hz, high_hz) else 0.0
            assert band_db(trial, *band) == pytest.approx(expected, abs=1e-3)

    def test_empty_band_stays_at_zero_and_a_lost_one_does_not(self, speech):
        dull = low_pass(speech, 3000)
        hiss = dull + 1e-6 * noise_of(0, len(speech))
        assert abs(band_db(Trial(dull, hiss), 8000, 12_000)) < 0.01
        assert band_db(Trial(speech, dull), 4000, 8000) < -5

    def test_lsd_against_a_loop(self, speech):
        trial, window = Trial(speech, white_noise(speech)), np.hanning(FRAME_LENGTH + 1)[:-1]
        total, active = 0.0, np.flatnonzero(trial.baseline.active)
        for index in active:
            cut = slice(index * FRAME_HOP, index * FRAME_HOP + FRAME_LENGTH)
            powers = [
                np.abs(np.fft.rfft(s[cut] * window, FFT_SIZE)) ** 2 + trial.baseline.power_floor
                for s in (trial.reference, trial.test)
            ]
            total += math.sqrt(np.mean((10 * np.log10(powers[0] / powers[1])) ** 2))
        assert log_spectral_distance_db(trial) == pytest.approx(total / len(active))

    def test_jumps_and_clipping_are_found(self):
        holed = tone(1000).copy()
        holed[12_000:12_240] = 0
        # down to the floor, 30 dB below
        assert click_db(Trial(tone(1000), holed)) == pytest.approx(30.0, abs=0.01)
        ramp = np.linspace(-1, 1, 6 * SAMPLE_RATE_HZ)
        assert clipping_percent(Trial(ramp, np.clip(ramp, -0.75, 0.75))) == pytest.approx(
            25.0, abs=0.2
        )
        assert clipping_percent(Trial(ramp, 2 * ramp)) == pytest.approx(50.0, abs=0.2)
        second = np.linspace(-1, 1, SAMPLE_RATE_HZ)  # counts as 6 s
        assert clipping_percent(Trial(second, np.clip(second, -0.75, 0.75))) == pytest.approx(
            25.0 / 6, abs=0.2
        )

    @pytest.mark.parametrize("lag", [-7, -1, 0, 1, 100])
    def test_lag(self, speech, lag):
        assert lag_samples(Trial(speech, np.roll(speech, lag))) == lag


class TestPerceptual:
    def test_pesq_is_largest_for_equals_and_falls_with_noise(self, speech):
        # P.862.2's mapping of 4.5 raw
        assert pesq_wb(Trial(speech, speech)) == pytest.approx(4.644, abs=5e-4)
        scores = [pesq_wb(Trial(speech, white_noise(speech, snr))) for snr in (50, 40, 30, 20)]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] > 4.0
        assert scores[-1] < 2.0
        assert pesq_wb(Trial(speech, 0.5 * speech)) == pytest.approx(4.644, abs=0.01)

    def test_a_long_clip_is_cut_in_its_pauses(self, speech):
        long = np.tile(np.concatenate([speech, np.zeros(4800)]), 14)  # 30.8 s
        cuts = pauses_between(long)
        assert len(cuts) == 2
        assert max(np.abs(long[cut - 600 : cut + 600]).max() for cut in cuts) == 0
        assert max(np.diff([0, *cuts, len(long)])) <= 15 * SAMPLE_RATE_HZ
        assert pauses_between(speech) == []
        assert pesq_wb(Trial(long, white_noise(long, 30))) == pytest.approx(
            pesq_wb(Trial(speech, white_noise(speech, 30))), abs=0.3
        )

    def test_half_a_second_is_measured_by_everything(self, speech):
        short, vowel = speech[6000:18_000], tone(1000) + tone(1500)
        noisy, seeds = white_noise(short, 60), [white_noise(short, 50, seed) for seed in (1, 2)]
        figures = measure(Trial(short, noisy, seeds, Tone(100.0, vowel, vowel), "hello"))
        assert set(figures) == set(SOUND)
        assert all(math.isfinite(value) for value in figures.values())
        assert figures["stoi"] > 0.95

    def test_pesq_without_speech(self, speech, monkeypatch):
        def nothing_heard(*_):
            raise pesq.NoUtterancesError("No utterances detected")

        monkeypatch.setattr(pesq, "pesq", nothing_heard)
        with refused("no utterance"):
            pesq_wb(Trial(speech, speech))


class TestProperties:
    def test_equal_signals_score_perfect_everywhere(self, speech):
        vowel = tone(1000) + tone(1500)
        figures = measure(
            Trial(
                speech, speech, [white_noise(speech, 40)], Tone(100.0, vowel, vowel), "Who said so?"
            )
        )
        assert set(figures) == set(SOUND)
        assert figures.pop("thd_n_db") < -200
        for name, value in figures.items():
            assert value == pytest.approx(SOUND[name].perfect, abs=1e-3), name

    def test_what_is_known_changes_no_figure(self, speech):
        seeds, noisy = (
            [white_noise(speech, 40, seed=seed) for seed in (1, 2)],
            white_noise(speech, 30),
        )
        sentence, fresh = (
            Baseline(speech, tuple(seeds), "so"),
            Trial(speech, noisy, seeds, text="so"),
        )
        figures = measure(fresh)
        assert measure(Trial(speech, noisy, seeds, text="so", sentence=sentence)) == figures
        stored = Baseline(speech, tuple(seeds), "so", Heard.read(Heard(speech).plain()))
        assert measure(Trial(speech, noisy, seeds, text="so", sentence=stored)) == pytest.approx(
            figures
        )
        left = sentence.without(0)
        only = (
            "mcd_db",
            "mcd_increase_db",
            "local_spectrum_db",
            "local_level_db",
            "local_pitch_cents",
            "lsd_db",
        )
        assert measure(Trial(speech, noisy, seeds[1:], sentence=left), only) == measure(
            Trial(speech, noisy, seeds[1:]), only
        )

    def test_documented_blindness(self, speech):
        """MCD hardly sees a gain or a late sample; SNR sees nothing else. docs/metrics.md says
        so.
        """
        late = Trial(speech, one_sample_late(speech))
        assert mcd_db(late) < 0.1
        assert pesq_wb(late) > 4.5
        assert snr_db(late) < 25
        assert lag_samples(late) == 1
        assert mcd_db(Trial(speech, 1.05 * speech)) < 0.15

    def test_holes_do_not_explode(self, speech):
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
    def test_one_line_says_what_is_wrong(self, signal, message):
        refused(f"the reference signal .*{message}", Trial, signal, tone(100))
        refused(f"the test signal .*{message}", Trial, tone(100), signal)

    def test_lengths(self):
        with refused("the test signal holds 23999 samples, the reference 24000"):
            Trial(tone(100), tone(100)[1:])

    def test_other_seed_is_needed_where_it_is_needed(self, speech):
        with refused("under other noise seeds"):
            mcd_increase_db(Trial(speech, speech))
        assert "mcd_increase_db" not in measure(Trial(speech, speech))


@pytest.fixture(scope="module")
def sptk():
    """pysptk 1.0.1 imports pkg_resources, which setuptools 81 dropped; it needs it only to find its
    example audio.
    """
    sys.modules.setdefault("pkg_resources", types.SimpleNamespace(resource_filename=lambda *_: ""))
    return importlib.import_module("pysptk")


@pytest.fixture(scope="module")
def trial():  # A second of speech, and the same with a little noise
    speech = recording(0)[24_000:48_000]
    return Trial(speech, speech + 1e-3 * np.random.default_rng(0).standard_normal(len(speech)))


def sptk_cepstrum(sptk, trial, signal):
    """pysptk's mcep of the trial's active frames, same window, FFT size and power floor."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME_LENGTH) / FRAME_LENGTH)
    padded = np.pad(
        frames(signal)[trial.baseline.active] * window, ((0, 0), (0, FFT_SIZE - FRAME_LENGTH))
    )
    options = {
        "miniter": 2,
        "maxiter": 30,
        "threshold": 1e-6,
        "etype": 1,
        "eps": trial.baseline.power_floor,
    }
    return np.array([sptk.mcep(frame, ORDER, ALPHA, **options) for frame in padded])


def test_the_mel_constant_is_sptks_for_24_khz(sptk):
    assert sptk.util.mcepalpha(24_000) == pytest.approx(ALPHA, abs=5e-4)


def test_cepstrum_and_mcd_equal_sptk(sptk, trial):
    ours, theirs = trial.baseline.cepstrum, sptk_cepstrum(sptk, trial, trial.reference)
    assert ours.shape == theirs.shape == (int(trial.baseline.active.sum()), ORDER + 1)
    assert np.abs(ours - theirs).max() < 1e-4
    apart = sptk_cepstrum(sptk, trial, trial.reference) - sptk_cepstrum(sptk, trial, trial.test)
    expected = 6.14185 * np.linalg.norm(apart[:, 1:], axis=1).mean()  # 10 sqrt(2) / ln 10
    assert mcd_db(trial) == pytest.approx(expected, rel=1e-4)
    assert expected > 0.5


def test_warping_equals_sptks_freqt(sptk):
    cepstrum = np.random.default_rng(1).standard_normal(40)
    assert np.allclose(
        warping(40, ORDER + 1, ALPHA) @ cepstrum, sptk.freqt(cepstrum, ORDER, ALPHA), atol=1e-10
    )


ANALYSIS_SECONDS = np.arange(36_000) / SAMPLE_RATE_HZ


def vowel(hz, brightness=0.5):
    return 0.1 * sum(
        brightness**k * np.sin(2 * np.pi * hz * (k + 1) * ANALYSIS_SECONDS + k) for k in range(10)
    )


@pytest.mark.parametrize("hz", [75.0, 110.0, 163.7, 220.0, 330.0])
def test_tracker_on_known_pitch(hz):
    track = track_pitch(vowel(hz))
    assert track.voiced.all()
    assert np.abs(1200 * np.log2(track.hz / hz)).max() < 5


def test_pitch_against_praat_noise_cents_and_lost_voices():
    import parselmouth

    speech = recording(0)
    track = track_pitch(speech)
    praat = parselmouth.Sound(speech, SAMPLE_RATE_HZ).to_pitch_ac(
        time_step=0.01, pitch_floor=60, pitch_ceiling=400
    )
    times = (np.arange(len(track.hz)) * PITCH_HOP + PITCH_FRAME / 2) / SAMPLE_RATE_HZ
    theirs = np.nan_to_num([praat.get_value_at_time(t) for t in times])
    both = track.voiced & (theirs > 0)
    assert np.mean(track.voiced == (theirs > 0)) > 0.9
    assert np.median(np.abs(1200 * np.log2(track.hz[both] / theirs[both]))) < 5
    assert np.mean(track_pitch(np.random.default_rng(0).standard_normal(36_000)).voiced) < 0.02
    trial = Trial(vowel(150), vowel(150 * 1.03))
    assert f0_rmse_cents(trial) == pytest.approx(1200 * np.log2(1.03), abs=2)
    assert voicing_error_percent(trial) == 0
    noise = 0.05 * np.random.default_rng(0).standard_normal(36_000)
    assert voicing_error_percent(Trial(vowel(150), noise)) > 95
    assert voicing_error_percent(Trial(vowel(100), vowel(200))) > 95
    assert f0_rmse_cents(Trial(vowel(150), noise)) >= 0


class TestTone:
    def test_tones_known_distorted_and_bad(self):
        clean = vowel(150)
        power = np.square(clean[8400:27_600]).mean()
        noise = np.random.default_rng(0).standard_normal(36_000) * np.sqrt(power) * 10 ** (-30 / 20)
        assert thd_n_db(
            Trial(clean, clean, tone=Tone(150.0, clean, clean + noise))
        ) == pytest.approx(-30, abs=0.3)
        # A third harmonic added at 1 % of a sine: -40 dB, 1 % THD
        sine, third = (np.sin(2 * np.pi * hz * ANALYSIS_SECONDS) for hz in (200, 600))
        assert thd_n_db(
            Trial(sine, sine, tone=Tone(200.0, sine, sine + 0.01 * third))
        ) == pytest.approx(-40, abs=1e-3)
        noisy = vowel(120) + 1e-3 * np.random.default_rng(0).standard_normal(36_000)
        assert thd_n_increase_db(Trial(noisy, noisy, tone=Tone(120.0, noisy, noisy))) == 0
        refused("a tone of 133", Tone, 133.0, vowel(133), vowel(133))
        with refused("19200 are needed"):
            Tone(150.0, vowel(150)[:9600], vowel(150)[:9600])
        refused("is silent", Tone, 150.0, vowel(150), np.zeros(36_000))
        with refused("holds 35999 samples"):
            Tone(150.0, vowel(150), vowel(150)[1:])


def test_pause_floor_hears_hiss_only_in_pauses():
    speech = np.concatenate([np.zeros(6000), vowel(150), np.zeros(6000)])
    hiss = 1e-3 * np.random.default_rng(0).standard_normal(len(speech))
    assert pause_floor_db(Trial(speech, speech + hiss)) > 10
    assert abs(pause_floor_db(Trial(speech, 1.05 * speech))) < 0.1
