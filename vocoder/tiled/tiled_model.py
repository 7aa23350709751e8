"""The variant itself: packed windows to the waveform of every row, built from a Vocoder and equal to it up to rounding.

model = TiledVocoder(vocoder, hidden_dim)
waveform = model(pack_rows(inputs, bucket=362), style)      # [1, 1, R, 600 * pitch + 1260], put together by packing.joined_rows
"""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core.contract import PROSODY_PER_FRAME, SPECTRUM_CHANNELS
from kokoro_ane.core.layers import HALF_POWER, LEAKY_SLOPE, AdainResBlk1d, Conv, ConvTranspose, Mask, concatenate
from kokoro_ane.vocoder.decoder import POST_SLOPE, STAGE_SLOPE, AdaINResBlock1, Generator, InverseStft, Vocoder
from kokoro_ane.vocoder.scaled_conv import Repeat, ScaledConv, reciprocal_of
from kokoro_ane.vocoder.tiled.geometry import LOW_RATE, MARGIN, RATES, SHIFT, row_sizes
from kokoro_ane.vocoder.tiled.tiled_layers import FoldedConv, Moments, Norm, Rows, SineSnake, SnakeConv, SnakeFormula, StyleRows, moments
from kokoro_ane.vocoder.tiled.upsample import Interleave, PolyphaseConv, RowUpsample, phase_channel


class RowBlock(nn.Module):
    """AdaINResBlock1. The moments of its input are the caller's, who shares them among parallel blocks."""

    def __init__(self, block: AdaINResBlock1, styles: StyleRows, form: SnakeFormula, apart: bool) -> None:
        super().__init__()
        first = zip(block.adain1, block.alpha1, block.convs1, strict=True)
        second = zip(block.adain2, block.alpha2, block.convs2, strict=True)
        self.first = nn.ModuleList(SnakeConv(*parts, styles, form, apart) for parts in first)
        self.second = nn.ModuleList(SnakeConv(*parts, styles, form, apart) for parts in second)

    def forward(self, x: Tensor, found: Moments, rows: Rows, styles: tuple[Tensor, ...]) -> Tensor:
        """x [1, C, R, W] -> the same shape; spoiled columns hold anything finite."""
        for index, (first, second) in enumerate(zip(self.first, self.second, strict=True)):
            h = first(found if index == 0 else moments(x, rows), styles)
            change = second(moments(h, rows), styles)  # a name of its own: coremltools finds no operation that it calls var_N itself
            x = change + x
        return x


