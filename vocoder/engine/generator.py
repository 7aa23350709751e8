"""The generator in rows: two upsampling stages of residual blocks, and the fp32 tail.

    waveform = EngineGenerator(vocoder.generator, "sine")(x, affines, phased, masks, weights)

Residual connections, dilations and weights are vocoder/generator.py's; only how time is laid out and what is folded into what differ.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipeline.contract import COLUMNS_PER_FRAME, FRAME_SAMPLES, HOP_SAMPLES, N_FFT, SPECTRUM_CHANNELS
from pipeline.errors import InputError
from pipeline.layers import AdaIN1d
from vocoder.engine.layers import BlockStatistics, Interleave, SnakeConv, assign
from vocoder.engine.layout import HALO_FIRST, HALO_LAST, MASK_CHANNEL, ONSET_CHANNEL, PHASED
from vocoder.generator import POST_SLOPE, STAGE_SLOPE, AdaINResBlock1, Generator
from vocoder.istft import BINS, InverseStft

Affine = tuple[Tensor, Tensor]  # gain, shift


class EngineResBlock(nn.Module):
    """Three pairs of SnakeConv with a shortcut around each pair."""

    def __init__(self, block: AdaINResBlock1, form: str) -> None:
        super().__init__()
        pairs = zip(block.convs1, block.convs2, block.alpha1, block.alpha2, strict=True)
        self.units = nn.ModuleList(
            SnakeConv(conv, snake.alpha, form) for one, two, first, second in pairs for conv, snake in ((one, first), (two, second))
        )
        self.norms = [norm for pair in zip(block.adain1, block.adain2, strict=True) for norm in pair]

    def affines(self, block: int) -> Iterator[tuple[AdaIN1d, Tensor, float]]:
        """What StyleBank needs: the statistics come as 1 / (sqrt(block) std)."""
        for norm, unit in zip(self.norms, self.units, strict=True):
            yield norm, unit.factor, block**0.5

    def forward(self, x: Tensor, affines: list[Affine], first: Affine, statistics: "StageStatistics", mask: Tensor) -> Tensor:
        """x [1, C, R, W]; `first`: statistics of x, which parallel blocks share."""
        for index in range(0, len(self.units), 2):
            h = self.units[index](x, *affines[index], first if index == 0 else statistics(x), mask)
            x = x + self.units[index + 1](h, *affines[index + 1], statistics(h), mask)
        return x


class StageStatistics:
    """BlockStatistics with a stage's weights."""

    def __init__(self, blocks: BlockStatistics, weights: Tensor, onset: Tensor | None, onset_block: int) -> None:
        self.blocks, self.given = blocks, (weights, onset, onset_block)

    def __call__(self, x: Tensor) -> Affine:
        return self.blocks(x, *self.given)


class PhaseUpsample(nn.Module):
    """A transposed convolution of stride r and kernel 2r as one of stride 2 and kernel 4 to r / 2 phases, and their interleave."""

    def __init__(self, up: nn.ConvTranspose2d, factor: float) -> None:
        super().__init__()
        rate, kernel = up.stride[1], up.kernel_size[1]
        if kernel != 2 * rate or rate % 2 or up.padding[1] != rate // 2:
            raise InputError(
                f"the engine variant needs upsamplers of even rate r and kernel 2 r; this one has rate {rate}, kernel {kernel}"
            )
        phases, inner, out = rate // 2, up.in_channels, up.out_channels
        weight = up.weight.detach().double().reshape(inner, out, 4, phases).transpose(2, 3)  # w[.., phases * u + j] -> [.., j, u]
        self.up = nn.ConvTranspose2d(inner, out * phases, (1, 4), stride=(1, 2), padding=(0, 1))
        assign(self.up, weight.reshape(inner, out * phases, 1, 4) * factor, up.bias.detach().repeat_interleave(phases))
        self.interleave = Interleave(out, phases)

    def forward(self, x: Tensor) -> Tensor:
        """[1, C, R, W] -> [1, out, R, r W]."""
        return self.interleave(self.up(x))


