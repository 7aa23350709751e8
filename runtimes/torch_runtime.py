"""The chain in PyTorch at exact length: the encoder as it is exported, the vocoder in the layout
made for a processor (vocoder/eager.py).

    opened = open_chain(PackageRequest(checkpoint, Path("build")))
    # of the streaming layout: all but the generator's second stage at once, that window by window
    for samples in opened.vocoder.render_pieces(features, style, statistics, frames): play(samples)
"""

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_ane.core import (
    COLUMNS_PER_FRAME,
    COLUMNS_PER_STEP,
    FRAME_SAMPLES,
    SPECTRUM_CHANNELS,
    STATISTICS,
    STEPS_PER_FRAME,
    STREAMED,
    STREAMING,
    Mask,
    PackedLayout,
    require_shape,
)
from kokoro_ane.encoder import load_torch_encoder
from kokoro_ane.quantize import PackageRequest
from kokoro_ane.runtimes.opened import ENCODER_BY_PYTORCH, OpenedChain
from kokoro_ane.vocoder import (
    MEASURED,
    STAGE_SLOPE,
    WINDOWS,
    Array,
    DecoderFunction,
    EagerVocoder,
    Folding,
    GivenNorms,
    SecondStage,
    StatisticsPredictor,
    Vocoder,
    VocoderInputs,
    cut_windows,
    pack,
    pack_utterance,
    put_channels_last,
    require_predictor,
    unpack,
    unpack_frames,
    unpack_spectrum,
)


class EagerBackend:
    """A VocoderBackend at exact length, which needs no mask. It unpacks packed tensors."""

    arrays = False
    buckets: tuple[int, ...] | None = None
    predictor = ""  # statistics are measured

    def __init__(self, vocoder: Vocoder, hidden_dim: int) -> None:
        self.source = vocoder.generator.m_source.host
        self.eager = EagerVocoder(vocoder)
        self.sizes = PackedLayout(hidden_dim).sizes

    def pack(self, inputs: VocoderInputs) -> Tensor:
        """features [1, channels, 1, F + 1]."""
        return torch.from_numpy(pack(inputs, inputs.frames))

    @torch.no_grad()
    def run(self, features: Tensor, style: Tensor, statistics: Tensor, frames: int) -> Tensor:
        """Waveform [600F]; `statistics` is not read."""
        # An utterance of exact length has a mask of ones, which is left aside.
        asr, f0, energy, _, spectrum = unpack(features, self.sizes)
        return self.eager(asr, f0, energy, style, spectrum).flatten()


