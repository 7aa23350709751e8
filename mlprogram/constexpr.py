"""Every constexpr operation in NumPy: compressed weights become dense weights once, when a program is loaded.

    from mlprogram.constexpr import CONSTEXPR
    CONSTEXPR["constexpr_affine_dequantize"](quantized_data=q, zero_point=0, scale=np.float16(0.1), axis=0)

Definitions: coremltools 9.0, mil/ops/defs/iOS16/constexpr_ops.py and iOS18/compression.py. The two generations share names and differ in
their parameters, so one function serves both. Arithmetic is in float32 and the caller rounds once to the declared type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from mlprogram.dtypes import BY_NAME
from mlprogram.weights import unpack_bits


def affine_dequantize(quantized_data: np.ndarray, zero_point: np.ndarray, scale: np.ndarray, axis: np.ndarray) -> np.ndarray:
    """(data - zero_point) * scale; scale and zero point are scalars or vectors along `axis`."""
    along = [1] * quantized_data.ndim
    along[int(axis)] = -1
    zero = np.reshape(zero_point, along if np.ndim(zero_point) else ()).astype(np.float32)
    step = np.reshape(scale, along if np.ndim(scale) else ()).astype(np.float32)
    return (quantized_data.astype(np.float32) - zero) * step


def cast(source_val: np.ndarray, output_dtype: str) -> np.ndarray:
    """The same values in another type."""
    return source_val.astype(BY_NAME[output_dtype].numpy)


def blockwise_shift_scale(data: np.ndarray, scale: np.ndarray, offset: np.ndarray | None = None) -> np.ndarray:
    """(data - offset) * scale, where one scale serves a block: `scale` has the rank of `data`, each axis divides that of `data`."""
    shift = 0 if offset is None else _spread(offset.astype(np.float32), data.shape)
    return (data.astype(np.float32) - shift) * _spread(scale.astype(np.float32), data.shape)


def lut_to_dense(
    indices: np.ndarray, lut: np.ndarray, shape: np.ndarray | None = None, vector_axis: np.ndarray | None = None
) -> np.ndarray:
    """Palette entries in place of indices.

    iOS 16: packed bits with the final `shape` and one palette [entries]. iOS 18: `lut` [blocks..., entries, vector] with the rank of
    `indices` plus 2; a vector longer than 1 multiplies the axis `vector_axis`.
    """
    if shape is not None:
        bits = int(math.log2(lut.size))
        count = int(np.prod(shape))
        width = BY_NAME[f"uint{bits}"]
        return lut[unpack_bits(indices, width, count) if bits < 8 else indices[:count]].reshape(tuple(shape))
    vector = lut.shape[-1]
    blocks, entries = lut.shape[:-2], lut.shape[-2]
    palette = np.arange(math.prod(blocks)).reshape(blocks)  # which palette serves which block
    dense = lut.reshape(-1, entries, vector)[_spread(palette, indices.shape), indices.astype(np.int64)]  # [*indices.shape, vector]
    if vector == 1:
        return dense[..., 0]
    axis = _vector_axis(vector_axis) % indices.ndim
    moved = np.moveaxis(dense, -1, axis + 1)  # the vector next to the axis it extends
    return moved.reshape(*indices.shape[:axis], indices.shape[axis] * vector, *indices.shape[axis + 1 :])


def _vector_axis(axis: np.ndarray | None) -> int:
    if axis is None:
        raise ValueError("a palette of vectors needs vector_axis")
    return int(axis)


def sparse_to_dense(nonzero_data: np.ndarray, mask: np.ndarray, shape: np.ndarray | None = None) -> np.ndarray:
    """Stored values where the mask is set, zero elsewhere. iOS 16: a packed mask with `shape`; iOS 18: a dense uint1 mask."""
    if shape is not None:
        mask = unpack_bits(mask, BY_NAME["uint1"], int(np.prod(shape))).reshape(tuple(shape))
    dense = np.zeros(mask.shape, nonzero_data.dtype)
    dense[mask != 0] = nonzero_data
    return dense


def lut_to_sparse(
    indices_mask: np.ndarray, indices_nonzero_data: np.ndarray, lut: np.ndarray, vector_axis: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Palette entries for the stored indices of a sparse tensor: (mask, values), the mask widened along `vector_axis` if need be."""
    dense = lut_to_dense(sparse_to_dense(indices_nonzero_data, indices_mask), lut, vector_axis=vector_axis)
    mask = indices_mask if lut.shape[-1] == 1 else np.repeat(indices_mask, lut.shape[-1], axis=_vector_axis(vector_axis))
    return mask, dense[mask != 0]


def sparse_blockwise_shift_scale(
    data_mask: np.ndarray, nonzero_data: np.ndarray, scale: np.ndarray, offset: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Block scales for the stored values of a sparse tensor: (mask, values)."""
    dense = blockwise_shift_scale(sparse_to_dense(nonzero_data, data_mask), scale, offset)
    return data_mask, dense[data_mask != 0]


def _spread(blocks: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Repeat each entry over its block until the array has `shape`."""
    for axis, size in enumerate(shape):
        blocks = np.repeat(blocks, size // blocks.shape[axis], axis=axis)
    return blocks


CONSTEXPR: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "constexpr_affine_dequantize": affine_dequantize,
        "constexpr_blockwise_shift_scale": blockwise_shift_scale,
        "constexpr_cast": cast,
        "constexpr_lut_to_dense": lut_to_dense,
        "constexpr_lut_to_sparse": lut_to_sparse,
        "constexpr_sparse_blockwise_shift_scale": sparse_blockwise_shift_scale,
        "constexpr_sparse_to_dense": sparse_to_dense,
    }
)
