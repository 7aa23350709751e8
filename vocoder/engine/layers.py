"""Parts of the engine vocoder: one affine for all styles, statistics from block sums, interleaves, the folded Snake and its convolution.

gain, shift = StyleBank(affines)(style)[3]
mean, scale = BlockStatistics(block=20)(x, weights)      # exact inside the utterance, with no pass over x but two reads
y = SnakeConv(conv, alpha, SINE)(x, gain, shift, mean, scale, inside)
"""

import math
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipeline.layers import NORM_EPSILON, AdaIN1d, Conv
from vocoder.engine.chips import SINE

# (1 - cos(2 pi d)) / (2 pi) = e (c0 + c1 e + c2 e^2 + c3 e^3) with e = d^2 <= 1/4: minimax fit, largest error 7.3e-6, below fp16's rounding
POLYNOMIAL_TERMS = (3.14066011, -10.2985573, 13.14459396, -7.31823647)


class StyleBank(nn.Module):
    """Every AdaIN's `fc` as one 1x1 convolution: style -> gain and shift of each, scaled by what follows them."""

    def __init__(self, affines: Iterable[tuple[AdaIN1d, Tensor, float]]) -> None:
        """affines: (AdaIN, factor per channel of gain and shift [C], factor of the gain alone)."""
        super().__init__()
        weights, biases, self.sizes = [], [], []
        for norm, factor, gain_factor in affines:
            scale = torch.cat([factor.double() * gain_factor, factor.double()])  # gain rows, then shift rows
            weights.append(norm.fc.weight.detach().double() * scale.view(-1, 1, 1, 1))
            biases.append(norm.fc.bias.detach().double() * scale)
            self.sizes += [norm.fc.channels, norm.fc.channels]
        weight = torch.cat(weights)
        self.fc = nn.Conv2d(weight.shape[1], weight.shape[0], 1)
        assign(self.fc, weight, torch.cat(biases))

    def forward(self, style: Tensor) -> list[tuple[Tensor, Tensor]]:
        """style [1, style_dim, 1, 1] -> (gain, shift), each [1, C, 1, 1], for every AdaIN in order."""
        parts = self.fc(style).split(self.sizes, dim=1)
        return list(zip(parts[::2], parts[1::2], strict=True))


class BlockStatistics(nn.Module):
    """Mean and 1 / (sqrt(block) std) of each channel, weighted frame by frame, from sums over blocks of `block` columns (a frame).

    Reads x twice and writes nothing of its size; mask, halos and padding are in the weights of the blocks.
    """

    def __init__(self, block: int) -> None:
        super().__init__()
        self.block = block
        self.root = math.sqrt(block)

    def forward(self, x: Tensor, weights: Tensor, onset: Tensor | None = None, onset_block: int = 0) -> tuple[Tensor, Tensor]:
        """x [1, C, R, block * n], weights [1, 1, R n, 1] of sum 1. onset [1, 1, R n, 1]: the block of which only the last column counts."""
        blocks = x.reshape(1, x.shape[1], -1, self.block)  # [1, C, R n, block]
        mean, norm = blocks.mean(3, keepdim=True), torch.linalg.vector_norm(blocks, dim=3, keepdim=True)  # [1, C, R n, 1]
        if onset is not None:
            column = blocks[:, :, onset_block : onset_block + 1, self.block - 1 :]  # [1, C, 1, 1]
            mean, norm = torch.where(onset, column, mean), torch.where(onset, column * self.root, norm)
        centre = (mean * weights).sum(2, keepdim=True)  # [1, C, 1, 1]
        scaled = centre * self.root
        spread = ((norm - scaled) * (norm + scaled) * weights).sum(2, keepdim=True)  # block * variance
        return centre, torch.rsqrt(spread + self.block * NORM_EPSILON)


class SnakeConv(nn.Module):
    """AdaIN's affine, Snake and convolution of a residual block: multiply, add, cos, subtract, select, convolve.

    With u = 2 alpha z, z + sin^2(alpha z) / alpha = (u + 1 - cos u) / (2 alpha): 2 alpha is in gain and shift, 1 / (2 alpha) in the weights, the
    1 in the bias; outside the utterance -1 stands for the zero that the convolution pads with. Without a sine the same in turns, u / (2 pi).
    """

    def __init__(self, conv: Conv, alpha: Tensor, form: str) -> None:
        super().__init__()
        self.form = form
        self.factor = alpha.detach().flatten().double() * (2.0 if form == SINE else 1 / math.pi)  # [C] of gain and shift
        weight = conv.weight.detach().double() / self.factor.view(1, -1, 1, 1)
        bias = conv.bias.detach().double() + (weight.sum(dim=(1, 2, 3)) if form == SINE else 0.0)
        self.conv = nn.Conv2d(conv.in_channels, conv.out_channels, conv.kernel_size, padding=conv.padding, dilation=conv.dilation)
        assign(self.conv, weight, bias)

    def forward(self, x: Tensor, gain: Tensor, shift: Tensor, statistics: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        """x [1, C, R, W]; gain, shift [1, C, 1, 1]; mask [1, 1, R, W] bool -> [1, C, R, W], true inside the halo's reach."""
        centre, scale = statistics
        gain = gain * scale
        u = x * gain + (shift - gain * centre)
        if self.form == SINE:
            return self.conv(torch.where(mask, u - torch.cos(u), -1.0))
        return self.conv(torch.where(mask, u + bump(u), 0.0))


def bump(turns: Tensor) -> Tensor:
    """(1 - cos(2 pi x)) / (2 pi) without a sine: x less the nearest whole number, then a polynomial in its square."""
    distance = turns - torch.round(turns)
    e = distance * distance
    total = e * POLYNOMIAL_TERMS[-1] + POLYNOMIAL_TERMS[-2]
    for term in POLYNOMIAL_TERMS[-3::-1]:
        total = total * e + term
    return total * e


class Interleave(nn.Module):
    """[1, a C, R, W] -> [1, C, R, a W]: channel c a + j becomes every a-th column from j on. A transposed convolution of ones and zeros."""

    def __init__(self, channels: int, factor: int) -> None:
        super().__init__()
        self.factor, self.channels = factor, channels
        self.register_buffer("kernel", torch.eye(factor).view(factor, 1, 1, factor).repeat(channels, 1, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv_transpose2d(x, self.kernel, stride=(1, self.factor), groups=self.channels)


class Repeat(nn.Module):
    """[1, 1, R, W] -> [1, 1, R, a W]: every column `factor` times, times `level`."""

    def __init__(self, factor: int, level: float = 1.0) -> None:
        super().__init__()
        self.factor = factor
        self.register_buffer("kernel", torch.full((1, 1, 1, factor), level), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv_transpose2d(x, self.kernel, stride=(1, self.factor))


@torch.no_grad()
def assign(conv: nn.Module, weight: Tensor, bias: Tensor | None) -> None:
    """Set a convolution's parameters, rounded once from float64."""
    conv.weight.copy_(weight)
    if bias is not None:
        conv.bias.copy_(bias)
