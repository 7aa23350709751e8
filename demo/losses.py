"""What training minimizes: spectra at three resolutions, a mel spectrogram, and limits that keep fp16 safe.

    loss = SpectralLoss()(rendered, recorded)  # both [B, samples] at 24 kHz

Magnitudes are of an unnormalized Hann STFT; the floor sits about 80 dB under loud speech, so the empty band above 8 kHz asks for silence
and not for minus infinity.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from demo.features import FFT_SAMPLES, mel_filters
from vocoder.istft import BINS

FLOOR = 1e-2
LOUDEST_LOG_MAGNITUDE, LARGEST_PHASE_ARGUMENT = math.log(100.0), 6.0  # beyond: exp and sin magnify fp16's rounding


@dataclass(frozen=True)
class Resolution:
    """One STFT: FFT length, window and hop in samples at 24 kHz."""

    fft: int
    window: int
    hop: int


RESOLUTIONS = (Resolution(512, 360, 90), Resolution(1024, 840, 210), Resolution(2048, 1680, 420))
MEL_RESOLUTION = Resolution(FFT_SAMPLES, 960, 240)


class SpectralLoss(nn.Module):
    """Mean over the resolutions of (spectral convergence + L1 of log magnitude), plus L1 of the log mel spectrogram."""

    def __init__(self) -> None:
        super().__init__()
        for resolution in (*RESOLUTIONS, MEL_RESOLUTION):
            self.register_buffer(f"window_{resolution.window}", torch.hann_window(resolution.window), persistent=False)
        self.register_buffer("mel", torch.from_numpy(mel_filters()).float(), persistent=False)  # [1025, 80]

    def forward(self, rendered: Tensor, recorded: Tensor) -> dict[str, Tensor]:
        """Parts by name; their sum is the loss."""
        convergence, log_magnitude = [], []
        for resolution in RESOLUTIONS:
            made, wanted = self._magnitude(rendered, resolution), self._magnitude(recorded, resolution)
            convergence.append((made - wanted).norm() / wanted.norm().clamp(min=FLOOR))
            log_magnitude.append(F.l1_loss(_log(made), _log(wanted)))
        made, wanted = (_log(self._magnitude(x, MEL_RESOLUTION).transpose(1, 2) @ self.mel) for x in (rendered, recorded))
        return {"convergence": _mean(convergence), "log_magnitude": _mean(log_magnitude), "mel": F.l1_loss(made, wanted)}

    def _magnitude(self, x: Tensor, resolution: Resolution) -> Tensor:
        """[B, samples] -> [B, bins, columns]."""
        window = getattr(self, f"window_{resolution.window}")
        spectrum = torch.view_as_real(torch.stft(x, resolution.fft, resolution.hop, resolution.window, window, return_complex=True))
        return (spectrum.square().sum(-1) + 1e-8).sqrt()


def range_penalty(conv_post: Tensor) -> Tensor:
    """Squared excess of log magnitudes and phase arguments [B, 22, 1, S] over what fp16 carries well."""
    loud = F.relu(conv_post[:, :BINS] - LOUDEST_LOG_MAGNITUDE).square().mean()
    return loud + F.relu(conv_post[:, BINS:].abs() - LARGEST_PHASE_ARGUMENT).square().mean()


def _log(magnitude: Tensor) -> Tensor:
    return torch.log(magnitude + FLOOR)


def _mean(values: list[Tensor]) -> Tensor:
    return torch.stack(values).mean()
