"""The vocoder's layers as compression sees them, the plan that a method or recipe makes for each,
and the check that a package holds what was planned.

    layers = program_layers(Program(package), vocoder)
    plan = plan_for(method, layers, recipe=None)
    Coverage.of(plan, layers, Program(compressed)).require()

Convolutions are matched by the name that coremltools gives their weight constant; one whose weight
is computed is matched by its bias. The streaming generator's weights are buffers of its modules,
and its layers get the vocoder's names.
"""

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

import torch
from torch import nn

from kokoro_ane.core.errors import CheckFailed, InputError
from kokoro_ane.core.layers import StyleAffine
from kokoro_ane.quantize.methods import (
    SCHEMES,
    BlockWeights,
    LinearWeights,
    Method,
    PaletteWeights,
    Weights,
)
from kokoro_ane.vocoder.scaled_conv import Ramp, Repeat, TapSum
from kokoro_ane.vocoder.streaming.streaming_functions import DecoderFunction
from kokoro_ane.vocoder.streaming.streaming_model import GeneratorStage
from mlprogram import Program
from mlprogram.examine.profile import count_macs
from mlprogram.graph import Operation

CONVOLUTIONS = ("conv", "conv_transpose")
MOVERS = (Ramp, Repeat, TapSum)  # modules whose constants move values
ALL_STYLES = "styles"  # the streaming layouts' one product for the affines of all norms
PREDICTED = "outer"  # their product that gives all predicted statistics
POOLED_UP = "pooled.up"  # the second stage's upsampler with its phases as channels
# Layers that only the streaming layouts have -> the vocoder's layer with the same weights and
# inputs, or "" where there is none.
COUNTERPARTS = {ALL_STYLES: "", PREDICTED: "", POOLED_UP: ""}
COUNTERPARTS |= {"pooled.source": "generator.noise_convs.1"}
# elements; smaller constants stand inside the program, where coremltools compresses nothing
FEWEST = 10
# before iOS 18, from iOS 18 on
_INTEGERS = ("constexpr_affine_dequantize", "constexpr_blockwise_shift_scale")
STORAGE = {
    type(None): ("const",),
    LinearWeights: _INTEGERS,
    BlockWeights: _INTEGERS[1:],
    PaletteWeights: ("constexpr_lut_to_dense",),
}


@dataclass(frozen=True)
class Layer:
    """One convolution. `macs` counts its multiply-accumulates in the program's smallest bucket;
    `input` is the name of the value that it reads.
    """

    name: str
    op_name: str
    op_type: str
    input: str
    weight: str
    elements: int
    channels: int  # on the input side, per group
    outputs: int
    macs: int
    is_style: bool  # an AdaIN affine, one column whatever the length
    is_tail: bool  # fp32 in an fp16 package: conv_post and the inverse STFT, never compressed
    is_fixed: bool = False  # ones and zeros that move values: nothing to compress


@dataclass(frozen=True)
class _Names:
    """What the constants of a module are called: the layer by the prefix of its constants' names,
    the layers that a program must have, those that read styles, those that are fixed.
    """

    layers: dict[str, str]
    required: set[str]
    styles: set[str]
    fixed: set[str]

    @classmethod
    def of(cls, module: nn.Module) -> "_Names":
        if isinstance(module, DecoderFunction):
            return _decoder_names(module)
        return (
            _streaming_names(module)
            if isinstance(module, GeneratorStage)
            else _padded_names(module)
        )


def _padded_names(vocoder: nn.Module) -> _Names:
    layers = {
        f"vocoder_{path.replace('.', '_')}_": path
        for path, module in vocoder.named_modules()
        if hasattr(module, "weight")
    }
    styles, movers = (
        {path for path, module in vocoder.named_modules() if isinstance(module, kind)}
        for kind in (StyleAffine, MOVERS)
    )
    return _Names(
        layers,
        {p for p, m in vocoder.named_modules() if isinstance(m, nn.Conv2d | nn.ConvTranspose2d)},
        styles,
        movers,
    )


