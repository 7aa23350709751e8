"""One flexible input: pack the five seam tensors on the host, unpack them in the graph without a transpose.

    features = pack(inputs, bucket=80)            # [1, channels, 1, 81] float32
    waveform = PackedVocoder(vocoder)(features, style)

Before iOS 18 only one input of a program may have enumerated shapes, so everything that grows with time shares one tensor. A seam tensor
of R rows and n columns is padded to a multiple of bucket + 1 columns; reading it back is a slice of channels, a reshape, a slice of time.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.contract import COLUMNS_PER_FRAME, PROSODY_PER_FRAME, SPECTRUM_CHANNELS, PackedLayout
from core.errors import InputError
from core.layers import Mask
from vocoder.decoder import Vocoder


@dataclass(frozen=True)
class VocoderInputs:
    """One utterance at the vocoder's door.

    asr [1, hidden, F]; f0_hz [1, 2F], 0 where unvoiced; energy [1, 2F]; style [1, style_dim]; spectrum [1, 22, 120F + 1]. Checked for shape
    and for NaN or infinity when it is made; InputError names the tensor and the first bad position.
    """

    asr: Tensor
    f0_hz: Tensor
    energy: Tensor
    style: Tensor
    spectrum: Tensor

    def __post_init__(self) -> None:
        frames = self.asr.shape[-1]
        expected = {
            "asr": (1, self.asr.shape[1] if self.asr.dim() == 3 else -1, frames),
            "f0_hz": (1, PROSODY_PER_FRAME * frames),
            "energy": (1, PROSODY_PER_FRAME * frames),
            "style": (1, self.style.shape[-1]),
            "spectrum": (1, SPECTRUM_CHANNELS, COLUMNS_PER_FRAME * frames + 1),
        }
        for name, shape in expected.items():
            tensor = getattr(self, name)
            if tuple(tensor.shape) != shape:
                raise InputError(f"{name} has shape {list(tensor.shape)}, but {frames} frames of asr need {list(shape)}")
            bad = (~torch.isfinite(tensor)).nonzero()
            if len(bad):
                raise InputError(f"{name} holds {len(bad)} NaN or infinite values, the first at {bad[0].tolist()}: features must be finite")

    @property
    def frames(self) -> int:
        """F: 40 per second."""
        return self.asr.shape[-1]


def pack(inputs: VocoderInputs, bucket: int) -> Tensor:
    """Lay the seam tensors down as rows of bucket + 1 columns: [1, channels, 1, bucket + 1] in their dtype, zeros in the padding."""
    if inputs.frames > bucket:
        raise InputError(f"features hold {inputs.frames} frames, bucket is {bucket}")
    mask = torch.ones(1, 1, inputs.frames, dtype=inputs.asr.dtype)
    parts = (inputs.asr, inputs.f0_hz[:, None], inputs.energy[:, None], mask, inputs.spectrum)
    per_frame = (1, PROSODY_PER_FRAME, PROSODY_PER_FRAME, 1, COLUMNS_PER_FRAME)
    rows = [_rows(part, rate * (bucket + 1), bucket + 1) for part, rate in zip(parts, per_frame, strict=True)]
    return torch.cat(rows, dim=1)[:, :, None]  # [1, channels, 1, bucket + 1]


def _rows(part: Tensor, length: int, width: int) -> Tensor:
    # [1, R, n] -> [1, R, length] -> [1, R * length / width, width]
    return F.pad(part, (0, length - part.shape[-1])).reshape(1, -1, width)


def unpack(features: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, ...]:
    """features [1, channels, 1, B + 1] -> asr [1, hidden, 1, B], f0 and energy [1, 1, 1, 2B], mask [1, 1, 1, B], the spectrum.

    The spectrum is [1, 22, 1, 120B + 1].
    """
    asr, f0, energy, mask, spectrum = features.split(sizes, dim=1)
    f0 = f0.reshape(1, 1, 1, -1)[..., :-PROSODY_PER_FRAME]  # [1, 1, 1, 2B]
    energy = energy.reshape(1, 1, 1, -1)[..., :-PROSODY_PER_FRAME]
    spectrum = spectrum.reshape(1, SPECTRUM_CHANNELS, 1, -1)[..., : 1 - COLUMNS_PER_FRAME]  # [1, 22, 1, 120B + 1]
    return asr[..., :-1], f0, energy, mask[..., :-1], spectrum


class PackedVocoder(nn.Module):
    """The exported graph: unpack, then Vocoder. No shape, gather or transpose; every literal is known when it is traced."""

    def __init__(self, vocoder: Vocoder, layout: PackedLayout) -> None:
        super().__init__()
        self.vocoder = vocoder
        self.sizes = layout.sizes

    def forward(self, features: Tensor, style: Tensor) -> Tensor:
        """features [1, channels, 1, B + 1], style [1, style_dim, 1, 1] -> waveform [1, 1, 1, 600B]; the caller cuts it at 600F."""
        asr, f0, energy, mask, spectrum = unpack(features, self.sizes)
        return self.vocoder(asr, f0, energy, style, spectrum, Mask.of(mask))