class EngineIstft(nn.Module):
    """InverseStft for rows: [1, 22, R, 120 (core + 4)] -> [1, 1, R, 600 core]."""

    def __init__(self, stft: InverseStft) -> None:
        super().__init__()
        self.register_buffer("kernel", stft.kernel.clone(), persistent=False)
        self.register_buffer("window_power", stft.window_power.clone(), persistent=False)

    def forward(self, x: Tensor, inside: Tensor) -> Tensor:
        magnitude = torch.exp(x[:, :BINS]) * inside  # [1, 11, R, W]
        phase = torch.sin(x[:, BINS:])
        spectrum = torch.cat([magnitude * torch.cos(phase), magnitude * torch.sin(phase)], dim=1)  # [1, 22, R, W]
        trim = {"stride": (1, HOP_SAMPLES), "padding": (0, HALO_LAST * FRAME_SAMPLES + HOP_SAMPLES)}
        envelope = F.conv_transpose2d(inside, self.window_power, **trim)
        return (F.conv_transpose2d(spectrum, self.kernel, **trim) / envelope.clamp(min=1.0))[..., : N_FFT // 2 - 3 * HOP_SAMPLES]


class EngineGenerator(nn.Module):
    """Responsibilities: 1. the trunk, in fp16 on the engine; 2. the fp32 tail."""

    def __init__(self, generator: Generator, form: str) -> None:
        super().__init__()
        rates = tuple(generator.rates)
        if rates != (10, 6) or generator.blocks_per_stage < 1:
            raise InputError(f"the engine variant is laid out for upsample_rates (10, 6), this checkpoint has {rates}")
        count = generator.blocks_per_stage
        self.blocks = tuple(2 * int(torch.tensor(rates[: i + 1]).prod()) for i in range(2))  # columns of a frame: 20, 120
        self.ups = nn.ModuleList([PhaseUpsample(generator.ups[0], 1.0), PhaseUpsample(generator.ups[1], 1 / count)])
        self.noise_convs = nn.ModuleList([_phased_conv(generator.noise_convs[0]), _phased_conv(generator.noise_convs[1])])
        self.noise_res = nn.ModuleList(EngineResBlock(block, form) for block in generator.noise_res)
        self.resblocks = nn.ModuleList(EngineResBlock(block, form) for block in generator.resblocks)
        self.statistics = nn.ModuleList(BlockStatistics(block) for block in self.blocks)
        self.to_20 = nn.ModuleList([Interleave(PHASED * 24, 5), Interleave(PHASED * 6, 4)])
        self.to_120 = nn.ModuleList([Interleave(PHASED * 2, 3), Interleave(PHASED, 2)])
        self.conv_post = nn.Conv2d(generator.conv_post.in_channels, SPECTRUM_CHANNELS, (1, 7), padding=(0, 3))
        assign(self.conv_post, generator.conv_post.weight.detach().double() / count, generator.conv_post.bias.detach())
        self.stft = EngineIstft(generator.stft)
        self.count = count

    def affines(self) -> Iterator[tuple[AdaIN1d, Tensor, float]]:
        """Of both stages: the noise block's, then each parallel block's."""
        for stage in range(2):
            for block in (self.noise_res[stage], *self.resblocks[stage * self.count : (stage + 1) * self.count]):
                yield from block.affines(self.blocks[stage])

    def forward(self, x: Tensor, affines: list[Affine], phases: Tensor, mask: Tensor, weights: tuple[Tensor, Tensor]) -> Tensor:
        """x [1, C, R, 2 (core + 12)] activated and masked; phases [1, 24 * 120, R, core + 12]; mask [1, 1, R, 20 (core + 12)];
        weights [1, 1, R, core + 12] and [1, 1, R, core + 4] -> waveform [1, 1, R, 600 core].
        """
        taken = iter(affines)
        phased = self.to_20[1](self.to_20[0](phases))  # [1, 24 * 6, R, 20 (core + 12)]
        inside, rows = mask > 0.5, [w.reshape(1, 1, -1, 1) for w in weights]
        statistics = StageStatistics(self.statistics[0], rows[0], None, 0)
        x = self.ups[0](x) + self._source(0, phased, taken, statistics, inside)
        x = F.leaky_relu(self._stage(0, x, taken, statistics, inside) * mask, STAGE_SLOPE)
        trim = self.blocks[0] * (HALO_FIRST - HALO_LAST)
        x, phased = x[..., trim:-trim], phased[..., trim:-trim]
        phased = self.to_120[1](self.to_120[0](phased))  # [1, 24, R, 120 (core + 4)]
        mask = phased[:, MASK_CHANNEL : MASK_CHANNEL + 1]
        inside, onset = mask > 0.5, phased[:, ONSET_CHANNEL:] > 0.5
        onsets = phased[:, ONSET_CHANNEL:].reshape(1, 1, -1, self.blocks[1])[..., self.blocks[1] - 1 :] > 0.5  # [1, 1, R n, 1]
        statistics = StageStatistics(self.statistics[1], rows[1], onsets, HALO_LAST - 1)
        x = self.ups[1](x)
        reflected = x[:, :, :1, HALO_LAST * COLUMNS_PER_FRAME + 1 : HALO_LAST * COLUMNS_PER_FRAME + 2]  # [1, C, 1, 1]
        x = torch.where(onset, reflected, x) + self._source(1, phased, taken, statistics, inside)
        x = F.leaky_relu(self._stage(1, x, taken, statistics, inside) * mask, POST_SLOPE)
        return self.stft(self.conv_post(x.to(self.conv_post.weight.dtype)), mask.to(self.conv_post.weight.dtype))

    def _source(self, stage: int, phased: Tensor, taken: Iterator[Affine], statistics: StageStatistics, inside: Tensor) -> Tensor:
        """The harmonic spectrum at a stage's rate, through its residual block."""
        source, block = self.noise_convs[stage](phased), self.noise_res[stage]
        return block(source, [next(taken) for _ in block.units], statistics(source), statistics, inside)

    def _stage(self, stage: int, x: Tensor, taken: Iterator[Affine], statistics: StageStatistics, inside: Tensor) -> Tensor:
        """Sum of the parallel blocks; the 1 / count of their mean is in the weights that read it."""
        shared = statistics(x)
        blocks = self.resblocks[stage * self.count : (stage + 1) * self.count]
        first, *others = [block(x, [next(taken) for _ in block.units], shared, statistics, inside) for block in blocks]
        for other in others:
            first = first + other
        return first


def _phased_conv(conv: nn.Conv2d) -> nn.Conv2d:
    """A noise convolution on phased columns: kernel 2 s, stride s, padding (s + 1) / 2 on [22, 1, n] as kernel 3 on [24 s, R, n / s].

    Phase j of channel c stands at c s + place(j), as layout.py lays the two finest interleaves (3, 2) down; column -1 is upstream's column 0.
    """
    stride, out = conv.stride[1], conv.out_channels
    kernel = 3 if stride > 1 else 1
    phased = nn.Conv2d(PHASED * stride, out, (1, kernel), padding=(0, kernel // 2))
    weight = torch.zeros(out, PHASED, stride, kernel, dtype=torch.float64)
    for tap in range(conv.kernel_size[1]):
        column = tap - conv.padding[1] - (1 if stride > 1 else 0)  # of the tap, counted from the first of the output's block
        block, phase = divmod(column, stride)
        place = (phase % 2) * 3 + phase // 2 if stride > 1 else 0
        weight[:, :SPECTRUM_CHANNELS, place, block + kernel // 2] = conv.weight.detach().double()[:, :, 0, tap]
    assign(phased, weight.reshape(out, PHASED * stride, 1, kernel), conv.bias.detach())
    return phased
