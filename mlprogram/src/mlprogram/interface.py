"""What a program takes and gives: tensor specifications, and the check of what a caller hands over.

program.inputs["packed"].shapes  # every allowed shape of an enumerated input
# raises ProgramError with the allowed shapes, or returns tensors
check_inputs(specs, {"packed": array}, paired=False)
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from mlprogram.dtypes import BY_NAME, FeatureTypes_pb2, Model_pb2
from mlprogram.errors import NonFiniteInput, OpenShape, ProgramError
from mlprogram.graph import Function, ValueType
from mlprogram.package import Package


@dataclass(frozen=True)
class TensorSpec:
    """One input or output.

    `shape` is the default shape (-1 where only a run decides), `shapes` every allowed shape of an
    enumerated input, `ranges` the inclusive (lowest, highest) size per axis of a ranged one,
    highest None for no limit. `default` is the fill value of an optional input.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...] = ()
    ranges: tuple[tuple[int, int | None], ...] = ()
    default: float | None = None

    def allows(self, shape: tuple[int, ...]) -> bool:
        """Whether a value of this shape may be given."""
        if self.shapes:
            return shape in self.shapes
        if self.ranges:
            return len(shape) == len(self.ranges) and all(
                low <= n and (high is None or n <= high)
                for n, (low, high) in zip(shape, self.ranges, strict=True)
            )
        # -1 stands for an axis that only a run decides, so any size fits it.
        return len(shape) == len(self.shape) and all(
            want in (-1, n) for n, want in zip(shape, self.shape, strict=True)
        )

    def allowed(self) -> str:
        """The allowed shapes in words."""
        if self.shapes:
            return f"one of {', '.join(str(list(s)) for s in self.shapes)}"
        if self.ranges:
            return (
                "["
                + ", ".join(
                    str(low) if low == high else f"{low}..{'' if high is None else high}"
                    for low, high in self.ranges
                )
                + "]"
            )
        return str(["any" if n == -1 else n for n in self.shape])

    def refusal(self, shape: tuple[int, ...]) -> str:
        """The words in which Core ML refuses a shape, so that a test which waits for them finds
        them; empty where they are not known.
        """
        if self.shapes:
            return (
                f"; MultiArray Shape ({' x '.join(map(str, shape))}) was not in enumerated set of"
                " allowed shapes"
            )
        # A value of another rank has no axis to name, so it gets no words of Core ML.
        pairs = zip(shape, self.ranges, strict=False) if len(shape) == len(self.ranges) else ()
        wrong = [
            (i, n, low, high)
            for i, (n, (low, high)) in enumerate(pairs)
            if n < low or (high is not None and n > high)
        ]
        return "".join(
            f"; Size ({n}) of dimension ({i}) is not in allowed range ({low}..{high})"
            for i, n, low, high in wrong[:1]
        )


def read_interface(
    package: Package, function: Function
) -> tuple[dict[str, TensorSpec], dict[str, ValueType]]:
    """Input specifications in program order, and the states, of one function."""
    # The program knows names and types; allowed shapes and defaults are in the description alone.
    features = {f.name: f for f in _find_description(package.spec, function.name).input}
    states = {v.name: v for v in function.inputs if v.container == "state"}
    inputs = {
        v.name: _read_input(v, features.get(v.name))
        for v in function.inputs
        if v.container != "state"
    }
    return inputs, states


def read_outputs(
    package: Package, function: Function, types: Mapping[str, ValueType]
) -> dict[str, TensorSpec]:
    """Output specifications in program order; `types` maps the names of the body's values to their
    types.
    """
    values = [types[name] for name in function.body.outputs]
    return {
        # An output's sizes come from the body, where an axis may be open until a run.
        v.name: TensorSpec(v.name, v.dtype.name, tuple(-1 if n is None else n for n in v.shape))
        for v in values
    }


def _find_description(spec: Model_pb2.Model, function: str) -> Any:
    for description in spec.description.functions:
        # Only a model of several functions has this list; else its own description serves.
        if description.name == function:
            return description
    return spec.description


