"""The generator's two stages, each on statistics that are measured or given.

    folding = Folding.from_vocoder(vocoder, predictor.centres)
    first, second = FirstStage(vocoder, folding), SecondStage(vocoder, folding)
    # over the whole utterance, whose statistics its norms measure
    norms = MeasuredNorms(style_affine, first.sizes, first.scales, mask)
    x = first(frames, spectrum_rows, norms)
    # any window of it, on predicted statistics: no column reads beyond its receptive field
    waveform = second(x_window, spectrum_window, GivenNorms(affine, second.sizes))

AdaIN is gain (x - mean) / deviation + shift. Upstream measures mean and deviation over the
utterance, 48 times, and so does `MeasuredNorms`. `GivenNorms` has both in one gain and one shift,
so that samples can be computed before all of the utterance is. The bias of the convolution before a
norm takes off the usual mean of what the norm reads: fp16 would round the rest against it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core import NORM_EPSILON, STREAMING, AdaIN1d, Conv, Mask, Modules, Snake, masked
from kokoro_ane.vocoder.decoder import POST_SLOPE, STAGE_SLOPE, AdaINResBlock1, Generator, Vocoder
from kokoro_ane.vocoder.eager import fold_conv
from kokoro_ane.vocoder.streaming.streaming_layers import (
    FORMS,
    PhaseConv,
    SnakeFormula,
    fold_scaled_conv,
    small_or_apart,
)


@dataclass(frozen=True, eq=False)
class GeneratorNorm:
    """A norm of the generator, its `path` there, and the Snake that reads it."""

    path: str
    norm: AdaIN1d
    snake: Snake

    @property
    def channels(self) -> int:
        return self.norm.fc.channels

    def inner(self, form: SnakeFormula) -> Tensor:
        """u over the norm's result, in the formula's terms: [C] float64."""
        return self.snake.alpha.detach().flatten().double() * form.factor

    def factor(self, form: SnakeFormula) -> Tensor:
        """What multiplies the norm's gains and shifts, so that it gives u: [C] float64. Ones where
        that is too small for fp16.
        """
        inner = self.inner(form)
        return torch.ones_like(inner) if small_or_apart(inner)[0] else inner


def list_generator_norms(generator: Generator) -> tuple[GeneratorNorm, ...]:
    """All 48 norms in the order of their rows: of each stage the source's block, then the parallel
    blocks; of a block three pairs.
    """
    count = generator.blocks_per_stage
    norms = list[GeneratorNorm]()
    for stage, source in enumerate(generator.noise_res):
        norms += list_block_norms(f"noise_res.{stage}", source)
        for number in range(stage * count, (stage + 1) * count):
            norms += list_block_norms(f"resblocks.{number}", generator.resblocks[number])
    return tuple(norms)


def list_block_norms(path: str, block: AdaINResBlock1) -> Iterator[GeneratorNorm]:
    """The six norms of the block at `path`, in the order of their calls."""
    for pair in range(len(block.convs1)):
        yield GeneratorNorm(f"{path}.adain1.{pair}", block.adain1[pair], block.alpha1[pair])
        yield GeneratorNorm(f"{path}.adain2.{pair}", block.adain2[pair], block.alpha2[pair])


def list_stage_norms(generator: Generator, stage: int) -> tuple[GeneratorNorm, ...]:
    """The 24 norms of one stage, in the order of their rows."""
    norms = list_generator_norms(generator)
    # Both stages have the same number of norms.
    each = len(norms) // len(generator.rates)
    return norms[stage * each : (stage + 1) * each]


@dataclass(frozen=True, eq=False)
class Folding:
    """What the convolutions and affines of the generator take into themselves.

    centres: the usual mean of what each norm reads, [C] float64 by the norm's path. form: the
    formula of every Snake. apart: 1 / alpha is not folded but multiplied (AffineConv says why).
    """

    centres: Mapping[str, Tensor]
    form: SnakeFormula
    apart: bool = False

    @classmethod
    def from_vocoder(
        cls, vocoder: Vocoder, centres: np.ndarray, layout: str = STREAMING, apart: bool = False
    ) -> "Folding":
        """`centres` are a predictor's. `layout` chooses the Snake's formula."""
        norms = list_generator_norms(vocoder.generator)
        parts = torch.from_numpy(centres).double().split([norm.channels for norm in norms])
        by_path = {norm.path: part for norm, part in zip(norms, parts, strict=True)}
        return cls(by_path, FORMS[layout](), apart)


class GivenNorms:
    """Applies every norm, in the order of the rows, with constants of the utterance. `affine` [1,
    2R, 1, 1] has all gains before all shifts. Every column is the utterance's.
    """

    mask: Mask | None = None

    def __init__(self, affine: Tensor, sizes: list[int]) -> None:
        parts = affine.split([*sizes, *sizes], dim=1)
        # An iterator: norms take their rows in the order in which they are called.
        self._pairs = iter(zip(parts[: len(sizes)], parts[len(sizes) :], strict=True))

    def __call__(self, x: Tensor) -> Tensor:
        """x [1, C, 1, S], what the next norm reads -> its result, of the same shape. Columns beyond
        the utterance mean nothing.
        """
        gain, shift = next(self._pairs)
        return x * gain + shift

    def keep_inside(self, x: Tensor) -> Tensor:
        """x with zeros beyond the utterance, for a convolution to read."""
        return masked(x, self.mask)

    def rise(self, rate: int, columns: int = 0) -> None:
        """Tell that what follows has `rate` times as many columns, and `columns` more in front. A
        window has no mask, so nothing changes.
        """


class MeasuredNorms(GivenNorms):
    """Measures the statistics of the columns inside `mask`, as upstream does. `affine` has the
    style's gains and shifts, `scales` are AdaIN1d's of each norm.

    The arithmetic is AdaIN1d's, less one step: x has its usual mean taken off, so what the rounding
    of its mean leaves is small and need not be measured, too.
    """

    def __init__(self, affine: Tensor, sizes: list[int], scales: list[float], mask: Mask) -> None:
        super().__init__(affine, sizes)
        self._scales = scales
        self._left = iter(scales)
        self._set_mask(mask)

    def __call__(self, x: Tensor) -> Tensor:
        gain, shift = next(self._pairs)
        scale = next(self._left)
        # The names of these variables name the values of a built package, so nothing is shared.
        mean = (x * self._inside).mean(dim=3, keepdim=True)
        # in the norm's scale, and 0 beyond the utterance
        centred = (x - mean) * self._weights[scale]
        power = (centred * centred).mean(dim=3, keepdim=True) / self._filled
        # The epsilon is scaled as the squares are.
        factor = torch.rsqrt(power + NORM_EPSILON * scale**2) * gain
        return centred * factor + shift

    def rise(self, rate: int, columns: int = 0) -> None:
        assert self.mask is not None
        mask = self.mask.upsampled(rate)
        if columns:
            # The columns in front are inside where the first column is.
            mask = Mask.from_values(torch.cat([mask.values[..., :columns], mask.values], dim=3))
        self._set_mask(mask)

    def _set_mask(self, mask: Mask) -> None:
        """Set what the norms at this rate multiply by: columns by the mask in their scale, means
        over all columns by what makes them means over the utterance.
        """
        self.mask = mask
        self._filled = mask.mean
        # no reciprocal of the mean: coremltools adds an epsilon of 1e-4 to what it inverts
        self._inside = mask.values / mask.mean
        self._weights = {scale: mask.values * scale for scale in dict.fromkeys(self._scales)}


# of a stage's affine, sizes and scales, under a mask
MakeNorms = Callable[[Tensor, list[int], list[float], Mask], GivenNorms]


class AffineConv(nn.Module):
    """AdaIN by an affine that is given, Snake, convolution. `bias` [out] replaces the
    convolution's.

    With `apart` the division of the convolution's input channels is not folded into its weights but
    is a multiplication before it. So the convolution reads Snake's own values, whose channels can
    be balanced (quantize/balance.py) for an int8 input. The same is done wherever one channel would
    take more than `SPREAD` times the median's factor into its weights (8 of real Kokoro's 48): int8
    weights and palettes would have little left for the others. Where the smallest alpha is below
    SMALL (1 of 48), alpha z would lie among fp16's subnormals, which an engine may take for 0: z is
    carried as it is and the bend alone is computed on alpha z.
    """

    alpha: Tensor | None
    scale: Tensor | None

    def __init__(self, norm: GeneratorNorm, conv: Conv, bias: Tensor, folding: Folding) -> None:
        super().__init__()
        self.form = folding.form
        inner = norm.inner(folding.form)
        small, spread = small_or_apart(inner)
        apart = folding.apart or spread
        self.register_buffer("alpha", inner.float().view(1, -1, 1, 1) if small else None)
        self.register_buffer("scale", (1 / inner).float().view(1, -1, 1, 1) if apart else None)
        self.conv = fold_scaled_conv(conv, 1.0 if apart else inner, bias)

    def forward(self, x: Tensor, affines: GivenNorms) -> Tensor:
        """x [1, C, 1, S], less its centre -> [1, out, 1, S]."""
        u = affines(x)
        if self.alpha is not None and self.scale is not None:
            bend = self.form.compute_bend(u * self.alpha, self.scale)
            return self.conv(affines.keep_inside(u + bend))
        u = self.form(u)
        return self.conv(affines.keep_inside(u if self.scale is None else u * self.scale))


def read_bias(conv: nn.Conv2d | nn.ConvTranspose2d) -> Tensor:
    """The bias of a convolution, zeros where it has none: [out] float64."""
    if conv.bias is None:
        return torch.zeros(conv.out_channels, dtype=torch.float64)
    return conv.bias.detach().double()


class AffineBlock(nn.Module):
    """AdaINResBlock1 on an input less its centre. Its result is the block's less `centre`."""

    def __init__(
        self, path: str, block: AdaINResBlock1, folding: Folding, centre: Tensor | float = 0.0
    ) -> None:
        super().__init__()
        self.convs1: Modules[AffineConv] = Modules()
        self.convs2: Modules[AffineConv] = Modules()
        norms = list(list_block_norms(path, block))
        centres = folding.centres
        for pair, (before, between) in enumerate(zip(norms[::2], norms[1::2], strict=True)):
            last = 2 * pair + 2 == len(norms)
            # What the block's next norm reads is less its usual mean, and so is the pair's sum.
            after = centre if last else centres[norms[2 * pair + 2].path]
            first = block.convs1[pair]
            second = block.convs2[pair]
            # The bias takes off the usual mean of what the norm between the two reads.
            bias = read_bias(first) - centres[between.path]
            self.convs1.append(AffineConv(before, first, bias, folding))
            # x is less its own centre, which the sum gets back here.
            bias = read_bias(second) - after + centres[before.path]
            self.convs2.append(AffineConv(between, second, bias, folding))

    def forward(self, x: Tensor, affines: GivenNorms) -> Tensor:
        """x [1, C, 1, S] -> the same shape."""
        for first, second in zip(self.convs1, self.convs2, strict=True):
            # a name of its own: coremltools finds no operation that it calls var_N itself
            change = second(first(x, affines), affines)
            x = change + x
        return x


