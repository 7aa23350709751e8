"""The lines of a loop's function: one way of writing for each kind of operation, the first that fits.

    for write in LINES:
        if write(writer, step): break

A slot s is `v{s}` as a tensor, `h{s}` as a Python number, `w{s}` widened from fp16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional as F

from mlprogram.ops.elementwise import TORCH
from mlprogram.ops.slicing import slice_places
from mlprogram.values import finish_all, to_host, widen

if TYPE_CHECKING:
    from mlprogram.plan import Step

BITS = MappingProxyType({torch.int8: 8, torch.int16: 16, torch.int32: 32, torch.int64: 64, torch.uint8: 8, torch.bool: 1})
_COMPARISONS = MappingProxyType({"equal": "==", "greater": ">", "greater_equal": ">=", "less": "<", "less_equal": "<=", "not_equal": "!="})
_ARITHMETIC = MappingProxyType({"add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "maximum": "max({}, {})", "minimum": "min({}, {})"})
_LOGIC = MappingProxyType({"logical_and": "{} and {}", "logical_or": "{} or {}", "logical_xor": "{} != {}"})
_SAME = frozenset(("cast", "identity", "squeeze", "expand_dims", "reshape"))
FUNCTIONS: Mapping[str, tuple[Callable, tuple[str, ...]]] = MappingProxyType(
    {
        "linear": (F.linear, ("x", "weight", "bias")),
        "matmul": (torch.matmul, ("x", "y")),
        "relu": (torch.relu, ("x",)),
        "sigmoid": (torch.sigmoid, ("x",)),
        "silu": (F.silu, ("x",)),
    }
)
_ROWS = 1024  # a sequence of at most so many rows is taken apart once, before the loop


class Writer:
    """Lines before and inside the loop, and in which forms each slot is at hand."""

    def __init__(self, kinds: Mapping[int, Any], outer: Iterable[int], in_place: frozenset[int]) -> None:
        self.kinds, self.in_place = kinds, in_place
        self.constant = set(outer)  # slots that no step of the loop changes
        self.names: dict[str, Any] = {"made": torch.full, "to_host": to_host, "widen": widen}
        self.taken: list[str] = []
        self.before: list[str] = []
        self.inside: list[str] = []
        self.last: list[str] = []  # writes in place: at the end of a step, when nothing can fail any more
        self.hoisting = False
        self._tensors: set[int] = set()
        self._numbers: set[int] = set()
        self._wide: set[int] = set()
        self._alias: dict[int, int] = {}
        self._count = count()

    def at(self, before: bool) -> None:
        """Where the next lines go."""
        self.hoisting = before

    def line(self, text: str, before: bool | None = None) -> None:
        """One line; `before`: in front of the loop, whatever is being written."""
        (self.before if (self.hoisting if before is None else before) else self.inside).append(text)

    def keep(self, value: Any) -> str:
        """A name for an object that the function uses."""
        name = f"k{next(self._count)}"
        self.names[name] = value
        return name

    def is_number(self, slot: int) -> bool:
        """Whether a slot holds one integer or boolean."""
        kind = self.kinds[slot]
        return kind.dtype in BITS and kind.shape is not None and prod(kind.shape) == 1

    def same(self, slot: int, other: int) -> None:
        """The two slots hold one value."""
        self._alias[slot] = other

    def name(self, slot: int) -> str:
        """How a carried slot is called."""
        return f"h{slot}" if self.is_number(slot) else f"v{slot}"

    def take(self, slot: int) -> None:
        """A carried slot is there from the start; a number is turned into one."""
        if self.is_number(slot):
            self.taken.append(f"h{slot} = h{slot}.item()")
            self._numbers.add(slot)
        else:
            self._tensors.add(slot)

    def tensor_text(self, slot: int) -> str:
        """A carried slot as the executor wants it back."""
        kind = self.kinds[slot]
        return f"made({kind.shape}, h{slot}, dtype={self.keep(kind.dtype)})" if self.is_number(slot) else f"v{slot}"

    def tensor(self, slot: int) -> str:
        """The slot as a tensor (or as whatever it is)."""
        slot = self._alias.get(slot, slot)
        if slot not in self._tensors:
            self._tensors.add(slot)
            if slot in self._numbers:
                kind = self.kinds[slot]
                self.line(f"v{slot} = made({kind.shape}, h{slot}, dtype={self.keep(kind.dtype)})", slot in self.constant)
            else:
                self.line(f"v{slot} = env[{slot}]", True)
        return f"v{slot}"

    def number(self, slot: int) -> str | None:
        """The slot as a Python number, None if it is not one."""
        slot = self._alias.get(slot, slot)
        if slot not in self._numbers:
            if not self.is_number(slot):
                return None
            self.line(f"h{slot} = {self.tensor(slot)}.item()", slot in self.constant)
            self._numbers.add(slot)
        return f"h{slot}"

    def wide(self, slot: int, dtype: torch.dtype | None) -> str:
        """An fp16 tensor in a wider type."""
        slot = self._alias.get(slot, slot)
        if slot not in self._wide:
            self.line(f"w{slot} = {self.tensor(slot)}.to({self.keep(dtype)})", slot in self.constant)
            self._wide.add(slot)
        return f"w{slot}"

    def truth(self, slot: int) -> str:
        """A condition."""
        return self.number(slot) or f"bool({self.tensor(slot)})"

    def set_number(self, slot: int, text: str) -> None:
        """A slot as a Python number."""
        self.line(f"h{slot} = {text}")
        self._numbers.add(slot)

    def set_tensor(self, slot: int, text: str) -> None:
        """A slot as a tensor."""
        self.line(f"v{slot} = {text}")
        self._tensors.add(slot)

    def rounded(self, slot: int, text: str, sure: bool) -> None:
        """A slot as a tensor in its declared type; `sure`: it has it already."""
        self.set_tensor(slot, text)
        if not sure:
            name = self.keep(self.kinds[slot].dtype)
            self.line(f"if v{slot}.dtype is not {name}: v{slot} = v{slot}.to({name})")

    def carried(self, slot: int, result: int) -> tuple[str, str]:
        """(name of a carried slot, text of its next value)."""
        self.at(before=False)
        if self.is_number(slot):
            return f"h{slot}", self.number(result) or f"{self.tensor(result)}.item()"
        return f"v{slot}", self.tensor(result)

    def free(self, slots: Iterable[int], kept: Iterable[int]) -> None:
        """Let go of tensors that no later operation reads."""
        names = [f"v{s}" for s in slots if s in self._tensors and s not in self.constant and s not in kept]
        names += [f"w{s}" for s in slots if s in self._wide and s not in self.constant]
        if names:
            self.line(" = ".join([*names, "None"]), False)


def _wrapped(text: str, dtype: torch.dtype) -> str:
    """An integer as this type holds it."""
    if dtype is torch.bool:
        return f"({text}) != 0"
    half = 0 if dtype is torch.uint8 else 1 << (BITS[dtype] - 1)
    return f"(({text} + {half}) & {(1 << BITS[dtype]) - 1}) - {half}" if half else f"({text}) & 255"


def as_number(writer: Writer, step: Step) -> bool:
    """Integers and booleans of one element."""
    op, reads = step.op.op_type, dict(step.reads)
    if len(step.outputs) != 1 or not writer.is_number(step.outputs[0].slot):
        return False
    slots = [reads[p] for p in ("cond", "x", "y", "a", "b") if p in reads]
    if len(slots) != len(reads) or any(isinstance(s, tuple) or not writer.is_number(s) for s in slots):
        return False
    out, kinds = writer.kinds[step.outputs[0].slot].dtype, [writer.kinds[s].dtype for s in slots]
    text = _number_text(op, kinds, out)
    if text is None:
        return False
    writer.set_number(step.outputs[0].slot, text.format(*(writer.number(s) for s in slots)))
    return True


def _number_text(op: str, kinds: list[torch.dtype], out: torch.dtype) -> str | None:
    if op in _SAME and len(kinds) == 1:
        if kinds[0] is out:
            return "{}"
        if kinds[0] is torch.bool:
            return "int({})"
        signed = torch.uint8 not in (kinds[0], out) and out is not torch.bool
        return "{}" if signed and BITS[out] >= BITS[kinds[0]] else _wrapped("{}", out)
    if op == "logical_not" and kinds == [torch.bool]:
        return "not {}"
    if op == "select" and len(kinds) == 3 and kinds[0] is torch.bool and kinds[1] is kinds[2] is out:
        return "{1} if {0} else {2}"
    if len(kinds) != 2 or kinds[0] is not kinds[1]:
        return None
    if op in _COMPARISONS and out is torch.bool:
        return f"{{}} {_COMPARISONS[op]} {{}}"
    if op in _LOGIC and kinds[0] is out is torch.bool:
        return _LOGIC[op]
    if op in _ARITHMETIC and kinds[0] is out is not torch.bool:
        return _ARITHMETIC[op] if op[:3] in ("max", "min") else _wrapped(f"({_ARITHMETIC[op]})", out)
    return None


def _single(writer: Writer, step: Step) -> dict[str, tuple[str, Any]] | None:
    """{parameter: (text, type)} of an operation that reads single tensors only, else None."""
    if step.others or len(step.outputs) != 1 or step.outputs[0].dtype is None:
        return None
    kinds = writer.kinds
    if any(kinds[s].dtype is None or kinds[s].shape is None for _, s in (*step.plain, *step.halves)):
        return None
    found = {p: (writer.tensor(s), kinds[s].dtype) for p, s in step.plain}
    return found | {p: (writer.wide(s, step.widen), step.widen) for p, s in step.halves}


def function_of(step: Step) -> tuple[Callable, tuple[str, ...]] | None:
    """(the PyTorch function that an operation is, its parameters in order); its result is always new memory."""
    if step.call in TORCH:
        return TORCH[step.call], ("x", "y")
    return None if getattr(step.call, "keywords", None) else FUNCTIONS.get(step.op.op_type)


def as_function(writer: Writer, step: Step) -> bool:
    """One PyTorch function on tensors: elementwise operations, linear, matmul."""
    found = function_of(step)
    read = _single(writer, step) if found is not None else None
    if found is None or read is None:
        return False
    (function, order), out, types = found, step.outputs[0], {dtype for _, dtype in read.values()}
    if step.op.op_type in ("linear", "matmul") and len(types) != 1:
        return False
    sure = types == {out.dtype} and out.dtype is not None and out.dtype.is_floating_point and step.op.op_type not in _COMPARISONS
    writer.rounded(out.slot, f"{writer.keep(function)}({', '.join(read[p][0] for p in order if p in read)})", sure)
    return True


def as_row(writer: Writer, step: Step) -> bool:
    """gather at one place: a row of a tensor, cut once if the loop does not change it."""
    reads, given = dict(step.reads), getattr(step.call, "keywords", {})
    if step.op.op_type != "gather" or given.get("batch_dims") or set(reads) != {"x", "indices"} or not writer.is_number(reads["indices"]):
        return False
    (x, at), shape = (reads["x"], reads["indices"]), writer.kinds[reads["x"]].shape
    rank = len(writer.kinds[at].shape)
    if shape is None or rank > 1 or step.halves or writer.kinds[x].dtype is not step.outputs[0].dtype:
        return False
    axis, place, name = given.get("axis", 0) % len(shape), writer.number(at), writer.tensor(x)
    if given.get("validate_indices"):
        writer.line(f"if {place} < 0: raise IndexError")
    if x in writer.constant and shape[axis] <= _ROWS and not writer.hoisting:
        rows = f"r{next(writer._count)}"
        writer.line(f"{rows} = {name}.split(1, {axis})" if rank else f"{rows} = {name}.unbind({axis})", True)
        writer.set_tensor(step.outputs[0].slot, f"{rows}[{place}]")
    else:
        cut = f"narrow({axis}, {place}, 1)" if rank else f"select({axis}, {place})"
        writer.set_tensor(step.outputs[0].slot, f"{name}.{cut}")
    return True


def as_write(writer: Writer, step: Step) -> bool:
    """scatter of one row, or list_write, into a value that is the loop's own."""
    out, reads, given = step.outputs[0].slot, dict(step.reads), getattr(step.call, "keywords", {})
    if out not in writer.in_place:
        return False
    if step.op.op_type == "list_write":
        if set(reads) != {"ls", "index", "value"} or not isinstance(reads["index"], int) or not writer.is_number(reads["index"]):
            return False
        items, place, value = writer.tensor(reads["ls"]), writer.number(reads["index"]), writer.tensor(reads["value"])
        writer.line(f"if not 0 <= {place} <= len({items}): raise IndexError")
        writer.line(f"q{out} = {value}")
        writer.last.append(f"{items}[{place}:{place} + 1] = (q{out},)")  # one more at the end, or the one that is there
        writer.set_tensor(out, items)
        return True
    mode = given.get("mode", "add")
    if set(reads) != {"data", "indices", "updates"} or not writer.is_number(reads["indices"]) or mode not in ("add", "update"):
        return False
    data, updates = (writer.kinds[reads[p]] for p in ("data", "updates"))
    if None in (data.shape, updates.shape) or len(data.shape) != len(updates.shape) or data.dtype is not updates.dtype:
        return False
    name, place, source = (writer.tensor(reads["data"]), writer.number(reads["indices"]), writer.tensor(reads["updates"]))
    writer.line(f"if {place} < 0: raise IndexError")  # what it means then is the business of the operation's own function
    writer.line(f"p{out}, q{out} = {name}.narrow({given.get('axis', 0)}, {place}, 1), {source}")
    writer.last.append(f"p{out}.{'add_' if mode == 'add' else 'copy_'}(q{out})")
    writer.set_tensor(out, name)
    return True


