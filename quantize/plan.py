"""The vocoder's layers as compression sees them, by their names in the module, and the plan that a
method or a recipe makes for each.

    layers = list_vocoder_layers(vocoder)
    plan = plan_for(METHODS["w8a8"], layers, recipe=None)
    plan["decode.0.conv1"].int8_input

Recipes use these names. The streaming layouts' layers take what the vocoder's layer with the same
weights takes (quantize/streaming_level.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from kokoro_ane.core import (
    COLUMNS_PER_FRAME,
    PROSODY_PER_FRAME,
    SPECTRUM_CHANNELS,
    InputError,
    StyleAffine,
)
from kokoro_ane.quantize.methods import SCHEMES, IntegerWeights, Method, PaletteWeights, Weights
from kokoro_ane.vocoder import TAIL_MODULES, Vocoder

# elements; coremltools writes smaller constants into the program and compresses nothing there
FEWEST = 10
# A tensor up to this size saves nothing, because of its scales or palette and of the alignment to
# 64 bytes.
SMALL = 2048  # elements
COUNTED_FRAMES = 40  # of the utterance that multiply-accumulates are counted in


@dataclass(frozen=True)
class LayerSpec:
    """One convolution, or of the encoder (quantize/encoder_layers.py) any weight. `macs` counts its
    multiply-accumulates in an utterance of COUNTED_FRAMES.
    """

    name: str
    transposed: bool
    elements: int
    channels: int  # on the input side, per group
    outputs: int
    macs: int
    is_style: bool  # an AdaIN affine, one column whatever the length
    is_tail: bool  # fp32 in an fp16 package: conv_post and the inverse STFT, never compressed
    half: bool = True  # whether an fp16 package computes with its weights in 16 bits


def list_vocoder_layers(vocoder: Vocoder) -> tuple[LayerSpec, ...]:
    """Every convolution of the vocoder in the order of its modules, and the inverse STFT."""
    macs = _count_macs(vocoder)
    layers = []
    for path, module in vocoder.named_modules():
        is_tail = path.rpartition(".")[2] in TAIL_MODULES
        if not isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            if is_tail:
                layers.append(LayerSpec(path, True, 0, 0, 0, macs[path], False, True))
            continue
        transposed = isinstance(module, nn.ConvTranspose2d)
        shape = module.weight.shape
        # A transposed weight is [I, O, 1, k], any other [O, I, 1, k].
        channels, outputs = (shape[0], shape[1]) if transposed else (shape[1], shape[0])
        # Taps of zero stand in a package's weights too, and take bytes there.
        zeros = shape[:3].numel() * getattr(module, "zero_taps", 0)
        layers.append(
            LayerSpec(
                path,
                transposed,
                module.weight.numel() + zeros,
                channels,
                outputs,
                macs.get(path, 0),
                isinstance(module, StyleAffine),
                is_tail,
            )
        )
    return tuple(layers)


@torch.no_grad()
def _count_macs(vocoder: Vocoder) -> dict[str, int]:
    """Multiply-accumulates of every module, by path."""
    frames = COUNTED_FRAMES
    style_dim = vocoder.encode.norm1.fc.in_channels
    tracks = torch.ones(1, 1, 1, PROSODY_PER_FRAME * frames)
    spectrum = torch.zeros(1, SPECTRUM_CHANNELS, 1, COLUMNS_PER_FRAME * frames + 1)
    asr = torch.zeros(1, vocoder.residual_conv.in_channels, 1, frames)
    with FlopCounterMode(display=False) as counter:
        vocoder(asr, tracks, tracks, torch.zeros(1, style_dim, 1, 1), spectrum)
    root = f"{type(vocoder).__name__}."
    # The counter counts a multiplication and an addition as two.
    return {
        path.removeprefix(root): sum(counts.values()) // 2
        for path, counts in counter.get_flop_counts().items()
    }


@dataclass(frozen=True)
class LayerPlan:
    """One layer and what becomes of it. `weights` None keeps them in float."""

    layer: LayerSpec
    weights: Weights | None
    int8_input: bool

    @property
    def int8(self) -> bool:
        """Whether the layer multiplies weights of 8 bits by integer inputs."""
        entries = isinstance(self.weights, PaletteWeights) and self.weights.int8_entries
        return self.int8_input and (entries or self.weights == IntegerWeights())


def plan_for(
    method: Method, layers: tuple[LayerSpec, ...], recipe: Mapping[str, str] | None
) -> dict[str, LayerPlan]:
    """The plan of every layer but the fp32 tail's, by name.

    recipe: the level by layer name, for methods that need one.

    Raises InputError for a recipe that names other layers than the vocoder has, and for a level
    that a layer cannot take.
    """
    planned = [layer for layer in layers if not layer.is_tail]
    if not method.by_recipe:
        return {layer.name: _plan_uniform(method, layer) for layer in planned}
    if recipe is None:
        raise InputError(
            f"method {method.name!r} needs a recipe: `kokoro-ane release --smallest` finds one"
        )
    require_same("vocoder", {layer.name for layer in planned}, set(recipe))
    return {layer.name: plan_by_level(layer, recipe[layer.name]) for layer in planned}


def can_be_int8(layer: LayerSpec) -> bool:
    """Whether a layer can multiply integers. AdaIN affines keep float inputs, and coremltools does
    not compress constants of a few values.
    """
    return not layer.is_style and layer.elements >= FEWEST


def can_be_fitted(layer: LayerSpec) -> bool:
    """Whether weights can be fitted to what a layer reads. Depthwise layers read one channel."""
    return layer.channels > 1 and layer.outputs > 1


def is_fitted(weights: Weights | None) -> bool:
    """Whether weights are fitted to the layer's inputs."""
    return isinstance(weights, IntegerWeights | PaletteWeights) and weights.gptq


