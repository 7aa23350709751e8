"""Where a clip is worst: spectrum, level and pitch of 60 ms, a click, a pause, less what other
seeds do there; how the gain varies.

    local_spectrum_db(Trial(reference, test, other_seeds))

One wrong phone in six seconds, or the loudest syllable dipped, moves no mean. Another seed is
nowhere far from the reference, so its largest distance at a place is allowed there, but never more
than ALLOWED: a noisier voice does not hide more.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from kokoro_ane.core.contract import SAMPLE_RATE_HZ
from kokoro_ane.eval.metrics.framing import (
    FRAME_HOP,
    PITCH_HOP,
    WINDOW,
    PitchTrack,
    Windows,
    decibels,
    frames,
    running_mean,
)
from kokoro_ane.eval.metrics.trial import Trial
from kokoro_ane.eval.metrics.whole_clip import GROSS_SHARE

Part = TypeVar("Part", Windows, PitchTrack)

# of a band's own mean power over the reference, and of the mean over all bands
MEL_FLOOR_DB, LEAST_BAND_DB = -30.0, -60.0
LEVEL_FLOOR_DB = -25.0  # of the reference's mean power
SWAY_RANGE_DB, SWAY_FLOOR_DB = -25.0, -30.0  # of the reference's loudest window; of its mean power
ALLOWED_DB, ALLOWED_CENTS = 3.0, 50.0
GROSS_CENTS = 1200 * np.log2(1 + GROSS_SHARE)  # what a lost or wrong pitch counts as
SURE_STRENGTH = 0.65  # periodicity from which a step's pitch is beyond doubt
CLICK_FRAME, CLICK_HOP = 120, 60  # 5 ms, 2.5 ms
CLICK_FLOOR_DB = -30.0  # of the power of the reference's loudest 5 ms
CLICK_ALLOWED_DB = 6.0  # what another seed does to the same 5 ms is no jump, up to this
ROUGH_HZ = np.arange(10.0, 101.0)  # modulation that is heard as roughness, not as loudness
ROUGH_FRAME = 240  # 10 ms, Hann: shorter frames take a deep voice's pitch periods for modulation
# of 5 ms: 30 ms; both of the loudest window
PAUSE_WINDOW, PAUSE_RANGE_DB, PAUSE_FLOOR_DB = 6, -30.0, -55.0


def local_spectrum_db(trial: Trial) -> float:
    """Largest over windows of: RMS over 40 mel bands of the level difference to the reference, less
    the largest of the other seeds'.
    """
    reference = trial.baseline.windows.mel
    # An empty band is not measured by what little is in it.
    band = reference.mean(axis=0)
    floor = np.maximum(band * 10 ** (MEL_FLOOR_DB / 10), band.mean() * 10 ** (LEAST_BAND_DB / 10))

    def distance(windows: Windows) -> np.ndarray:
        return np.sqrt(
            np.square(decibels((windows.mel + floor) / (reference + floor))).mean(axis=1)
        )

    return _excess(distance, trial.windows, trial.baseline.seed_windows, ALLOWED_DB)


def local_level_db(trial: Trial) -> float:
    """Largest over windows of: magnitude of the level difference to the reference, less the largest
    of the other seeds'.
    """
    reference = trial.baseline.windows.level
    floor = reference.mean() * 10 ** (LEVEL_FLOOR_DB / 10)

    def distance(windows: Windows) -> np.ndarray:
        return np.abs(decibels((windows.level + floor) / (reference + floor)))

    return _excess(distance, trial.windows, trial.baseline.seed_windows, ALLOWED_DB)


def gain_variation_db(trial: Trial) -> float:
    """Standard deviation, over windows within 25 dB of the reference's loudest, of the level
    difference to it: a steady gain is 0.
    """
    reference, test = trial.baseline.windows.level, trial.windows.level
    floor = reference.mean() * 10 ** (SWAY_FLOOR_DB / 10)
    # A pause has no gain: only what is heard counts.
    heard = reference >= reference.max() * 10 ** (SWAY_RANGE_DB / 10)
    return float(np.std(decibels((test[heard] + floor) / (reference[heard] + floor))))


def click_db(trial: Trial) -> float:
    """Largest |level difference| of any 5 ms, less the largest of other seeds there: dropouts and
    clicks.

    All powers have 1e-3 of the reference's loudest 5 ms added. Without other seeds nothing is taken
    off.
    """
    # Another seed moves a place by chance; what all seeds leave in place, a defect moves.
    signals = (trial.reference, trial.test, *trial.other_seeds)
    reference, test, *seeds = (
        np.square(frames(signal, CLICK_FRAME, CLICK_HOP)).mean(axis=1) for signal in signals
    )
    floor = reference.max() * 10 ** (CLICK_FLOOR_DB / 10)
    jumps = [np.abs(decibels((power + floor) / (reference + floor))) for power in (test, *seeds)]
    allowed = np.minimum(np.max(jumps[1:], axis=0), CLICK_ALLOWED_DB) if seeds else 0.0
    return float(max(0.0, (jumps[0] - allowed).max()))


def roughness_percent(trial: Trial) -> float:
    """Depth of the strongest steady modulation of the level between 10 and 100 Hz, in percent of
    the level: 100 times the largest |2 sum g_k exp(-2 pi i f t_k)| / K of the ratio g_k of test to
    reference, over the K steps of 2.5 ms within 25 dB of the loudest.
    """
    window, signals = np.hanning(ROUGH_FRAME), (trial.reference, trial.test)
    # Hann windows of 10 ms average over the pitch periods, so that they are no modulation.
    reference, test = (
        np.square(frames(signal, ROUGH_FRAME, CLICK_HOP)) @ window for signal in signals
    )
    heard = np.flatnonzero(reference >= reference.max() * 10 ** (SWAY_RANGE_DB / 10))
    ratio = np.minimum(np.sqrt(test[heard] / reference[heard]), 10.0)  # a click is not a modulation
    # [91, steps]
    turns = np.exp(-2j * np.pi * ROUGH_HZ[:, None] * heard * CLICK_HOP / SAMPLE_RATE_HZ)
    return float(200 * np.abs(turns @ (ratio - ratio.mean())).max() / len(heard))


def pause_peak_db(trial: Trial) -> float:
    """Largest level of the test over that of the reference and of every other seed in any 30 ms of
    a pause between words, at least 0: a pause is where all of those are 30 dB below the reference's
    loudest 30 ms. Powers have a floor 55 dB below it. 0 without a pause.
    """
    signals = (trial.reference, *trial.other_seeds, trial.test)
    levels = [
        running_mean(np.square(frames(signal, FRAME_HOP, FRAME_HOP)).mean(axis=1), PAUSE_WINDOW)
        for signal in signals
    ]
    # What the reference or any other seed has in a pause may be there.
    loudest, allowed = levels[0].max(), np.max(levels[:-1], axis=0)
    loud = np.flatnonzero(levels[0] >= loudest * 10 ** (SWAY_RANGE_DB / 10))
    # what is before the first word and behind the last is pause_floor_db's
    inner = slice(loud[0], loud[-1])
    pauses = allowed[inner] < loudest * 10 ** (PAUSE_RANGE_DB / 10)
    floor = loudest * 10 ** (PAUSE_FLOOR_DB / 10)
    rises = decibels((levels[-1][inner] + floor) / (allowed[inner] + floor))
    return float(np.max(rises, where=pauses, initial=0.0))


def local_pitch_cents(trial: Trial) -> float:
    """Largest over windows of: mean magnitude of the F0 difference, less the largest of the other
    seeds'.

    Only windows count whose 10 ms steps are all clearly voiced, at about one pitch, in the
    reference and every other seed; a step where the test is not is a difference of 316 cents (20
    %). 0 when there is no such window.
    """
    baseline = trial.baseline
    tracks = (baseline.pitch, *baseline.seed_pitches)
    # A window counts where every rendition is sure of the pitch: elsewhere trackers differ by
    # chance.
    sure = np.all(
        [~_lost(baseline.pitch, track) & (track.strength > SURE_STRENGTH) for track in tracks],
        axis=0,
    )
    length = WINDOW // PITCH_HOP
    counts = running_mean(sure.astype(float), length) > 1 - 1e-6

    def distance(track: PitchTrack) -> np.ndarray:
        cents = np.abs(1200 * np.log2(track.hz / baseline.pitch.hz))
        return (
            running_mean(np.where(_lost(baseline.pitch, track), GROSS_CENTS, cents), length)
            * counts
        )

    return _excess(distance, trial.pitch, baseline.seed_pitches, ALLOWED_CENTS)


def _lost(reference: PitchTrack, track: PitchTrack) -> np.ndarray:
    """Return frames that are not voiced, or at another pitch [frames] bool."""
    return ~track.voiced | (np.abs(track.hz - reference.hz) > GROSS_SHARE * reference.hz)


def _excess(
    distance: Callable[[Part], np.ndarray], test: Part, seeds: Sequence[Part], most: float
) -> float:
    """Largest distance of the test over the largest of the seeds at the same place."""
    # A seed's own distance is allowed, but no noisy voice hides more than `most`.
    allowed = np.minimum(np.max([distance(seed) for seed in seeds], axis=0), most)
    return float(max(0.0, (distance(test) - allowed).max()))
