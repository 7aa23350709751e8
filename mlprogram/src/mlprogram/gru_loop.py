"""The loop that coremltools makes of a PyTorch GRU, run as a GRU: thirty operations a step become
ten, or PyTorch's own kernel.

    # None: some other loop
    names = find_gru(while_loop_operation, planner.constants, planner.types)
    GruLoop(...).run(env)

What is find_gru is every operation that reaches what the loop carries, casts and index arithmetic
included; a loop that differs there runs step by step. In fp16 every operation of a step is rounded
as the program declares it; only the product with the inputs, which hangs on no step before, is
computed for all steps at once. In fp32 and fp64 nothing is rounded in between, and PyTorch's kernel
runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mlprogram.graph import Operation, OperationBlock, ValueType

GATES = ("r", "z", "n")
# The arithmetic of a step; casts and moves are judged elsewhere.
_COMPUTES = frozenset(("add", "linear", "mul", "sigmoid", "sub", "tanh"))
Tree = tuple  # (operation, tree, ...) of a value


@dataclass(frozen=True)
class GruNames:
    """Names of what the loop reads: the sequence [S, B, I], where it ends, weights and biases
    (None: zero) by gate, and its float type.
    """

    x: str
    end: str
    weights: Mapping[str, tuple[str, str]]  # gate -> of the input [H, I], of the state [H, H]
    biases: Mapping[str, tuple[str | None, str | None]]
    dtype: str


@dataclass(frozen=True, slots=True)
class GruLoop:
    """The same as slots of the environment; `counter` and `rows` [S + 1, B, H] are what the loop
    carries.
    """

    x: int
    end: int
    counter: int
    rows: int
    weights: tuple[tuple[int, int], ...]  # in the order of GATES
    biases: tuple[tuple[int | None, ...], ...]
    dtype: torch.dtype
    tables: tuple[Tensor, ...]  # in fp16: what sigmoid and tanh make of every half

    def run(self, env: list[Any]) -> tuple[Tensor, Tensor] | None:
        """(counter [1], rows [S + 1, B, H]) as the loop leaves them; None where it would not walk S
        steps from the first.
        """
        x, rows, counter = env[self.x], env[self.rows], env[self.counter]
        steps = len(x)
        # casts to int16 in the body
        # The fast way stands in for exactly S steps from an empty list; anything else runs as
        # written.
        if (
            int(counter)
            or int(env[self.end]) != steps
            or len(rows) != steps + 1
            or not 0 < steps < 2**15
        ):
            return None
        if rows[1:].any():  # the body adds its rows to what is there
            return None
        # gates side by side, as PyTorch wants them: [3 H, I], [3 H, H]
        w_x, w_h = (torch.cat([env[pair[i]] for pair in self.weights]) for i in (0, 1))
        b_x, b_h = (self._join_biases(env, i, w_x) for i in (0, 1))
        if self.dtype == torch.float16:
            states = _run_rounded(x, rows.half(), w_x, w_h, b_x, b_h, *self.tables)
        else:
            # [1, B, H], the row that the list begins with
            state = rows[:1].to(self.dtype)
            states = torch.cat(
                [
                    state,
                    # biases, one layer, no dropout, not training, one direction, not batch first
                    torch.gru(x, state, (w_x, w_h, b_x, b_h), True, 1, 0.0, False, False, False)[0],
                ]
            )
        # The counter as the loop leaves it, after S steps of one.
        return torch.full_like(counter, steps), states.to(rows.dtype)

    def _join_biases(self, env: list[Any], side: int, like: Tensor) -> Tensor:
        size = len(like) // 3
        slots = [pair[side] for pair in self.biases]
        return torch.cat([like.new_zeros(size) if s is None else env[s] for s in slots])  # [3 H]


def _run_rounded(
    x: Tensor,
    rows: Tensor,
    w_x: Tensor,
    w_h: Tensor,
    b_x: Tensor,
    b_h: Tensor,
    sigmoid: Tensor,
    tanh: Tensor,
) -> Tensor:
    """Every step in fp16 as the operations of the body round it; x [S, B, I], rows [S + 1, B, H],
    weights and biases fp32, tables of two functions fp16 [65536].

    Everything is written into place: half of the time was making tensors.
    """
    batch, width = rows.shape[1:]
    # r and z share the table of sigmoid, n has that of tanh.
    sizes = [2 * width, width]
    # [S, B, 2 H], [S, B, H]
    driven = torch.nn.functional.linear(x.float(), w_x, b_x).half().split(sizes, -1)
    state = x.new_empty((batch, width), dtype=torch.float32)
    product = x.new_empty((batch, 3 * width), dtype=torch.float32)
    # fp16 [B, 3 H] and its two views, which keep their places for the whole loop
    u = x.new_empty(batch, 3 * width)
    rest = x.new_empty(batch, width)
    one = x.new_ones(())
    u_gates, u_n = u.split(sizes, -1)
    gates, n = _LookUp(u_gates, sigmoid), _LookUp(u_n, tanh)
    r, z = gates.values.chunk(2, -1)
    states = torch.empty_like(rows)
    turned = w_h.T
    states[0] = rows[0]
    steps = states.unbind(0)
    # `steps` has one row more than there are steps: each reads its row and writes the next.
    for w_gates, w_n, h, after in zip(
        driven[0].unbind(0), driven[1].unbind(0), steps, steps[1:], strict=False
    ):
        # U h + b in fp32, as the executor widens a linear operation
        torch.addmm(b_h, state.copy_(h), turned, out=product)
        # This copy rounds the product to fp16, which is the linear operation's result.
        u.copy_(product)
        # A sum of halves in fp16 is rounded once, as the body's `add` is.
        u_gates.add_(w_gates)
        gates.refresh()
        # r (U h), then + W x, each rounded as an operation of its own
        u_n.mul_(r).add_(w_n)
        n.refresh()
        # n (1 - z), in place: the next look-up fills it again
        n.values.mul_(torch.sub(one, z, out=rest))
        # z (h) overwrites z, which this step reads no more.
        torch.add(n.values, z.mul_(h), out=after)
    return states


class _LookUp:
    """halves.look_up from one fp16 tensor into another, `values`, which stays where it is."""

    def __init__(self, x: Tensor, table: Tensor) -> None:
        self._bits = x.view(torch.uint16)
        self._table = table
        self._index = torch.empty(x.shape, dtype=torch.int32)
        # Flat, because index_select writes one axis; `values` is the same memory in the shape of x.
        self._row = x.new_empty(x.numel())
        self._places = self._index.view(-1)
        self.values = self._row.view(x.shape)

    def refresh(self) -> None:
        """Look up what x holds now."""
        # index_select wants int32 or int64, and the bits are uint16.
        self._index.copy_(self._bits)
        torch.index_select(self._table, 0, self._places, out=self._row)


def find_gru(
    op: Operation, constants: Mapping[str, Any], types: Mapping[str, ValueType]
) -> GruNames | None:
    """What a while_loop reads if its body is a GRU's, else None."""
    condition, body = op.blocks
    if len(condition.operations) != 1 or len(body.inputs) != 2 or len(body.outputs) != 2:
        return None
    # the condition is `counter < length` and nothing else
    less = condition.operations[0]
    if (
        less.op_type != "less"
        or less.inputs["x"] != (condition.inputs[0].name,)
        or condition.outputs != (less.outputs[0].name,)
    ):
        return None
    trees = _Trees(body, constants, types)
    # The first carried value has to be the counter plus one.
    if trees.build(body.outputs[0]) != ("next",):
        return None
    # The second has to be the list with one row written at that new counter.
    match trees.build(body.outputs[1]):
        case ("write", ("list",), ("next",), new):
            return _match_gru(new, less.inputs["y"][0], trees)
    return None


