"""The variant's layers: statistics in two reductions, AdaIN as one multiply-add, Snake as u - cos(u), all built from a Vocoder's weights.

    rows = Rows.of(inside, counted)                 # masks [1, 1, R, W]
    scale, shift = affine(x, rows, gain, bias)      # z = x * scale + shift

Snake: with z = alpha AdaIN(x) it is (z + sin(z)^2) / alpha. sin(z)^2 = (1 - cos 2z) / 2, so with u = 2z it is (u - cos u + 1) / (2 alpha):
2 alpha goes into the affine, 1 / (2 alpha) into the next convolution and the 1 into its bias. In the padding u = 0, so u - cos u + 1 = 0.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipeline.layers import NORM_EPSILON, AdaIN1d, Conv, Snake

POLYNOMIAL = (0.9150390625, -1.0283203125, 1.5380859375, 0.1451416015625)  # a, b, c, d of PolynomialSnake, exact in fp16


class Rows(NamedTuple):
    """Masks of one rate: `inside` [1, 1, R, W] is 1 on the utterance, halos included, else 0.

    `weight` is 0 where a column is not counted, and so large elsewhere that a mean over all columns is one over the counted ones;
    `per_row` [1, 1, 1, 1] turns a row's root of weighted squares into its part of the root of the mean square.
    """

    inside: Tensor
    weight: Tensor
    per_row: Tensor

    @classmethod
    def of(cls, inside: Tensor, counted: Tensor) -> "Rows":
        """`counted` [1, 1, R, W] is 1 on every step of the utterance once."""
        share = counted.mean(dim=(2, 3), keepdim=True)
        in_rows = counted.sum(dim=3, keepdim=True).mean(dim=2, keepdim=True)  # counted columns of a mean row
        return cls(inside, counted / share, share * torch.rsqrt(in_rows))


class Moments(NamedTuple):
    """Mean and 1 / deviation of every channel, [1, C, 1, 1] each."""

    mean: Tensor
    inverse: Tensor


def moments(x: Tensor, rows: Rows) -> Moments:
    """Statistics of x [1, C, R, W] over the counted columns."""
    counted = x * rows.weight
    mean = counted.mean(dim=(2, 3), keepdim=True)
    root = torch.linalg.vector_norm(counted, dim=3, keepdim=True) * rows.per_row  # [1, C, R, 1]
    power = (root * root).mean(dim=2, keepdim=True)
    return Moments(mean, torch.rsqrt(F.relu(power - mean * mean) + NORM_EPSILON))


class StyleRows:
    """Collects the gains and shifts of all norms: one product with the style computes them, one split deals them out."""

    def __init__(self) -> None:
        self.weights: list[Tensor] = []
        self.biases: list[Tensor] = []
        self.sizes: list[int] = []

    def add(self, norm: AdaIN1d, factor: Tensor | float = 1.0) -> int:
        """Register `norm`, its result multiplied by `factor` [C]; the index of its gain, its shift is the next one."""
        scale = torch.ones(norm.fc.channels, dtype=torch.float64) * factor
        both = scale.repeat(2)  # [2C]
        self.weights.append(norm.fc.weight.detach().flatten(1).double() * both[:, None])  # [2C, style_dim]
        self.biases.append(norm.fc.bias.detach().double() * both)
        self.sizes += [len(scale), len(scale)]
        return len(self.sizes) - 2

    def product(self) -> "StyleProduct":
        """The product, once every norm is registered."""
        return StyleProduct(torch.cat(self.weights), torch.cat(self.biases), self.sizes)


class StyleProduct(nn.Module):
    """style [1, style_dim, 1, 1] -> all gains and shifts, [1, C, 1, 1] each, in registration order."""

    def __init__(self, weight: Tensor, bias: Tensor, sizes: list[int]) -> None:
        super().__init__()
        self.register_buffer("weight", weight[:, :, None, None].float())  # [rows, style_dim, 1, 1]
        self.register_buffer("bias", bias.float())
        self.sizes = sizes

    def forward(self, style: Tensor) -> tuple[Tensor, ...]:
        return F.conv2d(style, self.weight, self.bias).split(self.sizes, dim=1)


class Norm(nn.Module):
    """AdaIN as scale and shift of a multiply-add."""

    def __init__(self, norm: AdaIN1d, styles: StyleRows, factor: Tensor | float = 1.0) -> None:
        super().__init__()
        self.index = styles.add(norm, factor)

    def forward(self, x: Tensor, found: Moments, styles: tuple[Tensor, ...]) -> Tensor:
        """x [1, C, R, W] -> the same shape; the padding is not zero."""
        gain, shift = styles[self.index], styles[self.index + 1]
        scale = gain * found.inverse
        return x * scale + (shift - found.mean * scale)


class FoldedConv(nn.Module):
    """A convolution with frozen weights, zeros beyond the row: what they spoil is the halo's. `inner` [in] divides its input."""

    def __init__(self, conv: Conv, inner: Tensor | None = None, constant: float = 0.0, padded: bool = True) -> None:
        super().__init__()
        weight = conv.weight.detach().double()  # [out, in, 1, k]
        if inner is not None:
            weight = weight / inner.double().view(1, -1, 1, 1)
        bias = torch.zeros(len(weight), dtype=torch.float64) if conv.bias is None else conv.bias.detach().double()
        self.register_buffer("weight", weight.float())
        self.register_buffer("bias", (bias + constant * weight.sum(dim=(1, 2, 3))).float())
        self.stride, self.padding, self.dilation = conv.stride, conv.padding if padded else (0, 0), conv.dilation

    def forward(self, x: Tensor) -> Tensor:
        """[1, in, R, W] -> [1, out, R, W]."""
        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation)


class CosineSnake(nn.Module):
    """u - cos(u): 2 Snake - 1 on u = 2z."""

    factor, constant = 2.0, 1.0

    def forward(self, u: Tensor) -> Tensor:
        return u - torch.cos(u)


class PolynomialSnake(nn.Module):
    """u + P(q), q = (u - round u)^2: Snake / pi on u = z / pi, for chips without sin and cos.

    sin(z)^2 has period pi, so it is a function of r = u - round(u) in -1/2..1/2, and an even one: P(q) = q (c (a q + b)^2 + d)^2, the
    square of an odd polynomial. P(0) = 0 and the largest error is 4e-5, below fp16's own. Nine operations: coremltools makes a batch_norm
    of a product and a sum with constants a channel; bench.snake_forms compares it with other forms.
    """

    factor, constant = 1 / math.pi, 0.0

    def forward(self, u: Tensor) -> Tensor:
        a, b, c, d = (u.new_full((1, u.shape[1], 1, 1), value) for value in POLYNOMIAL)
        rest = u - torch.round(u)
        q = rest * rest
        line = q * a + b
        root = line * line * c + d
        return u + q * (root * root)


class SnakeConv(nn.Module):
    """AdaIN, Snake, convolution."""

    def __init__(self, norm: AdaIN1d, snake: Snake, conv: Conv, styles: StyleRows, form: nn.Module) -> None:
        super().__init__()
        inner = snake.alpha.detach().flatten().double() * form.factor
        self.norm, self.form, self.conv = Norm(norm, styles, inner), form, FoldedConv(conv, inner, form.constant)

    def forward(self, x: Tensor, found: Moments, rows: Rows, styles: tuple[Tensor, ...]) -> Tensor:
        """x [1, C, R, W] with its moments -> the same shape."""
        return self.conv(self.form(self.norm(x, found, styles) * rows.inside))
