"""The vocoder for PyTorch on a processor, one utterance at exact length: Vocoder's function in
fewer passes over memory.

    fast = EagerVocoder(vocoder)
    # as Vocoder(...) without a mask; vocoder.render.render_reference takes either
    waveform = fast(asr, f0, energy, style, spectrum)

For speed only: Vocoder stays the definition and is what is exported. What differs, all of it exact
up to rounding: channels are the contiguous axis, which oneDNN's convolutions read without
reordering; AdaIN is one batch norm whose affine is the style's; Snake is u + sin(u)^2 on u = alpha
x, alpha folded into the norm's affine and 1 / alpha into the next convolution (so are 1 / sqrt(2)
and the mean over parallel blocks); the style affines of all norms are one product. Figures:
docs/speaking.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core.layers import (
    HALF_POWER,
    LEAKY_SLOPE,
    NORM_EPSILON,
    AdaIN1d,
    AdainResBlk1d,
    Conv,
    ConvTranspose,
    Modules,
    Snake,
    concatenate,
    read_by,
)
from kokoro_ane.vocoder.decoder import POST_SLOPE, STAGE_SLOPE, AdaINResBlock1, Generator, Vocoder

GROUPS = 32


class StyleRows:
    """Collects the gains and shifts of every norm, so that one product with the style computes them
    all.
    """

    def __init__(self) -> None:
        self.weights: list[Tensor] = []
        self.biases: list[Tensor] = []
        self.taken = 0

    def add(self, norm: AdaIN1d, scale: Tensor) -> tuple[int, int]:
        """Rows of `norm`, its output scaled by `scale` [C]: where they begin and C. Gains stand
        first, then shifts.
        """
        both = scale.double().repeat(2)  # [2C]
        # [2C, style_dim]
        self.weights.append(norm.fc.weight.detach().flatten(1).double() * both[:, None])
        self.biases.append(norm.fc.bias.detach().double() * both)
        begin, self.taken = self.taken, self.taken + len(both)
        return begin, len(scale)


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance over time of x [1, C, 1, S] with channels last: [C] each.

    PyTorch's kernel for this layout adds S values up one after the other in float32: 104 dB at 30
    s. Steps are dealt out to GROUPS groups, each with statistics of its own in that same kernel,
    and the groups are joined by the law of total variance: 145 dB at any length.
    """
    channels, steps = x.shape[1], x.shape[3]
    rows = x.permute(0, 2, 3, 1).reshape(steps, channels)
    groups = GROUPS if steps >= GROUPS * GROUPS else 1
    count = steps // groups
    # [1, groups * C, 1, count]
    dealt = rows[: count * groups].reshape(1, 1, count, groups * channels).permute(0, 3, 1, 2)
    means, variances = (
        v.view(groups, channels) for v in torch.batch_norm_update_stats(dealt, None, None, 0.0)
    )
    rest = rows[count * groups :]  # [S mod groups, C]
    mean = (means.sum(0) * count + rest.sum(0)) / steps
    # within the groups and between them, then the rest
    squares = (variances + (means - mean).square()).sum(0) * count
    return mean, (squares + (rest - mean).square().sum(0)) / steps


class Norm(nn.Module):
    """AdaIN at exact length; the affine is cut from what StyleRows computes."""

    def __init__(self, norm: AdaIN1d, rows: StyleRows, scale: Tensor | None = None) -> None:
        super().__init__()
        scale = torch.ones(norm.fc.channels) if scale is None else scale
        self.begin, self.channels = rows.add(norm, scale)

    def forward(self, x: Tensor, affines: Tensor) -> Tensor:
        """x [1, C, 1, S], affines [rows] -> a new [1, C, 1, S] that the caller may overwrite."""
        gain, shift = affines[self.begin : self.begin + 2 * self.channels].chunk(2)
        return F.batch_norm(x, *moments(x), gain, shift, training=False, eps=NORM_EPSILON)


def last_channels(x: Tensor) -> Tensor:
    """The same values with channels contiguous in memory."""
    return x.contiguous(memory_format=torch.channels_last)


