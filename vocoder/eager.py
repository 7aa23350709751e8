"""The vocoder for PyTorch on a processor, one utterance at exact length: Vocoder's function in
fewer passes over memory.

    fast = EagerVocoder(vocoder)
    # as Vocoder(...) without a mask; vocoder.render.render_reference takes either
    waveform = fast(asr, f0, energy, style, spectrum)

It exists for speed. Vocoder stays the definition and is what is exported. The modules have the
vocoder's names. These differences are exact up to rounding:

- Channels are the contiguous axis, which oneDNN's convolutions read without reordering.
- AdaIN is one batch norm whose affine is the style's, and one product with the style gives the
  affines of all norms.
- Snake is u + sin(u)^2 on u = alpha x. alpha is folded into the norm's affine, and 1 / alpha into
  the next convolution; so are 1 / sqrt(2) and the mean over parallel blocks.

Figures: docs/speaking.md.
"""

import copy
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core import (
    HALF_POWER,
    LEAKY_SLOPE,
    NORM_EPSILON,
    AdaIN1d,
    AdainResBlk1d,
    Conv,
    ConvTranspose,
    Modules,
    Snake,
    concatenate,
    with_zero_taps,
)
from kokoro_ane.vocoder.decoder import POST_SLOPE, STAGE_SLOPE, AdaINResBlock1, Generator, Vocoder

GROUPS = 32  # of steps, in `compute_moments`
Layer = TypeVar("Layer", Conv, ConvTranspose)


def fold_conv(
    conv: Layer,
    divisor: Tensor | float = 1.0,
    factor: float = 1.0,
    bias: Tensor | None = None,
) -> Layer:
    """A copy of a convolution whose input is divided by `divisor` (a number, or [in]) and whose
    result is multiplied by `factor`. `bias` [out] replaces its own. The products are computed in
    float64 and rounded once.
    """
    # The modules inside (envelope, taps) are shared: a package holds their constants once.
    shared = {id(part): part for part in (*conv.children(), conv.weight)}
    copied = with_zero_taps(copy.deepcopy(conv, shared))
    weight = copied.weight.detach()  # [out, in, 1, k]; of a transposed one [in, out, 1, k]
    product = weight.to(torch.float64, copy=True).mul_(factor)
    product.div_(torch.as_tensor(divisor, dtype=torch.float64).view(1, -1, 1, 1))
    copied.weight = nn.Parameter(product.to(weight.dtype), requires_grad=False)
    if bias is None and conv.bias is not None:
        bias = conv.bias.detach() * factor
    if bias is not None:
        stored = nn.Parameter(bias.to(weight.dtype), requires_grad=False)
        # Zeros are left out: a package stores equal constants once, and layers lose their names.
        copied.register_parameter("bias", stored if bias.any() else None)
    return copied


class StyleRows:
    """Collects the gains and shifts of every norm, so that one product with the style computes them
    all.
    """

    def __init__(self) -> None:
        self.weights: list[Tensor] = []
        self.biases: list[Tensor] = []
        self.count = 0

    def add(self, norm: AdaIN1d, scale: Tensor) -> int:
        """Append the rows of `norm`, with its output scaled by `scale` [C]: C gains, then C shifts.
        Returns where they begin.
        """
        both = scale.double().repeat(2)  # [2C]
        # [2C, style_dim]
        self.weights.append(norm.fc.weight.detach().flatten(1).double() * both[:, None])
        self.biases.append(norm.fc.bias.detach().double() * both)
        begin = self.count
        self.count += len(both)
        return begin


