"""The three functions of the streaming layout, as they are traced.

    # once an utterance
    frames, affine, style_affine = DecoderFunction(vocoder, predictor, hidden_dim)(features, style)
    # any window of an utterance that is long
    waveform = WindowFunction(generator)(window_features, affine)
    # one that is short, with its own statistics
    waveform = UtteranceFunction(generator)(utterance_features, style_affine)

`features` of each is one packed tensor, rows of its length + 1 columns
(vocoder/streaming/streaming_package.py).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core.contract import (
    COLUMNS_PER_FRAME,
    PROSODY_PER_FRAME,
    SPECTRUM_CHANNELS,
    PackedLayout,
)
from kokoro_ane.core.layers import NORM_EPSILON, Mask, masked
from kokoro_ane.vocoder.decoder import (
    LOUD_SCALE,
    QUIET_SCALE,
    STAGE_SLOPE,
    Generator,
    Vocoder,
    unpack_frames,
)
from kokoro_ane.vocoder.eager import FrozenConvTranspose
from kokoro_ane.vocoder.streaming.norm_statistics import HiddenStatistics, StatisticsPredictor
from kokoro_ane.vocoder.streaming.streaming_layers import FoldedConv, SineSnake, SnakeFormula
from kokoro_ane.vocoder.streaming.streaming_model import (
    Measured,
    StreamingGenerator,
    Told,
    bias_of,
    generator_norms,
)

SPECTRUM_ROWS = SPECTRUM_CHANNELS * COLUMNS_PER_FRAME
FP32_MODULES = ("hidden", "told")  # of the decoder: one column each, and terms that cancel
Power = tuple[Tensor, Tensor]  # mean, and mean of scaled squares


def window_rows(channels: int) -> tuple[int, int]:
    """Rows of a window's packed features: frames [1, C, 1, 2W], spectrum [1, 22, 1, 120W + 1]."""
    return PROSODY_PER_FRAME * channels, SPECTRUM_ROWS


class PooledMoments(nn.Module):
    """What enters the generator, pooled over time: the first upsampler's result, and what both
    source convolutions make of the spectrum.

    Without biases all three are 0 beyond the utterance, so that sums over all columns are sums over
    its own. The spectrum has its frames as columns and the time within a frame as rows: no axis
    passes what an engine takes, and every frame sees its neighbours.
    """

    kernel: Tensor

    def __init__(self, generator: Generator) -> None:
        super().__init__()
        low, high = generator.noise_convs
        self.up = FrozenConvTranspose(generator.ups[0])
        self.up.weight = self.up.weight.contiguous()
        self.up.bias.zero_()
        self.rate, self.stride, self.reach = generator.rates[0], low.stride[1], int(low.padding[1])
        self.low, self.high = (
            FoldedConv(conv, bias=torch.zeros(conv.out_channels)) for conv in (low, high)
        )
        # [out, 22, k, 1]: along the rows
        self.low.weight = self.low.weight.transpose(2, 3).contiguous()
        self.low.stride, self.low.padding = (self.stride, 1), (0, 0)

    def forward(self, frames: Tensor, spectrum: Tensor, mask: Mask) -> list[Power]:
        """frames [1, C, 1, 2B] and their mask; spectrum [1, 22 * 120, 1, B + 1] -> of each [1, c,
        1, 1], over all columns.
        """
        rows = spectrum.reshape(1, SPECTRUM_CHANNELS, COLUMNS_PER_FRAME, -1)  # [1, 22, 120, B + 1]
        # [1, 22, reach, B + 1], of the frame before
        before = F.pad(rows[:, :, -self.reach :, :-1], (1, 0))
        after = F.pad(rows[:, :, : self.reach, 1:], (0, 1))
        low = self.low(torch.cat([before, rows, after], dim=2))  # [1, c, 20, B + 1]
        branches = (
            (masked(self.up(frames), mask.upsampled(self.rate)), LOUD_SCALE),
            (low, QUIET_SCALE),
            (self.high(rows), QUIET_SCALE),
        )
        return [
            (x.mean(dim=(2, 3), keepdim=True), (x * scale).square().mean(dim=(2, 3), keepdim=True))
            for x, scale in branches
        ]


