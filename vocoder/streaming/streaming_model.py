"""The vocoder as two functions: one whole utterance to frames and affines, one window of frames to samples without any statistics.

    frames, affine = StreamingDecoder(vocoder, predictor)(asr, f0, energy, style, spectrum)     # once an utterance
    waveform = WindowGenerator(vocoder, predictor)(frames[...], spectrum[...], affine)          # [1, 1, 1, 600 W], window by window

AdaIN is gain (x - mean) / deviation + shift. Upstream measures mean and deviation over the utterance, 48 times; here the decoder's output
tells them (vocoder/streaming/norm_statistics.py), so AdaIN is one product and one sum with constants of the utterance. What a norm reads
has its usual mean, `centres`, taken off by the bias of the convolution before it: fp16 would round the rest against it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core.layers import AdaIN1d, Conv, ConvTranspose, Modules, Snake
from kokoro_ane.vocoder.decoder import POST_SLOPE, STAGE_SLOPE, AdaINResBlock1, Generator, Vocoder
from kokoro_ane.vocoder.streaming.norm_statistics import StatisticsPredictor, moments
from kokoro_ane.vocoder.tiled.tiled_layers import small_or_apart


@dataclass(frozen=True, eq=False)
class GeneratorNorm:
    """A norm of the generator in the order of its rows: `path` in the Generator, the norm, the Snake behind it."""

    path: str
    norm: AdaIN1d
    snake: Snake

    @property
    def channels(self) -> int:
        return self.norm.fc.channels

    @property
    def factor(self) -> Tensor:
        """[C] float64: what its result is multiplied by, so that Snake is u + sin(u)^2; 1 where alpha is too small for fp16."""
        alpha = self.snake.alpha.detach().flatten().double()
        return torch.ones_like(alpha) if small_or_apart(alpha)[0] else alpha


def generator_norms(generator: Generator) -> tuple[GeneratorNorm, ...]:
    """All 48: the source's block of each stage, then the stage's parallel blocks; of a block three pairs."""
    return tuple(norm for path, block in blocks_of(generator) for norm in _norms(path, block))


def blocks_of(generator: Generator) -> Iterator[tuple[str, AdaINResBlock1]]:
    """Residual blocks in the order of the rows."""
    count = generator.blocks_per_stage
    for stage, source in enumerate(generator.noise_res):
        yield f"noise_res.{stage}", source
        for number in range(stage * count, (stage + 1) * count):
            yield f"resblocks.{number}", generator.resblocks[number]


def _norms(path: str, block: AdaINResBlock1) -> Iterator[GeneratorNorm]:
    for pair in range(len(block.convs1)):
        yield GeneratorNorm(f"{path}.adain1.{pair}", block.adain1[pair], block.alpha1[pair])
        yield GeneratorNorm(f"{path}.adain2.{pair}", block.adain2[pair], block.alpha2[pair])


class Affines(nn.Module):
    """Gains and shifts of all norms, in float32: the style's, with the predicted statistics and Snake's alpha in them."""

    weight: Tensor
    bias: Tensor
    centres: Tensor

    def __init__(self, generator: Generator, predictor: StatisticsPredictor) -> None:
        super().__init__()
        norms = generator_norms(generator)
        weights = [norm.norm.fc.weight.detach().flatten(1).double() * norm.factor.repeat(2)[:, None] for norm in norms]  # [2C, style_dim]
        biases = [norm.norm.fc.bias.detach().double() * norm.factor.repeat(2) for norm in norms]
        self.register_buffer("weight", _gains_first(weights)[:, :, None, None].float())  # [2R, style_dim, 1, 1]
        self.register_buffer("bias", _gains_first(biases).float())
        self.register_buffer("centres", torch.from_numpy(predictor.centres)[None, :, None, None].float())  # [1, R, 1, 1]
        self.statistics = predictor.module()

    def forward(self, pooled: Tensor, style: Tensor) -> Tensor:
        """pooled: of PooledMoments; style [1, style_dim, 1, 1] -> [1, 2R, 1, 1]."""
        return self.of(style, *self.statistics(pooled, style))

    def of(self, style: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
        """mean and log variance of what every norm reads, [1, R, 1, 1] each -> gains and shifts [1, 2R, 1, 1]."""
        gain, shift = F.conv2d(style, self.weight, self.bias).chunk(2, dim=1)
        gain = gain * torch.exp(log_variance * -0.5)
        return torch.cat([gain, shift - (mean - self.centres) * gain], dim=1)


def _gains_first(parts: list[Tensor]) -> Tensor:
    """Gains and shifts of each norm, [2C, ...] -> all gains, then all shifts."""
    halves = [part.chunk(2) for part in parts]
    return torch.cat([*(gain for gain, _ in halves), *(shift for _, shift in halves)])


class PooledMoments(nn.Module):
    """Moments of what enters the generator: the first upsampler's result and what both source convolutions make of the spectrum."""

    def __init__(self, generator: Generator, centres: dict[str, Tensor]) -> None:
        super().__init__()
        self.up = ShiftedUp(generator.ups[0], 1.0)
        self.sources = Modules(source_conv(generator, stage, centres) for stage in range(len(generator.ups)))

    def forward(self, frames: Tensor, spectrum: Tensor) -> Tensor:
        """frames [1, C, 1, 2F], spectrum [1, 22, 1, 120F + 1] -> [1, D, 1, 1]."""
        return torch.cat([moments(x) for x in (self.up(frames), *(conv(spectrum) for conv in self.sources))], dim=1)