def compute_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance over time of x [1, C, 1, S] with channels last: [C] each.

    PyTorch's kernel for this layout adds S values up one after the other in float32: 104 dB at 30
    s. Here the steps are dealt out to GROUPS groups. The same kernel measures each group, and the
    law of total variance joins them: 145 dB at any length.
    """
    channels, steps = x.shape[1], x.shape[3]
    rows = x.permute(0, 2, 3, 1).reshape(steps, channels)
    # Few steps are one group: there a running sum is exact enough.
    groups = GROUPS if steps >= GROUPS * GROUPS else 1
    count = steps // groups
    # [1, groups * C, 1, count]
    dealt = rows[: count * groups].reshape(1, 1, count, groups * channels).permute(0, 3, 1, 2)
    means, variances = (
        v.view(groups, channels) for v in torch.batch_norm_update_stats(dealt, None, None, 0.0)
    )
    rest = rows[count * groups :]  # [S mod groups, C]
    mean = (means.sum(0) * count + rest.sum(0)) / steps
    # within the groups and between them, then the rest
    squares = (variances + (means - mean).square()).sum(0) * count
    return mean, (squares + (rest - mean).square().sum(0)) / steps


class Norm(nn.Module):
    """AdaIN at exact length, its result multiplied by `scale` [C]. The affine is cut from what
    StyleRows computes.
    """

    def __init__(self, norm: AdaIN1d, rows: StyleRows, scale: Tensor | None = None) -> None:
        super().__init__()
        self.channels = norm.fc.channels
        self.scale = torch.ones(self.channels) if scale is None else scale
        self.begin = rows.add(norm, self.scale)

    def forward(self, x: Tensor, affines: Tensor) -> Tensor:
        """x [1, C, 1, S], affines [rows] -> a new [1, C, 1, S] that the caller may overwrite."""
        gain, shift = affines[self.begin : self.begin + 2 * self.channels].chunk(2)
        return F.batch_norm(x, *compute_moments(x), gain, shift, training=False, eps=NORM_EPSILON)


def put_channels_last(x: Tensor) -> Tensor:
    """The same values with channels contiguous in memory."""
    return x.contiguous(memory_format=torch.channels_last)


class SnakeConv(nn.Module):
    """AdaIN, Snake, convolution."""

    def __init__(self, norm: AdaIN1d, snake: Snake, conv: Conv, rows: StyleRows) -> None:
        super().__init__()
        alpha = snake.alpha.detach().flatten()  # [in]
        self.norm = Norm(norm, rows, alpha)
        self.conv = fold_conv(conv, alpha)

    def forward(self, x: Tensor, affines: Tensor) -> Tensor:
        """x [1, in, 1, S] -> [1, out, 1, S]."""
        u = self.norm(x, affines)  # alpha times AdaIN's result
        wave = torch.sin(u)
        # In place: u + sin(u)^2 is alpha times Snake, and the weights divide by alpha.
        return self.conv(u.addcmul_(wave, wave))


class SnakeBlock(nn.Module):
    """AdaINResBlock1."""

    def __init__(self, block: AdaINResBlock1, rows: StyleRows) -> None:
        super().__init__()
        first = zip(block.adain1, block.alpha1, block.convs1, strict=True)
        second = zip(block.adain2, block.alpha2, block.convs2, strict=True)
        self.convs1 = Modules(SnakeConv(*parts, rows) for parts in first)
        self.convs2 = Modules(SnakeConv(*parts, rows) for parts in second)

    def forward(self, x: Tensor, affines: Tensor) -> Tensor:
        """x [1, C, 1, S] -> a new tensor of the same shape."""
        for first, second in zip(self.convs1, self.convs2, strict=True):
            x = second(first(x, affines), affines).add_(x)
        return x


class LeakyBlock(nn.Module):
    """AdainResBlk1d. The shortcut's 1x1 convolution runs before the repetition, at half the
    rate.
    """

    def __init__(self, block: AdainResBlk1d, rows: StyleRows) -> None:
        super().__init__()
        self.norm1, self.norm2 = Norm(block.norm1, rows), Norm(block.norm2, rows)
        self.conv1 = fold_conv(block.conv1)
        self.conv2 = fold_conv(block.conv2, factor=HALF_POWER)
        shortcut = block.conv1x1
        pool = block.pool
        self.conv1x1 = None if shortcut is None else fold_conv(shortcut, factor=HALF_POWER)
        self.pool = None if pool is None else fold_conv(pool)

    def forward(self, x: Tensor, affines: Tensor) -> Tensor:
        """x [1, inner, 1, S] -> [1, out, 1, S or 2S]."""
        h = F.leaky_relu_(self.norm1(x, affines), LEAKY_SLOPE)
        # A shortcut without a convolution takes the factor itself.
        shortcut = x * HALF_POWER if self.conv1x1 is None else self.conv1x1(x)
        if self.pool is not None:
            h = self.pool(h)  # [1, inner, 1, 2S]
            shortcut = F.interpolate(shortcut, scale_factor=(1.0, 2.0), mode="nearest")
        h = F.leaky_relu_(self.norm2(self.conv1(h), affines), LEAKY_SLOPE)
        return self.conv2(h).add_(shortcut)


class EagerGenerator(nn.Module):
    """Generator without its source."""

    def __init__(self, generator: Generator, rows: StyleRows) -> None:
        super().__init__()
        self.count = count = generator.blocks_per_stage
        # A stage's mean is left a sum: leaky_relu passes a positive factor on, so what reads the
        # stage divides by `count`.
        self.ups = Modules(fold_conv(up, count if i else 1.0) for i, up in enumerate(generator.ups))
        self.noise_convs = Modules(fold_conv(conv) for conv in generator.noise_convs)
        self.noise_res = Modules(SnakeBlock(block, rows) for block in generator.noise_res)
        self.resblocks = Modules(SnakeBlock(block, rows) for block in generator.resblocks)
        self.conv_post = fold_conv(generator.conv_post, float(count))
        self.stft = generator.stft

    def forward(self, x: Tensor, affines: Tensor, spectrum: Tensor) -> Tensor:
        """x [1, C, 1, 2F], spectrum [1, 22, 1, 120F + 1] -> waveform [1, 1, 1, 600F]."""
        for i in range(len(self.ups) - 1):
            x = self.run_stage(i, x, affines, spectrum)
        return self.run_last_stage(F.leaky_relu(x, STAGE_SLOPE), affines, spectrum)

    def run_stage(self, i: int, x: Tensor, affines: Tensor, spectrum: Tensor) -> Tensor:
        """A stage but the last: x [1, C, 1, S] -> [1, C / 2, 1, rate * S]."""
        return self._sum_blocks(i, self.ups[i](F.leaky_relu(x, STAGE_SLOPE)), affines, spectrum)

    def run_last_stage(self, x: Tensor, affines: Tensor, spectrum: Tensor) -> Tensor:
        """x [1, C, 1, S], the result of a leaky ReLU -> waveform [1, 1, 1, 600F]."""
        x = self.ups[-1](x)
        x = torch.cat([x[..., 1:2], x], dim=3)  # reflection pad: [1, C, 1, 120F + 1]
        x = self._sum_blocks(len(self.ups) - 1, x, affines, spectrum)
        return self.stft(self.conv_post(F.leaky_relu(x, POST_SLOPE)), None)

    def _sum_blocks(self, i: int, x: Tensor, affines: Tensor, spectrum: Tensor) -> Tensor:
        """Add the source's result to x -> the sum of the stage's parallel blocks."""
        x = self.noise_res[i](self.noise_convs[i](spectrum), affines).add_(x)
        first, *others = self.resblocks[i * self.count : (i + 1) * self.count]
        total = first(x, affines)
        for block in others:
            total.add_(block(x, affines))
        return total


class EagerVocoder(nn.Module):
    """A frozen copy of a Vocoder's weights in the layout above; a change of the vocoder afterwards
    does not reach it.
    """

    style_weight: Tensor
    style_bias: Tensor

    def __init__(self, vocoder: Vocoder) -> None:
        super().__init__()
        rows = StyleRows()
        self.encode = LeakyBlock(vocoder.encode, rows)
        self.decode = Modules(LeakyBlock(block, rows) for block in vocoder.decode)
        self.F0_conv, self.N_conv = fold_conv(vocoder.F0_conv), fold_conv(vocoder.N_conv)
        self.asr_res = nn.Sequential(fold_conv(vocoder.residual_conv))
        self.generator = EagerGenerator(vocoder.generator, rows)
        for layer in self.modules():
            if isinstance(layer, Conv | ConvTranspose):
                # Weights in the layout of what they multiply, or each call would reorder them.
                layer.weight.data = put_channels_last(layer.weight.data)
        dtype = vocoder.F0_conv.weight.dtype
        self.register_buffer("style_weight", torch.cat(rows.weights).to(dtype))  # [rows, style_dim]
        self.register_buffer("style_bias", torch.cat(rows.biases).to(dtype))
        self.eval()

    def forward(
        self, asr: Tensor, f0: Tensor, energy: Tensor, style: Tensor, spectrum: Tensor
    ) -> Tensor:
        """One utterance (a batch would share its statistics), at exact length.

        Shapes: asr [1, hidden, 1, F]; f0 (Hz) and energy [1, 1, 1, 2F]; style [1, style_dim, 1, 1];
        spectrum [1, 22, 1, 120F + 1]. Returns [1, 1, 1, 600F] at 24 kHz.
        """
        affines = self.compute_affines(style)
        spectrum = put_channels_last(spectrum)
        return self.generator(self.decode_frames(asr, f0, energy, affines), affines, spectrum)

    def compute_affines(self, style: Tensor) -> Tensor:
        """Gains and shifts of all norms, [rows]."""
        return F.linear(style.flatten(1), self.style_weight, self.style_bias).flatten()

    def decode_frames(self, asr: Tensor, f0: Tensor, energy: Tensor, affines: Tensor) -> Tensor:
        """What the generator reads, [1, C, 1, 2F]."""
        asr = put_channels_last(asr)
        # [1, 1, 1, F] twice, [1, 64, 1, F]
        f0 = self.F0_conv(f0)
        energy = self.N_conv(energy)
        residual = self.asr_res(asr)
        x = self.encode(put_channels_last(concatenate(asr, f0, energy)), affines)
        for block in self.decode:
            x = block(put_channels_last(concatenate(x, residual, f0, energy)), affines)
        return x


@dataclass(frozen=True, eq=False)
class Place:
    """The Vocoder's convolution at `path`, and what stands in the weights of its eager copy: its
    input is divided by `alpha` [in], its result multiplied by `outer`. `centred`: only AdaIN reads
    the result, which takes off any constant.
    """

    path: str
    alpha: Tensor | None = None
    outer: float = 1.0
    centred: bool = False


def find_places(eager: EagerVocoder) -> dict[str, Place]:
    """What is folded into the convolutions of `eager`, by their names in it. conv_post, which no
    level compresses, is left out.
    """
    places = {}
    for name, layer in eager.named_modules():
        if not isinstance(layer, Conv | ConvTranspose) or name == "generator.conv_post":
            continue
        parent = eager.get_submodule(name.rpartition(".")[0])
        alpha = None
        outer = 1.0
        if isinstance(parent, SnakeConv):
            # Its norm's result is alpha times the vocoder's.
            alpha = parent.norm.scale
        elif name.endswith(("conv2", "conv1x1")):
            outer = HALF_POWER
        elif name.startswith("generator.ups.") and name != "generator.ups.0":
            # It reads the sum over parallel blocks, `count` times the mean.
            alpha = torch.full((layer.in_channels,), float(eager.generator.count))
        path = name.removesuffix(".conv")
        # The first convolution of a pair stands before an AdaIN.
        centred = ".convs1." in path or path.endswith("conv1")
        places[name] = Place(path, alpha, outer, centred)
    return places
