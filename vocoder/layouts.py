"""The padded layout: how an utterance of any length is laid into the fixed shapes of a package of
one function, and its samples taken out again.

    layout = PaddedLayout()
    features = layout.pack(inputs, bucket=180)
    samples = layout.join(program(...), inputs.frames)

The graph is upstream's in (B, C, 1, S), under a prefix mask. The streaming layouts have three
functions: vocoder/streaming.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from kokoro_ane.core import (
    FRAME_SAMPLES,
    PADDED,
    WAVEFORM,
    PackedLayout,
)
from kokoro_ane.vocoder.decoder import PackedVocoder, Vocoder
from kokoro_ane.vocoder.packing import VocoderInputs, pack

CHECK_FRAMES, LONGEST_CHECK_FRAMES = 40, 140  # a second; three and a half


@dataclass(frozen=True)
class PaddedLayout:
    """What the builder, the chain and compression need to know of the padded layout."""

    name = PADDED
    output = WAVEFORM

    def check_frames(self, buckets: tuple[int, ...]) -> int:
        """Frames of the utterance that a build is checked with: about a second, long enough for
        every receptive field; a whole bucket where one is near, so that one render has no padding.
        """
        near = min(buckets, key=lambda bucket: abs(bucket - CHECK_FRAMES))
        return min(near if near <= LONGEST_CHECK_FRAMES else CHECK_FRAMES, buckets[-1])

    def make_module(self, vocoder: Vocoder, hidden_dim: int) -> nn.Module:
        """What is traced: (features, style) -> waveform."""
        return PackedVocoder(vocoder, PackedLayout(hidden_dim))

    def pack(self, inputs: VocoderInputs, bucket: int) -> Tensor:
        """`features`, float32: see vocoder.packing.pack. Raises InputError where the bucket does
        not hold the utterance.
        """
        return torch.from_numpy(pack(inputs, bucket))

    def join(self, output: Tensor, frames: int) -> Tensor:
        """The package's output, waveform [1, 1, 1, 600 bucket] -> samples [600F]."""
        return output.flatten()[: FRAME_SAMPLES * frames]

    def describe_output(self) -> dict[str, Any]:
        """The output in words, for the manifest."""
        return {
            "shape": [1, 1, 1, f"{FRAME_SAMPLES} * bucket"],
            "valid": f"first {FRAME_SAMPLES} * frames samples",
        }


def describe_features(hidden_dim: int) -> dict[str, Any]:
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
