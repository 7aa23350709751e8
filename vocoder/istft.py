"""The tail's inverse STFT as one transposed convolution, exact at any prefix length.

    waveform = InverseStft()(log_magnitude_and_phase, mask)

Equal to torch.istft(n_fft=20, hop=5, periodic Hann, center=True) of exp(a) * exp(i sin(b)): the one-sided factor 2 / n_fft and the
overlap-add normalization, both lost in several ports (docs/conversion.md), are built into the kernel and the envelope.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.contract import HOP_SAMPLES, N_FFT
from core.layers import Mask

BINS = N_FFT // 2 + 1


def synthesis_kernel() -> Tensor:
    """Windowed inverse real DFT [2 * bins, 1, 1, n_fft] in float64: rows of cosines, then of sines."""
    bins = torch.arange(BINS, dtype=torch.float64)[:, None]
    angle = 2 * torch.pi * bins * torch.arange(N_FFT, dtype=torch.float64) / N_FFT  # [bins, n_fft]
    one_sided = torch.full_like(bins, 2 / N_FFT)
    one_sided[0] = one_sided[-1] = 1 / N_FFT
    basis = torch.cat([one_sided * torch.cos(angle), -one_sided * torch.sin(angle)])
    basis[BINS] = basis[-1] = 0.0  # DC and Nyquist have no imaginary part
    return (basis * hann()).view(2 * BINS, 1, 1, N_FFT)


def hann() -> Tensor:
    """Periodic Hann window [n_fft] in float64."""
    return torch.hann_window(N_FFT, periodic=True, dtype=torch.float64)


class InverseStft(nn.Module):
    """[B, 22, 1, S] log-magnitudes and phase arguments -> [B, 1, 1, 5 (S - 1)] samples."""

    kernel: Tensor
    window_power: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kernel", synthesis_kernel().float(), persistent=False)
        self.register_buffer("window_power", hann().square().float().view(1, 1, 1, N_FFT), persistent=False)

    def forward(self, x: Tensor, mask: Mask | None) -> Tensor:
        inside = torch.ones_like(x[:, :1]) if mask is None else mask.values.to(x.dtype)
        magnitude = torch.exp(x[:, :BINS]) * inside  # [B, 11, 1, S]
        phase = torch.sin(x[:, BINS:])
        spectrum = torch.cat([magnitude * torch.cos(phase), magnitude * torch.sin(phase)], dim=1)  # [B, 22, 1, S]
        stride, trim = (1, HOP_SAMPLES), (0, N_FFT // 2)
        signal = F.conv_transpose2d(spectrum, self.kernel, stride=stride, padding=trim)
        envelope = F.conv_transpose2d(inside, self.window_power, stride=stride, padding=trim)
        return signal / envelope.clamp(min=1.0)  # inside the utterance the envelope is 1.25 to 1.5; outside it only avoids 0 / 0