class EntryMoments(nn.Module):
    """What PooledMoments sums, as a norm would measure it: biases added, the share of the utterance
    divided out. In float32.
    """

    offset: Tensor

    def __init__(self, generator: Generator) -> None:
        super().__init__()
        biases = [bias_of(conv) for conv in (generator.ups[0], *generator.noise_convs)]
        self.sizes = [len(bias) for bias in biases]
        self.register_buffer("offset", torch.cat(biases).float().view(1, -1, 1, 1))

    def forward(self, pooled: list[Power], shares: tuple[Tensor, Tensor]) -> Tensor:
        """shares [1, 1, 1, 1]: of frames and of spectrum columns that are the utterance's -> mean
        and log of the variance of each, [1, D - style_dim, 1, 1].
        """
        branches = (LOUD_SCALE, shares[0]), (QUIET_SCALE, shares[1]), (QUIET_SCALE, shares[1])
        offsets = self.offset.split(self.sizes, dim=1)
        moments: list[Tensor] = []
        for (mean, power), (scale, share), offset in zip(pooled, branches, offsets, strict=True):
            inside = mean.float() / share.float()
            variance = F.relu(power.float() * (1 / scale**2) / share.float() - inside * inside)
            moments += [inside + offset, torch.log(variance + NORM_EPSILON)]
        return torch.cat(moments, dim=1)


class Hidden(nn.Module):
    """Pooled moments and the style to the predictor's last product, in float32."""

    def __init__(self, generator: Generator, predictor: StatisticsPredictor) -> None:
        super().__init__()
        self.moments, self.statistics = EntryMoments(generator), HiddenStatistics(predictor)

    def forward(self, pooled: list[Power], shares: tuple[Tensor, Tensor], style: Tensor) -> Tensor:
        """What EntryMoments takes, and style [1, style_dim, 1, 1] -> [1, r, 1, 1]."""
        return self.statistics(torch.cat([self.moments(pooled, shares), style.float()], dim=1))


class ToldAffines(nn.Module):
    """Gains and shifts of all norms: the style's, with the predicted statistics in them. In
    float32.
    """

    usual: Tensor
    usual_variance: Tensor

    def __init__(self, predictor: StatisticsPredictor) -> None:
        super().__init__()
        means, log_variances = torch.from_numpy(predictor.bias).chunk(2)
        self.register_buffer(
            "usual", (means - torch.from_numpy(predictor.centres)).float().view(1, -1, 1, 1)
        )
        self.register_buffer("usual_variance", log_variances.float().view(1, -1, 1, 1))

    def forward(self, product: Tensor, style_affine: Tensor) -> Tensor:
        """product [1, 2R, 1, 1] of the predictor, less its bias; style_affine [1, 2R, 1, 1] ->
        affine [1, 2R, 1, 1], gains first.
        """
        # its bias comes after: coremltools would take it into the product, in fp32
        mean, log_variance = product.float().chunk(2, dim=1)
        mean = mean + self.usual  # of what a norm reads, its usual mean taken off
        gain, shift = style_affine.float().chunk(2, dim=1)
        gain = gain * torch.exp((log_variance + self.usual_variance) * -0.5)
        return torch.cat([gain, shift - mean * gain], dim=1)


