"""Constants of a program as NumPy arrays: values written in place, values in the blob file, and every constexpr, each computed once.

    from mlprogram.constants import Constants
    constants = Constants(package)
    constants.read(value_proto)  # np.ndarray, str or list

Two constants that point at the same bytes give the same array object, so shared weights are held once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mlprogram.constexpr import CONSTEXPR
from mlprogram.dtypes import dtype_of
from mlprogram.errors import ProgramError
from mlprogram.graph import Operation, tensor_shape
from mlprogram.package import Package
from mlprogram.protos import MIL_pb2
from mlprogram.weights import BlobFile, unpack_bits


class Constants:
    """Two responsibilities: read a `Value` of the protobuf, and evaluate a constexpr operation. It converts nothing to PyTorch."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._blobs: dict[str, BlobFile] = {}
        self._stored: dict[tuple, np.ndarray] = {}
        self._computed: dict[tuple, tuple[tuple[np.ndarray, ...], dict[str, Any]]] = {}

    def read(self, value: MIL_pb2.Value) -> Any:
        """A constant: np.ndarray (rank 0 for a scalar), str, or list for a MIL list. Raises ProgramError for an unknown kind."""
        if value.type.WhichOneof("type") == "listType":
            return [self.read(v) for v in value.immediateValue.list.values]
        if value.type.WhichOneof("type") != "tensorType":
            raise ProgramError(f"constant of kind {value.type.WhichOneof('type')} is not supported; supported: tensor and list")
        dtype, shape = dtype_of(value.type.tensorType.dataType), tensor_shape(value.type.tensorType)
        if value.WhichOneof("value") == "blobFileValue":
            return self._from_file(value.blobFileValue, dtype, shape)
        return _immediate(value.immediateValue.tensor, dtype, shape)

    def _from_file(self, blob: MIL_pb2.Value.BlobFileValue, dtype, shape) -> np.ndarray:
        key = (blob.fileName, blob.offset, dtype.name, shape)
        if key not in self._stored:
            file = self._package.blob(blob.fileName, self._blobs)
            self._stored[key] = file.read(blob.offset, dtype, math.prod(shape)).reshape(shape)
        return self._stored[key]

    def evaluate(self, op: Operation, arguments: dict[str, Any]) -> tuple[np.ndarray, ...]:
        """Outputs of a constexpr operation, in its declared types, from the arrays of its inputs; equal inputs are evaluated once."""
        if op.op_type not in CONSTEXPR:
            raise ProgramError(f"unknown operation {op.where()}; known constexpr operations: {', '.join(sorted(CONSTEXPR))}")
        key = (op.op_type, *((k, _identity(v)) for k, v in sorted(arguments.items())))
        if key not in self._computed:
            try:
                result = CONSTEXPR[op.op_type](**arguments)
            except (ValueError, TypeError, IndexError, KeyError) as error:
                raise ProgramError(f"{op.where()} cannot be evaluated: {error}") from error
            results = result if isinstance(result, tuple) else (result,)
            typed: tuple[np.ndarray, ...] = tuple(np.asarray(r, o.dtype.numpy) for r, o in zip(results, op.outputs, strict=True))
            self._computed[key] = (typed, arguments)  # the arguments stay alive, or another array could get their place in memory
        return self._computed[key][0]


def _identity(value: Any) -> Any:
    """What makes two arguments equal: the place in memory of a stored array, the bytes of a small one, else the value itself."""
    if not isinstance(value, np.ndarray):
        return value
    if value.nbytes <= 64:
        return (value.dtype.str, value.shape, value.tobytes())
    return (value.dtype.str, value.shape, value.__array_interface__["data"][0])


def _immediate(tensor: MIL_pb2.TensorValue, dtype, shape) -> np.ndarray | str:
    kind, count = tensor.WhichOneof("value"), math.prod(shape)
    if kind is None:  # an empty tensor is written as nothing
        values = np.zeros(0, dtype.numpy)
    elif kind == "bytes":
        data = np.frombuffer(tensor.bytes.values, np.uint8)
        if len(data) != (count * dtype.bits + 7) // 8:
            raise ProgramError(f"a constant of shape {list(shape)} ({dtype.name}) holds {len(data)} bytes; the file is damaged")
        values = unpack_bits(data, dtype, count) if dtype.bits < 8 else data.view(dtype.numpy)
    else:
        values = np.array(getattr(tensor, kind).values, dtype.numpy)
    if len(values) != count:
        raise ProgramError(f"a constant of shape {list(shape)} ({dtype.name}) holds {len(values)} values; the file is damaged")
    return values.item() if kind == "strings" and not shape else values.reshape(shape)
