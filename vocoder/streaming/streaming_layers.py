"""Layers of the streaming generator: a convolution with frozen weights, and Snake as u + sin(u)^2
or as a polynomial.

With u = alpha AdaIN(x) Snake is (u + sin(u)^2) / alpha: alpha goes into the affine, 1 / alpha into
the next convolution. u - cos(u), u = 2 alpha AdaIN(x), is two passes less, but rounds a small u
against 1, and 1 / alpha makes that loud: real Kokoro has alphas of 9.5e-5.
"""

import math
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core.contract import STREAMING, STREAMING_POLYNOMIAL
from kokoro_ane.core.layers import Conv, read_by
from kokoro_ane.vocoder.scaled_conv import ScaledConv, reciprocal_of, scaled_product

SMALL = 2**-8  # of alpha: alpha z is subnormal then where z is below 1/64
SPREAD = 7.0
# a, b, c, d of PolynomialSnake, exact in fp16
POLYNOMIAL = (0.9150390625, -1.0283203125, 1.5380859375, 0.1451416015625)


class FoldedConv(nn.Module):
    """A convolution with frozen weights; beyond a row it sees zeros. `inner` [in] divides its
    input, `bias` [out] stands for its own.
    """

    weight: Tensor
    bias: Tensor | None
    reciprocal: Tensor | None

    def __init__(self, conv: Conv, inner: Tensor | None = None, bias: Tensor | None = None) -> None:
        super().__init__()
        weight = conv.weight.detach().double()  # [out, in, 1, k]
        if inner is not None:
            weight = weight / inner.double().view(1, -1, 1, 1)
        if bias is None:
            bias = (
                torch.zeros(len(weight), dtype=torch.float64)
                if conv.bias is None
                else conv.bias.detach().double()
            )
        self.register_buffer("weight", weight.float())
        # equal constants would be one, and layers lose their names
        self.register_buffer("bias", bias.float() if bias.any() else None)
        self.register_buffer("reciprocal", reciprocal_of(conv))
        self.envelope = conv.envelope if isinstance(conv, ScaledConv) else None
        self.taps = conv.taps if isinstance(conv, ScaledConv) else None
        self.stride, self.padding, self.dilation = conv.stride, conv.padding, conv.dilation
        self.rounding: nn.Module | None = None

    def forward(self, x: Tensor) -> Tensor:
        """[1, in, R, W] -> [1, out, R, W]."""
        return scaled_product(
            x, self.reciprocal, self.envelope, self.bias, self._product, self.taps
        )

    def _product(self, x: Tensor, bias: Tensor | None) -> Tensor:
        x = read_by(self, x)
        return F.conv2d(x, self.weight, bias, self.stride, self.padding, self.dilation)


class SnakeFormula(nn.Module):
    """Snake of u = factor * z, up to the factor, which the next convolution takes; `bend`: what it
    adds to u, times `inverse` if given.
    """

    factor: float

    def forward(self, u: Tensor) -> Tensor:
        """[1, C, R, W] -> the same shape."""
        # a name of its own: coremltools finds no operation that it calls var_N itself
        bend = self.bend(u)
        return u + bend

    def bend(self, u: Tensor, inverse: Tensor | None = None) -> Tensor:
        """What is added to u [1, C, R, W]. `inverse` [1, C, 1, 1] multiplies the first of two
        factors, so that a small u has no square in fp16.
        """
        raise NotImplementedError


class SineSnake(SnakeFormula):
    """u + sin(u)^2: alpha Snake on u = z."""

    factor = 1.0

    def bend(self, u: Tensor, inverse: Tensor | None = None) -> Tensor:
        wave = torch.sin(u)
        return wave * wave if inverse is None else wave * inverse * wave


class PolynomialSnake(SnakeFormula):
    """u + P(q), q = (u - round u)^2: Snake / pi on u = z / pi, for chips without sin and cos.

    sin(z)^2 has period pi, so it is a function of r = u - round(u) in -1/2..1/2, and an even one:
    P(q) = q (c (a q + b)^2 + d)^2, the square of an odd polynomial. P(0) = 0 and the largest error
    is 4e-5, below fp16's own. Nine operations: coremltools makes a batch_norm of a product and a
    sum with constants a channel; docs/devices.md says what it costs.
    """

    factor = 1 / math.pi

    def bend(self, u: Tensor, inverse: Tensor | None = None) -> Tensor:
        a, b, c, d = (u.new_full((1, u.shape[1], 1, 1), value) for value in POLYNOMIAL)
        rest = u - torch.round(u)
        q = rest * rest
        line = q * a + b
        root = line * line * c + d
        return q * (root * root) if inverse is None else rest * inverse * rest * (root * root)


FORMS = MappingProxyType({STREAMING: SineSnake, STREAMING_POLYNOMIAL: PolynomialSnake})  # by layout


def small_or_apart(alpha: Tensor) -> tuple[bool, bool]:
    """Whether one of a Snake's alphas [C] is SMALL; whether 1 / alpha has to stand before the
    convolution (AffineConv says why).
    """
    least = float(alpha.abs().min())
    return least < SMALL, least < SMALL or float(alpha.abs().median() / alpha.abs().min()) > SPREAD