class GeneratorStage(nn.Module):
    """One of the generator's two upsampling stages: upsampler, source, parallel blocks. Its modules
    bear the names that they have in Generator.
    """

    stage: int

    def __init__(self, vocoder: Vocoder, folding: Folding) -> None:
        super().__init__()
        generator = vocoder.generator
        stage = self.stage
        assert len(generator.rates) == 2, "the second stage is the last"
        norms = list_stage_norms(generator, stage)
        count = generator.blocks_per_stage
        self.sizes = [norm.channels for norm in norms]
        self.scales = [norm.norm.scale for norm in norms]
        self.rate = generator.rates[stage]
        # A stage's mean over its parallel blocks is left a sum: what reads it divides by `count`.
        up = fold_conv(generator.ups[stage], count if stage else 1.0)
        self.channels = up.in_channels  # of what the stage reads
        conv = generator.noise_convs[stage]
        source = f"noise_res.{stage}"
        bias = read_bias(conv) - folding.centres[f"{source}.adain1.0"]
        reader = PhaseConv(conv, bias) if conv.stride[1] > 1 else fold_scaled_conv(conv, bias=bias)
        # its sum with the upsampler's result is less the centre of what the parallel blocks read
        centre = folding.centres[f"resblocks.{stage * count}.adain1.0"]
        block = AffineBlock(source, generator.noise_res[stage], folding, centre)
        self.ups = nn.ModuleDict({str(stage): up})
        self.noise_convs = nn.ModuleDict({str(stage): reader})
        self.noise_res = nn.ModuleDict({str(stage): block})
        self.resblocks = nn.ModuleDict()
        for number in range(stage * count, (stage + 1) * count):
            path = f"resblocks.{number}"
            self.resblocks[str(number)] = AffineBlock(path, generator.resblocks[number], folding)

    def sum_blocks(self, x: Tensor, spectrum: Tensor, affines: GivenNorms) -> Tensor:
        """The upsampler's result [1, C / 2, 1, S] and the spectrum -> the sum of the stage's
        parallel blocks, of x's shape.
        """
        # Each of them holds one module, under upstream's number.
        ((conv,), (block,)) = self.noise_convs.values(), self.noise_res.values()
        x = x + block(conv(spectrum), affines)
        first, *others = self.resblocks.values()
        total = first(x, affines)
        for other in others:
            total = total + other(x, affines)
        return total


