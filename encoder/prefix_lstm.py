"""A two-way LSTM that padding cannot reach, as one stock LSTM: upstream's pack_padded_sequence without a data-dependent shape.

    y = PrefixLSTM(640, 256)(x, inside)   # x [B, T, 640], inside [B, T, 1] is 1 on the prefix, 0 in the padding

The backward direction meets the padding first and would carry it into the text. One more input column says "padding"; its weight closes
the input gate, so the cell keeps its initial zero, `c = f 0 + 0 g` and `h = o tanh 0`, exactly, until the last real step. No flip, no
gather, no second LSTM: the exported program has one `lstm` operation. The forward direction meets the padding last and is masked there.
"""

import torch
from torch import Tensor, nn

CLOSED_GATE = 1e4  # sigmoid(-1e4 + anything a gate sums up to) is 0 in fp16, fp32 and fp64; fp16 holds it
_DIRECTIONS = ("l0", "l0_reverse")


class PrefixLSTM(nn.LSTM):
    """One layer, two directions, upstream's parameters and keys; the padding column exists in the graph only."""

    weight_ih_l0: Tensor

    def __init__(self, inner: int, hidden: int) -> None:
        super().__init__(inner, hidden, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor, inside: Tensor | None) -> Tensor:  # type: ignore[override]  # always from zeros: no first state
        """x [B, T, inner], inside [B, T, 1] or None at exact length -> [B, T, 2 hidden], zero in the padding."""
        if inside is None:
            return super().forward(x)[0]
        flagged = torch.cat([x * inside, (1 - inside) * CLOSED_GATE], dim=2)  # [B, T, inner + 1]
        state = x.new_zeros(2, len(x), self.hidden_size)
        return torch.lstm(flagged, (state, state), self._weights(), True, 1, 0.0, False, True, True)[0] * inside

    def _weights(self) -> list[Tensor]:
        """torch.lstm's list, one column wider: -1 for the input gate (the first quarter), 0 for the others. The flag is large, not the
        weight, so that a scale per row still fits the rest of the row."""
        gate = torch.arange(4 * self.hidden_size, device=self.weight_ih_l0.device) < self.hidden_size
        column = -gate[:, None].to(self.weight_ih_l0.dtype)  # [4 hidden, 1]
        weights: list[Tensor] = []
        for end in _DIRECTIONS:
            inward = torch.cat([getattr(self, f"weight_ih_{end}"), column], dim=1)
            weights += [inward, *(getattr(self, f"{kind}_{end}") for kind in ("weight_hh", "bias_ih", "bias_hh"))]
        return weights
