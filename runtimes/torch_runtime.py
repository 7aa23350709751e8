"""The chain in PyTorch at exact length: the encoder as it is exported, the vocoder in the layout
made for a processor (vocoder/eager.py).

opened = open_chain(Request(checkpoint, Path("build")))

In the streaming layout (vocoder/streaming) the vocoder gives its samples window by window.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.contract import (
    COLUMNS_PER_FRAME,
    DEFAULT_BUCKETS,
    FRAME_SAMPLES,
    PROSODY_PER_FRAME,
    STREAMED,
    STREAMING,
    PackedLayout,
)
from kokoro_ane.encoder.encoder_steps import AlignmentLimits, EncoderBackend
from kokoro_ane.encoder.functions import Encoder, torch_functions
from kokoro_ane.quantize.locator import Request
from kokoro_ane.runtimes.registry import ENCODER_BY_PYTORCH, Opened
from kokoro_ane.vocoder.decoder import Vocoder, unpack, unpack_frames
from kokoro_ane.vocoder.eager import EagerVocoder, last_channels
from kokoro_ane.vocoder.packing import Array, VocoderInputs, pack
from kokoro_ane.vocoder.streaming.norm_statistics import StatisticsPredictor, predictor_of
from kokoro_ane.vocoder.streaming.streaming_functions import DecoderFunction
from kokoro_ane.vocoder.streaming.streaming_layers import FORMS
from kokoro_ane.vocoder.streaming.streaming_model import StreamingGenerator, Told
from kokoro_ane.vocoder.streaming.streaming_package import pack_utterance, unpacked_spectrum
from kokoro_ane.vocoder.streaming.windows import FIRST, LONGEST, MEASURED, windows


class EagerBackend:
    """A VocoderBackend at exact length: the packed tensors are unpacked again, and no mask is
    needed.
    """

    arrays = False
    buckets: tuple[int, ...] | None = None

    def __init__(self, vocoder: Vocoder, hidden_dim: int) -> None:
        self.source, self.eager, self.sizes = (
            vocoder.generator.m_source.host,
            EagerVocoder(vocoder),
            PackedLayout(hidden_dim).sizes,
        )

    def pack(self, inputs: VocoderInputs) -> Tensor:
        """features [1, channels, 1, F + 1]."""
        return torch.from_numpy(pack(inputs, inputs.frames))

    @torch.no_grad()
    def run(self, features: Tensor, style: Tensor, frames: int) -> Tensor:
        """Waveform [600F]."""
        asr, f0, energy, _, spectrum = unpack(features, self.sizes)
        return self.eager(asr, f0, energy, style, spectrum).flatten()


class StreamingBackend:
    """A VocoderBackend that computes the utterance's frames at once and its samples window by
    window; any cut gives the same samples.

    Up to `measured` frames the statistics are not told but measured: there a prediction errs most,
    and there is least to wait for.
    """

    arrays = False
    buckets: tuple[int, ...] | None = None

    def __init__(
        self,
        vocoder: Vocoder,
        predictor: StatisticsPredictor,
        hidden_dim: int,
        measured: int = MEASURED,
        *,
        layout: str = STREAMING,
    ) -> None:
        self.source, self.eager, self.measured = (
            vocoder.generator.m_source.host,
            EagerVocoder(vocoder),
            measured,
        )
        form = FORMS[layout]()
        self.decoder = DecoderFunction(vocoder, predictor, hidden_dim, form).eval()
        generator = StreamingGenerator(vocoder, predictor.centres, form).eval()
        self.generator = generator.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def pack(self, inputs: VocoderInputs) -> Tensor:
        """features [1, channels, 1, F + 1]."""
        return torch.from_numpy(pack_utterance(inputs, inputs.frames))

    def run(self, features: Tensor, style: Tensor, frames: int) -> Tensor:
        """Waveform [600F], in the windows that are the least work."""
        return torch.cat(list(self.pieces(features, style, frames, first=None)))

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        """Waveform [600F] of features, for a judge."""
        return self.run(
            self.pack(inputs), torch.as_tensor(inputs.style)[:, :, None, None], inputs.frames
        ).numpy()

    @torch.no_grad()
    def pieces(
        self,
        features: Array,
        style: Array,
        frames: int,
        first: int | None = FIRST,
        longest: int = LONGEST,
    ) -> Iterator[Tensor]:
        """Samples in order, as they are computed: [600F] together. `first`, `longest`: frames of
        windows (vocoder.streaming.windows).
        """
        features, style = torch.as_tensor(features), torch.as_tensor(style)
        spectrum = torch.from_numpy(unpacked_spectrum(features.numpy()))[
            :, :, None, : COLUMNS_PER_FRAME * frames + 1
        ]
        if frames <= self.measured:
            asr, f0, energy, _ = unpack_frames(*features.split(self.decoder.sizes, dim=1)[:-1])
            yield self.eager(asr, f0, energy, style, spectrum).flatten()
            return
        mixed, affine, _ = self.decoder(features, style)
        for window in windows(frames, first, longest):
            shown = mixed[
                ...,
                PROSODY_PER_FRAME * window.start : PROSODY_PER_FRAME
                * (window.start + window.frames),
            ]
            columns = spectrum[
                ...,
                COLUMNS_PER_FRAME * window.start : COLUMNS_PER_FRAME
                * (window.start + window.frames)
                + 1,
            ]
            found = self.generator(
                last_channels(shown), last_channels(columns), Told(affine, self.generator.sizes)
            ).flatten()
            yield found[
                FRAME_SAMPLES * (window.begin - window.start) : FRAME_SAMPLES
                * (window.end - window.start)
            ]


def torch_encoder(checkpoint: Checkpoint) -> EncoderBackend:
    """The checkpoint's encoder at exact length."""
    return EncoderBackend(
        torch_functions(Encoder.of(checkpoint)),
        AlignmentLimits.of(checkpoint.config, DEFAULT_BUCKETS[-1]),
    )


def open_chain(request: Request) -> Opened:
    """See runtimes.registry."""
    checkpoint, made_of = request.checkpoint, {ENCODER_BY_PYTORCH: request.checkpoint.sha256}
    if request.layout in STREAMED:
        predictor = predictor_of(checkpoint)
        told = StreamingBackend(
            Vocoder.of(checkpoint), predictor, checkpoint.config.hidden_dim, layout=request.layout
        )
        return Opened(
            torch_encoder(checkpoint),
            told,
            made_of | {"statistics": predictor.sha256},
            predictor.voices,
        )
    vocoder = EagerBackend(Vocoder.of(checkpoint), checkpoint.config.hidden_dim)
    return Opened(torch_encoder(checkpoint), vocoder, made_of)
