"""Turn a function into steps that run fast: constants resolved, attributes bound, last uses known.
Nothing is executed here.

    plan = build_plan(function, Constants(package), find_precision("declared"))
    for step in plan.body.steps: step.op.op_type, step.reads, step.outputs

Every value of the function, nested blocks included, gets a place (slot) in one list, the
environment. A step reads slots, writes slots and clears the slots of values it is the last to use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from mlprogram.constants import Constants
from mlprogram.dtypes import BY_NAME, DType, Precision, find_dtype, to_torch
from mlprogram.errors import ProgramError
from mlprogram.graph import Function, Operation, OperationBlock, ValueType
from mlprogram.gru_loop import GATES, GruLoop, find_gru
from mlprogram.halves import look_up, tabulate
from mlprogram.numerics import ANE_KERNELS, DEVICE_KERNELS, WIDE_SUMS
from mlprogram.ops import CONTROL, KERNELS, Kernel
from mlprogram.ops.conv import is_channels_last

KERNELS_OF: Mapping[str, Mapping[str, Kernel]] = MappingProxyType(
    {
        "ane_numerics": ANE_KERNELS,
        "declared64": WIDE_SUMS,
        "device": DEVICE_KERNELS,
    }
)
_SMALL = 64  # bytes; larger constants with the same storage share one tensor


@dataclass(frozen=True, slots=True)
class OutputSlot:
    """Where a step writes one value, and the type (None: not a tensor) and shape (None: any) it
    must have.

    `fixed` is the shape where the program knows all of it: one comparison is enough.
    """

    slot: int
    name: str
    dtype: torch.dtype | None
    shape: tuple[int | None, ...] | None
    fixed: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Instruction:
    """One operation ready to run.

    `reads` pairs a parameter with a slot or a tuple of slots. Of these, `plain` are tensors handed
    over as they are, `halves` fp16 tensors turned into `widen` first, `others` the rest: several
    slots, and the Python values that `host` names. `call` is None for control flow, whose `blocks`
    the executor runs, or `gru` in their place where nobody watches the steps of the loop.
    """

    op: Operation
    call: Callable[..., Any] | None
    reads: tuple[tuple[str, int | tuple[int, ...]], ...]
    plain: tuple[tuple[str, int], ...]
    halves: tuple[tuple[str, int], ...]
    others: tuple[tuple[str, int | tuple[int, ...]], ...]
    host: frozenset[str]
    widen: torch.dtype | None
    wants_generator: bool
    outputs: tuple[OutputSlot, ...]
    blocks: tuple[BlockPlan, ...] = ()
    frees: tuple[int, ...] = ()
    gru: GruLoop | None = None
    one: OutputSlot | None = field(init=False)  # the output, if there is only one
    direct: bool = field(init=False)  # every parameter is plain

    def __post_init__(self) -> None:
        # The class is frozen; these two are derived once, so that the loop of a run need not.
        object.__setattr__(self, "one", self.outputs[0] if len(self.outputs) == 1 else None)
        object.__setattr__(self, "direct", not (self.halves or self.others or self.wants_generator))


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """A block: slots of its inputs and outputs, and its steps."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    steps: tuple[Instruction, ...]


@dataclass(frozen=True, slots=True)
class ConstantValue:
    """A value known when the program is loaded: np.ndarray, str or list, with its declared type."""

    name: str
    value: Any
    dtype: DType


@dataclass(frozen=True)
class ExecutionPlan:
    """A function ready to run: copy `template` (constants in place), fill the body's input slots,
    run its steps, read its output slots.
    """

    body: BlockPlan
    template: list[Any] = field(repr=False)
    types: Mapping[str, ValueType] = field(repr=False)
    constants: Mapping[str, ConstantValue] = field(repr=False)


