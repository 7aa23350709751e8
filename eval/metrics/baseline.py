"""The fp32 model's side of a trial: everything about reference and other seeds that no test changes, computed when first asked for.

    baseline = Baseline(reference, other_seeds, "What was said.")
    baseline.active, baseline.cepstrum, baseline.seed_windows

One baseline serves every subject of a sentence. What is slow to compute (what the models hear in the reference) can be handed in.
"""

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from eval.metrics.framing import frames, power_spectrum
from eval.metrics.mel_cepstrum import mel_cepstrum
from eval.metrics.models import distillmos_of, dnsmos_of, voiceprint_of
from eval.metrics.pitch_tracker import PitchTrack, track_pitch
from eval.metrics.windows import Windows, windows_of
from eval.metrics.words import words_heard

ACTIVE_RANGE_DB = 40.0
POWER_FLOOR_DB = -50.0  # of the mean power per bin over the reference's active frames; added to both spectra


class Asked:
    """What the models make of one signal [samples] at 24 kHz; each is asked once, when it is needed."""

    def __init__(self, signal: np.ndarray) -> None:
        self._signal = signal

    @cached_property
    def words(self) -> tuple[str, ...]:
        """What the recognizer hears."""
        return words_heard(self._signal)

    @cached_property
    def voiceprint(self) -> np.ndarray:
        """[256]."""
        return voiceprint_of(self._signal)

    @cached_property
    def dnsmos(self) -> float:
        """MOS."""
        return dnsmos_of(self._signal)

    @cached_property
    def distillmos(self) -> float:
        """MOS."""
        return distillmos_of(self._signal)


@dataclass(frozen=True, eq=False)
class Heard:
    """What the models make of one signal: words, voiceprint [256], predicted quality (MOS) twice."""

    words: tuple[str, ...]
    voiceprint: np.ndarray
    dnsmos: float
    distillmos: float

    @classmethod
    def of(cls, signal: np.ndarray) -> "Heard":
        """Ask all of them. signal [samples] at 24 kHz."""
        asked = Asked(signal)
        return cls(asked.words, asked.voiceprint, asked.dnsmos, asked.distillmos)

    def plain(self) -> dict[str, Any]:
        """For a file."""
        return asdict(self) | {"words": " ".join(self.words)}

    @classmethod
    def read(cls, plain: dict[str, Any]) -> "Heard":
        """From a file."""
        words = tuple(str(plain["words"]).split())
        return cls(words, np.asarray(plain["voiceprint"]), float(plain["dnsmos"]), float(plain["distillmos"]))


@dataclass(frozen=True, eq=False)
class Baseline:
    """Reference [samples], the same sentence under other seeds, its text; `kept`: what the models heard in the reference, if known."""

    reference: np.ndarray
    other_seeds: tuple[np.ndarray, ...] = ()
    text: str | None = None
    kept: Heard | None = None

    @cached_property
    def active(self) -> np.ndarray:
        """[frames] bool: frames whose reference power is within 40 dB of the loudest."""
        power = np.square(frames(self.reference)).mean(axis=1)
        return power >= power.max() * 10 ** (-ACTIVE_RANGE_DB / 10)

    @cached_property
    def power_floor(self) -> float:
        """Added to every bin of every spectrum of this sentence: a bin that holds nothing in either signal then differs by nothing."""
        return float(power_spectrum(self.reference)[self.active].mean() * 10 ** (POWER_FLOOR_DB / 10))

    def floored(self, signal: np.ndarray) -> np.ndarray:
        """Floored power spectrum of a signal at the reference's active frames [active, 513]."""
        return power_spectrum(signal)[self.active] + self.power_floor

    @cached_property
    def spectrum(self) -> np.ndarray:
        """Of the reference [active, 513]."""
        return self.floored(self.reference)

    @cached_property
    def cepstrum(self) -> np.ndarray:
        """Mel-cepstrum of the reference [active, 25]."""
        return mel_cepstrum(self.spectrum)

    @cached_property
    def seed_cepstra(self) -> tuple[np.ndarray, ...]:
        """Mel-cepstra of the other seeds at the same frames, [active, 25] each."""
        return tuple(mel_cepstrum(self.floored(signal)) for signal in self.other_seeds)

    @cached_property
    def pitch(self) -> PitchTrack:
        """F0 of the reference."""
        return track_pitch(self.reference)

    @cached_property
    def seed_pitches(self) -> tuple[PitchTrack, ...]:
        """F0 of the other seeds."""
        return tuple(track_pitch(signal) for signal in self.other_seeds)

    @cached_property
    def windows(self) -> Windows:
        """The reference in 60 ms windows."""
        return windows_of(self.reference)

    @cached_property
    def seed_windows(self) -> tuple[Windows, ...]:
        """The other seeds in 60 ms windows."""
        return tuple(windows_of(signal) for signal in self.other_seeds)

    def without(self, index: int) -> "Baseline":
        """The same sentence with one other seed fewer: what that seed is held against. What is known is not computed again."""
        kept = [i for i in range(len(self.other_seeds)) if i != index]
        fewer = Baseline(self.reference, tuple(self.other_seeds[i] for i in kept), self.text, self.kept)
        for name in ("active", "power_floor", "spectrum", "cepstrum", "pitch", "windows", "heard"):
            fewer.__dict__[name] = getattr(self, name)
        for name in ("seed_cepstra", "seed_pitches", "seed_windows"):
            fewer.__dict__[name] = tuple(getattr(self, name)[i] for i in kept)
        return fewer

    @cached_property
    def heard(self) -> Heard | Asked:
        """What the models make of the reference."""
        return self.kept or Asked(self.reference)
