"""The three functions of the streaming layout, as they are traced.

    folding = Folding.from_vocoder(vocoder, predictor.centres)
    second_stage = SecondStage(vocoder, folding)
    # once an utterance: all but the generator's second stage, and the affines of that stage's norms
    decoder = DecoderFunction(vocoder, predictor, folding)
    # `statistics`: what the voice adds to what is predicted
    entering, affine, style_affine = decoder(features, style, statistics)
    # any window of an utterance that is long, on predicted statistics
    waveform = WindowFunction(second_stage)(window_features, affine)
    # one that is short, with its own statistics
    waveform = UtteranceFunction(second_stage)(utterance_features, style_affine)

`features` of each is one packed tensor, rows of its length + 1 columns
(vocoder/streaming/streaming_package.py).
"""

import itertools

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core import (
    COLUMNS_PER_FRAME,
    COLUMNS_PER_STEP,
    NORM_EPSILON,
    PROSODY_PER_FRAME,
    SPECTRUM_CHANNELS,
    STEPS_PER_FRAME,
    Mask,
    PackedLayout,
    masked,
)
from kokoro_ane.vocoder.decoder import (
    LOUD_SCALE,
    QUIET_SCALE,
    STAGE_SLOPE,
    Generator,
    Vocoder,
    unpack_frames,
)
from kokoro_ane.vocoder.packing import SPECTRUM_ROWS
from kokoro_ane.vocoder.streaming.norm_statistics import StatisticsPredictor
from kokoro_ane.vocoder.streaming.streaming_layers import PhaseUp, SnakeFormula, fold_scaled_conv
from kokoro_ane.vocoder.streaming.streaming_model import (
    FirstStage,
    Folding,
    GivenNorms,
    MakeNorms,
    MeasuredNorms,
    SecondStage,
    list_stage_norms,
    read_bias,
)

# Modules of DecoderFunction: their tensors are of one column, and have terms that cancel.
FP32_MODULES = ("hidden", "told")
Power = tuple[Tensor, Tensor]  # mean, and mean of scaled squares


def count_window_rows(channels: int) -> tuple[int, int]:
    """Rows of a window's packed features: what the second stage reads [1, C, 1, 20W], and the
    spectrum [1, 22, 1, 120W + 1].
    """
    return STEPS_PER_FRAME * channels, SPECTRUM_ROWS


