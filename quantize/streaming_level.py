"""A level in the streaming layouts: the integers of the vocoder's layers in the three functions'
modules, and predicted statistics that are corrected for what rounding shifts.

    stage = make_streaming_stage(stage, level)

Rounded weights move the means of what every norm reads, in every sentence alike (p6 of real Kokoro:
by 0.026 deviations, which differ by 0.007 from sentence to sentence). Norms that measure follow,
and so do the predictor's inputs, but its map was fitted to the uncompressed network. This is the
bias correction of Nagel et al. 2019 (arXiv:1906.04721), applied to predicted statistics.
"""

from dataclasses import replace

import numpy as np
from torch import Tensor

from kokoro_ane.core import DECODER, UTTERANCE
from kokoro_ane.quantize.fits import quantize_rows
from kokoro_ane.quantize.level import CompressionLevel
from kokoro_ane.quantize.plan import LayerSpec
from kokoro_ane.quantize.statistics import run_on_threads
from kokoro_ane.quantize.stored_forms import store
from kokoro_ane.speech import make_calibration_inputs
from kokoro_ane.vocoder import Residuals, StreamingStage, Vocoder

# The source convolution of the first stage, with columns as rows: its weight has another shape than
# the vocoder's, and taps of zero that a palette need not have.
PACKED_SOURCE = "generator.noise_convs.0"
# Layers of the decoder that the vocoder does not have, always int8 rows: the style's affines and
# the predictor's product, whose rows belong to norms of very different range; what is pooled.
PRODUCTS = ("styles", "outer", "pooled.up", "pooled.source", PACKED_SOURCE)

ROWS_LEVEL = "w8"  # what PRODUCTS are as a level

# sentences; they differ by a quarter of the shift, so that twelve leave a tenth of it
SHIFT_CLIPS = 12


def make_streaming_stage(stage: StreamingStage, level: CompressionLevel) -> StreamingStage:
    """The stage with the level's integers in its modules."""
    shift = measure_statistics_shift(stage, with_integers(stage, level))
    return with_integers(replace(stage, shift=shift), level)


def with_integers(stage: StreamingStage, level: CompressionLevel) -> StreamingStage:
    """The same without a correction of what is predicted."""
    # a vocoder of its own, which its modules share: a level is attached once. With `apart` Snake's
    # 1 / alpha stays out of the weights, so that they are the vocoder's.
    rounded = replace(stage, balanced=level.prepare(stage.vocoder), apart=True)
    attach_level(rounded, level)
    return rounded


def attach_level(stage: StreamingStage, level: CompressionLevel, inputs: bool = True) -> None:
    """Give every layer of the stage's modules what the vocoder's layer with the same weights has;
    without `inputs` none is rounded, and layers that read integers are left out.
    """
    left_out = {PACKED_SOURCE} if inputs else {PACKED_SOURCE, *level.ranges}
    forms = {path: form for path, form in level.forms.items() if path not in left_out}
    level = replace(level, forms=forms, ranges=level.ranges if inputs else {})
    decoder, utterance = stage.modules[DECODER], stage.modules[UTTERANCE]
    for generator in (decoder.get_submodule("generator"), utterance.get_submodule("generator")):
        for name, layer in list(generator.named_modules()):
            # A wrapped convolution stands one name deeper, as `conv`.
            path = f"generator.{name}".removesuffix(".conv")
            of_level = path in level.forms or path in level.ranges
            if of_level and isinstance(getattr(layer, "weight", None), Tensor):
                level.attach(layer, path, count_parts_of_mean(stage.vocoder, path))
    for name in PRODUCTS:
        layer = decoder.get_submodule(name)
        store(layer, quantize_rows(layer, f"{name.replace('.', '_')}_weight"))
    for path in sorted({*level.forms, *level.ranges}):
        if not path.startswith("generator."):
            level.attach(decoder.get_submodule("vocoder").get_submodule(path), path)


def is_always_rows(layer: LayerSpec) -> bool:
    """Whether a vocoder's layer stands in one of PRODUCTS, whatever its level: the generator's
    affines are one product with the style.
    """
    affine = layer.is_style and layer.name.startswith("generator.")
    return affine or layer.name == PACKED_SOURCE


def count_saved_by_products(stage: StreamingStage) -> int:
    """The bytes that int8 rows save on PRODUCTS, against fp16: a byte a weight less a scale a
    row.
    """
    weights = [stage.modules[DECODER].get_submodule(name).weight for name in PRODUCTS]
    return sum(
        weight.numel() - 2 * weight.shape[0] for weight in weights if isinstance(weight, Tensor)
    )


def count_parts_of_mean(vocoder: Vocoder, path: str) -> float:
    """What a layer's weights are multiplied by where the mean over parallel blocks before it is
    left a sum: all upsamplers but the first.
    """
    later = path.startswith("generator.ups.") and path != "generator.ups.0"
    return 1 / vocoder.generator.blocks_per_stage if later else 1.0


def measure_statistics_shift(plain: StreamingStage, rounded: StreamingStage) -> np.ndarray:
    """How far rounding moves what the second stage's norms measure from what is predicted for them:
    means, then log variances, [2R], the mean over SHIFT_CLIPS sentences of the tuning set.
    """
    clips = list(make_calibration_inputs(plain.checkpoint, plain.vocoder, SHIFT_CLIPS))
    # one after the other: each puts its hooks on the stage's modules for a moment
    both = [Residuals(stage.modules) for stage in (plain, rounded)]

    def average(residuals: Residuals) -> np.ndarray:
        mean: np.ndarray = np.mean([residuals(clip) for clip in clips], axis=0)
        return mean

    before, after = run_on_threads(average, both)
    return after - before
