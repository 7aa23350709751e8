"""The variant's layers: statistics in two reductions, AdaIN as one multiply-add, Snake as u - cos(u), all built from a Vocoder's weights.

    rows = Rows(weight, root, power)                # how columns count, [1, 1, R, W]
    found = moments(x, rows)                        # mean and 1 / deviation of the utterance, [1, C, 1, 1] each

Snake: with z = alpha AdaIN(x) it is (z + sin(z)^2) / alpha. sin(z)^2 = (1 - cos 2z) / 2, so with u = 2z it is (u - cos u + 1) / (2 alpha):
2 alpha goes into the affine, 1 / (2 alpha) into the next convolution. The 1 may not go into that convolution's bias, because beyond the
ends of the utterance a zero is meant, not a 1. So one channel more has gain 0 and a steady shift: its u - cos u is the same number in every
column and 0 beyond the ends, and its weights are the sums of the others, divided by that number.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.layers import NORM_EPSILON, AdaIN1d, Conv, Snake

STEADY = -4.0  # u of the channel that carries the constant: of the size of the others, so that int8 loses nothing by it
POLYNOMIAL = (0.9150390625, -1.0283203125, 1.5380859375, 0.1451416015625)  # a, b, c, d of PolynomialSnake, exact in fp16


class Rows(NamedTuple):
    """How the columns of a rate are counted, and where the utterance is; the host computes the numbers (vocoder/windowed/packing.py).

    `weight` [1, 1, R, W] is 0 where a column is not the row's own, and so large elsewhere that a mean over all columns is one over the
    counted ones. `root` and `power` [1, 1, 1, 1]: the mean over rows of (root * a row's root of weighted squares)^2, times power, is the
    mean square. `inside` [1, 1, R, W] is 1 on the utterance; None where every column is.
    """

    weight: Tensor
    root: Tensor
    power: Tensor
    inside: Tensor | None = None


class Moments(NamedTuple):
    """Mean and 1 / deviation of every channel, [1, C, 1, 1] each."""

    mean: Tensor
    inverse: Tensor


def moments(x: Tensor, rows: Rows) -> Moments:
    """Statistics of x [1, C, R, W] over the counted columns."""
    counted = x * rows.weight
    mean = counted.mean(dim=(2, 3), keepdim=True)
    root = torch.linalg.vector_norm(counted, dim=3, keepdim=True) * rows.root  # [1, C, R, 1]
    power = (root * root).mean(dim=2, keepdim=True) * rows.power
    return Moments(mean, torch.rsqrt(F.relu(power - mean * mean) + NORM_EPSILON))


class StyleRows:
    """Collects the gains and shifts of all norms: one product with the style computes them, one split deals them out."""

    def __init__(self) -> None:
        self.weights: list[Tensor] = []
        self.biases: list[Tensor] = []
        self.sizes: list[int] = []

    def add(self, norm: AdaIN1d, factor: Tensor | float = 1.0, steady: bool = False) -> int:
        """Register `norm`, its result multiplied by `factor` [C]; the index of its gain, its shift is the next one.

        steady: one channel more, of gain 0 and shift STEADY.
        """
        scale = torch.ones(norm.fc.channels, dtype=torch.float64) * factor
        both = scale.repeat(2)  # [2C]
        weight = norm.fc.weight.detach().flatten(1).double() * both[:, None]  # [2C, style_dim]
        bias = norm.fc.bias.detach().double() * both
        for part, end in zip(range(2), (0.0, STEADY), strict=True):
            rows = slice(part * len(scale), (part + 1) * len(scale))
            self.weights.append(F.pad(weight[rows], (0, 0, 0, int(steady))))
            self.biases.append(F.pad(bias[rows], (0, int(steady)), value=end))
            self.sizes.append(len(scale) + int(steady))
        return len(self.sizes) - 2

    def product(self) -> "StyleProduct":
        """The product, once every norm is registered."""
        return StyleProduct(torch.cat(self.weights), torch.cat(self.biases), self.sizes)


class StyleProduct(nn.Module):
    """style [1, style_dim, 1, 1] -> all gains and shifts, [1, C, 1, 1] each, in registration order."""

    weight: Tensor
    bias: Tensor

    def __init__(self, weight: Tensor, bias: Tensor, sizes: list[int]) -> None:
        super().__init__()
        self.register_buffer("weight", weight[:, :, None, None].float())  # [rows, style_dim, 1, 1]
        self.register_buffer("bias", bias.float())
        self.sizes = sizes

    def forward(self, style: Tensor) -> tuple[Tensor, ...]:
        return F.conv2d(style, self.weight, self.bias).split(self.sizes, dim=1)


class Norm(nn.Module):
    """AdaIN as scale and shift of a multiply-add."""

    def __init__(self, norm: AdaIN1d, styles: StyleRows, factor: Tensor | float = 1.0, steady: bool = False) -> None:
        super().__init__()
        self.index = styles.add(norm, factor, steady)

    def forward(self, x: Tensor, found: Moments, styles: tuple[Tensor, ...]) -> Tensor:
        """x [1, C, R, W] -> the same shape."""
        gain, shift = styles[self.index], styles[self.index + 1]
        scale = gain * found.inverse
        return x * scale + (shift - found.mean * scale)


def widened(weight: Tensor, outputs: int, inputs: int) -> Tensor:
    """weight [out, in, 1, k] with so many more channels of zeros: [out + outputs, in + inputs, 1, k]."""
    return F.pad(weight, (0, 0, 0, 0, 0, inputs, 0, outputs))


class FoldedConv(nn.Module):
    """A convolution with frozen weights; beyond a row it sees zeros. `inner` [in] divides its input, `more`: zero channels that it adds."""

    weight: Tensor
    bias: Tensor

    def __init__(self, conv: Conv, inner: Tensor | None = None, more: int = 0) -> None:
        super().__init__()
        weight = conv.weight.detach().double()  # [out, in, 1, k]
        if inner is not None:
            weight = weight / inner.double().view(1, -1, 1, 1)
        bias = torch.zeros(len(weight), dtype=torch.float64) if conv.bias is None else conv.bias.detach().double()
        self.register_buffer("weight", widened(weight, more, 0).float())
        self.register_buffer("bias", F.pad(bias, (0, more)).float())
        self.stride, self.padding, self.dilation = conv.stride, conv.padding, conv.dilation

    def forward(self, x: Tensor) -> Tensor:
        """[1, in, R, W] -> [1, out, R, W]."""
        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation)


class SnakeForm(nn.Module):
    """Snake of u = factor * z, up to a factor and a constant, which the next convolution takes. `steady`: it needs the steady channel."""

    factor: float
    constant: float
    steady: bool


class CosineSnake(SnakeForm):
    """u - cos(u): 2 Snake - 1 on u = 2z."""

    factor, constant, steady = 2.0, 1.0, True

    def forward(self, u: Tensor) -> Tensor:
        return u - torch.cos(u)


class PolynomialSnake(SnakeForm):
    """u + P(q), q = (u - round u)^2: Snake / pi on u = z / pi, for chips without sin and cos.

    sin(z)^2 has period pi, so it is a function of r = u - round(u) in -1/2..1/2, and an even one: P(q) = q (c (a q + b)^2 + d)^2, the
    square of an odd polynomial. P(0) = 0 and the largest error is 4e-5, below fp16's own. Nine operations: coremltools makes a batch_norm
    of a product and a sum with constants a channel; docs/neural-engine.md compares it with other forms.
    """

    factor, constant, steady = 1 / math.pi, 0.0, False

    def forward(self, u: Tensor) -> Tensor:
        a, b, c, d = (u.new_full((1, u.shape[1], 1, 1), value) for value in POLYNOMIAL)
        rest = u - torch.round(u)
        q = rest * rest
        line = q * a + b
        root = line * line * c + d
        return u + q * (root * root)


class SnakeConv(nn.Module):
    """AdaIN, Snake, convolution. A form with a constant has one channel more in its input and in its result, see the module.

    `apart`: what divides the convolution's input channels is not folded into its weights but stands before it as a multiplication. So the
    convolution reads Snake's own values, whose channels can be balanced (quantize/equalize.py) for an int8 input.
    """

    scale: Tensor | None

    def __init__(self, norm: AdaIN1d, snake: Snake, conv: Conv, styles: StyleRows, form: SnakeForm, apart: bool) -> None:
        super().__init__()
        inner = snake.alpha.detach().flatten().double() * form.factor
        self.norm, self.form = Norm(norm, styles, inner, form.steady), form
        self.conv = FoldedConv(conv, inner, int(form.steady))
        if form.steady:
            constant = form.constant / float(form(torch.tensor(STEADY, dtype=torch.float64)))
            weight = self.conv.weight.double()
            self.conv.weight = torch.cat([weight, constant * weight.sum(dim=1, keepdim=True)], dim=1).float()  # [C + 1, C + 1, 1, k]
            inner = torch.cat([inner, inner.median()[None]])
        self.conv.weight = self.conv.weight * (inner.float().view(1, -1, 1, 1) if apart else 1.0)
        self.register_buffer("scale", (1 / inner).float().view(1, -1, 1, 1) if apart else None)

    def forward(self, x: Tensor, found: Moments, styles: tuple[Tensor, ...]) -> Tensor:
        """x [1, C, R, W] with its moments -> the same shape."""
        u = self.form(self.norm(x, found, styles))
        return self.conv(u if self.scale is None else u * self.scale)
