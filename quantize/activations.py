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
LONGEST_FRAMES = 160  # four seconds of a sentence


def calibration_inputs(checkpoint: Checkpoint, vocoder: Vocoder, clips: int) -> Iterator[VocoderInputs]:
    """Features of the beginnings of the first `clips` sentences of the tuning set, voices taking turns, each with noise of its own."""
    sentences = own_speech(checkpoint, TUNING)
    require_disjoint(sentences, own_speech(checkpoint, JUDGED))
    if clips > len(sentences):
        raise InputError(f"{clips} tuning sentences asked for, there are {len(sentences)}")
    encoder = text_encoder(checkpoint)
    for number, sentence in enumerate(sentences[:clips]):
        whole = vocoder_inputs(checkpoint, vocoder, encoder, sentence, seed=FIRST_SEED + number)
        yield excerpt(whole, start=0, frames=min(whole.frames, LONGEST_FRAMES))


def input_ranges(
    program: Program, form: Form, layers: Iterable[Layer], clips: Iterable[VocoderInputs], buckets: tuple[int, ...], percentile: float
) -> dict[str, float]:
    """Percentile of the magnitudes of each value that one of `layers` reads, seen while the program runs: mean over the clips.

    At 100 the largest peak of all clips. Padding does not count.
    """
    beyond, reads = 1 - percentile / 100, {layer.input for layer in layers}
    found: dict[str, list[float]] = {name: [] for name in reads}
    for clip in clips:
        fitting = excerpt(clip, start=0, frames=min(clip.frames, buckets[-1]))
        bucket = bucket_for(fitting.frames, buckets)
        if not form.holds(fitting.frames, bucket):  # a word alone, which the windowed form does not take
            continue
        share = fitting.frames / bucket

        def note(name: str, _: str, value: torch.Tensor, share: float = share) -> None:
            if name in reads:
                found[name].append(exceeded(value.float(), beyond, share))

        run_program(program, form, fitting, bucket, hook=note)
    ranges = {name: max(sizes) if beyond == 0 else sum(sizes) / len(sizes) for name, sizes in found.items() if sizes}
    silent = [name for name in reads if not 0.0 < ranges.get(name, 0.0) < float("inf")]
    if silent:
        raise CheckFailed(f"calibration: {silent[0]} has range {ranges.get(silent[0], 0.0):g} ({len(silent)} in all); none can be set")
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
