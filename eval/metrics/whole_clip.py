"""Metrics of a whole clip: spectrum, pitch, waveform, delay, and what listeners make of it.

    mcd_db(Trial(reference, test)), f0_rmse_cents(...), pesq_wb(...), lag_samples(...)

Both signals go through the same analysis, so its own errors mostly cancel.
"""

import math

import numpy as np

from kokoro_ane.core import SAMPLE_RATE_HZ, InputError
from kokoro_ane.core import snr_db as signal_to_noise_db
from kokoro_ane.eval.metrics.allowance import EVERY_CEPSTRUM, STEP_CEPSTRUM
from kokoro_ane.eval.metrics.framing import (
    GROSS_SHARE,
    alignment,
    at_least,
    decibels,
    delay,
    frames,
    mel_bank,
    power_spectrum,
)
from kokoro_ane.eval.metrics.trial import LONGEST_LAG, TONE_WINDOW, Tone, Trial
from kokoro_ane.speech import words_of
from kokoro_g2p import edit_distance

MCD_DB = 10 * math.sqrt(2) / math.log(10)  # 6.14185
LITERATURE_BANDS, TINY_POWER = 80, 1e-10
BAND_FLOOR_DB = -50.0  # of the reference's whole energy
# a frame whose periodicity moves by less than this is near the threshold, not voiced otherwise
CLEAR_STRENGTH = 0.1
MOST_LAG = 24  # samples, 1 ms: less than a period
LEAST_GAIN = 0.1  # below, the test holds hardly anything of the tone, and is taken as it is
STOI_SAMPLES = SAMPLE_RATE_HZ  # the package wants 0.4 s of speech: a shorter clip is said again
SNR_CEILING_DB = 200.0  # what equal signals score: JSON has no infinity
FULL_SCALE = 1.0
CLIPPING_SECONDS = 6  # shorter clips count as this long
# of one clip: six seeds change 3 of a tuning sentence at most, but 9 to 19 of one that the
# recognizer is lost in
MOST_WORDS = 5
PAUSE_SHARE = 0.1  # of the reference's frames, the quietest
# of the reference's mean active power: what is quieter than that is silence in both
PAUSE_FLOOR_DB = -60.0
LOCAL_LAG, LOCAL_LENGTH = 24, 12_000  # samples: 1 ms either way, in stretches of half a second
# correlation from which a stretch is the reference's, and by how much the lag has to better it
ALIKE, GAINED = 0.995, 0.002


def mcd_db(trial: Trial) -> float:
    """Mean over active frames of 10 sqrt(2) / ln 10 * |c - c'| over c1..c24."""
    return _distance_db(trial.baseline.cepstrum, trial.cepstrum)


def _distance_db(one: np.ndarray, other: np.ndarray) -> float:
    # c0 is left out: it is the frame's loudness, which has metrics of its own.
    return float(MCD_DB * np.linalg.norm(one[:, 1:] - other[:, 1:], axis=1).mean())


def mcd_increase_db(trial: Trial) -> float:
    """MCD of another seed and the test, less that of the seed and the reference: how much farther
    the test is from a third rendition. Mean over every fourth active frame, each by one of the
    other seeds in turn.

    In each frame never more than the test's own distance (a distance obeys the triangle
    inequality), so mcd_db bounds it for any third party, a recording included.
    """
    # [active / 4, 24]
    reference = trial.baseline.cepstrum[::EVERY_CEPSTRUM, 1:]
    test = trial.cepstrum[::EVERY_CEPSTRUM, 1:]
    third = reference + STEP_CEPSTRUM * trial.allowance.cepstrum.reshape(reference.shape)
    farther = np.linalg.norm(third - test, axis=1) - np.linalg.norm(third - reference, axis=1)
    return float(MCD_DB * farther.mean())


