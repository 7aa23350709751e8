"""Layers of the streaming generator: convolutions whose columns stand as rows or channels, and
Snake as u + sin(u)^2 or as a polynomial.

With u = alpha AdaIN(x) Snake is (u + sin(u)^2) / alpha: alpha goes into the affine, 1 / alpha into
the next convolution. u - cos(u), u = 2 alpha AdaIN(x), is two passes less, but rounds a small u
against 1, and 1 / alpha makes that loud: real Kokoro has alphas of 9.5e-5.
"""

import math
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core import STREAMING, STREAMING_POLYNOMIAL, Conv, ConvTranspose
from kokoro_ane.vocoder.eager import fold_conv
from kokoro_ane.vocoder.scaled_conv import ScaledConv

SMALL = 2**-8  # of alpha: alpha z is subnormal then where z is below 1/64
SPREAD = 7.0
# a, b, c, d of PolynomialSnake, exact in fp16
POLYNOMIAL = (0.9150390625, -1.0283203125, 1.5380859375, 0.1451416015625)


def fold_scaled_conv(
    conv: Conv, divisor: Tensor | float = 1.0, bias: Tensor | None = None
) -> ScaledConv:
    """`fold_conv`, always as a ScaledConv: the variables of its `forward` name the values of a
    package.
    """
    copied = fold_conv(conv, divisor, bias=bias)
    return copied if isinstance(copied, ScaledConv) else ScaledConv(copied)


class PhaseConv(ScaledConv):
    """A convolution of stride n that reads n columns as n rows of a channel: the source convolution
    of stride 6 and kernel 12 on [1, 22, 1, 120F + 1] has kernel 3 on [1, 22 * 6, 1, 20F + 1].
    `bias` [out] replaces its own.
    """

    def __init__(self, conv: Conv, bias: Tensor) -> None:
        super().__init__(fold_conv(conv, bias=bias))
        stride = conv.stride[1]
        before = int(conv.padding[1])
        weight = self.weight.detach()
        out, inner, _, count = weight.shape
        # tap k reads column `place` of the `block`th group of n columns from its own
        taps = [divmod(tap - before, stride) for tap in range(count)]
        self.before = -taps[0][0]
        behind = taps[-1][0]
        # [out, in, n, taps]
        packed = weight.new_zeros(out, inner, stride, self.before + 1 + behind)
        for tap, (block, place) in enumerate(taps):
            packed[:, :, place, block + self.before] = weight[:, :, 0, tap]
        # [out, n in, 1, taps]: column p of channel c is row n c + p
        self.weight.data = packed.reshape(out, inner * stride, 1, -1)
        self.stride = (1, 1)
        self.padding = (0, 0)
        if self.reciprocal is not None:
            # The factor of a channel serves all of its rows.
            self.reciprocal = self.reciprocal.repeat_interleave(stride, dim=1)

    def forward(self, x: Tensor) -> Tensor:
        """[1, n in, 1, S + 1] -> [1, out, 1, S]."""
        # Padded in front alone: behind, the spectrum has one column more.
        return super().forward(F.pad(x, (self.before, 0)))


class PhaseUp(nn.Module):
    """A transposed convolution of stride n without its bias, whose n results of a column are n
    channels: [1, in, 1, S] -> [1, n out, 1, S], those of one phase together. Its input is divided
    by `inner`.
    """

    weight: Tensor

    def __init__(self, conv: ConvTranspose, inner: float) -> None:
        super().__init__()
        # [in, out, 1, k]
        weight = F.pad(conv.weight.detach(), (0, conv.zero_taps)) / inner
        stride = conv.stride[1]
        before = int(conv.padding[1])
        # tap k of the result n t + phase reads column t + (phase + before - k) / n
        taps = {
            (tap, phase): (phase + before - tap) // stride
            for phase in range(stride)
            for tap in range(weight.shape[3])
            if (phase + before - tap) % stride == 0
        }
        reach = max(taps.values())
        assert min(taps.values()) == -reach, "a kernel of two strides"
        # [n, out, in, taps]
        packed = weight.new_zeros(stride, weight.shape[1], weight.shape[0], 2 * reach + 1)
        for (tap, phase), column in taps.items():
            packed[phase, :, :, column + reach] = weight[:, :, 0, tap].T
        self.register_buffer("weight", packed.flatten(0, 1)[:, :, None])  # [n out, in, 1, taps]
        self.padding = (0, reach)

    def forward(self, x: Tensor) -> Tensor:
        """[1, in, 1, S] -> [1, n out, 1, S]."""
        return F.conv2d(x, self.weight, padding=self.padding)


class SnakeFormula(nn.Module):
    """`factor` times Snake(z), on u = factor * z. The convolution that reads it divides by
    `factor`.
    """

    factor: float

    def forward(self, u: Tensor) -> Tensor:
        """[1, C, R, W] -> the same shape."""
        # a name of its own: coremltools finds no operation that it calls var_N itself
        bend = self.compute_bend(u)
        return u + bend

    def compute_bend(self, u: Tensor, inverse: Tensor | None = None) -> Tensor:
        """The term that is added to u [1, C, R, W], times `inverse` [1, C, 1, 1] where that is
        given. `inverse` multiplies the first of two factors, so that no square of a small u is
        taken in fp16.
        """
        raise NotImplementedError


class SineSnake(SnakeFormula):
    """u + sin(u)^2: alpha Snake on u = z."""

    factor = 1.0

    def compute_bend(self, u: Tensor, inverse: Tensor | None = None) -> Tensor:
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

    def compute_bend(self, u: Tensor, inverse: Tensor | None = None) -> Tensor:
        a, b, c, d = (u.new_full((1, u.shape[1], 1, 1), value) for value in POLYNOMIAL)
        rest = u - torch.round(u)
        q = rest * rest
        line = q * a + b
        root = line * line * c + d
        return q * (root * root) if inverse is None else rest * inverse * rest * (root * root)


FORMS = MappingProxyType({STREAMING: SineSnake, STREAMING_POLYNOMIAL: PolynomialSnake})  # by layout


def small_or_apart(alpha: Tensor) -> tuple[bool, bool]:
    """Whether one of a Snake's alphas [C] is below SMALL; whether 1 / alpha has to be a
    multiplication before the convolution (AffineConv says why).
    """
    least = float(alpha.abs().min())
    return least < SMALL, least < SMALL or float(alpha.abs().median()) / least > SPREAD
