"""MIL's `lstm` as a loop over time, which Core AI has an operation for; an LSTM it has not.

output, last_h, last_c = lstm(call)

The step's result goes to its row by a comparison of step numbers, since a loop of constant shapes cannot grow a list.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch._higher_order_ops import while_loop

from bench.coreai.call import Call

ENDS = ("", "_back")


def lstm(call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """x [T, B, I] -> output [T, B, H] or [T, B, 2 H], last h and c [B, H] or [B, 2 H]."""
    way = call.attribute("direction", "forward")
    usual = {"recurrent_activation": "sigmoid", "cell_activation": "tanh", "activation": "tanh"}
    if way not in ("forward", "bidirectional") or any(call.attribute(name, kind) != kind for name, kind in usual.items()):
        raise call.refuse("this direction or activation")
    if call.has("clip") or call.has("peephole") or not call.attribute("output_sequence", False):
        raise call.refuse("clip, peephole or a single output")
    x, ends = call.tensor("x"), ENDS[: 1 + (way == "bidirectional")]
    first = [call.tensor(f"initial_{name}").chunk(len(ends), 1) for name in ("h", "c")]
    ways = [
        one_way(
            _gates(x, call.tensor(f"weight_ih{end}"), call.optional(f"bias{end}")),
            call.tensor(f"weight_hh{end}"),
            *(part[i] for part in first),
            backward=bool(end),
        )
        for i, end in enumerate(ends)
    ]
    output, h, c = (torch.cat(parts, -1) for parts in zip(*ways, strict=True))
    return output, h, c


def _gates(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """What the gates i, f, o, z sum up of the input: [T, B, 4 H]."""
    gates = x @ weight.t()
    return gates if bias is None else gates + bias


def one_way(gates: Tensor, weight: Tensor, h: Tensor, c: Tensor, *, backward: bool) -> tuple[Tensor, Tensor, Tensor]:
    """gates [T, B, 4 H], weight [4 H, H], first h and c [B, H] -> every h [T, B, H], the last h and c."""
    steps = torch.arange(gates.shape[0])
    count = gates.shape[0]

    def unfinished(n: Tensor, _h: Tensor, _c: Tensor, _all: Tensor) -> Tensor:
        return n < count

    def step(n: Tensor, h: Tensor, c: Tensor, every: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        at = (count - 1) - n if backward else n + 0
        row = gates.index_select(0, at.reshape(1))[0]  # [B, 4 H]
        i, f, o, z = (row + h @ weight.t()).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(z)
        h = torch.sigmoid(o) * torch.tanh(c)
        return n + 1, h, c, torch.where((steps == at)[:, None, None], h, every)

    blank = gates.new_zeros(*gates.shape[:2], h.shape[1])  # [T, B, H]
    first = torch.zeros((), dtype=torch.int64)
    repeat = while_loop if torch.compiler.is_exporting() else plain_loop
    _, h, c, every = repeat(unfinished, step, (first, contiguous(h), contiguous(c), blank))
    return every, h, c


def plain_loop(unfinished: Callable[..., Tensor], step: Callable[..., tuple[Tensor, ...]], state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """What `while_loop` stands for. Outside of an export that compiles first, for a minute."""
    while unfinished(*state):
        state = step(*state)
    return state


def contiguous(state: Tensor) -> Tensor:
    """A copy of its own, laid out as the loop's results are."""
    return state.clone(memory_format=torch.contiguous_format)
