"""A signal in windows of 60 ms, 5 ms apart: the power in 40 mel bands and the whole power, each averaged before any logarithm.

windows = windows_of(signal)  # .mel [n, 40], .level [m]

A phone lasts 50 ms and more. Powers are averaged first, because two noises are then near each other and two phones are not.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from core.contract import SAMPLE_RATE_HZ
from eval.metrics.framing import FFT_SIZE, FRAME_HOP, FRAME_LENGTH, frames, power_spectrum, running_mean

WINDOW = 1440  # samples, 60 ms
MEL_BANDS = 40


@dataclass(frozen=True, eq=False)
class Windows:
    """mel [n, 40]: power by mel band (Slaney's scale); level [m]: mean square. Both of windows of 60 ms."""

    mel: np.ndarray
    level: np.ndarray


def windows_of(signal: np.ndarray) -> Windows:
    """signal [samples] at 24 kHz, at least 60 ms."""
    mel = power_spectrum(signal) @ mel_bank(MEL_BANDS).T
    level = np.square(frames(signal, FRAME_HOP, FRAME_HOP)).mean(axis=1)
    return Windows(running_mean(mel, (WINDOW - FRAME_LENGTH) // FRAME_HOP + 1), running_mean(level, WINDOW // FRAME_HOP))


@cache
def mel_bank(bands: int) -> np.ndarray:
    """librosa's triangular mel filters [bands, 513] for 24 kHz, 0 to 12 kHz."""
    from librosa.filters import mel

    return mel(sr=SAMPLE_RATE_HZ, n_fft=FFT_SIZE, n_mels=bands, dtype=np.float64)
