"""The chain in PyTorch at exact length: the encoder as it is exported, the vocoder in the form made for a processor (vocoder/eager.py).

opened = open_chain(Request(checkpoint, Path("build")))
"""

import torch
from torch import Tensor

from core.checkpoint import Checkpoint
from core.contract import DEFAULT_BUCKETS, PackedLayout
from encoder.alignment import AlignmentLimits
from encoder.functions import torch_functions
from encoder.model import Encoder
from encoder.steps import EncoderBackend
from pipeline.packages import ENCODER_BY_PYTORCH
from pipeline.runtimes import Opened, Request
from vocoder.decoder import Vocoder
from vocoder.eager import EagerVocoder
from vocoder.packing import VocoderInputs, pack, unpack


class EagerBackend:
    """A VocoderBackend at exact length: the packed tensors are unpacked again, and no mask is needed."""

    arrays = False
    buckets: tuple[int, ...] | None = None

    def __init__(self, vocoder: Vocoder, hidden_dim: int) -> None:
        self.source, self.eager, self.sizes = vocoder.generator.m_source, EagerVocoder(vocoder), PackedLayout(hidden_dim).sizes

    def pack(self, inputs: VocoderInputs) -> Tensor:
        """features [1, channels, 1, F + 1]."""
        return pack(inputs, inputs.frames)

    @torch.no_grad()
    def run(self, features: Tensor, style: Tensor, frames: int) -> Tensor:
        """Waveform [600F]."""
        asr, f0, energy, _, spectrum = unpack(features, self.sizes)
        return self.eager(asr, f0, energy, style, spectrum).flatten()


def torch_encoder(checkpoint: Checkpoint) -> EncoderBackend:
    """The checkpoint's encoder at exact length."""
    return EncoderBackend(torch_functions(Encoder.of(checkpoint)), AlignmentLimits.of(checkpoint.config, DEFAULT_BUCKETS[-1]))


def open_chain(request: Request) -> Opened:
    """See pipeline.runtimes."""
    checkpoint = request.checkpoint
    vocoder = EagerBackend(Vocoder.of(checkpoint), checkpoint.config.hidden_dim)
    return Opened(torch_encoder(checkpoint), vocoder, {ENCODER_BY_PYTORCH: checkpoint.sha256})
