"""Signals spoilt for the metrics' tests, and clips short enough for them.

noisy = white_noise(speech, snr_db=20.0)
"""

from dataclasses import replace

import numpy as np
from scipy.signal import resample, resample_poly

from kokoro_ane.core.contract import SAMPLE_RATE_HZ

PHRASE_FRAMES = 90
MS = 24  # samples


def resampled(audio, rate_hz, target_hz=SAMPLE_RATE_HZ):
    common = np.gcd(rate_hz, target_hz)
    return resample_poly(audio.astype(np.float64), target_hz // common, rate_hz // common)


def white_noise(signal, snr_db=20.0, seed=0):
    noise = np.random.default_rng(seed).standard_normal(len(signal))
    return signal + noise * np.sqrt(np.square(signal).mean()) * 10 ** (-snr_db / 20)


def replaced(signal, ms):
    """The loudest `ms` (half a clip at most) replaced by the sound half a clip away, at the same
    level, faded over 2 ms.
    """
    samples, fade = min(round(ms * MS), len(signal) // 2), 2 * MS
    start = int(np.argmax(np.convolve(np.square(signal), np.ones(samples), mode="valid")))
    other = np.roll(signal, -(len(signal) // 2))[start : start + samples]
    here = signal[start : start + samples]
    other = other * np.sqrt(np.square(here).mean() / max(np.square(other).mean(), 1e-9))
    edge = np.minimum(1, np.minimum(np.arange(samples), np.arange(samples)[::-1]) / fade)
    return np.concatenate([signal[:start], here + (other - here) * edge, signal[start + samples :]])


def glitched(signal, cents):
    """100 ms about the loudest place higher by `cents`: read faster there, the next samples read
    twice.
    """
    length = 100 * MS
    start = min(
        int(np.argmax(np.convolve(np.square(signal), np.ones(length), mode="valid"))),
        len(signal) - 2 * length,
    )
    rate = 2 ** (cents / 1200)
    taken = signal[start : start + round(length * rate)]
    return np.concatenate([signal[:start], resample(taken, length), signal[start + length :]])


def delayed(signal, samples):
    late = int(samples)
    return np.concatenate([np.zeros(late), signal[: len(signal) - late]])


def phrase_of(whole):
    """The first two seconds of a sentence: enough for an error of the model, which is there in
    every sentence.
    """
    tokens = int(np.searchsorted(np.cumsum(whole.durations), PHRASE_FRAMES, side="right"))
    frames = int(whole.durations[:tokens].sum())
    cut = {
        "input_ids": whole.input_ids[:tokens],
        "durations": whole.durations[:tokens],
        "phonemes": whole.phonemes[: tokens - 1],
    }
    return replace(whole, f0_hz=whole.f0_hz[: 2 * frames], energy=whole.energy[: 2 * frames], **cut)
