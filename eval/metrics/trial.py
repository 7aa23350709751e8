"""The signals one measurement is made on, checked once, with the frames and spectra that several metrics share.

    trial = Trial(reference, test)
    trial.reference_spectrum, trial.test_spectrum  # [active frames, bins]

Frames are 25 ms long, 5 ms apart, lie wholly inside the signal and are compared at equal positions: durations and noise are injected, so
nothing is ever time-warped. A frame is active when the reference's power in it is within 40 dB of its loudest frame; the test has no say.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from core.contract import SAMPLE_RATE_HZ
from core.errors import InputError
from eval.metrics.mel_cepstrum import mel_cepstrum
from eval.metrics.pitch_tracker import PitchTrack, track_pitch

SHORTEST_SECONDS = 0.25  # PESQ refuses less
SILENT_DBFS = -70.0
FRAME_LENGTH, FRAME_HOP, FFT_SIZE = 600, 120, 1024  # 25 ms, 5 ms, samples
ACTIVE_RANGE_DB = 40.0
POWER_FLOOR_DB = -50.0  # of the mean power per bin over the reference's active frames; added to both spectra
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
class Known:
    """What trials of one reference and other_seed share whatever is tested: both mel-cepstra [active, 25] and the reference's F0."""

    reference_cepstrum: np.ndarray
    other_seed_cepstrum: np.ndarray
    reference_pitch: PitchTrack


@dataclass(frozen=True)
class Trial:
    """`reference` is the truth, `test` is judged, `other_seed` the truth under another seed (the scale), `tone` a held vowel (for THD+N),
    `known` what was computed for another test of the same reference.

    Raises InputError unless all are finite, audible mono signals of one length, at least 0.25 s at 24 kHz.
    """

    reference: np.ndarray
    test: np.ndarray
    other_seed: np.ndarray | None = None
    tone: Tone | None = None
    known: Known | None = None

    def __post_init__(self) -> None:
        signals = {"reference": self.reference, "test": self.test, "other_seed": self.other_seed}
        for role, signal in signals.items():
            if signal is None:
                continue
            wrong = defect(signal)
            if wrong:
                raise InputError(f"the {role} signal {wrong}")
            if len(signal) != len(self.reference):
                lengths = f"{len(signal)} samples, the reference {len(self.reference)}"
                raise InputError(f"the {role} signal holds {lengths}: metrics compare equal lengths")
            object.__setattr__(self, role, np.ascontiguousarray(signal, dtype=np.float64))

    def shared(self) -> Known:
        """For further trials: this one's test is their other_seed."""
        return Known(self.reference_cepstrum, self.test_cepstrum, self.reference_pitch)

    @cached_property
    def active(self) -> np.ndarray:
        """[frames] bool: frames whose reference power is within 40 dB of the loudest."""
        power = np.square(frames(self.reference)).mean(axis=1)
        return power >= power.max() * 10 ** (-ACTIVE_RANGE_DB / 10)

    @cached_property
    def power_floor(self) -> float:
        """Added to every bin of every spectrum of this trial: a bin that holds nothing in either signal then differs by nothing."""
        return float(power_spectrum(self.reference)[self.active].mean() * 10 ** (POWER_FLOOR_DB / 10))

    @cached_property
    def reference_spectrum(self) -> np.ndarray:
        """Floored power spectrum of the reference's active frames [active, 513]."""
        return self._floored(self.reference)

    @cached_property
    def test_spectrum(self) -> np.ndarray:
        """Floored power spectrum of the test at the same frames [active, 513]."""
        return self._floored(self.test)

    def _floored(self, signal: np.ndarray) -> np.ndarray:
        return power_spectrum(signal)[self.active] + self.power_floor

    @cached_property
    def reference_cepstrum(self) -> np.ndarray:
        """Mel-cepstrum of the reference's active frames [active, 25]."""
        return self.known.reference_cepstrum if self.known else mel_cepstrum(self.reference_spectrum)

    @cached_property
    def test_cepstrum(self) -> np.ndarray:
        """Mel-cepstrum of the test at the same frames [active, 25]."""
        return mel_cepstrum(self.test_spectrum)

    @cached_property
    def other_seed_cepstrum(self) -> np.ndarray:
        """Mel-cepstrum of the other seed at the same frames [active, 25]."""
        if self.known:
            return self.known.other_seed_cepstrum
        if self.other_seed is None:
            raise InputError("this metric needs the reference under another noise seed: Trial(reference, test, other_seed)")
        return mel_cepstrum(self._floored(self.other_seed))

    @cached_property
    def reference_pitch(self) -> PitchTrack:
        """F0 of the reference."""
        return self.known.reference_pitch if self.known else track_pitch(self.reference)

    @cached_property
    def test_pitch(self) -> PitchTrack:
        """F0 of the test, by the same tracker."""
        return track_pitch(self.test)


def defect(signal: np.ndarray) -> str | None:
    """What makes a signal unfit for any metric, or None: not mono, too short, not finite, silent."""
    if not isinstance(signal, np.ndarray) or signal.ndim != 1 or not np.issubdtype(signal.dtype, np.floating):
        kind = getattr(signal, "dtype", type(signal).__name__)
        return f"is {kind} of shape {list(np.shape(signal))}: a mono float array [samples] is needed"
    seconds = len(signal) / SAMPLE_RATE_HZ
    if seconds < SHORTEST_SECONDS:
        return f"lasts {seconds:.3f} s: at least {SHORTEST_SECONDS} s are needed"
    broken = int(np.count_nonzero(~np.isfinite(signal)))
    if broken:
        return f"holds {broken} samples that are NaN or infinite"
    level_dbfs = decibels(np.square(signal.astype(np.float64)).mean())
    if level_dbfs < SILENT_DBFS:
        return f"is silent ({level_dbfs:.0f} dBFS): speech above {SILENT_DBFS:.0f} dBFS is needed"
    return None


def frames(signal: np.ndarray, length: int = FRAME_LENGTH, hop: int = FRAME_HOP) -> np.ndarray:
    """signal [samples] -> overlapping frames [n, length], the last one ending inside the signal."""
    return np.lib.stride_tricks.sliding_window_view(signal, length)[::hop]


def power_spectrum(signal: np.ndarray) -> np.ndarray:
    """signal [samples] -> |FFT|^2 of Hann-windowed 25 ms frames [n, 513]."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME_LENGTH) / FRAME_LENGTH)
    return np.square(np.abs(np.fft.rfft(frames(signal) * window, FFT_SIZE, axis=1)))


def decibels(power_ratio: float | np.ndarray) -> float | np.ndarray:
    """10 log10, with a power of zero held at -300 dB so that every figure is finite."""
    return 10 * np.log10(np.maximum(power_ratio, 1e-30))
