"""A two-way LSTM as a loop operator, for exporters that unroll torch.lstm to one length (ExecuTorch).

    module = without_lstm(DurationFunction(encoder))     # a copy; the same result at exact length

At exact length only: `inside` must be 1 everywhere.
"""

import copy

import torch
from torch import Tensor, nn

from core.modules import replace_module
from encoder.prefix_lstm import PrefixLSTM

DIRECTIONS = ("l0", "l0_reverse")


class ScanLSTM(nn.Module):
    """PrefixLSTM with its step written out; the inputs' product is one matrix product before the loop."""

    def __init__(self, lstm: PrefixLSTM) -> None:
        super().__init__()
        self.hidden = lstm.hidden_size
        for end in DIRECTIONS:
            self.register_buffer(f"inward_{end}", getattr(lstm, f"weight_ih_{end}").detach().t().contiguous())  # [inner, 4 hidden]
            self.register_buffer(f"onward_{end}", getattr(lstm, f"weight_hh_{end}").detach().t().contiguous())  # [hidden, 4 hidden]
            self.register_buffer(f"bias_{end}", (getattr(lstm, f"bias_ih_{end}") + getattr(lstm, f"bias_hh_{end}")).detach())

    def forward(self, x: Tensor, inside: Tensor | None) -> Tensor:
        """x [1, T, inner] -> [1, T, 2 hidden]."""
        rows = x.squeeze(0)  # [T, inner]
        ahead, back = self._one_way(rows, DIRECTIONS[0]), self._one_way(rows.flip(0), DIRECTIONS[1]).flip(0)
        return torch.cat([ahead, back], dim=1).unsqueeze(0)

    def _one_way(self, rows: Tensor, end: str) -> Tensor:
        """[T, inner] -> [T, hidden]."""
        from torch._higher_order_ops.scan import scan

        onward = getattr(self, f"onward_{end}")
        sums = (rows @ getattr(self, f"inward_{end}") + getattr(self, f"bias_{end}")).unsqueeze(1)  # [T, 1, 4 hidden]

        def step(carried: list[Tensor], row: Tensor) -> tuple[list[Tensor], Tensor]:
            state, cell = carried  # [1, hidden] each
            enter, keep, new, leave = (row + state @ onward).chunk(4, dim=1)
            cell = torch.sigmoid(keep) * cell + torch.sigmoid(enter) * torch.tanh(new)
            state = torch.sigmoid(leave) * torch.tanh(cell)
            return [state, cell], state.clone()

        first = sums.new_zeros(1, self.hidden)
        _, states = scan(step, [first, first.clone()], sums, dim=0)
        return states.squeeze(1)


def without_lstm(module: nn.Module, loop: type[ScanLSTM] = ScanLSTM) -> nn.Module:
    """A copy whose LSTMs are loops of that kind."""
    copied = copy.deepcopy(module).eval()
    for path, layer in list(copied.named_modules()):
        if isinstance(layer, PrefixLSTM):
            replace_module(copied, path, loop(layer))
    return copied.requires_grad_(False)
