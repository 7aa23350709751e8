"""Metrics of the spectrum: mel-cepstral distortion, log-spectral distance, band energies.

mcd_db(Trial(reference, test))
"""

import math

import numpy as np

from core.contract import SAMPLE_RATE_HZ
from eval.metrics.trial import Trial, decibels

MCD_DB = 10 * math.sqrt(2) / math.log(10)  # 6.14185
BAND_FLOOR_DB = -50.0  # of the reference's whole energy


def mcd_db(trial: Trial) -> float:
    """Mean over active frames of 10 sqrt(2) / ln 10 * |c - c'| over c1..c24."""
    return _distance_db(trial.reference_cepstrum, trial.test_cepstrum)


def _distance_db(one: np.ndarray, other: np.ndarray) -> float:
    return float(MCD_DB * np.linalg.norm(one[:, 1:] - other[:, 1:], axis=1).mean())


def mcd_increase_db(trial: Trial) -> float:
    """MCD of other seed and test, less that of other seed and reference: how much farther the test is from a third rendition.

    Never more than mcd_db (a distance obeys the triangle inequality), so mcd_db bounds it for any third party, a recording included.
    """
    return _distance_db(trial.other_seed_cepstrum, trial.test_cepstrum) - _distance_db(trial.other_seed_cepstrum, trial.reference_cepstrum)


def log_spectral_distance_db(trial: Trial) -> float:
    """Mean over active frames of the root mean square over 513 bins of the difference of floored log power spectra."""
    difference = decibels(trial.test_spectrum) - decibels(trial.reference_spectrum)
    return float(np.sqrt(np.square(difference).mean(axis=1)).mean())


def band_db(trial: Trial, low_hz: float, high_hz: float) -> float:
    """10 log10((E_test + floor) / (E_reference + floor)) of the energy in [low, high) Hz; floor = 1e-5 of the reference's whole energy."""
    reference, test = (np.square(np.abs(np.fft.rfft(signal))) for signal in (trial.reference, trial.test))
    hz = np.fft.rfftfreq(len(trial.reference), 1 / SAMPLE_RATE_HZ)
    inside = (hz >= low_hz) & (hz < high_hz)
    floor = reference.sum() * 10 ** (BAND_FLOOR_DB / 10)
    return float(decibels((test[inside].sum() + floor) / (reference[inside].sum() + floor)))
