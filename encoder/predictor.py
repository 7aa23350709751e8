"""The prosody predictor's layers under upstream's keys: text and style to durations, the aligned text to F0 and energy.

    hidden = ProsodyPredictor(config).text_encoder(d_en, style, inside)  # [1, T, hidden]

How they are joined stands in encoder/model.py, which cuts them into the two exported functions.
Source: upstream kokoro/modules.py, ProsodyPredictor and DurationEncoder, without dropout. `inside` is 1 on the utterance, 0 in the padding.
Upstream carries the style along in `d` and `en`; it is the same row at every step, so here it is joined where an LSTM reads it.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.blocks import AdainResBlk1d
from core.config import KokoroConfig
from core.layers import Conv
from core.modules import Modules
from encoder.prefix_lstm import PrefixLSTM

NORM_EPSILON = 1e-5


def with_style(x: Tensor, style: Tensor, inside: Tensor) -> Tensor:
    """x [1, T, C] and the style row [1, S] at every step inside: [1, T, C + S]."""
    return torch.cat([x, style.unsqueeze(1) * inside], dim=2)


class AdaLayerNorm(nn.Module):
    """Layer norm whose gain and shift come from the style."""

    def __init__(self, style_dim: int, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.fc = nn.Linear(style_dim, 2 * channels)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """x [1, T, C], style [1, S] -> [1, T, C]; the padding is not zero."""
        gain, shift = self.fc(style).unsqueeze(1).chunk(2, dim=2)  # [1, 1, C] each
        return (1 + gain) * F.layer_norm(x, (self.channels,), eps=NORM_EPSILON) + shift


class DurationEncoder(nn.Module):
    """LSTM and style norm, `n_layer` times."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        width, style_dim = config.hidden_dim, config.style_dim
        self.lstms = nn.ModuleList()
        for _ in range(config.n_layer):
            self.lstms.extend([PrefixLSTM(width + style_dim, width // 2), AdaLayerNorm(style_dim, width)])

    def forward(self, x: Tensor, style: Tensor, inside: Tensor) -> Tensor:
        """x [1, T, C] -> [1, T, C], zero in the padding."""
        for lstm, norm in zip(self.lstms[::2], self.lstms[1::2], strict=True):
            x = norm(lstm(with_style(x, style, inside), inside), style) * inside
        return x


class DurationProjection(nn.Module):
    """Upstream's LinearNorm: key `linear_layer`."""

    def __init__(self, width: int, max_frames: int) -> None:
        super().__init__()
        self.linear_layer = nn.Linear(width, max_frames)

    def forward(self, x: Tensor, speed: Tensor) -> Tensor:
        """x [1, T, C], speed [1] -> frames a token [1, T]: the sum of `max_frames` probabilities of lasting one frame more."""
        return torch.sigmoid(self.linear_layer(x)).sum(dim=2) / speed


class ProsodyPredictor(nn.Module):
    """Holds 1. what says how long each symbol lasts; 2. what says pitch and energy at 80 per second."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        width, style_dim = config.hidden_dim, config.style_dim
        self.text_encoder = DurationEncoder(config)
        self.lstm = PrefixLSTM(width + style_dim, width // 2)
        self.duration_proj = DurationProjection(width, config.max_dur)
        self.shared = PrefixLSTM(width + style_dim, width // 2)
        self.F0, self.N = (self._branch(width, style_dim) for _ in range(2))
        self.F0_proj, self.N_proj = (Conv(width // 2, 1, 1, weight_norm=False) for _ in range(2))

    @staticmethod
    def _branch(width: int, style_dim: int) -> Modules[AdainResBlk1d]:
        half = width // 2
        return Modules(
            [
                AdainResBlk1d(width, width, style_dim),
                AdainResBlk1d(width, half, style_dim, upsample=True),
                AdainResBlk1d(half, half, style_dim),
            ]
        )
