"""The generator's two stages, each on constants that are handed to it.

    first, second = FirstStage(vocoder, centres), SecondStage(vocoder, centres)
    # over the whole utterance, whose statistics its norms measure
    x = first(frames, spectrum_rows, Measured(style_affine, first.sizes, first.scales, mask))
    # any window of it, on predicted statistics: nothing reads beyond its receptive field
    waveform = second(x_window, spectrum_window, Told(affine, second.sizes))

AdaIN is gain (x - mean) / deviation + shift. Upstream measures mean and deviation over the
utterance, 48 times. `Measured` does the same; `Told` has both in one gain and one shift, so that
samples can be computed before all of the utterance is. What a norm reads has its usual mean,
`centres`, taken off by the bias of the convolution before it: fp16 would round the rest against it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core.layers import (
    NORM_EPSILON,
    AdaIN1d,
    Conv,
    Mask,
    Modules,
    Snake,
    masked,
)
from kokoro_ane.vocoder.decoder import POST_SLOPE, STAGE_SLOPE, AdaINResBlock1, Generator, Vocoder
from kokoro_ane.vocoder.eager import folded
from kokoro_ane.vocoder.streaming.streaming_layers import (
    PhaseConv,
    SineSnake,
    SnakeFormula,
    small_or_apart,
)


@dataclass(frozen=True, eq=False)
class GeneratorNorm:
    """A norm of the generator in the order of its rows: `path` in the Generator, the norm, the
    Snake behind it.
    """

    path: str
    norm: AdaIN1d
    snake: Snake

    @property
    def channels(self) -> int:
        return self.norm.fc.channels

    def inner(self, form: SnakeFormula) -> Tensor:
        """[C] float64: u over the norm's result, in the formula's terms."""
        return self.snake.alpha.detach().flatten().double() * form.factor

    def factor(self, form: SnakeFormula) -> Tensor:
        """[C] float64: what its gains and shifts are multiplied by, so that it gives u; 1 where
        that is too small for fp16.
        """
        inner = self.inner(form)
        return torch.ones_like(inner) if small_or_apart(inner)[0] else inner


def generator_norms(generator: Generator) -> tuple[GeneratorNorm, ...]:
    """All 48: the source's block of each stage, then the stage's parallel blocks; of a block three
    pairs.
    """
    return tuple(norm for path, block in blocks_of(generator) for norm in _norms(path, block))


def blocks_of(generator: Generator) -> Iterator[tuple[str, AdaINResBlock1]]:
    """Residual blocks in the order of the rows."""
    count = generator.blocks_per_stage
    for stage, source in enumerate(generator.noise_res):
        yield f"noise_res.{stage}", source
        for number in range(stage * count, (stage + 1) * count):
            yield f"resblocks.{number}", generator.resblocks[number]


def _norms(path: str, block: AdaINResBlock1) -> Iterator[GeneratorNorm]:
    for pair in range(len(block.convs1)):
        yield GeneratorNorm(f"{path}.adain1.{pair}", block.adain1[pair], block.alpha1[pair])
        yield GeneratorNorm(f"{path}.adain2.{pair}", block.adain2[pair], block.alpha2[pair])


def stage_norms(generator: Generator, stage: int) -> tuple[GeneratorNorm, ...]:
    """The 24 norms of one stage, in the order of their rows."""
    norms = generator_norms(generator)
    each = len(norms) // len(generator.rates)
    return norms[stage * each : (stage + 1) * each]


def centres_of(generator: Generator, centres: np.ndarray) -> dict[str, Tensor]:
    """The usual mean of what each norm reads, [C] float64 by its path."""
    norms = generator_norms(generator)
    parts = torch.from_numpy(centres).double().split([norm.channels for norm in norms])
    return {norm.path: part for norm, part in zip(norms, parts, strict=True)}


class Told:
    """Applies every norm, in the order of the rows, with constants of the utterance: affine [1, 2R,
    1, 1], all gains before all shifts. The columns given are all of the utterance.
    """

    mask: Mask | None = None

    def __init__(self, affine: Tensor, sizes: list[int]) -> None:
        parts = affine.split([*sizes, *sizes], dim=1)
        self._pairs = iter(zip(parts[: len(sizes)], parts[len(sizes) :], strict=True))

    def __call__(self, x: Tensor) -> Tensor:
        """x [1, C, 1, S], what the next norm reads -> its result, of the same shape; beyond the
        utterance it means nothing.
        """
        gain, shift = next(self._pairs)
        return x * gain + shift

    def inside(self, x: Tensor) -> Tensor:
        """x with zeros beyond the utterance, where a convolution is to see them."""
        return masked(x, self.mask)

    def rise(self, rate: int, columns: int = 0) -> None:
        """What follows has `rate` times as many columns, and so many more in front. A window has no
        end to keep: nothing changes.
        """


class Measured(Told):
    """Statistics of the columns themselves, as upstream; `affine`: the style's gains and shifts;
    `scales`: AdaIN1d's, of each norm.

    The arithmetic is AdaIN1d's, less one step: x has its usual mean taken off, so what the rounding
    of its mean leaves is small and need not be measured, too.
    """

    def __init__(self, affine: Tensor, sizes: list[int], scales: list[float], mask: Mask) -> None:
        super().__init__(affine, sizes)
        self._scales = scales
        self._left = iter(scales)
        self._enter(mask)

    def __call__(self, x: Tensor) -> Tensor:
        (gain, shift), scale = next(self._pairs), next(self._left)
        # The names of these variables name the values of a built package, so nothing is shared.
        mean = (x * self._inside).mean(dim=3, keepdim=True)
        centred = (x - mean) * self._weights[scale]
        power = (centred * centred).mean(dim=3, keepdim=True) / self._filled
        factor = torch.rsqrt(power + NORM_EPSILON * scale**2) * gain
        return centred * factor + shift

    def rise(self, rate: int, columns: int = 0) -> None:
        assert self.mask is not None
        mask = self.mask.upsampled(rate)
        if columns:
            mask = Mask.of(torch.cat([mask.values[..., :columns], mask.values], dim=3))
        self._enter(mask)

    def _enter(self, mask: Mask) -> None:
        """What norms at this rate multiply by: of the columns the mask in their scale, of the means
        over all columns what makes them means over the utterance.
        """
        self.mask, self._filled = mask, mask.mean
        # no reciprocal of the mean: coremltools adds an epsilon of 1e-4 to what it inverts
        self._inside = mask.values / mask.mean
        self._weights = {scale: mask.values * scale for scale in dict.fromkeys(self._scales)}


class AffineConv(nn.Module):
    """AdaIN with its constants given, Snake, convolution.

    `apart`: what divides the convolution's input channels is not folded into its weights but stands
    before it as a multiplication. So the convolution reads Snake's own values, whose channels can
    be balanced (quantize/balance.py) for an int8 input. The same wherever one channel would take
    more than `SPREAD` times the median's factor into its weights (8 of real Kokoro's 48): int8
    weights and palettes would have little left for the others. Where the smallest alpha is below
    SMALL (1 of 48), alpha z would lie among fp16's subnormals, which an engine may take for 0: z is
    carried as it is and the bend alone is computed on alpha z.
    """

    alpha: Tensor | None
    scale: Tensor | None

    def __init__(
        self, norm: GeneratorNorm, conv: Conv, bias: Tensor, form: SnakeFormula, apart: bool
    ) -> None:
        """`bias` [out]: what the convolution adds."""
        super().__init__()
        inner = norm.inner(form)
        small, spread = small_or_apart(inner)
        apart = apart or spread
        self.form = form
        self.register_buffer("alpha", inner.float().view(1, -1, 1, 1) if small else None)
        self.register_buffer("scale", (1 / inner).float().view(1, -1, 1, 1) if apart else None)
        self.conv = folded(conv, 1.0 if apart else inner, bias=bias)

    def forward(self, x: Tensor, affines: Told) -> Tensor:
        """x [1, C, 1, S], less its centre -> [1, out, 1, S]."""
        u = affines(x)
        if self.alpha is not None and self.scale is not None:
            bend = self.form.bend(u * self.alpha, self.scale)
            return self.conv(affines.inside(u + bend))
        u = self.form(u)
        return self.conv(affines.inside(u if self.scale is None else u * self.scale))


def bias_of(conv: nn.Conv2d | nn.ConvTranspose2d) -> Tensor:
    """[out] float64."""
    return (
        torch.zeros(conv.out_channels, dtype=torch.float64)
        if conv.bias is None
        else conv.bias.detach().double()
    )


class AffineBlock(nn.Module):
    """AdaINResBlock1 on a value less its centre; its result is a whole one less `left`."""

    def __init__(
        self,
        path: str,
        block: AdaINResBlock1,
        centres: dict[str, Tensor],
        form: SnakeFormula,
        apart: bool,
        left: Tensor | float = 0.0,
    ) -> None:
        super().__init__()
        self.convs1: Modules[AffineConv] = Modules()
        self.convs2: Modules[AffineConv] = Modules()
        norms = list(_norms(path, block))
        for pair, (before, between) in enumerate(zip(norms[::2], norms[1::2], strict=True)):
            after = centres[norms[2 * pair + 2].path] if 2 * pair + 2 < len(norms) else left
            first, second = block.convs1[pair], block.convs2[pair]
            self.convs1.append(
                AffineConv(before, first, bias_of(first) - centres[between.path], form, apart)
            )
            self.convs2.append(
                AffineConv(
                    between, second, bias_of(second) - after + centres[before.path], form, apart
                )
            )

    def forward(self, x: Tensor, affines: Told) -> Tensor:
        """x [1, C, 1, S] -> the same shape."""
        for first, second in zip(self.convs1, self.convs2, strict=True):
            # a name of its own: coremltools finds no operation that it calls var_N itself
            change = second(first(x, affines), affines)
            x = change + x
        return x


class GeneratorStage(nn.Module):
    """One of the generator's two upsampling stages: upsampler, source, parallel blocks. Its modules
    bear the names that they have in Generator. `form`: of every Snake, the affines are made for the
    same; `apart`: see AffineConv.
    """

    stage: int

    def __init__(
        self,
        vocoder: Vocoder,
        centres: np.ndarray,
        form: SnakeFormula | None = None,
        apart: bool = False,
    ) -> None:
        super().__init__()
        generator, count, stage = vocoder.generator, vocoder.generator.blocks_per_stage, self.stage
        assert len(generator.rates) == 2, "the second stage is the last"
        norms, usual = stage_norms(generator, stage), centres_of(generator, centres)
        made = usual, form or SineSnake(), apart
        self.sizes = [norm.channels for norm in norms]
        self.scales = [norm.norm.scale for norm in norms]
        self.rate = generator.rates[stage]
        # of what it reads
        self.channels = generator.ups[stage].in_channels
        number, numbers = str(stage), range(stage * count, (stage + 1) * count)
        # a stage's mean over its parallel blocks is left a sum: what reads it divides by `count`
        up = folded(generator.ups[stage], count if stage else 1.0)
        conv = generator.noise_convs[stage]
        source, read = f"noise_res.{stage}", usual[f"resblocks.{numbers[0]}.adain1.0"]
        bias = bias_of(conv) - usual[f"{source}.adain1.0"]
        reader = PhaseConv(conv, bias) if conv.stride[1] > 1 else folded(conv, bias=bias)
        # the sum with `up`: less `read`
        block = AffineBlock(source, generator.noise_res[stage], *made, read)
        self.ups = nn.ModuleDict({number: up})
        self.noise_convs = nn.ModuleDict({number: reader})
        self.noise_res = nn.ModuleDict({number: block})
        self.resblocks = nn.ModuleDict(
            {
                str(index): AffineBlock(f"resblocks.{index}", generator.resblocks[index], *made)
                for index in numbers
            }
        )

    def summed(self, x: Tensor, spectrum: Tensor, affines: Told) -> Tensor:
        """What the upsampler gives [1, C / 2, 1, S] and the spectrum -> the sum of the stage's
        parallel blocks, of x's shape.
        """
        ((conv,), (block,)) = self.noise_convs.values(), self.noise_res.values()
        x = x + block(conv(spectrum), affines)
        first, *others = self.resblocks.values()
        total = first(x, affines)
        for other in others:
            total = total + other(x, affines)
        return total


class FirstStage(GeneratorStage):
    """From what the frame decoder gives to what the second stage reads."""

    stage = 0

    def forward(self, frames: Tensor, spectrum: Tensor, affines: Told) -> Tensor:
        """frames [1, C, 1, 2F], behind their leaky ReLU; spectrum [1, 22 * 6, 1, 20F + 1], six
        columns as rows -> [1, C / 2, 1, 20F], behind its leaky ReLU, 0 beyond the utterance.
        """
        x = self.ups["0"](frames)  # [1, C / 2, 1, 20F]
        affines.rise(self.rate)
        return affines.inside(F.leaky_relu(self.summed(x, spectrum, affines), STAGE_SLOPE))


class SecondStage(GeneratorStage):
    """From what the first stage gives, or a window of it, to samples."""

    stage = 1

    def __init__(
        self,
        vocoder: Vocoder,
        centres: np.ndarray,
        form: SnakeFormula | None = None,
        apart: bool = False,
    ) -> None:
        super().__init__(vocoder, centres, form, apart)
        post, count = vocoder.generator.conv_post, vocoder.generator.blocks_per_stage
        # the mean over parallel blocks is left a sum
        self.conv_post = folded(post, float(count))
        self.stft = vocoder.generator.stft

    def forward(self, x: Tensor, spectrum: Tensor, affines: Told) -> Tensor:
        """x [1, C, 1, 20W], spectrum [1, 22, 1, 120W + 1] -> waveform [1, 1, 1, 600W]."""
        x = self.ups["1"](x)
        x = torch.cat([x[..., 1:2], x], dim=3)  # reflection pad: [1, C / 2, 1, 120W + 1]
        affines.rise(self.rate, 1)
        x = affines.inside(F.leaky_relu(self.summed(x, spectrum, affines), POST_SLOPE))
        return self.stft(self.conv_post(x.to(self.conv_post.weight.dtype)), affines.mask)