def _decoder_names(decoder: DecoderFunction) -> _Names:
    vocoder = _padded_names(decoder.vocoder)
    extra = {f"{name.replace('.', '_')}_": name for name in COUNTERPARTS}
    first = _streaming_names(decoder.generator)
    frames = {name for name in vocoder.required if not name.startswith("generator.")}
    return _Names(
        vocoder.layers | extra | first.layers,
        frames | set(extra.values()) | first.required,
        vocoder.styles | {ALL_STYLES, PREDICTED},
        vocoder.fixed | first.fixed,
    )


def _streaming_names(generator: GeneratorStage) -> _Names:
    """The names of one stage of the generator, whose weights are buffers and which stands in its
    function as `generator`. Layers get the vocoder's names, because recipes use those.
    """
    names = {
        f"generator.{name}": f"generator.{name}".removesuffix(".weight").removesuffix(".conv")
        for name, tensor in generator.named_buffers()
        if tensor.dim() == 4
        and not name.startswith("stft.")
        and not name.endswith((".scale", ".alpha", ".reciprocal"))
    }
    movers = {
        names[f"generator.{path}.weight"]
        for path, module in generator.named_modules()
        if isinstance(module, MOVERS)
    }
    layers = {name.replace(".", "_"): layer for name, layer in names.items()}
    return _Names(layers, set(names.values()) - movers, set(), movers)


def program_layers(program: Program, module: nn.Module) -> tuple[Layer, ...]:
    """Every convolution of an uncompressed function in program order. `module` is what the function
    was exported from: the Vocoder, or a module of the streaming layouts.

    Raises CheckFailed when a layer of the module has no convolution.
    """
    shapes, names = _executed_shapes(program), _Names.of(module)
    convolutions = [
        _layer(op, program, names, shapes)
        for op in program.operations
        if op.op_type in CONVOLUTIONS
    ]
    missing = sorted(names.required - {layer.name for layer in convolutions})
    if missing:
        raise CheckFailed(
            f"{program.path} has no convolution for {missing[0]} ({len(missing)} in all)"
        )
    return tuple(convolutions)


def _layer(
    op: Operation, program: Program, names: _Names, shapes: dict[str, tuple[int, ...]]
) -> Layer:
    weight, source = op.inputs["weight"][0], op.inputs["x"][0]
    bias = op.inputs.get("bias", ("",))[0]
    # several prefixes fit where one layer's path begins as another's does: the longest is meant
    paths = [
        path
        for prefix, path in names.layers.items()
        if any(name.startswith(prefix) for name in (weight, bias))
    ]
    name = max(paths, key=len) if paths else op.name
    shape = tuple(size for size in program.value_type(weight).shape if size is not None)
    if len(shape) != 4:
        raise CheckFailed(
            f"{program.path}: weight {weight} has {len(shape)} known sizes; a convolution of the"
            " vocoder has 4"
        )
    channels, outputs = (
        (shape[0], shape[1]) if op.op_type == "conv_transpose" else (shape[1], shape[0])
    )
    is_tail = program.value_type(weight).dtype.name == "fp32"
    macs = count_macs(
        op.op_type, {"x": shapes[source], "weight": shape}, (shapes[op.outputs[0].name],), {}
    )
    kind = {"is_style": name in names.styles, "is_tail": is_tail, "is_fixed": name in names.fixed}
    return Layer(
        name, op.name, op.op_type, source, weight, math.prod(shape), channels, outputs, macs, **kind
    )


def _executed_shapes(program: Program) -> dict[str, tuple[int, ...]]:
    """The shape of every input and computed value when the program runs at its smallest shape."""
    inputs = {name: torch.ones(spec.shape) for name, spec in program.inputs.items()}
    shapes = {name: tuple(value.shape) for name, value in inputs.items()}

    def note(name: str, _: str, value: torch.Tensor) -> None:
        shapes[name] = tuple(value.shape)

    program(inputs, hook=note)
    return shapes


@dataclass(frozen=True)
class LayerPlan:
    """One layer and what becomes of it. `weights` None keeps them in float."""

    layer: Layer
    weights: Weights | None
    int8_input: bool

    @property
    def int8(self) -> bool:
        """Whether the layer multiplies integer weights by integer inputs."""
        return self.int8_input and isinstance(self.weights, LinearWeights)


