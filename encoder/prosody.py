"""Upstream's layers behind ALBERT, under its keys: the prosody predictor (durations, F0, energy)
and the vocoder's text encoder.

    hidden = ProsodyPredictor(config).text_encoder(d_en, style, inside)  # [1, T, hidden]

How they are joined stands in encoder/functions.py, which cuts them into the two exported functions.
Source: upstream kokoro/modules.py, ProsodyPredictor and DurationEncoder, without dropout. `inside`
is 1 on the utterance, 0 in the padding. Upstream carries the style along in `d` and `en`; it is the
same row at every step, so here it is joined where an LSTM reads it.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.layers import AdainResBlk1d, Conv, Modules
from kokoro_ane.encoder.lstm import PrefixLSTM

NORM_EPSILON = 1e-5
LEAKY_SLOPE, TEXT_NORM_EPSILON = 0.2, 1e-5  # upstream's LayerNorm and activation


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
            self.lstms.extend(
                [PrefixLSTM(width + style_dim, width // 2), AdaLayerNorm(style_dim, width)]
            )

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
        """x [1, T, C], speed [1] -> frames a token [1, T]: the sum of `max_frames` probabilities of
        lasting one frame more.
        """
        return torch.sigmoid(self.linear_layer(x)).sum(dim=2) / speed


class ProsodyPredictor(nn.Module):
    """Holds 1. what says how long each symbol lasts; 2. what says pitch and energy at 80 per
    second.
    """

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


class ChannelNorm(nn.Module):
    """Layer norm over the channels of [B, C, 1, T], upstream's gamma and beta."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, 1, T] -> the same shape."""
        # Affine inside the norm: coremltools makes `y gamma + beta` a batch_norm with epsilon 1e-5,
        # which is 5e-6 off.
        rows = x.permute(0, 2, 3, 1)  # [B, 1, T, C]
        return F.layer_norm(
            rows, self.gamma.shape, self.gamma, self.beta, TEXT_NORM_EPSILON
        ).permute(0, 3, 1, 2)


class TextEncoder(nn.Module):
    """Responsibilities: 1. embed symbols; 2. mix neighbours by convolution, then the sentence by a
    two-way LSTM. It knows no time.
    """

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        width, kernel = config.hidden_dim, config.text_encoder_kernel_size
        self.embedding = nn.Embedding(config.n_token, width)
        self.cnn = nn.ModuleList(
            nn.Sequential(
                Conv(width, width, kernel, padding=(kernel - 1) // 2),
                ChannelNorm(width),
                nn.LeakyReLU(LEAKY_SLOPE),
            )
            for _ in range(config.n_layer)
        )
        self.lstm = PrefixLSTM(width, width // 2)

    def forward(
        self, input_ids: Tensor, lengths: Tensor | None = None, inside: Tensor | None = None
    ) -> Tensor:
        """input_ids [B, T] -> [B, hidden, 1, T], zero in the padding.

        Padding is marked by `lengths` [B], or by `inside` [B, T, 1] itself (1 on the prefix), or
        there is none.
        """
        if lengths is not None:
            steps = torch.arange(input_ids.shape[1], device=input_ids.device)
            inside = (steps < lengths.to(input_ids.device)[:, None])[..., None].to(
                self.embedding.weight.dtype
            )
        columns = None if inside is None else inside.transpose(1, 2).unsqueeze(2)  # [B, 1, 1, T]
        x = _only(self.embedding(input_ids).transpose(1, 2).unsqueeze(2), columns)  # [B, C, 1, T]
        for block in self.cnn:
            x = _only(block(x), columns)
        x = self.lstm(x.squeeze(2).transpose(1, 2), inside)  # [B, T, C]
        return x.transpose(1, 2).unsqueeze(2)  # [B, C, 1, T]


def _only(x: Tensor, columns: Tensor | None) -> Tensor:
    return x if columns is None else x * columns
