"""The generator on constants of the utterance: what AdaIN needs is handed to it, so no operation
reads beyond its receptive field.

    generator = StreamingGenerator(vocoder, predictor.centres)
    # [1, 1, 1, 600 W], of any window of the utterance
    waveform = generator(frames, spectrum, Told(affine, generator.sizes))

AdaIN is gain (x - mean) / deviation + shift. Upstream measures mean and deviation over the
utterance, 48 times; `Told` has both in one gain and one shift, `Measured` measures them where the
utterance is short enough to be there as a whole. What a norm reads has its usual mean, `centres`,
taken off by the bias of the convolution before it: fp16 would round the rest against it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

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
from kokoro_ane.vocoder.eager import FrozenConvTranspose
from kokoro_ane.vocoder.streaming.streaming_layers import (
    FoldedConv,
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


def centres_of(generator: Generator, centres: np.ndarray) -> dict[str, Tensor]:
    """The usual mean of what each norm reads, [C] float64 by its path."""
    norms = generator_norms(generator)
    parts = torch.from_numpy(centres).double().split([norm.channels for norm in norms])
    return {norm.path: part for norm, part in zip(norms, parts, strict=True)}


class Affines(Protocol):
    """Gives every norm, in the order of the rows, its gain and shift, and knows where the utterance
    is: `mask`, None for everywhere.
    """

    mask: Mask | None

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x [1, C, 1, S], what the next norm reads -> gain and shift [1, C, 1, 1]."""

    def inside(self, x: Tensor) -> Tensor:
        """x with zeros beyond the utterance, where a convolution is to see them."""

    def rise(self, rate: int, columns: int = 0) -> None:
        """What follows has `rate` times as many columns, and so many more in front."""


class Told:
    """Constants of the utterance: affine [1, 2R, 1, 1], all gains before all shifts. The columns
    given are all of the utterance.
    """

    mask: Mask | None = None

    def __init__(self, affine: Tensor, sizes: list[int]) -> None:
        parts = affine.split([*sizes, *sizes], dim=1)
        self._pairs = iter(zip(parts[: len(sizes)], parts[len(sizes) :], strict=True))

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return next(self._pairs)

    def inside(self, x: Tensor) -> Tensor:
        return masked(x, self.mask)

    def rise(self, rate: int, columns: int = 0) -> None:
        """A window has no end to keep: nothing changes."""