class FrozenConv(nn.Module):
    """A convolution with frozen weights: `inner` [in] or [1] divides its input, `outer` multiplies
    its result.
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(self, conv: Conv, inner: Tensor | None = None, outer: float = 1.0) -> None:
        super().__init__()
        weight = conv.weight.detach().double() * outer  # [out, in, 1, k]
        if inner is not None:
            weight = weight / inner.double().view(1, -1, 1, 1)
        self.register_buffer("weight", last_channels(weight.to(conv.weight.dtype)))
        self.register_buffer("bias", None if conv.bias is None else conv.bias.detach() * outer)
        self.stride, self.padding, self.dilation = conv.stride, conv.padding, conv.dilation

    def forward(self, x: Tensor) -> Tensor:
        """[1, in, 1, S] -> [1, out, 1, S / stride]."""
        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation)


class FrozenConvTranspose(nn.Module):
    """A transposed convolution with frozen weights; `inner` divides its input."""

    weight: Tensor
    bias: Tensor

    def __init__(self, conv: ConvTranspose, inner: float = 1.0) -> None:
        super().__init__()
        weight = F.pad(conv.weight.detach(), (0, conv.zero_taps)) / inner
        self.register_buffer("weight", last_channels(weight))
        self.register_buffer("bias", conv.bias.detach().clone())
        self.stride, self.padding, self.groups = conv.stride, conv.padding, conv.groups
        self.rounding: nn.Module | None = None

    def forward(self, x: Tensor) -> Tensor:
        """[1, in, 1, S] -> [1, out, 1, stride * S]."""
        x = read_by(self, x)
        return F.conv_transpose2d(
            x, self.weight, self.bias, self.stride, self.padding, 0, self.groups
        )


class SnakeConv(nn.Module):
    """AdaIN, Snake, convolution."""

    def __init__(self, norm: AdaIN1d, snake: Snake, conv: Conv, rows: StyleRows) -> None:
        super().__init__()
        alpha = snake.alpha.detach().flatten()
        self.norm, self.conv = Norm(norm, rows, alpha), FrozenConv(conv, inner=alpha)

    def forward(self, x: Tensor, affines: Tensor) -> Tensor:
        u = self.norm(x, affines)  # alpha times AdaIN's result
        wave = torch.sin(u)
        return self.conv(u.addcmul_(wave, wave))


class SnakeBlock(nn.Module):
    """AdaINResBlock1."""

    def __init__(self, block: AdaINResBlock1, rows: StyleRows) -> None:
        super().__init__()
        first = zip(block.adain1, block.alpha1, block.convs1, strict=True)
        second = zip(block.adain2, block.alpha2, block.convs2, strict=True)
        self.first = Modules(SnakeConv(*parts, rows) for parts in first)
        self.second = Modules(SnakeConv(*parts, rows) for parts in second)

    def forward(self, x: Tensor, affines: Tensor) -> Tensor:
        """x [1, C, 1, S] -> a new tensor of the same shape."""
        for first, second in zip(self.first, self.second, strict=True):
            x = second(first(x, affines), affines).add_(x)
        return x


class LeakyBlock(nn.Module):
    """AdainResBlk1d. The shortcut's 1x1 convolution runs before the repetition, at half the
    rate.
    """

    def __init__(self, block: AdainResBlk1d, rows: StyleRows) -> None:
        super().__init__()
        self.norm1, self.norm2 = Norm(block.norm1, rows), Norm(block.norm2, rows)
        self.conv1, self.conv2 = FrozenConv(block.conv1), FrozenConv(block.conv2, outer=HALF_POWER)
        self.shortcut = (
            None if block.conv1x1 is None else FrozenConv(block.conv1x1, outer=HALF_POWER)
        )
        self.pool = None if block.pool is None else FrozenConvTranspose(block.pool)

    def forward(self, x: Tensor, affines: Tensor) -> Tensor:
        """x [1, inner, 1, S] -> [1, out, 1, S or 2S]."""
        h = F.leaky_relu_(self.norm1(x, affines), LEAKY_SLOPE)
        shortcut = x * HALF_POWER if self.shortcut is None else self.shortcut(x)
        if self.pool is not None:
            h = self.pool(h)  # [1, inner, 1, 2S]
            shortcut = F.interpolate(shortcut, scale_factor=(1.0, 2.0), mode="nearest")
        h = F.leaky_relu_(self.norm2(self.conv1(h), affines), LEAKY_SLOPE)
        return self.conv2(h).add_(shortcut)


class EagerGenerator(nn.Module):
    """Generator without its source."""

    def __init__(self, generator: Generator, rows: StyleRows) -> None:
        super().__init__()
        count = generator.blocks_per_stage
        # A stage's mean is left a sum: leaky_relu passes a positive factor on, so what reads the
        # stage divides by `count`.
        self.ups = Modules(
            FrozenConvTranspose(up, count if i else 1.0) for i, up in enumerate(generator.ups)
        )
        self.noise_convs = Modules(FrozenConv(conv) for conv in generator.noise_convs)
        self.noise_res = Modules(SnakeBlock(block, rows) for block in generator.noise_res)
        blocks = [SnakeBlock(block, rows) for block in generator.resblocks]
        self.stages = Modules(Modules(blocks[i : i + count]) for i in range(0, len(blocks), count))
        self.conv_post = FrozenConv(generator.conv_post, inner=torch.tensor([float(count)]))
        self.stft = generator.stft

    def forward(self, x: Tensor, affines: Tensor, spectrum: Tensor) -> Tensor:
        """x [1, C, 1, 2F], spectrum [1, 22, 1, 120F + 1] -> waveform [1, 1, 1, 600F]."""
        for i in range(len(self.stages) - 1):
            x = self.stage(i, x, affines, spectrum)
        return self.last_stage(F.leaky_relu(x, STAGE_SLOPE), affines, spectrum)

    def stage(self, i: int, x: Tensor, affines: Tensor, spectrum: Tensor) -> Tensor:
        """A stage but the last: x [1, C, 1, S] -> [1, C / 2, 1, rate * S]."""
        return self._blocks(i, self.ups[i](F.leaky_relu(x, STAGE_SLOPE)), affines, spectrum)

    def last_stage(self, x: Tensor, affines: Tensor, spectrum: Tensor) -> Tensor:
        """x [1, C, 1, S], behind its leaky ReLU -> waveform [1, 1, 1, 600F]."""
        x = self.ups[-1](x)
        x = torch.cat([x[..., 1:2], x], dim=3)  # reflection pad: [1, C, 1, 120F + 1]
        x = self._blocks(len(self.stages) - 1, x, affines, spectrum)
        return self.stft(self.conv_post(F.leaky_relu(x, POST_SLOPE)), None)

    def _blocks(self, i: int, x: Tensor, affines: Tensor, spectrum: Tensor) -> Tensor:
        """x with the source's result in it -> the sum of the stage's parallel blocks."""
        x = self.noise_res[i](self.noise_convs[i](spectrum), affines).add_(x)
        first, *others = self.stages[i]
        total = first(x, affines)
        for block in others:
            total.add_(block(x, affines))
        return total


class EagerVocoder(nn.Module):
    """A frozen copy of a Vocoder's weights in the layout above; a change of the vocoder afterwards
    does not reach it.
    """

    style_weight: Tensor
    style_bias: Tensor

    def __init__(self, vocoder: Vocoder) -> None:
        super().__init__()
        rows = StyleRows()
        self.encode = LeakyBlock(vocoder.encode, rows)
        self.decode = Modules(LeakyBlock(block, rows) for block in vocoder.decode)
        self.f0_conv, self.energy_conv = FrozenConv(vocoder.F0_conv), FrozenConv(vocoder.N_conv)
        self.residual = FrozenConv(vocoder.residual_conv)
        self.generator = EagerGenerator(vocoder.generator, rows)
        dtype = vocoder.F0_conv.weight.dtype
        self.register_buffer("style_weight", torch.cat(rows.weights).to(dtype))  # [rows, style_dim]
        self.register_buffer("style_bias", torch.cat(rows.biases).to(dtype))
        self.eval()

    def forward(
        self, asr: Tensor, f0: Tensor, energy: Tensor, style: Tensor, spectrum: Tensor
    ) -> Tensor:
        """One utterance (a batch would share its statistics), at exact length.

        Shapes: asr [1, hidden, 1, F]; f0 (Hz) and energy [1, 1, 1, 2F]; style [1, style_dim, 1, 1];
        spectrum [1, 22, 1, 120F + 1]. Returns [1, 1, 1, 600F] at 24 kHz.
        """
        affines, spectrum = self.affines(style), last_channels(spectrum)
        return self.generator(self.decoded(asr, f0, energy, affines), affines, spectrum)

    def affines(self, style: Tensor) -> Tensor:
        """Gains and shifts of all norms, [rows]."""
        return F.linear(style.flatten(1), self.style_weight, self.style_bias).flatten()

    def decoded(self, asr: Tensor, f0: Tensor, energy: Tensor, affines: Tensor) -> Tensor:
        """What the generator reads, [1, C, 1, 2F]."""
        asr = last_channels(asr)
        # [1, 1, 1, F] twice, [1, 64, 1, F]
        f0, energy, residual = self.f0_conv(f0), self.energy_conv(energy), self.residual(asr)
        x = self.encode(last_channels(concatenate(asr, f0, energy)), affines)
        for block in self.decode:
            x = block(last_channels(concatenate(x, residual, f0, energy)), affines)
        return x


@dataclass(frozen=True, eq=False)
class Place:
    """`path`: of the Vocoder's convolution. `alpha` [in] of the Snake before it, by which the
    weights are divided; `outer` multiplies its result. `centred`: AdaIN alone reads the result and
    takes any constant off it again.
    """

    path: str
    alpha: Tensor | None = None
    outer: float = 1.0
    centred: bool = False


def places(vocoder: Vocoder) -> dict[str, Place]:
    """By the name in EagerVocoder; transposed convolutions, F0_conv, N_conv and conv_post left
    out.
    """
    places = {"residual": Place("asr_res.0")}
    for block in ("encode", *(f"decode.{index}" for index in range(len(vocoder.decode)))):
        places[f"{block}.conv1"] = Place(f"{block}.conv1", centred=True)
        places[f"{block}.conv2"] = Place(f"{block}.conv2", outer=HALF_POWER)
        places[f"{block}.shortcut"] = Place(f"{block}.conv1x1", outer=HALF_POWER)
    generator = vocoder.generator
    for index in range(len(generator.noise_res)):
        places[f"generator.noise_convs.{index}"] = Place(f"generator.noise_convs.{index}")
        places |= _snakes(vocoder, f"generator.noise_res.{index}", f"generator.noise_res.{index}")
    for index in range(len(generator.resblocks)):
        stage, member = divmod(index, generator.blocks_per_stage)
        places |= _snakes(
            vocoder, f"generator.stages.{stage}.{member}", f"generator.resblocks.{index}"
        )
    return {name: place for name, place in places.items() if _is_there(vocoder, place.path)}


def _snakes(vocoder: Vocoder, name: str, path: str) -> Iterator[tuple[str, Place]]:
    """The convolutions of an AdaINResBlock1."""
    block = vocoder.get_submodule(path)
    for which, convs, snakes in (("first", "convs1", "alpha1"), ("second", "convs2", "alpha2")):
        for index, snake in enumerate(block.get_submodule(snakes).children()):
            alpha = snake.get_parameter("alpha").detach().flatten()  # [in]
            yield (
                f"{name}.{which}.{index}.conv",
                Place(f"{path}.{convs}.{index}", alpha, centred=which == "first"),
            )


def _is_there(vocoder: Vocoder, path: str) -> bool:
    """A block as wide as what it reads has no shortcut's convolution."""
    parent, _, name = path.rpartition(".")
    return getattr(vocoder.get_submodule(parent), name) is not None
