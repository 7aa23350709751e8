"""Residual blocks of the variant: AdainResBlk1d at the frame rate, AdaINResBlock1 on rows."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.blocks import HALF_POWER, LEAKY_SLOPE, AdainResBlk1d
from core.layers import Conv, ConvTranspose
from vocoder.generator import AdaINResBlock1
from vocoder.prepared import PreparedConv, Repeat, reciprocal_of
from vocoder.windowed.layers import FoldedConv, Moments, Norm, Rows, SnakeConv, SnakeForm, StyleRows, moments


class RowBlock(nn.Module):
    """AdaINResBlock1. The moments of its input are the caller's, who shares them among parallel blocks."""

    def __init__(self, block: AdaINResBlock1, styles: StyleRows, form: SnakeForm, apart: bool) -> None:
        super().__init__()
        first = zip(block.adain1, block.alpha1, block.convs1, strict=True)
        second = zip(block.adain2, block.alpha2, block.convs2, strict=True)
        self.first = nn.ModuleList(SnakeConv(*parts, styles, form, apart) for parts in first)
        self.second = nn.ModuleList(SnakeConv(*parts, styles, form, apart) for parts in second)

    def forward(self, x: Tensor, found: Moments, rows: Rows, styles: tuple[Tensor, ...]) -> Tensor:
        """x [1, C, R, W] -> the same shape; spoiled columns hold anything finite."""
        for index, (first, second) in enumerate(zip(self.first, self.second, strict=True)):
            h = first(found if index == 0 else moments(x, rows), styles)
            change = second(moments(h, rows), styles)  # a name of its own: coremltools finds no operation that it calls var_N itself
            x = change + x
        return x


class Doubling(nn.Module):
    """Twice the rate by a transposed convolution of stride 2."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None, padding: int, groups: int) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)
        self.padding, self.groups = (0, padding), groups

    def forward(self, x: Tensor) -> Tensor:
        """[1, in, R, W] -> [1, out, R, 2W]."""
        return F.conv_transpose2d(x, self.weight, self.bias, (1, 2), self.padding, 0, self.groups)


def _pool(pool: ConvTranspose) -> Doubling:
    return Doubling(F.pad(pool.weight.detach(), (0, pool.zero_taps)), pool.bias.detach().clone(), pool.padding[1], pool.groups)


class Shortcut(nn.Module):
    """A 1x1 convolution of frames, times HALF_POWER. Repeating each frame twice and the convolution are one transposed convolution."""

    weight: Tensor
    reciprocal: Tensor | None

    def __init__(self, conv: Conv, doubled: bool) -> None:
        super().__init__()
        weight = conv.weight.detach() * HALF_POWER  # [out, in, 1, 1]
        self.register_buffer("weight", weight.transpose(0, 1).repeat(1, 1, 1, 2) if doubled else weight)
        self.register_buffer("reciprocal", reciprocal_of(conv))
        self.envelope = conv.envelope if isinstance(conv, PreparedConv) else None
        self.repeat = Repeat(2) if doubled else nn.Identity()
        self.doubled = doubled

    def forward(self, x: Tensor) -> Tensor:
        """[1, in, R, W] -> [1, out, R, W or 2W]."""
        given = x if self.reciprocal is None else x * self.reciprocal
        if self.envelope is None:
            return self._product(given)
        level = self.envelope(given)
        divided = given * torch.exp(-level)
        result = self._product(divided)  # a name of its own: coremltools finds no operation that it calls var_N itself
        return result * self.repeat(torch.exp(level))

    def _product(self, x: Tensor) -> Tensor:
        return F.conv_transpose2d(x, self.weight, None, (1, 2)) if self.doubled else F.conv2d(x, self.weight)


class FrameBlock(nn.Module):
    """AdainResBlk1d at the frame rate."""

    def __init__(self, block: AdainResBlk1d, styles: StyleRows) -> None:
        super().__init__()
        self.norm1, self.norm2 = Norm(block.norm1, styles), Norm(block.norm2, styles)
        self.conv1, self.conv2 = FoldedConv(block.conv1), FoldedConv(block.conv2)
        self.conv2.weight.mul_(HALF_POWER)
        if self.conv2.bias is not None:
            self.conv2.bias.mul_(HALF_POWER)
        self.pool = None if block.pool is None else _pool(block.pool)
        assert block.conv1x1 is not None  # every block of the decoder changes its width
        self.shortcut = Shortcut(block.conv1x1, doubled=self.pool is not None)

    def forward(self, x: Tensor, rows: Rows, wide: Rows, styles: tuple[Tensor, ...]) -> Tensor:
        """x [1, in, R, W] -> [1, out, R, W or 2W]; `wide` are the masks at the rate of the result."""
        assert rows.inside is not None and wide.inside is not None  # columns beyond the utterance exist at the frame rate
        h = F.leaky_relu(self.norm1(moments(x, rows), styles), LEAKY_SLOPE) * rows.inside
        if self.pool is not None:
            h = self.pool(h) * wide.inside
        shortcut, h = self.shortcut(x), self.conv1(h)
        change = self.conv2(F.leaky_relu(self.norm2(moments(h, wide), styles), LEAKY_SLOPE) * wide.inside)
        return change + shortcut
