"""The variant itself: packed windows to the waveform of every row, built from a Vocoder and equal to it up to rounding.

model = WindowedVocoder(vocoder, hidden_dim)
waveform = model(pack_rows(inputs, bucket=362), style)      # [1, 1, R, 600 * pitch + 1260], put together by packing.joined_rows
"""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.blocks import concatenate
from core.contract import PROSODY_PER_FRAME, SPECTRUM_CHANNELS
from core.layers import Conv, Mask
from vocoder.decoder import Vocoder
from vocoder.generator import POST_SLOPE, STAGE_SLOPE, Generator
from vocoder.istft import InverseStft
from vocoder.windowed.blocks import FrameBlock, RowBlock
from vocoder.windowed.geometry import LOW_RATE, MARGIN, RATES, SHIFT, row_sizes
from vocoder.windowed.layers import FoldedConv, Rows, SineSnake, SnakeForm, StyleRows, moments
from vocoder.windowed.upsample import Interleave, PolyphaseConv, RowUpsample, phase_channel


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

    def __init__(self, generator: Generator, index: int, divisor: float, styles: StyleRows, form: SnakeForm, apart: bool) -> None:
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


class WindowedVocoder(nn.Module):
    """A frozen copy of a Vocoder's weights on windows; see the module. `apart`: ready for int8 inputs, see SnakeConv."""

    def __init__(self, vocoder: Vocoder, hidden_dim: int, form: SnakeForm | None = None, apart: bool = False) -> None:
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


class WindowedTrunk(WindowedVocoder):
    """The same, ending before conv_post: for a tail on the host."""

    def forward(self, features: Tensor, style: Tensor) -> Tensor:
        """As WindowedVocoder -> trunk [1, C, R, 6 W + 1], see `trunk`."""
        return self.trunk(features, style)[0]
