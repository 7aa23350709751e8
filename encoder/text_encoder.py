"""Phonemes to the features the vocoder reads: upstream's TextEncoder in (B, C, 1, T), and the alignment as a gather.

    text = TextEncoder(config)(input_ids, lengths=None)  # [B, hidden, 1, T]
    asr = aligned(text[:1], durations)                   # [1, hidden, 1, F]

Source: upstream kokoro/modules.py, TextEncoder. Inference only needs no dropout, so there is none.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.config import KokoroConfig
from core.layers import Conv
from encoder.prefix_lstm import PrefixLSTM

LEAKY_SLOPE, NORM_EPSILON = 0.2, 1e-5  # upstream's LayerNorm and activation


class ChannelNorm(nn.Module):
    """Layer norm over the channels of [B, C, 1, T], upstream's gamma and beta."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, 1, T] -> the same shape."""
        # Affine inside the norm: coremltools makes `y gamma + beta` a batch_norm with epsilon 1e-5, which is 5e-6 off.
        rows = x.permute(0, 2, 3, 1)  # [B, 1, T, C]
        return F.layer_norm(rows, self.gamma.shape, self.gamma, self.beta, NORM_EPSILON).permute(0, 3, 1, 2)


class TextEncoder(nn.Module):
    """Responsibilities: 1. embed symbols; 2. mix neighbours by convolution, then the sentence by a two-way LSTM. It knows no time."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        width, kernel = config.hidden_dim, config.text_encoder_kernel_size
        self.embedding = nn.Embedding(config.n_token, width)
        self.cnn = nn.ModuleList(
            nn.Sequential(Conv(width, width, kernel, padding=(kernel - 1) // 2), ChannelNorm(width), nn.LeakyReLU(LEAKY_SLOPE))
            for _ in range(config.n_layer)
        )
        self.lstm = PrefixLSTM(width, width // 2)

    def forward(self, input_ids: Tensor, lengths: Tensor | None = None, inside: Tensor | None = None) -> Tensor:
        """input_ids [B, T] -> [B, hidden, 1, T], zero in the padding.

        Padding is marked by `lengths` [B], or by `inside` [B, T, 1] itself (1 on the prefix), or there is none.
        """
        if lengths is not None:
            steps = torch.arange(input_ids.shape[1], device=input_ids.device)
            inside = (steps < lengths.to(input_ids.device)[:, None])[..., None].to(self.embedding.weight.dtype)
        columns = None if inside is None else inside.transpose(1, 2).unsqueeze(2)  # [B, 1, 1, T]
        x = _only(self.embedding(input_ids).transpose(1, 2).unsqueeze(2), columns)  # [B, C, 1, T]
        for block in self.cnn:
            x = _only(block(x), columns)
        x = self.lstm(x.squeeze(2).transpose(1, 2), inside)  # [B, T, C]
        return x.transpose(1, 2).unsqueeze(2)  # [B, C, 1, T]


def aligned(text: Tensor, durations: Tensor) -> Tensor:
    """Each token's column once per frame it lasts: text [B, C, 1, T] and durations [T] -> [B, C, 1, F]."""
    tokens = torch.arange(len(durations), device=text.device)
    return text[..., torch.repeat_interleave(tokens, durations.to(text.device))]


def _only(x: Tensor, columns: Tensor | None) -> Tensor:
    return x if columns is None else x * columns
