"""Recurrent layers over [S, B, I]: lstm, gru, rnn, in either direction.

    RECURRENT["lstm"].run(x, initial_h=h, initial_c=c, weight_ih=w, weight_hh=u, direction="forward")

Definitions: coremltools 9.0, mil/ops/defs/iOS15/recurrent.py and iOS18/recurrent.py. MIL orders the gates of an LSTM i, f, o, g (PyTorch:
i, f, g, o) and those of a GRU r, n, z (PyTorch: r, z, n). An operation is one rounding: the states are rounded to the declared type at
its end, not at every step.
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
        "scaled_tanh": lambda x: 1.7159 * torch.tanh(2 / 3 * x),  # LeCun's constants, Core ML's default
    }
)


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
    """(sequence [S or 1, B, D H], h [B, D H], c [B, D H]); weights [4 H, I] and [4 H, H], bias [4 H], peephole [3 H] (i, f, o).

    `clip` bounds the cell gate before its activation.
    """
    functions = (_activation(recurrent_activation), _activation(cell_activation), _activation(activation), clip)
    hidden = weight_hh.shape[1]
    forward = (weight_ih, weight_hh, bias, peephole)
    if direction != "bidirectional":
        sequence, h, c = _lstm_run(x, initial_h, initial_c, forward, functions, direction == "reverse")
        return sequence if output_sequence else h.unsqueeze(0), h, c
    ahead = _lstm_run(x, initial_h[:, :hidden], initial_c[:, :hidden], forward, functions, False)
    backward = (weight_ih_back, weight_hh_back, bias_back, peephole_back)
    back = _lstm_run(x, initial_h[:, hidden:], initial_c[:, hidden:], backward, functions, True)
    sequence, h, c = (torch.cat(pair, -1) for pair in zip(ahead, back, strict=True))
    return sequence if output_sequence else h.unsqueeze(0), h, c


def _lstm_run(x: Tensor, h: Tensor, c: Tensor, weights: tuple, functions: tuple, backward: bool) -> tuple[Tensor, Tensor, Tensor]:
    weight_ih, weight_hh, bias, peephole = weights
    gate, cell, final, clip = functions
    driven = _driven(x, weight_ih, bias)  # [S, B, 4 H]
    p_i, p_f, p_o = peephole.chunk(3) if peephole is not None else (0, 0, 0)
    turned, sequence = weight_hh.T.contiguous(), [h] * x.shape[0]
    for t in _order(x.shape[0], backward):
        i, f, o, g = torch.addmm(driven[t], h, turned).chunk(4, -1)  # MIL order
        g = g if clip is None else g.clamp(-clip, clip)
        c_new = gate(f + p_f * c) * c + gate(i + p_i * c) * cell(g)
        h = gate(o + p_o * c_new) * final(c_new)
        c = c_new
        sequence[t] = h
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

    n = activation(W x + b + r (U h)). With reset_after the bias of n sits inside the reset, r (U h + b), and `input_bias` outside it.
    """
    gate, final = _activation(recurrent_activation), _activation(activation)
    hidden = weight_hh.shape[1]
    zero = x.new_zeros(3 * hidden)
    bias = zero if bias is None else bias
    inner = torch.zeros(hidden, dtype=x.dtype) if not reset_after else bias[hidden : 2 * hidden]
    outer = bias + (zero if input_bias is None else input_bias)
    outer = torch.cat([outer[:hidden], outer[hidden : 2 * hidden] - inner, outer[2 * hidden :]])
    driven, h, sequence = _driven(x, weight_ih, outer), initial_h, [initial_h] * x.shape[0]
    for t in _order(x.shape[0], direction == "reverse"):
        u_r, u_n, u_z = torch.matmul(h, weight_hh.T).chunk(3, -1)
        w_r, w_n, w_z = driven[t].chunk(3, -1)
        r, z = gate(w_r + u_r), gate(w_z + u_z)
        h = (1 - z) * final(w_n + r * (u_n + inner)) + z * h
        sequence[t] = h
    return torch.stack(sequence) if output_sequence else h.unsqueeze(0), h


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
    final, driven, h = _activation(activation), _driven(x, weight_ih, bias), initial_h
    sequence = [h] * x.shape[0]
    for t in _order(x.shape[0], direction == "reverse"):
        h = final(driven[t] + torch.matmul(h, weight_hh.T))
        sequence[t] = h
    return torch.stack(sequence) if output_sequence else h.unsqueeze(0), h


def _driven(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The input's share of every gate for all steps at once."""
    return torch.nn.functional.linear(x, weight, bias)


def _order(steps: int, backward: bool) -> range:
    return range(steps - 1, -1, -1) if backward else range(steps)


def _activation(name: str) -> Callable[[Tensor], Tensor]:
    if name.lower() not in _ACTIVATIONS:
        raise ValueError(f"activation '{name}' is unknown; one of {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name.lower()]


RECURRENT = MappingProxyType({"gru": kernel(gru), "lstm": kernel(lstm), "rnn": kernel(rnn)})
