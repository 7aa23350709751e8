"""Compressed constants as modules that give the dense weight when they are called, whoever decompresses.

    weight = compressed(operation, constants)   # None for any other operation
    dense = weight(PlainKernels())              # [out, in, 1, k], the type of scale or palette

coreai-torch packs indices and codes of fewer than eight bits by the names of the buffers: a palette's must be `indices` and `lut`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bench.coreai.graph import Operation
from bench.coreai.kernels import Kernels, along


def tensor_of(value: Any) -> Tensor:
    """A constant as a tensor of its own memory. int4 and the like arrive in the next wider type of NumPy."""
    array = np.asarray(value)
    return torch.from_numpy(np.array(array, _storage(array.dtype)))


def _storage(dtype: np.dtype) -> np.dtype:
    """The type that holds its values: coremltools marks 1 to 6 bits by metadata on int8 and uint8."""
    return np.dtype(dtype.str)


class Blocks(nn.Module):
    """Integers with a scale, and perhaps an offset, for each block."""

    def __init__(self, data: Tensor, scale: Tensor, offset: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("data", data)
        self.register_buffer("scale", scale)
        self.register_buffer("offset", offset)

    def forward(self, kernels: Kernels) -> Tensor:
        """The dense weight."""
        return kernels.blocks(self.data, self.scale, self.offset)


class Palette(nn.Module):
    """Indices into a table, one for each block."""

    def __init__(self, indices: Tensor, lut: Tensor) -> None:
        super().__init__()
        self.register_buffer("indices", indices)
        self.register_buffer("lut", lut)

    def forward(self, kernels: Kernels) -> Tensor:
        """The dense weight."""
        return kernels.palette(self.indices, self.lut)


def compressed(op: Operation, constants: Mapping[str, Any]) -> nn.Module | None:
    """The weight that a constexpr operation stands for. Raises NotImplementedError for one that is not bridged."""
    if not op.op_type.startswith("constexpr_"):
        return None
    given = {name: constants[source] for name, source in op.inputs.items() if isinstance(source, str)}
    if op.op_type == "constexpr_affine_dequantize":
        return _affine(**given)
    if op.op_type == "constexpr_blockwise_shift_scale":
        offset = given.get("offset")
        return Blocks(tensor_of(given["data"]), tensor_of(given["scale"]), None if offset is None else tensor_of(offset))
    if op.op_type == "constexpr_lut_to_dense":
        return _palette(**given)
    raise NotImplementedError(f"{op.op_type} '{op.name}' is not bridged")


def _affine(quantized_data: Any, zero_point: Any, scale: Any, axis: Any) -> Blocks:
    """iOS 16: scalars, or vectors along `axis`."""
    data = tensor_of(quantized_data)
    step, zero = (along(tensor_of(value), int(axis), data.dim()) for value in (scale, zero_point))
    full = step.reshape(step.shape or (1,) * data.dim())  # a scalar too has the rank of the data
    return Blocks(data, full, zero.expand(full.shape).contiguous().to(data.dtype))


def _palette(indices: Any, lut: Any, shape: Any = None, vector_axis: Any = None) -> Palette:
    """iOS 16: bits packed from the lowest on, with the final `shape`; iOS 18: one index a value, `lut` [blocks..., entries, 1]."""
    if shape is None:
        if np.shape(lut)[-1] != 1:
            raise NotImplementedError("palettes of vectors are not bridged")
        return Palette(tensor_of(indices), tensor_of(lut))
    sizes, entries = tuple(int(n) for n in shape), len(lut)
    width, count = entries.bit_length() - 1, int(np.prod(sizes))
    bits = np.unpackbits(np.asarray(indices, np.uint8), bitorder="little")[: count * width].reshape(count, width)
    codes = (bits << np.arange(width)).sum(1).astype(np.uint8).reshape(sizes)
    return Palette(torch.from_numpy(codes), tensor_of(lut).reshape((1,) * len(sizes) + (entries, 1)))
