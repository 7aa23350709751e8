"""What makes one int8 step fit all of a convolution's input: balanced channels, and a scale that
varies over time.

    divisors = compute_channel_divisors(vocoder, read, paths, exponent=0.7)
    balanced = balance_channels(vocoder, divisors)
    ready = with_time_varying_scales(balanced, scale_caps(vocoder, read, divisors))

Balance is exact and costs nothing at run time, because Snake and leaky ReLU commute with a scale.
For s > 0:

    snake_a(z) / s = snake_(a s)(z / s)    where snake_a(z) = z + sin^2(a z) / a
    leaky(z) / s   = leaky(z / s)

So 1 / s folds into the layer that makes z (AdaIN's gain and shift, or the convolutions whose sum z
is), and s into Snake's alpha and into the input channels of the convolution that reads the result.
Scales over time are modules of vocoder/scaled_conv.py.
"""

import copy
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from kokoro_ane.core import (
    PROSODY_PER_FRAME,
    AdaIN1d,
    AdainResBlk1d,
    Conv,
    ConvTranspose,
    Snake,
    replace_module,
)
from kokoro_ane.quantize.statistics import ActivationStatistics
from kokoro_ane.vocoder import (
    RANGE,
    AdaINResBlock1,
    PerColumnScaledConv,
    ScaledConv,
    TimeVaryingScale,
    Vocoder,
)

# a channel is moved by at most this factor either way: alphas and gains stay far inside fp16
MAX_SCALE = 64.0
QUIET = 1e-6  # a channel or kernel slice below this is left where it is
# share of the values that may exceed what a scale rises to
CAP_BEYOND = 1e-5
# where a kernel reaches further, a smooth scale's ripple is louder than the codes' noise
# (docs/quantization.md)
REACH_FRAMES = 0.25


@dataclass(frozen=True)
class Site:
    """One place where a scale can be folded: `makers` compute z, `snake` is the activation (None
    stands for leaky ReLU), and the convolution at path `reader` reads the result.
    """

    reader: str
    makers: tuple[AdaIN1d | Conv, ...]
    snake: Snake | None
    depthwise: ConvTranspose | None = None  # AdaIN block's upsampler between activation and reader


def list_sites(vocoder: Vocoder) -> Iterator[Site]:
    """Yield every place, in the order of the vocoder's modules."""
    for path, module in vocoder.named_modules():
        if isinstance(module, AdaINResBlock1):
            for index in range(len(module.convs1)):
                yield Site(f"{path}.convs1.{index}", (module.adain1[index],), module.alpha1[index])
                yield Site(f"{path}.convs2.{index}", (module.adain2[index],), module.alpha2[index])
        elif isinstance(module, AdainResBlk1d):
            yield Site(f"{path}.conv1", (module.norm1,), None, module.pool)
            yield Site(f"{path}.conv2", (module.norm2,), None)
    last = vocoder.decode[-1]
    if last.conv1x1 is not None:  # the first upsampler alone reads the sum of these two
        yield Site("generator.ups.0", (last.conv2, last.conv1x1), None)


@torch.no_grad()
def compute_channel_divisors(
    vocoder: Vocoder,
    read: Mapping[str, ActivationStatistics],
    paths: Collection[str],
    exponent: float,
) -> dict[str, Tensor]:
    """What the input channels of the named convolutions are divided by, {path: [C] float64}.
    Exponent 0 changes nothing; with 1 every channel becomes as large as the others.

    `paths` should name only what becomes int8: weights that take the scales have a wider range to
    cover, in the decoder 30 dB where it was 11.
    """
    places = {*(site.reader for site in list_sites(vocoder)), *list_scaled_at_input(vocoder)}
    divisors = {}
    # Sorted, because the order of a set differs from run to run.
    for path in sorted(places & set(paths)) if exponent else ():
        reader = vocoder.get_submodule(path)
        assert isinstance(reader, Conv | ConvTranspose), path
        divisors[path] = _compute_scales(read[path].size(), reader, exponent)
    return divisors


@torch.no_grad()
def balance_channels(vocoder: Vocoder, divisors: Mapping[str, Tensor]) -> Vocoder:
    """A copy that renders the same, in which the named convolutions read channels that are divided.
    Where no layer before a convolution can take the scale, a multiplication before it does
    (vocoder/scaled_conv.py).
    """
    balanced = copy.deepcopy(vocoder)
    for site in (site for site in list_sites(balanced) if site.reader in divisors):
        reader = balanced.get_submodule(site.reader)
        assert isinstance(reader, Conv | ConvTranspose), site.reader
        _fold(site, reader, divisors[site.reader])
    for path in (path for path in list_scaled_at_input(balanced) if path in divisors):
        reader = balanced.get_submodule(path)
        assert isinstance(reader, Conv), path
        replace_module(balanced, path, ScaledConv(reader, divisors[path]))
    return balanced.eval()


def list_scaled_at_input(vocoder: Vocoder) -> tuple[str, ...]:
    """Paths of the convolutions whose input no layer before them can scale: shortcuts, the branch
    of the text, the first ones that read the spectrum.
    """
    names = ("conv1x1", "asr_res.0", "noise_convs.0", "noise_convs.1")
    return tuple(
        path
        for path, module in vocoder.named_modules()
        if isinstance(module, Conv) and path.endswith(names)
    )


