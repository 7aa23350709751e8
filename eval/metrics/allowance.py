"""How far a signal is from the reference at each place, and how far it may be there: what other
noise seeds do to the same place.

    seeds = [Seed.of(reference, seed) for seed in other_seeds]  # Views
    allowance = Allowance.of(seeds)

An allowance is whole numbers of small steps, whether it was measured a moment ago or is read from a
file (eval/natural.py), so both give the same figures. Rounding moves a figure by half a step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from kokoro_ane.eval.metrics.framing import (
    FRAME_HOP,
    GROSS_SHARE,
    PITCH_HOP,
    WINDOW,
    PitchTrack,
    Windows,
    decibels,
    frames,
    running_mean,
)

# of a band's own mean power over the reference, and of the mean over all bands
MEL_FLOOR_DB, LEAST_BAND_DB = -30.0, -60.0
LEVEL_FLOOR_DB = -25.0  # of the reference's mean power
GROSS_CENTS = 1200 * np.log2(1 + GROSS_SHARE)  # what a lost or wrong pitch counts as
SURE_STRENGTH = 0.65  # periodicity from which a step's pitch is beyond doubt
CLICK_FRAME, CLICK_HOP = 120, 60  # 5 ms, 2.5 ms
CLICK_FLOOR_DB = -30.0  # of the power of the reference's loudest 5 ms
PAUSE_WINDOW, PAUSE_FLOOR_DB = 6, -55.0  # of 5 ms: 30 ms; of the loudest window
# No noisy voice hides more than this.
ALLOWED_DB, ALLOWED_CENTS = 3.0, 50.0
CLICK_ALLOWED_DB = 6.0  # what another seed does to the same 5 ms is no jump, up to this
PAUSE_ALLOWED_DB = 30.0  # above, the place is no pause any more
# Steps that allowances are rounded to.
STEP_DB, STEP_CENTS, STEP_CEPSTRUM = 0.01, 0.1, 1 / 256
NO_PITCH = -1  # a window whose pitch is not sure
# Neighbouring frames overlap by four fifths: every fourth tells what all do.
EVERY_CEPSTRUM = 4


@dataclass(frozen=True, eq=False)
class View:
    """One signal [samples], its windows, its F0, its mel-cepstrum at the reference's active frames
    [active, 25].
    """

    signal: np.ndarray
    windows: Windows
    pitch: PitchTrack
    cepstrum: np.ndarray


def spectrum_distance_db(reference: Windows, test: Windows) -> np.ndarray:
    """RMS over 40 mel bands of the level difference [windows]."""
    # An empty band is not measured by what little is in it.
    band = reference.mel.mean(axis=0)
    floor = np.maximum(band * 10 ** (MEL_FLOOR_DB / 10), band.mean() * 10 ** (LEAST_BAND_DB / 10))
    ratios = decibels((test.mel + floor) / (reference.mel + floor))
    return np.sqrt(np.square(ratios).mean(axis=1))


def level_distance_db(reference: Windows, test: Windows) -> np.ndarray:
    """Magnitude of the level difference [windows]."""
    # Without a floor, two near silences would differ by many dB.
    floor = reference.level.mean() * 10 ** (LEVEL_FLOOR_DB / 10)
    return np.abs(decibels((test.level + floor) / (reference.level + floor)))


def jumps_db(reference: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Magnitude of the level difference of each 5 ms; 1e-3 of the reference's loudest 5 ms is added
    to both.
    """
    powers = [
        np.square(frames(signal, CLICK_FRAME, CLICK_HOP)).mean(axis=1)
        for signal in (reference, test)
    ]
    floor = powers[0].max() * 10 ** (CLICK_FLOOR_DB / 10)
    return np.abs(decibels((powers[1] + floor) / (powers[0] + floor)))


def pause_levels(signal: np.ndarray) -> np.ndarray:
    """Mean power of every 30 ms, 5 ms apart."""
    power = np.square(frames(signal, FRAME_HOP, FRAME_HOP)).mean(axis=1)
    return running_mean(power, PAUSE_WINDOW)


