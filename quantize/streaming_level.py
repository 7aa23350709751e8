"""A level in the streaming layouts: the integers of the vocoder's layers in the three functions'
modules, and predicted statistics that are corrected for what rounding shifts.

    stage = make_streaming_stage(stage, level)

Rounded weights move the means of what every norm reads, in every sentence alike (p6 of real Kokoro:
by 0.026 deviations, which differ by 0.007 from sentence to sentence). Norms that measure follow,
and so do the predictor's inputs, but its map was fitted to the uncompressed network. This is the
bias correction of Nagel et al. 2019 (arXiv:1906.04721), applied to predicted statistics.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from torch import Tensor

from kokoro_ane.core import DECODER, UTTERANCE
from kokoro_ane.quantize.fits import (
    make_form,
    quantize_in_parts,
    quantize_rows,
    quantize_symmetric,
)
from kokoro_ane.quantize.level import CompressionLevel
from kokoro_ane.quantize.methods import SCHEMES, PaletteWeights
from kokoro_ane.quantize.palettes import Fit, Unfolded, compute_style_moments
from kokoro_ane.quantize.plan import LayerSpec
from kokoro_ane.quantize.statistics import run_on_threads
from kokoro_ane.quantize.stored_forms import StoredWeight, store
from kokoro_ane.speech import make_calibration_inputs
from kokoro_ane.vocoder import HiddenStatistics, Residuals, StreamingStage, Vocoder

# The source convolution of the first stage, with columns as rows: its weight has another shape than
# the vocoder's, and taps of zero that a palette need not have.
PACKED_SOURCE = "generator.noise_convs.0"
# Layers of the decoder that the vocoder does not have: the style's affines and the predictor's
# product, whose rows belong to norms of very different range; what is pooled. They are int8 rows,
# but for TABLED where a recipe gives the generator's affines a palette for groups of rows.
PRODUCTS = ("styles", "outer", "pooled.up", "pooled.source", PACKED_SOURCE)
TABLED = ("styles", "outer")
# The predictor before that product is float32 beside int8 rows. Beside palettes its axes are int8
# rows, which move what is predicted by 0.001 deviations, where it errs by 0.027. Its landmarks and
# the product behind them, whose terms cancel, would move it by 0.018 and 0.53 and have 16 bits in
# two parts: 0.0001 and 0.002.
PREDICTOR = "hidden.statistics"
AXES = "axes"
IN_PARTS = ("landmarks", "hidden")
WIDE = ("outer", PREDICTOR)  # float32 in the uncompressed package, whose other weights are float16

Forms = dict[str, StoredWeight]
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
    levels = level.recipe.levels if level.recipe else {}
    for path, form in make_product_forms(stage, find_affine_palette(levels)).items():
        layer, _, tensor = path.rpartition(".")
        store(decoder.get_submodule(layer), form, tensor)
    for path in sorted({*level.forms, *level.ranges}):
        if not path.startswith("generator."):
            level.attach(decoder.get_submodule("vocoder").get_submodule(path), path)


def make_product_forms(stage: StreamingStage, how: PaletteWeights | None) -> Forms:
    """What stands in PRODUCTS and in the predictor's tensors, by their paths in the decoder: int8
    rows in the first; with `how`, the palette of the generator's affines, that in TABLED, and
    integers in the second.
    """
    decoder = stage.modules[DECODER]
    predictor = decoder.get_submodule(PREDICTOR)
    assert isinstance(predictor, HiddenStatistics)
    forms = dict[str, StoredWeight]()
    for name in PRODUCTS:
        if how is None or name not in TABLED:
            forms[f"{name}.weight"] = quantize_rows(decoder.get_submodule(name))
    if how is not None:
        # what they read: the style rows of all voices, and what the predictor makes of its
        # sentences
        read = compute_style_moments(stage.checkpoint), predictor.compute_moments()
        for name, moments in zip(TABLED, read, strict=True):
            layer = decoder.get_submodule(name)
            weight = layer.get_buffer("weight").half().numpy()
            form = make_form(weight, how, Fit(Unfolded.from_layer(layer), moments))
            assert form is not None
            forms[f"{name}.weight"] = form
        axes = predictor.axes.numpy()  # [k, D, 1, 1]
        forms[f"{PREDICTOR}.{AXES}"] = quantize_symmetric(axes, 8, axes.shape[1])
        for name in IN_PARTS:
            forms[f"{PREDICTOR}.{name}"] = quantize_in_parts(predictor.get_buffer(name).numpy())
    for path, form in forms.items():
        form.label = path.replace(".", "_")
    return forms


def find_affine_palette(levels: Mapping[str, str]) -> PaletteWeights | None:
    """The palette for groups of rows that a recipe gives all of the generator's affines, which are
    one product with the style here; None where it gives them anything else.
    """
    names = {name for path, name in levels.items() if is_generator_affine(path)}
    weights = SCHEMES[names.pop()].weights if len(names) == 1 else None
    return weights if isinstance(weights, PaletteWeights) and weights.rows else None


def is_in_product(layer: LayerSpec) -> bool:
    """Whether a vocoder's layer stands in one of PRODUCTS, so that it has no choice of its own."""
    return is_generator_affine(layer.name) or layer.name == PACKED_SOURCE


def is_generator_affine(path: str) -> bool:
    """Whether a vocoder's layer is one of the generator's affines."""
    return path.startswith("generator.") and path.endswith(".fc")


def count_saved_by_products(stage: StreamingStage, how: PaletteWeights | None) -> int:
    """The bytes that `make_product_forms` saves against the uncompressed package."""
    decoder = stage.modules[DECODER]
    saved = 0
    for path, form in make_product_forms(stage, how).items():
        layer, _, tensor = path.rpartition(".")
        count = getattr(decoder.get_submodule(layer), tensor).numel()
        saved += (4 if layer in WIDE else 2) * count - form.count_bytes()
    return saved


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