def as_move(writer: Writer, step: Step) -> bool:
    """Operations that move values or only convert them."""
    op, given, out = step.op.op_type, getattr(step.call, "keywords", {}), step.outputs[0]
    reads = dict(step.reads)
    if op == "concat" and not given.get("interleave") and set(reads) == {"values"} and isinstance(given.get("axis"), int):
        slots = reads["values"]
        if any(writer.kinds[s].dtype is not out.dtype or not writer.kinds[s].shape for s in slots):  # not of rank 0, and of known shape
            return False
        writer.set_tensor(out.slot, f"{writer.keep(torch.cat)}(({''.join(writer.tensor(s) + ', ' for s in slots)}), {given['axis']})")
        return True
    if op == "select" and set(reads) == {"cond", "a", "b"} and writer.is_number(reads["cond"]):
        sides = [writer.kinds[reads[p]] for p in ("a", "b")]
        if any(k.dtype is not out.dtype or k.shape is None or k.shape != out.fixed for k in sides):
            return False
        a, b, cond = writer.tensor(reads["a"]), writer.tensor(reads["b"]), writer.number(reads["cond"])
        writer.set_tensor(out.slot, f"{a} if {cond} else {b}")
        return True
    if set(reads) != {"x"} or out.dtype is None or step.halves or writer.kinds[reads["x"]].shape is None:
        return False
    text = _moved(writer, op, given, writer.kinds[reads["x"]].shape, out.fixed)
    if text is None:
        return False
    writer.rounded(out.slot, writer.tensor(reads["x"]) + text, writer.kinds[reads["x"]].dtype is out.dtype)
    return True


