"""The vocoder's layers as compression sees them: every convolution under its PyTorch path, with its cost and its place in the program.

    for layer in program_layers(Program(package), vocoder): print(layer.name, layer.macs, layer.elements)

Convolutions are matched by the name coremltools gives their weight constant; one whose weight is computed is matched by its bias. The
engine variant's weights are buffers of its own modules and its layers bear their names.
"""

import math
from dataclasses import dataclass

import torch
from torch import nn

from core.contract import FEATURES, STYLE
from core.errors import CheckFailed
from core.layers import StyleAffine
from mlprogram import Program
from mlprogram.examine.cost import count_macs
from mlprogram.graph import Operation
from vocoder.prepared import Ramp, Repeat, TapSum
from vocoder.windowed.model import WindowedVocoder

CONVOLUTIONS = ("conv", "conv_transpose")
MOVERS = (Ramp, Repeat, TapSum)  # modules whose constants move values
ALL_STYLES = "styles"  # the windowed form's one product for the affines of all norms


@dataclass(frozen=True)
class Layer:
    """One convolution. `macs`: multiply-accumulates in the program's smallest bucket; `input`: name of the value it reads."""

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
    """What the constants of a module are called: layer by prefix, the layers that must be found, that are styles, that are fixed."""

    layers: dict[str, str]
    wanted: set[str]
    styles: set[str]
    fixed: set[str]

    @classmethod
    def of(cls, module: nn.Module) -> "_Names":
        return _engine_names(module) if isinstance(module, WindowedVocoder) else _literal_names(module)


def _literal_names(vocoder: nn.Module) -> _Names:
    layers = {f"vocoder_{path.replace('.', '_')}_": path for path, module in vocoder.named_modules() if hasattr(module, "weight")}
    styles, movers = ({path for path, module in vocoder.named_modules() if isinstance(module, kind)} for kind in (StyleAffine, MOVERS))
    return _Names(layers, {p for p, m in vocoder.named_modules() if isinstance(m, nn.Conv2d | nn.ConvTranspose2d)}, styles, movers)


def _engine_names(engine: WindowedVocoder) -> _Names:
    kernels = {
        name: tensor
        for name, tensor in engine.named_buffers()
        if tensor.dim() == 4 and not name.startswith("stft.") and not name.endswith((".scale", ".alpha", ".reciprocal"))
    }
    names = {name: name.removesuffix(".weight") for name in kernels}
    fixed = {names[name] for name, tensor in kernels.items() if bool(((tensor == 0) | (tensor == 1)).all())}
    movers = {path for path, module in engine.named_modules() if isinstance(module, MOVERS)}
    layers = {name.replace(".", "_"): layer for name, layer in names.items()}
    return _Names(layers, set(names.values()) - movers, {ALL_STYLES}, fixed | movers)


def program_layers(program: Program, module: nn.Module) -> tuple[Layer, ...]:
    """Every convolution of an uncompressed package in program order; `module`: the Vocoder, or the WindowedVocoder it was exported from.

    Raises CheckFailed when a layer of the module has none.
    """
    shapes, names = _executed_shapes(program), _Names.of(module)
    found = [_layer(op, program, names, shapes) for op in program.operations if op.op_type in CONVOLUTIONS]
    missing = sorted(names.wanted - {layer.name for layer in found})
    if missing:
        raise CheckFailed(f"{program.path} has no convolution for {missing[0]} ({len(missing)} in all)")
    return tuple(found)


def _layer(op: Operation, program: Program, names: _Names, shapes: dict[str, tuple[int, ...]]) -> Layer:
    weight, source = op.inputs["weight"][0], op.inputs["x"][0]
    bias = op.inputs.get("bias", ("",))[0]
    paths = [path for prefix, path in names.layers.items() if any(name.startswith(prefix) for name in (weight, bias))]
    name = max(paths, key=len) if paths else op.name
    shape = _weight_shape(program, weight)
    channels, outputs = (shape[0], shape[1]) if op.op_type == "conv_transpose" else (shape[1], shape[0])
    is_tail = program.value_type(weight).dtype.name == "fp32"
    macs = count_macs(op.op_type, {"x": shapes[source], "weight": shape}, (shapes[op.outputs[0].name],), {})
    kind = {"is_style": name in names.styles, "is_tail": is_tail, "is_fixed": name in names.fixed}
    return Layer(name, op.name, op.op_type, source, weight, math.prod(shape), channels, outputs, macs, **kind)


def _weight_shape(program: Program, weight: str) -> tuple[int, ...]:
    shape = tuple(size for size in program.value_type(weight).shape if size is not None)
    if len(shape) != 4:
        raise CheckFailed(f"{program.path}: weight {weight} has {len(shape)} known sizes; a convolution of the vocoder has 4")
    return shape


def _executed_shapes(program: Program) -> dict[str, tuple[int, ...]]:
    """Shape of every produced value and input when the program runs at its smallest shape."""
    given = {name: torch.zeros(spec.shape) for name, spec in program.inputs.items()}
    shapes = {name: tuple(value.shape) for name, value in given.items()}

    def note(name: str, _: str, value: torch.Tensor) -> None:
        shapes[name] = tuple(value.shape)

    given[STYLE].fill_(1.0)
    given[FEATURES].fill_(1.0)
    program(given, hook=note)
    return shapes


def share_of_macs(layers: tuple[Layer, ...], names: set[str]) -> float:
    """Share of all multiply-accumulates, the inverse STFT's included, that the named layers do."""
    return sum(layer.macs for layer in layers if layer.name in names) / sum(layer.macs for layer in layers)
