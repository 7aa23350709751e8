"""Levels simulated layer by layer in PyTorch, on the same grids as the packages: what the search
for a recipe renders with.

    with simulated(vocoder, {"generator.resblocks.0.convs1.0": SCHEMES["w8a8"]}, ranges): samples = render_reference(vocoder, inputs)

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
from kokoro_ane.quantize.stored import palette_table
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.scaled_conv import input_factor

INT8_STEPS = 127


def linear_grid(weight: Tensor, bits: int, axis: int) -> Tensor:
    """Symmetric integers times one fp16 scale along `axis`: the weights the package holds."""
    steps = 2 ** (bits - 1) - 1
    peak = (
        weight.abs()
        .amax(dim=[d for d in range(weight.dim()) if d != axis], keepdim=True)
        .clamp(min=1e-12)
    )
    return torch.round(weight * (steps / peak)).clamp(-steps, steps) * (peak / steps).half().float()


def on_grid(weight: Tensor, weights: Weights, transposed: bool, fit: Fit | None = None) -> Tensor:
    """A weight as a package stores it under `weights`; the output channel's axis is 1 for a
    transposed convolution.
    """
    if isinstance(weights, LinearWeights):
        return linear_grid(weight, weights.bits, axis=1 if transposed else 0)
    if isinstance(weights, PaletteWeights):
        return torch.from_numpy(
            palette_table(weight.half().numpy(), weights, transposed, fit)
            .decoded()
            .astype(np.float32)
        )
    raise TypeError(f"{weights} is not simulated: no recipe level uses it")


def activation_grid(x: Tensor, peak: float) -> Tensor:
    """Symmetric int8 with one fp16 scale for the tensor, as `quantize` then `dequantize` compute
    it.
    """
    scale = float(np.float16(peak / INT8_STEPS)) or 1.0
    return torch.round(x / scale).clamp(-INT8_STEPS - 1, INT8_STEPS) * scale


def input_sizes(
    vocoder: Vocoder, clips: Iterable[VocoderInputs], percentile: float
) -> dict[str, float]:
    """Ranges of what each convolution reads, as quantize.activations.input_ranges measures them on
    a package.
    """
    peaks: dict[str, float] = {}

    def note(path: str, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        peaks[path] = max(
            peaks.get(path, 0.0),
            exceeded(inputs[0] * input_factor(layer, inputs[0]), 1 - percentile / 100),
        )

    watched(vocoder, clips, note)
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
    """Inside, the named layers have their levels: weights replaced, inputs rounded by hooks.
    Outside, everything is as before.

    `ranges`: of what each layer reads after its own preparation (vocoder/scaled_conv.py); `fits`:
    where palettes are fitted.
    """
    with ExitStack() as undo, torch.no_grad():
        for path, level in levels.items():
            layer = vocoder.get_submodule(path)
            # as every layer that compression names
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
    """The input that gives what the layer computes from its rounded one."""
    before = input_factor(layer, inputs[0])
    return (activation_grid(inputs[0] * before, size) / before,)
