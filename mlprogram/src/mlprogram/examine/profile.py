"""A function of a package as costed operations for one choice of input shapes. Everything else in
this folder reads this record.

    program = open_program("KokoroVocoder.mlpackage")
    profile = profile_program(program, program.shapes({"features": (1, 3157, 1, 41)}))
    sum(op.macs for op in profile.ops), profile.live_peak_bytes()
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlprogram.constants import Constants
from mlprogram.dtypes import find_precision
from mlprogram.errors import ProgramError
from mlprogram.examine.storage import (
    Shapes,
    Storage,
    choose_shapes,
    infer_shapes,
    list_choices,
    read_storage,
)
from mlprogram.graph import Function, Operation, ValueType, read_function
from mlprogram.interface import TensorSpec, read_interface, read_outputs
from mlprogram.ops import FAMILIES, KERNELS
from mlprogram.package import Package, open_package
from mlprogram.plan import ExecutionPlan, build_plan

Shape = tuple[int, ...]
# the same bytes under another shape
VIEWS = frozenset({"reshape", "expand_dims", "squeeze", "identity", "flatten2d", "reshape_like"})
# read what they write, not the whole input
PARTIAL_READS = frozenset({*FAMILIES["slices"], *FAMILIES["indices"], "crop"})
ELEMENTWISE = frozenset({*FAMILIES["elementwise"], *FAMILIES["activations"]}) - {
    "softmax",
    "identity",
}
_HEAVY = frozenset({*FAMILIES["normalizations"], "softmax"})
_REDUCTIONS = frozenset({*FAMILIES["reductions"], *FAMILIES["pooling"]})
_HEAVY_FLOPS = 5  # mean, difference, square, mean, scale


def count_macs(
    op_type: str,
    inputs: Mapping[str, Shape],
    outputs: tuple[Shape, ...],
    attributes: Mapping[str, Any],
) -> int:
    """MACs of one execution; 0 for every operation that is not a product of tensors."""
    if op_type == "conv":
        # Each result meets C_in / groups channels and every tap of the kernel.
        return math.prod(outputs[0]) * math.prod(inputs["weight"][1:])
    # in a conv each result meets every tap of its kernel, here each value of x does
    if op_type == "conv_transpose":
        return math.prod(inputs["x"]) * math.prod(inputs["weight"][1:])
    if op_type == "linear":
        return math.prod(outputs[0]) * inputs["weight"][-1]
    if op_type == "matmul":
        # the axis that is summed over: the last of x, or the one before where x is turned
        rows = -2 if attributes.get("transpose_x") and len(inputs["x"]) > 1 else -1
        return math.prod(outputs[0]) * inputs["x"][rows]
    if op_type == "einsum":
        return _count_einsum_macs(attributes["equation"], [inputs[key] for key in sorted(inputs)])
    if op_type == "scaled_dot_product_attention":
        *batch, length, width = inputs["query"]
        keys, out_width = inputs["value"][-2:]
        # L S E for the scores and L S V for the values, in every batch.
        return math.prod(batch) * length * keys * (width + out_width)
    if op_type in ("lstm", "gru", "rnn"):
        # The backward weights of a bidirectional layer begin with the same word.
        weights = sum(
            math.prod(shape) for name, shape in inputs.items() if name.startswith("weight")
        )
        return inputs["x"][0] * inputs["x"][1] * weights  # x [steps, batch, features]
    return 0


def _count_einsum_macs(equation: str, shapes: list[Shape]) -> int:
    sizes: dict[str, int] = {}
    for term, shape in zip(
        equation.replace(" ", "").split("->")[0].split(","), shapes, strict=True
    ):
        for letter, size in zip(term, shape, strict=True):
            # An axis of size 1 broadcasts, so the larger size of a letter counts.
            sizes[letter] = max(size, sizes.get(letter, 1))
    return math.prod(sizes.values())


def count_flops(
    op_type: str, macs: int, inputs: Mapping[str, Shape], outputs: tuple[Shape, ...]
) -> int:
    """FLOPs of one execution: two for each multiplication of a layer, else one for each element."""
    if macs:
        return 2 * macs
    written = sum(math.prod(shape) for shape in outputs)
    if op_type in _HEAVY:
        return _HEAVY_FLOPS * written
    if op_type in _REDUCTIONS:
        return max((math.prod(shape) for shape in inputs.values()), default=0)
    return written if op_type in ELEMENTWISE and op_type != "cast" else 0


# specification version (iOS 18) from which several enumerated inputs pair by index
_PAIRED_SINCE = 9


@dataclass(frozen=True)
class Tensor:
    """A value at run time: name, shape, element type and its width."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bits: int

    @property
    def bytes(self) -> int:
        """Bytes of the values, without padding."""
        return (math.prod(self.shape) * self.bits + 7) // 8


