"""Phonemes to features, step by step: vocabulary, style row, durations, alignment by gather, prosody.

    encoded = encode(EncoderBackend(torch_functions(encoder), limits), ids, style, speed=1.0)
    encoded.asr, encoded.f0_hz, encoded.energy      # what the vocoder reads

T = tokens with the boundary at both ends, F = frames. The backend is PyTorch at exact length or padded, or the executed package.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from core.contract import PADDING_ID, PROSODY_PER_FRAME, bucket_for
from core.steps import EQUAL, Step, Tensors, computed, run
from core.voices import style_row
from encoder.alignment import AlignmentLimits, packed_frames, whole_frames
from encoder.functions import Buckets, Functions
from encoder.vocab import check_speed, input_ids

if TYPE_CHECKING:
    from torch import Tensor

STAGE = "encoder"


@dataclass(frozen=True, eq=False)
class EncoderBackend:
    """Who computes the two functions, and at which lengths.

    buckets None: at exact length. first_frames: cut behind the alignment, for checks on texts longer than any bucket. arrays: the
    functions take and give NumPy arrays instead of tensors.
    """

    functions: Functions
    limits: AlignmentLimits
    buckets: Buckets | None = None
    first_frames: int | None = None
    arrays: bool = False

    def token_width(self, tokens: int) -> int:
        """Length that so many tokens are padded to. Raises UtteranceTooLong."""
        return tokens if self.buckets is None else self.buckets.for_tokens(tokens)

    def frame_width(self, frames: int) -> int:
        """The same for frames."""
        return frames if self.buckets is None else bucket_for(frames, self.buckets.frames)


class Context(Protocol):
    """What these steps work with."""

    @property
    def vocab(self) -> Mapping[str, int]:
        """Symbol to number."""

    @property
    def voice(self) -> np.ndarray:
        """[510, 1, 256]."""

    @property
    def encoder(self) -> EncoderBackend:
        """Who computes."""


def _ids(context: Context, given: Tensors) -> Tensors:
    return {"ids": np.array(input_ids("".join(map(chr, given["phonemes"])), context.vocab), np.int32)}


def _pad(context: Context, given: Tensors) -> Tensors:
    ids = given["ids"]
    return {"input_ids": np.pad(ids, (0, context.encoder.token_width(len(ids)) - len(ids)), constant_values=PADDING_ID)[None]}  # [1, T]


def _style(context: Context, given: Tensors) -> Tensors:
    row = style_row(context.voice, len(given["phonemes"]))  # [1, 256]
    half = row.shape[1] // 2
    return {"style_decoder": row[:, :half], "style_prosody": row[:, half:]}


def _duration(context: Context, given: Tensors) -> Tensors:
    style, backend = given["style_prosody"], context.encoder
    inputs = (given["input_ids"], style, given["speed"].astype(style.dtype))
    raw, hidden, text = computed(backend.functions.duration, *inputs, arrays=backend.arrays)
    count = len(given["ids"])
    return {"raw": raw[0, :count], "hidden": hidden[..., :count], "text": text[..., :count]}


def _round(context: Context, given: Tensors) -> Tensors:
    return {"durations": whole_frames(given["raw"], context.encoder.limits)}


def _align(context: Context, given: Tensors) -> Tensors:
    durations = given["durations"]
    return {"token_of_frame": np.repeat(np.arange(len(durations)), durations)[: context.encoder.first_frames]}


def _asr(_: Context, given: Tensors) -> Tensors:
    return {"asr": given["text"][..., given["token_of_frame"]][:, :, 0]}  # [1, C, 1, F] -> [1, C, F]


def _frames(context: Context, given: Tensors) -> Tensors:
    aligned = given["hidden"][..., given["token_of_frame"]]  # [1, C, 1, F]
    return {"frames": packed_frames(aligned, context.encoder.frame_width(aligned.shape[-1]))}


def _prosody(context: Context, given: Tensors) -> Tensors:
    backend = context.encoder
    f0_hz, energy = computed(backend.functions.prosody, given["frames"], given["style_prosody"], arrays=backend.arrays)
    valid = PROSODY_PER_FRAME * len(given["token_of_frame"])
    return {"f0_hz": f0_hz[:, :valid], "energy": energy[:, :valid]}


STEPS = (
    Step("ids", STAGE, "symbols to numbers, 0 at both ends", ("phonemes",), {"ids": EQUAL}, _ids),
    Step("pad", STAGE, "smallest token bucket, -1 behind", ("ids",), {"input_ids": EQUAL}, _pad),
    Step("style", STAGE, "row n - 1 of the voice; columns 0:128 and 128:256", ("phonemes",),
         {"style_decoder": EQUAL, "style_prosody": EQUAL}, _style),
    Step("duration", STAGE, "package KokoroEncoder, function duration; cut to n + 2 columns",
         ("ids", "input_ids", "style_prosody", "speed"), {"raw": 80.0, "hidden": 80.0, "text": 40.0}, _duration),
    Step("round", STAGE, "half to even, at least 1", ("raw",), {"durations": EQUAL}, _round),
    Step("align", STAGE, "token i stands durations[i] times", ("durations",), {"token_of_frame": EQUAL}, _align),
    Step("asr", STAGE, "gather of the text", ("text", "token_of_frame"), {"asr": EQUAL}, _asr),
    Step("frames", STAGE, "gather of hidden; mask as last row, zeros up to the frame bucket", ("hidden", "token_of_frame"),
         {"frames": EQUAL}, _frames),
    Step("prosody", STAGE, "package KokoroEncoder, function prosody; cut to 2F", ("frames", "style_prosody", "token_of_frame"),
         {"f0_hz": 80.0, "energy": 40.0}, _prosody),
)  # fmt: skip
FROM_IDS = tuple(step for step in STEPS if step.name not in ("ids", "style"))


@dataclass(frozen=True)
class Encoded:
    """One utterance of n tokens and F frames, cut to length.

    raw [n] frames before rounding, durations [n] int64; hidden and text [1, C, n]; asr [1, C, F]; f0_hz and energy [1, 2F];
    frames [1, C, F]: hidden, aligned.
    """

    raw: "Tensor"
    durations: "Tensor"
    hidden: "Tensor"
    text: "Tensor"
    frames: "Tensor"
    asr: "Tensor"
    f0_hz: "Tensor"
    energy: "Tensor"

    @classmethod
    def of(cls, tensors: Tensors) -> "Encoded":
        """From the steps' tensors."""
        import torch

        found = {name: torch.from_numpy(np.ascontiguousarray(tensors[name])) for name in cls.__dataclass_fields__}
        count = found["asr"].shape[-1]
        columns = {name: found[name][:, :, 0] for name in ("hidden", "text")}
        return cls(**found | columns | {"frames": found["frames"][:, :-1, 0, :count]})


@dataclass(frozen=True)
class Encoding:
    """What the steps from `ids` on work with: neither vocabulary nor voice."""

    encoder: EncoderBackend
    vocab: Mapping[str, int] = field(default_factory=dict)
    voice: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))


def encode(backend: EncoderBackend, ids: tuple[int, ...], style: "Tensor", speed: float) -> Encoded:
    """The steps from `ids` on. ids with boundary tokens; style [1, 128], the prosody half, in the dtype to compute in.

    Raises InputError for a speed or a length that is out of range.
    """
    given = {"ids": np.array(ids, np.int32), "style_prosody": style.numpy(), "speed": np.array([check_speed(speed)], np.float32)}
    return Encoded.of(run(FROM_IDS, Encoding(backend), given))
