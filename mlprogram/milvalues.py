"""Constants of the text form of an ML program as values of the protobuf. mlprogram/miltext.py reads the text around them.

value_of(tensor_type, [[1, 2], [3, 4]])  # MIL_pb2.Value
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Any

from mlprogram.protos import MIL_pb2

TYPES = MappingProxyType(
    {
        **{name: getattr(MIL_pb2, name.upper()) for name in ("bool", "string", "int4", "int8", "int16", "int32", "int64")},
        **{f"uint{bits}": getattr(MIL_pb2, f"UINT{bits}") for bits in (1, 2, 3, 4, 6, 8, 16, 32, 64)},
        "fp16": MIL_pb2.FLOAT16,
        "fp32": MIL_pb2.FLOAT32,
        "fp64": MIL_pb2.FLOAT64,
        "bf16": MIL_pb2.BFLOAT16,
    }
)


class Blob:
    """Where a constant lies in a weights file."""

    def __init__(self, places: dict[str, tuple[MIL_pb2.ValueType, Any]]) -> None:
        self.path, self.offset = places["path"][1], places["offset"][1]


def number(token: str) -> int | float:
    """A number as the text writes it: decimal, or a float in hexadecimal. Raises ValueError."""
    if "0x" in token.lower():
        return float.fromhex(token) if "p" in token.lower() or "." in token else int(token, 16)
    return int(token) if re.fullmatch(r"[-+]?\d+", token) else float(token)


def fill_dimension(dimension: MIL_pb2.Dimension, size: str) -> None:
    """A size, `?` for one that only a run knows, `...` for any number of axes."""
    if size.isdecimal():
        dimension.constant.size = int(size)
    else:
        dimension.unknown.variadic = size == "..."


def value_of(kind: MIL_pb2.ValueType, literal: Any) -> MIL_pb2.Value:
    """A constant of the protobuf. Lists of lists are flattened: the type holds the shape."""
    value = MIL_pb2.Value(type=kind)
    if isinstance(literal, Blob):
        value.blobFileValue.fileName, value.blobFileValue.offset = literal.path, literal.offset
    elif kind.WhichOneof("type") == "listType":
        value.immediateValue.list.values.extend(value_of(kind.listType.type, item) for item in literal)
    elif kind.WhichOneof("type") == "tensorType":
        _fill(value.immediateValue.tensor, kind.tensorType.dataType, _flat(literal))
    return value  # dictionaries and tuples only describe the build


def _flat(literal: Any) -> list[Any]:
    return [one for item in literal for one in _flat(item)] if isinstance(literal, list) else [literal]


def _fill(tensor: MIL_pb2.TensorValue, dtype: int, values: list[Any]) -> None:
    if not values:
        return
    if dtype == MIL_pb2.STRING:
        tensor.strings.values.extend(values)
    elif dtype == MIL_pb2.BOOL:
        tensor.bools.values.extend(bool(v) for v in values)
    elif dtype in (MIL_pb2.FLOAT16, MIL_pb2.FLOAT32, MIL_pb2.BFLOAT16):
        tensor.floats.values.extend(float(v) for v in values)
    elif dtype == MIL_pb2.FLOAT64:
        tensor.doubles.values.extend(float(v) for v in values)
    elif dtype in (MIL_pb2.INT64, MIL_pb2.UINT64, MIL_pb2.UINT32):
        tensor.longInts.values.extend(values)
    else:
        tensor.ints.values.extend(values)
