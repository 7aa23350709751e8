"""Layers of MIL in PyTorch: convolutions, pooling, products, norms, int8 tensors. The LSTM is in lstm.py.

LAYERS["conv"](call)
"""

from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional as F

from bench.coreai.call import Call, Lowering
from bench.coreai.lstm import lstm
from bench.coreai.operations_elementwise import DTYPES


def _widths(call: Call, axes: int) -> list[tuple[int, int]]:
    """(before, after) of each spatial axis."""
    kind = call.attribute("pad_type", "valid")
    if kind not in ("valid", "custom"):
        raise call.refuse(f"pad_type {kind}")
    flat = call.attribute("pad", [0] * 2 * axes) if kind == "custom" else [0] * 2 * axes
    return [(flat[2 * i], flat[2 * i + 1]) for i in range(axes)]


def conv(call: Call) -> Tensor:
    """One or two spatial axes."""
    x, weight = call.tensor("x"), call.tensor("weight")
    axes = weight.dim() - 2
    widths = _widths(call, axes)
    same = all(before == after for before, after in widths)
    if not same:
        x = F.pad(x, [n for pair in reversed(widths) for n in pair])
    ones, run = [1] * axes, {1: F.conv1d, 2: F.conv2d}[axes]
    padding = [before if same else 0 for before, _ in widths]
    strides, dilations = call.attribute("strides", ones), call.attribute("dilations", ones)
    return run(x, weight, call.optional("bias"), strides, padding, dilations, call.attribute("groups", 1))


def conv_transpose(call: Call) -> Tensor:
    """Pad is what is cut off the full result."""
    if call.has("output_shape"):
        raise call.refuse("output_shape")
    x, weight = call.tensor("x"), call.tensor("weight")
    axes = weight.dim() - 2
    widths = _widths(call, axes)
    if any(before != after for before, after in widths):
        raise call.refuse("unequal padding")
    ones, run = [1] * axes, {1: F.conv_transpose1d, 2: F.conv_transpose2d}[axes]
    strides, dilations = call.attribute("strides", ones), call.attribute("dilations", ones)
    padding = [before for before, _ in widths]
    return run(x, weight, call.optional("bias"), strides, padding, 0, call.attribute("groups", 1), dilations)


def _pooled(call: Call) -> tuple[Tensor, list[int], list[int], list[int], bool]:
    kernel = call.attribute("kernel_sizes")
    if len(kernel) != 2:
        raise call.refuse(f"{len(kernel)} spatial axes")
    widths = _widths(call, 2)
    if any(before != after for before, after in widths):
        raise call.refuse("unequal padding")
    strides = call.attribute("strides", [1, 1])
    return call.tensor("x"), kernel, strides, [before for before, _ in widths], bool(call.attribute("ceil_mode", False))


def max_pool(call: Call) -> Tensor:
    """Two spatial axes."""
    x, kernel, strides, padding, ceil = _pooled(call)
    return F.max_pool2d(x, kernel, strides, padding, ceil_mode=ceil)


def avg_pool(call: Call) -> Tensor:
    """Two spatial axes."""
    x, kernel, strides, padding, ceil = _pooled(call)
    return F.avg_pool2d(x, kernel, strides, padding, ceil, not call.attribute("exclude_padding_from_average", False))


def matmul(call: Call) -> Tensor:
    """Of the last two axes, either turned first."""
    x, y = (call.tensor(name).transpose(-1, -2) if call.attribute(f"transpose_{name}", False) else call.tensor(name) for name in ("x", "y"))
    return torch.matmul(x, y)


def layer_norm(call: Call) -> Tensor:
    """Over the last axes."""
    x = call.tensor("x")
    axes = [a % x.dim() for a in call.attribute("axes", list(range(x.dim())))]
    if axes != list(range(x.dim() - len(axes), x.dim())):
        raise call.refuse(f"axes {axes}")
    shape = [x.shape[a] for a in axes]
    return F.layer_norm(x, shape, call.optional("gamma"), call.optional("beta"), call.attribute("epsilon", 1e-5))


def upsample(call: Call) -> Tensor:
    """Whole factors: each value repeated."""
    factors = tuple(float(call.attribute(f"scale_factor_{axis}", 1)) for axis in ("height", "width"))
    return F.interpolate(call.tensor("x"), scale_factor=factors, mode="nearest")


def quantize(call: Call) -> Tensor:
    """Values to integers."""
    dtype = DTYPES[call.attribute("output_dtype")]
    return call.kernels.quantize(call.tensor("input"), call.tensor("scale"), call.optional("zero_point"), dtype, call.attribute("axis", 0))


def dequantize(call: Call) -> Tensor:
    """And back."""
    return call.kernels.dequantize(call.tensor("input"), call.tensor("scale"), call.optional("zero_point"), call.attribute("axis", 0))


LAYERS: Mapping[str, Lowering] = MappingProxyType(
    {
        "conv": conv,
        "conv_transpose": conv_transpose,
        "max_pool": max_pool,
        "avg_pool": avg_pool,
        "linear": lambda call: F.linear(call.tensor("x"), call.tensor("weight"), call.optional("bias")),
        "matmul": matmul,
        "layer_norm": layer_norm,
        "upsample_nearest_neighbor": upsample,
        "lstm": lstm,
        "quantize": quantize,
        "dequantize": dequantize,
    }
)