def build_plan(function: Function, constants: Constants, precision: Precision) -> ExecutionPlan:
    """Plan a function. Raises ProgramError for an operation that is not known, naming it, its
    output and its place.
    """
    planner = _Planner(constants, precision)
    body = planner.plan_block(
        OperationBlock(function.inputs, function.body.outputs, function.body.operations), {}
    )
    return ExecutionPlan(
        body, planner.template, MappingProxyType(planner.types), MappingProxyType(planner.constants)
    )


class _Planner:
    """Walks a function once. `scope` maps the names visible at a place to slots or constants."""

    def __init__(self, constants: Constants, precision: Precision) -> None:
        # slot -> the constant that stands there, None for what a run computes
        self.template: list[Any] = []
        self.types: dict[str, ValueType] = {}
        self.constants: dict[str, ConstantValue] = {}
        self._source = constants
        self._precision = precision
        # what a constant is -> its slot, and the array whose place in memory the key names
        self._shared: dict[tuple, tuple[int, Any]] = {}
        self._tables: dict[tuple[str, str, str], torch.Tensor] = {}

    def plan_block(
        self, block: OperationBlock, outer: Mapping[str, int | ConstantValue]
    ) -> BlockPlan:
        scope = dict(outer)
        # A block sees the names outside of it; what it defines itself stays in its own copy.
        inputs = tuple(self._declare(v, scope) for v in block.inputs)
        steps = []
        for op in block.operations:
            self._add_literals(op, scope)
            # Constants take no step of a run: they are in the template.
            if op.op_type == "const" or op.op_type.startswith("constexpr_"):
                self._add_constant(op, scope)
            else:
                steps.append(self._plan_step(op, scope))
        outputs = tuple(
            self._find_slot(name, scope, None, f"output '{name}'") for name in block.outputs
        )
        return BlockPlan(inputs, outputs, tuple(_with_frees(steps, inputs, outputs)))

    def _declare(self, value: ValueType, scope: dict[str, int | ConstantValue]) -> int:
        self.types[value.name] = value
        self.template.append(None)
        # A name always gets a fresh slot, so a name that hides an outer one leaves its slot alone.
        scope[value.name] = len(self.template) - 1
        return len(self.template) - 1

    def _define(self, constant: ConstantValue, scope: dict[str, int | ConstantValue]) -> None:
        self.constants[constant.name] = constant
        scope[constant.name] = constant

    def _add_literals(self, op: Operation, scope: dict[str, int | ConstantValue]) -> None:
        for name, value in op.literals.items():
            # A list has no element type of its own, only that of its elements.
            dtype = find_dtype(
                value.type.tensorType.dataType or value.type.listType.type.tensorType.dataType
            )
            self._define(ConstantValue(name, self._source.read(value), dtype), scope)

    def _add_constant(self, op: Operation, scope: dict[str, int | ConstantValue]) -> None:
        self.types.update({v.name: v for v in op.outputs})
        arguments = {
            param: self._require_constant(op, names[0], scope).value
            for param, names in op.inputs.items()
            if names
        }
        if op.op_type == "const":
            if "val" not in arguments or len(op.outputs) != 1:
                raise ProgramError(f"{op.where()} holds no value; the file is damaged")
            self._define(ConstantValue(op.name, arguments["val"], op.outputs[0].dtype), scope)
            return
        for output, value in zip(op.outputs, self._source.evaluate(op, arguments), strict=True):
            self._define(ConstantValue(output.name, value, output.dtype), scope)

    def _require_constant(
        self, op: Operation, name: str, scope: Mapping[str, int | ConstantValue]
    ) -> ConstantValue:
        value = scope.get(name)
        if not isinstance(value, ConstantValue):
            raise ProgramError(f"{op.where()}: '{name}' must be a constant, and it is not")
        return value

    def _plan_step(self, op: Operation, scope: dict[str, int | ConstantValue]) -> Instruction:
        # Control flow reads slots alone: its blocks are planned in the scope of this place, so that
        # they see outer values without a copy.
        if op.op_type in CONTROL:
            reads = tuple(
                (param, tuple(self._find_slot(n, scope, None, op.where()) for n in names))
                for param, names in op.inputs.items()
            )
            blocks = tuple(self.plan_block(block, scope) for block in op.blocks)
            # A model of arithmetic must see each operation, so its loops are never replaced.
            fast = op.op_type == "while_loop" and self._precision.model is None
            gru = self._find_gru(op, scope) if fast else None
            # flow itself.
            return Instruction(
                op,
                None,
                reads,
                (),
                (),
                (),
                frozenset(),
                None,
                False,
                self._plan_outputs(op, scope),
                blocks,
                gru=gru,
            )
        # A damaged file is refused here, by name, and not by a TypeError in the middle of a run.
        kernel = self._find_kernel(op)
        if missing := [
            param
            for param in sorted(kernel.required | op.inputs.keys())
            if not op.inputs.get(param)
        ]:
            raise ProgramError(f"{op.where()} lacks {', '.join(missing)}; the file is damaged")
        if kernel.pointwise and (tabulated := self._try_table(op, kernel, scope)):
            return tabulated
        # Under exact and exact64 no tensor is fp16, so nothing is left to widen.
        widen = None if kernel.half or self._precision.wide is not None else torch.float32
        # What the file settles (strides, axes, modes) is bound once; only what a run decides is
        # looked up in every call.
        fixed: dict[str, Any] = {}
        bound: list[tuple[str, int | tuple[int, ...]]] = []
        for param, names in op.inputs.items():
            if param not in kernel.parameters:
                raise ProgramError(
                    f"{op.where()}: unknown parameter '{param}'; known:"
                    f" {', '.join(sorted(kernel.parameters))}"
                )
            many = param in kernel.variadic
            if param in kernel.host and all(isinstance(scope.get(n), ConstantValue) for n in names):
                values = [_as_python(self._require_constant(op, n, scope).value) for n in names]
                fixed[param] = values if many else values[0]
            else:
                last = (
                    op.op_type == "conv" and param == "weight" and self._is_channels_last(op, scope)
                )
                slots = tuple(self._find_slot(n, scope, widen, op.where(), last) for n in names)
                bound.append((param, slots if many else slots[0]))
        host = kernel.host & {param for param, _ in bound}
        others = tuple(
            (param, slots) for param, slots in bound if param in host or isinstance(slots, tuple)
        )
        single = [
            (param, slot) for param, slot in bound if param not in host and isinstance(slot, int)
        ]
        # Only values that a run makes are still fp16 here; constants are stored wide.
        halves = tuple(
            pair
            for pair in single
            if widen is not None and self._is_half(op.inputs[pair[0]][0], scope)
        )
        plain = tuple(pair for pair in single if pair not in halves)
        # partial costs a call its own merge of arguments, so a kernel without fixed ones goes bare.
        call = partial(kernel.run, **fixed) if fixed else kernel.run
        outputs = self._plan_outputs(op, scope)
        return Instruction(
            op,
            call,
            tuple(bound),
            plain,
            halves,
            others,
            host,
            widen,
            kernel.wants_generator,
            outputs,
        )

    def _try_table(
        self, op: Operation, kernel: Kernel, scope: dict[str, int | ConstantValue]
    ) -> Instruction | None:
        """A pointwise operation as a look-up, if one fp16 tensor is all that a run decides."""
        arguments = {param: scope.get(names[0]) for param, names in op.inputs.items()}
        constants = {p: c.value for p, c in arguments.items() if isinstance(c, ConstantValue)}
        varying = [param for param in arguments if param not in constants]
        if (
            self._precision.wide is not None
            or len(varying) != 1
            or not arguments.keys() <= kernel.parameters
            # A constant with axes differs from value to value, and no table could hold that.
            or any(np.ndim(value) for value in constants.values())
            or not self._is_half(op.inputs[varying[0]][0], scope)
            or op.outputs[0].dtype.name != "fp16"
        ):
            return None
        # A constant tensor becomes float64, like the halves that the table is computed from.
        fixed = {
            param: _as_python(value)
            if param in kernel.host
            else torch.tensor(_as_python(value), dtype=torch.float64)
            for param, value in constants.items()
        }
        table = self._make_table(op.op_type, varying[0], partial(kernel.run, **fixed), fixed)
        # No widening: the table is indexed by the bits of fp16.
        slot = self._find_slot(op.inputs[varying[0]][0], scope, None, op.where())
        return Instruction(
            op,
            partial(look_up, table=table),
            ((varying[0], slot),),
            # look_up calls its tensor x, whatever the operation calls it.
            (("x", slot),),
            (),
            (),
            frozenset(),
            None,
            False,
            self._plan_outputs(op, scope),
        )

    def _make_table(
        self,
        op_type: str,
        param: str,
        run: Callable[..., torch.Tensor],
        fixed: Mapping[str, Any] = MappingProxyType({}),
    ) -> torch.Tensor:
        """The table of a function of one parameter, one for all the operations that are alike."""
        key = (op_type, param, repr(fixed))
        if key not in self._tables:
            self._tables[key] = tabulate(lambda values: run(**{param: values}))
        return self._tables[key]

    def _find_gru(self, op: Operation, scope: Mapping[str, int | ConstantValue]) -> GruLoop | None:
        """The loop as a GRU, if it is one. Its weights stand where the body's own operations read
        them.
        """
        loop = find_gru(op, self.constants, self.types)
        if loop is None:
            return None
        # weights may be constants of the body
        constants: dict[str, int | ConstantValue] = {**self.constants, **scope}
        dtype = self._precision.choose_type(BY_NAME[loop.dtype])

        def find_slot(name: str, widen: torch.dtype | None = None) -> int:
            return self._find_slot(name, constants, widen, op.where())

        # Weights are wanted in fp32 beside fp16 states, as the body's own steps read them.
        widen = torch.float32 if dtype == torch.float16 else None
        # The loop carries two values: the step's number and the rows of all steps.
        counter, rows = (find_slot(n) for n in op.inputs["loop_vars"])
        weights = tuple(
            (find_slot(a, widen), find_slot(b, widen)) for a, b in (loop.weights[g] for g in GATES)
        )
        biases = tuple(
            tuple(None if n is None else find_slot(n, widen) for n in loop.biases[g]) for g in GATES
        )
        tables = tuple(
            self._make_table(name, "x", KERNELS[name].run) for name in ("sigmoid", "tanh") if widen
        )
        return GruLoop(
            find_slot(loop.x), find_slot(loop.end), counter, rows, weights, biases, dtype, tables
        )

    def _is_half(self, name: str, scope: Mapping[str, int | ConstantValue]) -> bool:
        """Whether a value arrives as an fp16 tensor; a constant is in its place in the type that is
        wanted.
        """
        return (
            not isinstance(scope[name], ConstantValue)
            and self.types[name].container == "tensor"
            and self.types[name].dtype.name == "fp16"
        )

    def _is_channels_last(self, op: Operation, scope: Mapping[str, int | ConstantValue]) -> bool:
        """Whether the constant weight of a convolution is wanted with its channels last."""
        weight = scope.get(op.inputs["weight"][0])
        x = self.types.get(op.inputs["x"][0])
        groups = op.inputs.get("groups")
        # Weights that a run computes, and convolutions of other ranks, keep their order.
        if not isinstance(weight, ConstantValue) or np.ndim(weight.value) != 4:
            return False
        height = x.shape[2] if x is not None and x.ranked and len(x.shape) == 4 else None
        return is_channels_last(
            weight.value.shape,
            height,
            int(self._require_constant(op, groups[0], scope).value) if groups else 1,
        )

    def _find_kernel(self, op: Operation) -> Kernel:
        name = self._precision.model
        model = KERNELS_OF[name] if name else {}
        # The engine computes in fp16 alone; what the device defines otherwise holds in every type.
        # One fp16 output is enough: the operation then runs on the engine.
        half = any(v.dtype.name == "fp16" for v in op.outputs)
        if op.op_type in model and (half or name == "device"):
            return model[op.op_type]
        if op.op_type not in KERNELS:
            raise ProgramError(
                f"unknown operation {op.where()}; mlprogram/OPERATIONS.md lists the ones that are"
                " known"
            )
        return KERNELS[op.op_type]

    def _plan_outputs(
        self, op: Operation, scope: dict[str, int | ConstantValue]
    ) -> tuple[OutputSlot, ...]:
        outputs = []
        for value in op.outputs:
            is_tensor = value.container == "tensor"
            shape = value.shape if is_tensor and value.ranked else None
            dtype = self._precision.choose_type(value.dtype) if is_tensor else None
            fixed = (
                None
                if shape is None or None in shape
                else tuple(size for size in shape if size is not None)
            )
            outputs.append(OutputSlot(self._declare(value, scope), value.name, dtype, shape, fixed))
        return tuple(outputs)

    def _find_slot(
        self,
        name: str,
        scope: Mapping[str, int | ConstantValue],
        widen: torch.dtype | None,
        where: str,
        channels_last: bool = False,
    ) -> int:
        """The slot of a value; a constant gets one for each type it is wanted in, so that no run
        converts it.
        """
        if name not in scope:
            raise ProgramError(f"{where}: there is no value '{name}' at this place")
        value = scope[name]
        if not isinstance(value, ConstantValue):
            return value
        # Strings and lists have no tensor; equal ones share a slot by their text.
        if not isinstance(value.value, np.ndarray) or value.dtype.torch is None:
            return self._share(("host", repr(value.value)), value.value, lambda: value.value)
        working = self._precision.choose_type(value.dtype)
        if widen is not None and working == torch.float16:
            working = widen
        # A large constant is known by its place in memory, because its bytes are too many to
        # compare; a small one by its bytes, because each reading makes another copy.
        place = (
            value.value.__array_interface__["data"][0]
            if value.value.nbytes > _SMALL
            else value.value.tobytes()
        )
        # Two types of the same bytes differ, as do two memory orders.
        key = (place, value.value.shape, value.dtype.name, working, channels_last)
        stored = torch.channels_last if channels_last else torch.preserve_format
        return self._share(
            key,
            value.value,
            lambda: to_torch(value.value, value.dtype).to(working, memory_format=stored),
        )

    def _share(self, key: tuple, owner: Any, make: Callable[[], Any]) -> int:
        if key not in self._shared:
            # The owner is kept so that no other array can get its place in memory.
            self._shared[key] = (len(self.template), owner)
            self.template.append(make())
        return self._shared[key][0]