@dataclass(frozen=True)
class Weight:
    """A constant operand: its dense tensor and the bytes it is stored in."""

    tensor: Tensor
    kind: str
    stored_bytes: int


@dataclass(frozen=True)
class OpProfile:
    """One operation with shapes and costs. Costs are of all `times` it runs (once, outside
    loops).
    """

    op: Operation
    activations: tuple[Tensor, ...]
    weights: tuple[Weight, ...]
    outputs: tuple[Tensor, ...]
    attributes: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]  # parameter -> shape, constants included
    times: int
    macs: int
    flops: int

    @property
    def name(self) -> str:
        """Name of its first output."""
        return self.op.name

    @property
    def op_type(self) -> str:
        """Its type, such as conv."""
        return self.op.op_type

    @property
    def activation_bytes(self) -> int:
        """Bytes read from and written to activations; none for a change of shape; a slice reads
        what it writes.
        """
        if self.op_type in VIEWS:
            return 0
        written = sum(t.bytes for t in self.outputs)
        # A slice or a gather touches only as much of its input as it writes.
        read = written if self.op_type in PARTIAL_READS else sum(t.bytes for t in self.activations)
        return self.times * (read + written)

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights it reads, as stored."""
        return self.times * sum(w.stored_bytes for w in self.weights)

    @property
    def bytes_moved(self) -> int:
        """Activations and weights together."""
        return self.activation_bytes + self.weight_bytes


@dataclass(frozen=True)
class OpenProgram:
    """A function ready to be profiled for any of its shapes."""

    package: Package
    function: Function
    plan: ExecutionPlan = field(repr=False)
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    storage: Storage = field(repr=False)

    @property
    def is_paired(self) -> bool:
        """Whether enumerated inputs pair by index."""
        return self.package.spec.specificationVersion >= _PAIRED_SINCE

    def shapes(self, chosen: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """A full choice of input shapes. Raises ProgramError naming the allowed ones."""
        return choose_shapes(self.inputs, chosen, self.is_paired)

    def all_shapes(self) -> list[dict[str, tuple[int, ...]]]:
        """Every enumerated choice, smallest first; else the default one."""
        return list_choices(self.inputs, self.is_paired)


@dataclass(frozen=True)
class Profile:
    """Costed operations in program order, for one choice of input shapes."""

    program: OpenProgram = field(repr=False)
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    ops: tuple[OpProfile, ...]
    shapes_from: str

    def live_peak_bytes(self) -> int:
        """Largest sum of activation bytes alive at once, in program order: inputs until their last
        use, outputs until the end.
        """
        return max(self.live_bytes(), default=0)

    def live_bytes(self) -> list[int]:
        """Activation bytes alive while each operation runs, its outputs included. A view keeps what
        it looks at and adds nothing.
        """
        # view -> the value whose memory it shares
        owner = {
            t.name: op.activations[0].name
            for op in self.ops
            if op.op_type in VIEWS and op.activations
            for t in op.outputs
        }

        def find_owner(name: str) -> str:
            while name in owner:
                name = owner[name]
            return name

        # Later operations overwrite earlier ones, so what stays is the last use.
        last = {
            find_owner(t.name): i
            for i, op in enumerate(self.ops)
            for t in (*op.activations, *op.outputs)
        }
        last |= {find_owner(t.name): len(self.ops) for t in self.outputs}
        alive = {t.name: t.bytes for t in self.inputs}
        sizes = []
        for i, op in enumerate(self.ops):
            alive |= {t.name: t.bytes for t in op.outputs if t.name not in owner}
            # Summed before anything is freed: inputs and outputs of an operation are alive
            # together.
            sizes.append(sum(alive.values()))
            alive = {name: size for name, size in alive.items() if last.get(name, -1) > i}
        return sizes


def open_program(path: str | Path | Package, function: str | None = None) -> OpenProgram:
    """Open a package for examination; no name is its default function.

    Raises ProgramError as the executor does: not a package, an unknown function or operation.
    """
    package = open_package(path)
    body = read_function(package, function or package.default_function)
    # Shapes come from a run of this plan, which has the declared types.
    plan = build_plan(body, Constants(package), find_precision("declared"))
    inputs, _ = read_interface(package, body)
    return OpenProgram(
        package,
        body,
        plan,
        inputs,
        read_outputs(package, body, plan.types),
        read_storage(body, plan),
    )


def profile_program(program: OpenProgram, shapes: Mapping[str, tuple[int, ...]]) -> Profile:
    """Cost every operation for these input shapes, which `OpenProgram.shapes` has checked."""
    inferred = infer_shapes(program.plan, program.function, shapes)
    types = program.plan.types
    ops = tuple(
        _profile_op(op, program, inferred)
        for op in program.function.body.walk()
        if op.op_type != "const" and not op.op_type.startswith("constexpr_")
    )
    inputs = tuple(
        _make_tensor(value, inferred.of[value.name])
        for value in program.function.inputs
        # States are no inputs, and have no shape here.
        if value.name in inferred.of
    )
    outputs = tuple(
        _make_tensor(types[name], inferred.of[name])
        for name in program.function.body.outputs
        # A list or a class label has no shape.
        if name in inferred.of
    )
    return Profile(program, inputs, outputs, ops, inferred.how)


def _make_tensor(value: ValueType, shape: tuple[int, ...]) -> Tensor:
    return Tensor(value.name, shape, value.dtype.name, value.dtype.bits)


def _profile_op(op: Operation, program: OpenProgram, inferred: Shapes) -> OpProfile:
    host = KERNELS[op.op_type].host if op.op_type in KERNELS else frozenset()
    constants, types = program.plan.constants, program.plan.types
    activations = {}
    weights = []
    attributes = {}
    shapes = {}
    for parameter, names in op.inputs.items():
        for i, name in enumerate(names):
            # Padded with zeros, so that sorting the keys keeps the order of the values.
            key = parameter if len(names) == 1 else f"{parameter}[{i:03}]"
            # A setting, such as an axis or a mode: its value matters, and no bytes are moved.
            if name in constants and (parameter in host or name not in program.storage.weights):
                value = constants[name].value
                attributes[key] = value.tolist() if hasattr(value, "tolist") else value
            elif name in constants:
                value = constants[name].value
                shapes[key] = value.shape
                weights.append(_make_weight(name, program))
                # one number is a setting, too: pow's base
                attributes |= {key: value.item()} if value.size == 1 else {}
            elif name in inferred.of:
                shapes[key] = inferred.of[name]
                activations[name] = _make_tensor(types[name], inferred.of[name])
    outputs = tuple(
        _make_tensor(value, inferred.of[value.name])
        for value in op.outputs
        if value.name in inferred.of
    )
    # Outside of loops once; inside, as often as the run has seen it.
    times = inferred.times.get(op.name, 0) if op.path != program.function.name else 1
    return _count_costs(
        op, tuple(activations.values()), tuple(weights), outputs, attributes, shapes, times
    )


def _make_weight(name: str, program: OpenProgram) -> Weight:
    constant, stored = program.plan.constants[name], program.storage.weights[name]
    return Weight(
        Tensor(name, constant.value.shape, constant.dtype.name, constant.dtype.bits),
        stored.kind,
        stored.stored_bytes,
    )


def _count_costs(
    op: Operation,
    activations: tuple,
    weights: tuple,
    outputs: tuple,
    attributes: dict,
    shapes: dict,
    times: int,
) -> OpProfile:
    written = tuple(t.shape for t in outputs)
    try:
        macs = count_macs(op.op_type, shapes, written, attributes) if written else 0
    except (KeyError, IndexError, ValueError) as error:
        raise ProgramError(
            f"{op.where()}: its multiply-accumulates cannot be counted from shapes {shapes}"
            f" ({error})"
        ) from error
    flops = count_flops(op.op_type, macs, shapes, written)
    return OpProfile(
        op, activations, weights, outputs, attributes, shapes, times, times * macs, times * flops
    )


def count_by_type(ops: tuple[OpProfile, ...]) -> dict[str, int]:
    """Operations of each type, the commonest first."""
    return dict(Counter(op.op_type for op in ops).most_common())
