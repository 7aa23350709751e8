"""What a method does to each layer of a program: the one place where methods, recipes and exceptions meet.

plan = plan_for(METHODS["w8a8"], program_layers(program, vocoder), recipe=None)
int8_share(plan)
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from core.errors import InputError
from quantize.layers import ALL_STYLES, Layer, share_of_macs
from quantize.methods import SCHEMES, Activations, LinearWeights, Method, PaletteWeights, Weights

FEWEST = 10  # elements; smaller constants stand inside the program, where coremltools compresses nothing


@dataclass(frozen=True)
class LayerPlan:
    """One layer and what becomes of it: `weights` None keeps them in float."""

    layer: Layer
    weights: Weights | None
    int8_input: bool

    @property
    def int8(self) -> bool:
        """Integer weights times integer inputs."""
        return self.int8_input and isinstance(self.weights, LinearWeights)


def plan_for(method: Method, layers: tuple[Layer, ...], recipe: Mapping[str, str] | None) -> tuple[LayerPlan, ...]:
    """The plan of every layer but the fp32 tail's and those that only move values. `recipe`: level by layer name, where needed.

    Raises InputError for a recipe that names other layers than the program has, an unknown level or a level a layer cannot take.
    """
    planned = [layer for layer in layers if not layer.is_tail and not layer.is_fixed]
    if not method.by_recipe:
        return tuple(_uniform(method, layer) for layer in planned)
    if recipe is None:
        raise InputError(f"method {method.name!r} needs a recipe: `python -m quantize.sensitivity` finds one")
    _require_same({layer.name for layer in planned}, set(recipe))
    return tuple(_by_level(layer, recipe[layer.name]) for layer in planned)


def can_be_int8(layer: Layer) -> bool:
    """Whether a layer can multiply integers: AdaIN affines keep float inputs, and coremltools leaves constants of a few values alone."""
    return not layer.is_style and layer.elements >= FEWEST


def reads_int8(layer: Layer, activations: Activations) -> bool:
    """Whether a layer's input becomes int8: it can, and no exception names it."""
    return can_be_int8(layer) and activations.takes(layer.name)


def can_be_fitted(layer: Layer) -> bool:
    """Whether a palette can be fitted to what a layer reads: affines read one column a sentence, depthwise ones one channel."""
    return not layer.is_style and layer.channels > 1 and layer.outputs > 1


def is_fitted(weights: Weights | None) -> bool:
    """Whether weights are a palette fitted to the layer's inputs."""
    return isinstance(weights, PaletteWeights) and weights.gptq


def int8_paths(method: Method, paths: Iterable[str], recipe: Mapping[str, str] | None) -> frozenset[str]:
    """Those of the vocoder's convolutions whose input a method makes int8, by PyTorch path."""
    if method.activations is None:
        return frozenset()
    if recipe is not None and method.by_recipe:
        return frozenset(path for path in paths if path in recipe and SCHEMES[recipe[path]].int8_input)
    return frozenset(path for path in paths if method.activations.takes(path))


def pays(layer: Layer, weights: Weights) -> bool:
    """Whether compressing a layer's weights saves bytes."""
    return layer.elements > weights.keep_up_to


def _uniform(method: Method, layer: Layer) -> LayerPlan:
    int8_input = method.activations is not None and reads_int8(layer, method.activations)
    weights = method.weights if method.weights is not None and (int8_input or pays(layer, method.weights)) else None
    if layer.name == ALL_STYLES and isinstance(weights, PaletteWeights):
        weights = LinearWeights()  # rows of 60 norms: one table of 64 values for all is none for most (SNR -1 dB on real Kokoro)
    return LayerPlan(layer, weights, int8_input)


def _by_level(layer: Layer, name: str) -> LayerPlan:
    if name not in SCHEMES:
        raise InputError(f"recipe: unknown level {name!r} for {layer.name}; there are: {', '.join(SCHEMES)}")
    level = SCHEMES[name]
    if level.int8_input and not can_be_int8(layer):
        raise InputError(f"recipe: {layer.name} is an AdaIN affine or of a few weights and keeps a float input; {name!r} cannot be")
    if is_fitted(level.weights) and not can_be_fitted(layer):
        raise InputError(f"recipe: {layer.name} reads one column or one channel, no palette can be fitted to that; {name!r} cannot be")
    weights = level.weights if level.weights is not None and (level.int8_input or pays(layer, level.weights)) else None
    return LayerPlan(layer, weights, level.int8_input)


def _require_same(program: set[str], recipe: set[str]) -> None:
    for names, what in ((recipe - program, "names a layer that the package does not have"), (program - recipe, "does not name")):
        if names:
            raise InputError(f"recipe {what}: {min(names)} ({len(names)} in all); run `python -m quantize.sensitivity` again")


def int8_share(plan: tuple[LayerPlan, ...], layers: tuple[Layer, ...]) -> float:
    """Share of the vocoder's multiply-accumulates, the inverse STFT's included, done on integer weights and integer inputs."""
    return share_of_macs(layers, {entry.layer.name for entry in plan if entry.int8})
