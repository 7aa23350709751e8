"""A vocoder after the published description of mattmireles/kokoro-coreml, for the forecast beside this project's own. Weights are random.

    MMDecoder(), MMGenerator()      # bench.forecast_forms converts both for each bucket

Published (README/Notes/Kokoro-M1-graph-surface-target.md, kokoro-runtime-boundary.md): one package a bucket of 3, 7, 10, 15 and 30 s, 40
frames a second; `decoder_pre` up to the generator, then `decoder_har_post`, whose spectrum of the source is an input; 1-D convolutions; all
in fp16; upstream's sin^2 Snake; AdaIN as two means with gain and shift tiled over time; the inverse spectrum by transposed convolutions.
Their counts for 3 s, 51 conv, 4 conv_transpose, 88 reduce_mean, 96 tile, 50 sin, 48 pow and 1 cos, are those of MMGenerator.
Assumed: fp16 inputs (theirs are fp32; they tried both), no prefix mask (later versions have one), AdaIN in the decoder as in the generator.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.residency_graphs import STYLE, DecodeBlock, LaiTail
from core.contract import COLUMNS_PER_FRAME, PROSODY_PER_FRAME, SPECTRUM_CHANNELS

MM_BUCKETS_S = (3, 7, 10, 15, 30)
EPSILON = 1e-5


class TiledAdaIN(nn.Module):
    """Instance norm from two means; gain and shift from the style, copied along time."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc = nn.Linear(STYLE, 2 * channels)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        gain, shift = (part.expand(-1, -1, x.shape[2]) for part in self.fc(style).unsqueeze(-1).chunk(2, dim=1))  # [1, C, T] each
        centred = x - x.mean(2, keepdim=True)
        scale = torch.rsqrt((centred * centred).mean(2, keepdim=True) + EPSILON)
        return (1 + gain) * (centred * scale) + shift


class SineSnakeBlock(nn.Module):
    """Upstream's residual block: three pairs of AdaIN, Snake as x + sin^2(a x) / a, and convolution."""

    def __init__(self, channels: int, kernel: int, dilations: tuple[int, ...] = (1, 3, 5)) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, dilation=d, padding=d * (kernel - 1) // 2)
            for dilation in dilations
            for d in (dilation, 1)
        )
        self.norms = nn.ModuleList(TiledAdaIN(channels) for _ in self.convs)
        self.register_buffer("alpha", torch.rand(len(self.convs), 1, channels, 1) + 0.5)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        for first in range(0, len(self.convs), 2):
            h = x
            for i in (first, first + 1):
                h, alpha = self.norms[i](h, style), self.alpha[i]
                h = self.convs[i](h + (1 / alpha) * torch.sin(alpha * h) ** 2)
            x = x + h
        return x


class TiledDecodeBlock(DecodeBlock):
    """The decoder's block with that AdaIN."""

    def __init__(self, wide_in: int, wide_out: int, doubles: bool = False) -> None:
        super().__init__(wide_in, wide_out, doubles)
        self.norm1, self.norm2 = TiledAdaIN(wide_in), TiledAdaIN(wide_out)


class MMDecoder(nn.Module):
    """`decoder_pre`: asr [1, 512, F], f0 and energy [1, 2F], style to [1, 512, 2F]. `narrow` divides the widths, for tests."""

    def __init__(self, narrow: int = 1) -> None:
        super().__init__()
        asr, side, inner = 512 // narrow, 64 // narrow, 1024 // narrow
        joined = inner + side + 2
        self.f0, self.energy = nn.Conv1d(1, 1, 3, 2, 1), nn.Conv1d(1, 1, 3, 2, 1)
        self.residual, self.encode = nn.Conv1d(asr, side, 1), TiledDecodeBlock(asr + 2, inner)
        blocks = (TiledDecodeBlock(joined, asr if last else inner, doubles=last) for last in (False, False, False, True))
        self.decode = nn.ModuleList(blocks)

    def forward(self, asr: Tensor, f0: Tensor, energy: Tensor, style: Tensor) -> Tensor:
        f0, energy = self.f0(f0.unsqueeze(1)), self.energy(energy.unsqueeze(1))  # [1, 1, F] each
        residual, x = self.residual(asr), self.encode(torch.cat([asr, f0, energy], 1), style)
        for block in self.decode:
            x = block(torch.cat([x, residual, f0, energy], 1), style)
        return x


class MMGenerator(nn.Module):
    """`decoder_har_post`: x [1, 512, 2F], source spectrum [1, 22, 120F + 1], style to the waveform [1, 1, 600F]."""

    def __init__(self, narrow: int = 1) -> None:
        super().__init__()
        c0, c1, c2 = 512 // narrow, 256 // narrow, 128 // narrow
        self.ups = nn.ModuleList([nn.ConvTranspose1d(c0, c1, 20, 10, 5), nn.ConvTranspose1d(c1, c2, 12, 6, 3)])
        self.noise = nn.ModuleList([nn.Conv1d(SPECTRUM_CHANNELS, c1, 12, 6, 3), nn.Conv1d(SPECTRUM_CHANNELS, c2, 1)])
        self.noise_blocks = nn.ModuleList([SineSnakeBlock(c1, 7), SineSnakeBlock(c2, 11)])
        self.blocks = nn.ModuleList(SineSnakeBlock(c, k) for c in (c1, c2) for k in (3, 7, 11))
        self.tail = LaiTail(c2)

    def forward(self, x: Tensor, spectrum: Tensor, style: Tensor) -> Tensor:
        for i, up in enumerate(self.ups):
            x = up(F.leaky_relu(x, 0.1))
            x = (F.pad(x, (1, 0), mode="reflect") if i else x) + self.noise_blocks[i](self.noise[i](spectrum), style)
            x = (self.blocks[3 * i](x, style) + self.blocks[3 * i + 1](x, style) + self.blocks[3 * i + 2](x, style)) / 3
        return self.tail(F.leaky_relu(x))


def mm_bucket_s(seconds: int) -> int:
    """The smallest bucket that holds that much audio."""
    return next(bucket for bucket in MM_BUCKETS_S if bucket >= seconds)


def mm_shapes(frames: int, narrow: int = 1) -> dict[str, dict[str, tuple]]:
    """Input shapes of both packages: {class name: {input: shape}}."""
    channels, style = 512 // narrow, (1, STYLE)
    prosody = (1, PROSODY_PER_FRAME * frames)
    spectrum = (1, SPECTRUM_CHANNELS, COLUMNS_PER_FRAME * frames + 1)
    return {
        "MMDecoder": {"asr": (1, channels, frames), "f0": prosody, "energy": prosody, "style": style},
        "MMGenerator": {"x": (1, channels, PROSODY_PER_FRAME * frames), "spectrum": spectrum, "style": style},
    }