def rises_db(reference: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """How far `levels` of 30 ms rise over the reference's; both have a floor 55 dB below its
    loudest.
    """
    floor = reference.max() * 10 ** (PAUSE_FLOOR_DB / 10)
    return np.asarray(decibels((levels + floor) / (reference + floor)))


def pitch_distance_cents(reference: PitchTrack, track: PitchTrack) -> np.ndarray:
    """Mean magnitude of the F0 difference in windows of 60 ms; a step that is not voiced, or an
    octave off, counts GROSS_CENTS.
    """
    # [steps]; a track has an F0 at every step, voiced or not
    cents = np.abs(1200 * np.log2(track.hz / reference.hz))
    return running_mean(
        np.where(lost_pitch(reference, track), GROSS_CENTS, cents), WINDOW // PITCH_HOP
    )


def lost_pitch(reference: PitchTrack, track: PitchTrack) -> np.ndarray:
    """Steps that are not voiced, or at another pitch [steps] bool."""
    return ~track.voiced | (np.abs(track.hz - reference.hz) > GROSS_SHARE * reference.hz)


def sure_pitch(reference: PitchTrack, track: PitchTrack) -> np.ndarray:
    """Steps that are clearly voiced, at about the reference's pitch [steps] bool."""
    return ~lost_pitch(reference, track) & (track.strength > SURE_STRENGTH)


@dataclass(frozen=True, eq=False)
class Seed:
    """How far another noise seed is from the reference at each place: one array for each field of
    Allowance, before rounding; `sure` [steps]: where both are sure of the pitch.
    """

    spectrum: np.ndarray
    level: np.ndarray
    click: np.ndarray
    pause: np.ndarray
    pitch: np.ndarray
    sure: np.ndarray
    cepstrum: np.ndarray  # [active, 24], c1..c24 less the reference's

    @classmethod
    def of(cls, reference: View, seed: View) -> Self:
        """Compare a rendition with the reference."""
        levels = pause_levels(reference.signal)
        return cls(
            spectrum=spectrum_distance_db(reference.windows, seed.windows),
            level=level_distance_db(reference.windows, seed.windows),
            click=jumps_db(reference.signal, seed.signal),
            # A seed that is quieter than the reference allows nothing: only rises count.
            pause=rises_db(levels, np.maximum(levels, pause_levels(seed.signal))),
            pitch=pitch_distance_cents(reference.pitch, seed.pitch),
            sure=sure_pitch(reference.pitch, reference.pitch)
            & sure_pitch(reference.pitch, seed.pitch),
            cepstrum=seed.cepstrum[:, 1:] - reference.cepstrum[:, 1:],
        )


@dataclass(frozen=True, eq=False)
class Allowance:
    """What a test may do at each place, as whole steps. spectrum, level, click, pause: of STEP_DB;
    pitch: of STEP_CENTS, or NO_PITCH; cepstrum: other seeds' c1..c24 less the reference's, of
    STEP_CEPSTRUM, at every fourth active frame by one of the seeds in turn [frames / 4 * 24].
    """

    spectrum: np.ndarray
    level: np.ndarray
    click: np.ndarray
    pause: np.ndarray
    pitch: np.ndarray
    cepstrum: np.ndarray

    @classmethod
    def of(cls, seeds: Sequence[Seed]) -> Self:
        """Take the largest distance of any seed at each place."""

        def steps(name: str, most: float, step: float) -> np.ndarray:
            largest = np.max([getattr(seed, name) for seed in seeds], axis=0)
            return np.rint(np.minimum(largest, most) / step).astype(np.int16)

        # A window counts where every rendition is sure of the pitch: elsewhere trackers differ by
        # chance.
        sure = np.all([seed.sure for seed in seeds], axis=0).astype(float)
        # all steps of the window: a mean of ones, but for rounding
        counts = running_mean(sure, WINDOW // PITCH_HOP) > 1 - 1e-6
        pitch = steps("pitch", ALLOWED_CENTS, STEP_CENTS)
        # [active / 4, 24], by one seed after the other
        chosen = range(0, len(seeds[0].cepstrum), EVERY_CEPSTRUM)
        cepstrum = np.stack(
            [seeds[turn % len(seeds)].cepstrum[frame] for turn, frame in enumerate(chosen)]
        )
        return cls(
            spectrum=steps("spectrum", ALLOWED_DB, STEP_DB),
            level=steps("level", ALLOWED_DB, STEP_DB),
            click=steps("click", CLICK_ALLOWED_DB, STEP_DB),
            pause=steps("pause", PAUSE_ALLOWED_DB, STEP_DB),
            pitch=np.where(counts, pitch, NO_PITCH).astype(np.int16),
            # A byte holds differences up to 127 / 256 either way.
            cepstrum=np.clip(np.rint(cepstrum / STEP_CEPSTRUM), -127, 127)
            .astype(np.int8)
            .flatten(),
        )

    def plain(self) -> dict[str, np.ndarray]:
        """The arrays for a file: differences of neighbours, which take half the room."""
        arrays = {part.name: getattr(self, part.name) for part in fields(self)}
        # The first difference is the first value itself, so that a running total gives all of them.
        return {
            name: array if array.dtype == np.int8 else np.diff(array, prepend=array.dtype.type(0))
            for name, array in arrays.items()
        }

    @classmethod
    def read(cls, plain: Mapping[str, np.ndarray]) -> Self:
        """Take the arrays from a file."""
        arrays = {part.name: plain[part.name] for part in fields(cls)}
        return cls(
            **{
                name: array if array.dtype == np.int8 else np.cumsum(array, dtype=np.int16)
                for name, array in arrays.items()
            }
        )
