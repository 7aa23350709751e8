"""The vocoder: features, style and harmonic spectrum to a waveform, equal to upstream's Decoder at
any padding.

    waveform = Vocoder(config)(asr, f0, energy, style, spectrum, mask)
    # as it is exported
    waveform = PackedVocoder(vocoder, PackedLayout(hidden_dim))(features, style)

Source: upstream kokoro/istftnet.py, Decoder, in (B, C, 1, S) with the source outside.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core import (
    COLUMNS_PER_FRAME,
    HARMONICS,
    HOP_SAMPLES,
    N_FFT,
    PROSODY_PER_FRAME,
    SPECTRUM_CHANNELS,
    AdaIN1d,
    AdainResBlk1d,
    Checkpoint,
    Conv,
    ConvTranspose,
    KokoroConfig,
    Mask,
    Modules,
    PackedLayout,
    Snake,
    SnakeList,
    Uninitialized,
    concatenate,
    masked,
)
from kokoro_ane.vocoder.source import BINS, HarmonicSource, hann, make_synthesis_basis

STAGE_SLOPE, POST_SLOPE = 0.1, 0.01  # upstream uses leaky_relu's default slope before conv_post
# AdaIN's scales, chosen by the values of real Kokoro. The spectrum's branch begins with deviations
# from 0.0024, whose squares fp16 hardly holds; its convolutions and the trunk peak at 30 and 218,
# and 256 squared is infinite.
QUIET_SCALE, PLAIN_SCALE, LOUD_SCALE = 8.0, 1.0, 0.25


class InverseStft(nn.Module):
    """[B, 22, 1, S] log-magnitudes and phase arguments -> [B, 1, 1, 5 (S - 1)] samples."""

    kernel: Tensor
    window_power: Tensor

    def __init__(self) -> None:
        super().__init__()
        kernel = torch.from_numpy(make_synthesis_basis()).view(2 * BINS, 1, 1, N_FFT)
        power = torch.from_numpy(hann() ** 2).float().view(1, 1, 1, N_FFT)
        self.register_buffer("kernel", kernel, persistent=False)
        self.register_buffer("window_power", power, persistent=False)

    def forward(self, x: Tensor, mask: Mask | None) -> Tensor:
        inside = torch.ones_like(x[:, :1]) if mask is None else mask.values.to(x.dtype)
        magnitude = torch.exp(x[:, :BINS])  # [B, 11, 1, S]
        magnitude = magnitude if mask is None else magnitude * inside
        # Upstream's phase is the sine of what conv_post computes.
        phase = torch.sin(x[:, BINS:])
        # [B, 22, 1, S]
        spectrum = torch.cat([magnitude * torch.cos(phase), magnitude * torch.sin(phase)], dim=1)
        stride = (1, HOP_SAMPLES)
        # Half a window at either end is no sample of the utterance.
        trim = (0, N_FFT // 2)
        signal = F.conv_transpose2d(spectrum, self.kernel, stride=stride, padding=trim)
        envelope = F.conv_transpose2d(inside, self.window_power, stride=stride, padding=trim)
        # inside the utterance the envelope is 1.25 to 1.5; outside it only avoids 0 / 0
        return signal / envelope.clamp(min=1.0)


class AdaINResBlock1(nn.Module):
    """Three residual pairs of (AdaIN, Snake, convolution); the first convolution of each pair is
    dilated. `scales` are those of a pair's two norms.
    """

    def __init__(
        self,
        channels: int,
        kernel: int,
        dilations: tuple[int, ...],
        style_dim: int,
        scales: tuple[float, float] = (LOUD_SCALE, LOUD_SCALE),
    ) -> None:
        super().__init__()
        self.convs1 = Modules(
            # as wide as its input
            Conv(channels, channels, kernel, dilation=d, padding=d * (kernel - 1) // 2)
            for d in dilations
        )
        self.convs2 = Modules(
            Conv(channels, channels, kernel, padding=(kernel - 1) // 2) for _ in dilations
        )
        self.adain1, self.adain2 = (
            Modules(AdaIN1d(style_dim, channels, scale) for _ in dilations) for scale in scales
        )
        self.alpha1 = SnakeList(Snake(channels) for _ in dilations)
        self.alpha2 = SnakeList(Snake(channels) for _ in dilations)

    def forward(self, x: Tensor, style: Tensor, mask: Mask | None) -> Tensor:
        """x [B, C, 1, S] -> the same shape."""
        first = zip(self.adain1, self.alpha1, self.convs1, strict=True)
        second = zip(self.adain2, self.alpha2, self.convs2, strict=True)
        for (norm1, snake1, conv1), (norm2, snake2, conv2) in zip(first, second, strict=True):
            h = conv1(masked(snake1(norm1(x, style, mask)), mask))
            h = conv2(masked(snake2(norm2(h, style, mask)), mask))
            x = h + x
        return x


class SourceLayer(nn.Module):
    """The ten weights of the harmonic source under upstream's key. It runs on the host
    (vocoder/source.py) and is in no graph.
    """

    def __init__(self) -> None:
        super().__init__()
        self.l_linear = nn.Linear(HARMONICS, 1)

    @property
    def host(self) -> HarmonicSource:
        """The source in NumPy."""
        return HarmonicSource(
            self.l_linear.weight.detach().numpy().reshape(HARMONICS),
            float(self.l_linear.bias.detach()),
        )

    def compute_spectrum(self, f0_hz: Tensor, noise: np.ndarray) -> Tensor:
        """f0_hz [B, 2F] (0 where unvoiced), noise [B, 600F, 9] -> harmonic spectrum [B, 22, 120F +
        1] in F0's dtype.
        """
        return torch.from_numpy(self.host.compute_spectrum(f0_hz.numpy(), noise)).to(f0_hz.dtype)


class Generator(nn.Module):
    """Responsibilities: 1. two upsampling stages that mix in the harmonic spectrum; 2. the fp32
    tail. The source is not part of the graph.
    """

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        net = config.istftnet
        style_dim = config.style_dim
        # Channels halve with every upsampling.
        widths = [net.upsample_initial_channel // 2**i for i in range(len(net.upsample_rates) + 1)]
        self.m_source = SourceLayer()
        self.ups: Modules[ConvTranspose] = Modules()
        self.noise_convs: Modules[Conv] = Modules()
        self.noise_res: Modules[AdaINResBlock1] = Modules()
        self.resblocks: Modules[AdaINResBlock1] = Modules()
        for i, (rate, kernel) in enumerate(
            zip(net.upsample_rates, net.upsample_kernel_sizes, strict=True)
        ):
            width = widths[i + 1]
            self.ups.append(
                ConvTranspose(widths[i], width, kernel, stride=rate, padding=(kernel - rate) // 2)
            )
            # spectrum columns to one step of this stage: 1 in the last one
            stride = math.prod(net.upsample_rates[i + 1 :])
            last = i + 1 == len(net.upsample_rates)
            # The last stage reads column by column, an earlier one kernels of two strides.
            taps, reach = (1, 0) if last else (2 * stride, (stride + 1) // 2)
            self.noise_convs.append(
                Conv(
                    SPECTRUM_CHANNELS, width, taps, stride=stride, padding=reach, weight_norm=False
                )
            )
            source_kernel = 11 if last else 7
            scales = (QUIET_SCALE, PLAIN_SCALE)
            self.noise_res.append(
                AdaINResBlock1(width, source_kernel, (1, 3, 5), style_dim, scales)
            )
            for k, d in zip(net.resblock_kernel_sizes, net.resblock_dilation_sizes, strict=True):
                self.resblocks.append(AdaINResBlock1(width, k, d, style_dim))
        self.blocks_per_stage = len(net.resblock_kernel_sizes)
        self.rates = net.upsample_rates
        self.conv_post = Conv(widths[-1], SPECTRUM_CHANNELS, 7, padding=3)
        self.stft = InverseStft()

    def forward(self, x: Tensor, style: Tensor, spectrum: Tensor, mask: Mask | None) -> Tensor:
        """x [B, C, 1, 2F], spectrum [B, 22, 1, 120F + 1], mask at rate 2F -> waveform [B, 1, 1,
        600F].
        """
        masks = self.make_stage_masks(mask)
        # [B, 22, 1, 120F + 1]
        x = self.conv_post(
            self.run_trunk(x, style, spectrum, masks).to(self.conv_post.weight.dtype)
        )
        return self.stft(x, masks[-1])

    def run_trunk(
        self, x: Tensor, style: Tensor, spectrum: Tensor, masks: list[Mask | None]
    ) -> Tensor:
        """What conv_post reads, [B, C, 1, 120F + 1]; `masks` are those of `make_stage_masks`."""
        spectrum = masked(spectrum, masks[-1])
        for i, mask in enumerate(masks):
            x = self.ups[i](F.leaky_relu(x, STAGE_SLOPE))  # [B, C / 2, 1, rate * S]
            if i + 1 == len(masks):
                x = torch.cat([x[..., 1:2], x], dim=3)  # reflection pad: [B, C, 1, 120F + 1]
            source = self.noise_res[i](masked(self.noise_convs[i](spectrum), mask), style, mask)
            x = masked(x + source, mask)
            x = masked(self._combine_blocks(i, x, style, mask), mask)
        return F.leaky_relu(x, POST_SLOPE)

    def _combine_blocks(self, stage: int, x: Tensor, style: Tensor, mask: Mask | None) -> Tensor:
        """Mean of the stage's parallel residual blocks."""
        first, *others = self.resblocks[
            stage * self.blocks_per_stage : (stage + 1) * self.blocks_per_stage
        ]
        total = first(x, style, mask)
        for block in others:
            total = total + block(x, style, mask)
        return total * (1 / self.blocks_per_stage)

    def make_stage_masks(self, mask: Mask | None) -> list[Mask | None]:
        """The mask after each upsampling, the last one with the reflection pad's column."""
        if mask is None:
            return [None] * len(self.rates)
        masks: list[Mask | None] = []
        for rate in self.rates:
            mask = mask.upsampled(rate)
            masks.append(mask)
        # [B, 1, 1, 120F + 1]
        masks[-1] = Mask.from_values(torch.cat([mask.values[..., :1], mask.values], dim=3))
        return masks


