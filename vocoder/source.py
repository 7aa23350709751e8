"""The harmonic source for tensors: F0 and noise to the harmonic spectrum the vocoder package reads. The arithmetic is vocoder/harmonics.py.

    spectrum = HarmonicSource()(f0_hz, gaussian_noise(frames, seed=0))

Upstream (SineGen, SourceModuleHnNSF) draws three times. The initial phase is added to the first 24 kHz sample, which its linear 1/300
interpolation never reads, and the last draw is returned unused; so one draw, the sine noise, is all that can be heard. It is an argument.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from core.contract import HARMONICS
from vocoder.harmonics import Merge, gaussian, spectrum_of
from vocoder.harmonics import sine_waves as sine_arrays


def gaussian_noise(frames: int, seed: int) -> Tensor:
    """Standard normal [1, 600F, 9] in float32 from a seed."""
    return torch.from_numpy(gaussian(frames, seed))


def sine_waves(f0_hz: Tensor) -> Tensor:
    """Sines of F0 and its overtones, float64. f0_hz [B, 2F] -> [B, 600F, 9]."""
    return torch.from_numpy(sine_arrays(f0_hz.numpy()))


class HarmonicSource(nn.Module):
    """Responsibilities: 1. F0 to excitation; 2. excitation to 11 magnitudes and phases. Ten weights, upstream's `m_source.l_linear`."""

    def __init__(self) -> None:
        super().__init__()
        self.l_linear = nn.Linear(HARMONICS, 1)

    @classmethod
    def recorded(cls, weights: Mapping[str, Any]) -> "HarmonicSource":
        """With the ten weights of a vocoder's manifest."""
        source, merge = cls(), Merge.recorded(weights)
        with torch.no_grad():
            source.l_linear.weight.copy_(torch.from_numpy(merge.weights).reshape(1, HARMONICS))
            source.l_linear.bias.fill_(merge.bias)
        return source

    @property
    def merge(self) -> Merge:
        """The ten weights, for NumPy."""
        return Merge(self.l_linear.weight.detach().numpy().reshape(HARMONICS), float(self.l_linear.bias.detach()))

    def excitation(self, f0_hz: Tensor, noise: Tensor) -> Tensor:
        """f0_hz [B, 2F], noise [B, 600F, 9] standard normal -> excitation [B, 600F] in float64."""
        return torch.from_numpy(self.merge.excitation(f0_hz.numpy(), noise.numpy()))

    @torch.no_grad()
    def forward(self, f0_hz: Tensor, noise: Tensor) -> Tensor:
        """f0_hz [B, 2F] (0 where unvoiced), noise [B, 600F, 9] -> harmonic spectrum [B, 22, 1, 120F + 1] in float64."""
        return torch.from_numpy(spectrum_of(self.excitation(f0_hz, noise).numpy())).unsqueeze(2)

    def spectrum(self, f0_hz: Tensor, noise: Tensor) -> Tensor:
        """As forward, for VocoderInputs: [1, 22, 120F + 1] in float32."""
        return self(f0_hz, noise).squeeze(2).float()
