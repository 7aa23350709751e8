"""F0 of a signal, frame by frame: the tracker that the pitch metrics put both signals through.

    track_pitch(signal).hz  # [samples] -> [frames]

Boersma's (1993) without its path search: the autocorrelation of a Hann-windowed frame divided by the window's own, the
strongest lag of 60 to 400 Hz, with a small cost for low octaves. tests/test_eval_pitch.py holds it to Praat.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from core.contract import SAMPLE_RATE_HZ

PITCH_FRAME, PITCH_HOP, PITCH_FFT = 1200, 240, 4096  # 50 ms, 10 ms, samples
LOWEST_HZ, HIGHEST_HZ = 60, 400
VOICED_ABOVE = 0.55  # of the normalized autocorrelation
OCTAVE_COST = 0.04  # a lag of twice the length must correlate better by this
QUIET_DB = -40.0  # below the loudest frame nothing is voiced


@dataclass(frozen=True)
class PitchTrack:
    """Per 50 ms frame, 10 ms apart [frames]: F0 in Hz, how periodic the frame is (0 to 1), and whether it is loud enough to tell."""

    hz: np.ndarray
    strength: np.ndarray
    loud: np.ndarray

    @property
    def voiced(self) -> np.ndarray:
        """[frames] bool."""
        return (self.strength > VOICED_ABOVE) & self.loud


def track_pitch(signal: np.ndarray) -> PitchTrack:
    """Track of signal [samples] at 24 kHz, at least 50 ms."""
    windowed = np.lib.stride_tricks.sliding_window_view(signal - signal.mean(), PITCH_FRAME)[::PITCH_HOP] * np.hanning(PITCH_FRAME)
    spectrum = np.square(np.abs(np.fft.rfft(windowed, PITCH_FFT, axis=1)))
    correlation = np.fft.irfft(spectrum, axis=1)[:, : SAMPLE_RATE_HZ // LOWEST_HZ + 2]
    power = np.maximum(correlation[:, 0], 1e-20)
    normal = correlation / power[:, None] / _window_correlation()[: correlation.shape[1]]
    lags = np.arange(SAMPLE_RATE_HZ // HIGHEST_HZ, SAMPLE_RATE_HZ // LOWEST_HZ + 1)
    best = lags[np.argmax(normal[:, lags] - OCTAVE_COST * np.log2(lags / lags[0]), axis=1)]
    rows = np.arange(len(power))
    return PitchTrack(SAMPLE_RATE_HZ / _peak(normal, rows, best), normal[rows, best], power > power.max() * 10 ** (QUIET_DB / 10))


def _peak(curve: np.ndarray, rows: np.ndarray, lags: np.ndarray) -> np.ndarray:
    """Lag of the parabola through each peak and its neighbours."""
    before, at, after = (curve[rows, lags + step] for step in (-1, 0, 1))
    bend = before - 2 * at + after
    return lags + np.clip(np.divide(before - after, 2 * bend, out=np.zeros_like(at), where=np.abs(bend) > 1e-12), -1.0, 1.0)


@cache
def _window_correlation() -> np.ndarray:
    spectrum = np.square(np.abs(np.fft.rfft(np.hanning(PITCH_FRAME), PITCH_FFT)))
    correlation = np.fft.irfft(spectrum)
    return correlation / correlation[0]