class _Trees:
    """Values of a body as trees over the carried list, the step's input and state, and constants.

    `reached` are the operations that a tree was asked through. The others cannot change a result:
    with a flexible length, coremltools also writes the index counted from the end of the sequence
    (`shape`, `slice_by_index`, `add`), which the sign of the counter never selects.
    """

    def __init__(
        self, body: OperationBlock, constants: Mapping[str, Any], types: Mapping[str, ValueType]
    ) -> None:
        self._makers = {
            o.name: operation for operation in body.operations for o in operation.outputs
        }
        # The two carried values are leaves: the counter t and the list.
        self._inputs = {body.inputs[0].name: ("t",), body.inputs[1].name: ("list",)}
        self._constants = constants
        self.types = types
        self.reached: dict[str, Operation] = {}
        self.sequences: set[str] = set()

    def build(self, name: str) -> Tree:
        """The tree of a value; casts and axes of size 1 leave none."""
        if name in self._inputs:
            return self._inputs[name]
        op = self._makers.get(name)
        # A name from outside of the body, or a constant of it.
        if op is None or op.op_type == "const":
            return ("name", name)
        self.reached[name] = op
        read = {param: names[0] for param, names in op.inputs.items() if names}
        if op.op_type in ("squeeze", "expand_dims") or self._is_lossless(op):
            return self.build(read["x"])
        if op.op_type == "linear":
            return ("linear", self.build(read["x"]), read["weight"], read.get("bias"))
        if op.op_type in ("gather", "scatter"):
            return self._match_move(op.op_type, read)
        if op.op_type == "select":
            # `b` is never selected, but a longer one would make more indices of the one in `a`
            same = self.types[read["a"]].shape == op.outputs[0].shape
            taken = same and self.build(read["cond"]) == ("from zero",)
            return self.build(read["a"]) if taken else ("other",)
        if op.op_type == "greater_equal":
            return (
                ("from zero",)
                if self.build(read["x"]) == ("t",) and self._is_value(read["y"], 0)
                else ("other",)
            )
        if op.op_type == "add" and self.build(read["x"]) == ("t",):
            return ("next",) if self._is_value(read["y"], 1) else ("other",)
        # 1 - z is the only difference that a GRU has.
        if op.op_type == "sub":
            return ("rest", self.build(read["y"])) if self._is_value(read["x"], 1) else ("other",)
        if op.op_type in ("add", "mul", "sigmoid", "tanh"):
            return (op.op_type, *(self.build(read[p]) for p in ("x", "y") if p in read))
        return ("other",)

    def _is_lossless(self, op: Operation) -> bool:
        """Whether an operation is a cast that changes no value of the loop: between integers that
        hold 2^15 steps, or between fp16 and the fp32 in which the list is carried.
        """
        if op.op_type != "cast":
            return False
        pair = [self.types[op.inputs["x"][0]].dtype, op.outputs[0].dtype]
        return {t.name for t in pair} == {"fp16", "fp32"} or all(
            t.kind in ("int", "uint") and t.bits >= 16 for t in pair
        )

    def _match_move(self, kind: str, read: Mapping[str, str]) -> Tree:
        """A row of the carried list or of the sequence, or the list with one row more."""
        if not self._is_value(read["axis"], 0) or (
            "batch_dims" in read and not self._is_value(read["batch_dims"], 0)
        ):
            return ("other",)
        if kind == "scatter":
            # onto zeros: run() looks
            whole = (
                "mode" not in read
                or self._is_value(read["mode"], "add")
                or self._is_value(read["mode"], "update")
            )
            return (
                ("write", *(self.build(read[p]) for p in ("data", "indices", "updates")))
                if whole
                else ("other",)
            )
        if self.build(read["indices"]) != ("t",):
            return ("other",)
        source = self.build(read["x"])
        if source == ("list",):
            return ("h",)
        # Any tensor that is no constant and comes from outside may be the sequence.
        if source[0] == "name" and source[1] not in self._constants:
            self.sequences.add(source[1])
            return ("x",)
        return ("other",)

    def is_constant(self, name: str) -> bool:
        """Whether a value is a constant."""
        return name in self._constants

    def list_step_types(self) -> set[str]:
        """Types of what a step computes; what the list is carried in is a cast's business."""
        return {
            o.dtype.name
            for op in self.reached.values()
            if op.op_type in _COMPUTES
            for o in op.outputs
            if o.dtype.is_float
        }

    def has_float_cast(self) -> bool:
        """Whether a float changes its type inside the body."""
        return any(
            op.op_type == "cast" and op.outputs[0].dtype.is_float for op in self.reached.values()
        )

    def _is_value(self, name: str, value: Any) -> bool:
        if name not in self._constants:
            return False
        constant = self._constants[name].value
        return (
            constant == value
            if isinstance(value, str)
            else constant.size == 1 and constant.item() == value
        )


