"""The tail's inverse STFT with one fault in it, for the known-bad controls.

generator.stft = BrokenTail(fault=HALVED)
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from core.contract import HOP_SAMPLES, N_FFT, SAMPLE_RATE_HZ
from core.layers import Mask
from vocoder.istft import BINS, InverseStft

UNNORMALIZED, HALVED, LATE, NONE = "unnormalized", "halved", "late", "none"
DROPOUT_SAMPLES = SAMPLE_RATE_HZ // 100  # 10 ms


class BrokenTail(InverseStft):
    """[B, 22, 1, S] -> [B, 1, 1, 5 (S - 1)] as the true tail, but for `fault`, and with the columns of `silent` at magnitude 0."""

    def __init__(self, fault: str = NONE, silent: tuple[int, int] = (0, 0)) -> None:
        super().__init__()
        self.fault, self.silent = fault, silent

    def forward(self, x: Tensor, mask: Mask | None) -> Tensor:
        """x [B, 22, 1, S] at exact length (the mask is not read) -> [B, 1, 1, 5 (S - 1)] with the fault in it."""
        magnitude = torch.exp(x[:, :BINS])  # [B, 11, 1, S]
        magnitude[..., self.silent[0] : self.silent[1]] = 0.0
        if self.fault == HALVED:
            magnitude[:, 1:-1] *= 0.5
        phase = torch.sin(x[:, BINS:])
        spectrum = torch.cat([magnitude * torch.cos(phase), magnitude * torch.sin(phase)], dim=1)  # [B, 22, 1, S]
        early = 1 if self.fault == LATE else 0
        signal = F.conv_transpose2d(spectrum, self.kernel, stride=(1, HOP_SAMPLES))  # [B, 1, 1, 5 (S - 1) + 20]
        envelope = F.conv_transpose2d(torch.ones_like(x[:, :1]), self.window_power, stride=(1, HOP_SAMPLES))
        if self.fault == UNNORMALIZED:
            envelope = torch.ones_like(envelope)
        inside = slice(N_FFT // 2 - early, signal.shape[3] - N_FFT // 2 - early)
        return (signal / envelope.clamp(min=1.0))[..., inside]


def dropout_columns(signal: np.ndarray) -> tuple[int, int]:
    """First and one-past-last spectrum column of the loudest 10 ms."""
    power = np.convolve(np.square(signal.astype(np.float64)), np.ones(DROPOUT_SAMPLES), mode="valid")
    start = int(np.argmax(power)) // HOP_SAMPLES
    return start, start + DROPOUT_SAMPLES // HOP_SAMPLES
