"""Int8 inputs: their ranges, measured on the executed package over the tuning set's sentences.

    ranges = input_ranges(program, layout, layers, calibration_inputs(checkpoint, vocoder, 12), buckets, percentile=99.999)

coremltools' calibration needs macOS and keeps only the last sample's range; its pass (quantize/passes.py) needs no more than the ranges.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.contract import JUDGED, TUNING, bucket_for
from kokoro_ane.core.errors import CheckFailed, InputError
from kokoro_ane.quantize.balance import exceeded
from kokoro_ane.quantize.corpus import require_disjoint
from kokoro_ane.quantize.layer_plan import Layer
from kokoro_ane.quantize.speech import excerpt, own_speech, speakers, text_encoder, vocoder_inputs
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.layouts import Layout
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.render import run_program
from mlprogram import Program

FIRST_SEED = 1000  # calibration noise is never the evaluation's


def calibration_inputs(
    checkpoint: Checkpoint, vocoder: Vocoder, clips: int | None = None, first_seed: int = FIRST_SEED, shift: int = 0
) -> Iterator[VocoderInputs]:
    """Features of the first `clips` sentences of the tuning set (all by default), voices taking turns, each with noise of its own.

    Whole sentences: AdaIN normalizes over all of one, so peaks grow with its length (1.5 times from 4 to 15 seconds on real Kokoro).
    `shift`: in the style of the voice so many places on.
    """
    sentences, voices = own_speech(checkpoint, TUNING), speakers(checkpoint, TUNING)
    require_disjoint(sentences, own_speech(checkpoint, JUDGED))
    if clips is not None and clips > len(sentences):
        raise InputError(f"{clips} tuning sentences asked for, there are {len(sentences)}")
    encoder = text_encoder(checkpoint)
    for number, sentence in enumerate(sentences[:clips]):
        said = replace(sentence, voice=voices[(number + shift) % len(voices)])
        yield vocoder_inputs(checkpoint, vocoder, encoder, said, seed=first_seed + shift * len(sentences) + number)


def input_ranges(
    program: Program, layout: Layout, layers: Iterable[Layer], clips: Iterable[VocoderInputs], buckets: tuple[int, ...], percentile: float
) -> dict[str, float]:
    """Percentile of the magnitudes of each value that one of `layers` reads, seen while the program runs: the largest of the clips.

    Padding does not count.
    """
    beyond, reads = 1 - percentile / 100, {layer.input for layer in layers}
    ranges = dict.fromkeys(reads, 0.0)
    for clip in clips:
        fitting = excerpt(clip, start=0, frames=min(clip.frames, buckets[-1]))
        bucket = bucket_for(fitting.frames, buckets)
        if not layout.holds(fitting.frames, bucket):  # a word alone, which the tiled layout does not take
            continue
        share = fitting.frames / bucket

        def note(name: str, _: str, value: torch.Tensor, share: float = share) -> None:
            if name in ranges:
                ranges[name] = max(ranges[name], exceeded(value.float(), beyond, share))

        run_program(program, layout, fitting, bucket, hook=note)
    silent = [name for name, size in ranges.items() if not 0.0 < size < float("inf")]
    if silent:
        raise CheckFailed(f"calibration: {silent[0]} has range {ranges[silent[0]]:g} ({len(silent)} in all); none can be set")
    return ranges