class PooledMoments(nn.Module):
    """Means and powers over time of what the second stage begins with: its upsampler's result and
    what that reads, and its source convolution's result.

    Without biases all three are 0 beyond the utterance, so that sums over all columns are sums over
    its own. Six columns of 120 a frame stand as six channels: no axis grows beyond 20 a frame.
    """

    def __init__(self, generator: Generator) -> None:
        super().__init__()
        conv = generator.noise_convs[1]
        self.up = PhaseUp(generator.ups[1], generator.blocks_per_stage)
        self.source = fold_scaled_conv(conv, bias=torch.zeros(conv.out_channels))

    def forward(self, x: Tensor, spectrum: Tensor, mask: Mask) -> list[Power]:
        """x [1, C, 1, 20B] and its mask, beyond which it is 0; spectrum [1, 22 * 6, 1, 20 (B + 1)]
        -> of each branch [1, c, 1, 1], over all columns.
        """
        # A kernel still reads the utterance's last columns where it is over: that is masked.
        result = masked(self.up(x), mask)
        # six phases as rows: [1, 6, C / 2, 20B]
        result = result.reshape(1, COLUMNS_PER_STEP, x.shape[1] // 2, -1)
        # [1, 22, 6, 20 (B + 1)]
        columns = spectrum.reshape(1, SPECTRUM_CHANNELS, COLUMNS_PER_STEP, -1)
        # [1, 1, C / 2, 1] each
        mean, power = _measure_power(result, LOUD_SCALE, (1, 3))
        return [
            (mean.reshape(1, -1, 1, 1), power.reshape(1, -1, 1, 1)),
            _measure_power(x, LOUD_SCALE, (2, 3)),
            _measure_power(self.source(columns), QUIET_SCALE, (2, 3)),
        ]


def _measure_power(x: Tensor, scale: float, over: tuple[int, int]) -> Power:
    # Scaled before it is squared, so that fp16 holds the square.
    scaled = x * scale
    return x.mean(dim=over, keepdim=True), (scaled * scaled).mean(dim=over, keepdim=True)


class EntryMoments(nn.Module):
    """The pooled moments as a norm would measure them: biases added, the share of the utterance
    divided out. In float32.
    """

    offset: Tensor

    def __init__(self, generator: Generator) -> None:
        super().__init__()
        up = generator.ups[1]
        conv = generator.noise_convs[1]
        biases = [read_bias(up), torch.zeros(up.in_channels).double(), read_bias(conv)]
        self.sizes = [len(bias) for bias in biases]
        self.register_buffer("offset", torch.cat(biases).float().view(1, -1, 1, 1))

    def forward(self, pooled: list[Power], shares: tuple[Tensor, Tensor]) -> Tensor:
        """`pooled` is PooledMoments' result. shares [1, 1, 1, 1]: of frames and of spectrum columns
        that are the utterance's. Returns mean and log of the variance of each branch, [1, D -
        style_dim, 1, 1].
        """
        kind = self.offset.dtype
        branches = (LOUD_SCALE, shares[0]), (LOUD_SCALE, shares[0]), (QUIET_SCALE, shares[1])
        offsets = self.offset.split(self.sizes, dim=1)
        moments: list[Tensor] = []
        for (mean, power), (scale, share), offset in zip(pooled, branches, offsets, strict=True):
            # The mean over all columns becomes the mean over the utterance's own.
            inside = mean.to(kind) / share.to(kind)
            # Rounding may leave a difference below zero, which has no logarithm.
            variance = F.relu(power.to(kind) * (1 / scale**2) / share.to(kind) - inside * inside)
            # A bias moves the mean and leaves the variance as it is.
            moments += [inside + offset, torch.log(variance + NORM_EPSILON)]
        return torch.cat(moments, dim=1)


class HiddenStatistics(nn.Module):
    """The predictor up to its last product, as 1x1 convolutions in float32: how near the utterance
    is to each landmark.
    """

    mean: Tensor
    scale: Tensor
    axes: Tensor
    landmarks: Tensor
    squares: Tensor
    hidden: Tensor

    def __init__(self, predictor: StatisticsPredictor) -> None:
        super().__init__()
        for name in ("mean", "scale"):
            column = torch.from_numpy(getattr(predictor, name)).float()
            self.register_buffer(name, column.view(1, -1, 1, 1))
        for name in ("axes", "landmarks", "hidden"):
            matrix = torch.from_numpy(getattr(predictor, name)).float()
            # [out, in, 1, 1]
            self.register_buffer(name, matrix[:, :, None, None])
        self.register_buffer("squares", torch.from_numpy(predictor.squares).float())
        self.width = float(predictor.width)
        self.rank = len(predictor.hidden)

    def forward(self, inputs: Tensor) -> Tensor:
        """inputs [1, D, 1, 1]: pooled moments, then the style -> [1, r, 1, 1]."""
        z = (inputs - self.mean) * self.scale
        places = F.conv2d(z, self.axes)  # [1, k, 1, 1]
        products = _add_parts(F.conv2d(-2 * places, self.landmarks), len(self.squares))
        # |z - landmark|^2 = |landmark|^2 - 2 <z, landmark> + |z|^2, [1, m, 1, 1]
        distance = products + self.squares[:, None, None] + z.square().sum(dim=1, keepdim=True)
        return _add_parts(F.conv2d(torch.exp(distance * (-1 / self.width)), self.hidden), self.rank)

    def compute_moments(self) -> Tensor:
        """The mean of h h^T, [r, r], of the results h at the landmarks, which are the sentences
        that the predictor was fitted to.
        """
        places = self.landmarks.flatten(1)  # [m, k]
        distance = self.squares + self.squares[:, None] - 2 * places @ places.T
        results = torch.exp(distance * (-1 / self.width)) @ self.hidden.flatten(1).T  # [m, r]
        return results.T @ results / len(results)


def _add_parts(product: Tensor, rows: int) -> Tensor:
    """[1, rows, 1, 1] of a product in parts [1, n rows, 1, 1]: a level stores a matrix as integers,
    and below them integers of what they leave (quantize/streaming_level.py).
    """
    first, *others = product.split(rows, dim=1)
    return sum(others, first)


class Hidden(nn.Module):
    """Pooled moments and the style to what the predictor's last product reads, in float32."""

    def __init__(self, generator: Generator, predictor: StatisticsPredictor) -> None:
        super().__init__()
        self.moments = EntryMoments(generator)
        self.statistics = HiddenStatistics(predictor)

    def forward(self, pooled: list[Power], shares: tuple[Tensor, Tensor], style: Tensor) -> Tensor:
        """What EntryMoments takes, and style [1, style_dim, 1, 1] -> [1, r, 1, 1]."""
        kind = self.moments.offset.dtype
        return self.statistics(torch.cat([self.moments(pooled, shares), style.to(kind)], dim=1))


class PredictedAffines(nn.Module):
    """Gains and shifts of the second stage's norms: the style's, with the predicted statistics in
    them. In float32. `usual` [2R] is what the predictor's last product is added to.
    """

    usual: Tensor

    def __init__(self, usual: np.ndarray) -> None:
        super().__init__()
        self.register_buffer("usual", torch.from_numpy(usual).float().view(1, -1, 1, 1))

    def forward(self, product: Tensor, statistics: Tensor, style_affine: Tensor) -> Tensor:
        """product, the predictor's, less its bias; statistics, the voice's; style_affine: [1, 2R,
        1, 1] each -> affine [1, 2R, 1, 1], gains first.
        """
        kind = self.usual.dtype
        # the bias comes after the product: coremltools would take it in, in fp32
        told = product.to(kind) + self.usual + statistics.to(kind)
        # means of what a norm reads, its usual mean taken off
        mean, log_variance = told.chunk(2, dim=1)
        gain, shift = style_affine.to(kind).chunk(2, dim=1)
        # exp(-log variance / 2) divides by the standard deviation.
        gain = gain * torch.exp(log_variance * -0.5)
        # gain (x - mean) + shift, with the mean taken into the shift
        return torch.cat([gain, shift - mean * gain], dim=1)


class ColumnLinear(nn.Module):
    """One product of a column: [1, in, 1, 1] -> [1, out, 1, 1]."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("weight", weight.float()[:, :, None, None])
        self.register_buffer("bias", None if bias is None else bias.float())

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias)


def make_style_product(generator: Generator, form: SnakeFormula) -> ColumnLinear:
    """The style's gains and shifts of all norms, with Snake's alpha in them: the first stage's
    gains, its shifts, then the second's.
    """
    weights: list[Tensor] = []
    biases: list[Tensor] = []
    # Half 0 are gains, half 1 shifts.
    for stage, half in itertools.product((0, 1), (0, 1)):
        for norm in list_stage_norms(generator, stage):
            fc = norm.norm.fc
            factor = norm.factor(form)
            weight = fc.weight.detach().flatten(1).double().chunk(2)[half]  # [C, style_dim]
            weights.append(weight * factor[:, None])
            biases.append(fc.bias.detach().double().chunk(2)[half] * factor)
    return ColumnLinear(torch.cat(weights), torch.cat(biases))


class DecoderFunction(nn.Module):
    """Frame decoder and the generator's first stage on the whole utterance, and behind them the
    constants of the second stage's norms. `shift` [2R]: of what rounded weights move.
    """

    make_norms: MakeNorms = MeasuredNorms

    def __init__(
        self,
        vocoder: Vocoder,
        predictor: StatisticsPredictor,
        folding: Folding,
        shift: np.ndarray | float = 0.0,
    ) -> None:
        super().__init__()
        self.vocoder = vocoder
        self.sizes = PackedLayout(vocoder.residual_conv.in_channels).sizes
        self.generator = FirstStage(vocoder, folding)
        self.pooled = PooledMoments(vocoder.generator)
        self.hidden = Hidden(vocoder.generator, predictor)
        self.outer = ColumnLinear(torch.from_numpy(predictor.outer), None)
        self.styles = make_style_product(vocoder.generator, folding.form)
        self.told = PredictedAffines(predictor.usual + shift)

    def forward(
        self, features: Tensor, style: Tensor, statistics: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """features [1, channels, 1, B + 1], style [1, style_dim, 1, 1], statistics [1, 2R, 1, 1]
        -> entering [1, C, 1, 20B], 0 beyond the utterance; affine and style_affine [1, 2R, 1, 1] of
        the second stage.
        """
        *parts, spectrum = features.split(self.sizes, dim=1)
        asr, f0, energy, values = unpack_frames(*parts)
        mask = Mask.from_values(values)
        frames = self.vocoder.decode_frames(asr, f0, energy, style, spectrum, mask)[0]
        frames = F.leaky_relu(frames, STAGE_SLOPE)  # [1, C', 1, 2B]
        # [1, 22 * 6, 1, 20 (B + 1)]
        rows = spectrum.reshape(1, SPECTRUM_CHANNELS * COLUMNS_PER_STEP, 1, -1)
        own, style_affine = self.compute_style_affines(style)
        steps = rows[..., : 1 - STEPS_PER_FRAME]  # [1, 22 * 6, 1, 20B + 1]
        entering = self.run_first_stage(frames, steps, own, mask.upsampled(PROSODY_PER_FRAME))
        # Of B frames, and of the B + 1 that the packed spectrum has.
        shares = mask.mean, parts[-1].mean(dim=3, keepdim=True)
        pooled = self.pooled(entering, rows, mask.upsampled(STEPS_PER_FRAME))
        affine = self.predict_affine(pooled, shares, style, statistics, style_affine)
        return entering, affine, style_affine

    def compute_style_affines(self, style: Tensor) -> tuple[Tensor, Tensor]:
        """The style's gains and shifts of the first stage's norms, then of the second's."""
        first = 2 * sum(self.generator.sizes)
        second = self.told.usual.shape[1]
        rows = self.styles(style).split((first, second), dim=1)
        return rows[0], rows[1]

    def predict_affine(
        self,
        pooled: list[Power],
        shares: tuple[Tensor, Tensor],
        style: Tensor,
        statistics: Tensor,
        style_affine: Tensor,
    ) -> Tensor:
        """What EntryMoments takes, style [1, style_dim, 1, 1], the voice's statistics and the
        second stage's style_affine [1, 2R, 1, 1] -> its affine [1, 2R, 1, 1].
        """
        product = self.outer(self.hidden(pooled, shares, style))
        return self.told(product, statistics, style_affine)

    def run_first_stage(self, frames: Tensor, steps: Tensor, affine: Tensor, mask: Mask) -> Tensor:
        """frames [1, C', 1, 2B], steps [1, 22 * 6, 1, 20B + 1] -> [1, C, 1, 20B]."""
        measured = self.make_norms(affine, self.generator.sizes, self.generator.scales, mask)
        return self.generator(frames, steps, measured)


class WindowFunction(nn.Module):
    """The second stage of a window that is full."""

    def __init__(self, generator: SecondStage) -> None:
        super().__init__()
        self.generator = generator

    def forward(self, features: Tensor, affine: Tensor) -> Tensor:
        """features [1, 20C + 2640, 1, W + 1], affine [1, 2R, 1, 1] -> waveform [1, 1, 1, 600W]."""
        entering, spectrum = features.split(count_window_rows(self.generator.channels), dim=1)
        affines = GivenNorms(affine, self.generator.sizes)
        return self.generator(*unpack_window(entering, spectrum), affines)


class UtteranceFunction(WindowFunction):
    """The second stage of a short utterance under a mask: it measures its statistics, as upstream
    does.
    """

    make_norms: MakeNorms = MeasuredNorms

    def forward(self, features: Tensor, style_affine: Tensor) -> Tensor:
        """features [1, 20C + 2640 + 1, 1, B + 1], style_affine [1, 2R, 1, 1] -> waveform [1, 1, 1,
        600B]; the caller cuts it at 600F.
        """
        entering, spectrum, mask = features.split(
            (*count_window_rows(self.generator.channels), 1), dim=1
        )
        # The packed row has one column more than the bucket has frames.
        inside = Mask.from_values(mask[..., :-1]).upsampled(STEPS_PER_FRAME)
        generator = self.generator
        affines = self.make_norms(style_affine, generator.sizes, generator.scales, inside)
        return self.generator(*unpack_window(entering, spectrum), affines)


def unpack_window(entering: Tensor, spectrum: Tensor) -> tuple[Tensor, Tensor]:
    """Packed rows [1, 20C, 1, W + 1] and [1, 2640, 1, W + 1] -> entering [1, C, 1, 20W], spectrum
    [1, 22, 1, 120W + 1].
    """
    channels = entering.shape[1] // STEPS_PER_FRAME
    # [1, C, 1, 20W]
    entering = entering.reshape(1, channels, 1, -1)[..., :-STEPS_PER_FRAME]
    # [1, 22, 1, 120W + 1]
    spectrum = spectrum.reshape(1, SPECTRUM_CHANNELS, 1, -1)[..., : 1 - COLUMNS_PER_FRAME]
    return entering, spectrum