class Measured(Told):
    """Statistics of the columns themselves, as upstream; `affine`: the style's gains and shifts;
    `scales`: AdaIN1d's, of each norm.
    """

    def __init__(self, affine: Tensor, sizes: list[int], scales: list[float], mask: Mask) -> None:
        super().__init__(affine, sizes)
        self._scales, self.mask = iter(scales), mask

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The arithmetic is AdaIN1d's; x has its usual mean taken off, so that a product and a sum
        lose nothing of it.
        """
        (gain, shift), scale, mask = super().__call__(x), next(self._scales), self.mask
        assert mask is not None
        # The names of these variables name the values of a built package, so nothing is shared.
        mean = masked(x, mask).mean(dim=3, keepdim=True) / mask.mean
        centred = (x - mean) * (mask.values * scale)
        rest = centred.mean(dim=3, keepdim=True) / mask.mean
        power = (centred * centred).mean(dim=3, keepdim=True) / mask.mean
        factor = torch.rsqrt(F.relu(power - rest * rest) + NORM_EPSILON * scale**2) * scale * gain
        return factor, shift - (mean + rest * (1 / scale)) * factor

    def rise(self, rate: int, columns: int = 0) -> None:
        assert self.mask is not None
        mask = self.mask.upsampled(rate)
        self.mask = (
            Mask.of(torch.cat([mask.values[..., :columns], mask.values], dim=3))
            if columns
            else mask
        )


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
        self.conv = FoldedConv(conv, None if apart else inner, bias)

    def forward(self, x: Tensor, affines: Affines) -> Tensor:
        """x [1, C, 1, S], less its centre -> [1, out, 1, S]."""
        gain, shift = affines(x)
        u = x * gain + shift
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

    def forward(self, x: Tensor, affines: Affines) -> Tensor:
        """x [1, C, 1, S] -> the same shape."""
        for first, second in zip(self.convs1, self.convs2, strict=True):
            # a name of its own: coremltools finds no operation that it calls var_N itself
            change = second(first(x, affines), affines)
            x = change + x
        return x


class StreamingGenerator(nn.Module):
    """The generator of one window. Its modules bear the names of Generator's. `form`: of every
    Snake, the affines are made for the same; `apart`: see AffineConv.
    """

    def __init__(
        self,
        vocoder: Vocoder,
        centres: np.ndarray,
        form: SnakeFormula | None = None,
        apart: bool = False,
    ) -> None:
        super().__init__()
        generator, count = vocoder.generator, vocoder.generator.blocks_per_stage
        norms, usual = generator_norms(generator), centres_of(generator, centres)
        made = usual, form or SineSnake(), apart
        self.sizes = [norm.channels for norm in norms]
        self.scales = [norm.norm.scale for norm in norms]
        self.rates, self.blocks_per_stage = generator.rates, count
        self.channels = generator.ups[0].in_channels
        self.ups: Modules[FrozenConvTranspose] = Modules()
        self.noise_convs: Modules[FoldedConv] = Modules()
        self.noise_res: Modules[AffineBlock] = Modules()
        for stage, (up, conv) in enumerate(zip(generator.ups, generator.noise_convs, strict=True)):
            read, source = usual[f"resblocks.{stage * count}.adain1.0"], f"noise_res.{stage}"
            frozen = FrozenConvTranspose(up, count if stage else 1.0)
            frozen.weight = frozen.weight.contiguous()
            self.ups.append(frozen)
            self.noise_convs.append(
                FoldedConv(conv, bias=bias_of(conv) - usual[f"{source}.adain1.0"])
            )
            # the sum with `up`: less `read`
            self.noise_res.append(AffineBlock(source, generator.noise_res[stage], *made, read))
        paths = (f"resblocks.{number}" for number in range(len(generator.resblocks)))
        self.resblocks = Modules(
            AffineBlock(path, block, *made)
            for path, block in zip(paths, generator.resblocks, strict=True)
        )
        post = generator.conv_post
        # the mean over parallel blocks is left a sum
        self.conv_post = FoldedConv(post, torch.full((post.in_channels,), float(count)))
        self.stft = generator.stft

    def forward(self, frames: Tensor, spectrum: Tensor, affines: Affines) -> Tensor:
        """frames [1, C, 1, 2W], spectrum [1, 22, 1, 120W + 1] -> waveform [1, 1, 1, 600 W]."""
        x = frames
        for stage, rate in enumerate(self.rates):
            last = stage + 1 == len(self.rates)
            # [1, C / 2, 1, rate * S]
            x = self.ups[stage](x if stage == 0 else affines.inside(F.leaky_relu(x, STAGE_SLOPE)))
            if last:
                x = torch.cat([x[..., 1:2], x], dim=3)  # reflection pad: [1, C, 1, 120W + 1]
            affines.rise(rate, int(last))
            source = self.noise_res[stage](self.noise_convs[stage](spectrum), affines)
            x = self._blocks(stage, x + source, affines)
        x = affines.inside(F.leaky_relu(x, POST_SLOPE)).to(self.conv_post.weight.dtype)
        return self.stft(self.conv_post(x), affines.mask)

    def _blocks(self, stage: int, x: Tensor, affines: Affines) -> Tensor:
        """The sum of the stage's parallel blocks."""
        first, *others = self.resblocks[
            stage * self.blocks_per_stage : (stage + 1) * self.blocks_per_stage
        ]
        total = first(x, affines)
        for block in others:
            total = total + block(x, affines)
        return total
