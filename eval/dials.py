"""Damage with a dial, one kind for each gate, from too weak to be found to plain: what eval.power turns.

    for dial in DIALS: dial.damage(signal, dial.amounts[0])

All are done to a waveform [samples] at 24 kHz and keep its length; randomness is seeded.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.signal import resample

from core.contract import SAMPLE_RATE_HZ
from eval.damage import dipped, low_pass, swaying

MS = SAMPLE_RATE_HZ // 1000


@dataclass(frozen=True)
class Dial:
    """One kind of damage: the gate that should find it, the unit of its amounts, and the amounts from weak to strong."""

    gate: str
    what: str
    unit: str
    amounts: tuple[float, ...]
    damage: Callable[[np.ndarray, float], np.ndarray]


def noisy(signal: np.ndarray, snr_db: float) -> np.ndarray:
    """White noise, `snr_db` below the clip."""
    noise = np.random.default_rng(0).standard_normal(len(signal))
    return signal + noise * np.sqrt(np.square(signal).mean()) * 10 ** (-snr_db / 20)


def correlated_noise(signal: np.ndarray, snr_db: float) -> np.ndarray:
    """Noise that follows the signal's level, as rounding does."""
    return signal * (1 + np.random.default_rng(0).standard_normal(len(signal)) * 10 ** (-snr_db / 20))


def gained(signal: np.ndarray, by_db: float) -> np.ndarray:
    """Louder."""
    return signal * 10 ** (by_db / 20)


def shelved(signal: np.ndarray, by_db: float, from_hz: float, to_hz: float) -> np.ndarray:
    """A band louder."""
    spectrum, hz = np.fft.rfft(signal), np.fft.rfftfreq(len(signal), 1 / SAMPLE_RATE_HZ)
    return np.fft.irfft(spectrum * np.where((hz >= from_hz) & (hz < to_hz), 10 ** (by_db / 20), 1.0), len(signal))


def _louder_band(low_khz: int, high_khz: int) -> Dial:
    def damage(signal: np.ndarray, by_db: float) -> np.ndarray:
        return shelved(signal, by_db, 1000.0 * low_khz, 1000.0 * high_khz)

    gate, what = f"band_{low_khz}_{high_khz}_khz_db worst", f"louder from {low_khz} to {high_khz} kHz"
    return Dial(gate, what, "dB", (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0), damage)


def silenced(signal: np.ndarray, ms: float) -> np.ndarray:
    """The loudest `ms` gone."""
    samples = max(1, round(ms * MS))
    start = int(np.argmax(np.convolve(np.square(signal), np.ones(samples), mode="valid")))
    return np.concatenate([signal[:start], np.zeros(samples), signal[start + samples :]])


