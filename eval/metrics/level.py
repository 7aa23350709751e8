"""Metrics of the samples themselves: error power, level, jumps, peaks, clipping, delay. PESQ and MCD are blind to most of these.

snr_db(Trial(reference, test))
"""

import numpy as np

from core import figures
from core.contract import SAMPLE_RATE_HZ
from eval.metrics.framing import alignment, decibels, frames
from eval.metrics.trial import LONGEST_LAG, Trial

SNR_CEILING_DB = 200.0  # what equal signals score: JSON has no infinity
JUMP_FRAME, JUMP_HOP = 120, 60  # 5 ms, 2.5 ms
JUMP_FLOOR_DB = -30.0  # of the power of the reference's loudest 5 ms
FULL_SCALE = 1.0
CLIPPING_SECONDS = 6  # shorter clips count as this long
PAUSE_SHARE = 0.1  # of the reference's frames, the quietest
PAUSE_FLOOR_DB = -60.0  # of the reference's mean active power: what is quieter than that is silence in both
LOCAL_LAG, LOCAL_LENGTH = 24, 12_000  # samples: 1 ms either way, in stretches of half a second
ALIKE, GAINED = 0.995, 0.002  # correlation from which a stretch is the reference's, and by how much the lag has to better it
JUMP_ALLOWED_DB = 6.0  # what another seed does to the same 5 ms is no jump, up to this


def snr_db(trial: Trial) -> float:
    """10 log10(sum r^2 / sum (t - r)^2), at most 200."""
    return min(figures.snr_db(trial.reference, trial.upright), SNR_CEILING_DB)


def level_db(trial: Trial) -> float:
    """10 log10(sum t^2 / sum r^2): loudness of the whole clip, pauses included."""
    return float(decibels(np.square(trial.test).sum() / np.square(trial.reference).sum()))


def jump_db(trial: Trial) -> float:
    """Largest |level difference| of any 5 ms, less the largest of other seeds there: dropouts and clicks.

    All powers have 1e-3 of the reference's loudest 5 ms added. Without other seeds nothing is taken off.
    """
    signals = (trial.reference, trial.test, *trial.other_seeds)
    reference, test, *seeds = (np.square(frames(signal, JUMP_FRAME, JUMP_HOP)).mean(axis=1) for signal in signals)
    floor = reference.max() * 10 ** (JUMP_FLOOR_DB / 10)
    jumps = [np.abs(decibels((power + floor) / (reference + floor))) for power in (test, *seeds)]
    allowed = np.minimum(np.max(jumps[1:], axis=0), JUMP_ALLOWED_DB) if seeds else 0.0
    return float(max(0.0, (jumps[0] - allowed).max()))


def pause_floor_db(trial: Trial) -> float:
    """10 log10((P_t + floor) / (P_r + floor)): mean power of the quietest tenth of the reference's 25 ms frames. Hiss fills pauses."""
    reference, test = (np.square(frames(signal)).mean(axis=1) for signal in (trial.reference, trial.test))
    quiet = np.argsort(reference, kind="stable")[: max(1, int(len(reference) * PAUSE_SHARE))]
    floor = reference[trial.baseline.active].mean() * 10 ** (PAUSE_FLOOR_DB / 10)
    return float(decibels((test[quiet].mean() + floor) / (reference[quiet].mean() + floor)))


def peak_db(trial: Trial) -> float:
    """20 log10(max |t| / max |r|)."""
    return float(2 * decibels(np.abs(trial.test).max() / np.abs(trial.reference).max()))


def clipping_percent(trial: Trial) -> float:
    """Share of samples at the ceiling, test minus reference; the ceiling is 0.999 of a signal's own peak, or full scale if lower.

    A clip under 6 s counts as 6 s: in half a second one sample more would be the limit, and another seed has two.
    """
    return _at_ceiling_percent(trial.test) - _at_ceiling_percent(trial.reference)


def _at_ceiling_percent(signal: np.ndarray) -> float:
    magnitude = np.abs(signal)
    at_ceiling = np.count_nonzero(magnitude >= min(FULL_SCALE, 0.999 * magnitude.max()))
    return float(100 * at_ceiling / max(len(signal), CLIPPING_SECONDS * SAMPLE_RATE_HZ))


def lag_samples(trial: Trial) -> float:
    """Delay of the whole clip in -240..240 samples, or of that half second of it that is off by most; positive = the test is late.

    Against the trial's `clock`, if it has one. Half seconds are searched over 24 samples either way, and count where they then correlate
    by 0.995 with the reference, and by 0.002 better than in place.
    """
    clock, whole = trial.reference, trial.alignment[0]
    if trial.clock is not None:
        clock, whole = trial.clock, alignment(trial.clock, trial.test, LONGEST_LAG)[0]
    stretches = range(0, max(1, len(clock) - LOCAL_LENGTH + 1), LOCAL_LENGTH // 2)
    cuts = [slice(start, start + LOCAL_LENGTH) for start in stretches]
    return float(max([whole, *(_local_lag(clock[cut], trial.test[cut]) for cut in cuts)], key=abs))


def _local_lag(reference: np.ndarray, test: np.ndarray) -> int:
    lag, likeness = alignment(reference, test, LOCAL_LAG)
    _, in_place = alignment(reference, test, 0)
    return lag if abs(likeness) >= max(ALIKE, abs(in_place) + GAINED) else 0


def polarity(trial: Trial) -> float:
    """1, or -1 when the test is the reference turned over."""
    return 1.0 if trial.alignment[1] >= 0 else -1.0