class Doubling(nn.Module):
    """Twice the rate by a transposed convolution of stride 2."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None, padding: int, groups: int) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)
        self.padding, self.groups = (0, padding), groups

    def forward(self, x: Tensor) -> Tensor:
        """[1, in, R, W] -> [1, out, R, 2W]."""
        return F.conv_transpose2d(x, self.weight, self.bias, (1, 2), self.padding, 0, self.groups)


def _pool(pool: ConvTranspose) -> Doubling:
    return Doubling(F.pad(pool.weight.detach(), (0, pool.zero_taps)), pool.bias.detach().clone(), pool.padding[1], pool.groups)


class Shortcut(nn.Module):
    """A 1x1 convolution of frames, times HALF_POWER. Repeating each frame twice and the convolution are one transposed convolution."""

    weight: Tensor
    reciprocal: Tensor | None

    def __init__(self, conv: Conv, doubled: bool) -> None:
        super().__init__()
        weight = conv.weight.detach() * HALF_POWER  # [out, in, 1, 1]
        self.register_buffer("weight", weight.transpose(0, 1).repeat(1, 1, 1, 2) if doubled else weight)
        self.register_buffer("reciprocal", reciprocal_of(conv))
        self.envelope = conv.envelope if isinstance(conv, ScaledConv) else None
        self.repeat = Repeat(2) if doubled else nn.Identity()
        self.doubled = doubled

    def forward(self, x: Tensor) -> Tensor:
        """[1, in, R, W] -> [1, out, R, W or 2W]."""
        given = x if self.reciprocal is None else x * self.reciprocal
        if self.envelope is None:
            return self._product(given)
        level = self.envelope(given)
        divided = given * torch.exp(-level)
        result = self._product(divided)  # a name of its own: coremltools finds no operation that it calls var_N itself
        return result * self.repeat(torch.exp(level))

    def _product(self, x: Tensor) -> Tensor:
        return F.conv_transpose2d(x, self.weight, None, (1, 2)) if self.doubled else F.conv2d(x, self.weight)


class FrameBlock(nn.Module):
    """AdainResBlk1d at the frame rate."""

    def __init__(self, block: AdainResBlk1d, styles: StyleRows) -> None:
        super().__init__()
        self.norm1, self.norm2 = Norm(block.norm1, styles), Norm(block.norm2, styles)
        self.conv1, self.conv2 = FoldedConv(block.conv1), FoldedConv(block.conv2)
        self.conv2.weight.mul_(HALF_POWER)
        if self.conv2.bias is not None:
            self.conv2.bias.mul_(HALF_POWER)
        self.pool = None if block.pool is None else _pool(block.pool)
        assert block.conv1x1 is not None  # every block of the decoder changes its width
        self.shortcut = Shortcut(block.conv1x1, doubled=self.pool is not None)

    def forward(self, x: Tensor, rows: Rows, wide: Rows, styles: tuple[Tensor, ...]) -> Tensor:
        """x [1, in, R, W] -> [1, out, R, W or 2W]; `wide` are the masks at the rate of the result."""
        assert rows.inside is not None and wide.inside is not None  # columns beyond the utterance exist at the frame rate
        h = F.leaky_relu(self.norm1(moments(x, rows), styles), LEAKY_SLOPE) * rows.inside
        if self.pool is not None:
            h = self.pool(h) * wide.inside
        shortcut, h = self.shortcut(x), self.conv1(h)
        change = self.conv2(F.leaky_relu(self.norm2(moments(h, wide), styles), LEAKY_SLOPE) * wide.inside)
        return change + shortcut


def trimmed(x: Tensor, columns: int) -> Tensor:
    """x [1, C, R, W] without so many columns a side."""
    return x[..., columns:-columns]


def realigned(x: Tensor) -> Tensor:
    """x [1, C, R, W] -> [1, C, R, W - 2 SHIFT]: the first row keeps its left edge and the last its right one, where the utterance ends."""
    first, inner, last = x[:, :, :1, : -2 * SHIFT], x[:, :, 1:-1, SHIFT:-SHIFT], x[:, :, -1:, 2 * SHIFT :]
    return torch.cat([first, inner, last], dim=2)


def with_first_again(x: Tensor, column: int) -> Tensor:
    """x [1, C, R, W] -> [1, C, R, W + 1]: column `column` before the first. 1 is upstream's reflection pad where the utterance begins."""
    return torch.cat([x[..., column : column + 1], x], dim=3)


@torch.no_grad()
def biases_last(generator: Generator) -> Generator:
    """A copy that computes the same with every bias of a stage in the last convolutions of its residual blocks.

    What stands between is read through norms, which take a constant off again; without it means are small and fp16 keeps more of the rest
    (real Kokoro, the last stage's spectrum branch: mean over deviation 81 at worst, 5 after).
    """
    changed = copy.deepcopy(generator)
    count = changed.blocks_per_stage
    for index, (up, noise_conv, noise) in enumerate(zip(changed.ups, changed.noise_convs, changed.noise_res, strict=True)):
        shared = [up.bias, _bias(noise_conv), *map(_bias, noise.convs2)]
        total = torch.stack(shared).double().sum(dim=0)
        blocks = changed.resblocks[index * count : (index + 1) * count]
        for block in blocks:
            last = total + torch.stack([_bias(conv) for conv in block.convs2]).double().sum(dim=0)
            for conv in (*block.convs1, *block.convs2):
                _bias(conv).zero_()
            _bias(block.convs2[-1]).copy_(last)
        for bias in (*shared, *map(_bias, noise.convs1)):
            bias.zero_()
    return changed


