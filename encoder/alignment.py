"""Alignment on the host: durations as the model sums them to whole frames, and one gather.

frames = whole_frames(raw, AlignmentLimits.of(config, longest_bucket=1200))   # [n] int64, at least 1 each
asr = aligned(text, frames)                                                   # encoder.text_encoder.aligned
"""

from dataclasses import dataclass

import numpy as np

from core.config import KokoroConfig
from core.contract import FRAMES_PER_SECOND, MIN_SPEED
from core.errors import InputError, UtteranceTooLong


@dataclass(frozen=True)
class AlignmentLimits:
    """Frames one token may last, and all together. A trained model stays far below; beyond it something is broken."""

    token_frames: int
    total_frames: int

    @classmethod
    def of(cls, config: KokoroConfig, longest_bucket: int) -> "AlignmentLimits":
        """What the projection can sum up to at the slowest speed, and what the longest frame bucket holds."""
        return cls(int(config.max_dur / MIN_SPEED), longest_bucket)


def whole_frames(raw: np.ndarray, limits: AlignmentLimits) -> np.ndarray:
    """Round as upstream does (half to even, at least 1): raw [n] frames -> [n] int64. InputError beyond the limits or for NaN."""
    bad = np.flatnonzero(~np.isfinite(raw))
    if len(bad):
        raise InputError(f"duration of token {int(bad[0])} is {float(raw[bad[0]])}: the model or its input is broken")
    frames = np.maximum(np.rint(raw), 1).astype(np.int64)
    longest = int(frames.argmax())
    if frames[longest] > limits.token_frames:
        raise InputError(
            f"token {longest} lasts {int(frames[longest])} frames ({int(frames[longest]) / FRAMES_PER_SECOND:.1f} s); at most "
            f"{limits.token_frames} are possible: the model or its input is broken"
        )
    total = int(frames.sum())
    if total > limits.total_frames:
        raise UtteranceTooLong(
            f"the utterance lasts {total} frames ({total / FRAMES_PER_SECOND:.1f} s), the longest bucket holds {limits.total_frames} "
            f"({limits.total_frames / FRAMES_PER_SECOND:.1f} s): split the text or speak faster"
        )
    return frames


def packed_frames(en: np.ndarray, bucket: int) -> np.ndarray:
    """en [1, C, 1, F] (hidden, aligned) -> [1, C + 1, 1, bucket] with its mask as the last row and zeros in the padding."""
    with_mask = np.concatenate([en, np.ones_like(en[:, :1])], axis=1)
    return np.pad(with_mask, ((0, 0), (0, 0), (0, 0), (0, bucket - en.shape[-1])))
