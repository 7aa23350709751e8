"""Where a clip is worst: spectrum, level and pitch of 60 ms, a click of 5 ms, less what other seeds do there; how far the gain varies.

    local_spectrum_db(Trial(reference, test, other_seeds))

One wrong phone in six seconds, or the loudest syllable dipped, moves no mean. Another seed is nowhere far from the reference, so its
largest distance at a place is allowed there, but never more than ALLOWED: a noisier voice does not hide more.
"""

import numpy as np

from kokoro_ane.eval.metrics.framing import PITCH_HOP, WINDOW, PitchTrack, Windows, decibels, frames, running_mean
from kokoro_ane.eval.metrics.trial import Trial
from kokoro_ane.eval.metrics.whole_clip import GROSS_SHARE

MEL_FLOOR_DB, LEAST_BAND_DB = -30.0, -60.0  # of a band's own mean power over the reference, and of the mean over all bands
LEVEL_FLOOR_DB = -25.0  # of the reference's mean power
SWAY_RANGE_DB, SWAY_FLOOR_DB = -25.0, -30.0  # of the reference's loudest window; of its mean power
ALLOWED_DB, ALLOWED_CENTS = 3.0, 50.0
GROSS_CENTS = 1200 * np.log2(1 + GROSS_SHARE)  # what a lost or wrong pitch counts as
SURE_STRENGTH = 0.65  # periodicity from which a step's pitch is beyond doubt
CLICK_FRAME, CLICK_HOP = 120, 60  # 5 ms, 2.5 ms
CLICK_FLOOR_DB = -30.0  # of the power of the reference's loudest 5 ms
CLICK_ALLOWED_DB = 6.0  # what another seed does to the same 5 ms is no jump, up to this


def local_spectrum_db(trial: Trial) -> float:
    """Largest over windows of: RMS over 40 mel bands of the level difference to the reference, less the largest of the other seeds'."""
    reference = trial.baseline.windows.mel
    band = reference.mean(axis=0)
    floor = np.maximum(band * 10 ** (MEL_FLOOR_DB / 10), band.mean() * 10 ** (LEAST_BAND_DB / 10))

    def distance(windows: Windows) -> np.ndarray:
        return np.sqrt(np.square(decibels((windows.mel + floor) / (reference + floor))).mean(axis=1))

    return _excess(distance(trial.test_windows), [distance(seed) for seed in trial.baseline.seed_windows], ALLOWED_DB)


def local_level_db(trial: Trial) -> float:
    """Largest over windows of: magnitude of the level difference to the reference, less the largest of the other seeds'."""
    reference = trial.baseline.windows.level
    floor = reference.mean() * 10 ** (LEVEL_FLOOR_DB / 10)

    def distance(windows: Windows) -> np.ndarray:
        return np.abs(decibels((windows.level + floor) / (reference + floor)))

    return _excess(distance(trial.test_windows), [distance(seed) for seed in trial.baseline.seed_windows], ALLOWED_DB)


def gain_variation_db(trial: Trial) -> float:
    """Standard deviation, over windows within 25 dB of the reference's loudest, of the level difference to it: a steady gain is 0."""
    reference, test = trial.baseline.windows.level, trial.test_windows.level
    floor = reference.mean() * 10 ** (SWAY_FLOOR_DB / 10)
    heard = reference >= reference.max() * 10 ** (SWAY_RANGE_DB / 10)
    return float(np.std(decibels((test[heard] + floor) / (reference[heard] + floor))))


def click_db(trial: Trial) -> float:
    """Largest |level difference| of any 5 ms, less the largest of other seeds there: dropouts and clicks.

    All powers have 1e-3 of the reference's loudest 5 ms added. Without other seeds nothing is taken off.
    """
    signals = (trial.reference, trial.test, *trial.other_seeds)
    reference, test, *seeds = (np.square(frames(signal, CLICK_FRAME, CLICK_HOP)).mean(axis=1) for signal in signals)
    floor = reference.max() * 10 ** (CLICK_FLOOR_DB / 10)
    jumps = [np.abs(decibels((power + floor) / (reference + floor))) for power in (test, *seeds)]
    allowed = np.minimum(np.max(jumps[1:], axis=0), CLICK_ALLOWED_DB) if seeds else 0.0
    return float(max(0.0, (jumps[0] - allowed).max()))


def local_pitch_cents(trial: Trial) -> float:
    """Largest over windows of: mean magnitude of the F0 difference, less the largest of the other seeds'.

    Only windows count whose 10 ms steps are all clearly voiced, at about one pitch, in the reference and every other seed; a step where
    the test is not is a difference of 316 cents (20 %). 0 when there is no such window.
    """
    baseline = trial.baseline
    tracks = (baseline.pitch, *baseline.seed_pitches)
    sure = np.all([~_lost(baseline.pitch, track) & (track.strength > SURE_STRENGTH) for track in tracks], axis=0)
    length = WINDOW // PITCH_HOP
    counts = running_mean(sure.astype(float), length) > 1 - 1e-6

    def distance(track: PitchTrack) -> np.ndarray:
        cents = np.abs(1200 * np.log2(track.hz / baseline.pitch.hz))
        return running_mean(np.where(_lost(baseline.pitch, track), GROSS_CENTS, cents), length) * counts

    return _excess(distance(trial.test_pitch), [distance(seed) for seed in baseline.seed_pitches], ALLOWED_CENTS)


def _lost(reference: PitchTrack, track: PitchTrack) -> np.ndarray:
    """[frames] bool: not voiced, or at another pitch."""
    return ~track.voiced | (np.abs(track.hz - reference.hz) > GROSS_SHARE * reference.hz)


def _excess(test: np.ndarray, seeds: list[np.ndarray], most: float) -> float:
    allowed = np.minimum(np.max(seeds, axis=0), most)
    return float(max(0.0, (test - allowed).max()))
