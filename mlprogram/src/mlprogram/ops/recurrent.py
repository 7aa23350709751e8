"""Recurrent layers over [S, B, I]: lstm, gru, rnn, in either direction.

    RECURRENT["gru"].run(x, initial_h=h, weight_ih=w, weight_hh=u, direction="forward")

Definitions: coremltools 9.0, mil/ops/defs/iOS15/recurrent.py and iOS18/recurrent.py. MIL orders the
gates of an LSTM i, f, o, g (PyTorch: i, f, g, o) and those of a GRU r, n, z (PyTorch: r, z, n). An
operation is one rounding: the states are rounded to the declared type at its end, not at every
step. `direction="reverse"` gives its sequence in the order it was computed, last step first, as
coremltools' own tests of lstm, gru and rnn expect; the backward half of a bidirectional layer stays
in the order of x. Layers that PyTorch has too run on its own kernels, everything else step by step.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import torch
from torch import Tensor

from mlprogram.ops.kernel import kernel

_ACTIVATIONS = MappingProxyType(
    {
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
        "relu": torch.relu,
        "linear": lambda x: x,
        "hard_sigmoid": lambda x: (0.2 * x + 0.5).clamp(0, 1),
        "sigmoid_hard": lambda x: (0.2 * x + 0.5).clamp(0, 1),
        "scaled_tanh": torch.tanh,  # alpha = beta = 1 inside a recurrent layer
    }
)
# MIL's gates in PyTorch's order: i f g o, r z n
_PYTORCH_LSTM, _PYTORCH_GRU = (0, 1, 3, 2), (0, 2, 1)


def lstm(
    x: Tensor,
    initial_h: Tensor,
    initial_c: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None = None,
    peephole: Tensor | None = None,
    weight_ih_back: Tensor | None = None,
    weight_hh_back: Tensor | None = None,
    bias_back: Tensor | None = None,
    peephole_back: Tensor | None = None,
    direction: str = "forward",
    output_sequence: bool = False,
    recurrent_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    activation: str = "tanh",
    clip: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """(sequence [S or 1, B, D H], h [B, D H], c [B, D H]); weights [4 H, I] and [4 H, H], bias [4
    H], peephole [3 H] (i, f, o).

    `clip` bounds the cell state of every step. Of an initial state with more rows than the batch
    the first ones count: coremltools writes such programs for packed sequences.
    """
    initial_h, initial_c = initial_h[: x.shape[1]], initial_c[: x.shape[1]]
    functions = (
        _find_activation(recurrent_activation),
        _find_activation(cell_activation),
        _find_activation(activation),
        clip,
    )
    # A bidirectional layer keeps both states side by side: [B, 2 H].
    hidden = weight_hh.shape[1]
    forward = (weight_ih, weight_hh, bias, peephole)
    if direction != "bidirectional":
        sequence, h, c = _run_lstm(
            x.flip(0) if direction == "reverse" else x, initial_h, initial_c, forward, functions
        )
        return sequence if output_sequence else h.unsqueeze(0), h, c
    ahead = _run_lstm(x, initial_h[:, :hidden], initial_c[:, :hidden], forward, functions)
    backward = (weight_ih_back, weight_hh_back, bias_back, peephole_back)
    back = _run_lstm(x.flip(0), initial_h[:, hidden:], initial_c[:, hidden:], backward, functions)
    # The backward half is turned into the order of x, then joined on the last axis.
    sequence, h, c = (
        torch.cat(pair, -1) for pair in zip(ahead, (back[0].flip(0), *back[1:]), strict=True)
    )
    return sequence if output_sequence else h.unsqueeze(0), h, c


def _run_lstm(
    x: Tensor, h: Tensor, c: Tensor, weights: tuple, functions: tuple
) -> tuple[Tensor, Tensor, Tensor]:
    """(sequence [S, B, H], h, c) of one direction, x in the order of its steps."""
    weight_ih, weight_hh, bias, peephole = weights
    gate, cell, final, clip = functions
    # PyTorch's layer knows these functions alone, no peephole and no clip.
    if (
        functions == (torch.sigmoid, torch.tanh, torch.tanh, None)
        and peephole is None
        and len(x) > 1
    ):
        # PyTorch has a bias for the input and one for the state; MIL's stands for their sum.
        biases = () if bias is None else (bias, torch.zeros_like(bias))
        parameters = _order_gates((weight_ih, weight_hh, *biases), _PYTORCH_LSTM)
        state = (h.unsqueeze(0).contiguous(), c.unsqueeze(0).contiguous())
        # biases?, one layer, no dropout, not training, one direction, not batch first
        y, h, c = torch.lstm(x, state, parameters, bias is not None, 1, 0.0, False, False, False)
        return y, h[0], c[0]
    # What the inputs give hangs on no step before: one product for all steps. [S, B, 4 H]
    driven = _compute_input_gates(x, weight_ih, bias)
    p_i, p_f, p_o = peephole.chunk(3) if peephole is not None else (0, 0, 0)
    turned = weight_hh.T.contiguous()
    sequence = []
    for row in driven:
        i, f, o, g = torch.addmm(row, h, turned).chunk(4, -1)  # MIL order
        c_new = gate(f + p_f * c) * c + gate(i + p_i * c) * cell(g)
        c_new = c_new if clip is None else c_new.clamp(-clip, clip)
        # The output gate alone looks at the new cell.
        h = gate(o + p_o * c_new) * final(c_new)
        c = c_new
        sequence.append(h)
    return torch.stack(sequence), h, c


def gru(
    x: Tensor,
    initial_h: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None = None,
    direction: str = "forward",
    output_sequence: bool = False,
    recurrent_activation: str = "sigmoid",
    activation: str = "tanh",
    reset_after: bool = False,
    input_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """(sequence [S or 1, B, H], h [B, H]); weights [3 H, I] and [3 H, H] in the order r, n, z.

    n = activation(W x + b + U (r h)): coremltools' tests decide this, its formula reads r (U h).
    With reset_after n = activation(W x + input_bias + r (U h + b)), as in PyTorch.
    """
    functions = (_find_activation(recurrent_activation), _find_activation(activation))
    x = x.flip(0) if direction == "reverse" else x
    # `inner` is added behind the product with the state, where reset_after scales it too
    inner = x.new_zeros(weight_hh.shape[0]) if bias is None else bias
    outer = torch.zeros_like(inner) if input_bias is None else input_bias
    if reset_after and functions == (torch.sigmoid, torch.tanh) and len(x) > 1:
        # PyTorch's GRU is the one with reset_after, and keeps two biases apart.
        parameters = _order_gates((weight_ih, weight_hh, outer, inner), _PYTORCH_GRU)
        sequence, h = torch.gru(
            x, initial_h.unsqueeze(0).contiguous(), parameters, True, 1, 0.0, False, False, False
        )
        # The last state of one layer, [1, B, H], doubles as a sequence of one step.
        return sequence if output_sequence else h, h[0]
    step = _reset_after if reset_after else _reset_before
    h = initial_h
    steps = []
    # Where r scales the state before the product, both biases act on the inputs' side.
    for row in _compute_input_gates(x, weight_ih, outer if reset_after else outer + inner):
        h = step(row, h, weight_hh, inner, *functions)
        steps.append(h)
    return torch.stack(steps) if output_sequence else h.unsqueeze(0), h


def _reset_after(
    row: Tensor, h: Tensor, weight: Tensor, bias: Tensor, gate: Callable, final: Callable
) -> Tensor:
    u_r, u_n, u_z = torch.nn.functional.linear(h, weight, bias).chunk(3, -1)
    w_r, w_n, w_z = row.chunk(3, -1)
    r, z = gate(w_r + u_r), gate(w_z + u_z)
    return (1 - z) * final(w_n + r * u_n) + z * h


def _reset_before(
    row: Tensor, h: Tensor, weight: Tensor, bias: Tensor, gate: Callable, final: Callable
) -> Tensor:
    weight_r, weight_n, weight_z = weight.chunk(3)
    w_r, w_n, w_z = row.chunk(3, -1)
    r, z = gate(w_r + h @ weight_r.T), gate(w_z + h @ weight_z.T)
    # Here r scales the state, before its product; in _reset_after the product.
    return (1 - z) * final(w_n + (r * h) @ weight_n.T) + z * h


def rnn(
    x: Tensor,
    initial_h: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None = None,
    direction: str = "forward",
    output_sequence: bool = False,
    activation: str = "tanh",
) -> tuple[Tensor, Tensor]:
    """(sequence [S or 1, B, H], h [B, H]); h = activation(W x + U h + b)."""
    final = _find_activation(activation)
    h = initial_h
    sequence = []
    for row in _compute_input_gates(x.flip(0) if direction == "reverse" else x, weight_ih, bias):
        h = final(row + torch.matmul(h, weight_hh.T))
        sequence.append(h)
    return torch.stack(sequence) if output_sequence else h.unsqueeze(0), h


def _compute_input_gates(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The input's share of every gate for all steps at once."""
    return torch.nn.functional.linear(x, weight, bias)


def _order_gates(parameters: tuple[Tensor, ...], order: tuple[int, ...]) -> list[Tensor]:
    """Gate blocks of every parameter in another order."""
    # [gates H, ...] -> the same rows, gate by gate in another order
    return [torch.cat([p.chunk(len(order))[i] for i in order]) for p in parameters]


def _find_activation(name: str) -> Callable[[Tensor], Tensor]:
    if name.lower() not in _ACTIVATIONS:
        raise ValueError(f"activation '{name}' is unknown; one of {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name.lower()]


RECURRENT = MappingProxyType({"gru": kernel(gru), "lstm": kernel(lstm), "rnn": kernel(rnn)})