class Vocoder(nn.Module):
    """Responsibilities: 1. mix text, pitch and energy at the frame rate; 2. pass them to the
    generator. It has upstream's keys.
    """

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        wide = config.decoder.hidden_dim
        residual = config.decoder.asr_res_dim
        style_dim = config.style_dim
        joined = wide + 2 + residual
        self.encode = AdainResBlk1d(config.hidden_dim + 2, wide, style_dim)
        self.decode = Modules(AdainResBlk1d(joined, wide, style_dim) for _ in range(3))
        self.decode.append(
            AdainResBlk1d(
                joined, config.istftnet.upsample_initial_channel, style_dim, upsample=True
            )
        )
        self.F0_conv = Conv(1, 1, 3, stride=2, padding=1)
        self.N_conv = Conv(1, 1, 3, stride=2, padding=1)
        self.asr_res = nn.Sequential(Conv(config.hidden_dim, residual, 1))
        self.generator = Generator(config)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "Vocoder":
        """The checkpoint's vocoder, in float32 and eval mode."""
        with Uninitialized():
            vocoder = cls(checkpoint.config)
        return checkpoint.load_part(vocoder, "decoder")

    @property
    def residual_conv(self) -> Conv:
        """The one convolution of `asr_res`, which upstream keeps in a list."""
        conv = self.asr_res[0]
        assert isinstance(conv, Conv)
        return conv

    def forward(
        self,
        asr: Tensor,
        f0: Tensor,
        energy: Tensor,
        style: Tensor,
        spectrum: Tensor,
        mask: Mask | None = None,
    ) -> Tensor:
        """One utterance or a batch of equal length; `mask=None` means no padding.

        Shapes: asr [B, hidden, 1, F]; f0 (Hz) and energy [B, 1, 1, 2F]; style [B, style_dim, 1, 1];
        spectrum [B, 22, 1, 120F + 1]; mask at rate F. Returns [B, 1, 1, 600F] at 24 kHz. Samples
        beyond the mask mean nothing, and the caller cuts them off.
        """
        return self.generator(*self.decode_frames(asr, f0, energy, style, spectrum, mask))

    def decode_frames(
        self,
        asr: Tensor,
        f0: Tensor,
        energy: Tensor,
        style: Tensor,
        spectrum: Tensor,
        mask: Mask | None,
    ) -> tuple[Tensor, Tensor, Tensor, Mask | None]:
        """The arguments of the generator: x [B, C, 1, 2F], style, spectrum, the mask at rate 2F."""
        # F0 and energy have two values a frame.
        double = mask.upsampled(2) if mask is not None else None
        asr = masked(asr, mask)
        f0 = masked(self.F0_conv(masked(f0, double)), mask)  # [B, 1, 1, F]
        energy = masked(self.N_conv(masked(energy, double)), mask)
        residual = masked(self.asr_res(asr), mask)
        x, _ = self.encode(concatenate(asr, f0, energy), style, mask)
        # Every block reads text, F0 and energy again.
        for block in self.decode:
            x, mask_out = block(masked(concatenate(x, residual, f0, energy), mask), style, mask)
        return masked(x, mask_out), style, spectrum, mask_out


