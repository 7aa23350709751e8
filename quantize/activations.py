"""Int8 inputs: ranges measured on the executed package over the tuning set's sentences, handed to coremltools' own pass.

    ranges = input_ranges(program, form, layers, calibration_inputs(checkpoint, vocoder, 12), buckets, percentile=99.999)
    passes = input_pass(plan, ranges)

coremltools' calibration needs macOS and keeps only the last sample's range; its pass needs no more than the ranges.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from core.checkpoint import Checkpoint
from core.contract import JUDGED, TUNING, bucket_for
from core.corpus import require_disjoint
from core.errors import CheckFailed, InputError
from mlprogram import Program
from quantize.features import excerpt, text_encoder, vocoder_inputs
from quantize.following import exceeded
from quantize.layers import Layer
from quantize.speech import own_speech
from vocoder.decoder import Vocoder
from vocoder.form import Form
from vocoder.package import run_program
from vocoder.packing import VocoderInputs

if TYPE_CHECKING:
    from quantize.plan import LayerPlan

FIRST_SEED = 1000  # calibration noise is never the evaluation's


def calibration_inputs(checkpoint: Checkpoint, vocoder: Vocoder, clips: int, first_seed: int = FIRST_SEED) -> Iterator[VocoderInputs]:
    """Features of the first `clips` sentences of the tuning set, voices taking turns, each with noise of its own.

    Whole sentences: AdaIN normalizes over all of one, so peaks grow with its length (1.5 times from 4 to 15 seconds on real Kokoro).
    """
    sentences = own_speech(checkpoint, TUNING)
    require_disjoint(sentences, own_speech(checkpoint, JUDGED))
    if clips > len(sentences):
        raise InputError(f"{clips} tuning sentences asked for, there are {len(sentences)}")
    encoder = text_encoder(checkpoint)
    for number, sentence in enumerate(sentences[:clips]):
        yield vocoder_inputs(checkpoint, vocoder, encoder, sentence, seed=first_seed + number)


def input_ranges(
    program: Program, form: Form, layers: Iterable[Layer], clips: Iterable[VocoderInputs], buckets: tuple[int, ...], percentile: float
) -> dict[str, float]:
    """Percentile of the magnitudes of each value that one of `layers` reads, seen while the program runs: the largest of the clips.

    Padding does not count.
    """
    beyond, reads = 1 - percentile / 100, {layer.input for layer in layers}
    ranges = dict.fromkeys(reads, 0.0)
    for clip in clips:
        fitting = excerpt(clip, start=0, frames=min(clip.frames, buckets[-1]))
        bucket = bucket_for(fitting.frames, buckets)
        if not form.holds(fitting.frames, bucket):  # a word alone, which the windowed form does not take
            continue
        share = fitting.frames / bucket

        def note(name: str, _: str, value: torch.Tensor, share: float = share) -> None:
            if name in ranges:
                ranges[name] = max(ranges[name], exceeded(value.float(), beyond, share))

        run_program(program, form, fitting, bucket, hook=note)
    silent = [name for name, size in ranges.items() if not 0.0 < size < float("inf")]
    if silent:
        raise CheckFailed(f"calibration: {silent[0]} has range {ranges[silent[0]]:g} ({len(silent)} in all); none can be set")
    return ranges


def input_pass(plan: "tuple[LayerPlan, ...]", ranges: Mapping[str, float]) -> list[Any]:
    """The pass that puts quantize and dequantize before each planned convolution; none when no input is int8."""
    chosen = {entry.layer.op_name for entry in plan if entry.int8_input}
    if not chosen:
        return []
    from coremltools.optimize.coreml import OpLinearQuantizerConfig, OptimizationConfig
    from coremltools.optimize.coreml._quantization_passes import insert_prefix_quantize_dequantize_pair

    class InputPass(insert_prefix_quantize_dequantize_pair):
        """Transposed convolutions too: the pass is the same for them, coremltools' list only leaves them out."""

        SUPPORTED_OP_TYPES = [*insert_prefix_quantize_dequantize_pair.SUPPORTED_OP_TYPES, "conv_transpose"]

    symmetric = OpLinearQuantizerConfig(mode="linear_symmetric", dtype="int8")
    prefix = InputPass(OptimizationConfig(global_config=None, op_name_configs=dict.fromkeys(chosen, symmetric)))
    prefix.activation_stats = {name: {"rmin": -size, "rmax": size} for name, size in ranges.items()}
    return [prefix]
