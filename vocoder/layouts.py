"""The layouts of one function: how an utterance of any length is laid into the package's fixed
shapes, and its samples taken out again.

    layout = layout_named("padded")                      # or "host": with the tail on the host
    features = layout.pack(inputs, bucket=180)
    samples = layout.join(program(...), inputs.frames)

Upstream's graph as it is, in (B, C, 1, S), under a prefix mask. The streaming layouts' three
functions: vocoder/streaming.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from kokoro_ane.core.contract import (
    COLUMNS_PER_FRAME,
    FRAME_SAMPLES,
    HOST,
    ONE_FUNCTION,
    PADDED,
    TRUNK,
    WAVEFORM,
    PackedLayout,
)
from kokoro_ane.core.errors import InputError
from kokoro_ane.vocoder.decoder import PackedTrunk, PackedVocoder, Vocoder
from kokoro_ane.vocoder.host_tail import HostTail
from kokoro_ane.vocoder.packing import VocoderInputs, pack

CHECK_FRAMES, LONGEST_CHECK_FRAMES = 40, 140  # a second; three and a half


@dataclass(frozen=True)
class PaddedLayout:
    """What the builder, the chain and compression ask of a layout.

    `host_tail`: the package ends before conv_post, and `tail`, once it is known, does the rest
    where the output is joined.
    """

    host_tail: bool = False
    tail: HostTail | None = None

    @property
    def name(self) -> str:
        """One of ONE_FUNCTION; part of the package's name unless padded."""
        return HOST if self.host_tail else PADDED

    @property
    def output(self) -> str:
        """What the package gives: waveform or trunk."""
        return TRUNK if self.host_tail else WAVEFORM

    def output_dtype(self, precision: str) -> str:
        """The tail gives float32; a trunk comes as it is computed."""
        return "float16" if self.host_tail and precision == "fp16" else "float32"

    def with_tail_of(self, vocoder: Vocoder) -> "PaddedLayout":
        """Itself, with the weights of the vocoder that `join` needs."""
        return replace(self, tail=HostTail.of(vocoder)) if self.host_tail else self

    def check_frames(self, buckets: tuple[int, ...]) -> int:
        """Frames of the utterance that a build is checked with: about a second, long enough for
        every receptive field; a whole bucket where one is near, so that one render has no padding.
        """
        near = min(buckets, key=lambda bucket: abs(bucket - CHECK_FRAMES))
        return min(near if near <= LONGEST_CHECK_FRAMES else CHECK_FRAMES, buckets[-1])

    def module(self, vocoder: Vocoder, hidden_dim: int) -> nn.Module:
        """What is traced: (features, style) -> output."""
        return (PackedTrunk if self.host_tail else PackedVocoder)(vocoder, PackedLayout(hidden_dim))

    def shapes(self, buckets: tuple[int, ...], hidden_dim: int) -> tuple[tuple[int, ...], ...]:
        """Shape of `features` at every length: [1, channels, 1, bucket + 1]."""
        return tuple((1, PackedLayout(hidden_dim).channels, 1, bucket + 1) for bucket in buckets)

    def pack(self, inputs: VocoderInputs, bucket: int) -> Tensor:
        """`features`, float32: see vocoder.packing.pack. InputError where the bucket does not hold
        the utterance.
        """
        return torch.from_numpy(pack(inputs, bucket))

    def join(self, output: Tensor, frames: int) -> Tensor:
        """The package's output -> [600F]: waveform [1, 1, 1, 600 bucket], or trunk [1, C, 1, 120
        bucket + 1].
        """
        if not self.host_tail:
            return output.flatten()[: FRAME_SAMPLES * frames]
        columns = output[0, :, 0, : COLUMNS_PER_FRAME * frames + 1]  # [C, 120F + 1]
        return torch.from_numpy(self._known_tail()(columns.float().numpy()))

    def features_contract(self, hidden_dim: int) -> dict[str, Any]:
        """`features` in words, for the manifest."""
        layout = PackedLayout(hidden_dim)
        return {
            "shape": [1, layout.channels, 1, "bucket + 1"],
            "rows": dict(
                zip(("asr", "f0_hz", "energy", "mask", "spectrum"), layout.sizes, strict=True)
            ),
            "packing": (
                "each tensor padded with zeros to rows * (bucket + 1) values a channel group, row"
                " after row"
            ),
        }

    def output_contract(self) -> dict[str, Any]:
        """The output in words, for the manifest; of a trunk also the weights of what comes behind
        it.
        """
        if not self.host_tail:
            return {
                "shape": [1, 1, 1, f"{FRAME_SAMPLES} * bucket"],
                "valid": f"first {FRAME_SAMPLES} * frames samples",
            }
        tail = self._known_tail()
        return {
            "shape": [1, tail.weight.shape[1], 1, "columns"],
            "valid": f"{COLUMNS_PER_FRAME} * frames + 1 columns, those of a waveform's own frames",
            "tail": tail.described(),
        }

    def _known_tail(self) -> HostTail:
        assert self.tail is not None, "with_tail_of() or layout_recorded() first"
        return self.tail


def layout_named(name: str) -> PaddedLayout:
    """The layout of that name. InputError: unknown."""
    if name not in ONE_FUNCTION:
        raise InputError(
            f"unknown layout {name!r}; of one function there are: {', '.join(ONE_FUNCTION)}"
        )
    return PaddedLayout(host_tail=name == HOST)


def layout_recorded(name: str, outputs: Mapping[str, Any]) -> PaddedLayout:
    """The layout of a built package, from its manifest's name of it and description of the
    outputs.
    """
    layout = layout_named(name)
    return (
        replace(layout, tail=HostTail.recorded(outputs[TRUNK]["tail"]))
        if layout.host_tail
        else layout
    )