def in_streaming(recipe: Mapping[str, str], layers: Set[str]) -> dict[str, str]:
    """A recipe of the vocoder's layers, for one function of the streaming layout. A layer that the
    vocoder does not have takes the level of its counterpart there, and int8 weights where it has no
    counterpart or one with int8 inputs.
    """
    weights_only = {
        name: "w8"
        if not counterpart or SCHEMES[recipe[counterpart]].int8_input
        else recipe[counterpart]
        for name, counterpart in COUNTERPARTS.items()
    }
    return {name: recipe[name] for name in layers & set(recipe)} | {
        name: weights_only[name] for name in layers & set(COUNTERPARTS)
    }


def plan_for(
    method: Method,
    layers: tuple[Layer, ...],
    recipe: Mapping[str, str] | None,
    streaming: bool = False,
) -> tuple[LayerPlan, ...]:
    """The plan of every layer but the fp32 tail's and those that only move values.

    recipe: the level by layer name, for methods that need one.
    streaming: the layers are those of one function, see in_streaming.

    Raises InputError for a recipe that names other layers than the program has, for an unknown
    level and for a level that a layer cannot take.
    """
    planned = [layer for layer in layers if not layer.is_tail and not layer.is_fixed]
    if not method.by_recipe:
        return tuple(_uniform(method, layer) for layer in planned)
    if recipe is None:
        raise InputError(
            f"method {method.name!r} needs a recipe: `kokoro-ane sensitivity` finds one"
        )
    recipe = in_streaming(recipe, {layer.name for layer in planned}) if streaming else recipe
    _require_same({layer.name for layer in planned}, set(recipe))
    return tuple(_by_level(layer, recipe[layer.name]) for layer in planned)


def can_be_int8(layer: Layer) -> bool:
    """Whether a layer can multiply integers. AdaIN affines keep float inputs, and coremltools does
    not compress constants of a few values.
    """
    return not layer.is_style and layer.elements >= FEWEST


def can_be_fitted(layer: Layer) -> bool:
    """Whether a palette can be fitted to what a layer reads. Depthwise layers read one channel."""
    return layer.channels > 1 and layer.outputs > 1


def is_fitted(weights: Weights | None) -> bool:
    """Whether weights are a palette fitted to the layer's inputs."""
    return isinstance(weights, PaletteWeights) and weights.gptq


def int8_paths(
    method: Method, paths: Iterable[str], recipe: Mapping[str, str] | None
) -> frozenset[str]:
    """Those of `paths`, the vocoder's convolutions, whose input a method makes int8."""
    if method.activations is None:
        return frozenset()
    if recipe is not None and method.by_recipe:
        return frozenset(
            path for path in paths if path in recipe and SCHEMES[recipe[path]].int8_input
        )
    return frozenset(path for path in paths if method.activations.takes(path))


def pays(layer: Layer, weights: Weights) -> bool:
    """Whether compressing a layer's weights saves bytes."""
    return layer.elements > weights.keep_up_to


def _planned(layer: Layer, weights: Weights | None, int8_input: bool) -> LayerPlan:
    # a small layer's weights stay in float, but not where integers have to be multiplied
    if weights is not None and not int8_input and not pays(layer, weights):
        weights = None
    return LayerPlan(layer, weights, int8_input)


def _uniform(method: Method, layer: Layer) -> LayerPlan:
    int8_input = (
        method.activations is not None
        and can_be_int8(layer)
        and method.activations.takes(layer.name)
    )
    plan = _planned(layer, method.weights_of(layer.name), int8_input)
    single = layer.name in (ALL_STYLES, PREDICTED, POOLED_UP)
    if single and isinstance(plan.weights, PaletteWeights):
        # Their rows belong to 60 norms of very different range. One table of 64 values for all of
        # them has hardly a value for most: the SNR is -1 dB on real Kokoro.
        return replace(plan, weights=LinearWeights())
    return plan


def _by_level(layer: Layer, name: str) -> LayerPlan:
    if name not in SCHEMES:
        raise InputError(
            f"recipe: unknown level {name!r} for {layer.name}; there are: {', '.join(SCHEMES)}"
        )
    level = SCHEMES[name]
    if level.int8_input and not can_be_int8(layer):
        raise InputError(
            f"recipe: {layer.name} is an AdaIN affine or of a few weights and keeps a float input;"
            f" {name!r} cannot be"
        )
    if is_fitted(level.weights) and not can_be_fitted(layer):
        raise InputError(
            f"recipe: {layer.name} reads one channel, no palette can be fitted to that; {name!r}"
            " cannot be"
        )
    return _planned(layer, level.weights, level.int8_input)


