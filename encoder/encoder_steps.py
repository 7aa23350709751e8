"""Phonemes to features, step by step: vocabulary, style row, durations, alignment by gather,
prosody.

    encoded = encode(EncoderBackend(make_torch_functions(encoder), limits), ids, style, speed=1.0)
    encoded.asr, encoded.f0_hz, encoded.energy      # what the vocoder reads

T = tokens with the boundary at both ends, F = frames. The backend is PyTorch, at exact length or
padded, or a built package. This file imports NumPy alone, for runtimes that need no PyTorch.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from kokoro_ane.core import (
    BOUNDARY_ID,
    DURATION,
    DURATIONS,
    ENERGY,
    EQUAL,
    F0_HZ,
    FRAMES,
    FRAMES_PER_SECOND,
    HIDDEN,
    INPUT_IDS,
    MAX_SPEED,
    MIN_SPEED,
    PADDING_ID,
    PROSODY,
    PROSODY_PER_FRAME,
    SPEED,
    STYLE,
    TEXT,
    InputError,
    KokoroConfig,
    Step,
    Tensors,
    UtteranceTooLong,
    bucket_for,
    computed,
    require_shape,
    run_steps,
    style_row,
)
from kokoro_g2p import MAX_PHONEMES

if TYPE_CHECKING:
    from torch import Tensor

STAGE = "encoder"
_SHOWN = 5  # unknown symbols named in one message


def encode_phonemes(phonemes: str, vocab: Mapping[str, int]) -> tuple[int, ...]:
    """The ids of the phonemes, with the boundary token at both ends. Raises InputError for no
    phonemes, too many, and symbols outside the vocabulary.
    """
    if not phonemes.strip():
        raise InputError("no phonemes: there is nothing to say")
    if len(phonemes) > MAX_PHONEMES:
        raise InputError(
            f"{len(phonemes)} phonemes: at most {MAX_PHONEMES} fit one utterance; split the text at"
            " a sentence end"
        )
    unknown = [(place, symbol) for place, symbol in enumerate(phonemes) if symbol not in vocab]
    if unknown:
        shown = ", ".join(
            f"{symbol!r} (U+{ord(symbol):04X}) at {place}" for place, symbol in unknown[:_SHOWN]
        )
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        raise InputError(f"phonemes outside the vocabulary of {len(vocab)} symbols: {shown}{more}")
    return (BOUNDARY_ID, *(vocab[symbol] for symbol in phonemes), BOUNDARY_ID)


def check_speed(speed: float) -> float:
    """Return `speed`, where 1 is the voice's own pace and 2 twice as fast. Raises InputError."""
    if isinstance(speed, bool) or not isinstance(speed, Real):
        raise InputError(f"speed {speed!r} is of type {type(speed).__name__}: give a number")
    if not math.isfinite(speed) or not MIN_SPEED <= speed <= MAX_SPEED:
        raise InputError(
            f"speed {speed} is outside {MIN_SPEED:g} to {MAX_SPEED:g}: 1 is the voice's own pace, 2"
            " twice as fast"
        )
    return speed


@dataclass(frozen=True)
class AlignmentLimits:
    """The most frames that one token and all tokens together may last. A trained model stays far
    below; a model or input beyond is broken.
    """

    token_frames: int
    total_frames: int

    @classmethod
    def from_config(cls, config: KokoroConfig, longest_bucket: int) -> "AlignmentLimits":
        """The projection's largest sum at the slowest speed, and the longest frame bucket."""
        return cls(int(config.max_dur / MIN_SPEED), longest_bucket)


def round_durations(raw: np.ndarray, limits: AlignmentLimits) -> np.ndarray:
    """Round as upstream does, half to even, at least 1: raw [n] frames -> [n] int64. Raises
    InputError beyond the limits and for NaN.
    """
    # NaN has no whole number: what the cast makes of it would be taken for a duration.
    bad = np.flatnonzero(~np.isfinite(raw))
    if len(bad):
        raise InputError(
            f"duration of token {int(bad[0])} is {float(raw[bad[0]])}: the model or its input is"
            " broken"
        )
    frames = np.maximum(np.rint(raw), 1).astype(np.int64)
    longest = int(frames.argmax())
    if frames[longest] > limits.token_frames:
        raise InputError(
            f"token {longest} lasts {int(frames[longest])} frames"
            f" ({int(frames[longest]) / FRAMES_PER_SECOND:.1f} s); at most {limits.token_frames}"
            " are possible: the model or its input is broken"
        )
    total = int(frames.sum())
    if total > limits.total_frames:
        raise UtteranceTooLong(
            f"the utterance lasts {total} frames ({total / FRAMES_PER_SECOND:.1f} s), the longest"
            f" bucket holds {limits.total_frames} ({limits.total_frames / FRAMES_PER_SECOND:.1f}"
            " s): split the text or speak faster"
        )
    return frames


