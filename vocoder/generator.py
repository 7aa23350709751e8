"""The generator: decoder features and the harmonic spectrum to log-magnitude and phase, then samples.

    waveform = Generator(config)(x, style, spectrum, mask)

Source: upstream kokoro/istftnet.py, Generator and AdaINResBlock1, in (B, C, 1, S). Trunk up to `conv_post`; the tail (conv_post, exp, sin,
cos, inverse STFT) stays in fp32 in every export.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.config import KokoroConfig
from core.contract import SPECTRUM_CHANNELS
from core.layers import AdaIN1d, Conv, ConvTranspose, Mask, Snake, SnakeList, masked
from core.modules import Modules
from vocoder.istft import InverseStft
from vocoder.source import HarmonicSource

STAGE_SLOPE, POST_SLOPE = 0.1, 0.01  # upstream uses leaky_relu's default slope before conv_post
# AdaIN's scales by what real Kokoro shows there. The spectrum's branch begins with deviations from 0.0024, whose squares fp16 hardly
# holds; its convolutions and the trunk peak at 30 and 218, and 256 squared is infinite.
QUIET_SCALE, PLAIN_SCALE, LOUD_SCALE = 8.0, 1.0, 0.25


class AdaINResBlock1(nn.Module):
    """Three residual pairs of (AdaIN, Snake, convolution), the first of each pair dilated. `scales`: of the norms of a pair."""

    def __init__(
        self, channels: int, kernel: int, dilations: tuple[int, ...], style_dim: int, scales: tuple[float, float] = (LOUD_SCALE, LOUD_SCALE)
    ) -> None:
        super().__init__()
        self.convs1 = Modules(Conv(channels, channels, kernel, dilation=d, padding=d * (kernel - 1) // 2) for d in dilations)
        self.convs2 = Modules(Conv(channels, channels, kernel, padding=(kernel - 1) // 2) for _ in dilations)
        self.adain1, self.adain2 = (Modules(AdaIN1d(style_dim, channels, scale) for _ in dilations) for scale in scales)
        self.alpha1 = SnakeList(Snake(channels) for _ in dilations)
        self.alpha2 = SnakeList(Snake(channels) for _ in dilations)

    def forward(self, x: Tensor, style: Tensor, mask: Mask | None) -> Tensor:
        """x [B, C, 1, S] -> the same shape."""
        pairs = zip(self.convs1, self.convs2, self.adain1, self.adain2, self.alpha1, self.alpha2, strict=True)
        for conv1, conv2, norm1, norm2, snake1, snake2 in pairs:
            h = conv1(masked(snake1(norm1(x, style, mask)), mask))
            h = conv2(masked(snake2(norm2(h, style, mask)), mask))
            x = h + x
        return x


class Generator(nn.Module):
    """Responsibilities: 1. two upsampling stages that mix in the harmonic spectrum; 2. the fp32 tail. The source is outside."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        net, style_dim = config.istftnet, config.style_dim
        widths = [net.upsample_initial_channel // 2**i for i in range(len(net.upsample_rates) + 1)]
        self.m_source = HarmonicSource()
        self.ups: Modules[ConvTranspose] = Modules()
        self.noise_convs: Modules[Conv] = Modules()
        self.noise_res: Modules[AdaINResBlock1] = Modules()
        self.resblocks: Modules[AdaINResBlock1] = Modules()
        for i, (rate, kernel) in enumerate(zip(net.upsample_rates, net.upsample_kernel_sizes, strict=True)):
            width = widths[i + 1]
            self.ups.append(ConvTranspose(widths[i], width, kernel, stride=rate, padding=(kernel - rate) // 2))
            stride = math.prod(net.upsample_rates[i + 1 :])  # spectrum columns to one step of this stage
            last = i + 1 == len(net.upsample_rates)
            self.noise_convs.append(
                Conv(SPECTRUM_CHANNELS, width, 1, weight_norm=False)
                if last
                else Conv(SPECTRUM_CHANNELS, width, 2 * stride, stride=stride, padding=(stride + 1) // 2, weight_norm=False)
            )
            self.noise_res.append(AdaINResBlock1(width, 11 if last else 7, (1, 3, 5), style_dim, (QUIET_SCALE, PLAIN_SCALE)))
            for k, d in zip(net.resblock_kernel_sizes, net.resblock_dilation_sizes, strict=True):
                self.resblocks.append(AdaINResBlock1(width, k, d, style_dim))
        self.blocks_per_stage = len(net.resblock_kernel_sizes)
        self.rates = net.upsample_rates
        self.conv_post = Conv(widths[-1], SPECTRUM_CHANNELS, 7, padding=3)
        self.stft = InverseStft()

    def forward(self, x: Tensor, style: Tensor, spectrum: Tensor, mask: Mask | None) -> Tensor:
        """x [B, C, 1, 2F], spectrum [B, 22, 1, 120F + 1], mask at rate 2F -> waveform [B, 1, 1, 600F]."""
        masks = self._stage_masks(mask)
        x = self.conv_post(self._trunk(x, style, spectrum, masks).to(self.conv_post.weight.dtype))  # [B, 22, 1, 120F + 1]
        return self.stft(x, masks[-1])

    def trunk(self, x: Tensor, style: Tensor, spectrum: Tensor, mask: Mask | None) -> Tensor:
        """As forward, up to what conv_post reads: [B, C, 1, 120F + 1]. The tail behind it may run on the host (vocoder/host_tail.py)."""
        return self._trunk(x, style, spectrum, self._stage_masks(mask))

    def _trunk(self, x: Tensor, style: Tensor, spectrum: Tensor, masks: list[Mask | None]) -> Tensor:
        spectrum = masked(spectrum, masks[-1])
        for i, mask in enumerate(masks):
            x = self.ups[i](F.leaky_relu(x, STAGE_SLOPE))  # [B, C / 2, 1, rate * S]
            if i + 1 == len(masks):
                x = torch.cat([x[..., 1:2], x], dim=3)  # reflection pad: [B, C, 1, 120F + 1]
            source = self.noise_res[i](masked(self.noise_convs[i](spectrum), mask), style, mask)
            x = masked(x + source, mask)
            x = masked(self._averaged_blocks(i, x, style, mask), mask)
        return F.leaky_relu(x, POST_SLOPE)

    def _averaged_blocks(self, stage: int, x: Tensor, style: Tensor, mask: Mask | None) -> Tensor:
        """Mean of the stage's parallel residual blocks."""
        first, *others = self.resblocks[stage * self.blocks_per_stage : (stage + 1) * self.blocks_per_stage]
        total = first(x, style, mask)
        for block in others:
            total = total + block(x, style, mask)
        return total * (1 / self.blocks_per_stage)

    def _stage_masks(self, mask: Mask | None) -> list[Mask | None]:
        """The mask after each upsampling, the last one with the reflection pad's column."""
        if mask is None:
            return [None] * len(self.rates)
        masks: list[Mask | None] = []
        for rate in self.rates:
            mask = mask.upsampled(rate)
            masks.append(mask)
        masks[-1] = Mask.of(torch.cat([mask.values[..., :1], mask.values], dim=3))  # [B, 1, 1, 120F + 1]
        return masks