def _as_python(value: Any) -> Any:
    """A constant as a plain Python value: str, bool, int, float, or nested lists of them."""
    return value.tolist() if isinstance(value, np.ndarray) else value


def _walk_slots(step: Instruction) -> Iterator[int]:
    """Slots a step reads, those its nested blocks read included."""
    for _, slots in step.reads:
        yield from slots if isinstance(slots, tuple) else (slots,)
    # What an inner block reads must live as long as the operation that holds the block.
    for block in step.blocks:
        yield from block.outputs
        for inner in block.steps:
            yield from _walk_slots(inner)


def _with_frees(
    steps: list[Instruction], inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> Iterator[Instruction]:
    """Give every step the slots to clear after it: values of this block that no later step and no
    output of the block needs.
    """
    # outer values are not this block's to clear: a loop reads them again
    made = {*inputs, *(o.slot for step in steps for o in step.outputs)} - set(outputs)
    last = {}
    for i, step in enumerate(steps):
        # A value that no step reads dies at the very step that makes it.
        for slot in (*_walk_slots(step), *(o.slot for o in step.outputs)):
            if slot in made:
                last[slot] = i
    frees: list[list[int]] = [[] for _ in steps]
    for slot, at in last.items():
        frees[at].append(slot)
    for step, slots in zip(steps, frees, strict=True):
        # Control flow frees like any step: its own values here, those of its blocks inside them.
        yield replace(step, frees=tuple(slots))
