"""Where a clip is worst: spectrum, level and pitch of 60 ms, a click, a pause, less what other
seeds do there; how the gain varies.

    local_spectrum_db(Trial(reference, test, other_seeds))

One wrong phone in six seconds, or the loudest syllable dipped, moves no mean. Another seed is
nowhere far from the reference, so its largest distance at a place is allowed there, but never more
than ALLOWED: a noisier voice does not hide more (eval/metrics/allowance.py).
"""

import numpy as np

from kokoro_ane.core import SAMPLE_RATE_HZ
from kokoro_ane.eval.metrics.allowance import (
    CLICK_HOP,
    NO_PITCH,
    STEP_CENTS,
    STEP_DB,
    jumps_db,
    level_distance_db,
    pause_levels,
    pitch_distance_cents,
    rises_db,
    spectrum_distance_db,
)
from kokoro_ane.eval.metrics.framing import decibels, frames
from kokoro_ane.eval.metrics.trial import Trial

SWAY_RANGE_DB, SWAY_FLOOR_DB = -25.0, -30.0  # of the reference's loudest window; of its mean power
ROUGH_HZ = np.arange(10.0, 101.0)  # modulation that is heard as roughness, not as loudness
ROUGH_FRAME = 240  # 10 ms, Hann: shorter frames take a deep voice's pitch periods for modulation
PAUSE_RANGE_DB = -30.0  # of the reference's loudest 30 ms


def local_spectrum_db(trial: Trial) -> float:
    """Largest over windows of: RMS over 40 mel bands of the level difference to the reference, less
    the largest of the other seeds'.
    """
    distance = spectrum_distance_db(trial.baseline.windows, trial.windows)
    return _excess(distance, STEP_DB * trial.allowance.spectrum)


def local_level_db(trial: Trial) -> float:
    """Largest over windows of: magnitude of the level difference to the reference, less the largest
    of the other seeds'.
    """
    distance = level_distance_db(trial.baseline.windows, trial.windows)
    return _excess(distance, STEP_DB * trial.allowance.level)


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
    jumps = jumps_db(trial.reference, trial.test)
    return _excess(jumps, STEP_DB * trial.allowance.click if trial.scaled else np.zeros(1))


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
    # Without its mean, a steady gain is no modulation at any frequency.
    return float(200 * np.abs(turns @ (ratio - ratio.mean())).max() / len(heard))


def pause_peak_db(trial: Trial) -> float:
    """Largest level of the test over that of the reference and of every other seed in any 30 ms of
    a pause between words, at least 0: a pause is where all of those are 30 dB below the reference's
    loudest 30 ms. Powers have a floor 55 dB below it. 0 without a pause.
    """
    reference = pause_levels(trial.reference)
    loud = np.flatnonzero(reference >= reference.max() * 10 ** (SWAY_RANGE_DB / 10))
    # what is before the first word and behind the last is pause_floor_db's
    inner = slice(loud[0], loud[-1])
    # What the reference or any other seed has in a pause may be there.
    allowed_db = STEP_DB * trial.allowance.pause[inner]
    # As a rise over the reference, 30 dB below its loudest is what every seed in a pause stays
    # below.
    loudest = np.full_like(reference, reference.max() * 10 ** (PAUSE_RANGE_DB / 10))
    pauses = allowed_db < rises_db(reference, loudest)[inner]
    rises = rises_db(reference, pause_levels(trial.test))[inner] - allowed_db
    return float(np.max(rises, where=pauses, initial=0.0))


def local_pitch_cents(trial: Trial) -> float:
    """Largest over windows of: mean magnitude of the F0 difference, less the largest of the other
    seeds'.

    Only windows count whose 10 ms steps are all clearly voiced, at about one pitch, in the
    reference and every other seed; a step where the test is not is a difference of 316 cents (20
    %). 0 when there is no such window.
    """
    allowed = trial.allowance.pitch
    distance = pitch_distance_cents(trial.baseline.pitch, trial.pitch)
    # A window without a sure pitch is multiplied by 0, so that nothing in it exceeds.
    return _excess(distance * (allowed != NO_PITCH), STEP_CENTS * np.maximum(allowed, 0))


def _excess(distance: np.ndarray, allowed: np.ndarray) -> float:
    """Largest distance of the test over what is allowed at the same place."""
    return float(max(0.0, (distance - allowed).max()))
