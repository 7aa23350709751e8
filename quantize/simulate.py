"""Levels simulated layer by layer in PyTorch, on the same grids as the packages. The search for a
recipe renders with them.

    with simulated(vocoder, {"generator.resblocks.0.convs1.0": SCHEMES["w8a8"]}, ranges):
        samples = render_reference(vocoder, inputs)

A figure that decides anything is measured on the executed package, never here.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor, nn

from kokoro_ane.core.layers import ConvTranspose
from kokoro_ane.quantize.balance import exceeded, watched
from kokoro_ane.quantize.methods import LinearWeights, PaletteWeights, Scheme, Weights
from kokoro_ane.quantize.palettes import Fit
from kokoro_ane.quantize.fits import form_of
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.scaled_conv import input_factor

INT8_STEPS = 127


def on_grid(weight: Tensor, weights: Weights, transposed: bool, fit: Fit | None = None) -> Tensor:
    """The values of a weight that a package stores by the scheme `weights`. The axis of the output
    channels is 1 of a transposed convolution.
    """
    if isinstance(weights, LinearWeights):
        # symmetric integers times one fp16 scale per output channel
        steps = 2 ** (weights.bits - 1) - 1
        others = [place for place in range(weight.dim()) if place != int(transposed)]
        peak = weight.abs().amax(dim=others, keepdim=True).clamp(min=1e-12)
        integers = torch.round(weight * (steps / peak)).clamp(-steps, steps)
        return integers * (peak / steps).half().float()
    if isinstance(weights, PaletteWeights):
        form = form_of(weight.half().numpy(), weights, fit, int(transposed))
        assert form is not None
        return form()
    raise TypeError(f"{weights} is not simulated: no recipe level uses it")


def activation_grid(x: Tensor, peak: float) -> Tensor:
    """The values after Core ML's `quantize` and `dequantize`: symmetric int8 with one fp16 scale
    for the tensor.
    """
    scale = float(np.float16(peak / INT8_STEPS)) or 1.0
    return torch.round(x / scale).clamp(-INT8_STEPS - 1, INT8_STEPS) * scale


def input_sizes(
    vocoder: Vocoder, clips: Iterable[VocoderInputs], percentile: float
) -> dict[str, float]:
    """The range of what each convolution reads, as quantize.activations.input_ranges measures it on
    a package.
    """
    peaks: dict[str, float] = {}

    def note(path: str, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        peaks[path] = max(
            peaks.get(path, 0.0),
            exceeded(inputs[0] * input_factor(layer, inputs[0]), 1 - percentile / 100),
        )

    watched(vocoder, clips, note)
    # what has been divided by its envelope reaches 1 by construction
    fixed = {
        path
        for path, layer in vocoder.named_modules()
        if getattr(layer, "envelope", None) is not None
    }
    return {path: 1.0 if path in fixed else size for path, size in peaks.items()}


@contextmanager
def simulated(
    vocoder: nn.Module,
    levels: Mapping[str, Scheme],
    ranges: Mapping[str, float],
    fits: Mapping[str, Fit] = MappingProxyType({}),
) -> Iterator[None]:
    """Give the named layers their levels inside the `with` block: weights are replaced, inputs are
    rounded by hooks. After it everything is as before.

    ranges: of what each layer reads after its scaling (vocoder/scaled_conv.py).
    fits: of the layers whose palettes are fitted.
    """
    with ExitStack() as undo, torch.no_grad():
        for path, level in levels.items():
            layer = vocoder.get_submodule(path)
            # every layer that compression names is one of these
            assert isinstance(layer, nn.Conv2d | nn.ConvTranspose2d), path
            if level.weights is not None:
                undo.callback(layer.weight.data.copy_, layer.weight.detach().clone())
                layer.weight.data.copy_(
                    on_grid(
                        layer.weight.detach(),
                        level.weights,
                        isinstance(layer, ConvTranspose),
                        fits.get(path),
                    )
                )
            if level.int8_input:
                undo.callback(
                    layer.register_forward_pre_hook(partial(_rounded, ranges[path])).remove
                )
        yield


def _rounded(size: float, layer: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The input that makes the layer compute with its rounded, scaled input."""
    before = input_factor(layer, inputs[0])
    return (activation_grid(inputs[0] * before, size) / before,)
