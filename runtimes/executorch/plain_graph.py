"""Encoder and vocoder in operations that keep their meaning in ExecuTorch: LSTMs as loops, GELU,
norms and long sums written out.

    network = make_plain_vocoder(bake_taps(vocoder))
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core import NORM_EPSILON, AdaIN1d, Conv, Mask, replace_module
from kokoro_ane.encoder import AlbertLayer, unroll_lstms

GELU_SLOPE = math.sqrt(2 / math.pi)
GELU_CUBE = 0.044715
# products of one convolution that are added one after another
LONGEST_SUM = 384


class WrittenOut(AlbertLayer):
    """ALBERT's layer with its GELU written out: ExecuTorch lowers `gelu` to XNNPACK without its
    approximate="tanh" (35 dB).
    """

    def forward(self, x: Tensor, excluded: Tensor) -> Tensor:
        """The layer's output for x [B, T, width]."""
        x = self.attention(x, excluded)
        wide = self.ffn(x)
        curve = 0.5 * wide * (1 + torch.tanh(GELU_SLOPE * (wide + GELU_CUBE * wide * wide * wide)))
        result: Tensor = self.full_layer_layer_norm(self.ffn_output(curve) + x)
        return result


def make_plain(function: nn.Module) -> nn.Module:
    """A copy in operations that keep their meaning in ExecuTorch: LSTMs as loops, GELU written
    out.
    """
    copied = unroll_lstms(function)
    for module in copied.modules():
        if type(module) is AlbertLayer:
            # The weights and their names stay; only `forward` is another.
            module.__class__ = WrittenOut
    return copied


def subtract_mean(x: Tensor) -> tuple[Tensor, Tensor]:
    """x [1, C, 1, S] less its mean, and the mean [1, C, 1, 1]. Some kernels add S values one after
    another; a second sum, of values around 0, corrects the rounding error of the first.
    """
    coarse = x.mean(dim=3, keepdim=True)
    rest = (x - coarse).mean(dim=3, keepdim=True)
    return x - coarse - rest, coarse + rest


class CenteredNorm(AdaIN1d):
    """AdaIN in two passes: no exporter may make E[x^2] - E[x]^2 of its variance, which is negative
    for a constant.
    """

    def forward(self, x: Tensor, style: Tensor, mask: Mask | None) -> Tensor:
        """x [1, C, 1, S], style [1, style_dim, 1, 1] -> [1, C, 1, S]."""
        gain, shift = self.fc(style).chunk(2, dim=1)  # [1, C, 1, 1] each
        # the mean that float32 missed in a long sum is taken away by a second pass
        centered = subtract_mean(x)[0]
        variance = subtract_mean(centered * centered)[1]
        return centered * (torch.rsqrt(variance + NORM_EPSILON) * gain) + shift


class PartedConv(nn.Module):
    """A convolution in groups of its input's channels, for kernels that add one product after
    another: in float32 so long a sum loses 14 dB of real Kokoro's waveform, a sum of short sums 6.
    """

    def __init__(self, conv: Conv, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.geometry = (conv.stride, conv.padding, conv.dilation)
        # [out, in, 1, k] -> parts [out, channels, 1, k]
        self.weights = nn.ParameterList(
            part.clone() for part in conv.weight.detach().split(channels, dim=1)
        )
        self.bias = conv.bias

    @property
    def weight(self) -> Tensor:
        """The first part, whose dtype is every part's."""
        return self.weights[0]

    def forward(self, x: Tensor) -> Tensor:
        """The convolution's result, [1, out, 1, S]."""
        # [1, in, 1, S] -> parts [1, channels, 1, S]
        parts = x.split(self.channels, dim=1)
        # partial sums are added as tensors, so each kernel adds few products
        y = F.conv2d(parts[0], self.weights[0], self.bias, *self.geometry)
        for part, weight in zip(parts[1:], list(self.weights)[1:], strict=True):
            y = y + F.conv2d(part, weight, None, *self.geometry)
        return y


def split_convolutions(vocoder: nn.Module, longest: int = LONGEST_SUM) -> None:
    """Replace every convolution that adds more than `longest` products."""
    # Listed first: replacing a module changes what named_modules walks over.
    long = [
        (path, module)
        for path, module in vocoder.named_modules()
        if isinstance(module, Conv) and module.groups == 1
    ]
    for path, conv in long:
        # Products of one result: every input channel times every tap.
        if conv.in_channels * conv.kernel_size[1] > longest:
            replace_module(vocoder, path, PartedConv(conv, max(1, longest // conv.kernel_size[1])))


def make_plain_vocoder(vocoder: nn.Module) -> nn.Module:
    """The vocoder itself, changed in place: norms and long convolutions are written out."""
    for module in vocoder.modules():
        if isinstance(module, AdaIN1d):
            # CenteredNorm has no weights of its own, so the loaded ones serve it.
            module.__class__ = CenteredNorm
    split_convolutions(vocoder)
    return vocoder