class StreamingDecoder(nn.Module):
    """The frame decoder, and behind it the affines of all the generator's norms."""

    def __init__(self, vocoder: Vocoder, predictor: StatisticsPredictor) -> None:
        super().__init__()
        self.vocoder = vocoder
        self.pooled = PooledMoments(vocoder.generator, centres_of(vocoder.generator, predictor.centres))
        self.affines = Affines(vocoder.generator, predictor)

    def forward(self, asr: Tensor, f0: Tensor, energy: Tensor, style: Tensor, spectrum: Tensor) -> tuple[Tensor, Tensor]:
        """Arguments as Vocoder's, at exact length -> frames [1, C, 1, 2F]; affine [1, 2R, 1, 1], gains before shifts."""
        frames = F.leaky_relu(self.vocoder.decoded(asr, f0, energy, style, spectrum, None)[0], STAGE_SLOPE)
        return frames, self.affines(self.pooled(frames, spectrum), style)


def centres_of(generator: Generator, centres: np.ndarray) -> dict[str, Tensor]:
    """The usual mean of what each norm reads, [C] float64 by its path."""
    norms = generator_norms(generator)
    parts = torch.from_numpy(centres).double().split([norm.channels for norm in norms])
    return {norm.path: part for norm, part in zip(norms, parts, strict=True)}


def source_conv(generator: Generator, stage: int, centres: dict[str, Tensor]) -> "ShiftedConv":
    """A stage's convolution of the spectrum, its usual mean taken off."""
    conv = generator.noise_convs[stage]
    return ShiftedConv(conv, bias_of(conv) - centres[f"noise_res.{stage}.adain1.0"])


class Affine(nn.Module):
    """AdaIN with its statistics given, then Snake and the convolution; see tiled_layers.SnakeConv for `apart` and small alphas."""

    alpha: Tensor | None
    scale: Tensor | None

    def __init__(self, norm: GeneratorNorm, conv: Conv, bias: Tensor) -> None:
        """`bias` [out]: what the convolution adds."""
        super().__init__()
        alpha = norm.snake.alpha.detach().flatten().double()
        small, apart = small_or_apart(alpha)
        self.register_buffer("alpha", alpha.float().view(1, -1, 1, 1) if small else None)
        self.register_buffer("scale", (1 / alpha).float().view(1, -1, 1, 1) if apart else None)
        self.conv = ShiftedConv(conv, bias, None if apart else alpha)

    def forward(self, x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
        """x [1, C, 1, S], less its centre -> [1, out, 1, S]."""
        u = x * gain + shift
        if self.alpha is not None and self.scale is not None:
            wave = torch.sin(u * self.alpha)
            return self.conv(u + wave * self.scale * wave)
        wave = torch.sin(u)
        u = u + wave * wave
        return self.conv(u if self.scale is None else u * self.scale)


class ShiftedConv(nn.Module):
    """A convolution with another bias [out]; `inner` [in] divides its input."""

    weight: Tensor
    bias: Tensor

    def __init__(self, conv: Conv, bias: Tensor, inner: Tensor | None = None) -> None:
        super().__init__()
        weight = conv.weight.detach().double()  # [out, in, 1, k]
        self.register_buffer("weight", (weight if inner is None else weight / inner.view(1, -1, 1, 1)).float())
        self.register_buffer("bias", bias.float())
        self.stride, self.padding, self.dilation = conv.stride, conv.padding, conv.dilation

    def forward(self, x: Tensor) -> Tensor:
        """[1, in, 1, S] -> [1, out, 1, S / stride]."""
        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation)


def bias_of(conv: nn.Conv2d | nn.ConvTranspose2d) -> Tensor:
    """[out] float64."""
    return torch.zeros(conv.out_channels, dtype=torch.float64) if conv.bias is None else conv.bias.detach().double()