def _bias(conv: Conv) -> Tensor:
    assert conv.bias is not None  # every convolution of the generator has one
    return conv.bias


class Stage(nn.Module):
    """Upsampling, the spectrum's branch, the mean of three residual blocks (left a sum)."""

    def __init__(self, generator: Generator, index: int, divisor: float, styles: StyleRows, form: SnakeFormula, apart: bool) -> None:
        super().__init__()
        count = generator.blocks_per_stage
        self.up = RowUpsample(generator.ups[index], divisor)
        noise = generator.noise_convs[index]
        phases = tuple(phase_channel(phase, RATES[1]) for phase in range(RATES[1]))
        self.noise_conv = FoldedConv(noise) if noise.stride[1] == 1 else PolyphaseConv(noise, phases)
        self.noise_block = RowBlock(generator.noise_res[index], styles, form, apart)
        own = generator.resblocks[index * count : (index + 1) * count]
        self.blocks = nn.ModuleList(RowBlock(block, styles, form, apart) for block in own)

    def source(self, spectrum: Tensor, rows: Rows, styles: tuple[Tensor, ...]) -> Tensor:
        """The spectrum's branch, [1, C, R, W]."""
        x = self.noise_conv(spectrum)
        return self.noise_block(x, moments(x, rows), rows, styles)

    def mixed(self, x: Tensor, rows: Rows, styles: tuple[Tensor, ...]) -> Tensor:
        """Three times the mean of the parallel blocks."""
        found = moments(x, rows)
        total = self.blocks[0](x, found, rows, styles)
        for block in self.blocks[1:]:
            total = total + block(x, found, rows, styles)
        return total


