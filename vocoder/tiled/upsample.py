"""Changes of rate in steps the engine knows: dense convolutions into phases, kept as channels, and strides of 2 to 5 that lay them down.

    up = RowUpsample(conv_transpose)
    y = up(x)                                           # [1, C, R, W] -> [1, C / 2, R, rate * W]

A transposed convolution of kernel 2s, stride s and padding s / 2 is a convolution of kernel 3 into s phases: phase p of column q reads q
and one neighbour. A strided convolution on a signal whose phases are channels is a plain one.
"""

from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core.layers import Conv, ConvTranspose
from kokoro_ane.vocoder.scaled_conv import reciprocal_of

FACTORS = MappingProxyType({20: (4, 5), 10: (2, 5), 6: (2, 3)})  # of the rates, for kernels within every chip's limit; 5 is not native


def phase_channel(phase: int, rate: int) -> int:
    """Where phase `phase` of `rate` stands among the channels that Interleave takes."""
    outer, inner = FACTORS[rate]
    return phase % inner * outer + phase // inner


class Interleave(nn.Module):
    """Phases among channels become columns: [1, rate * C, R, W] -> [1, C, R, rate * W]. Transposed convolutions with ones and zeros."""

    outer: Tensor
    inner: Tensor

    def __init__(self, channels: int, rate: int) -> None:
        super().__init__()
        self.groups = (channels * FACTORS[rate][1], channels)
        outer, inner = FACTORS[rate]
        self.register_buffer("outer", torch.eye(outer).repeat(self.groups[0], 1)[:, None, None])  # [C * inner * outer, 1, 1, outer]
        self.register_buffer("inner", torch.eye(inner).repeat(channels, 1)[:, None, None])  # [C * inner, 1, 1, inner]

    def forward(self, x: Tensor) -> Tensor:
        for weight, groups in zip((self.outer, self.inner), self.groups, strict=True):
            x = F.conv_transpose2d(x, weight, None, (1, weight.shape[3]), groups=groups)
        return x


class RowUpsample(nn.Module):
    """A transposed convolution of kernel twice its stride; beyond a row's edges it sees zeros, as upstream's does at its ends."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, up: ConvTranspose, divisor: float = 1.0) -> None:
        super().__init__()
        rate, channels = up.stride[1], up.weight.shape[1]
        given = up.weight.detach().double() / divisor  # [in, out, 1, 2s]
        weight = torch.zeros(channels, rate, given.shape[0], 3, dtype=torch.float64)
        for phase in range(rate):
            for neighbour in (-1, 0, 1):
                tap = phase + rate // 2 - rate * neighbour
                if 0 <= tap < 2 * rate:
                    weight[:, phase_channel(phase, rate), :, neighbour + 1] = given[:, :, 0, tap].T
        self.register_buffer("weight", weight.flatten(0, 1)[:, :, None].float())  # [out * s, in, 1, 3]
        self.register_buffer("bias", up.bias.detach().repeat_interleave(rate) if up.bias.any() else None)
        self.lay_down = Interleave(channels, rate)

    def forward(self, x: Tensor) -> Tensor:
        """[1, in, R, W] -> [1, out, R, s W]."""
        return self.lay_down(F.conv2d(x, self.weight, self.bias, padding=(0, 1)))


class PolyphaseConv(nn.Module):
    """A strided convolution on phases kept as channels: one output a column, kernel 3, so two columns fewer.

    `phases` [stride]: where phase p stands among the channels of one input.
    """

    weight: Tensor
    bias: Tensor | None
    reciprocal: Tensor | None

    def __init__(self, conv: Conv, phases: tuple[int, ...]) -> None:
        super().__init__()
        assert conv.bias is not None  # upstream's strided convolutions have one
        out, inner, _, kernel = conv.weight.shape
        stride = len(phases)
        weight = torch.zeros(out, inner, stride, 3)
        for tap in range(kernel):
            neighbour, phase = divmod(tap - conv.padding[1], stride)
            weight[:, :, phases[phase], neighbour + 1] = conv.weight.detach()[:, :, 0, tap]
        self.register_buffer("weight", weight.flatten(1, 2)[:, :, None])  # [out, in * stride, 1, 3]
        self.register_buffer("bias", conv.bias.detach().clone() if conv.bias.any() else None)
        reciprocal = reciprocal_of(conv)
        self.register_buffer("reciprocal", None if reciprocal is None else reciprocal.repeat_interleave(stride, dim=1))

    def forward(self, x: Tensor) -> Tensor:
        """[1, in * stride, R, W] -> [1, out, R, W - 2]."""
        return F.conv2d(x if self.reciprocal is None else x * self.reciprocal, self.weight, self.bias)
