"""One flexible input: pack the five seam tensors on the host, unpack them in the graph without a transpose.

    features = pack(inputs, bucket=80)            # [1, channels, 1, 81] float32
    waveform = PackedVocoder(vocoder)(features, style)

Before iOS 18 only one input of a program may have enumerated shapes, so everything that grows with time shares one tensor. A seam tensor
of R rows and n columns is padded to a multiple of bucket + 1 columns; reading it back is a slice of channels, a reshape, a slice of time.
"""

import torch
from torch import Tensor, nn

from core.contract import COLUMNS_PER_FRAME, PROSODY_PER_FRAME, SPECTRUM_CHANNELS, PackedLayout
from core.layers import Mask
from vocoder.decoder import Vocoder
from vocoder.inputs import VocoderInputs, packed

__all__ = ["PackedTrunk", "PackedVocoder", "VocoderInputs", "pack", "unpack"]


def pack(inputs: VocoderInputs, bucket: int) -> Tensor:
    """vocoder.inputs.packed, as a tensor: [1, channels, 1, bucket + 1]."""
    return torch.from_numpy(packed(inputs, bucket))


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


class PackedTrunk(PackedVocoder):
    """The exported graph of a host tail: it ends before conv_post."""

    def forward(self, features: Tensor, style: Tensor) -> Tensor:
        """As PackedVocoder -> trunk [1, C, 1, 120B + 1]; the host cuts it at 120F + 1."""
        asr, f0, energy, mask, spectrum = unpack(features, self.sizes)
        return self.vocoder.trunk(asr, f0, energy, style, spectrum, Mask.of(mask))
