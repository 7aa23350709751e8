"""Ways to spoil a waveform: what no bug of the model is needed for.

spoilt = low_pass(signal, cutoff_hz=9000.0)
"""

import numpy as np
from scipy.signal import butter, sosfiltfilt

from core.contract import SAMPLE_RATE_HZ


def low_pass(signal: np.ndarray, cutoff_hz: float = 4000.0) -> np.ndarray:
    """Remove everything above the cut-off, without delay."""
    return sosfiltfilt(butter(8, cutoff_hz, fs=SAMPLE_RATE_HZ, output="sos"), signal)


def clipped(signal: np.ndarray) -> np.ndarray:
    """Cut everything above half the peak."""
    half = np.abs(signal).max() / 2
    return np.clip(signal, -half, half)
