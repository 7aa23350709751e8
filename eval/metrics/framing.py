"""Signals cut into frames, and what makes a signal unfit to be measured.

power = power_spectrum(signal)  # [samples] -> [frames, 513]
"""

import numpy as np
from scipy.signal import resample_poly

from core.contract import SAMPLE_RATE_HZ

MODEL_RATE_HZ = 16_000  # of PESQ, the recognizer and every model that listens

SHORTEST_SECONDS = 0.25  # PESQ refuses less
SILENT_DBFS = -70.0
FRAME_LENGTH, FRAME_HOP, FFT_SIZE = 600, 120, 1024  # 25 ms, 5 ms, samples


def defect(signal: np.ndarray) -> str | None:
    """What makes a signal unfit for any metric, or None: not mono, too short, not finite, silent."""
    if not isinstance(signal, np.ndarray) or signal.ndim != 1 or not np.issubdtype(signal.dtype, np.floating):
        kind = getattr(signal, "dtype", type(signal).__name__)
        return f"is {kind} of shape {list(np.shape(signal))}: a mono float array [samples] is needed"
    seconds = len(signal) / SAMPLE_RATE_HZ
    if seconds < SHORTEST_SECONDS:
        return f"lasts {seconds:.3f} s: at least {SHORTEST_SECONDS} s are needed"
    broken = int(np.count_nonzero(~np.isfinite(signal)))
    if broken:
        return f"holds {broken} samples that are NaN or infinite"
    level_dbfs = decibels(np.square(signal.astype(np.float64)).mean())
    if level_dbfs < SILENT_DBFS:
        return f"is silent ({level_dbfs:.0f} dBFS): speech above {SILENT_DBFS:.0f} dBFS is needed"
    return None


def frames(signal: np.ndarray, length: int = FRAME_LENGTH, hop: int = FRAME_HOP) -> np.ndarray:
    """signal [samples] -> overlapping frames [n, length], the last one ending inside the signal."""
    return np.lib.stride_tricks.sliding_window_view(signal, length)[::hop]


def power_spectrum(signal: np.ndarray) -> np.ndarray:
    """signal [samples] -> |FFT|^2 of Hann-windowed 25 ms frames [n, 513]."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME_LENGTH) / FRAME_LENGTH)
    return np.square(np.abs(np.fft.rfft(frames(signal) * window, FFT_SIZE, axis=1)))


def decibels(power_ratio: float | np.ndarray) -> float | np.ndarray:
    """10 log10, with a power of zero held at -300 dB so that every figure is finite."""
    return 10 * np.log10(np.maximum(power_ratio, 1e-30))


def at_16_khz(signal: np.ndarray) -> np.ndarray:
    """24 kHz [n] -> 16 kHz [ceil(2 n / 3)], scipy's polyphase filter (Kaiser 5.0): the only resampling in the evaluation."""
    return resample_poly(signal, MODEL_RATE_HZ // 8000, SAMPLE_RATE_HZ // 8000)


def running_mean(values: np.ndarray, length: int) -> np.ndarray:
    """values [n, ...] -> means of every `length` neighbours [n - length + 1, ...]; of all of them where there are fewer."""
    length = min(length, len(values))
    total = np.cumsum(np.concatenate([np.zeros_like(values[:1]), values]), axis=0)
    return (total[length:] - total[:-length]) / length


def at_least(signal: np.ndarray, samples: int) -> np.ndarray:
    """The signal, said again until it holds `samples`: for models that want more than a short clip has."""
    return np.tile(signal, -(-samples // len(signal))) if len(signal) < samples else signal


def alignment(reference: np.ndarray, test: np.ndarray, longest: int) -> tuple[int, float]:
    """Lag in -longest..longest at which the magnitude of the cross-correlation is largest (positive = the test is late), and the
    normalized correlation there, -1 to 1. Its sign is the test's polarity."""
    size = 1 << (len(reference) + longest).bit_length()
    spectrum = np.fft.rfft(test, size) * np.conj(np.fft.rfft(reference, size))
    correlation = np.fft.irfft(spectrum, size)
    lags = np.arange(-longest, longest + 1)
    found = lags[np.argmax(np.abs(correlation[lags]))]
    power = np.sqrt(np.square(reference).sum() * np.square(test).sum())
    return int(found), float(correlation[found] / max(power, 1e-30))