def literature_mcd_db(trial: Trial, coefficients: int) -> float:
    """MCD as the literature has it: c1..cK of librosa's mel-frequency cepstra (80 bands), every
    frame, no floor, no time-warping.

    Scaled so that ln|S| = c0 + 2 sum c_k cos: then 10 sqrt(2) / ln 10 is the factor that belongs to
    it.
    """
    reference, test = (
        literature_cepstra(signal)[:, 1 : coefficients + 1]
        for signal in (trial.reference, trial.test)
    )
    return float(MCD_DB * np.linalg.norm(reference - test, axis=1).mean())


def literature_cepstra(signal: np.ndarray) -> np.ndarray:
    """signal [samples] -> mel-frequency cepstra c0..c24 [frames, 25] of log magnitudes."""
    from librosa.feature import mfcc

    # The orthonormal DCT of librosa, scaled to c_k as the formula of MCD has it.
    power = power_spectrum(signal) @ mel_bank(LITERATURE_BANDS).T
    log_magnitude = 0.5 * np.log(np.maximum(power, TINY_POWER))
    return mfcc(S=log_magnitude.T, n_mfcc=25).T / math.sqrt(2 * LITERATURE_BANDS)


def log_spectral_distance_db(trial: Trial) -> float:
    """Mean over active frames of the root mean square over 513 bins of the difference of floored
    log power spectra.
    """
    # [active, 513]
    difference = decibels(trial.spectrum) - decibels(trial.baseline.spectrum)
    return float(np.sqrt(np.square(difference).mean(axis=1)).mean())


def band_db(trial: Trial, low_hz: float, high_hz: float) -> float:
    """10 log10((E_test + floor) / (E_reference + floor)) of the energy in [low, high) Hz; floor =
    1e-5 of the reference's whole energy.
    """
    # One FFT of the whole clip: a band holds energy, whenever it was said.
    reference, test = (
        np.square(np.abs(np.fft.rfft(signal))) for signal in (trial.reference, trial.test)
    )
    hz = np.fft.rfftfreq(len(trial.reference), 1 / SAMPLE_RATE_HZ)
    inside = (hz >= low_hz) & (hz < high_hz)
    floor = reference.sum() * 10 ** (BAND_FLOOR_DB / 10)
    return float(decibels((test[inside].sum() + floor) / (reference[inside].sum() + floor)))


def f0_rmse_cents(trial: Trial) -> float:
    """Root mean square of 1200 log2(f_t / f_r) over frames voiced in both and no octave apart; 0
    when there is none.
    """
    reference, test = trial.baseline.pitch, trial.pitch
    # An octave jump is another error, which voicing_error_percent counts.
    both = _both_voiced(trial) & ~_gross(trial)
    if not both.any():
        return 0.0
    return float(np.sqrt(np.square(1200 * np.log2(test.hz[both] / reference.hz[both])).mean()))


def voicing_error_percent(trial: Trial) -> float:
    """Share of the reference's loud frames in which voicing clearly differs, or both are voiced
    more than 20 % apart (F0 frame error).
    """
    reference, test = trial.baseline.pitch, trial.pitch
    # Near the threshold a frame flips by chance: periodicity has to move clearly.
    flipped = (reference.voiced != test.voiced) & (
        np.abs(reference.strength - test.strength) > CLEAR_STRENGTH
    )
    return float(100 * np.mean((flipped | (_both_voiced(trial) & _gross(trial)))[reference.loud]))


def _both_voiced(trial: Trial) -> np.ndarray:
    return trial.baseline.pitch.voiced & trial.pitch.voiced


def _gross(trial: Trial) -> np.ndarray:
    return np.abs(trial.pitch.hz - trial.baseline.pitch.hz) > GROSS_SHARE * trial.baseline.pitch.hz


def tone_of(trial: Trial) -> Tone:
    """Return the trial's tone; InputError where it has none."""
    if trial.tone is None:
        raise InputError(
            "this metric needs a sustained tone: Trial(reference, test, other_seed, tone)"
        )
    return trial.tone


def thd_n_db(trial: Trial) -> float:
    """THD+N of the tone of the clip's voice."""
    tone = tone_of(trial)
    return residue_db(tone, tone.test)


