"""Damage done to a rendered waveform [samples] at 24 kHz: what controls and the metrics' tests
share.

dipped(signal, by_db=9.0), hum(signal)
"""

import numpy as np
from scipy.signal import butter, sosfiltfilt

from kokoro_ane.core.contract import FRAME_SAMPLES, SAMPLE_RATE_HZ

EMPTY_BAND_DB = -50.0  # as the metrics of bands count a band empty
QUIETER_DB, LATE_SAMPLES, HISS_DB = 0.3, 6, 70.0  # of the harmless ones


def power(signal: np.ndarray, samples: int) -> np.ndarray:
    """Return the energy of every `samples` in a row [n - samples + 1]."""
    return np.convolve(np.square(signal.astype(np.float64)), np.ones(samples), mode="valid")


def low_pass(signal: np.ndarray, cutoff_hz: float = 4000.0) -> np.ndarray:
    """Remove everything above the cut-off, without delay."""
    return sosfiltfilt(butter(8, cutoff_hz, fs=SAMPLE_RATE_HZ, output="sos"), signal)


def band_limited(signal: np.ndarray) -> np.ndarray:
    """A low-pass at 9 kHz of 12; for a voice that is itself band-limited, at the same three
    quarters of the band it has.
    """
    wide = signal.astype(np.float64)
    return low_pass(wide, 0.75 * bandwidth_hz(wide)).astype(np.float32)


def bandwidth_hz(signal: np.ndarray) -> float:
    """Return the upper edge of the highest 1 kHz band within 50 dB of the whole energy."""
    energy = np.square(np.abs(np.fft.rfft(signal)))
    hz = np.fft.rfftfreq(len(signal), 1 / SAMPLE_RATE_HZ)
    edges = range(0, SAMPLE_RATE_HZ // 2, 1000)
    bands = np.array([energy[(hz >= low) & (hz < low + 1000)].sum() for low in edges])
    filled = np.flatnonzero(bands >= energy.sum() * 10 ** (EMPTY_BAND_DB / 10))
    return 1000.0 * float(1 + filled.max())


def clipped(signal: np.ndarray) -> np.ndarray:
    """Cut everything above half the peak."""
    half = np.abs(signal).max() / 2
    return np.clip(signal, -half, half)


def dipped(
    signal: np.ndarray, by_db: float = 9.0, samples: int = 1440, fade: int = 120
) -> np.ndarray:
    """The loudest `samples` (60 ms) quieter by `by_db`, faded in and out over 5 ms outside of them.
    The signal's own dtype.
    """
    start = int(np.argmax(power(signal, samples)))
    # Faded outside of the stretch, so that it is quieter by all of `by_db` throughout.
    weight = np.zeros(len(signal) + 2 * fade)
    weight[start : start + samples + 2 * fade] = np.r_[
        np.linspace(0, 1, fade), np.ones(samples), np.linspace(1, 0, fade)
    ]
    return (signal * 10 ** (-by_db / 20 * weight[fade : fade + len(signal)])).astype(signal.dtype)


def sine(signal: np.ndarray, hz: float) -> np.ndarray:
    """Return a sine as long as the signal."""
    return np.sin(2 * np.pi * hz * np.arange(len(signal)) / SAMPLE_RATE_HZ)


def swaying(signal: np.ndarray, by_db: float = 2.0, hz: float = 5.0) -> np.ndarray:
    """The level `by_db` up and down, `hz` times a second. The signal's own dtype."""
    return (signal * 10 ** (by_db / 20 * sine(signal, hz))).astype(signal.dtype)


def trembling(signal: np.ndarray, depth: float = 0.03, hz: float = 40.0) -> np.ndarray:
    """Move the level 3 % up and down, 40 times a second. The dtype stays."""
    return (signal * (1 + depth * sine(signal, hz))).astype(signal.dtype)


def rough(signal: np.ndarray) -> np.ndarray:
    """Move the level 8 % up and down, 27 times a second."""
    return trembling(signal, 0.08, 27.0)


def haunted(signal: np.ndarray, down_db: float = 36.0) -> np.ndarray:
    """The clip said backwards below itself: another voice at a level of its own, `down_db` under
    the clip's.
    """
    return signal + np.float32(10 ** (-down_db / 20)) * signal[::-1]


def late_from_the_middle(signal: np.ndarray) -> np.ndarray:
    """Two pieces joined with one sample too many: from the middle of the clip on, everything is a
    sample late.
    """
    # At a boundary of frames, as pieces are joined there.
    middle = len(signal) // FRAME_SAMPLES // 2 * FRAME_SAMPLES
    return np.concatenate([signal[:middle], signal[middle - 1 : -1]])


def offset(signal: np.ndarray) -> np.ndarray:
    """Add a constant of a twentieth of the peak."""
    return signal + np.float32(0.05 * np.abs(signal).max())


def hum(signal: np.ndarray) -> np.ndarray:
    """Add 50 Hz, 35 dB below the peak."""
    wave = sine(signal, 50) * np.abs(signal).max() * 10 ** (-35 / 20)
    return (signal + wave).astype(np.float32)


def clicked(signal: np.ndarray) -> np.ndarray:
    """Set one sample of the clip's quietest 100 ms to the clip's peak."""
    spoilt = signal.copy()
    spoilt[int(np.argmin(power(signal, 2400))) + 1200] = np.abs(signal).max()
    return spoilt


def echoing(signal: np.ndarray) -> np.ndarray:
    """Add an echo after 30 ms, 20 dB down."""
    late = SAMPLE_RATE_HZ * 30 // 1000
    return signal + np.float32(0.1) * np.concatenate([np.zeros(late, signal.dtype), signal[:-late]])


def eight_bits(signal: np.ndarray) -> np.ndarray:
    """Round samples to 8 bits of full scale."""
    return np.round(signal * 127).astype(np.float32) / np.float32(127)


def turned_over(signal: np.ndarray) -> np.ndarray:
    """Change every sample's sign."""
    return -signal


def quieter(signal: np.ndarray) -> np.ndarray:
    """Make the clip 0.3 dB quieter."""
    return signal * np.float32(10 ** (-QUIETER_DB / 20))


def later(signal: np.ndarray) -> np.ndarray:
    """Delay everything by a quarter of a millisecond."""
    return np.concatenate([np.zeros(LATE_SAMPLES, signal.dtype), signal[:-LATE_SAMPLES]])


def hiss(signal: np.ndarray) -> np.ndarray:
    """Add white noise 70 dB below the speech."""
    noise = np.random.default_rng(0).standard_normal(len(signal))
    gain = np.sqrt(np.square(signal).mean()) * 10 ** (-HISS_DB / 20)
    return (signal + noise * gain).astype(np.float32)