def unpack(features: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, ...]:
    """features [1, channels, 1, B + 1] -> asr [1, hidden, 1, B], f0 and energy [1, 1, 1, 2B], mask
    [1, 1, 1, B], spectrum [1, 22, 1, 120B + 1].
    """
    *parts, spectrum = features.split(sizes, dim=1)
    # [1, 22, 1, 120B + 1]
    spectrum = spectrum.reshape(1, SPECTRUM_CHANNELS, 1, -1)[..., : 1 - COLUMNS_PER_FRAME]
    return *unpack_frames(*parts), spectrum


def unpack_frames(
    asr: Tensor, f0: Tensor, energy: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The packed rows of B + 1 columns -> asr [1, hidden, 1, B], f0 and energy [1, 1, 1, 2B], mask
    [1, 1, 1, B].
    """
    f0 = f0.reshape(1, 1, 1, -1)[..., :-PROSODY_PER_FRAME]  # [1, 1, 1, 2B]
    energy = energy.reshape(1, 1, 1, -1)[..., :-PROSODY_PER_FRAME]
    return asr[..., :-1], f0, energy, mask[..., :-1]


class PackedVocoder(nn.Module):
    """The exported graph: unpack, then Vocoder. No shape, gather or transpose; every length is
    known when it is traced.
    """

    def __init__(self, vocoder: Vocoder, layout: PackedLayout) -> None:
        super().__init__()
        self.vocoder = vocoder
        self.sizes = layout.sizes

    def forward(self, features: Tensor, style: Tensor) -> Tensor:
        """features [1, channels, 1, B + 1], style [1, style_dim, 1, 1] -> waveform [1, 1, 1, 600B];
        the caller cuts it at 600F.
        """
        asr, f0, energy, mask, spectrum = unpack(features, self.sizes)
        return self.vocoder(asr, f0, energy, style, spectrum, Mask.from_values(mask))
