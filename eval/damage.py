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


def dipped(signal: np.ndarray, by_db: float, samples: int = 1440, fade: int = 120) -> np.ndarray:
    """The loudest `samples` (60 ms) quieter by `by_db`, faded in and out over 5 ms outside of them. The signal's own dtype."""
    power = np.convolve(np.square(signal.astype(np.float64)), np.ones(samples), mode="valid")
    start = int(np.argmax(power))
    weight = np.zeros(len(signal) + 2 * fade)
    weight[start : start + samples + 2 * fade] = np.r_[np.linspace(0, 1, fade), np.ones(samples), np.linspace(1, 0, fade)]
    return (signal * 10 ** (-by_db / 20 * weight[fade : fade + len(signal)])).astype(signal.dtype)


def swaying(signal: np.ndarray, by_db: float, hz: float = 5.0) -> np.ndarray:
    """The level `by_db` up and down, `hz` times a second."""
    return signal * 10 ** (by_db / 20 * np.sin(2 * np.pi * hz * np.arange(len(signal)) / SAMPLE_RATE_HZ))
