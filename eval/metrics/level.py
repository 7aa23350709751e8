"""Metrics of the samples themselves: error power, level, jumps, peaks, clipping, delay. PESQ and MCD are blind to most of these.

snr_db(Trial(reference, test))
"""

import numpy as np

from core import figures
from eval.metrics.trial import Trial, decibels, frames

SNR_CEILING_DB = 200.0  # what equal signals score: JSON has no infinity
JUMP_FRAME, JUMP_HOP = 120, 60  # 5 ms, 2.5 ms
JUMP_FLOOR_DB = -30.0  # of the power of the reference's loudest 5 ms
FULL_SCALE = 1.0
PAUSE_SHARE = 0.1  # of the reference's frames, the quietest
PAUSE_FLOOR_DB = -60.0  # of the reference's mean active power: what is quieter than that is silence in both
LONGEST_LAG = 240  # samples, 10 ms


def snr_db(trial: Trial) -> float:
    """10 log10(sum r^2 / sum (t - r)^2), at most 200."""
    return min(figures.snr_db(trial.reference, trial.test), SNR_CEILING_DB)


def level_db(trial: Trial) -> float:
    """10 log10(sum t^2 / sum r^2): loudness of the whole clip, pauses included."""
    return float(decibels(np.square(trial.test).sum() / np.square(trial.reference).sum()))


def jump_db(trial: Trial) -> float:
    """Largest |level difference| of any 5 ms: dropouts and clicks. Both powers have 1e-3 of the reference's loudest 5 ms added."""
    reference, test = (np.square(frames(signal, JUMP_FRAME, JUMP_HOP)).mean(axis=1) for signal in (trial.reference, trial.test))
    floor = reference.max() * 10 ** (JUMP_FLOOR_DB / 10)
    return float(np.abs(decibels((test + floor) / (reference + floor))).max())


def pause_floor_db(trial: Trial) -> float:
    """10 log10((P_t + floor) / (P_r + floor)): mean power of the quietest tenth of the reference's 25 ms frames. Hiss fills pauses."""
    reference, test = (np.square(frames(signal)).mean(axis=1) for signal in (trial.reference, trial.test))
    quiet = np.argsort(reference, kind="stable")[: max(1, int(len(reference) * PAUSE_SHARE))]
    floor = reference[trial.active].mean() * 10 ** (PAUSE_FLOOR_DB / 10)
    return float(decibels((test[quiet].mean() + floor) / (reference[quiet].mean() + floor)))


def peak_db(trial: Trial) -> float:
    """20 log10(max |t| / max |r|)."""
    return float(2 * decibels(np.abs(trial.test).max() / np.abs(trial.reference).max()))


def clipping_percent(trial: Trial) -> float:
    """Share of samples at the ceiling, test minus reference; the ceiling is 0.999 of a signal's own peak, or full scale if lower."""
    return _at_ceiling_percent(trial.test) - _at_ceiling_percent(trial.reference)


def _at_ceiling_percent(signal: np.ndarray) -> float:
    magnitude = np.abs(signal)
    return float(100 * np.mean(magnitude >= min(FULL_SCALE, 0.999 * magnitude.max())))


def lag_samples(trial: Trial) -> float:
    """Delay in -240..240 samples at which the cross-correlation of test and reference is largest; positive = the test is late."""
    size = 1 << (len(trial.reference) + LONGEST_LAG).bit_length()
    spectrum = np.fft.rfft(trial.test, size) * np.conj(np.fft.rfft(trial.reference, size))
    correlation = np.fft.irfft(spectrum, size)
    lags = np.arange(-LONGEST_LAG, LONGEST_LAG + 1)
    return float(lags[np.argmax(correlation[lags])])
