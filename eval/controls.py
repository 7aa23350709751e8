"""Known-bad controls: damage that ports of this model really shipped, or that the gates claim to catch, each with its gate.

    from eval.controls import CONTROLS
    damaged = CONTROLS["low-pass 4 kHz"].damage(signal)

A gate that rejects nothing proves nothing: tests/test_eval_controls.py runs every control on real recordings.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from scipy.signal import butter, istft, sosfiltfilt, stft

from pipeline.contract import HOP_SAMPLES, N_FFT, SAMPLE_RATE_HZ

DROPOUT_SAMPLES = SAMPLE_RATE_HZ // 100  # 10 ms


@dataclass(frozen=True)
class Control:
    """A way to spoil a signal [samples] without changing its length, and the metric whose gate must reject it."""

    name: str
    metric: str
    damage: Callable[[np.ndarray], np.ndarray]
    seen: str  # where it happened, or why it is here


def white_noise(signal: np.ndarray, snr_db: float = 20.0, seed: int = 0) -> np.ndarray:
    """Add white noise."""
    noise = np.random.default_rng(seed).standard_normal(len(signal))
    return signal + noise * np.sqrt(np.square(signal).mean()) * 10 ** (-snr_db / 20)


def low_pass(signal: np.ndarray, cutoff_hz: float = 4000.0) -> np.ndarray:
    """Remove everything above the cut-off, without delay."""
    return sosfiltfilt(butter(8, cutoff_hz, fs=SAMPLE_RATE_HZ, output="sos"), signal)


def dropout(signal: np.ndarray) -> np.ndarray:
    """Silence the loudest 10 ms."""
    start = int(np.argmax(np.convolve(np.square(signal), np.ones(DROPOUT_SAMPLES), mode="valid")))
    damaged = signal.copy()
    damaged[start : start + DROPOUT_SAMPLES] = 0.0
    return damaged


def clipped(signal: np.ndarray) -> np.ndarray:
    """Cut everything above half the peak."""
    half = np.abs(signal).max() / 2
    return np.clip(signal, -half, half)


def halved_interior_bins(signal: np.ndarray) -> np.ndarray:
    """The one-sided factor lost in the inverse STFT of 20 points: 1.2 to 10.8 kHz at half amplitude."""
    sizes = {"window": "hann", "nperseg": N_FFT, "noverlap": N_FFT - HOP_SAMPLES}
    spectrum = stft(signal, **sizes)[2]  # [11, columns]
    spectrum[1:-1] /= 2
    return istft(spectrum, **sizes)[1][: len(signal)]


def one_sample_late(signal: np.ndarray) -> np.ndarray:
    """Delay by one sample."""
    return np.concatenate([[0.0], signal[:-1]])


_ALL = (
    Control("white noise, 20 dB", "pesq", white_noise, "hiss of uncalibrated int8 activations"),
    Control("level x 1.5", "level_db", lambda signal: 1.5 * signal, "overlap-add without normalization, in a published port"),
    Control("low-pass 4 kHz", "band_4_8_khz_db", low_pass, "a generator stage lost"),
    Control("dropout 10 ms", "jump_db", dropout, "a chunk boundary or an overflow to zero"),
    Control("clipping at half peak", "clipping_percent", clipped, "saturating int8 range"),
    Control("interior bins halved", "band_2_4_khz_db", halved_interior_bins, "one-sided factor lost in every bucket of a published port"),
    Control("one sample late", "lag_samples", one_sample_late, "off-by-one in the reflection pad: not heard, but the graph is wrong"),
)
CONTROLS = MappingProxyType({control.name: control for control in _ALL})
