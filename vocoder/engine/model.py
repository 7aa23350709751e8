"""The variant itself: packed features to a waveform, built from a Vocoder and equal to it up to rounding.

model = EngineVocoder(vocoder, Geometry.of(row_frames=40), hidden_dim)
waveform = model(pack_rows(inputs, bucket=79, geometry=model.geometry), style)      # [1, 1, 1, 600 * bucket]
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipeline.blocks import concatenate
from pipeline.contract import FRAME_SAMPLES, HOP_SAMPLES, SPECTRUM_CHANNELS
from pipeline.layers import Mask
from vocoder.decoder import Vocoder
from vocoder.engine.blocks import FrameBlock, RowBlock
from vocoder.engine.geometry import POST_REACH, Geometry
from vocoder.engine.layers import CosineSnake, FoldedConv, Rows, StyleRows, moments
from vocoder.engine.upsample import RowDownsample, RowUpsample
from vocoder.generator import POST_SLOPE, STAGE_SLOPE, Generator
from vocoder.istft import InverseStft

FACTORS = {10: (2, 5), 6: (2, 3)}  # of the upsampling strides; 5 alone is not native


def trimmed(x: Tensor, left: int, right: int) -> Tensor:
    """x [1, C, R, W] without `left` and `right` columns."""
    return x[..., left:-right] if right else x[..., left:]


def own_columns(width: int, left: int, right: int) -> Tensor:
    """[1, 1, 1, width]: 0 on the halo, 1 on what is the row's own."""
    return torch.cat([torch.zeros(left), torch.ones(width - left - right), torch.zeros(right)]).view(1, 1, 1, width)


def with_halo(x: Tensor, columns: int) -> Tensor:
    """Rows x [1, C, R, W] between the last columns of the row before and the first ones of the row after: [1, C, R, W + 2 columns]."""
    before = F.pad(x[..., -columns:], (0, 0, 1, 0))[:, :, :-1]  # zeros before the first row
    after = F.pad(x[..., :columns], (0, 0, 0, 1))[:, :, 1:]
    return torch.cat([before, x, after], dim=3)


class Stage(nn.Module):
    """Upsampling, the spectrum's branch, the mean of three residual blocks (left a sum)."""

    def __init__(self, generator: Generator, index: int, divisor: float, styles: StyleRows, form: nn.Module) -> None:
        super().__init__()
        count = generator.blocks_per_stage
        up = generator.ups[index]
        self.up = RowUpsample(up, FACTORS[up.stride[1]], divisor)
        noise = generator.noise_convs[index]
        self.noise_conv = FoldedConv(noise) if noise.stride[1] == 1 else RowDownsample(noise)
        self.noise_block = RowBlock(generator.noise_res[index], styles, form)
        own = generator.resblocks[index * count : (index + 1) * count]
        self.blocks = nn.ModuleList(RowBlock(block, styles, form) for block in own)

    def source(self, spectrum: Tensor, rows: Rows, styles: tuple[Tensor, ...]) -> Tensor:
        """The spectrum's branch, [1, C, R, W] with its own halo."""
        x = self.noise_conv(spectrum)
        return self.noise_block(x, moments(x, rows), rows, styles)

    def mixed(self, x: Tensor, rows: Rows, styles: tuple[Tensor, ...]) -> Tensor:
        """Three times the mean of the parallel blocks, masked."""
        found = moments(x, rows)
        total = self.blocks[0](x, found, rows, styles)
        for block in self.blocks[1:]:
            total = total + block(x, found, rows, styles)
        return total * rows.inside


class RowInverse(nn.Module):
    """Rows to one line, then the inverse STFT; fp32 in every export."""

    def __init__(self) -> None:
        super().__init__()
        self.inverse = InverseStft()

    def forward(self, x: Tensor, inside: Tensor) -> Tensor:
        """x [1, 22, R, W], inside [1, 1, R, W] -> [1, 1, 1, 600 * bucket]: the last frame of the last row is never an utterance's."""
        line = x.reshape(1, SPECTRUM_CHANNELS, 1, -1)  # [1, 22, 1, R * W]
        signal = self.inverse(line, Mask.of(inside.reshape(1, 1, 1, -1)))
        return signal[..., : HOP_SAMPLES - FRAME_SAMPLES]


