"""Metrics of pitch: F0 of both signals by one tracker, compared frame by frame.

    f0_rmse_cents(Trial(reference, test)), voicing_error_percent(Trial(reference, test))

Both signals go through the same tracker, so its own errors mostly cancel.
"""

import numpy as np

from eval.metrics.trial import Trial

GROSS_SHARE = 0.2  # farther apart than this is another octave, not another pitch
CLEAR_STRENGTH = 0.1  # a frame whose periodicity moves by less than this is near the threshold, not voiced otherwise


def f0_rmse_cents(trial: Trial) -> float:
    """Root mean square of 1200 log2(f_t / f_r) over frames voiced in both and no octave apart; 0 when there is none."""
    reference, test = trial.baseline.pitch, trial.test_pitch
    both = _both_voiced(trial) & ~_gross(trial)
    if not both.any():
        return 0.0
    return float(np.sqrt(np.square(1200 * np.log2(test.hz[both] / reference.hz[both])).mean()))


def voicing_error_percent(trial: Trial) -> float:
    """Share of the reference's loud frames in which voicing clearly differs, or both are voiced more than 20 % apart (F0 frame error)."""
    reference, test = trial.baseline.pitch, trial.test_pitch
    flipped = (reference.voiced != test.voiced) & (np.abs(reference.strength - test.strength) > CLEAR_STRENGTH)
    return float(100 * np.mean((flipped | (_both_voiced(trial) & _gross(trial)))[reference.loud]))


def _both_voiced(trial: Trial) -> np.ndarray:
    return trial.baseline.pitch.voiced & trial.test_pitch.voiced


def _gross(trial: Trial) -> np.ndarray:
    return np.abs(trial.test_pitch.hz - trial.baseline.pitch.hz) > GROSS_SHARE * trial.baseline.pitch.hz
