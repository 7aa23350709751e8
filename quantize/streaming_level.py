"""A level in the streaming layouts: the integers of the vocoder's layers in the three functions'
modules, and predicted statistics that are corrected for what rounding shifts.

    stage = streaming_stage(stage, level)

Rounded weights move the means of what every norm reads, in every sentence alike (p6 of real Kokoro:
by 0.026 deviations, which differ by 0.007 from sentence to sentence). The padded layout's norms
measure that, but the predictor was fitted to the uncompressed network. This is the bias correction
of Nagel et al. 2019 (arXiv:1906.04721), applied to predicted statistics.
"""

import copy
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from kokoro_ane.core.contract import DECODER, UTTERANCE
from kokoro_ane.core.layers import NORM_EPSILON
from kokoro_ane.quantize.fits import rows_of
from kokoro_ane.quantize.level import Level
from kokoro_ane.quantize.speech import calibration_inputs
from kokoro_ane.quantize.statistics import DEALS, on_threads
from kokoro_ane.quantize.stored_forms import store
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.render import render_reference
from kokoro_ane.vocoder.streaming.streaming_model import generator_norms
from kokoro_ane.vocoder.streaming.streaming_stage import StreamingStage

# The decoder's products that the vocoder does not have: the affines of all norms, and the predicted
# statistics. Their rows belong to 60 norms of very different range, so they are always int8 rows.
PRODUCTS = ("styles", "outer")
# products with the weights of another layer
POOLED = {
    "pooled.up": "generator.ups.0",
    "pooled.low": "generator.noise_convs.0",
    "pooled.high": "generator.noise_convs.1",
}


def streaming_stage(stage: StreamingStage, level: Level) -> StreamingStage:
    """The stage with the level's integers in its modules."""
    plain = stage.vocoder
    shift = statistics_shift(stage, plain, level.applied(plain))
    bias = (stage.predictor.bias + shift).astype(np.float32)
    stage = replace(
        stage,
        predictor=replace(stage.predictor, bias=bias),
        balanced=level.prepared(plain),
        # Snake's 1 / alpha stays out of the weights, so that they are the vocoder's
        apart=True,
    )
    attach_level(stage, level)
    return stage


def attach_level(stage: StreamingStage, level: Level, inputs: bool = True) -> None:
    """Give every layer of the stage's modules what the vocoder's layer with the same weights has;
    without `inputs` none is rounded, and layers that read integers are left out.
    """
    forms_of_all = level.forms
    if not inputs:
        forms = {path: form for path, form in level.forms.items() if path not in level.ranges}
        level = replace(level, forms=forms, ranges={})
    generator = stage.modules[UTTERANCE].get_submodule("generator")
    decoder = stage.modules[DECODER]
    for name, layer in list(generator.named_modules()):
        path = f"generator.{name}".removesuffix(".conv")
        of_level = path in level.forms or path in level.ranges
        if of_level and isinstance(getattr(layer, "weight", None), Tensor):
            level.attach(layer, path, parts_of_a_mean(stage.vocoder, path))
    for name, path in POOLED.items():
        if path in forms_of_all:
            layer = decoder.get_submodule(name)
            # the spectrum's time within a frame stands as rows in one of them
            turned = layer.weight.shape != stage.vocoder.get_submodule(path).weight.shape
            store(layer, rows_of(layer, "pooled_low_weight") if turned else forms_of_all[path])
    for name in PRODUCTS:
        layer = decoder.get_submodule(name)
        store(layer, rows_of(layer, f"{name}_weight"))
    for path in sorted({*level.forms, *level.ranges}):
        if not path.startswith("generator."):
            level.attach(decoder.get_submodule("vocoder").get_submodule(path), path)


def parts_of_a_mean(vocoder: Vocoder, path: str) -> float:
    """What a layer's weights are multiplied by where the mean over parallel blocks before it is
    left a sum: all upsamplers but the first.
    """
    later = path.startswith("generator.ups.") and path != "generator.ups.0"
    return 1 / vocoder.generator.blocks_per_stage if later else 1.0


def statistics_shift(stage: StreamingStage, plain: Vocoder, compressed: Vocoder) -> np.ndarray:
    """How far the level moves the statistics of what the generator's norms read: means, then log
    variances, [2R], the mean over the tuning set.
    """
    clips = list(calibration_inputs(stage.checkpoint, plain))

    def shift(numbers: range) -> list[np.ndarray]:
        # hooks of one thread would see the other's sentence
        before, after = copy.deepcopy(plain), copy.deepcopy(compressed)
        return [measured(after, clips[i]) - measured(before, clips[i]) for i in numbers]

    deals = on_threads(shift, [range(number, len(clips), DEALS) for number in range(DEALS)])
    return np.mean([each for dealt in deals for each in dealt], axis=0)


def measured(vocoder: Vocoder, clip: VocoderInputs) -> np.ndarray:
    """The means, then the log variances, [2R], of what the generator's norms read in a clip."""
    norms = [norm.norm for norm in generator_norms(vocoder.generator)]
    read: dict[int, tuple[Tensor, Tensor]] = {}

    def note(norm: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        x = inputs[0].double()
        variance = x.var(dim=3, unbiased=False).flatten()
        read[id(norm)] = x.mean(dim=3).flatten(), torch.log(variance + NORM_EPSILON)

    handles = [norm.register_forward_pre_hook(note) for norm in norms]
    try:
        render_reference(vocoder, clip)
    finally:
        for handle in handles:
            handle.remove()
    return np.concatenate([read[id(norm)][part].numpy() for part in (0, 1) for norm in norms])