def pack_frames(en: np.ndarray, bucket: int) -> np.ndarray:
    """Pad en [1, C, 1, F], the aligned hidden features, with zeros: [1, C + 1, 1, bucket], with the
    mask as the last row.
    """
    # The mask is a row, because only one input may have enumerated lengths.
    with_mask = np.concatenate([en, np.ones_like(en[:, :1])], axis=1)
    return np.pad(with_mask, ((0, 0), (0, 0), (0, 0), (0, bucket - en.shape[-1])))


@dataclass(frozen=True)
class Buckets:
    """Enumerated lengths: tokens (boundary included) and frames, rising."""

    tokens: tuple[int, ...]
    frames: tuple[int, ...]

    def find_token_bucket(self, count: int) -> int:
        """The smallest token bucket that holds `count`."""
        for bucket in self.tokens:
            if count <= bucket:
                return bucket
        raise UtteranceTooLong(
            f"{count - 2} phonemes: the package takes at most {self.tokens[-1] - 2}; split the text"
        )


Named = Mapping[str, Any]  # inputs or outputs of one function, arrays or tensors


@dataclass(frozen=True)
class Functions:
    """`duration(ids [1, T], style [1, 128], speed [1])` -> durations, hidden, text;
    `prosody(frames, style)` -> F0, energy. They take tensors, or NumPy arrays where
    EncoderBackend.arrays is set.
    """

    duration: Callable[..., tuple[Any, ...]]
    prosody: Callable[..., tuple[Any, ...]]


def join_programs(programs: Mapping[str, Callable[[Named], Named]]) -> Functions:
    """Both functions, from the programs of one package, of two, or of two files, by name."""

    def predict_duration(ids: Any, style: Any, speed: Any) -> tuple[Any, ...]:
        outputs = programs[DURATION]({INPUT_IDS: ids, STYLE: style, SPEED: speed})
        return outputs[DURATIONS], outputs[HIDDEN], outputs[TEXT]

    def predict_prosody(frames: Any, style: Any) -> tuple[Any, ...]:
        outputs = programs[PROSODY]({FRAMES: frames, STYLE: style})
        return outputs[F0_HZ], outputs[ENERGY]

    return Functions(predict_duration, predict_prosody)


@dataclass(frozen=True, eq=False)
class EncoderBackend:
    """The two functions and the lengths that they are called with.

    buckets: None means exact length. first_frames: the alignment is cut there, for checks on texts
    that are longer than any bucket. arrays: the functions take and return NumPy arrays instead of
    tensors.
    """

    functions: Functions
    limits: AlignmentLimits
    buckets: Buckets | None = None
    first_frames: int | None = None
    arrays: bool = False


class EncoderContext(Protocol):
    """What the steps read beside tensors."""

    @property
    def vocab(self) -> Mapping[str, int]:
        """The id of each symbol."""

    @property
    def voice(self) -> np.ndarray:
        """[510, 1, 256]."""

    @property
    def encoder(self) -> EncoderBackend:
        """Computes the two functions."""


def _encode_ids(context: EncoderContext, tensors: Tensors) -> Tensors:
    return {
        "ids": np.array(
            encode_phonemes("".join(map(chr, tensors["phonemes"])), context.vocab), np.int32
        )
    }


def _pad(context: EncoderContext, tensors: Tensors) -> Tensors:
    ids = tensors["ids"]
    buckets = context.encoder.buckets
    padding = 0 if buckets is None else buckets.find_token_bucket(len(ids)) - len(ids)
    # [1, T]
    return {"input_ids": np.pad(ids, (0, padding), constant_values=PADDING_ID)[None]}


def _select_style(context: EncoderContext, tensors: Tensors) -> Tensors:
    row = style_row(context.voice, len(tensors["phonemes"]))  # [1, 256]
    half = row.shape[1] // 2
    return {"style_decoder": row[:, :half], "style_prosody": row[:, half:]}


def _predict_durations(context: EncoderContext, tensors: Tensors) -> Tensors:
    style = tensors["style_prosody"]
    backend = context.encoder
    inputs = (tensors["input_ids"], style, tensors["speed"].astype(style.dtype))
    raw, hidden, text = computed(backend.functions.duration, *inputs, arrays=backend.arrays)
    count = len(tensors["ids"])
    cut = {"raw": raw[..., :count], "hidden": hidden[..., :count], "text": text[..., :count]}
    for name, value in cut.items():
        # raw [1, n], hidden and text [1, C, 1, n]
        lead = (1,) if name == "raw" else value.shape[:-1]
        require_shape(name, value, (*lead, count), f"{count} tokens")
    return cut | {"raw": cut["raw"][0]}


def _round(context: EncoderContext, tensors: Tensors) -> Tensors:
    return {"durations": round_durations(tensors["raw"], context.encoder.limits)}


