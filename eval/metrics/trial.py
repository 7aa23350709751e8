"""The signals one measurement is made on, checked once, with the frames and spectra that several metrics share.

    trial = Trial(reference, test)
    trial.baseline.spectrum, trial.test_spectrum  # [active frames, bins]

Frames are 25 ms long, 5 ms apart, lie wholly inside the signal and are compared at equal positions: durations and noise are injected, so
nothing is ever time-warped. A frame is active when the reference's power in it is within 40 dB of its loudest frame; the test has no say.
A test of opposite polarity is turned over before it is measured: a sign cannot be heard, and no metric but `polarity` sees it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from core.errors import InputError
from eval.metrics.baseline import Asked, Baseline
from eval.metrics.framing import alignment, defect
from eval.metrics.mel_cepstrum import mel_cepstrum
from eval.metrics.p862 import pesq_positions
from eval.metrics.pitch_tracker import PitchTrack, track_pitch
from eval.metrics.windows import Windows, windows_of

LONGEST_LAG = 240  # samples, 10 ms
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


@dataclass(frozen=True, eq=False)
class Trial:
    """`reference` is the truth, `test` is judged, `other_seeds` are the truth under other seeds (the scale), `tone` is a held vowel (for
    THD+N), `text` what is said (for words), `known` the baseline of another trial of the same sentence, `clock` the truth rendered from the
    features that the test was given, where these are not the reference's own: another F0 turns phases, and that is no delay.

    Raises InputError unless all are finite, audible mono signals of one length, at least 0.25 s at 24 kHz.
    """

    reference: np.ndarray
    test: np.ndarray
    other_seeds: Sequence[np.ndarray] = ()
    tone: Tone | None = None
    text: str | None = None
    known: Baseline | None = None
    clock: np.ndarray | None = None

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {"reference": self._checked("reference", self.reference), "test": self._checked("test", self.test)}
        checked["other_seeds"] = tuple(self._checked("other seed's", signal) for signal in self.other_seeds)
        checked["clock"] = self.clock if self.clock is None else self._checked("clock", self.clock)
        for role, signal in checked.items():
            object.__setattr__(self, role, signal)

    def _checked(self, role: str, signal: np.ndarray) -> np.ndarray:
        wrong = defect(signal)
        if wrong:
            raise InputError(f"the {role} signal {wrong}")
        if len(signal) != len(self.reference):
            lengths = f"{len(signal)} samples, the reference {len(self.reference)}"
            raise InputError(f"the {role} signal holds {lengths}: metrics compare equal lengths")
        return np.ascontiguousarray(signal, dtype=np.float64)

    @cached_property
    def baseline(self) -> Baseline:
        """What does not depend on the test."""
        return self.known or Baseline(self.reference, tuple(self.other_seeds), self.text)

    @cached_property
    def alignment(self) -> tuple[int, float]:
        """Delay of the test in samples, and its correlation with the reference there."""
        return alignment(self.reference, self.test, LONGEST_LAG)

    @cached_property
    def upright(self) -> np.ndarray:
        """The test in the reference's polarity [samples]."""
        return -self.test if self.alignment[1] < 0 else self.test

    @cached_property
    def test_spectrum(self) -> np.ndarray:
        """Floored power spectrum of the test at the reference's active frames [active, 513]."""
        return self.baseline.floored(self.test)

    @cached_property
    def test_cepstrum(self) -> np.ndarray:
        """Mel-cepstrum of the test at the same frames [active, 25]."""
        return mel_cepstrum(self.test_spectrum)

    @cached_property
    def test_pitch(self) -> PitchTrack:
        """F0 of the test, by the same tracker."""
        return track_pitch(self.upright)

    @cached_property
    def pesq_positions(self) -> tuple[float, ...]:
        """PESQ at three positions."""
        return pesq_positions(self.reference, self.upright)

    @cached_property
    def heard(self) -> Asked:
        """What the models make of the test."""
        return Asked(self.upright)

    @cached_property
    def test_windows(self) -> Windows:
        """The test in 60 ms windows."""
        return windows_of(self.test)
