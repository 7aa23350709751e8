"""The signals one measurement is made on, checked once, with the frames and spectra that several
metrics share.

    trial = Trial(reference, test)
    trial.baseline.spectrum, trial.spectrum  # [active frames, bins]

Frames are 25 ms long, 5 ms apart, lie wholly inside the signal and are compared at equal positions:
durations and noise are injected, so nothing is ever time-warped. A frame is active when the
reference's power in it is within 40 dB of its loudest frame; the test has no say. A test of
opposite polarity is turned over before it is measured: a sign cannot be heard, and no metric but
`polarity` sees it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from kokoro_ane.core import FRAME_SAMPLES, InputError
from kokoro_ane.eval.metrics.allowance import Allowance, Seed, View
from kokoro_ane.eval.metrics.framing import (
    FRAME_HOP,
    FRAME_LENGTH,
    PITCH_FRAME,
    PITCH_HOP,
    PitchTrack,
    Windows,
    alignment,
    defect,
    frames,
    mel_cepstrum,
    power_spectrum,
    track_pitch,
    windows_of,
)
from kokoro_ane.eval.metrics.listeners import (
    distillmos_of,
    dnsmos_of,
    pesq_positions,
    voiceprint_of,
    words_heard,
)

ACTIVE_RANGE_DB = 40.0
# of the mean power per bin over the reference's active frames; added to both spectra
POWER_FLOOR_DB = -50.0


class Heard:
    """What the models make of one signal [samples] at 24 kHz; each is asked once, when it is
    needed.
    """

    def __init__(self, signal: np.ndarray) -> None:
        self._signal = signal

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words that the recognizer hears."""
        return words_heard(self._signal)

    @cached_property
    def voiceprint(self) -> np.ndarray:
        """The speaker embedding [256]."""
        return voiceprint_of(self._signal)

    @cached_property
    def dnsmos(self) -> float:
        """MOS."""
        return dnsmos_of(self._signal)

    @cached_property
    def distillmos(self) -> float:
        """MOS."""
        return distillmos_of(self._signal)

    def plain(self) -> dict[str, np.ndarray]:
        """Ask every model, and return the answers as arrays for a file."""
        # A file of arrays holds no strings: words travel as bytes of UTF-8.
        words = np.frombuffer(" ".join(self.words).encode(), np.uint8)
        scores = np.array([self.dnsmos, self.distillmos])
        return {"words": words, "voiceprint": self.voiceprint, "scores": scores}

    @classmethod
    def read(cls, plain: Mapping[str, np.ndarray]) -> Self:
        """Take the answers from a file: no model is asked."""
        heard = cls(np.zeros(0))
        # A cached_property looks here first, and what stands here is never computed.
        heard.__dict__ |= {
            "words": tuple(plain["words"].tobytes().decode().split()),
            "voiceprint": plain["voiceprint"],
            "dnsmos": float(plain["scores"][0]),
            "distillmos": float(plain["scores"][1]),
        }
        return heard


