"""The vocoder in rows, equal to vocoder.decoder.Vocoder, built from one.

waveform = EngineVocoder(vocoder, form=SINE)(features, style)   # features: vocoder.engine.layout.pack_rows
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipeline.blocks import HALF_POWER, LEAKY_SLOPE, AdainResBlk1d, concatenate
from pipeline.layers import NORM_EPSILON, AdaIN1d
from vocoder.decoder import Vocoder
from vocoder.engine.chips import SINE
from vocoder.engine.generator import Affine, EngineGenerator
from vocoder.engine.layers import Repeat, StyleBank, assign
from vocoder.engine.layout import HALO_FIRST, HALO_INPUT, HALO_LAST, RowLayout
from vocoder.generator import STAGE_SLOPE


def normalized(x: Tensor, affine: Affine, weights: Tensor) -> Tensor:
    """AdaIN with statistics weighted column by column: x [1, C, R, W], weights [1, 1, R, W] of sum 1. For the short axes of the decoder."""
    gain, shift = affine
    centred = x - (x * weights).sum(dim=(2, 3), keepdim=True)
    variance = (centred * centred * weights).sum(dim=(2, 3), keepdim=True)
    return centred * (torch.rsqrt(variance + NORM_EPSILON) * gain) + shift


class EngineAdainBlock(nn.Module):
    """AdainResBlk1d in rows: 1 / sqrt(2) in the weights, the doubled shortcut as a transposed convolution."""

    def __init__(self, block: AdainResBlk1d) -> None:
        super().__init__()
        self.norms = [block.norm1, block.norm2]
        self.conv1, self.pool = block.conv1, block.pool
        inner, out = block.conv1.in_channels, block.conv1.out_channels
        self.conv2 = nn.Conv2d(out, out, (1, 3), padding=(0, 1))
        assign(self.conv2, block.conv2.weight.detach().double() * HALF_POWER, block.conv2.bias.detach().double() * HALF_POWER)
        shortcut = torch.eye(out).view(out, inner, 1, 1) if block.conv1x1 is None else block.conv1x1.weight.detach()
        if block.pool is None:
            self.shortcut = nn.Conv2d(inner, out, 1, bias=False)
            assign(self.shortcut, shortcut.double() * HALF_POWER, None)
        else:
            self.shortcut = nn.ConvTranspose2d(inner, out, (1, 2), stride=(1, 2), bias=False)
            assign(self.shortcut, shortcut.double().transpose(0, 1).repeat(1, 1, 1, 2) * HALF_POWER, None)

    def affines(self) -> Iterator[tuple[AdaIN1d, Tensor, float]]:
        """What StyleBank needs."""
        for norm in self.norms:
            yield norm, torch.ones(norm.fc.channels), 1.0

    def forward(self, x: Tensor, affines: list[Affine], masks: tuple[Tensor, Tensor], weights: tuple[Tensor, Tensor]) -> Tensor:
        """x [1, inner, R, W] -> [1, out, R, W or 2W]; masks and weights before and after the block's upsampling."""
        h = F.leaky_relu(normalized(x, affines[0], weights[0]), LEAKY_SLOPE) * masks[0]
        if self.pool is not None:
            h = self.pool(h) * masks[1]  # [1, inner, R, 2W]
        h = F.leaky_relu(normalized(self.conv1(h), affines[1], weights[1]), LEAKY_SLOPE) * masks[1]
        return self.conv2(h) + self.shortcut(x)


class EngineVocoder(nn.Module):
    """Responsibilities: 1. unpack rows; 2. the decoder at the frame rate; 3. hand it to the generator with ever smaller halos."""

    def __init__(self, vocoder: Vocoder, form: str = SINE) -> None:
        super().__init__()
        self.layout = RowLayout(vocoder.asr_res[0].in_channels)
        self.prosody = nn.Conv2d(4, 2, (1, 3), padding=(0, 1))
        assign(self.prosody, *_prosody(vocoder))
        self.asr_res = vocoder.asr_res[0]
        self.encode = EngineAdainBlock(vocoder.encode)
        self.decode = nn.ModuleList(EngineAdainBlock(block) for block in vocoder.decode)
        self.generator = EngineGenerator(vocoder.generator, form)
        own = (block.affines() for block in (self.encode, *self.decode))
        self.style = StyleBank([affine for part in (*own, self.generator.affines()) for affine in part])
        self.doubled, self.halved = Repeat(2), Repeat(2, 0.5)
        self.to_20 = nn.ModuleList([Repeat(5), Repeat(4)])

    def forward(self, features: Tensor, style: Tensor) -> Tensor:
        """features [1, channels, R, core + 36], style [1, style_dim, 1, 1] -> waveform [1, 1, R, 600 core]."""
        asr, pairs, mask, weight, weight_last, phases = features.split(self.layout.sizes, dim=1)
        affines = self.style(style)
        prosody, residual = self.prosody(pairs), self.asr_res(asr)  # [1, 2, R, W], [1, 64, R, W]
        same, weights = (mask, mask), (weight, weight)
        x = self.encode(concatenate(asr, prosody), affines[0:2], same, weights)
        *blocks, last = self.decode
        for number, block in enumerate(blocks, start=1):
            x = block(concatenate(x, residual, prosody), affines[2 * number : 2 * number + 2], same, weights)
        used = 2 * len(self.decode) + 2
        doubled = (mask, self.doubled(mask)), (weight, self.halved(weight))
        x = last(concatenate(x, residual, prosody), affines[used - 2 : used], *doubled)  # [1, 512, R, 2W]
        x = F.leaky_relu(x * doubled[0][1], STAGE_SLOPE)
        first, final = HALO_INPUT - HALO_FIRST, HALO_INPUT - HALO_LAST
        fine = self.to_20[1](self.to_20[0](mask[..., first:-first]))  # [1, 1, R, 20 (core + 12)]
        rows = weight[..., first:-first], weight_last[..., final:-final]
        return self.generator(x[..., 2 * first : -2 * first], affines[used:], phases[..., first:-first], fine, rows)


def _prosody(vocoder: Vocoder) -> tuple[Tensor, Tensor]:
    """F0_conv and N_conv (kernel 3, stride 2) as one convolution over both values of a frame: [2, 4, 1, 3] and its bias."""
    weight = torch.zeros(2, 4, 1, 3, dtype=torch.float64)
    for row, conv in enumerate((vocoder.F0_conv, vocoder.N_conv)):
        left, middle, right = conv.weight.detach().double().flatten()
        weight[row, 2 * row + 1, 0, 0] = left  # the frame before, its second value
        weight[row, 2 * row, 0, 1], weight[row, 2 * row + 1, 0, 1] = middle, right
    return weight, torch.cat([vocoder.F0_conv.bias.detach(), vocoder.N_conv.bias.detach()])