class StreamingBackend:
    """A VocoderBackend that computes the generator's second stage window by window; any cut gives
    the same samples.

    Up to `measured` frames that stage's statistics are measured instead of predicted: there a
    prediction errs most, and there is least to wait for.
    """

    arrays = False
    buckets: tuple[int, ...] | None = None

    def __init__(
        self,
        vocoder: Vocoder,
        predictor: StatisticsPredictor,
        measured: int = MEASURED,
        *,
        layout: str = STREAMING,
        sizes: tuple[int, ...] = WINDOWS,
    ) -> None:
        self.source = vocoder.generator.m_source.host
        self.predictor = predictor.sha256
        self.rows = len(predictor.bias)
        self.eager = EagerVocoder(vocoder)
        self.measured = measured
        self.sizes = sizes
        folding = Folding.from_vocoder(vocoder, predictor.centres, layout)
        self.decoder = DecoderFunction(vocoder, predictor, folding).eval()
        second = SecondStage(vocoder, folding).eval()
        self.second = second.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def pack(self, inputs: VocoderInputs) -> Tensor:
        """features [1, channels, 1, F + 1]."""
        return torch.from_numpy(pack_utterance(inputs, inputs.frames))

    def run(self, features: Tensor, style: Tensor, statistics: Tensor, frames: int) -> Tensor:
        """Waveform [600F], in the windows that are the least work."""
        return torch.cat(list(self.render_pieces(features, style, statistics, frames, early=False)))

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        """Waveform [600F] of an utterance, for a judge."""
        style = torch.as_tensor(inputs.style)[:, :, None, None]
        # What a voice adds to the statistics is zero where none is given.
        statistics = torch.zeros(1, self.rows)
        if inputs.statistics is not None:
            statistics = torch.as_tensor(inputs.statistics)
        column = statistics[:, :, None, None]  # [1, 2R, 1, 1]
        return self.run(self.pack(inputs), style, column, inputs.frames).numpy()

    @torch.no_grad()
    def render_pieces(
        self,
        features: Array,
        style: Array,
        statistics: Array,
        frames: int,
        early: bool = True,
    ) -> Iterator[Tensor]:
        """Yield the samples in order, as they are computed: [600F] together. With `early` the short
        windows come first.
        """
        features, style = torch.as_tensor(features), torch.as_tensor(style)
        statistics = torch.as_tensor(statistics)
        require_shape(STATISTICS, statistics, (1, self.rows, 1, 1), "these norms")
        # The last rows are the spectrum's; the others are asr, F0, energy and mask.
        *parts, rows = features.split(self.decoder.sizes, dim=1)
        # [1, 22, 1, 120F + 1], without what the packing filled up
        spectrum = torch.from_numpy(unpack_spectrum(features.numpy()))
        spectrum = put_channels_last(spectrum[:, :, None, : COLUMNS_PER_FRAME * frames + 1])
        asr, f0, energy, values = unpack_frames(*parts)
        affines = self.eager.compute_affines(style)
        mixed = self.eager.decode_frames(asr, f0, energy, affines)
        # [1, C, 1, 20F]
        entering = self.eager.generator.run_stage(0, mixed, affines, spectrum)
        entering = F.leaky_relu(entering, STAGE_SLOPE)
        # a short utterance is computed at once, with its own statistics
        if frames <= self.measured:
            yield self.eager.generator.run_last_stage(entering, affines, spectrum).flatten()
            return
        mask = Mask.from_values(values)
        shares = mask.mean, parts[-1].mean(dim=3, keepdim=True)
        # [1, 22 * 6, 1, 20 (F + 1)]
        rows = rows.reshape(1, SPECTRUM_CHANNELS * COLUMNS_PER_STEP, 1, -1)
        pooled = self.decoder.pooled(entering, rows, mask.upsampled(STEPS_PER_FRAME))
        _, style_affine = self.decoder.compute_style_affines(style)
        affine = self.decoder.predict_affine(pooled, shares, style, statistics, style_affine)
        # The affines are those of the whole utterance, so any cut gives the same samples.
        for window in cut_windows(frames, self.sizes, early, any_length=True):
            start = window.start
            end = window.start + window.frames
            # [1, C, 1, 20 frames of the window] and [1, 22, 1, 120 frames + 1]
            shown = entering[..., STEPS_PER_FRAME * start : STEPS_PER_FRAME * end]
            columns = spectrum[..., COLUMNS_PER_FRAME * start : COLUMNS_PER_FRAME * end + 1]
            # Each window takes the affines from the first norm on.
            affine_rows = GivenNorms(affine, self.second.sizes)
            samples = self.second(
                put_channels_last(shown), put_channels_last(columns), affine_rows
            ).flatten()
            # without the halo that the convolutions read on either side
            yield samples[
                FRAME_SAMPLES * (window.begin - start) : FRAME_SAMPLES * (window.end - start)
            ]


def open_chain(request: PackageRequest) -> OpenedChain:
    """The two models of the checkpoint: runtimes.registry."""
    checkpoint = request.checkpoint
    made_of = {ENCODER_BY_PYTORCH: request.checkpoint.sha256}
    vocoder = Vocoder.from_checkpoint(checkpoint)
    if request.layout not in STREAMED:
        return OpenedChain(
            load_torch_encoder(checkpoint),
            EagerBackend(vocoder, checkpoint.config.hidden_dim),
            made_of,
        )
    predictor = require_predictor(checkpoint)
    backend = StreamingBackend(vocoder, predictor, layout=request.layout)
    made_of["statistics"] = predictor.sha256
    return OpenedChain(load_torch_encoder(checkpoint), backend, made_of)
