"""The harmonic source, on the host in float64: F0 and noise to the harmonic spectrum the vocoder package reads.

    spectrum = HarmonicSource()(f0_hz, gaussian_noise(frames, seed=0))

Upstream (SineGen, SourceModuleHnNSF) draws three times. The initial phase is added to the first 24 kHz sample, which its linear 1/300
interpolation never reads, and the last draw is returned unused; so one draw, the sine noise, is all that can be heard. It is an argument.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.contract import FRAME_SAMPLES, HARMONICS, HOP_SAMPLES, N_FFT, PROSODY_PER_FRAME, SAMPLE_RATE_HZ
from core.errors import InputError

SINE_AMPLITUDE, VOICED_NOISE, VOICED_ABOVE_HZ = 0.1, 0.003, 10.0
_STEP_SAMPLES = FRAME_SAMPLES // PROSODY_PER_FRAME  # 300 samples to one F0 value


def gaussian_noise(frames: int, seed: int) -> Tensor:
    """Standard normal [1, 600F, 9] in float32 from a seed: the only randomness in the vocoder."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1, frames * FRAME_SAMPLES, HARMONICS, generator=generator, dtype=torch.float32)  # whatever the default is


def sine_waves(f0_hz: Tensor) -> Tensor:
    """Sines of F0 and its overtones, float64. f0_hz [B, 2F] -> [B, 600F, 9].

    Phase is a running sum at the F0 rate, drawn out linearly between the middles of the 300-sample steps and held at both ends
    (upstream: F.interpolate(linear, align_corners=False) down and up). No modulo anywhere.
    """
    cycles = torch.cumsum(f0_hz.double() * (_STEP_SAMPLES / SAMPLE_RATE_HZ), dim=1)  # [B, 2F] cycles of the fundamental
    phase = F.interpolate(cycles[:, None], scale_factor=float(_STEP_SAMPLES), mode="linear")  # [B, 1, 600F]
    overtones = torch.arange(1, HARMONICS + 1, dtype=torch.float64, device=f0_hz.device)
    return torch.sin(2 * torch.pi * phase.transpose(1, 2) * overtones)  # [B, 600F, 9]


def spectrum_of(excitation: Tensor) -> Tensor:
    """excitation [B, 600F] in float64 -> 11 magnitudes and 11 phases (rad) of its STFT, reflected at both ends: [B, 22, 120F + 1]."""
    # Upstream's window is rounded to float32. In column 0 the frame is symmetric, so the sign of the phase (+-pi) hangs on that.
    window = torch.hann_window(N_FFT, periodic=True, dtype=torch.float32, device=excitation.device).double()
    stft = torch.stft(excitation, N_FFT, HOP_SAMPLES, N_FFT, window, return_complex=True)  # [B, 11, 120F + 1]
    return torch.cat([stft.abs(), stft.angle()], dim=1)


class HarmonicSource(nn.Module):
    """Responsibilities: 1. F0 to excitation; 2. excitation to 11 magnitudes and phases. Ten weights, upstream's `m_source.l_linear`."""

    def __init__(self) -> None:
        super().__init__()
        self.l_linear = nn.Linear(HARMONICS, 1)

    @classmethod
    def recorded(cls, weights: Mapping[str, Any]) -> "HarmonicSource":
        """With the ten weights of a vocoder's manifest."""
        source = cls()
        with torch.no_grad():
            source.l_linear.weight.copy_(torch.tensor(weights["weights"]).reshape(1, HARMONICS))
            source.l_linear.bias.fill_(weights["bias"])
        if not all(bool(parameter.isfinite().all()) for parameter in source.parameters()):
            raise InputError("the weights of the harmonic source hold NaN or infinity")
        return source

    def excitation(self, f0_hz: Tensor, noise: Tensor) -> Tensor:
        """f0_hz [B, 2F], noise [B, 600F, 9] standard normal -> excitation [B, 600F] in float64."""
        samples = f0_hz.shape[1] * _STEP_SAMPLES
        if noise.shape != (f0_hz.shape[0], samples, HARMONICS):
            raise InputError(
                f"noise has shape {list(noise.shape)}, but {f0_hz.shape[1]} F0 values need {[f0_hz.shape[0], samples, HARMONICS]}"
            )
        voiced = (f0_hz > VOICED_ABOVE_HZ).double().repeat_interleave(_STEP_SAMPLES, dim=1)[..., None]  # [B, 600F, 1]
        level = voiced * VOICED_NOISE + (1 - voiced) * SINE_AMPLITUDE / 3
        waves = sine_waves(f0_hz) * SINE_AMPLITUDE * voiced + level * noise.double()
        return torch.tanh(F.linear(waves, self.l_linear.weight.double(), self.l_linear.bias.double())).squeeze(-1)

    @torch.no_grad()
    def forward(self, f0_hz: Tensor, noise: Tensor) -> Tensor:
        """f0_hz [B, 2F] (0 where unvoiced), noise [B, 600F, 9] -> harmonic spectrum [B, 22, 1, 120F + 1] in float64."""
        return spectrum_of(self.excitation(f0_hz, noise)).unsqueeze(2)
