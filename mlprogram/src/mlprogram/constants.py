"""Constants of a program as NumPy arrays: values written in place, values in the blob file, and
every constexpr, each computed once.

    from mlprogram.constants import CONSTEXPR, Constants
    Constants(package).read(value_proto)  # np.ndarray, str or list
    CONSTEXPR["constexpr_affine_dequantize"](
        quantized_data=q, zero_point=0, scale=np.float16(0.1), axis=0
    )

Two constants that point at the same bytes give the same array object, so shared weights are held
once. Definitions of constexpr operations: coremltools 9.0, mil/ops/defs/iOS16/constexpr_ops.py and
iOS18/compression.py, which share names, so that one function serves both. Arithmetic is in float32
and the caller rounds once to the declared type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from mlprogram.dtypes import BY_NAME, MIL_pb2, find_dtype
from mlprogram.errors import ProgramError
from mlprogram.graph import Operation, read_tensor_shape
from mlprogram.package import BlobFile, Package, unpack_bits


def affine_dequantize(
    quantized_data: np.ndarray, zero_point: np.ndarray, scale: np.ndarray, axis: np.ndarray
) -> np.ndarray:
    """(data - zero_point) * scale; scale and zero point are scalars or vectors along `axis`."""
    # The vector gets ones around it, so that it broadcasts along `axis` alone.
    along = [1] * quantized_data.ndim
    along[int(axis)] = -1
    zero = np.reshape(zero_point, along if np.ndim(zero_point) else ()).astype(np.float32)
    step = np.reshape(scale, along if np.ndim(scale) else ()).astype(np.float32)
    # The difference is taken in float32, because int8 minus int8 may wrap around.
    return (quantized_data.astype(np.float32) - zero) * step


def cast(source_val: np.ndarray, output_dtype: str) -> np.ndarray:
    """The same values in another type."""
    return source_val.astype(BY_NAME[output_dtype].numpy)


def blockwise_shift_scale(
    data: np.ndarray, scale: np.ndarray, offset: np.ndarray | None = None
) -> np.ndarray:
    """(data - offset) * scale, where one scale serves a block: `scale` has the rank of `data`, each
    axis divides that of `data`.
    """
    shift = 0 if offset is None else _repeat_blocks(offset.astype(np.float32), data.shape)
    return (data.astype(np.float32) - shift) * _repeat_blocks(scale.astype(np.float32), data.shape)


def lut_to_dense(
    indices: np.ndarray,
    lut: np.ndarray,
    shape: np.ndarray | None = None,
    vector_axis: np.ndarray | None = None,
) -> np.ndarray:
    """Palette entries in place of indices.

    iOS 16: packed bits with the final `shape` and one palette [entries]. iOS 18: `lut` [blocks...,
    entries, vector] with the rank of `indices` plus 2; a vector longer than 1 multiplies the axis
    `vector_axis`.
    """
    if shape is not None:
        # A palette of iOS 16 has 2^bits entries, the only place where the width is told.
        bits = int(math.log2(lut.size))
        count = int(np.prod(shape))
        width = BY_NAME[f"uint{bits}"]
        return lut[unpack_bits(indices, width, count) if bits < 8 else indices[:count]].reshape(
            tuple(shape)
        )
    vector = lut.shape[-1]
    blocks, entries = lut.shape[:-2], lut.shape[-2]
    palette = np.arange(math.prod(blocks)).reshape(blocks)  # which palette serves which block
    # Two index arrays side by side pick each element's palette and the entry in it.
    # [*indices.shape, vector]
    dense = lut.reshape(-1, entries, vector)[
        _repeat_blocks(palette, indices.shape), indices.astype(np.int64)
    ]
    if vector == 1:
        return dense[..., 0]
    axis = _read_vector_axis(vector_axis) % indices.ndim
    moved = np.moveaxis(dense, -1, axis + 1)  # the vector next to the axis it extends
    # [..., n, vector, ...] -> [..., n * vector, ...]
    return moved.reshape(
        *indices.shape[:axis], indices.shape[axis] * vector, *indices.shape[axis + 1 :]
    )


def _read_vector_axis(axis: np.ndarray | None) -> int:
    if axis is None:
        raise ValueError("a palette of vectors needs vector_axis")
    return int(axis)


def sparse_to_dense(
    nonzero_data: np.ndarray, mask: np.ndarray, shape: np.ndarray | None = None
) -> np.ndarray:
    """Stored values where the mask is set, zero elsewhere. iOS 16: a packed mask with `shape`; iOS
    18: a dense uint1 mask.
    """
    if shape is not None:
        mask = unpack_bits(mask, BY_NAME["uint1"], int(np.prod(shape))).reshape(tuple(shape))
    dense = np.zeros(mask.shape, nonzero_data.dtype)
    # The stored values follow the mask in row-major order, as a boolean index takes them.
    dense[mask != 0] = nonzero_data
    return dense


def lut_to_sparse(
    indices_mask: np.ndarray,
    indices_nonzero_data: np.ndarray,
    lut: np.ndarray,
    vector_axis: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Palette entries for the stored indices of a sparse tensor: (mask, values), the mask widened
    along `vector_axis` if need be.
    """
    # A detour over a dense array, so that palettes are defined in one place.
    dense = lut_to_dense(
        sparse_to_dense(indices_nonzero_data, indices_mask), lut, vector_axis=vector_axis
    )
    mask = (
        indices_mask
        # Each index of a palette of vectors becomes several values, and the mask follows.
        if lut.shape[-1] == 1
        else np.repeat(indices_mask, lut.shape[-1], axis=_read_vector_axis(vector_axis))
    )
    return mask, dense[mask != 0]


