"""Signals spoilt for the metrics' tests, and clips short enough for them.

noisy = white_noise(speech, snr_db=20.0)
"""

from dataclasses import replace

import numpy as np

from core.corpus import Utterance

PHRASE_FRAMES = 90


def white_noise(signal: np.ndarray, snr_db: float = 20.0, seed: int = 0) -> np.ndarray:
    """Add white noise."""
    noise = np.random.default_rng(seed).standard_normal(len(signal))
    return signal + noise * np.sqrt(np.square(signal).mean()) * 10 ** (-snr_db / 20)


def one_sample_late(signal: np.ndarray) -> np.ndarray:
    """Delay by one sample."""
    return np.concatenate([[0.0], signal[:-1]])


def phrase_of(whole: Utterance) -> Utterance:
    """The first two seconds of a sentence: enough for an error of the model, which is there in every sentence."""
    tokens = int(np.searchsorted(np.cumsum(whole.durations), PHRASE_FRAMES, side="right"))
    frames = int(whole.durations[:tokens].sum())
    cut = {"input_ids": whole.input_ids[:tokens], "durations": whole.durations[:tokens], "phonemes": whole.phonemes[: tokens - 1]}
    return replace(whole, f0_hz=whole.f0_hz[: 2 * frames], energy=whole.energy[: 2 * frames], **cut)
