"""The vocoder in PyTorch in the streaming layout: an utterance's frames at once, its samples window
by window.

    backend = StreamingBackend(Vocoder.of(checkpoint), predictor_of(checkpoint), hidden_dim)
    for samples in backend.pieces(features, style, frames): play(samples)
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from kokoro_ane.core.contract import (
    COLUMNS_PER_FRAME,
    FRAME_SAMPLES,
    PROSODY_PER_FRAME,
    STREAMING,
)
from kokoro_ane.vocoder.decoder import Vocoder, unpack_frames
from kokoro_ane.vocoder.eager import EagerVocoder, last_channels
from kokoro_ane.vocoder.packing import Array, VocoderInputs
from kokoro_ane.vocoder.streaming.norm_statistics import StatisticsPredictor
from kokoro_ane.vocoder.streaming.streaming_functions import DecoderFunction
from kokoro_ane.vocoder.streaming.streaming_layers import FORMS
from kokoro_ane.vocoder.streaming.streaming_model import StreamingGenerator, Told
from kokoro_ane.vocoder.streaming.streaming_package import pack_utterance, unpacked_spectrum
from kokoro_ane.vocoder.streaming.windows import FIRST, LONGEST, MEASURED, windows


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
        self.source = vocoder.generator.m_source.host
        self.eager, self.measured = EagerVocoder(vocoder), measured
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
        # a short utterance is computed at once, with its own statistics
        if frames <= self.measured:
            asr, f0, energy, _ = unpack_frames(*features.split(self.decoder.sizes, dim=1)[:-1])
            yield self.eager(asr, f0, energy, style, spectrum).flatten()
            return
        mixed, affine, _ = self.decoder(features, style)
        for window in windows(frames, first, longest):
            start, end = window.start, window.start + window.frames
            shown = mixed[..., PROSODY_PER_FRAME * start : PROSODY_PER_FRAME * end]
            columns = spectrum[..., COLUMNS_PER_FRAME * start : COLUMNS_PER_FRAME * end + 1]
            # Each window takes the affines from the first norm on.
            affines = Told(affine, self.generator.sizes)
            samples = self.generator(
                last_channels(shown), last_channels(columns), affines
            ).flatten()
            # without the halo that the convolutions read on either side
            yield samples[
                FRAME_SAMPLES * (window.begin - start) : FRAME_SAMPLES * (window.end - start)
            ]
