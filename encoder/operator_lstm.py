"""A two-way LSTM whose loop is one operator, for compilers that take a kernel of their own (TVM: core/tvm_kernels.py).

    module = with_operators(DurationFunction(encoder))     # a copy; the same result at exact length

torch.export unrolls nn.LSTM to one length, and TVM's importer has no loop operator.
"""

import torch
from torch import Tensor, nn

from encoder.scan_lstm import ScanLSTM, without_lstm


@torch.library.custom_op("kokoro_ane::lstm_steps", mutates_args=())
def lstm_steps(sums: Tensor, onward: Tensor) -> Tensor:
    """sums [T, 4 hidden], what the inputs give each gate (enter, keep, new, leave); onward [hidden, 4 hidden] -> states [T, hidden]."""
    state = cell = sums.new_zeros(len(onward))
    states = []
    for row in sums:
        enter, keep, new, leave = (row + state @ onward).chunk(4)
        cell = torch.sigmoid(keep) * cell + torch.sigmoid(enter) * torch.tanh(new)
        state = torch.sigmoid(leave) * torch.tanh(cell)
        states.append(state)
    return torch.stack(states)


@lstm_steps.register_fake
def _(sums: Tensor, onward: Tensor) -> Tensor:
    return sums.new_empty(sums.shape[0], onward.shape[0])


class OperatorLSTM(ScanLSTM):
    """ScanLSTM with the operator for its loop."""

    def _one_way(self, rows: Tensor, end: str) -> Tensor:
        """[T, inner] -> [T, hidden]."""
        sums = rows @ getattr(self, f"inward_{end}") + getattr(self, f"bias_{end}")  # [T, 4 hidden]
        states: Tensor = lstm_steps(sums, getattr(self, f"onward_{end}"))
        return states


def with_operators(module: nn.Module) -> nn.Module:
    """A copy whose LSTMs are operators."""
    return without_lstm(module, OperatorLSTM)
