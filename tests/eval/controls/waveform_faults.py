"""Damage done to a rendered waveform [samples] at 24 kHz, which the controls and the metrics' tests
share.

dipped(signal, by_db=9.0), hum(signal)
"""

import numpy as np
from scipy.signal import butter, sosfiltfilt

from kokoro_ane.core import FRAME_SAMPLES, SAMPLE_RATE_HZ

EMPTY_BAND_DB = -50.0  # as the metrics of bands count a band empty


def power(signal: np.ndarray, samples: int) -> np.ndarray:
    """Return the energy of every `samples` in a row [n - samples + 1]."""
    return np.convolve(np.square(signal.astype(np.float64)), np.ones(samples), mode="valid")


def low_pass(signal: np.ndarray, cutoff_hz: float) -> np.ndarray:
    """Remove everything above the cut-off, without delay."""
    return sosfiltfilt(butter(8, cutoff_hz, fs=SAMPLE_RATE_HZ, output="sos"), signal)


def band_limited(signal: np.ndarray) -> np.ndarray:
    """Cut off the upper quarter of the band that the voice has: what is above 9 kHz of 12, or less
    of a voice that is itself band-limited.
    """
    energy = np.square(np.abs(np.fft.rfft(signal.astype(np.float64))))
    # The highest band of 1 kHz within 50 dB of the whole energy ends the voice's own band.
    khz = np.fft.rfftfreq(len(signal), 1000 / SAMPLE_RATE_HZ).astype(int)
    filled = np.flatnonzero(np.bincount(khz, energy) >= energy.sum() * 10 ** (EMPTY_BAND_DB / 10))
    bandwidth_hz = 1000 * min(filled.max() + 1, 12)
    return low_pass(signal.astype(np.float64), 0.75 * bandwidth_hz)


def clipped(signal: np.ndarray) -> np.ndarray:
    """Cut everything above half the peak."""
    half = np.abs(signal).max() / 2
    return np.clip(signal, -half, half)


def dipped(signal: np.ndarray, by_db: float = 9.0) -> np.ndarray:
    """Make the loudest 60 ms quieter by `by_db`, faded over 5 ms outside of them."""
    samples, fade = 1440, 120
    start = int(np.argmax(power(signal, samples)))
    weight = np.zeros(len(signal) + 2 * fade)
    weight[start : start + samples + 2 * fade] = np.r_[
        np.linspace(0, 1, fade), np.ones(samples), np.linspace(1, 0, fade)
    ]
    return signal * 10 ** (-by_db / 20 * weight[fade : fade + len(signal)])


def sine(signal: np.ndarray, hz: float) -> np.ndarray:
    """Return a sine as long as the signal."""
    return np.sin(2 * np.pi * hz * np.arange(len(signal)) / SAMPLE_RATE_HZ)


def swaying(signal: np.ndarray, by_db: float = 2.0, hz: float = 5.0) -> np.ndarray:
    """Move the level `by_db` up and down, `hz` times a second."""
    return signal * 10 ** (by_db / 20 * sine(signal, hz))


def trembling(signal: np.ndarray, depth: float = 0.03, hz: float = 40.0) -> np.ndarray:
    """Move the level by `depth` (1 is all of it) up and down, `hz` times a second."""
    return signal * (1 + depth * sine(signal, hz))


def late(signal: np.ndarray, at: int, samples: int = 1) -> np.ndarray:
    """Delay everything from sample `at` on; the samples before it are said again in the gap."""
    return np.concatenate([signal[:at], signal[at - samples : -samples]])


def late_from_the_middle(signal: np.ndarray) -> np.ndarray:
    """Join two pieces with one sample too many, at the middle boundary of frames."""
    return late(signal, len(signal) // FRAME_SAMPLES // 2 * FRAME_SAMPLES)


def haunted(signal: np.ndarray) -> np.ndarray:
    """Add the clip said backwards, 36 dB below itself: another voice at a level of its own."""
    return signal + 10 ** (-36 / 20) * signal[::-1]


def hum(signal: np.ndarray) -> np.ndarray:
    """Add 50 Hz, 35 dB below the peak."""
    return signal + sine(signal, 50) * np.abs(signal).max() * 10 ** (-35 / 20)


def clicked(signal: np.ndarray) -> np.ndarray:
    """Set one sample of the clip's quietest 100 ms to the clip's peak."""
    spoilt = signal.copy()
    spoilt[int(np.argmin(power(signal, 2400))) + 1200] = np.abs(signal).max()
    return spoilt


def hiss(signal: np.ndarray) -> np.ndarray:
    """Add white noise 70 dB below the speech."""
    noise = np.random.default_rng(0).standard_normal(len(signal))
    return signal + noise * np.sqrt(np.square(signal).mean()) * 10 ** (-70 / 20)