def replaced(signal: np.ndarray, ms: float) -> np.ndarray:
    """The loudest `ms` (half a clip at most) replaced by the sound half a clip away, at the same level, faded over 2 ms."""
    samples, fade = min(round(ms * MS), len(signal) // 2), 2 * MS
    start = int(np.argmax(np.convolve(np.square(signal), np.ones(samples), mode="valid")))
    other = np.roll(signal, -(len(signal) // 2))[start : start + samples]
    here = signal[start : start + samples]
    other = other * np.sqrt(np.square(here).mean() / max(np.square(other).mean(), 1e-9))
    edge = np.minimum(1, np.minimum(np.arange(samples), np.arange(samples)[::-1]) / fade)
    return np.concatenate([signal[:start], here + (other - here) * edge, signal[start + samples :]])


def detuned(signal: np.ndarray, cents: float) -> np.ndarray:
    """The whole clip higher by `cents`, drawn out again by leaving its last samples as silence."""
    higher = resample(signal, round(len(signal) / 2 ** (cents / 1200)))
    return np.concatenate([higher, np.zeros(len(signal) - len(higher))])


def glitched(signal: np.ndarray, cents: float) -> np.ndarray:
    """100 ms about the loudest place higher by `cents`: read faster there, the next samples read twice."""
    length = 100 * MS
    start = min(int(np.argmax(np.convolve(np.square(signal), np.ones(length), mode="valid"))), len(signal) - 2 * length)
    rate = 2 ** (cents / 1200)
    taken = signal[start : start + round(length * rate)]
    return np.concatenate([signal[:start], resample(taken, length), signal[start + length :]])


def delayed(signal: np.ndarray, samples: float) -> np.ndarray:
    """Late by whole samples."""
    late = int(samples)
    return np.concatenate([np.zeros(late), signal[: len(signal) - late]])


def whispered(signal: np.ndarray, ms: float) -> np.ndarray:
    """The loudest `ms` as a whisper: noise of the same spectrum there."""
    samples = min(round(ms * MS), len(signal) // 2)
    start = int(np.argmax(np.convolve(np.square(signal), np.ones(samples), mode="valid")))
    phases = np.exp(2j * np.pi * np.random.default_rng(0).random(samples // 2 + 1))
    noise = np.fft.irfft(np.abs(np.fft.rfft(signal[start : start + samples])) * phases, samples)
    return np.concatenate([signal[:start], noise, signal[start + samples :]])


def saturated(signal: np.ndarray, share: float) -> np.ndarray:
    """Cut off above `share` of the peak."""
    most = share * np.abs(signal).max()
    return np.clip(signal, -most, most)


_CORRELATED, _WHITE = "noise that follows the level, SNR", "white noise, SNR"
_REPLACED, _SWAYING = "the loudest sound replaced by another", "level up and down, 5 Hz"
DIALS = (
    Dial("pesq mean", _CORRELATED, "dB", (50, 45, 42, 40, 38, 36, 34, 32, 30, 25), correlated_noise),
    Dial("pesq worst", _CORRELATED, "dB", (50, 45, 42, 40, 38, 36, 34, 32, 30, 25), correlated_noise),
    Dial("mcd_db mean", _CORRELATED, "dB", (50, 45, 40, 38, 36, 34, 32, 30, 25, 20), correlated_noise),
    Dial("mcd_increase_db mean", _CORRELATED, "dB", (50, 45, 40, 38, 36, 34, 32, 30, 25, 20), correlated_noise),
    Dial("lsd_db mean", _WHITE, "dB", (70, 65, 60, 55, 50, 45, 40, 35, 30), noisy),
    Dial("local_spectrum_db worst", _REPLACED, "ms", (5, 10, 15, 20, 25, 30, 40, 50, 75, 100), replaced),
    Dial("local_level_db worst", "the loudest 60 ms quieter", "dB", (1, 2, 3, 4, 5, 6, 7, 8, 9, 12), dipped),
    Dial("level_sway_db mean", _SWAYING, "dB", (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.5, 2), swaying),
    Dial("level_sway_db worst", _SWAYING, "dB", (0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.5, 2), swaying),
    Dial("local_pitch_cents worst", "100 ms higher", "cents", (25, 50, 75, 100, 150, 200, 250, 300), glitched),
    Dial("jump_db worst", "the loudest sound silenced", "ms", (1, 2, 3, 4, 5, 7.5, 10), silenced),
    Dial("level_db worst", "louder", "dB", (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0), gained),
    *(_louder_band(*band) for band in ((0, 2), (2, 4), (4, 8))),
    Dial("band_8_12_khz_db worst", "low-pass", "kHz", (11.5, 11, 10.5, 10, 9.5, 9, 8.5, 8, 7, 6), lambda s, a: low_pass(s, 1000 * a)),
    Dial("pause_floor_db worst", _WHITE, "dB", (80, 70, 65, 60, 55, 50, 45, 40), noisy),
    Dial("f0_rmse_cents mean", "the whole clip higher", "cents", (5, 10, 15, 20, 25, 30, 40), detuned),
    Dial("voicing_error_percent mean", "the loudest sound as a whisper", "ms", (25, 50, 75, 100, 150, 200, 300, 400), whispered),
    Dial("thd_n_increase_db worst", _CORRELATED, "dB", (40, 30, 20, 15, 10, 5, 0, -5), correlated_noise),
    Dial("clipping_percent worst", "cut off above this share of the peak", "", (0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.5), saturated),
    Dial("lag_samples worst", "late", "samples", (1, 2, 5), delayed),
    Dial("words_changed mean", _REPLACED, "ms", (75, 150, 300, 600, 1000), replaced),
    Dial("word_errors_added mean", _REPLACED, "ms", (75, 150, 300, 600, 1000), replaced),
    Dial("speaker_distance mean", "the whole clip higher", "cents", (25, 50, 100, 150, 200, 300), detuned),
    Dial("dnsmos_loss mean", _WHITE, "dB", (60, 50, 45, 40, 35, 30, 25, 20), noisy),
    Dial("distillmos_loss mean", _WHITE, "dB", (60, 50, 45, 40, 35, 30, 25, 20), noisy),
)