def _compute_scales(activations: Tensor, reader: Conv | ConvTranspose, exponent: float) -> Tensor:
    """SmoothQuant's scales size(x)^e / peak(w)^(1 - e), [C] float64, with a geometric mean of 1."""
    # the largest weight that reads each input channel, [C]
    outputs = 1 if isinstance(reader, ConvTranspose) else 0
    kernels = reader.weight.abs().amax(dim=(outputs, 2, 3))
    usable = (activations > QUIET) & (kernels > QUIET)
    if not usable.any():
        return torch.ones_like(activations, dtype=torch.float64)
    # In logarithms, so that the mean that is taken out is geometric.
    raw = (
        exponent * activations.double().clamp(min=QUIET).log()
        - (1 - exponent) * kernels.double().clamp(min=QUIET).log()
    )
    # A silent channel keeps a scale of 1.
    centred = torch.where(usable, raw - raw[usable].mean(), 0.0)
    return centred.exp().clamp(1 / MAX_SCALE, MAX_SCALE)


def _fold(site: Site, reader: Conv | ConvTranspose, scales: Tensor) -> None:
    """Divide what `site` makes by `scales` and multiply what the reader takes. The products are
    computed in float64 and rounded once.
    """
    for maker in site.makers:
        affine = maker.fc if isinstance(maker, AdaIN1d) else maker
        # AdaIN's affine has the rows of all gains, then those of all shifts
        rows = scales.repeat(2) if isinstance(maker, AdaIN1d) else scales
        for made in filter(torch.is_tensor, (affine.weight, affine.bias)):
            _scale(made, 1 / rows, axis=0)
    # snake_a(z) / s = snake_(a s)(z / s)
    if site.snake is not None:
        _scale(site.snake.alpha, scales, axis=1)
        # The module keeps 1 / alpha too, which has to follow.
        site.snake.freeze()
    # The upsampler between works channel by channel, so that only its bias is divided.
    if site.depthwise is not None and site.depthwise.bias is not None:
        _scale(site.depthwise.bias, 1 / scales, axis=0)
    _scale(reader.weight, scales, axis=0 if isinstance(reader, ConvTranspose) else 1)


def _scale(tensor: Tensor, factors: Tensor, axis: int) -> None:
    shape = [1] * tensor.dim()
    shape[axis] = -1
    tensor.copy_((tensor.double() * factors.view(shape)).to(tensor.dtype))


def find_time_scaled(vocoder: Vocoder) -> Mapping[str, int]:
    """Columns a frame by path, for each convolution of the generator's residual blocks whose reach
    is at most REACH_FRAMES. The first stage's stand first.
    """
    generator = vocoder.generator
    chosen = {}
    for stage in range(len(generator.ups)):
        # columns a frame behind this stage's upsampler
        columns = PROSODY_PER_FRAME * math.prod(generator.rates[: stage + 1])
        first = stage * generator.blocks_per_stage
        blocks = range(first, first + generator.blocks_per_stage)
        roots = f"generator.noise_res.{stage}.", *(f"generator.resblocks.{i}." for i in blocks)
        for path, module in vocoder.named_modules():
            if (
                isinstance(module, Conv)
                and path.startswith(roots)
                and compute_reach(module) <= REACH_FRAMES * columns
            ):
                chosen[path] = columns
    return MappingProxyType(chosen)


def list_column_scaled(vocoder: Vocoder) -> tuple[str, ...]:
    """Convolutions of the decoder's blocks: a column is half a frame at least, so that kernels of
    three reach too far for an envelope.
    """
    return tuple(
        f"{path}.{name}"
        for path, block in vocoder.named_modules()
        if isinstance(block, AdainResBlk1d)
        for name in ("conv1", "conv2", "conv1x1")
        if isinstance(getattr(block, name), Conv)
    )


def compute_reach(conv: Conv) -> int:
    """How many columns the kernel sees on either side."""
    return int(conv.dilation[1] * (conv.kernel_size[1] - 1) // 2)


def scale_caps(
    vocoder: Vocoder,
    read: Mapping[str, ActivationStatistics],
    divisors: Mapping[str, Tensor],
    per_column: bool = True,
) -> dict[str, float]:
    """The cap of each balanced convolution that can be scaled over time, by path: the magnitude
    that hardly a value exceeds. A smooth scale rises up to it, and no scale falls below cap /
    RANGE. With `per_column` the decoder's convolutions are among them.
    """
    paths = (*find_time_scaled(vocoder), *(list_column_scaled(vocoder) if per_column else ()))
    return {
        path: read[path].exceeded(CAP_BEYOND, divisors[path]) for path in paths if path in divisors
    }


def with_time_varying_scales(vocoder: Vocoder, caps: Mapping[str, float]) -> Vocoder:
    """A copy in which the convolutions that `caps` names divide their input by an envelope. It
    renders the same but for the envelope's ripple.
    """
    prepared = copy.deepcopy(vocoder)
    columns = find_time_scaled(vocoder)
    for path, cap in caps.items():
        conv = prepared.get_submodule(path)
        assert isinstance(conv, Conv), path
        smooth = path in columns
        # A kernel that reaches far has a scale for every column, not a smooth one.
        ready = (
            ScaledConv(conv, envelope=TimeVaryingScale(columns[path], cap))
            if smooth
            else PerColumnScaledConv(conv, floor=cap / RANGE)
        )
        replace_module(prepared, path, ready)
    return prepared.eval()
