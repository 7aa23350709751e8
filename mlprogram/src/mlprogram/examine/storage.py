"""The stored weights of a function: how many bytes, how compressed, and which value of the program
each becomes.

    stored = read_storage(function, plan)
    stored.bytes_by_kind()  # {"fp16": 106_000_000, "palette 4-bit": ...}

A weight is a constant that an operation takes as a tensor (an axis or a stride is not one). The
kind is the element type, or the chain of compressions that lead to the value: `linear int8`,
`linear per block int4`, `palette 6-bit`, `sparse fp16`, `sparse + palette 4-bit`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from mlprogram.dtypes import MIL_pb2, find_dtype
from mlprogram.errors import ProgramError
from mlprogram.execute import Run, run_block
from mlprogram.graph import Function, Operation, read_tensor_shape
from mlprogram.interface import TensorSpec, describe_specs
from mlprogram.ops import KERNELS
from mlprogram.plan import ExecutionPlan

_PREFIX = "constexpr_"


@dataclass(frozen=True)
class Stored:
    """One weight as the program uses it: its name, what it was compressed with, and the bytes kept
    for it (scales and masks too).
    """

    name: str
    kind: str
    stored_bytes: int
    # (file, offset, bytes) of each part; parts written in place have an empty file name
    places: frozenset[tuple[str, int, int]]


@dataclass(frozen=True)
class Storage:
    """Every weight of a function by the name of its value."""

    weights: Mapping[str, Stored]

    def bytes_by_kind(self) -> dict[str, int]:
        """Stored bytes for each kind, each stored part counted once however many operations use
        it.
        """
        totals: Counter[str] = Counter()
        seen: set[tuple[str, int, int]] = set()
        for weight in self.weights.values():
            # A part that two weights share counts for the first of them.
            totals[weight.kind] += sum(
                size for file, offset, size in weight.places if (file, offset, size) not in seen
            )
            # Parts written in place are never shared.
            seen |= {place for place in weight.places if place[0]}
        return dict(totals.most_common())


def read_storage(function: Function, plan: ExecutionPlan) -> Storage:
    """Find every weight of a function. Nothing is decompressed."""
    producers = {
        value.name: op for op in function.body.walk() for value in op.outputs if _is_constant(op)
    }
    # Constants that only feed other constants are parts of a weight and not weights.
    names = {
        name
        for op in function.body.walk()
        if not _is_constant(op)
        for name in list_tensor_operands(op)
        if name in producers
    }
    # text and lists are settings, not weights
    names = {name for name in names if isinstance(plan.constants[name].value, np.ndarray)}
    return Storage(
        MappingProxyType({name: _read_stored(name, producers) for name in sorted(names)})
    )


def list_tensor_operands(op: Operation) -> Iterator[str]:
    """Names of the values an operation takes as tensors, attributes left out."""
    host = KERNELS[op.op_type].host if op.op_type in KERNELS else frozenset()
    for parameter, names in op.inputs.items():
        if parameter not in host:
            yield from names


def _is_constant(op: Operation) -> bool:
    return op.op_type == "const" or op.op_type.startswith(_PREFIX)


def _read_stored(name: str, producers: Mapping[str, Operation]) -> Stored:
    op = producers[name]
    parts = list(_walk_parts(op, producers))
    places = frozenset(place for _, place in parts)
    # A constant that is not compressed is named after its element type.
    kind = " + ".join(_list_methods(op, producers)) if op.op_type != "const" else parts[0][0]
    return Stored(name, kind, sum(size for _, _, size in places), places)


def _walk_parts(
    op: Operation, producers: Mapping[str, Operation]
) -> Iterator[tuple[str, tuple[str, int, int]]]:
    """(element type, place) of each stored tensor behind a constant."""
    # Literals of const and of the constexpr before iOS 18, which keep values in place.
    for parameter, value in op.literals.items():
        if value.type.WhichOneof("type") != "tensorType":
            continue
        dtype = find_dtype(value.type.tensorType.dataType)
        size = (_count_elements(value.type.tensorType) * dtype.bits + 7) // 8
        if value.WhichOneof("value") == "blobFileValue":
            yield dtype.name, (value.blobFileValue.fileName, value.blobFileValue.offset, size)
        else:
            # it lies in no file: a number of its own keeps two of the same size apart
            yield dtype.name, ("", hash((op.name, parameter)), size)
    for names in op.inputs.values():
        for name in names:
            if name in producers:
                yield from _walk_parts(producers[name], producers)


def _list_methods(op: Operation, producers: Mapping[str, Operation]) -> list[str]:
    """What was done to a weight, the last step of decompression first."""
    inner = [
        m
        for names in op.inputs.values()
        for n in names
        # Plain constants end the chain: they are parts, not methods.
        if n in producers and producers[n].op_type != "const"
        for m in _list_methods(producers[n], producers)
    ]
    return list(dict.fromkeys([_name_method(op, producers), *inner]))


def _name_method(op: Operation, producers: Mapping[str, Operation]) -> str:
    types = {
        parameter: _find_type(op, parameter, producers) for parameter in (*op.inputs, *op.literals)
    }
    if op.op_type in ("constexpr_lut_to_dense", "constexpr_lut_to_sparse"):
        return f"palette {_count_palette_bits(op, types, producers)}-bit"
    if op.op_type == "constexpr_sparse_to_dense":
        return f"sparse {types.get('nonzero_data', '')}".strip()
    if op.op_type == "constexpr_affine_dequantize":
        return f"linear {types.get('quantized_data', '')}".strip()
    if op.op_type in ("constexpr_blockwise_shift_scale", "constexpr_sparse_blockwise_shift_scale"):
        block = "linear per block" if _is_per_block(op, producers) else "linear"
        return f"{block} {types.get('data') or types.get('nonzero_data', '')}".strip()
    return op.op_type.removeprefix(_PREFIX)


def _find_value(
    op: Operation, parameter: str, producers: Mapping[str, Operation]
) -> MIL_pb2.Value | None:
    """The stored protobuf value behind a parameter, or None if it is computed."""
    if parameter in op.literals:
        return op.literals[parameter]
    # Either the value is written at the parameter, or under a name made for it, or in a const.
    name = op.inputs.get(parameter, ("",))[0]
    if name in op.literals:
        return op.literals[name]
    producer = producers.get(name)
    return (
        producer.literals.get("val")
        if producer is not None and producer.op_type == "const"
        else None
    )


def _find_type(op: Operation, parameter: str, producers: Mapping[str, Operation]) -> str:
    value = _find_value(op, parameter, producers)
    if value is None or value.type.WhichOneof("type") != "tensorType":
        return ""
    return find_dtype(value.type.tensorType.dataType).name


def _count_elements(proto: MIL_pb2.TensorType) -> int:
    """Elements of a stored tensor, which leaves no axis open."""
    return math.prod(d.constant.size for d in proto.dimensions)


def _count_palette_bits(
    op: Operation, types: Mapping[str, str], producers: Mapping[str, Operation]
) -> int:
    """Bits of an index: from the palette's length (iOS 16, where indices are packed bytes) or from
    the index type (iOS 18).
    """
    # Only the operation of iOS 16 has a shape among its inputs.
    if "shape" in (*op.inputs, *op.literals):
        palette = _find_value(op, "lut", producers)
        if palette is None:
            raise ProgramError(f"{op.where()}: its palette is not a constant")
        return int(math.log2(_count_elements(palette.type.tensorType)))
    return int((types.get("indices") or types["indices_nonzero_data"]).removeprefix("uint"))


def _is_per_block(op: Operation, producers: Mapping[str, Operation]) -> bool:
    """Whether the scale varies along more than one axis."""
    scale = _find_value(op, "scale", producers)
    # [H, blocks, ...] with two axes above 1; one scale for each channel has one.
    return scale is not None and sum(n != 1 for n in read_tensor_shape(scale.type.tensorType)) > 1


BY_SHAPES, BY_ZEROS = "shapes alone", "one run on zeros"


@dataclass(frozen=True)
class Shapes:
    """Shape of each value by name, how often it was produced, and how that was found out."""

    of: Mapping[str, tuple[int, ...]]
    times: Mapping[str, int]
    how: str


def infer_shapes(
    plan: ExecutionPlan, function: Function, inputs: Mapping[str, tuple[int, ...]]
) -> Shapes:
    """Shapes of all values. Raises ProgramError where the program cannot take these inputs."""
    try:
        # Fake tensors carry shapes and types and no data, so large programs cost next to nothing.
        with FakeTensorMode(allow_non_fake_inputs=True):
            return _run(plan, function, inputs, BY_SHAPES)
    except ProgramError:  # a value decides a shape, or the shapes do not fit: a real run says which
        return _run(plan, function, inputs, BY_ZEROS)


@torch.no_grad()
def _run(
    plan: ExecutionPlan, function: Function, inputs: Mapping[str, tuple[int, ...]], how: str
) -> Shapes:
    shapes: dict[str, tuple[int, ...]] = dict(inputs)
    times: Counter[str] = Counter()

    def record(name: str, _: str, value: torch.Tensor) -> None:
        # As a hook it sees every value, and keeps loops from running as a GRU.
        shapes[name] = tuple(value.shape)
        times[name] += 1

    env = list(plan.template)
    states = {}
    for value, slot in zip(function.inputs, plan.body.inputs, strict=True):
        if value.container == "state":
            states[slot] = torch.zeros(value.sizes, dtype=value.dtype.torch)
        else:
            env[slot] = torch.zeros(inputs[value.name], dtype=value.dtype.torch)
    # Any seed does: only shapes are looked at.
    run_block(plan.body, env, Run(record, torch.Generator().manual_seed(0), states))
    return Shapes(shapes, times, how)


def choose_shapes(
    specs: Mapping[str, TensorSpec], requested: Mapping[str, tuple[int, ...]], paired: bool
) -> dict[str, tuple[int, ...]]:
    """A shape for every input: the asked one, else the default. Raises ProgramError naming the
    allowed shapes.
    """
    for name, shape in requested.items():
        if name not in specs:
            raise ProgramError(f"unknown input {name!r}; the program takes {describe_specs(specs)}")
        if not specs[name].allows(shape):
            raise ProgramError(
                f"input '{name}' has shape {list(shape)}; allowed: {specs[name].allowed()}"
            )
    chosen = {name: requested.get(name, spec.shape) for name, spec in specs.items()}
    if paired:
        chosen |= _find_partners(specs, requested)
    for name, shape in chosen.items():
        # -1 in a default shape: only the caller can choose that axis.
        if any(n < 0 for n in shape):
            raise ProgramError(
                f"input '{name}' has no default shape; give --shape {name}=... (allowed:"
                f" {specs[name].allowed()})"
            )
    return chosen


def list_choices(specs: Mapping[str, TensorSpec], paired: bool) -> list[dict[str, tuple[int, ...]]]:
    """One choice for each enumerated shape, or the default ones where no input is enumerated.
    Raises ProgramError if several are that do not pair.
    """
    enumerated = [spec for spec in specs.values() if len(spec.shapes) > 1]
    if not enumerated:
        return [choose_shapes(specs, {}, paired)]
    if len(enumerated) > 1 and not paired:
        raise ProgramError(
            f"{len(enumerated)} inputs are enumerated and do not pair; give --shape for each:"
            f" {describe_specs(specs)}"
        )
    # The shortest list, so that every shape of it has a partner in the longer ones.
    first = min(enumerated, key=lambda s: len(s.shapes))
    return [
        choose_shapes(specs, {first.name: shape}, paired)
        for shape in sorted(first.shapes, key=math.prod)
    ]


def _find_partners(
    specs: Mapping[str, TensorSpec], requested: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """Shapes of enumerated inputs that were not asked for, at the index of one that was: they pair
    from iOS 18 on.
    """
    enumerated = {name: spec for name, spec in specs.items() if len(spec.shapes) > 1}
    # The first enumerated input that was asked for leads the others.
    index = next(
        (enumerated[n].shapes.index(s) for n, s in requested.items() if n in enumerated), None
    )
    return (
        {}
        if index is None
        else {
            n: s.shapes[index]
            for n, s in enumerated.items()
            if n not in requested and index < len(s.shapes)
        }
    )