def _match_gru(new: Tree, end: str, trees: _Trees) -> GruNames | None:
    """n (1 - z) + h z, with n = tanh(W x + r (U h)) and the gates sigmoid(W x + U h)."""
    match new:
        case ("add", ("mul", *first), ("mul", *second)):
            pass
        case _:
            return None
    # either product may be written first, and either factor of each
    sides = [tuple(first), tuple(second)]
    carried = next((s for s in sides if ("h",) in s), None)
    fresh = next((s for s in sides if s is not carried), None)
    if carried is None or fresh is None:
        return None
    # The other factor of the product with h is z.
    z = next((t for t in carried if t != ("h",)), None)
    n = next((t for t in fresh if t[0] == "tanh"), None)
    # The fresh part has to be n times 1 - z, of the very same z.
    if z is None or n is None or ("rest", z) not in fresh or n[1][0] != "add":
        return None
    w_n = next((t for t in n[1][1:] if t[0] == "linear"), None)
    product = next((t for t in n[1][1:] if t[0] == "mul"), None)
    if w_n is None or product is None:
        return None
    r = next((t for t in product[1:] if t[0] == "sigmoid"), None)
    u_n = next((t for t in product[1:] if t[0] == "linear"), None)
    pairs = {"r": _match_gate(r), "z": _match_gate(z), "n": _match_pair((w_n, u_n))}
    # More than one sequence means a body that reads two inputs.
    if any(pair is None for pair in pairs.values()) or len(trees.sequences) != 1:
        return None
    return _collect_names(pairs, next(iter(trees.sequences)), end, trees)


