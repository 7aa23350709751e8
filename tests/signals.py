"""Signals spoilt for the metrics' tests.

noisy = white_noise(speech, snr_db=20.0)
"""

import numpy as np


def white_noise(signal: np.ndarray, snr_db: float = 20.0, seed: int = 0) -> np.ndarray:
    """Add white noise."""
    noise = np.random.default_rng(seed).standard_normal(len(signal))
    return signal + noise * np.sqrt(np.square(signal).mean()) * 10 ** (-snr_db / 20)


def one_sample_late(signal: np.ndarray) -> np.ndarray:
    """Delay by one sample."""
    return np.concatenate([[0.0], signal[:-1]])
