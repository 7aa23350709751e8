"""The lines of a loop's function: one way of writing for each kind of operation, the first that fits.

    for write in LINES:
        if write(writer, step): break

Each returns whether it has written the step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional as F

from mlprogram.loop_writer import BITS, Writer
from mlprogram.ops.elementwise import TORCH
from mlprogram.values import finish_all

if TYPE_CHECKING:
    from mlprogram.steps import Step

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


def _wrapped(text: str, dtype: torch.dtype) -> str:
    """An integer as this type holds it."""
    if dtype is torch.bool:
        return f"({text}) != 0"
    half = 0 if dtype is torch.uint8 else 1 << (BITS[dtype] - 1)
    return f"(({text} + {half}) & {(1 << BITS[dtype]) - 1}) - {half}" if half else f"({text}) & 255"


def singles(step: Step) -> dict[str, int]:
    """{parameter: slot} where there is one slot."""
    return {param: slot for param, slot in step.reads if isinstance(slot, int)}


def as_number(writer: Writer, step: Step) -> bool:
    """Integers and booleans of one element."""
    op, reads = step.op.op_type, singles(step)
    if len(step.outputs) != 1 or not writer.is_number(step.outputs[0].slot):
        return False
    slots = [reads[p] for p in ("cond", "x", "y", "a", "b") if p in reads]
    if len(slots) != len(step.reads) or not all(writer.is_number(s) for s in slots):
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
    reads, given = singles(step), getattr(step.call, "keywords", {})
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
        rows = f"r{writer.next()}"
        writer.line(f"{rows} = {name}.split(1, {axis})" if rank else f"{rows} = {name}.unbind({axis})", True)
        writer.set_tensor(step.outputs[0].slot, f"{rows}[{place}]")
    else:
        cut = f"narrow({axis}, {place}, 1)" if rank else f"select({axis}, {place})"
        writer.set_tensor(step.outputs[0].slot, f"{name}.{cut}")
    return True


def as_write(writer: Writer, step: Step) -> bool:
    """scatter of one row, or list_write, into a value that is the loop's own."""
    out, reads, given = step.outputs[0].slot, singles(step), getattr(step.call, "keywords", {})
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


def as_concat(writer: Writer, step: Step) -> bool:
    """concat: of tensors, or of numbers, which become a list of numbers."""
    given, out, slots = getattr(step.call, "keywords", {}), step.outputs[0], dict(step.reads).get("values")
    if step.op.op_type != "concat" or given.get("interleave") or not isinstance(slots, tuple) or len(step.reads) != 1:
        return False
    if any(writer.kinds[s].dtype is not out.dtype or writer.kinds[s].shape is None for s in slots):
        return False
    numbers = [writer.number(s) for s in slots if writer.is_number(s) and len(writer.kinds[s].shape) < 2]
    if len(numbers) == len(slots):
        writer.set_list(out.slot, [_literal(writer, s, n) for s, n in zip(slots, numbers, strict=True)])
    elif all(writer.kinds[s].shape for s in slots):  # none of rank 0
        writer.set_tensor(out.slot, f"{writer.keep(torch.cat)}(({''.join(writer.tensor(s) + ', ' for s in slots)}), {given['axis']})")
    else:
        return False
    return True


def as_slice(writer: Writer, step: Step) -> bool:
    """slice_by_index whose begin and end are lists of numbers, stride 1: a row of a sequence, cut once if the loop does not change it."""
    reads, given, out = singles(step), getattr(step.call, "keywords", {}), step.outputs[0]
    if step.op.op_type != "slice_by_index" or given.get("stride") not in (None, [1] * len(given.get("stride") or ())):
        return False
    shape = writer.kinds[reads["x"]].shape
    sides = [writer.list_of(reads[p]) if p in reads else _texts(given[p]) for p in ("begin", "end")]
    if not set(reads) <= {"x", "begin", "end"} or shape is None or None in sides or writer.kinds[reads["x"]].dtype is not out.dtype:
        return False
    none = [False] * len(shape)
    masks = [given.get(name) or none for name in ("begin_mask", "end_mask", "squeeze_mask")]
    cuts = [_cut(*axis) for axis in zip(*(s or () for s in sides), *masks, strict=True)]
    x, rest = reads["x"], cuts[1:] == [":"] * (len(cuts) - 1)
    if rest and masks[2][0] and x in writer.constant and shape[0] <= _ROWS and not writer.hoisting:
        rows = f"r{writer.next()}"
        writer.line(f"{rows} = {writer.tensor(x)}.unbind(0)", True)
        writer.set_tensor(out.slot, f"{rows}[{cuts[0]}]")
    else:
        writer.set_tensor(out.slot, f"{writer.tensor(x)}[{', '.join(cuts)}]")
    if all(squeezed or cut == ":" for cut, squeezed in zip(cuts, masks[2], strict=True)):
        writer.learn(out.slot, tuple(n for n, squeezed in zip(shape, masks[2], strict=True) if not squeezed))
    return True


def _literal(writer: Writer, slot: int, name: str | None) -> str:
    known = writer.literal(slot)
    return str(name) if known is None else str(known)


def _texts(values: list[int]) -> tuple[str, ...]:
    return tuple(map(str, values))


def _cut(begin: str, end: str, open_begin: bool, open_end: bool, squeezed: bool) -> str:
    if squeezed:
        return "0" if open_begin else begin
    return f"{'' if open_begin or begin == '0' else begin}:{'' if open_end else end}"


def as_move(writer: Writer, step: Step) -> bool:
    """Operations that move values or only convert them."""
    op, given, out = step.op.op_type, getattr(step.call, "keywords", {}), step.outputs[0]
    reads = singles(step)
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
    return None


def as_call(writer: Writer, step: Step) -> bool:
    """Any other operation: the function it always is, and the checks of its result."""
    arguments = [f"{p}={writer.tensor(s)}" for p, s in step.plain]
    arguments += [f"{p}={writer.wide(s, step.widen)}" for p, s in step.halves]
    for param, slots in step.others:
        if param in step.host:
            texts = [writer.host(s) for s in (slots if isinstance(slots, tuple) else (slots,))]
        else:
            texts = [f"widen({writer.tensor(s)}, {writer.keep(step.widen)})" for s in slots]
        arguments.append(f"{param}={texts[0] if isinstance(slots, int) else '[' + ', '.join(texts) + ']'}")
    text = f"{writer.keep(finish_all)}({writer.keep(step)}, {writer.keep(step.call)}({', '.join(arguments)}))"
    writer.line(f"{''.join(f'v{o.slot}, ' for o in step.outputs)} = {text}")
    writer.at_hand(o.slot for o in step.outputs)
    return True


LINES: tuple[Callable[[Writer, Step], bool], ...] = (as_number, as_write, as_row, as_function, as_concat, as_slice, as_move, as_call)
