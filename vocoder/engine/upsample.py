"""Upsampling and downsampling in steps the engine knows: kernels as wide as their stride, strides factored where a factor is native.

    up = RowUpsample(conv_transpose, factors=(2, 5))
    y = up(x)                                           # [1, C, R, W] -> [1, C / 2, R, rate * (W - 1)]

A transposed convolution of kernel 2s, stride s and padding s / 2 gives at t = s q + p - s / 2 the sum w[p] x[q] + w[s + p] x[q - 1]: one of
kernel s and stride s on the channels of x[q] and x[q - 1] together. Its steps s = a b are a dense one of stride a into b phases a channel
and one of stride b that only lays the phases down.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipeline.layers import Conv, ConvTranspose


class RowUpsample(nn.Module):
    """A transposed convolution of kernel twice its stride, on rows that carry a halo: the first step is half a stride to the left."""

    def __init__(self, up: ConvTranspose, factors: tuple[int, int], divisor: float = 1.0) -> None:
        super().__init__()
        outer, inner = factors
        weight = up.weight.detach().double() / divisor  # [in, out, 1, 2s]
        before, after = weight.chunk(2, dim=3)
        both = torch.cat([before, after])[:, :, 0]  # [2 in, out, s], for x[q] and x[q - 1]
        channels = both.shape[1]
        phases = both.reshape(len(both), channels, outer, inner).transpose(2, 3)  # step outer_index * inner + inner_index
        self.register_buffer("weight", phases.reshape(len(both), channels * inner, 1, outer).float())
        self.register_buffer("bias", up.bias.detach().repeat_interleave(inner))
        self.register_buffer("lay_down", torch.eye(inner).repeat(channels, 1)[:, None, None])  # [out * inner, 1, 1, inner]
        self.outer, self.inner, self.channels = outer, inner, channels

    def forward(self, x: Tensor) -> Tensor:
        """[1, in, R, W] -> [1, out, R, s (W - 1)]."""
        pairs = torch.cat([x[..., 1:], x[..., :-1]], dim=1)  # [1, 2 in, R, W - 1]
        phases = F.conv_transpose2d(pairs, self.weight, self.bias, (1, self.outer))  # [1, out * inner, R, outer (W - 1)]
        return F.conv_transpose2d(phases, self.lay_down, None, (1, self.inner), groups=self.channels)


class RowDownsample(nn.Module):
    """A strided convolution of kernel twice its stride without padding: two neighbours become channels, then half the stride."""

    def __init__(self, conv: Conv) -> None:
        super().__init__()
        weight = conv.weight.detach()  # [out, in, 1, 2s]
        out, inner, _, kernel = weight.shape
        pairs = weight.reshape(out, inner, kernel // 2, 2).transpose(2, 3)  # [out, in, 2, s]
        self.register_buffer("weight", pairs.reshape(out, 2 * inner, 1, kernel // 2).contiguous())
        self.register_buffer("bias", conv.bias.detach().clone())
        self.register_buffer("neighbours", torch.eye(2).repeat(inner, 1)[:, None, None])  # [2 in, 1, 1, 2]
        self.stride, self.inner = kernel // 4, inner

    def forward(self, x: Tensor) -> Tensor:
        """[1, in, R, W] -> [1, out, R, (W - 2s) / s + 1]."""
        pairs = F.conv2d(x, self.neighbours, None, (1, 2), groups=self.inner)  # [1, 2 in, R, W / 2]
        return F.conv2d(pairs, self.weight, self.bias, (1, self.stride))
