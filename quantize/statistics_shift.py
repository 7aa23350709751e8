"""How far a level shifts the statistics that the streaming layout predicts. The shift is measured
on the tuning set and added to the prediction.

    # `programs` are all functions as they were, `compressed` is the new function `utterance`
    predictor = corrected(stage, programs, compressed)

Rounded weights move the means of what every norm reads, in every sentence alike (p6 of real Kokoro:
by 0.026 deviations, which differ by 0.007 from sentence to sentence). The padded layout's norms
measure that, but the predictor was fitted to the uncompressed network. This is the bias correction
of Nagel et al. 2019 (arXiv:1906.04721), applied to predicted statistics.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import torch

from kokoro_ane.core.contract import UTTERANCE
from kokoro_ane.core.errors import CheckFailed
from kokoro_ane.core.layers import NORM_EPSILON
from kokoro_ane.quantize.activations import calibration_inputs
from kokoro_ane.vocoder.decoder import Generator
from kokoro_ane.vocoder.packing import VocoderInputs, excerpt
from kokoro_ane.vocoder.streaming.norm_statistics import StatisticsPredictor
from kokoro_ane.vocoder.streaming.streaming_model import GeneratorNorm, stage_norms
from kokoro_ane.vocoder.streaming.streaming_package import StreamingChain
from kokoro_ane.vocoder.streaming.streaming_stage import StreamingStage
from mlprogram import Program

# What a norm measures (streaming_model.Measured): the mean, and the mean square of the rest.
MEASURES = 2


def corrected(
    stage: StreamingStage, programs: Mapping[str, Program], compressed: Program
) -> StatisticsPredictor:
    """The stage's predictor, corrected for the weights of `compressed`, a function `utterance`.
    `programs` are all three functions before compression.
    """
    after, clips = {**programs, UTTERANCE: compressed}, exact(stage)
    shifts = [measured(after, stage, clip) - measured(programs, stage, clip) for clip in clips]
    return replace(
        stage.predictor, bias=(stage.predictor.bias + np.mean(shifts, axis=0)).astype(np.float32)
    )


def exact(stage: StreamingStage) -> Iterator[VocoderInputs]:
    """Yield as much of each tuning sentence as fills a bucket, so that no padding is measured."""
    for clip in calibration_inputs(stage.checkpoint, stage.vocoder):
        bucket = max(
            (bucket for bucket in stage.lengths.utterance if bucket <= clip.frames), default=None
        )
        if bucket:
            yield excerpt(clip, 0, bucket)


def measured(
    programs: Mapping[str, Program], stage: StreamingStage, clip: VocoderInputs
) -> np.ndarray:
    """The means, then the log variances, [2R], of what the norms of function `utterance` read while
    it renders a clip that fills a bucket.
    """
    means: list[np.ndarray] = []

    def note(_: str, operation: str, value: torch.Tensor) -> None:
        # the mean of a mask has one channel and is no measure of a norm
        if operation == "reduce_mean" and value.shape[1] > 1:
            means.append(value.double().flatten().numpy())

    StreamingChain(programs, stage.lengths).render(clip, clip.frames, hooks={UTTERANCE: note})
    return statistics_of(means, stage.vocoder.generator)


def statistics_of(measures: list[np.ndarray], generator: Generator) -> np.ndarray:
    """Two means of each norm of the second stage that measures -> [2R]. Raises CheckFailed where
    the means are not those that the norms would measure.
    """
    readers = [
        (norm, first_reader(norm, generator.blocks_per_stage)) for norm in stage_norms(generator, 1)
    ]
    measuring = [norm for norm, reader in readers if norm.path == reader]
    if [len(value) for value in measures] != [
        norm.channels for norm in measuring for _ in range(MEASURES)
    ]:
        raise CheckFailed(
            f"function {UTTERANCE} measures {len(measures)} means where its norms would measure"
            f" {MEASURES * len(measuring)}"
        )
    means, variances = {}, {}
    for norm, mean, power in zip(
        measuring, measures[::MEASURES], measures[1::MEASURES], strict=True
    ):
        means[norm.path] = mean
        variances[norm.path] = power / norm.norm.scale**2
    logs = [np.log(variances[reader] + NORM_EPSILON) for _, reader in readers]
    return np.concatenate([means[reader] for _, reader in readers] + logs)


def first_reader(norm: GeneratorNorm, parallel: int) -> str:
    """The path of the norm that measures for this one. Parallel blocks begin with the same value,
    which a program measures once. Example: with three parallel blocks, resblocks.4.adain1.0 ->
    resblocks.3.adain1.0.
    """
    root, number, place = norm.path.split(".", 2)
    shared = root == "resblocks" and place == "adain1.0"
    return f"{root}.{int(number) // parallel * parallel}.{place}" if shared else norm.path