def _match_gate(tree: Tree | None) -> tuple[Tree, Tree] | None:
    return (
        _match_pair(tree[1][1:])
        if tree is not None and tree[0] == "sigmoid" and tree[1][0] == "add"
        else None
    )


def _match_pair(trees: tuple[Tree | None, ...]) -> tuple[Tree, Tree] | None:
    """(W x, U h)."""
    of_x = [t for t in trees if t is not None and t[:2] == ("linear", ("x",))]
    of_h = [t for t in trees if t is not None and t[:2] == ("linear", ("h",))]
    return (of_x[0], of_h[0]) if len(of_x) == len(of_h) == 1 else None


def _collect_names(pairs: Mapping[str, Any], x: str, end: str, trees: _Trees) -> GruNames | None:
    """The loop's names, if every float value of a step has one type, and weights and biases are
    constants.
    """
    weights = {gate: (w[2], u[2]) for gate, (w, u) in pairs.items()}
    biases = {gate: (w[3], u[3]) for gate, (w, u) in pairs.items()}
    # A bias that is missing is None and needs no constant.
    constants = [
        n for side in (weights, biases) for pair in side.values() for n in pair if n is not None
    ]
    if not all(trees.is_constant(n) for n in constants):
        return None
    # One float type in all steps: with two, an unknown rounding would lie in between.
    kinds = {trees.types[x].dtype.name, *trees.list_step_types()}
    # a list in fp16 under steps in fp32: not what a GRU becomes
    rounded_list = kinds == {"fp32"} and trees.has_float_cast()
    return (
        GruNames(x, end, weights, biases, kinds.pop())
        if len(kinds) == 1 and not rounded_list
        else None
    )