class FirstStage(GeneratorStage):
    """From the frame decoder's result to what the second stage reads."""

    stage = 0

    def forward(self, frames: Tensor, spectrum: Tensor, affines: GivenNorms) -> Tensor:
        """frames [1, C, 1, 2F], the result of a leaky ReLU; spectrum [1, 22 * 6, 1, 20F + 1], six
        columns as rows -> [1, C / 2, 1, 20F], the result of a leaky ReLU, 0 beyond the utterance.
        """
        x = self.ups["0"](frames)  # [1, C / 2, 1, 20F]
        affines.rise(self.rate)
        return affines.keep_inside(F.leaky_relu(self.sum_blocks(x, spectrum, affines), STAGE_SLOPE))


class SecondStage(GeneratorStage):
    """From the first stage's result, or a window of it, to samples."""

    stage = 1

    def __init__(self, vocoder: Vocoder, folding: Folding) -> None:
        super().__init__(vocoder, folding)
        generator = vocoder.generator
        # the mean over parallel blocks is left a sum
        self.conv_post = fold_scaled_conv(generator.conv_post, float(generator.blocks_per_stage))
        self.stft = generator.stft

    def forward(self, x: Tensor, spectrum: Tensor, affines: GivenNorms) -> Tensor:
        """x [1, C, 1, 20W], spectrum [1, 22, 1, 120W + 1] -> waveform [1, 1, 1, 600W]."""
        x = self.ups["1"](x)
        x = torch.cat([x[..., 1:2], x], dim=3)  # reflection pad: [1, C / 2, 1, 120W + 1]
        # the reflected column
        affines.rise(self.rate, 1)
        x = affines.keep_inside(F.leaky_relu(self.sum_blocks(x, spectrum, affines), POST_SLOPE))
        # The tail computes in fp32, whatever the rest of a package does.
        return self.stft(self.conv_post(x.to(self.conv_post.weight.dtype)), affines.mask)