def _align(context: EncoderContext, tensors: Tensors) -> Tensors:
    durations = tensors["durations"]
    return {
        "token_of_frame": np.repeat(np.arange(len(durations)), durations)[
            : context.encoder.first_frames
        ]
    }


def _gather_text(_: EncoderContext, tensors: Tensors) -> Tensors:
    # [1, C, 1, F] -> [1, C, F]
    return {"asr": tensors["text"][..., tensors["token_of_frame"]][:, :, 0]}


def _gather_frames(context: EncoderContext, tensors: Tensors) -> Tensors:
    aligned = tensors["hidden"][..., tensors["token_of_frame"]]  # [1, C, 1, F]
    frames = aligned.shape[-1]
    buckets = context.encoder.buckets
    bucket = frames if buckets is None else bucket_for(frames, buckets.frames)
    return {"frames": pack_frames(aligned, bucket)}


def _predict_prosody(context: EncoderContext, tensors: Tensors) -> Tensors:
    backend = context.encoder
    f0_hz, energy = computed(
        backend.functions.prosody,
        tensors["frames"],
        tensors["style_prosody"],
        arrays=backend.arrays,
    )
    frames = len(tensors["token_of_frame"])
    valid = PROSODY_PER_FRAME * frames
    cut = {"f0_hz": f0_hz[..., :valid], "energy": energy[..., :valid]}
    for name, value in cut.items():
        require_shape(name, value, (1, valid), f"{frames} frames")
    return cut


STEPS = (
    Step(
        "ids",
        STAGE,
        "symbols to numbers, 0 at both ends",
        ("phonemes",),
        {"ids": EQUAL},
        _encode_ids,
    ),
    Step("pad", STAGE, "smallest token bucket, -1 behind", ("ids",), {"input_ids": EQUAL}, _pad),
    Step(
        "style",
        STAGE,
        "row n - 1 of the voice; columns 0:128 and 128:256",
        ("phonemes",),
        {"style_decoder": EQUAL, "style_prosody": EQUAL},
        _select_style,
    ),
    Step(
        "duration",
        STAGE,
        "package KokoroEncoder, function duration; cut to n + 2 columns",
        ("ids", "input_ids", "style_prosody", "speed"),
        {"raw": 80.0, "hidden": 80.0, "text": 40.0},
        _predict_durations,
    ),
    Step("round", STAGE, "half to even, at least 1", ("raw",), {"durations": EQUAL}, _round),
    Step(
        "align",
        STAGE,
        "token i stands durations[i] times",
        ("durations",),
        {"token_of_frame": EQUAL},
        _align,
    ),
    Step(
        "asr", STAGE, "gather of the text", ("text", "token_of_frame"), {"asr": EQUAL}, _gather_text
    ),
    Step(
        "frames",
        STAGE,
        "gather of hidden; mask as last row, zeros up to the frame bucket",
        ("hidden", "token_of_frame"),
        {"frames": EQUAL},
        _gather_frames,
    ),
    Step(
        "prosody",
        STAGE,
        "package KokoroEncoder, function prosody; cut to 2F",
        ("frames", "style_prosody", "token_of_frame"),
        {"f0_hz": 80.0, "energy": 40.0},
        _predict_prosody,
    ),
)
# these read neither vocabulary nor voice
FROM_IDS = tuple(step for step in STEPS if step.name not in ("ids", "style"))


@dataclass(frozen=True)
class Encoded:
    """One utterance of n tokens and F frames, cut to length.

    raw [n]: frames before rounding; durations [n] int64; hidden and text [1, C, n]; asr [1, C, F];
    f0_hz and energy [1, 2F]; frames [1, C, F]: hidden, aligned.
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
    def from_tensors(cls, tensors: Tensors) -> "Encoded":
        """From the steps' tensors."""
        import torch

        fields = {
            name: torch.from_numpy(np.ascontiguousarray(tensors[name]))
            for name in cls.__dataclass_fields__
        }
        fields |= {name: fields[name][:, :, 0] for name in ("hidden", "text")}
        frames = fields["asr"].shape[-1]
        return cls(**fields | {"frames": fields["frames"][:, :-1, 0, :frames]})


def encode(
    backend: EncoderBackend,
    ids: tuple[int, ...],
    style: "Tensor",
    speed: float,
    durations: "np.ndarray | None" = None,
) -> Encoded:
    """Run the steps from `ids` on. ids have the boundary tokens; style [1, 128], the prosody half,
    has the dtype to compute in. durations [n] are the frames to align by, instead of the rounded
    `raw`.

    Raises InputError for a speed or a length that is out of range.
    """
    inputs = {
        "ids": np.array(ids, np.int32),
        "style_prosody": style.numpy(),
        "speed": np.array([check_speed(speed)], np.float32),
    }
    inputs |= {} if durations is None else {"durations": durations.astype(np.int64)}
    return Encoded.from_tensors(run_steps(FROM_IDS, SimpleNamespace(encoder=backend), inputs))