def _require_same(program: set[str], recipe: set[str]) -> None:
    for names, what in (
        (recipe - program, "names a layer that the package does not have"),
        (program - recipe, "does not name"),
    ):
        if names:
            raise InputError(
                f"recipe {what}: {min(names)} ({len(names)} in all); run `kokoro-ane sensitivity`"
                " again"
            )


def int8_macs(plan: tuple[LayerPlan, ...], layers: tuple[Layer, ...]) -> tuple[int, int]:
    """The multiply-accumulates done on integer weights and integer inputs, and all of them, those
    of the inverse STFT included.
    """
    integer = {entry.layer.name for entry in plan if entry.int8}
    return sum(layer.macs for layer in layers if layer.name in integer), sum(
        layer.macs for layer in layers
    )


@dataclass(frozen=True)
class Coverage:
    """What a package holds of its plan. Responsibilities: 1. count what was compressed; 2. refuse a
    package that differs from its plan anywhere.
    """

    compressed_ops: int
    kept_ops: int  # convolutions whose weights stay in float by plan
    int8_inputs: int
    integer_macs: int  # multiply-accumulates on integer weights and integer inputs
    all_macs: int  # those of the inverse STFT included
    skipped: tuple[str, ...]  # layers whose weights are stored otherwise than planned
    # layers whose input is quantized against the plan, or not quantized though planned
    misplaced: tuple[str, ...]

    @classmethod
    def of(
        cls,
        plan: tuple[LayerPlan, ...],
        layers: tuple[Layer, ...],
        child: Program,
        counted: bool = True,
    ) -> "Coverage":
        """Compare the package with the plan. Without `counted` its multiply-accumulates are left
        out of the share in int8.
        """
        convolutions = {op.name: op for op in child.operations if op.op_type in CONVOLUTIONS}
        kinds = {value.name: op.op_type for op in child.operations for value in op.outputs}
        lost = [entry.layer.name for entry in plan if entry.layer.op_name not in convolutions]
        if lost:
            raise CheckFailed(
                f"convolution {lost[0]} is not in the compressed package; the package was not kept"
            )
        integer_macs, all_macs = int8_macs(plan, layers) if counted else (0, 0)
        compressed, int8_inputs, skipped, misplaced = 0, 0, [], []
        for entry in plan:
            inputs = convolutions[entry.layer.op_name].inputs
            # what computes the weight and the input; an input of the function has no maker
            stored, maker = kinds[inputs["weight"][0]], kinds.get(inputs["x"][0])
            compressed += stored.startswith("constexpr_")
            int8_inputs += maker == "dequantize"
            if stored not in STORAGE[type(entry.weights)]:
                skipped.append(entry.layer.name)
            if (maker == "dequantize") != entry.int8_input:
                misplaced.append(entry.layer.name)
        uncompressed = sum(entry.weights is None for entry in plan)
        names = tuple(skipped), tuple(misplaced)
        return cls(compressed, uncompressed, int8_inputs, integer_macs, all_macs, *names)

    @classmethod
    def together(cls, parts: Sequence["Coverage"]) -> "Coverage":
        """The coverage of a package of several functions."""
        # every field is a count or a tuple of names: `+` adds the one and joins the other
        fields = zip(*map(astuple, parts), strict=True)
        return cls(*(sum(values[1:], values[0]) for values in fields))

    def require(self) -> None:
        """Raise CheckFailed when the package differs from the plan or nothing was compressed."""
        for names, what in (
            (self.skipped, "weights are not stored as planned"),
            (self.misplaced, "inputs are not as planned"),
        ):
            if names:
                raise CheckFailed(
                    f"{len(names)} convolutions: {what}, the first is {names[0]}; the package was"
                    " not kept"
                )
        if not self.compressed_ops:
            raise CheckFailed("no weight was compressed; the package was not kept")

    def as_dict(self) -> dict[str, Any]:
        """The counts for the manifest."""
        fields = asdict(self)
        share = fields.pop("integer_macs") / fields.pop("all_macs")
        return fields | {"int8_macs_share": round(share, 5)}