@dataclass(frozen=True, eq=False)
class Baseline:
    """Reference [samples], the same sentence under other seeds, its text; `cached`: what the models
    heard in the reference, `allowed`: what the other seeds allow, where that was measured before.
    """

    reference: np.ndarray
    other_seeds: tuple[np.ndarray, ...] = ()
    text: str | None = None
    cached: Heard | None = None
    allowed: Allowance | None = None

    @cached_property
    def active(self) -> np.ndarray:
        """[frames] bool: frames whose reference power is within 40 dB of the loudest."""
        # Frames 40 dB below the loudest are pauses, where a distance in dB says nothing.
        power = np.square(frames(self.reference)).mean(axis=1)
        return power >= power.max() * 10 ** (-ACTIVE_RANGE_DB / 10)

    @cached_property
    def power_floor(self) -> float:
        """Added to every bin of every spectrum of this sentence: a bin that holds nothing in either
        signal then differs by nothing.
        """
        return float(
            power_spectrum(self.reference)[self.active].mean() * 10 ** (POWER_FLOOR_DB / 10)
        )

    def floored(self, signal: np.ndarray) -> np.ndarray:
        """Floored power spectrum of a signal at the reference's active frames [active, 513]."""
        return power_spectrum(signal)[self.active] + self.power_floor

    @cached_property
    def spectrum(self) -> np.ndarray:
        """The floored power spectrum of the reference [active, 513]."""
        return self.floored(self.reference)

    @cached_property
    def cepstrum(self) -> np.ndarray:
        """The mel-cepstrum of the reference [active, 25]."""
        return mel_cepstrum(self.spectrum)

    @cached_property
    def pitch(self) -> PitchTrack:
        """F0 of the reference, tracked."""
        return track_pitch(self.reference)

    @cached_property
    def windows(self) -> Windows:
        """The reference in 60 ms windows."""
        return windows_of(self.reference)

    @cached_property
    def seeds(self) -> tuple[Seed, ...]:
        """How far each other seed is from the reference."""
        reference = View(self.reference, self.windows, self.pitch, self.cepstrum)
        views = (
            View(
                signal,
                windows_of(signal),
                track_pitch(signal),
                mel_cepstrum(self.floored(signal)),
            )
            for signal in self.other_seeds
        )
        return tuple(Seed.of(reference, view) for view in views)

    @cached_property
    def allowance(self) -> Allowance:
        """What other seeds do at each place. Raises InputError where there is none."""
        if self.allowed is None and not self.other_seeds:
            raise InputError(
                "this metric needs the reference under other noise seeds: Trial(reference, test,"
                " other_seeds)"
            )
        return self.allowed or Allowance.of(self.seeds)

    def without(self, index: int) -> "Baseline":
        """The same sentence with one other seed fewer: what that seed is compared with. Nothing is
        computed again.
        """
        left = [place for place in range(len(self.other_seeds)) if place != index]
        seeds = tuple(self.other_seeds[place] for place in left)
        fewer = Baseline(self.reference, seeds, self.text)
        for name in ("active", "power_floor", "spectrum", "cepstrum", "pitch", "windows", "heard"):
            fewer.__dict__[name] = getattr(self, name)
        fewer.__dict__["seeds"] = tuple(self.seeds[place] for place in left)
        return fewer

    @cached_property
    def heard(self) -> Heard:
        """What the models make of the reference."""
        return self.cached or Heard(self.reference)


LONGEST_LAG = 240  # samples, 10 ms
TONE_WINDOW = 19_200  # samples, 0.8 s: whole periods of every pitch below
TONE_PITCHES_HZ = (100.0, 120.0, 150.0, 160.0, 200.0, 240.0)


@dataclass(frozen=True)
class Tone:
    """One vowel at constant F0, rendered by reference and test: [samples] each, at least 0.8 s. The
    middle 0.8 s are measured.
    """

    f0_hz: float
    reference: np.ndarray
    test: np.ndarray

    def __post_init__(self) -> None:
        if self.f0_hz not in TONE_PITCHES_HZ:
            raise InputError(
                f"a tone of {self.f0_hz} Hz: one of"
                f" {', '.join(f'{hz:g}' for hz in TONE_PITCHES_HZ)} is needed"
            )
        for role, signal in (("reference", self.reference), ("test", self.test)):
            wrong = defect(signal)
            if wrong is None and len(signal) < TONE_WINDOW:
                wrong = f"holds {len(signal)} samples: {TONE_WINDOW} are needed"
            if wrong is None and len(signal) != len(self.reference):
                wrong = f"holds {len(signal)} samples, the reference {len(self.reference)}"
            if wrong:
                raise InputError(f"the {role} tone {wrong}")


