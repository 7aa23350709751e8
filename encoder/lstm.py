"""A two-way LSTM whose result does not depend on the padding, as one stock LSTM: upstream's
pack_padded_sequence without a data-dependent shape.

    # x [B, T, 640], inside [B, T, 1] is 1 on the prefix, 0 in the padding
    y = PrefixLSTM(640, 256)(x, inside)

The backward direction meets the padding first and would carry it into the text. One more input
column says "padding"; its weight closes the input gate, so the cell keeps its initial zero, `c = f
0 + 0 g` and `h = o tanh 0`, exactly, until the last real step. No flip, no gather, no second LSTM:
the exported program has one `lstm` operation. The forward direction meets the padding last and is
masked there.

`unroll_lstms` and `use_lstm_operators` write the loop out for exporters that have no LSTM, at exact
length.
"""

import copy

import torch
from torch import Tensor, nn

from kokoro_ane.core import replace_module

# sigmoid(-1e4 + anything a gate sums up to) is 0 in fp16, fp32 and fp64; fp16 holds it
CLOSED_GATE = 1e4
DIRECTIONS = ("l0", "l0_reverse")


class OneLSTM(nn.Module):
    """A module that is one `lstm` operation in a package."""


class PrefixLSTM(OneLSTM, nn.LSTM):
    """One layer, two directions, upstream's parameters and keys; the padding column exists in the
    graph only.
    """

    weight_ih_l0: Tensor

    def __init__(self, inner: int, hidden: int) -> None:
        super().__init__(inner, hidden, batch_first=True, bidirectional=True)

    # it always begins with zeros, so there is no first state
    def forward(self, x: Tensor, inside: Tensor | None) -> Tensor:  # type: ignore[override]
        """x [B, T, inner], inside [B, T, 1] or None at exact length -> [B, T, 2 hidden], zero in
        the padding.
        """
        if inside is None:
            return super().forward(x)[0]
        x, state = add_flag(x, inside), x.new_zeros(2, len(x), self.hidden_size)
        return (
            torch.lstm(
                x, (state, state), self.make_flag_weights(), True, 1, 0.0, False, True, True
            )[0]
            * inside
        )

    def make_flag_weights(self) -> list[Tensor]:
        """torch.lstm's list of weights, one column wider: -1 for the input gate (the first quarter
        of the rows), 0 for the others. The flag is large and not the weight, so that a scale per
        row still fits the rest of the row.
        """
        gate = (
            torch.arange(4 * self.hidden_size, device=self.weight_ih_l0.device) < self.hidden_size
        )
        column = -gate[:, None].to(self.weight_ih_l0.dtype)  # [4 hidden, 1]
        weights: list[Tensor] = []
        for end in DIRECTIONS:
            # [4 hidden, inner + 1]
            inward = torch.cat([getattr(self, f"weight_ih_{end}"), column], dim=1)
            weights += [
                inward,
                *(getattr(self, f"{kind}_{end}") for kind in ("weight_hh", "bias_ih", "bias_hh")),
            ]
        return weights


def add_flag(x: Tensor, inside: Tensor) -> Tensor:
    """x [B, T, inner], zero in the padding, and the column that marks it: [B, T, inner + 1]."""
    return torch.cat([x * inside, (1 - inside) * CLOSED_GATE], dim=2)


