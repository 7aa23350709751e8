"""Joining: each chunk faded at both ends, never beyond full scale, with silence between; and how loud a seam is.

    samples, gain = finished(waveform)
    loudness_db = seam_db(before, after, pause)

Every chunk is treated by itself, so the audio does not hang on what is spoken before or after it: a stream, a file and a resumed run agree.
"""

import numpy as np

from core.contract import FRAME_SAMPLES

FADE_SAMPLES = 120  # 5 ms
CEILING = 1.0  # full scale; a louder chunk is turned down as a whole
OWN_PERCENTILE = 95  # of a chunk's frames: what the voice passes in one frame of twenty
FULL_SCALE = 32767


def fade(samples: int = FADE_SAMPLES) -> np.ndarray:
    """Raised cosine [samples] float32 from near 0 to near 1: sin^2(pi (2n + 1) / 4 samples)."""
    phase = np.pi * (2 * np.arange(samples) + 1) / (4 * samples)
    return np.square(np.sin(phase)).astype(np.float32)


def finished(waveform: np.ndarray) -> tuple[np.ndarray, float]:
    """A chunk [n] float32 ready to be joined, and the gain it was turned down by (1 = not). Shorter than two fades: shorter fades."""
    length = min(FADE_SAMPLES, len(waveform) // 2)
    faded, slope = waveform.astype(np.float32, copy=True), fade(length)
    faded[:length] *= slope
    faded[len(faded) - length :] *= slope[::-1]
    peak = float(np.abs(faded).max(initial=0.0))
    gain = 1.0 if peak <= CEILING else CEILING / peak
    return (faded if gain == 1.0 else np.clip(faded * np.float32(gain), -CEILING, CEILING)), gain


def to_pcm(samples: np.ndarray) -> np.ndarray:
    """Float in -1..1 to 16 bit, rounded half to even: 1.0 becomes 32767."""
    return np.rint(samples.astype(np.float64) * FULL_SCALE).clip(-FULL_SCALE, FULL_SCALE).astype("<i2")


def largest_step(samples: np.ndarray) -> float:
    """Largest difference between neighbouring samples."""
    return float(np.abs(np.diff(samples.astype(np.float64))).max(initial=0.0))


def own_step(samples: np.ndarray) -> float:
    """The largest step in each whole frame, 95th percentile over frames: what the voice does from frame to frame."""
    frames = samples[: len(samples) // FRAME_SAMPLES * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
    return float(np.percentile([largest_step(frame) for frame in frames], OWN_PERCENTILE)) if len(frames) else 0.0


def seam_db(before: np.ndarray, after: np.ndarray, pause: int) -> float:
    """Largest step where the join has changed anything (both fades and the pause), in dB over the smaller `own_step` of the two chunks.

    `before` and `after` are finished chunks. At or below 0 dB a seam is no louder than the voice itself; -inf: nothing moves there.
    """
    silence = np.zeros(min(pause, FADE_SAMPLES), np.float32)
    near = np.concatenate([before[-FADE_SAMPLES:], silence, after[:FADE_SAMPLES]])
    step, own = largest_step(near), min(own_step(before), own_step(after))
    with np.errstate(divide="ignore"):
        return float(20 * np.log10(step / own)) if own else (float("inf") if step else float("-inf"))