def can_save(layer: LayerSpec) -> bool:
    """Whether compressing a layer's weights saves bytes."""
    return layer.elements > SMALL


def plan_layer(layer: LayerSpec, weights: Weights | None, int8_input: bool) -> LayerPlan:
    """The plan of one layer."""
    # a small layer's weights stay in float, but not where integers have to be multiplied
    if not int8_input and not can_save(layer):
        weights = None
    return LayerPlan(layer, weights, int8_input)


def _plan_uniform(method: Method, layer: LayerSpec) -> LayerPlan:
    int8_input = (
        method.activations is not None
        and can_be_int8(layer)
        and method.activations.takes(layer.name)
    )
    weights = method.find_weights(layer.name)
    # A palette that nothing can be fitted to gives way to integers.
    if is_fitted(weights) and not can_be_fitted(layer):
        weights = IntegerWeights()
    return plan_layer(layer, weights, int8_input)


def plan_by_level(layer: LayerSpec, name: str) -> LayerPlan:
    """What a level of SCHEMES makes of a layer. Raises InputError where it cannot be."""
    level = SCHEMES[name]
    if level.int8_input and not can_be_int8(layer):
        raise InputError(
            f"recipe: {layer.name} is an AdaIN affine or of a few weights and keeps a float input;"
            f" {name!r} cannot be"
        )
    if is_fitted(level.weights) and not can_be_fitted(layer):
        raise InputError(
            f"recipe: {layer.name} reads one channel, no weights can be fitted to that; {name!r}"
            " cannot be"
        )
    return plan_layer(layer, level.weights, level.int8_input)


def require_same(network: str, layers: set[str], recipe: set[str]) -> None:
    """Raise InputError where a recipe names other layers than the network has."""
    for names, what in (
        (recipe - layers, f"names a layer that the {network} does not have"),
        (layers - recipe, "does not name"),
    ):
        if names:
            raise InputError(
                f"recipe {what}: {min(names)} ({len(names)} in all); `kokoro-ane release"
                " --smallest` finds another"
            )


def int8_macs_share(plan: Mapping[str, LayerPlan], layers: tuple[LayerSpec, ...]) -> float:
    """The share of multiply-accumulates done on integer weights and integer inputs, those of the
    inverse STFT among the others.
    """
    integer = sum(layer.macs for layer in layers if layer.name in plan and plan[layer.name].int8)
    return integer / sum(layer.macs for layer in layers)