def run_lstm_step(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """One step: the sums of the four gates (input, forget, cell, output) [..., 4 hidden] and the
    cell [..., hidden] -> the next state and cell.
    """
    # in PyTorch's order of gates
    enter, keep, new, leave = gates.chunk(4, dim=-1)
    cell = torch.sigmoid(keep) * cell + torch.sigmoid(enter) * torch.tanh(new)
    return torch.sigmoid(leave) * torch.tanh(cell), cell


class ScanLSTM(nn.Module):
    """PrefixLSTM with its loop written out. The inputs' part of all gates is one matrix product
    before the loop.
    """

    def __init__(self, lstm: PrefixLSTM) -> None:
        super().__init__()
        self.hidden = lstm.hidden_size
        for end in DIRECTIONS:
            # [inner, 4 hidden]
            self.register_buffer(
                f"inward_{end}", getattr(lstm, f"weight_ih_{end}").detach().t().contiguous()
            )
            # [hidden, 4 hidden]
            self.register_buffer(
                f"onward_{end}", getattr(lstm, f"weight_hh_{end}").detach().t().contiguous()
            )
            self.register_buffer(
                f"bias_{end}",
                (getattr(lstm, f"bias_ih_{end}") + getattr(lstm, f"bias_hh_{end}")).detach(),
            )

    def forward(self, x: Tensor, inside: Tensor | None) -> Tensor:
        """x [1, T, inner] -> [1, T, 2 hidden]."""
        rows = x.squeeze(0)  # [T, inner]
        ahead = self._run_one_way(rows, DIRECTIONS[0])
        # The backward direction runs over flipped rows; its states are flipped back.
        back = self._run_one_way(rows.flip(0), DIRECTIONS[1]).flip(0)
        return torch.cat([ahead, back], dim=1).unsqueeze(0)  # [1, T, 2 hidden]

    def _run_one_way(self, rows: Tensor, end: str) -> Tensor:
        """[T, inner] -> [T, hidden]."""
        from torch._higher_order_ops.scan import scan

        onward = getattr(self, f"onward_{end}")
        # [T, 1, 4 hidden]
        sums = (rows @ getattr(self, f"inward_{end}") + getattr(self, f"bias_{end}")).unsqueeze(1)

        def step(carried: list[Tensor], row: Tensor) -> tuple[list[Tensor], Tensor]:
            state, cell = run_lstm_step(row + carried[0] @ onward, carried[1])
            # A copy, because scan refuses an output that is the carried tensor itself.
            return [state, cell], state.clone()

        # State and cell begin with zeros, each a tensor of its own.
        first = sums.new_zeros(1, self.hidden)
        _, states = scan(step, [first, first.clone()], sums, dim=0)
        return states.squeeze(1)  # [T, hidden]


def unroll_lstms(module: nn.Module, loop: type[ScanLSTM] = ScanLSTM) -> nn.Module:
    """A copy of `module` whose LSTMs are loops of that kind."""
    copied = copy.deepcopy(module).eval()
    # A list, because modules are replaced while they are walked.
    for path, layer in list(copied.named_modules()):
        if isinstance(layer, PrefixLSTM):
            replace_module(copied, path, loop(layer))
    return copied.requires_grad_(False)


@torch.library.custom_op("kokoro_ane::lstm_steps", mutates_args=())
def lstm_steps(sums: Tensor, onward: Tensor) -> Tensor:
    """sums [T, 4 hidden], the inputs' part of each gate (input, forget, cell, output); onward
    [hidden, 4 hidden] -> states [T, hidden].
    """
    state = cell = sums.new_zeros(len(onward))
    states = []
    # Only the state's part of the gates has to wait for the step before.
    for row in sums:
        state, cell = run_lstm_step(row + state @ onward, cell)
        states.append(state)
    return torch.stack(states)


@lstm_steps.register_fake
def _(sums: Tensor, onward: Tensor) -> Tensor:
    return sums.new_empty(sums.shape[0], onward.shape[0])


class OperatorLSTM(ScanLSTM):
    """ScanLSTM whose loop is the operator."""

    def _run_one_way(self, rows: Tensor, end: str) -> Tensor:
        """[T, inner] -> [T, hidden]."""
        sums = rows @ getattr(self, f"inward_{end}") + getattr(self, f"bias_{end}")  # [T, 4 hidden]
        states: Tensor = lstm_steps(sums, getattr(self, f"onward_{end}"))
        return states


def use_lstm_operators(module: nn.Module) -> nn.Module:
    """A copy of `module` whose LSTMs are operators."""
    return unroll_lstms(module, OperatorLSTM)
