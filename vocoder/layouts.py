"""The padded layout: how an utterance of any length is laid into the fixed shapes of a package of
one function, and its samples taken out again; and the tail that the host computes of some packages.

    layout = PaddedLayout()                 # or PaddedLayout(HostTail.of(vocoder))
    features = layout.pack(inputs, bucket=180)
    samples = layout.join(program(...), inputs.frames)

The graph is upstream's in (B, C, 1, S), under a prefix mask. The streaming layouts have three
functions: vocoder/streaming.

A package that ends before conv_post has no fp32 operation, so nothing of it has to leave the Neural
Engine for Core ML's CPU library. The weights of the tail stand in the manifest (22 C 7 + 22
numbers, base64 of little-endian float32). For Accelerate: docs/synthesis.md.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core.contract import (
    COLUMNS_PER_FRAME,
    FRAME_SAMPLES,
    HOST,
    ONE_FUNCTION,
    PADDED,
    SPECTRUM_CHANNELS,
    TRUNK,
    WAVEFORM,
    PackedLayout,
)
from kokoro_ane.core.errors import InputError
from kokoro_ane.vocoder.decoder import InverseStft, PackedTrunk, PackedVocoder, Vocoder
from kokoro_ane.vocoder.packing import VocoderInputs, pack

CHECK_FRAMES, LONGEST_CHECK_FRAMES = 40, 140  # a second; three and a half


@dataclass(frozen=True, eq=False)
class HostTail:
    """conv_post, exp and sin, and the inverse STFT in float32. weight [22, C, 1, k] and bias [22]
    are conv_post's.
    """

    weight: Tensor
    bias: Tensor

    @classmethod
    def of(cls, vocoder: Vocoder) -> "HostTail":
        """The tail of a vocoder in PyTorch."""
        conv = vocoder.generator.conv_post
        assert conv.bias is not None
        return cls(conv.weight.detach().float(), conv.bias.detach().float())

    @classmethod
    def recorded(cls, words: Mapping[str, Any]) -> "HostTail":
        """The tail that a manifest describes. Raises InputError for NaN or infinity; ValueError,
        KeyError, TypeError for what is no description.
        """
        shape = tuple(int(size) for size in words["shape"])
        weight, bias = (
            torch.from_numpy(
                np.frombuffer(base64.b64decode(words[name], validate=True), "<f4")
                .reshape(size)
                .copy()
            )
            for name, size in (("weight", shape), ("bias", SPECTRUM_CHANNELS))
        )
        # An even kernel has no middle, so the result would be a column longer or shorter.
        if len(shape) != 3 or shape[0] != SPECTRUM_CHANNELS or shape[2] % 2 == 0:
            raise ValueError(f"conv_post of shape {list(shape)}")
        if not (weight.isfinite().all() and bias.isfinite().all()):
            raise InputError("the weights of the tail hold NaN or infinity")
        return cls(weight[:, :, None], bias)

    def described(self) -> dict[str, Any]:
        """The tail for the manifest."""
        weight, bias = (
            base64.b64encode(array.numpy().astype("<f4").tobytes()).decode()
            for array in (self.weight, self.bias)
        )
        return {
            "shape": list(self.weight[:, :, 0].shape),
            "weight": weight,
            "bias": bias,
            "encoding": "base64 of float32, little-endian",
            "steps": "convolution, exp, sin, inverse STFT in float32: docs/synthesis.md",
        }

    @torch.no_grad()
    def __call__(self, trunk: Tensor) -> Tensor:
        """trunk [1, C, 1, 120F + 1] -> samples [600F]."""
        reach = self.weight.shape[3] // 2
        spectrum = F.conv2d(trunk.float(), self.weight, self.bias, padding=(0, reach))
        return InverseStft()(spectrum, None).flatten()


@dataclass(frozen=True, eq=False)
class PaddedLayout:
    """What the builder, the chain and compression need to know of a layout. With `tail` the package
    ends before conv_post, and `join` computes the rest.
    """

    tail: HostTail | None = None

    @classmethod
    def of(cls, name: str, vocoder: Vocoder) -> "PaddedLayout":
        """The layout of that name for a package of `vocoder`. Raises InputError for an unknown
        one.
        """
        if name not in ONE_FUNCTION:
            raise InputError(
                f"unknown layout {name!r}; of one function there are: {', '.join(ONE_FUNCTION)}"
            )
        return cls(HostTail.of(vocoder) if name == HOST else None)

    @classmethod
    def recorded(cls, name: str, outputs: Mapping[str, Any]) -> "PaddedLayout":
        """The layout of a built package, by its manifest's name of it and description of the
        outputs.
        """
        return cls(HostTail.recorded(outputs[TRUNK]["tail"]) if name == HOST else None)

    @property
    def name(self) -> str:
        """One of ONE_FUNCTION."""
        return HOST if self.tail else PADDED

    @property
    def output(self) -> str:
        """What the package returns: waveform or trunk."""
        return TRUNK if self.tail else WAVEFORM

    def output_dtype(self, precision: str) -> str:
        """The package's own tail returns float32; a trunk has the type that it is computed in."""
        return "float16" if self.tail and precision == "fp16" else "float32"

    def check_frames(self, buckets: tuple[int, ...]) -> int:
        """Frames of the utterance that a build is checked with: about a second, long enough for
        every receptive field; a whole bucket where one is near, so that one render has no padding.
        """
        near = min(buckets, key=lambda bucket: abs(bucket - CHECK_FRAMES))
        return min(near if near <= LONGEST_CHECK_FRAMES else CHECK_FRAMES, buckets[-1])

    def module(self, vocoder: Vocoder, hidden_dim: int) -> nn.Module:
        """What is traced: (features, style) -> output."""
        return (PackedTrunk if self.tail else PackedVocoder)(vocoder, PackedLayout(hidden_dim))

    def pack(self, inputs: VocoderInputs, bucket: int) -> Tensor:
        """`features`, float32: see vocoder.packing.pack. Raises InputError where the bucket does
        not hold the utterance.
        """
        return torch.from_numpy(pack(inputs, bucket))

    def join(self, output: Tensor, frames: int) -> Tensor:
        """The package's output, waveform [1, 1, 1, 600 bucket] or trunk [1, C, 1, 120 bucket + 1],
        -> samples [600F].
        """
        if self.tail is None:
            return output.flatten()[: FRAME_SAMPLES * frames]
        return self.tail(output[..., : COLUMNS_PER_FRAME * frames + 1])

    def output_contract(self) -> dict[str, Any]:
        """The output in words, for the manifest; of a trunk also the weights of the tail."""
        if self.tail is None:
            return {
                "shape": [1, 1, 1, f"{FRAME_SAMPLES} * bucket"],
                "valid": f"first {FRAME_SAMPLES} * frames samples",
            }
        return {
            "shape": [1, self.tail.weight.shape[1], 1, "columns"],
            "valid": f"{COLUMNS_PER_FRAME} * frames + 1 columns, those of a waveform's own frames",
            "tail": self.tail.described(),
        }


def features_contract(hidden_dim: int) -> dict[str, Any]:
    """The input `features` in words, for the manifest."""
    layout = PackedLayout(hidden_dim)
    rows = zip(("asr", "f0_hz", "energy", "mask", "spectrum"), layout.sizes, strict=True)
    return {
        "shape": [1, layout.channels, 1, "bucket + 1"],
        "rows": dict(rows),
        "packing": (
            "each tensor padded with zeros to rows * (bucket + 1) values a channel group, row after"
            " row"
        ),
    }