def _read_input(value: ValueType, feature: Model_pb2.FeatureDescription | None) -> TensorSpec:
    # MIL calls an open dimension unknown; a TensorSpec writes it as -1.
    open_shape = tuple(-1 if n is None else n for n in value.shape)
    if feature is None:
        return TensorSpec(value.name, value.dtype.name, open_shape)
    kind = feature.type.WhichOneof("Type")
    if kind == "imageType":
        shapes, ranges, shape = _read_image_shapes(feature.type.imageType, open_shape)
    elif kind == "multiArrayType":
        shapes, ranges, shape = _read_array_shapes(feature.type.multiArrayType, open_shape)
    else:
        raise ProgramError(
            f"input '{value.name}' is a {kind}; only multi-arrays and images are supported"
        )
    return TensorSpec(value.name, value.dtype.name, shape, shapes, ranges, _read_default(feature))


def _read_array_shapes(
    array: FeatureTypes_pb2.ArrayFeatureType, open_shape: tuple[int, ...]
) -> tuple:
    shape = tuple(array.shape) or open_shape
    flexibility = array.WhichOneof("ShapeFlexibility")
    if flexibility == "enumeratedShapes":
        return tuple(tuple(s.shape) for s in array.enumeratedShapes.shapes), (), shape
    if flexibility == "shapeRange":
        return (), tuple(_read_range(r) for r in array.shapeRange.sizeRanges), shape
    return (), (), shape


def _read_range(size: FeatureTypes_pb2.SizeRange) -> tuple[int, int | None]:
    # A negative upper bound means that an axis has no limit.
    return size.lowerBound, None if size.upperBound < 0 else size.upperBound


def _read_image_shapes(
    image: FeatureTypes_pb2.ImageFeatureType, open_shape: tuple[int, ...]
) -> tuple:
    lead = open_shape[:-2]  # batch and channels, of which a description of images says nothing
    flexibility = image.WhichOneof("SizeFlexibility")
    if flexibility == "enumeratedSizes":
        return (
            tuple((*lead, s.height, s.width) for s in image.enumeratedSizes.sizes),
            (),
            (*lead, image.height, image.width),
        )
    if flexibility == "imageSizeRange":
        sizes = (
            _read_range(image.imageSizeRange.heightRange),
            _read_range(image.imageSizeRange.widthRange),
        )
        return (), (*((n, n) for n in lead), *sizes), (*lead, image.height, image.width)
    return (), (), (*lead, image.height, image.width)


def _read_default(feature: Model_pb2.FeatureDescription) -> float | None:
    if not feature.type.isOptional:
        return None
    # An optional array without a value in the file counts as zeros.
    kind = feature.type.multiArrayType.WhichOneof("defaultOptionalValue")
    return 0.0 if kind is None else float(getattr(feature.type.multiArrayType, kind))


def check_inputs(
    specs: Mapping[str, TensorSpec], values: Mapping[str, Any], paired: bool
) -> tuple[dict[str, torch.Tensor], dict[str, tuple[int, int]]]:
    """Tensors in program order for what the caller gave, and {name: (NaN count, infinity count)}
    for inputs that are not finite.

    Any float type is taken for a float input and any integer type for an integer one when its
    values fit. `paired`: enumerated inputs pair by index (iOS 18 on). Raises ProgramError for a
    missing or unknown name, a wrong type, or a shape that is not allowed.
    """
    unknown = sorted(set(values) - set(specs))
    if unknown:
        raise ProgramError(
            f"unknown input {unknown[0]!r}; the program takes {describe_specs(specs)}"
        )
    missing = [s.name for s in specs.values() if s.name not in values and s.default is None]
    if missing:
        raise ProgramError(
            f"missing input {missing[0]!r}; the program takes {describe_specs(specs)}"
        )
    tensors = {
        name: _convert_input(spec, values[name]) if name in values else _fill_default(spec)
        for name, spec in specs.items()
    }
    if paired:
        _check_pairs(specs, tensors)
    return tensors, _count_nonfinite(tensors)


def describe_specs(specs: Mapping[str, TensorSpec]) -> str:
    return ", ".join(f"{s.name} ({s.dtype} {s.allowed()})" for s in specs.values()) or "no input"


def _fill_default(spec: TensorSpec) -> torch.Tensor:
    assert spec.default is not None  # what has none and is missing was refused
    return torch.full(spec.shape, spec.default).to(BY_NAME[spec.dtype].torch)


