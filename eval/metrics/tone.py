"""THD+N on a sustained voiced tone: what a package adds to a vowel held at one pitch.

    tone = Tone(f0_hz=150.0, reference=held_vowel, test=held_vowel_of_the_package)
    thd_n_db(Trial(reference, test, other_seed, tone))

The wanted tone is the reference's harmonics, amplitude and phase. Distortion is what the test's harmonics differ by, noise is everything of
the test that is no harmonic. The window holds a whole number of periods, so no window leaks.
"""

import numpy as np

from core.contract import SAMPLE_RATE_HZ
from core.errors import InputError
from eval.metrics.framing import alignment, decibels
from eval.metrics.trial import TONE_WINDOW, Tone, Trial

MOST_LAG = 24  # samples, 1 ms: less than a period
LEAST_GAIN = 0.1  # below, the test holds hardly anything of the tone, and is taken as it is


def tone_of(trial: Trial) -> Tone:
    """The trial's tone, or InputError."""
    if trial.tone is None:
        raise InputError("this metric needs a sustained tone: Trial(reference, test, other_seed, tone)")
    return trial.tone


def thd_n_db(trial: Trial) -> float:
    """THD+N of the tone of the clip's voice."""
    tone = tone_of(trial)
    return residue_db(tone, tone.test)


def thd_n_increase_db(trial: Trial) -> float:
    """THD+N of the test, less that of the reference: its own noise."""
    tone = tone_of(trial)
    return thd_n_db(trial) - residue_db(tone, tone.reference)


def residue_db(tone: Tone, signal: np.ndarray) -> float:
    """10 log10((sum |S_k - R_k|^2 + sum of |S|^2 off the harmonics) / sum |R_k|^2) of a signal S against the tone's reference R.

    S is first taken from where it correlates best with R within 1 ms, and divided by its gain, Re(sum S_k R_k*) / sum |R_k|^2:
    `lag_samples` and `level_db` hold those, and a sign cannot be heard.
    """
    lag, _ = alignment(tone.reference, signal, MOST_LAG)
    reference, test = _middle_spectrum(tone.reference), _middle_spectrum(signal, lag)
    step = round(tone.f0_hz * TONE_WINDOW / SAMPLE_RATE_HZ)  # bins from harmonic to harmonic
    wanted = np.zeros_like(reference)
    wanted[step::step] = reference[step::step]
    power = np.square(np.abs(wanted)).sum()
    gain = float((test * wanted.conj()).real.sum() / power)
    if abs(gain) >= LEAST_GAIN:
        test = test / gain
    return float(decibels(np.square(np.abs(test - wanted)).sum() / power))


def _middle_spectrum(signal: np.ndarray, lag: int = 0) -> np.ndarray:
    start = (len(signal) - TONE_WINDOW) // 2 + lag
    return np.fft.rfft(signal[start : start + TONE_WINDOW])
