"""A while_loop as one Python function: written once, when the loop comes to its second step, and kept.

    done, values = LoopCode(condition, body, template).run(env, values)  # done False: go on step by step from these values

The first step of every loop runs operation by operation, with the checks of types and shapes. What follows has the same shapes, so the
function leaves out what cannot change: the look-up of arguments, most checks, operations that read nothing of the loop (they stand before
it), the conversion of a value that is already converted. Integers and booleans of one element, which are the counters and conditions, are
Python numbers that wrap as tensors do. A list kept as a tensor is written in place once it is the loop's own. Values are the same bit for
bit: the same PyTorch functions are called. Whatever fails is run again step by step, where the error gets its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import torch

from mlprogram.loop_lines import LINES, function_of
from mlprogram.loop_writer import Writer
from mlprogram.steps import BlockPlan, LoopRun, Step

_HOIST_LIMIT = 2**20  # elements; a larger value would live longer than it did
_FAILURES = (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError)
_KEPT = 8  # functions for each loop: one for each set of shapes


class Kind(NamedTuple):
    """What a slot holds: type and shape of a tensor, (None, None) for anything else; a shape of None is open."""

    dtype: torch.dtype | None
    shape: tuple[int, ...] | None


def kind_of(value: Any) -> Kind:
    """The kind of a value."""
    return Kind(value.dtype, tuple(value.shape)) if isinstance(value, torch.Tensor) else Kind(None, None)


class LoopCode:
    """The functions of one while_loop, by the kinds of what it carries and of what it reads from outside."""

    def __init__(self, condition: BlockPlan, body: BlockPlan, template: Sequence[Any]) -> None:
        body, self._casts = _narrowed(condition, body)
        self.blocks, self._template = (condition, body), template
        self.steps = (*condition.steps, *body.steps)
        self.plain = all(s.call is not None and not s.wants_generator for s in self.steps)
        own = {*condition.inputs, *body.inputs, *(o.slot for s in self.steps for o in s.outputs)}
        read = {slot for s in self.steps for _, slots in s.reads for slot in _flat(slots)}
        self.outer = tuple(sorted((read | {*condition.outputs, *body.outputs}) - own))
        self.own = tuple(sorted(own))
        self._codes: dict[tuple, LoopRun] = {}

    def run(self, env: list[Any], values: list[Any]) -> tuple[bool, list[Any]]:
        """(whether the loop has ended, its values) from the second step on."""
        if not self.plain:
            return False, values
        for i, (inner, _) in self._casts.items():
            values[i] = values[i].to(inner)  # exact: a cast of the first step made the wide value
        key = (*map(kind_of, values), *(kind_of(env[s]) for s in self.outer))
        code = self._codes.get(key)
        if code is None:
            if len(self._codes) == _KEPT:
                self._codes.clear()
            code = self._codes[key] = self._written(env, values)
        for slot in self.own:  # what the first step left
            env[slot] = None
        done, values = code(env, values)
        for i, (_, wide) in self._casts.items():
            values[i] = values[i].to(wide)
        return done, values

    def _written(self, env: list[Any], values: list[Any]) -> LoopRun:
        condition, body = self.blocks
        kinds = {slot: kind_of(env[slot]) for slot in self.outer}
        kinds |= {o.slot: Kind(o.dtype, o.fixed) for s in self.steps for o in s.outputs}
        for block in self.blocks:
            kinds |= dict(zip(block.inputs, map(kind_of, values), strict=True))
        writer = Writer(kinds, set(self.outer), _in_place(body), self._template)
        for slot in body.inputs:
            writer.take(slot)
        for a, b in zip(condition.inputs, body.inputs, strict=True):
            writer.same(a, b)
        self._write(condition, writer)
        inside = writer.inside
        inside.append(f"if not {writer.truth(condition.outputs[0])}: return True, {_list(writer.tensor_text(s) for s in body.inputs)}")
        self._write(body, writer)
        pairs = list(zip(body.inputs, body.outputs, strict=True))
        if any(kinds[a].dtype is not kinds[b].dtype or (writer.is_number(a) and kinds[a] != kinds[b]) for a, b in pairs):
            return _refuse  # the next step reads other types
        carried = [writer.carried(a, b) for a, b in pairs]
        inside += writer.last
        inside.append(f"{''.join(n + ', ' for n, _ in carried)} = {''.join(text + ', ' for _, text in carried)}" if carried else "pass")
        for a, b in pairs:
            if kinds[a].shape != kinds[b].shape:  # open in the program; every function here holds for these shapes alone
                inside.append(f"if v{a}.shape != {kinds[a].shape}: return False, {_list(writer.tensor_text(s) for s in body.inputs)}")
        return _compiled(writer, body.inputs)

    def _write(self, block: BlockPlan, writer: Writer) -> None:
        for step in block.steps:
            small = all(o.fixed is not None and prod(o.fixed) <= _HOIST_LIMIT for o in step.outputs)
            slots = [s for _, read in step.reads for s in _flat(read)]
            writer.at(before=small and all(s in writer.constant for s in slots))
            for write in LINES:
                if write(writer, step):
                    break
            if writer.hoisting:
                writer.constant.update(o.slot for o in step.outputs)
            writer.free(step.frees, block.inputs)


def _compiled(writer: Writer, carried: tuple[int, ...]) -> LoopRun:
    """The text as a function. It holds slot numbers and names made here; no text of the program gets into it."""
    start = [f"{''.join(writer.name(s) + ', ' for s in carried)} = values" if carried else "pass", "values.clear()"]
    start += writer.taken
    text = ["def code(env, values):", *("    " + line for line in start), "    try:"]
    text += ["        " + line for line in writer.before]
    text += ["        while True:", *("            " + line for line in writer.inside)]
    text += ["    except failures:", f"        return False, {_list(writer.tensor_text(s) for s in carried)}"]
    names: dict[str, Any] = writer.names | {"failures": _FAILURES}
    exec(compile("\n".join(text), "<loop>", "exec"), names)
    code: LoopRun = names["code"]
    return code


def _list(parts: Any) -> str:
    return f"[{', '.join(parts)}]"


def _refuse(env: list[Any], values: list[Any]) -> tuple[bool, list[Any]]:
    return False, values


def _narrowed(condition: BlockPlan, body: BlockPlan) -> tuple[BlockPlan, dict[int, tuple[torch.dtype, torch.dtype]]]:
    """The body without the casts of values that are carried in a wider type than they are used in, {place: (used, carried type)}."""
    casts: dict[int, tuple[torch.dtype, torch.dtype]] = {}
    gone: set[int] = set()
    inputs, outputs = list(body.inputs), list(body.outputs)
    makers = {o.slot: (step, o) for step in body.steps for o in step.outputs}
    for i, (a, b) in enumerate(zip(body.inputs, body.outputs, strict=True)):
        readers = [step for step in body.steps for _, read in step.reads if a in _flat(read)]
        last = makers[b][0] if b in makers else None
        if last is None or len(readers) != 1 or not (_is_cast(readers[0]) and _is_cast(last)) or _read(condition, condition.inputs[i]):
            continue
        narrow, source = readers[0].outputs[0], _flat(last.reads[0][1])[0]
        same = source in makers and makers[source][1].dtype is narrow.dtype
        if (
            same
            and a not in body.outputs
            and body.outputs.count(b) == 1
            and not _read(body, b, but=i)
            and _exact(narrow.dtype, last.outputs[0].dtype)
        ):
            casts[i] = narrow.dtype, last.outputs[0].dtype
            inputs[i], outputs[i] = narrow.slot, source
            gone.update((a, b))
    kept = (
        s
        for s in body.steps
        if not any(o.slot in gone for o in s.outputs) and not any(slot in gone for _, r in s.reads for slot in _flat(r))
    )
    return replace(body, inputs=tuple(inputs), outputs=tuple(outputs), steps=tuple(kept)), casts


def _is_cast(step: Step) -> bool:
    return step.op.op_type == "cast" and len(step.reads) == 1


def _read(block: BlockPlan, slot: int, but: int | None = None) -> bool:
    """Whether a step of a block reads a value, or the block gives it back (at another place than `but`)."""
    given = any(s == slot and i != but for i, s in enumerate(block.outputs))
    return given or any(slot in _flat(read) for step in block.steps for _, read in step.reads)


def _exact(narrow: torch.dtype | None, wide: torch.dtype | None) -> bool:
    order = (torch.float16, torch.float32, torch.float64)
    return narrow in order and wide in order and order.index(narrow) <= order.index(wide)


def _in_place(body: BlockPlan) -> frozenset[int]:
    """Results of scatters and list writes that may be written into the value they change: it is carried on by this operation alone.

    No other operation reads the result, no other carried value and not what is written may share memory with it. The writes come at the
    end of a step, after every reader.
    """
    found = set()
    for step in body.steps:
        reads = dict(step.reads)
        target = reads.get({"scatter": "data", "list_write": "ls"}.get(step.op.op_type, ""))
        if target in body.inputs and body.outputs[body.inputs.index(target)] == step.outputs[0].slot:
            shares = _sharing(body, {target, step.outputs[0].slot})
            read_again = any(step.outputs[0].slot in _flat(s) for other in body.steps for _, s in other.reads)
            if not read_again and sum(s in shares for s in body.outputs) == 1 and reads.get("updates") not in shares:
                found.add(step.outputs[0].slot)
    return frozenset(found)


def _sharing(body: BlockPlan, shares: set[int]) -> set[int]:
    """Slots that may share memory with these."""
    for step in body.steps:
        if function_of(step) is None and any(s in shares for _, read in step.reads for s in _flat(read)):
            shares.update(o.slot for o in step.outputs)
    return shares


def _flat(slots: int | tuple[int, ...]) -> tuple[int, ...]:
    return slots if isinstance(slots, tuple) else (slots,)