@dataclass(frozen=True, eq=False)
class Trial:
    """`reference` is right by definition, `test` is judged, `other_seeds` are the reference under
    other seeds (the scale), `tone` is a held vowel (for THD+N), `text` what is said (for words),
    `sentence` the baseline of another trial of the same sentence, `clock` the reference rendered
    from the features that the test was given, where these are not its own: another F0 turns phases,
    and that is no delay.

    Raises InputError unless all are finite, audible mono signals of one length, at least 0.25 s at
    24 kHz.
    """

    reference: np.ndarray
    test: np.ndarray
    other_seeds: Sequence[np.ndarray] = ()
    tone: Tone | None = None
    text: str | None = None
    sentence: Baseline | None = None
    clock: np.ndarray | None = None

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {
            role: self._checked(role, getattr(self, role))
            for role in ("reference", "test", "clock")
            if getattr(self, role) is not None
        }
        checked["other_seeds"] = tuple(
            self._checked("other seed's", signal) for signal in self.other_seeds
        )
        # A frozen dataclass can replace its own fields in this way only.
        for role, signal in checked.items():
            object.__setattr__(self, role, signal)

    def _checked(self, role: str, signal: np.ndarray) -> np.ndarray:
        """The signal [samples] in float64; InputError where it is unfit or of another length."""
        wrong, (samples, whose) = defect(signal), self._length_of(role)
        if wrong is None and len(signal) != samples:
            wrong = f"holds {len(signal)} samples, {whose} {samples}"
        if wrong:
            raise InputError(f"the {role} signal {wrong}")
        # In float64, no figure depends on the type that was handed in.
        return np.ascontiguousarray(signal, dtype=np.float64)

    def _length_of(self, role: str) -> tuple[int, str]:
        """Samples that a signal must have, and whose they are: metrics compare equal lengths."""
        return len(self.reference), "the reference"

    @cached_property
    def baseline(self) -> Baseline:
        """What does not depend on the test."""
        return self.sentence or Baseline(self.reference, tuple(self.other_seeds), self.text)

    @property
    def scaled(self) -> bool:
        """Whether it is known what other seeds do."""
        return bool(self.baseline.other_seeds) or self.baseline.allowed is not None

    @property
    def allowance(self) -> Allowance:
        """What other seeds do at each place."""
        return self.baseline.allowance

    @cached_property
    def alignment(self) -> tuple[int, float]:
        """Delay of the test in samples, and its correlation with the reference there."""
        return alignment(self.reference, self.test, LONGEST_LAG)

    @cached_property
    def upright(self) -> np.ndarray:
        """The test in the reference's polarity [samples]."""
        return -self.test if self.alignment[1] < 0 else self.test

    @cached_property
    def spectrum(self) -> np.ndarray:
        """Floored power spectrum of the test at the reference's active frames [active, 513]."""
        return self.baseline.floored(self.test)

    @cached_property
    def cepstrum(self) -> np.ndarray:
        """Mel-cepstrum of the test at the same frames [active, 25]."""
        return mel_cepstrum(self.spectrum)

    @cached_property
    def pitch(self) -> PitchTrack:
        """F0 of the test, by the same tracker."""
        return track_pitch(self.upright)

    @cached_property
    def pesq_positions(self) -> tuple[float, ...]:
        """PESQ at three positions."""
        return pesq_positions(self.reference, self.upright)

    @cached_property
    def heard(self) -> Heard:
        """What the models make of the test."""
        return Heard(self.upright)

    @cached_property
    def windows(self) -> Windows:
        """The test in 60 ms windows."""
        return windows_of(self.test)


@dataclass(frozen=True, eq=False)
class Retimed(Trial):
    """A test that keeps its own time. `durations`: frames of each token [n], the reference's and
    the test's. A frame of the reference is compared with the test's at the same share of the
    same token: nothing is stretched and nothing is searched.
    """

    durations: tuple[np.ndarray, np.ndarray] = (np.ones(1), np.ones(1))

    def _length_of(self, role: str) -> tuple[int, str]:
        """The test is as long as its own durations."""
        if role != "test":
            return super()._length_of(role)
        return FRAME_SAMPLES * int(self.durations[1].sum()), "its durations"

    def places(self, length: int, hop: int) -> np.ndarray:
        """First samples of the test's frames of `length` that stand for the reference's, `hop`
        apart [frames].
        """
        starts = np.arange(0, len(self.reference) - length + 1, hop)
        # token boundaries [n + 1]; between two of them both run at a constant speed
        reference, test = (
            FRAME_SAMPLES * np.concatenate([[0], np.cumsum(tokens)]) for tokens in self.durations
        )
        # Middles are carried over, so that frames of both sides are centred on the same sound.
        middles = np.interp(starts + length / 2, reference, test)
        # A frame that would reach beyond the test is moved inside it.
        return np.clip(np.rint(middles - length / 2), 0, len(self.test) - length).astype(np.int64)

    @property
    def upright(self) -> np.ndarray:  # type: ignore[override]
        """The test as it is: nothing that is measured here hears a sign."""
        return self.test

    @cached_property
    def spectrum(self) -> np.ndarray:
        """The test at the places of the reference's active frames [active, 513]."""
        starts = self.places(FRAME_LENGTH, FRAME_HOP)[self.baseline.active]
        return power_spectrum(self.test, starts) + self.baseline.power_floor

    @cached_property
    def pitch(self) -> PitchTrack:
        """F0 of the test at the places of the reference's frames."""
        # The tracker has one value each 10 ms: the nearest one is taken.
        track = track_pitch(self.test)
        at = np.minimum(
            np.rint(self.places(PITCH_FRAME, PITCH_HOP) / PITCH_HOP).astype(np.int64),
            len(track.hz) - 1,
        )
        return PitchTrack(track.hz[at], track.strength[at], track.loud[at])
