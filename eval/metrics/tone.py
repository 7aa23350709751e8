"""THD+N on a sustained voiced tone: what a package adds to a vowel held at one pitch.

    tone = Tone(f0_hz=150.0, reference=held_vowel, test=held_vowel_of_the_package)
    thd_n_db(Trial(reference, test, redraw, tone))

The wanted tone is the reference's harmonics, amplitude and phase. Distortion is what the test's harmonics differ by, noise is everything of
the test that is no harmonic. The window holds a whole number of periods, so no window leaks.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from core.contract import SAMPLE_RATE_HZ
from core.errors import InputError
from eval.metrics.trial import Trial, decibels, defect

TONE_WINDOW = 19_200  # samples, 0.8 s: whole periods of every pitch below
TONE_PITCHES_HZ = (100.0, 120.0, 150.0, 160.0, 200.0, 240.0)


@dataclass(frozen=True)
class Tone:
    """One vowel at constant F0, rendered by reference and test: [samples] each, at least 0.8 s. The middle 0.8 s are measured."""

    f0_hz: float
    reference: np.ndarray
    test: np.ndarray

    def __post_init__(self) -> None:
        if self.f0_hz not in TONE_PITCHES_HZ:
            raise InputError(f"a tone of {self.f0_hz} Hz: one of {', '.join(f'{hz:g}' for hz in TONE_PITCHES_HZ)} is needed")
        for role, signal in (("reference", self.reference), ("test", self.test)):
            wrong = defect(signal) or (f"holds {len(signal)} samples: {TONE_WINDOW} are needed" if len(signal) < TONE_WINDOW else None)
            if wrong:
                raise InputError(f"the {role} tone {wrong}")
        if len(self.reference) != len(self.test):
            raise InputError(f"the test tone holds {len(self.test)} samples, the reference {len(self.reference)}")

    @cached_property
    def thd_n_db(self) -> float:
        """10 log10((sum |T_k - R_k|^2 + sum of |T|^2 off the harmonics) / sum |R_k|^2)."""
        return self._residue_db(self.test)

    @cached_property
    def reference_thd_n_db(self) -> float:
        """The same of the reference itself: its own noise."""
        return self._residue_db(self.reference)

    def _residue_db(self, signal: np.ndarray) -> float:
        reference, test = _middle_spectrum(self.reference), _middle_spectrum(signal)
        step = round(self.f0_hz * TONE_WINDOW / SAMPLE_RATE_HZ)  # bins from harmonic to harmonic
        wanted = np.zeros_like(reference)
        wanted[step::step] = reference[step::step]
        return float(decibels(np.square(np.abs(test - wanted)).sum() / np.square(np.abs(wanted)).sum()))


def _middle_spectrum(signal: np.ndarray) -> np.ndarray:
    start = (len(signal) - TONE_WINDOW) // 2
    return np.fft.rfft(signal[start : start + TONE_WINDOW])


def tone_of(trial: Trial) -> Tone:
    """The trial's tone, or InputError."""
    if trial.tone is None:
        raise InputError("this metric needs a sustained tone: Trial(reference, test, redraw, tone)")
    return trial.tone


def thd_n_db(trial: Trial) -> float:
    """THD+N of the tone of the clip's voice."""
    return tone_of(trial).thd_n_db


def thd_n_increase_db(trial: Trial) -> float:
    """THD+N of the test, less that of the reference."""
    return tone_of(trial).thd_n_db - tone_of(trial).reference_thd_n_db