def _moved(writer: Writer, op: str, given: Mapping[str, Any], shape: tuple[int, ...], fixed: tuple[int, ...] | None) -> str | None:
    if op in ("cast", "identity"):
        return ""
    if op in _SAME and fixed is not None:
        return "" if shape == fixed else f".reshape({fixed})"
    if op == "expand_dims" and len(given.get("axes", ())) == 1:
        return f".unsqueeze({given['axes'][0]})"
    if op == "squeeze" and given.get("axes"):
        return f".squeeze({tuple(given['axes'])})"
    if op == "transpose":
        return f".permute({tuple(given['perm'])})" if "perm" in given else None
    if op == "slice_by_index":
        full = dict.fromkeys(("stride", "begin_mask", "end_mask", "squeeze_mask")) | dict(given)
        index, reversals = slice_places(torch.Size(shape), **full)
        return None if reversals else f"[{writer.keep(index)}]"
    return None


def as_call(writer: Writer, step: Step) -> bool:
    """Any other operation: the function it always is, and the checks of its result."""
    arguments = [f"{p}={writer.tensor(s)}" for p, s in step.plain]
    arguments += [f"{p}={writer.wide(s, step.widen)}" for p, s in step.halves]
    for param, slots in step.others:
        if param in step.host:
            texts = [f"to_host({writer.tensor(s)})" for s in (slots if isinstance(slots, tuple) else (slots,))]
        else:
            texts = [f"widen({writer.tensor(s)}, {writer.keep(step.widen)})" for s in slots]
        arguments.append(f"{param}={texts[0] if isinstance(slots, int) else '[' + ', '.join(texts) + ']'}")
    text = f"{writer.keep(finish_all)}({writer.keep(step)}, {writer.keep(step.call)}({', '.join(arguments)}))"
    writer.line(f"{''.join(f'v{o.slot}, ' for o in step.outputs)} = {text}")
    writer._tensors.update(o.slot for o in step.outputs)
    return True


LINES: tuple[Callable[[Writer, Step], bool], ...] = (as_number, as_write, as_row, as_function, as_move, as_call)