class Product(nn.Module):
    """One product of a column: [1, in, 1, 1] -> [1, out, 1, 1]."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("weight", weight.float()[:, :, None, None])
        self.register_buffer("bias", None if bias is None else bias.float())

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias)


def style_product(generator: Generator, form: SnakeFormula) -> Product:
    """The style's gains and shifts of all norms, gains first, with Snake's alpha in them."""
    pairs = [(norm.norm.fc, norm.factor(form).repeat(2)) for norm in generator_norms(generator)]
    # [2C, style_dim]
    weights = [fc.weight.detach().flatten(1).double() * factor[:, None] for fc, factor in pairs]
    return Product(
        _gains_first(weights),
        _gains_first([fc.bias.detach().double() * factor for fc, factor in pairs]),
    )


def _gains_first(parts: list[Tensor]) -> Tensor:
    """Gains and shifts of each norm, [2C, ...] -> all gains, then all shifts."""
    halves = [part.chunk(2) for part in parts]
    return torch.cat([*(gain for gain, _ in halves), *(shift for _, shift in halves)])


class DecoderFunction(nn.Module):
    """The frame decoder on the whole utterance, and behind it the constants of all the generator's
    norms, made for its Snake's `form`.
    """

    def __init__(
        self,
        vocoder: Vocoder,
        predictor: StatisticsPredictor,
        hidden_dim: int,
        form: SnakeFormula | None = None,
    ) -> None:
        super().__init__()
        self.vocoder, self.sizes = vocoder, PackedLayout(hidden_dim).sizes
        self.pooled = PooledMoments(vocoder.generator)
        self.hidden = Hidden(vocoder.generator, predictor)
        self.outer = Product(torch.from_numpy(predictor.outer), None)
        self.styles = style_product(vocoder.generator, form or SineSnake())
        self.told = ToldAffines(predictor)

    def forward(self, features: Tensor, style: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """features [1, channels, 1, B + 1], style [1, style_dim, 1, 1] -> frames [1, C, 1, 2B], 0
        beyond the utterance; affine and style_affine [1, 2R, 1, 1].
        """
        *parts, spectrum = features.split(self.sizes, dim=1)
        asr, f0, energy, values = unpack_frames(*parts)
        mask = Mask.of(values)
        double = mask.upsampled(PROSODY_PER_FRAME)
        frames = self.vocoder.decoded(asr, f0, energy, style, spectrum, mask)[0]
        frames, style_affine = F.leaky_relu(frames, STAGE_SLOPE), self.styles(style)
        shares = double.mean, parts[-1].mean(dim=3, keepdim=True)
        product = self.outer(self.hidden(self.pooled(frames, spectrum, double), shares, style))
        return frames, self.told(product, style_affine), style_affine


class WindowFunction(nn.Module):
    """The generator of a window that is full."""

    def __init__(self, generator: StreamingGenerator) -> None:
        super().__init__()
        self.generator = generator

    def forward(self, features: Tensor, affine: Tensor) -> Tensor:
        """features [1, 2C + 2640, 1, W + 1], affine [1, 2R, 1, 1] -> waveform [1, 1, 1, 600 W]."""
        frames, spectrum = features.split(window_rows(self.generator.channels), dim=1)
        return self.generator(*unpack_window(frames, spectrum), Told(affine, self.generator.sizes))


class UtteranceFunction(WindowFunction):
    """The generator of a short utterance under a mask: it measures its statistics, as upstream."""

    def forward(self, features: Tensor, style_affine: Tensor) -> Tensor:
        """features [1, 2C + 2640 + 1, 1, B + 1], style_affine [1, 2R, 1, 1] -> waveform [1, 1, 1,
        600 B]; the caller cuts it at 600F.
        """
        frames, spectrum, mask = features.split((*window_rows(self.generator.channels), 1), dim=1)
        inside = Mask.of(mask[..., :-1]).upsampled(PROSODY_PER_FRAME)
        affines = Measured(style_affine, self.generator.sizes, self.generator.scales, inside)
        return self.generator(*unpack_window(frames, spectrum), affines)


def unpack_window(frames: Tensor, spectrum: Tensor) -> tuple[Tensor, Tensor]:
    """Packed rows [1, 2C, 1, W + 1] and [1, 2640, 1, W + 1] -> frames [1, C, 1, 2W], spectrum [1,
    22, 1, 120W + 1].
    """
    # [1, C, 1, 2W]
    frames = frames.reshape(1, frames.shape[1] // PROSODY_PER_FRAME, 1, -1)[
        ..., :-PROSODY_PER_FRAME
    ]
    # [1, 22, 1, 120W + 1]
    return frames, spectrum.reshape(1, SPECTRUM_CHANNELS, 1, -1)[..., : 1 - COLUMNS_PER_FRAME]