def _convert_input(spec: TensorSpec, value: Any) -> torch.Tensor:
    if not isinstance(value, (torch.Tensor, np.ndarray)):
        raise ProgramError(
            f"input '{spec.name}' is a {type(value).__name__}; give a NumPy array or a torch tensor"
            f" of {spec.dtype}"
        )
    if isinstance(value, np.ndarray) and value.dtype.kind not in "fiub":
        raise ProgramError(f"input '{spec.name}' holds {value.dtype}; give {spec.dtype}")
    tensor = (
        value.detach()
        if isinstance(value, torch.Tensor)
        # ascontiguousarray makes rank 1 of rank 0, and the reshape takes that back.
        else torch.from_numpy(np.ascontiguousarray(value).reshape(value.shape))
    )
    want = BY_NAME[spec.dtype]
    # Floats fit floats and integers fit integers; bool stands apart from both.
    if tensor.is_floating_point() != want.is_float or (tensor.dtype == torch.bool) != (
        want.kind == "bool"
    ):
        kinds = {"float": "any float type", "bool": "bool"}.get(
            want.kind, "any integer type whose values fit"
        )
        raise ProgramError(
            f"input '{spec.name}' is {str(tensor.dtype).removeprefix('torch.')}; expected"
            f" {want.name} ({kinds} is taken)"
        )
    shape = tuple(tensor.shape)
    if not spec.allows(shape):
        raise ProgramError(
            f"input '{spec.name}' has shape {list(shape)}; allowed:"
            f" {spec.allowed()}{spec.refusal(shape)}"
        )
    # a compiled model without metadata.json and without FlexibleShapeInformation
    if -1 in spec.shape and not (spec.shapes or spec.ranges):
        warnings.warn(
            f"the file does not say which sizes input '{spec.name}' {spec.allowed()} allows: Core"
            f" ML may refuse {list(shape)}",
            OpenShape,
            stacklevel=4,
        )
    # An empty tensor has no smallest value to hold against the range.
    if not want.is_float and tensor.numel():
        _check_range(spec, tensor)
    return tensor


def _check_range(spec: TensorSpec, tensor: torch.Tensor) -> None:
    want = BY_NAME[spec.dtype]
    if want.kind == "bool":
        return
    limits = (
        # The minus binds tighter than the shift: 8 bits give -128 to 127.
        (-(1 << want.bits - 1), (1 << want.bits - 1) - 1)
        if want.kind == "int"
        else (0, (1 << want.bits) - 1)
    )
    low, high = int(tensor.min()), int(tensor.max())
    if low < limits[0] or high > limits[1]:
        raise ProgramError(
            f"input '{spec.name}' holds values {low}..{high}, outside {want.name}"
            f" ({limits[0]}..{limits[1]})"
        )


def _check_pairs(specs: Mapping[str, TensorSpec], tensors: Mapping[str, torch.Tensor]) -> None:
    # Row i of one input goes with row i of every other. An input may list a shape twice, so all the
    # rows that a shape stands in are compared.
    enumerated = [s for s in specs.values() if len(s.shapes) > 1]
    lists = [
        {i for i, shape in enumerate(s.shapes) if shape == tuple(tensors[s.name].shape)}
        for s in enumerated
    ]
    if (
        len(enumerated) > 1
        and len({len(s.shapes) for s in enumerated}) == 1
        and not set.intersection(*lists)
    ):
        rows = "; ".join(
            ", ".join(f"{s.name} {list(s.shapes[i])}" for s in enumerated)
            for i in range(len(enumerated[0].shapes))
        )
        raise ProgramError(f"enumerated inputs pair by index; allowed together: {rows}")


def _count_nonfinite(tensors: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, int]]:
    counts = {}
    for name, tensor in tensors.items():
        # one pass; a sum may overflow, so what fails is looked at
        if not tensor.is_floating_point() or torch.isfinite(tensor.sum()):
            continue
        if not torch.isfinite(tensor).all():
            counts[name] = (int(tensor.isnan().sum()), int(tensor.isinf().sum()))
            warnings.warn(
                f"input '{name}' holds {counts[name][0]} NaN and {counts[name][1]} infinite values"
                f" of {tensor.numel()}",
                NonFiniteInput,
                stacklevel=4,
            )
    return counts
