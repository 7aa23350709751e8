"""Ways to spoil a waveform: what no bug of the model is needed for.

spoilt = low_pass(signal, cutoff_hz=9000.0)
"""

import numpy as np
from scipy.signal import butter, sosfiltfilt

from core.contract import SAMPLE_RATE_HZ


def white_noise(signal: np.ndarray, snr_db: float = 20.0, seed: int = 0) -> np.ndarray:
    """Add white noise."""
    noise = np.random.default_rng(seed).standard_normal(len(signal))
    return signal + noise * np.sqrt(np.square(signal).mean()) * 10 ** (-snr_db / 20)


def low_pass(signal: np.ndarray, cutoff_hz: float = 4000.0) -> np.ndarray:
    """Remove everything above the cut-off, without delay."""
    return sosfiltfilt(butter(8, cutoff_hz, fs=SAMPLE_RATE_HZ, output="sos"), signal)


def clipped(signal: np.ndarray) -> np.ndarray:
    """Cut everything above half the peak."""
    half = np.abs(signal).max() / 2
    return np.clip(signal, -half, half)


def one_sample_late(signal: np.ndarray) -> np.ndarray:
    """Delay by one sample."""
    return np.concatenate([[0.0], signal[:-1]])
