"""Balance the channels of what a convolution reads, exactly and for nothing at run time, so that one int8 step per tensor suits them all.

    balanced = equalized(vocoder, channel_sizes(vocoder, inputs), exponent=0.7)

Snake and leaky ReLU commute with a scale: snake_a(z) / s = snake_(a s)(z / s) with snake_a(z) = z + sin^2(a z) / a, and
leaky(z) / s = leaky(z / s) for s > 0. So 1 / s folds into the layer that makes z (AdaIN's gain and shift, or the convolutions whose sum
z is), into Snake's alpha, and s into the input channels of the convolution that reads the result.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from core.blocks import AdainResBlk1d
from core.errors import InputError
from core.layers import AdaIN1d, Conv, ConvTranspose, Snake
from core.modules import replace_module
from vocoder.decoder import Vocoder
from vocoder.generator import AdaINResBlock1
from vocoder.package import render_reference
from vocoder.packing import VocoderInputs
from vocoder.prepared import PreparedConv

MAX_SCALE = 64.0  # a channel is moved by at most this factor either way: alphas and gains stay far inside fp16
RARE = 1e-3  # of the columns: how many may exceed what a channel's size is taken to be
QUIET = 1e-6  # a channel or kernel slice below this is left where it is


@dataclass(frozen=True)
class Site:
    """One place where a scale can be folded: `makers` give z, `snake` bends it (None: leaky ReLU), `reader` reads the result."""

    reader: str
    makers: tuple[AdaIN1d | Conv, ...]
    snake: Snake | None
    depthwise: ConvTranspose | None = None  # AdaIN block's upsampler between activation and reader


def sites(vocoder: Vocoder) -> Iterator[Site]:
    """Every place, in the order of the vocoder's modules."""
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
def channel_sizes(vocoder: Vocoder, clips: Iterable[VocoderInputs], beyond: float = RARE) -> dict[str, Tensor]:
    """What one in 1 / `beyond` columns exceeds, in every input channel of every convolution, mean over the clips: {path: [C]}.

    Peaks are set by single columns of single sentences: on real Kokoro they balance worse.
    """
    found: dict[str, list[Tensor]] = {}

    def note(path: str, _: nn.Module, given: tuple[Tensor, ...]) -> None:
        columns = given[0].abs().transpose(0, 1).flatten(1)  # [C, columns]
        found.setdefault(path, []).append(columns.topk(max(1, int(beyond * columns.shape[1])), dim=1).values[:, -1])

    watched(vocoder, clips, note)
    return {path: torch.stack(sizes).mean(dim=0) for path, sizes in found.items()}


@torch.no_grad()
def watched(vocoder: Vocoder, clips: Iterable[VocoderInputs], note: Callable[[str, nn.Module, tuple[Tensor, ...]], None]) -> None:
    """Render the clips, with note(path, module, inputs) before every convolution."""
    layers = [(path, module) for path, module in vocoder.named_modules() if isinstance(module, Conv | ConvTranspose)]
    handles = [module.register_forward_pre_hook(partial(note, path)) for path, module in layers]
    try:
        for clip in clips:
            render_reference(vocoder, clip)
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def equalized(vocoder: Vocoder, sizes: Mapping[str, Tensor], exponent: float) -> Vocoder:
    """A copy that renders the same, in which the convolutions that `sizes` names see balanced channels. exponent 0: untouched; 1: every
    channel is as large.

    Only what becomes int8 is to be named: weights that take the scales have more to hold, 30 dB for 11 in the decoder's int8 weights.
    Where nothing before a convolution can take the scale, it stands before it as a multiplication (vocoder/prepared.py).
    """
    if not 0.0 <= exponent <= 1.0:
        raise InputError(f"equalization exponent is {exponent}: 0 to 1 is needed")
    balanced = copy.deepcopy(vocoder)
    if exponent == 0.0:
        return balanced.eval()
    for site in (site for site in sites(balanced) if site.reader in sizes):
        reader = balanced.get_submodule(site.reader)
        assert isinstance(reader, Conv | ConvTranspose), site.reader
        _fold(site, reader, _scales(sizes[site.reader], _kernel_peaks(reader), exponent))
    for path in (path for path in divided(balanced) if path in sizes):
        reader = balanced.get_submodule(path)
        assert isinstance(reader, Conv), path
        replace_module(balanced, path, PreparedConv(reader, _scales(sizes[path], _kernel_peaks(reader), exponent)))
    return balanced.eval()


def divided(vocoder: Vocoder) -> tuple[str, ...]:
    """Convolutions that read what no maker can scale: shortcuts, the text's branch, the spectrum's first ones."""
    names = ("conv1x1", "asr_res.0", "noise_convs.0", "noise_convs.1")
    return tuple(path for path, module in vocoder.named_modules() if isinstance(module, Conv) and path.endswith(names))


def _kernel_peaks(reader: Conv | ConvTranspose) -> Tensor:
    """Largest weight that reads each input channel: [C]."""
    return reader.weight.abs().amax(dim=(1, 2, 3) if isinstance(reader, ConvTranspose) else (0, 2, 3))


def _scales(activations: Tensor, kernels: Tensor, exponent: float) -> Tensor:
    """SmoothQuant's size(x)^e / peak(w)^(1 - e), geometric mean 1: [C] float64. Exponent 0 is the identity here."""
    usable = (activations > QUIET) & (kernels > QUIET)
    if exponent == 0.0 or not usable.any():
        return torch.ones_like(activations, dtype=torch.float64)
    raw = exponent * activations.double().clamp(min=QUIET).log() - (1 - exponent) * kernels.double().clamp(min=QUIET).log()
    centred = torch.where(usable, raw - raw[usable].mean(), 0.0)
    return centred.exp().clamp(1 / MAX_SCALE, MAX_SCALE)


def _fold(site: Site, reader: Conv | ConvTranspose, scales: Tensor) -> None:
    """Divide what `site` makes by `scales`, multiply what the reader takes. Everything in float64, rounded once."""
    for maker in site.makers:
        affine = maker.fc if isinstance(maker, AdaIN1d) else maker
        rows = scales.repeat(2) if isinstance(maker, AdaIN1d) else scales  # gain rows, then shift rows
        _scale(affine.weight, 1 / rows, axis=0)
        if affine.bias is not None:
            _scale(affine.bias, 1 / rows, axis=0)
    if site.snake is not None:
        _scale(site.snake.alpha, scales, axis=1)
        site.snake.freeze()
    if site.depthwise is not None and site.depthwise.bias is not None:
        _scale(site.depthwise.bias, 1 / scales, axis=0)
    _scale(reader.weight, scales, axis=0 if isinstance(reader, ConvTranspose) else 1)


def _scale(tensor: Tensor, factors: Tensor, axis: int) -> None:
    shape = [1] * tensor.dim()
    shape[axis] = -1
    tensor.copy_((tensor.double() * factors.view(shape)).to(tensor.dtype))
