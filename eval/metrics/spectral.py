"""Metrics of the spectrum: mel-cepstral distortion, log-spectral distance, band energies.

mcd_db(Trial(reference, test))
"""

import math

import numpy as np

from core.contract import SAMPLE_RATE_HZ
from core.errors import InputError
from eval.metrics.framing import decibels, power_spectrum
from eval.metrics.trial import Trial
from eval.metrics.windows import mel_bank

MCD_DB = 10 * math.sqrt(2) / math.log(10)  # 6.14185
LITERATURE_BANDS, TINY_POWER = 80, 1e-10
BAND_FLOOR_DB = -50.0  # of the reference's whole energy


def mcd_db(trial: Trial) -> float:
    """Mean over active frames of 10 sqrt(2) / ln 10 * |c - c'| over c1..c24."""
    return _distance_db(trial.baseline.cepstrum, trial.test_cepstrum)


def _distance_db(one: np.ndarray, other: np.ndarray) -> float:
    return float(MCD_DB * np.linalg.norm(one[:, 1:] - other[:, 1:], axis=1).mean())


def mcd_increase_db(trial: Trial) -> float:
    """MCD of other seed and test, less that of other seed and reference: how much farther the test is from a third rendition. Mean over
    the other seeds.

    Never more than mcd_db (a distance obeys the triangle inequality), so mcd_db bounds it for any third party, a recording included.
    """
    own, seeds = trial.baseline.cepstrum, trial.baseline.seed_cepstra
    if not seeds:
        raise InputError("this metric needs the reference under other noise seeds: Trial(reference, test, other_seeds)")
    return float(np.mean([_distance_db(seed, trial.test_cepstrum) - _distance_db(seed, own) for seed in seeds]))


def literature_mcd_db(trial: Trial, coefficients: int) -> float:
    """MCD as the literature has it: c1..cK of librosa's mel-frequency cepstra (80 bands), every frame, no floor, no time-warping.

    Scaled so that ln|S| = c0 + 2 sum c_k cos: then 10 sqrt(2) / ln 10 is the factor that belongs to it.
    """
    reference, test = (literature_cepstra(signal)[:, 1 : coefficients + 1] for signal in (trial.reference, trial.test))
    return float(MCD_DB * np.linalg.norm(reference - test, axis=1).mean())


def literature_cepstra(signal: np.ndarray) -> np.ndarray:
    """signal [samples] -> mel-frequency cepstra c0..c24 [frames, 25] of log magnitudes."""
    from librosa.feature import mfcc

    power = power_spectrum(signal) @ mel_bank(LITERATURE_BANDS).T
    log_magnitude = 0.5 * np.log(np.maximum(power, TINY_POWER))
    return mfcc(S=log_magnitude.T, n_mfcc=25).T / math.sqrt(2 * LITERATURE_BANDS)


def log_spectral_distance_db(trial: Trial) -> float:
    """Mean over active frames of the root mean square over 513 bins of the difference of floored log power spectra."""
    difference = decibels(trial.test_spectrum) - decibels(trial.baseline.spectrum)
    return float(np.sqrt(np.square(difference).mean(axis=1)).mean())


def band_db(trial: Trial, low_hz: float, high_hz: float) -> float:
    """10 log10((E_test + floor) / (E_reference + floor)) of the energy in [low, high) Hz; floor = 1e-5 of the reference's whole energy."""
    reference, test = (np.square(np.abs(np.fft.rfft(signal))) for signal in (trial.reference, trial.test))
    hz = np.fft.rfftfreq(len(trial.reference), 1 / SAMPLE_RATE_HZ)
    inside = (hz >= low_hz) & (hz < high_hz)
    floor = reference.sum() * 10 ** (BAND_FLOOR_DB / 10)
    return float(decibels((test[inside].sum() + floor) / (reference[inside].sum() + floor)))
