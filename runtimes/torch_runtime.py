"""The chain in PyTorch at exact length: the encoder as it is exported, the vocoder in the layout
made for a processor (vocoder/eager.py).

opened = open_chain(Request(checkpoint, Path("build")))

In the streaming layout the vocoder gives its samples window by window (torch_streaming.py).
"""

import torch
from torch import Tensor

from kokoro_ane.core.contract import STREAMED, PackedLayout
from kokoro_ane.encoder.functions import torch_encoder
from kokoro_ane.quantize.locator import Request
from kokoro_ane.runtimes.registry import ENCODER_BY_PYTORCH, Opened
from kokoro_ane.vocoder.decoder import Vocoder, unpack
from kokoro_ane.vocoder.eager import EagerVocoder
from kokoro_ane.vocoder.packing import VocoderInputs, pack


class EagerBackend:
    """A VocoderBackend at exact length: the packed tensors are unpacked again, and no mask is
    needed.
    """

    arrays = False
    buckets: tuple[int, ...] | None = None

    def __init__(self, vocoder: Vocoder, hidden_dim: int) -> None:
        self.source = vocoder.generator.m_source.host
        self.eager, self.sizes = EagerVocoder(vocoder), PackedLayout(hidden_dim).sizes

    def pack(self, inputs: VocoderInputs) -> Tensor:
        """features [1, channels, 1, F + 1]."""
        return torch.from_numpy(pack(inputs, inputs.frames))

    @torch.no_grad()
    def run(self, features: Tensor, style: Tensor, frames: int) -> Tensor:
        """Waveform [600F]."""
        asr, f0, energy, _, spectrum = unpack(features, self.sizes)
        return self.eager(asr, f0, energy, style, spectrum).flatten()


def open_chain(request: Request) -> Opened:
    """The two models of the checkpoint: runtimes.registry."""
    checkpoint, made_of = request.checkpoint, {ENCODER_BY_PYTORCH: request.checkpoint.sha256}
    vocoder, hidden_dim = Vocoder.of(checkpoint), checkpoint.config.hidden_dim
    if request.layout not in STREAMED:
        return Opened(torch_encoder(checkpoint), EagerBackend(vocoder, hidden_dim), made_of)
    from kokoro_ane.runtimes.torch_streaming import StreamingBackend
    from kokoro_ane.vocoder.streaming.norm_statistics import predictor_of

    predictor = predictor_of(checkpoint)
    backend = StreamingBackend(vocoder, predictor, hidden_dim, layout=request.layout)
    made_of["statistics"] = predictor.sha256
    return Opened(torch_encoder(checkpoint), backend, made_of, predictor.voices)