class EngineVocoder(nn.Module):
    """A frozen copy of a Vocoder's weights in rows; see the module."""

    def __init__(self, vocoder: Vocoder, geometry: Geometry, hidden_dim: int, form: nn.Module | None = None) -> None:
        super().__init__()
        self.geometry, self.sizes = geometry, geometry.sizes(hidden_dim)
        form, styles, generator = form or CosineSnake(), StyleRows(), vocoder.generator
        self.f0_conv, self.energy_conv, self.residual = (FoldedConv(conv) for conv in (vocoder.F0_conv, vocoder.N_conv, vocoder.asr_res[0]))
        self.encode = FrameBlock(vocoder.encode, styles)
        self.decode = nn.ModuleList(FrameBlock(block, styles) for block in vocoder.decode)
        self.width = vocoder.decode[-1].conv1.out_channels
        count = float(generator.blocks_per_stage)
        self.first = Stage(generator, 0, 1.0, styles, form)
        self.last = Stage(generator, 1, count, styles, form)
        self.conv_post = FoldedConv(generator.conv_post, torch.full((generator.conv_post.in_channels,), count), padded=False)
        self.styles, self.stft = styles.product(), RowInverse()
        self._constants()

    def _constants(self) -> None:
        """Static masks of every kind of row."""
        g, (left, right), noise = self.geometry, self.geometry.last, self.geometry.last_noise
        self.register_buffer("own_first", own_columns(g.first_width + 2 * g.first, g.first, g.first))
        self.register_buffer("own_first_noise", own_columns(g.first_noise_width, g.first_noise, g.first_noise))
        self.register_buffer("own_last", own_columns(g.last_width + left + right, left, right))
        self.register_buffer("own_last_noise", own_columns(g.last_noise_width, *noise))
        self.register_buffer("first_column", own_columns(g.last_width + left + right, left, g.last_width + right - 1))
        self.register_buffer("twice", torch.ones(1, 1, 1, 2))

    def forward(self, features: Tensor, style: Tensor) -> Tensor:
        """features [1, channels, 1, bucket + 1], style [1, style_dim, 1, 1] -> waveform [1, 1, 1, 600 * bucket]."""
        asr, f0, energy, mask, spectrum, first, last = features.split(self.sizes, dim=1)
        g, styles = self.geometry, self.styles(style)
        spectrum = self._slab(spectrum, SPECTRUM_CHANNELS, g.spectrum_width)
        x = self._frames(asr, f0.reshape(1, 1, 1, -1), energy.reshape(1, 1, 1, -1), mask, styles)  # [1, C, 1, 2 (bucket + 1)]
        x = with_halo(x.reshape(1, self.width, -1, 2 * g.row_frames), g.fold)  # [1, C, R, 2 P + halos]
        x = self._first(x, spectrum, self._slab(first, 1, g.first_noise_width), styles)
        x, inside = self._last(x, spectrum, self._slab(last, 1, g.last_noise_width), styles)
        left, right = g.last
        post = trimmed(F.leaky_relu(x, POST_SLOPE), left - POST_REACH, right - POST_REACH)
        return self.stft(self.conv_post(post), trimmed(inside, left, right))

    def _slab(self, slab: Tensor, channels: int, width: int) -> Tensor:
        # [1, n, 1, bucket + 1] -> [1, channels, R, width up to whole channels] -> [1, channels, R, width]
        whole = self.geometry.slab(width) * self.geometry.row_frames
        return slab.reshape(1, channels, -1, whole)[..., :width]

    def _frames(self, asr: Tensor, f0: Tensor, energy: Tensor, mask: Tensor, styles: tuple[Tensor, ...]) -> Tensor:
        """The decoder at the frame rate; what stands before the generator, at twice that rate."""
        rows = Rows.of(mask, mask)
        double = F.conv_transpose2d(mask, self.twice, None, (1, 2))  # [1, 1, 1, 2 (bucket + 1)]
        wide = Rows(double, F.conv_transpose2d(rows.weight, self.twice, None, (1, 2)), rows.per_row * 0.5**0.5)
        f0, energy = self.f0_conv(f0) * mask, self.energy_conv(energy) * mask  # [1, 1, 1, bucket + 1]
        residual = self.residual(asr) * mask
        x = self.encode(concatenate(asr, f0, energy), rows, rows, styles)
        for block in self.decode:
            x = block(concatenate(x, residual, f0, energy), rows, rows if block.pool is None else wide, styles)
        return x * double

    def _first(self, x: Tensor, spectrum: Tensor, inside: Tensor, styles: tuple[Tensor, ...]) -> Tensor:
        g = self.geometry
        more = g.first_noise - g.first
        source = self.first.source(spectrum, Rows.of(inside, inside * self.own_first_noise), styles)
        x = self.first.up(F.leaky_relu(x, STAGE_SLOPE)) + trimmed(source, more, more)  # [1, C, R, 20 P + halos]
        inside = trimmed(inside, more, more)
        x = self.first.mixed(x, Rows.of(inside, inside * self.own_first), styles)
        return trimmed(x, g.first - g.low, g.first - g.low)

    def _last(self, x: Tensor, spectrum: Tensor, inside: Tensor, styles: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        g = self.geometry
        (left, right), (noise_left, noise_right) = g.last, g.last_noise
        spectrum = trimmed(spectrum, g.spectrum - noise_left, g.spectrum - noise_right)
        source = self.last.source(spectrum, Rows.of(inside, inside * self.own_last_noise), styles)
        cut = (noise_left - left, noise_right - right)
        inside = trimmed(inside, *cut)
        x = self._reflected(self.last.up(F.leaky_relu(x, STAGE_SLOPE)), inside, left)
        return self.last.mixed(x + trimmed(source, *cut), Rows.of(inside, inside * self.own_last), styles), inside

    def _reflected(self, x: Tensor, inside: Tensor, left: int) -> Tensor:
        """Column 0 of the utterance becomes what upstream's reflection padding puts there: column 2."""
        begins = inside[..., left : left + 1] - inside[..., left - 1 : left]  # [1, 1, R, 1]: 1 in the first row, else 0
        change = x[:, :, :1, left + 2 : left + 3] - x[:, :, :1, left : left + 1]  # [1, C, 1, 1]
        return x + change * (begins * self.first_column)