def sparse_blockwise_shift_scale(
    data_mask: np.ndarray,
    nonzero_data: np.ndarray,
    scale: np.ndarray,
    offset: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Block scales for the stored values of a sparse tensor: (mask, values)."""
    dense = blockwise_shift_scale(sparse_to_dense(nonzero_data, data_mask), scale, offset)
    return data_mask, dense[data_mask != 0]


def _repeat_blocks(blocks: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Repeat each entry over its block until the array has `shape`."""
    for axis, size in enumerate(shape):
        # An axis of size 1 is one block for all places; an axis of full size has an entry for each.
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


class Constants:
    """Two responsibilities: read a `Value` of the protobuf, and evaluate a constexpr operation. It
    converts nothing to PyTorch.
    """

    def __init__(self, package: Package) -> None:
        self._package = package
        self._blobs: dict[str, BlobFile] = {}
        # (file, offset, type, shape) -> the array, so that equal references give one object
        self._stored: dict[tuple, np.ndarray] = {}
        # key of operation and inputs -> (its outputs, the inputs themselves)
        self._computed: dict[tuple, tuple[tuple[np.ndarray, ...], dict[str, Any]]] = {}

    def read(self, value: MIL_pb2.Value) -> Any:
        """A constant: np.ndarray (rank 0 for a scalar), str, or list for a MIL list. Raises
        ProgramError for an unknown kind.
        """
        if value.type.WhichOneof("type") == "listType":
            return [self.read(v) for v in value.immediateValue.list.values]
        if value.type.WhichOneof("type") != "tensorType":
            raise ProgramError(
                f"constant of kind {value.type.WhichOneof('type')} is not supported; supported:"
                " tensor and list"
            )
        dtype = find_dtype(value.type.tensorType.dataType)
        shape = read_tensor_shape(value.type.tensorType)
        if None in shape:
            raise ProgramError("a constant has a dimension of no size; the file is damaged")
        if value.WhichOneof("value") == "blobFileValue":
            return self._from_file(value.blobFileValue, dtype, shape)
        return _read_immediate(value.immediateValue.tensor, dtype, shape)

    def _from_file(self, blob: MIL_pb2.Value.BlobFileValue, dtype, shape) -> np.ndarray:
        key = (blob.fileName, blob.offset, dtype.name, shape)
        if key not in self._stored:
            file = self._package.open_blob(blob.fileName, self._blobs)
            self._stored[key] = file.read(blob.offset, dtype, math.prod(shape)).reshape(shape)
        return self._stored[key]

    def evaluate(self, op: Operation, arguments: dict[str, Any]) -> tuple[np.ndarray, ...]:
        """Outputs of a constexpr operation, in its declared types, from the arrays of its inputs;
        equal inputs are evaluated once.
        """
        if op.op_type not in CONSTEXPR:
            raise ProgramError(
                f"unknown operation {op.where()}; known constexpr operations:"
                f" {', '.join(sorted(CONSTEXPR))}"
            )
        # Sorted by parameter, because a file may list equal inputs in any order.
        key = (op.op_type, *((k, _make_key(v)) for k, v in sorted(arguments.items())))
        if key not in self._computed:
            try:
                result = CONSTEXPR[op.op_type](**arguments)
            except (ValueError, TypeError, IndexError, KeyError) as error:
                raise ProgramError(f"{op.where()} cannot be evaluated: {error}") from error
            results = result if isinstance(result, tuple) else (result,)
            # The arithmetic was in float32; this is the one rounding to the declared type.
            typed: tuple[np.ndarray, ...] = tuple(
                np.asarray(r, o.dtype.numpy) for r, o in zip(results, op.outputs, strict=True)
            )
            # the arguments stay alive, or another array could get their place in memory
            self._computed[key] = (typed, arguments)
        return self._computed[key][0]


def _make_key(value: Any) -> Any:
    """What makes two arguments equal: the place in memory of a stored array, the bytes of a small
    one, else the value itself.
    """
    if not isinstance(value, np.ndarray):
        return value
    if value.nbytes <= 64:
        return (value.dtype.str, value.shape, value.tobytes())
    return (value.dtype.str, value.shape, value.__array_interface__["data"][0])


def _read_immediate(tensor: MIL_pb2.TensorValue, dtype, shape) -> np.ndarray | str:
    kind = tensor.WhichOneof("value")
    count = math.prod(shape)
    if kind is None:  # an empty tensor is written as nothing
        values = np.zeros(0, dtype.numpy)
    elif kind == "bytes":
        data = np.frombuffer(tensor.bytes.values, np.uint8)
        # Values below a byte are packed, so their bytes are rounded up.
        if len(data) != (count * dtype.bits + 7) // 8:
            raise ProgramError(
                f"a constant of shape {list(shape)} ({dtype.name}) holds {len(data)} bytes; the"
                " file is damaged"
            )
        values = unpack_bits(data, dtype, count) if dtype.bits < 8 else data.view(dtype.numpy)
    else:
        # Every other kind is a message with one repeated field, `values`.
        values = np.array(getattr(tensor, kind).values, dtype.numpy)
    if len(values) != count:
        raise ProgramError(
            f"a constant of shape {list(shape)} ({dtype.name}) holds {len(values)} values; the file"
            " is damaged"
        )
    return values.item() if kind == "strings" and not shape else values.reshape(shape)