class AffineBlock(nn.Module):
    """AdaINResBlock1 on a value less its centre; its result is a whole one less `left`."""

    def __init__(self, path: str, block: AdaINResBlock1, centres: dict[str, Tensor], left: Tensor | float = 0.0) -> None:
        super().__init__()
        first, second = [], []
        norms = list(_norms(path, block))
        for pair, (before, between) in enumerate(zip(norms[::2], norms[1::2], strict=True)):
            after = centres[norms[2 * pair + 2].path] if 2 * pair + 2 < len(norms) else left
            first.append(Affine(before, block.convs1[pair], bias_of(block.convs1[pair]) - centres[between.path]))
            second.append(Affine(between, block.convs2[pair], bias_of(block.convs2[pair]) - after + centres[before.path]))
        self.first, self.second = Modules(first), Modules(second)

    def forward(self, x: Tensor, affines: list[tuple[Tensor, Tensor]]) -> Tensor:
        """x [1, C, 1, S] -> the same shape; takes its six affines off the front of the list."""
        for first, second in zip(self.first, self.second, strict=True):
            x = second(first(x, *affines.pop(0)), *affines.pop(0)) + x
        return x


class WindowGenerator(nn.Module):
    """The generator of one window: no operation reads beyond its receptive field, none reduces over time."""

    def __init__(self, vocoder: Vocoder, predictor: StatisticsPredictor) -> None:
        super().__init__()
        generator, count = vocoder.generator, vocoder.generator.blocks_per_stage
        norms = generator_norms(generator)
        self.sizes = [norm.channels for norm in norms]
        centres = centres_of(generator, predictor.centres)
        self.ups: Modules[ShiftedUp] = Modules()
        self.noise_convs: Modules[ShiftedConv] = Modules()
        self.noise_res: Modules[AffineBlock] = Modules()
        self.stages: Modules[Modules[AffineBlock]] = Modules()
        for stage, up in enumerate(generator.ups):
            own = [(f"resblocks.{n}", generator.resblocks[n]) for n in range(stage * count, (stage + 1) * count)]
            read, source = centres[f"{own[0][0]}.adain1.0"], f"noise_res.{stage}"
            self.ups.append(ShiftedUp(up, count if stage else 1.0))
            self.noise_convs.append(source_conv(generator, stage, centres))
            self.noise_res.append(AffineBlock(source, generator.noise_res[stage], centres, read))  # the sum with `up` is less `read`
            self.stages.append(Modules(AffineBlock(path, block, centres) for path, block in own))
        self.conv_post, self.stft = ShiftedConv(generator.conv_post, bias_of(generator.conv_post)), generator.stft
        self.conv_post.weight = self.conv_post.weight / count

    def forward(self, frames: Tensor, spectrum: Tensor, affine: Tensor) -> Tensor:
        """frames [1, C, 1, 2W], spectrum [1, 22, 1, 120W + 1] -> waveform [1, 1, 1, 600 W]."""
        parts = affine.split([*self.sizes, *self.sizes], dim=1)
        affines, x = list(zip(parts[: len(self.sizes)], parts[len(self.sizes) :], strict=True)), frames
        for stage, blocks in enumerate(self.stages):
            x = self.ups[stage](x if stage == 0 else F.leaky_relu(x, STAGE_SLOPE))  # [1, C / 2, 1, rate * S]
            if stage + 1 == len(self.stages):
                x = torch.cat([x[..., 1:2], x], dim=3)  # reflection pad: [1, C, 1, 120W + 1]
            x = x + self.noise_res[stage](self.noise_convs[stage](spectrum), affines)
            total = blocks[0](x, affines)
            for block in blocks[1:]:
                total = total + block(x, affines)
            x = total
        x = F.leaky_relu(x, POST_SLOPE).to(self.conv_post.weight.dtype)
        return self.stft(self.conv_post(x), None)


class ShiftedUp(nn.Module):
    """A transposed convolution with frozen weights; `inner` divides its input."""

    weight: Tensor
    bias: Tensor

    def __init__(self, conv: ConvTranspose, inner: float) -> None:
        super().__init__()
        self.register_buffer("weight", conv.weight.detach() / inner)
        self.register_buffer("bias", bias_of(conv).float())
        self.stride, self.padding = conv.stride, conv.padding

    def forward(self, x: Tensor) -> Tensor:
        """[1, in, 1, S] -> [1, out, 1, stride * S]."""
        return F.conv_transpose2d(x, self.weight, self.bias, self.stride, self.padding)