def thd_n_increase_db(trial: Trial) -> float:
    """THD+N of the test, less that of the reference: its own noise."""
    tone = tone_of(trial)
    return thd_n_db(trial) - residue_db(tone, tone.reference)


def residue_db(tone: Tone, signal: np.ndarray) -> float:
    """10 log10((sum |S_k - R_k|^2 + sum of |S|^2 off the harmonics) / sum |R_k|^2) of a signal S
    against the tone's reference R.

    S is first taken from where it correlates best with R within 1 ms, and divided by its gain,
    Re(sum S_k R_k*) / sum |R_k|^2: `lag_samples` and `level_db` hold those, and a sign cannot be
    heard.
    """
    # 0.8 s hold whole periods of every pitch: each harmonic is one bin, without leakage.
    lag, _ = alignment(tone.reference, signal, MOST_LAG)
    reference, test = _middle_spectrum(tone.reference), _middle_spectrum(signal, lag)
    step = round(tone.f0_hz * TONE_WINDOW / SAMPLE_RATE_HZ)  # bins from harmonic to harmonic
    # Only the reference's harmonics are the tone: what lies between them is its own noise.
    harmonics = np.zeros_like(reference)
    harmonics[step::step] = reference[step::step]
    power = np.square(np.abs(harmonics)).sum()
    # The real part of the projection: a turned phase is an error, not a gain.
    gain = float((test * harmonics.conj()).real.sum() / power)
    if abs(gain) >= LEAST_GAIN:
        test = test / gain
    return float(decibels(np.square(np.abs(test - harmonics)).sum() / power))


def _middle_spectrum(signal: np.ndarray, lag: int = 0) -> np.ndarray:
    # A vowel's ends rise and fall; its middle is steady.
    start = (len(signal) - TONE_WINDOW) // 2 + lag
    return np.fft.rfft(signal[start : start + TONE_WINDOW])


def pesq_wb(trial: Trial) -> float:
    """ITU-T P.862.2 MOS-LQO: the median over three positions of the clip on PESQ's frame grid, half
    a second of silence around it.

    One position is not enough: PESQ cuts a clip into utterances by thresholds, and an error 54 dB
    down can cost 0.37 MOS there (docs/metrics.md). A clip over 15 s is cut in pauses, and the mean
    of its pieces is its score. Raises InputError where PESQ finds no utterance.
    """
    return float(np.median(trial.pesq_positions))


def pesq_worst_position(trial: Trial) -> float:
    """The lowest of the three positions."""
    return float(min(trial.pesq_positions))


def stoi(trial: Trial) -> float:
    """Short-time objective intelligibility (Taal et al., IEEE TASLP 2011), 0 to 1."""
    from pystoi import stoi as package_stoi

    signals = (at_least(signal, STOI_SAMPLES) for signal in (trial.reference, trial.upright))
    return float(package_stoi(*signals, SAMPLE_RATE_HZ))


def dnsmos_loss(trial: Trial) -> float:
    """DNSMOS of the reference less that of the test, MOS."""
    return trial.baseline.heard.dnsmos - trial.heard.dnsmos


def distillmos_loss(trial: Trial) -> float:
    """DistillMOS of the reference less that of the test, MOS."""
    return trial.baseline.heard.distillmos - trial.heard.distillmos


def speaker_distance(trial: Trial) -> float:
    """1 - cosine of the voiceprints of reference and test, times 100."""
    return float(100 * (1 - trial.baseline.heard.voiceprint @ trial.heard.voiceprint))


def word_errors_added(trial: Trial) -> float:
    """Words that the recognizer gets wrong in the test, less those it gets wrong in the reference,
    against the text.
    """
    if trial.text is None:
        raise InputError("this metric needs what is said: Trial(reference, test, text=...)")
    test, reference = trial.heard.words, trial.baseline.heard.words
    words = words_of(trial.text)
    # Both may err against the text: what counts is what the test adds.
    return float(edit_distance(test, words) - edit_distance(reference, words))


