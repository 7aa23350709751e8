"""A form whose package ends before conv_post, around either layout of time.

form = HostTailForm(LiteralForm()).bound(vocoder)
samples = form.join(trunk, frames=300, bucket=320)          # [600F]
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from core.config import KokoroConfig
from core.contract import COLUMNS_PER_FRAME, LITERAL, TRUNK, with_host_tail
from vocoder.decoder import Vocoder
from vocoder.form import Form
from vocoder.host_tail import HostTail
from vocoder.inputs import VocoderInputs


@dataclass(frozen=True, eq=False)
class HostTailForm:
    """Another form whose package ends before conv_post; `tail` does the rest where the output is joined. See vocoder/host_tail.py."""

    inner: Form
    tail: HostTail | None = None
    output = TRUNK
    tail_divisor = 1.0

    @property
    def name(self) -> str:
        """See Form."""
        return with_host_tail(self.inner.name)

    def bound(self, vocoder: Vocoder) -> "HostTailForm":
        """See Form."""
        return replace(self, tail=HostTail.of(vocoder, self.inner.tail_divisor))

    def check_frames(self, buckets: tuple[int, ...]) -> int:
        """See Form."""
        return self.inner.check_frames(buckets)

    def lengths(self, config: KokoroConfig, buckets: tuple[int, ...] | None) -> tuple[int, ...]:
        """See Form."""
        return self.inner.lengths(config, buckets)

    def module(self, vocoder: Vocoder, hidden_dim: int, *, int8_inputs: bool = False) -> nn.Module:
        """See Form."""
        return self.inner.trunk_module(vocoder, hidden_dim, int8_inputs=int8_inputs)

    trunk_module = module

    def shapes(self, buckets: tuple[int, ...], hidden_dim: int) -> tuple[tuple[int, ...], ...]:
        """See Form."""
        return self.inner.shapes(buckets, hidden_dim)

    def holds(self, frames: int, bucket: int) -> bool:
        """See Form."""
        return self.inner.holds(frames, bucket)

    def pack(self, inputs: VocoderInputs, bucket: int, *, half: bool) -> Tensor:
        """See Form."""
        return self.inner.pack(inputs, bucket, half=half)

    def columns(self, trunk: Tensor, frames: int, bucket: int) -> Tensor:
        """See Form."""
        return self.inner.columns(trunk, frames, bucket)

    def join(self, waveform: Tensor, frames: int, bucket: int) -> Tensor:
        """The trunk -> [600F]."""
        assert self.tail is not None, "bound() or recorded first"
        return torch.from_numpy(self.tail(self.columns(waveform, frames, bucket).float().numpy()))

    def output_dtype(self, precision: str) -> str:
        """See Form."""
        return "float16" if precision == "fp16" else "float32"

    def features_contract(self, hidden_dim: int, buckets: tuple[int, ...]) -> dict[str, Any]:
        """See Form."""
        return self.inner.features_contract(hidden_dim, buckets)

    def waveform_contract(self) -> dict[str, Any]:
        """The trunk in words, and the weights of what comes behind it."""
        assert self.tail is not None, "bound() or recorded first"
        rows = "1" if self.inner.name == LITERAL else "rows"
        return {
            "shape": [1, self.tail.weight.shape[1], rows, "columns"],
            "valid": f"{COLUMNS_PER_FRAME} * frames + 1 columns, those of a waveform's own frames",
            "tail": self.tail.described(),
        }
