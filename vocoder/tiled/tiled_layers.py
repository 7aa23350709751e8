"""The tiled layout's layers: statistics about a mean that is taken off first, AdaIN as one multiply-add, Snake as u + sin(u)^2.

    rows = Rows(weight, root, power)                # how columns count, [1, 1, R, W]
    found = moments(x, rows)                        # x less its rounded mean, what the rounding left, 1 / deviation

Snake: with u = alpha AdaIN(x) it is (u + sin(u)^2) / alpha: alpha goes into the affine, 1 / alpha into the next convolution. u - cos(u),
u = 2 alpha AdaIN(x), is two passes less, but rounds a small u against 1, and 1 / alpha makes that loud: real Kokoro has alphas of 9.5e-5.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core.layers import NORM_EPSILON, AdaIN1d, Conv, Snake
from kokoro_ane.vocoder.scaled_conv import ScaledConv, reciprocal_of, scaled_product

SMALL = 2**-8  # of alpha: alpha z is subnormal then where z is below 1/64
SPREAD = 7.0
POLYNOMIAL = (0.9150390625, -1.0283203125, 1.5380859375, 0.1451416015625)  # a, b, c, d of PolynomialSnake, exact in fp16


class Rows(NamedTuple):
    """How the columns of a rate are counted, and where the utterance is; the host computes the numbers (vocoder/tiled/rows.py).

    `weight` [1, 1, R, W] is 0 where a column is not the row's own, and so large elsewhere that a mean over all columns is one over the
    counted ones. `root` and `power` [1, 1, 1, 1]: the mean over rows of (root * a row's root of weighted squares)^2, times power, is the
    mean square. `inside` [1, 1, R, W] is 1 on the utterance; None where every column is.
    """

    weight: Tensor
    root: Tensor
    power: Tensor
    inside: Tensor | None = None


class Moments(NamedTuple):
    """x less its rounded mean [1, C, R, W]; the mean of that and 1 / deviation of every channel, [1, C, 1, 1] each."""

    centred: Tensor
    rest: Tensor
    inverse: Tensor


def moments(x: Tensor, rows: Rows) -> Moments:
    """Statistics of x [1, C, R, W] over the counted columns.

    The mean that is taken off is one over all columns, halos too: it need not be right, only near, since `rest` holds what it missed.
    Power less squared mean without it would be a difference of fp16 numbers that agree: means are up to 117 deviations.
    """
    centred = x - x.mean(dim=(2, 3), keepdim=True)
    counted = centred * rows.weight
    rest = counted.mean(dim=(2, 3), keepdim=True)
    root = torch.linalg.vector_norm(counted, dim=3, keepdim=True) * rows.root  # [1, C, R, 1]
    power = (root * root).mean(dim=2, keepdim=True) * rows.power
    return Moments(centred, rest, torch.rsqrt(F.relu(power - rest * rest) + NORM_EPSILON))


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

    def __init__(self, norm: AdaIN1d, styles: StyleRows, factor: Tensor | float = 1.0) -> None:
        super().__init__()
        self.index = styles.add(norm, factor)

    def forward(self, found: Moments, styles: tuple[Tensor, ...]) -> Tensor:
        """Of the tensor whose moments these are, [1, C, R, W]."""
        gain, shift = styles[self.index], styles[self.index + 1]
        scale = gain * found.inverse
        return found.centred * scale + (shift - found.rest * scale)


class FoldedConv(nn.Module):
    """A convolution with frozen weights; beyond a row it sees zeros. `inner` [in] divides its input, `bias` [out] stands for its own."""

    weight: Tensor
    bias: Tensor | None
    reciprocal: Tensor | None

    def __init__(self, conv: Conv, inner: Tensor | None = None, bias: Tensor | None = None) -> None:
        super().__init__()
        weight = conv.weight.detach().double()  # [out, in, 1, k]
        if inner is not None:
            weight = weight / inner.double().view(1, -1, 1, 1)
        if bias is None:
            bias = torch.zeros(len(weight), dtype=torch.float64) if conv.bias is None else conv.bias.detach().double()
        self.register_buffer("weight", weight.float())
        self.register_buffer("bias", bias.float() if bias.any() else None)  # equal constants would be one, and layers lose their names
        self.register_buffer("reciprocal", reciprocal_of(conv))
        self.envelope = conv.envelope if isinstance(conv, ScaledConv) else None
        self.taps = conv.taps if isinstance(conv, ScaledConv) else None
        self.stride, self.padding, self.dilation = conv.stride, conv.padding, conv.dilation

    def forward(self, x: Tensor) -> Tensor:
        """[1, in, R, W] -> [1, out, R, W]."""
        return scaled_product(x, self.reciprocal, self.envelope, self.bias, self._product, self.taps)

    def _product(self, x: Tensor, bias: Tensor | None) -> Tensor:
        return F.conv2d(x, self.weight, bias, self.stride, self.padding, self.dilation)


class SnakeFormula(nn.Module):
    """Snake of u = factor * z, up to the factor, which the next convolution takes; `bend`: what it adds to u, times `inverse` if given."""

    factor: float

    def forward(self, u: Tensor) -> Tensor:
        """[1, C, R, W] -> the same shape."""
        return self.bend(u) + u

    def bend(self, u: Tensor, inverse: Tensor | None = None) -> Tensor:
        """Of u [1, C, R, W]; `inverse` [1, C, 1, 1] is taken by the first of two factors, so that a small u has no square in fp16."""
        raise NotImplementedError


class SineSnake(SnakeFormula):
    """u + sin(u)^2: alpha Snake on u = z."""

    factor = 1.0

    def bend(self, u: Tensor, inverse: Tensor | None = None) -> Tensor:
        """See SnakeFormula."""
        wave = torch.sin(u)
        return wave * wave if inverse is None else wave * inverse * wave


class PolynomialSnake(SnakeFormula):
    """u + P(q), q = (u - round u)^2: Snake / pi on u = z / pi, for chips without sin and cos.

    sin(z)^2 has period pi, so it is a function of r = u - round(u) in -1/2..1/2, and an even one: P(q) = q (c (a q + b)^2 + d)^2, the
    square of an odd polynomial. P(0) = 0 and the largest error is 4e-5, below fp16's own. Nine operations: coremltools makes a batch_norm
    of a product and a sum with constants a channel; docs/neural-engine.md compares it with other layouts.
    """

    factor = 1 / math.pi

    def bend(self, u: Tensor, inverse: Tensor | None = None) -> Tensor:
        """See SnakeFormula."""
        a, b, c, d = (u.new_full((1, u.shape[1], 1, 1), value) for value in POLYNOMIAL)
        rest = u - torch.round(u)
        q = rest * rest
        line = q * a + b
        root = line * line * c + d
        return q * (root * root) if inverse is None else rest * inverse * rest * (root * root)


def small_or_apart(alpha: Tensor) -> tuple[bool, bool]:
    """Of a Snake's alphas [C]: whether one is SMALL; whether 1 / alpha has to stand before the convolution. See SnakeConv."""
    least = float(alpha.abs().min())
    return least < SMALL, least < SMALL or float(alpha.abs().median() / alpha.abs().min()) > SPREAD


class SnakeConv(nn.Module):
    """AdaIN, Snake, convolution.

    `apart`: what divides the convolution's input channels is not folded into its weights but stands before it as a multiplication. So the
    convolution reads Snake's own values, whose channels can be balanced (quantize/balance.py) for an int8 input. The same wherever one
    channel would take more than `SPREAD` times the median's factor into its weights (8 of real Kokoro's 48): int8 weights and palettes
    would have little left for the others. `small`: the smallest alpha is below SMALL (1 of 48): alpha z would lie among fp16's
    subnormals, which an engine may take for 0, so z is carried as it is and the bend alone is computed on alpha z.
    """

    scale: Tensor | None
    alpha: Tensor | None

    def __init__(self, norm: AdaIN1d, snake: Snake, conv: Conv, styles: StyleRows, form: SnakeFormula, apart: bool) -> None:
        super().__init__()
        inner = snake.alpha.detach().flatten().double() * form.factor
        small, spread = small_or_apart(inner)
        apart = apart or spread
        self.norm, self.form = Norm(norm, styles, 1.0 if small else inner), form
        self.conv = FoldedConv(conv, None if apart else inner)
        self.register_buffer("alpha", inner.float().view(1, -1, 1, 1) if small else None)
        self.register_buffer("scale", (1 / inner).float().view(1, -1, 1, 1) if apart else None)

    def forward(self, found: Moments, styles: tuple[Tensor, ...]) -> Tensor:
        """Moments of x [1, C, R, W] -> the same shape."""
        z = self.norm(found, styles)
        if self.alpha is not None:
            return self.conv(z + self.form.bend(z * self.alpha, self.scale))
        u = self.form(z)
        return self.conv(u if self.scale is None else u * self.scale)