class TiledVocoder(nn.Module):
    """A frozen copy of a Vocoder's weights on windows; see the module. `apart`: ready for int8 inputs, see SnakeConv."""

    def __init__(self, vocoder: Vocoder, hidden_dim: int, form: SnakeFormula | None = None, apart: bool = False) -> None:
        super().__init__()
        self.sizes = row_sizes(hidden_dim)
        form, styles, generator = form or SineSnake(), StyleRows(), biases_last(vocoder.generator)
        phases = tuple(range(PROSODY_PER_FRAME))
        self.f0_conv, self.energy_conv = (PolyphaseConv(conv, phases) for conv in (vocoder.F0_conv, vocoder.N_conv))
        self.residual = FoldedConv(vocoder.residual_conv)
        self.encode = FrameBlock(vocoder.encode, styles)
        self.decode = nn.ModuleList(FrameBlock(block, styles) for block in vocoder.decode)
        count = float(generator.blocks_per_stage)
        self.first = Stage(generator, 0, 1.0, styles, form, apart)
        self.last = Stage(generator, 1, count, styles, form, apart)
        self.spectrum_low = Interleave(SPECTRUM_CHANNELS * RATES[1], LOW_RATE)
        self.spectrum_high = Interleave(SPECTRUM_CHANNELS, RATES[1])
        self.conv_post = FoldedConv(generator.conv_post, torch.full((generator.conv_post.in_channels,), count))
        self.styles, self.stft = styles.product(), InverseStft()
        for rate in (2, *RATES):
            self.register_buffer(f"ones_{rate}", torch.ones(1, 1, 1, rate))

    def forward(self, features: Tensor, style: Tensor) -> Tensor:
        """features [1, channels, R, pitch + 36], style [1, style_dim, 1, 1] -> waveform [1, 1, R, 600 * pitch + 1260]."""
        x, weight_high = self.trunk(features, style)
        return self.stft(self.conv_post(x), Mask(weight_high * 0.0 + 1.0, weight_high))  # of [1, 22, R, 6 W + 1]

    def trunk(self, features: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
        """What conv_post reads, [1, C, R, 6 W + 1], as many times too large as there are parallel blocks; weights [1, 1, R, 6 W + 1]."""
        asr, f0, energy, inside, weight, weight_low, weight_high, factors, spectrum = features.split(self.sizes, dim=1)
        factors = tuple(factors[:, :, :1, i : i + 1] for i in range(8))  # root and power of four rates, [1, 1, 1, 1] each
        styles = self.styles(style)
        x = self._frames(asr, f0, energy, inside, (weight, *factors[:4]), styles)  # [1, C, R, 2 (pitch + 36)]
        x = trimmed(x, MARGIN * PROSODY_PER_FRAME)  # [1, C, R, 2 (pitch + 12)]
        spectrum = self.spectrum_low(spectrum)  # [1, 132, R, 20 (pitch + 36)]
        weight_low, weight_high = (self._repeated(trimmed(each, MARGIN), 2, RATES[0]) for each in (weight_low, weight_high))
        x = self._first(x, spectrum, Rows(weight_low, *factors[4:6]), styles)  # [1, C, R, W], W = 20 pitch + 42
        low = realigned(spectrum[..., MARGIN * LOW_RATE : 1 - MARGIN * LOW_RATE])  # [1, 132, R, W + 1]
        spectrum = self.spectrum_high(low)[..., : 1 - RATES[1]]  # [1, 22, R, 6 W + 1]
        weight_high = with_first_again(self._repeated(realigned(weight_high), RATES[1]), 0)  # [1, 1, R, 6 W + 1]
        x = self._last(x, spectrum, Rows(weight_high, *factors[6:]), styles)
        return F.leaky_relu(x, POST_SLOPE), weight_high

    def _repeated(self, x: Tensor, *rates: int) -> Tensor:
        for rate in rates:
            x = F.conv_transpose2d(x, getattr(self, f"ones_{rate}"), None, (1, rate))
        return x

    def _frames(
        self,
        asr: Tensor,
        f0: Tensor,
        energy: Tensor,
        inside: Tensor,
        counts: tuple[Tensor, ...],
        styles: tuple[Tensor, ...],
    ) -> Tensor:
        """The decoder at the frame rate; what stands before the generator, at twice that rate."""
        weight, root, power, wide_root, wide_power = counts
        rows = Rows(weight, root, power, inside)
        wide = Rows(self._repeated(weight, 2), wide_root, wide_power, self._repeated(inside, 2))
        f0, energy = self.f0_conv(F.pad(f0, (1, 1))) * inside, self.energy_conv(F.pad(energy, (1, 1))) * inside  # [1, 1, R, pitch + 36]
        residual = self.residual(asr)
        residual = residual * inside
        x = self.encode(concatenate(asr, f0, energy), rows, rows, styles)
        for block in self.decode:
            x = block(concatenate(x, residual, f0, energy), rows, rows if block.pool is None else wide, styles)
        return x

    def _first(self, x: Tensor, spectrum: Tensor, rows: Rows, styles: tuple[Tensor, ...]) -> Tensor:
        near = trimmed(spectrum, MARGIN * LOW_RATE - 1)  # the noise convolution looks one column further on both sides
        x = self.first.up(F.leaky_relu(x, STAGE_SLOPE)) + self.first.source(near, rows, styles)  # [1, C, R, 20 (pitch + 12)]
        return realigned(self.first.mixed(x, rows, styles))

    def _last(self, x: Tensor, spectrum: Tensor, rows: Rows, styles: tuple[Tensor, ...]) -> Tensor:
        x = with_first_again(self.last.up(F.leaky_relu(x, STAGE_SLOPE)), 1)  # [1, C, R, 6 W + 1]
        return self.last.mixed(x + self.last.source(spectrum, rows, styles), rows, styles)


class TiledTrunk(TiledVocoder):
    """The same, ending before conv_post: for a tail on the host."""

    def forward(self, features: Tensor, style: Tensor) -> Tensor:
        """As TiledVocoder -> trunk [1, C, R, 6 W + 1], see `trunk`."""
        return self.trunk(features, style)[0]
