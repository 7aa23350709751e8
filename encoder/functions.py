"""One utterance through the two functions, whoever computes them: PyTorch at exact length or padded, or the executed package.

encoded = encode(torch_functions(encoder), ids, style, speed=1.0, buckets=None, limits=limits)
encoded = encode(package_functions(programs), ids, style, speed=1.0, buckets=buckets, limits=limits)
encoded.asr, encoded.f0_hz, encoded.energy      # what the vocoder reads
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from core.contract import (
    DURATION,
    DURATIONS,
    ENERGY,
    F0_HZ,
    FRAMES,
    HIDDEN,
    INPUT_IDS,
    PADDING_ID,
    PROSODY,
    PROSODY_PER_FRAME,
    SPEED,
    STYLE,
    TEXT,
    bucket_for,
)
from core.errors import UtteranceTooLong
from encoder.alignment import AlignmentLimits, whole_frames
from encoder.model import DurationFunction, Encoder, ProsodyFunction, pack_frames
from encoder.text_encoder import aligned
from encoder.vocab import check_speed
from mlprogram import Program


@dataclass(frozen=True)
class Buckets:
    """Enumerated lengths: tokens (boundary included) and frames, rising."""

    tokens: tuple[int, ...]
    frames: tuple[int, ...]

    def for_tokens(self, count: int) -> int:
        """The smallest token bucket that holds `count`."""
        for bucket in self.tokens:
            if count <= bucket:
                return bucket
        raise UtteranceTooLong(f"{count - 2} phonemes: the package takes at most {self.tokens[-1] - 2}; split the text")


@dataclass(frozen=True)
class Functions:
    """`duration(ids [1, T], style [1, 128], speed [1])` -> durations, hidden, text; `prosody(frames, style)` -> F0, energy."""

    duration: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
    prosody: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Encoded:
    """One utterance of n tokens and F frames, cut to length.

    raw [n] frames before rounding, durations [n] int64; hidden and text [1, C, n]; en and asr [1, C, F]; f0_hz and energy [1, 2F].
    """

    raw: Tensor
    durations: Tensor
    hidden: Tensor
    text: Tensor
    en: Tensor
    asr: Tensor
    f0_hz: Tensor
    energy: Tensor


def torch_functions(encoder: Encoder) -> Functions:
    """The PyTorch twin."""
    return Functions(DurationFunction(encoder).eval(), ProsodyFunction(encoder).eval())


def package_functions(programs: Mapping[str, Program]) -> Functions:
    """The executed package, or two: programs by function name."""

    def duration(ids: Tensor, style: Tensor, speed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        given = programs[DURATION]({INPUT_IDS: ids, STYLE: style, SPEED: speed})
        return given[DURATIONS], given[HIDDEN], given[TEXT]

    def prosody(frames: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
        given = programs[PROSODY]({FRAMES: frames, STYLE: style})
        return given[F0_HZ], given[ENERGY]

    return Functions(duration, prosody)


@torch.no_grad()
def encode(
    functions: Functions,
    ids: tuple[int, ...],
    style: Tensor,
    speed: float,
    buckets: Buckets | None,
    limits: AlignmentLimits,
    first_frames: int | None = None,
) -> Encoded:
    """Durations, alignment, prosody. ids with boundary tokens; style [1, 128], the prosody half, in the dtype to compute in.

    `buckets=None` computes at exact length; `first_frames` cuts what the alignment gives, for checks on texts longer than any bucket.
    Raises InputError for a speed or a length that is out of range.
    """
    count = len(ids)
    width = count if buckets is None else buckets.for_tokens(count)
    padded = torch.tensor([[*ids, *(PADDING_ID for _ in range(width - count))]], dtype=torch.int32)  # [1, T]
    raw, hidden, text = functions.duration(padded, style, torch.tensor([check_speed(speed)], dtype=style.dtype))
    raw, hidden, text = raw[0, :count], hidden[..., :count], text[..., :count]
    durations = whole_frames(raw, limits)
    en, asr = (aligned(columns, durations)[..., :first_frames] for columns in (hidden, text))  # [1, C, 1, F]
    frames = en.shape[-1]
    f0_hz, energy = functions.prosody(pack_frames(en, frames if buckets is None else bucket_for(frames, buckets.frames)), style)
    rate = PROSODY_PER_FRAME * frames
    return Encoded(raw, durations, hidden[:, :, 0], text[:, :, 0], en[:, :, 0], asr[:, :, 0], f0_hz[:, :rate], energy[:, :rate])