def words_changed(trial: Trial) -> float:
    """Word edits between what the recognizer hears in the test and what it hears in the reference;
    of one clip at most MOST_WORDS.
    """
    return float(min(edit_distance(trial.heard.words, trial.baseline.heard.words), MOST_WORDS))


def snr_db(trial: Trial) -> float:
    """10 log10(sum r^2 / sum (t - r)^2), at most 200."""
    return min(signal_to_noise_db(trial.reference, trial.upright), SNR_CEILING_DB)


def level_db(trial: Trial) -> float:
    """10 log10(sum t^2 / sum r^2): loudness of the whole clip, pauses included."""
    return float(decibels(np.square(trial.test).sum() / np.square(trial.reference).sum()))


def pause_floor_db(trial: Trial) -> float:
    """10 log10((P_t + floor) / (P_r + floor)): mean power of the quietest tenth of the reference's
    25 ms frames. Hiss fills pauses.
    """
    reference, test = (
        np.square(frames(signal)).mean(axis=1) for signal in (trial.reference, trial.test)
    )
    # The reference says where a pause is: the test may have filled it.
    quiet = np.argsort(reference, kind="stable")[: max(1, int(len(reference) * PAUSE_SHARE))]
    floor = reference[trial.baseline.active].mean() * 10 ** (PAUSE_FLOOR_DB / 10)
    return float(decibels((test[quiet].mean() + floor) / (reference[quiet].mean() + floor)))


def peak_db(trial: Trial) -> float:
    """20 log10(max |t| / max |r|)."""
    # A peak is an amplitude: its decibels are twice those of a power ratio.
    return float(2 * decibels(np.abs(trial.test).max() / np.abs(trial.reference).max()))


def clipping_percent(trial: Trial) -> float:
    """Share of samples at the ceiling, test minus reference; the ceiling is 0.999 of a signal's own
    peak, or full scale if lower.

    A clip under 6 s counts as 6 s: in half a second one sample more would be the limit, and another
    seed has two.
    """
    return _at_ceiling_percent(trial.test) - _at_ceiling_percent(trial.reference)


def _at_ceiling_percent(signal: np.ndarray) -> float:
    # A clip that nothing clipped has one sample at its own peak; flat tops have many.
    magnitude = np.abs(signal)
    at_ceiling = np.count_nonzero(magnitude >= min(FULL_SCALE, 0.999 * magnitude.max()))
    return float(100 * at_ceiling / max(len(signal), CLIPPING_SECONDS * SAMPLE_RATE_HZ))


def lag_samples(trial: Trial) -> float:
    """Delay of the whole clip in -240..240 samples, or of that half second of it that is off by
    most; positive = the test is late.

    Against the trial's `clock`, if it has one, by the phases of all bins (`delay`): noise of
    another seed is no delay. Half seconds are searched over 24 samples either way, and count where
    they then correlate by 0.995 with the reference, and by 0.002 better than in place.
    """
    # A piece may be late where the whole is not: half seconds, half overlapping.
    clock = trial.reference if trial.clock is None else trial.clock
    stretches = range(0, max(1, len(clock) - LOCAL_LENGTH + 1), LOCAL_LENGTH // 2)
    cuts = [slice(start, start + LOCAL_LENGTH) for start in stretches]
    whole = delay(clock, trial.test, LONGEST_LAG)
    return float(max([whole, *(_local_lag(clock[cut], trial.test[cut]) for cut in cuts)], key=abs))


def _local_lag(reference: np.ndarray, test: np.ndarray) -> int:
    # Periodic sound correlates at every period: both measures have to agree, and clearly.
    lag, likeness = alignment(reference, test, LOCAL_LAG)
    _, in_place = alignment(reference, test, 0)
    alike = abs(likeness) >= max(ALIKE, abs(in_place) + GAINED)
    return lag if alike and delay(reference, test, LOCAL_LAG) == lag else 0


def polarity(trial: Trial) -> float:
    """1, or -1 when the test is the reference turned over."""
    return 1.0 if trial.alignment[1] >= 0 else -1.0
