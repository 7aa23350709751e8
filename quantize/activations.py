"""Int8 inputs: their ranges, measured on the executed package over the tuning set's sentences.

    clips = calibration_inputs(checkpoint, vocoder, 12)
    ranges = input_ranges(observed(program, layout, buckets), layers, clips, percentile=99.999)

coremltools' calibration needs macOS and keeps only the last sample's range. Its pass
(quantize/passes.py) needs no more than the ranges.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import torch

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.contract import JUDGED, TUNING, UTTERANCE, WINDOW, bucket_for
from kokoro_ane.core.errors import CheckFailed, InputError
from kokoro_ane.quantize.balance import exceeded
from kokoro_ane.quantize.corpus import require_disjoint
from kokoro_ane.quantize.layer_plan import Layer
from kokoro_ane.quantize.speech import own_speech, speakers, text_encoder, vocoder_inputs
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.layouts import PaddedLayout
from kokoro_ane.vocoder.packing import VocoderInputs, excerpt
from kokoro_ane.vocoder.render import run_program
from kokoro_ane.vocoder.streaming.streaming_package import Lengths, StreamingChain
from mlprogram import Program

# takes a value's name, the value, and the share of it that is no padding
Note = Callable[[str, torch.Tensor, float], None]
# runs a clip and notes every value
Observe = Callable[[VocoderInputs, Note], None]
FIRST_SEED = 1000  # calibration noise is never the evaluation's


def calibration_inputs(
    checkpoint: Checkpoint,
    vocoder: Vocoder,
    clips: int | None = None,
    first_seed: int = FIRST_SEED,
    shift: int = 0,
) -> Iterator[VocoderInputs]:
    """Yield the features of the first `clips` sentences of the tuning set, of all by default. The
    voices take turns, and each sentence has its own noise.

    Sentences are whole: AdaIN normalizes over all of one, so peaks grow with its length (1.5 times
    from 4 to 15 seconds on real Kokoro). With `shift` each sentence gets the style of the voice
    that many places further on.
    """
    sentences, voices = own_speech(checkpoint, TUNING), speakers(checkpoint, TUNING)
    require_disjoint(sentences, own_speech(checkpoint, JUDGED))
    if clips is not None and clips > len(sentences):
        raise InputError(f"{clips} tuning sentences asked for, there are {len(sentences)}")
    encoder = text_encoder(checkpoint)
    for number, sentence in enumerate(sentences[:clips]):
        utterance = replace(sentence, voice=voices[(number + shift) % len(voices)])
        yield vocoder_inputs(
            checkpoint,
            vocoder,
            encoder,
            utterance,
            seed=first_seed + shift * len(sentences) + number,
        )


def input_ranges(
    observe: Observe, layers: Iterable[Layer], clips: Iterable[VocoderInputs], percentile: float
) -> dict[str, float]:
    """The range of each value that one of `layers` reads: a percentile of its magnitudes in each
    clip while the program runs, and of all clips the largest.

    Padding does not count.
    """
    beyond, reads = 1 - percentile / 100, {layer.input for layer in layers}
    ranges = dict.fromkeys(reads, 0.0)

    def note(name: str, value: torch.Tensor, share: float) -> None:
        if name in ranges:
            ranges[name] = max(ranges[name], exceeded(value.float(), beyond, share))

    for clip in clips:
        observe(clip, note)
    # a value that is always zero has no scale, and one that overflows has none either
    silent = [name for name, size in ranges.items() if not 0.0 < size < float("inf")]
    if silent:
        raise CheckFailed(
            f"calibration: {silent[0]} has range {ranges[silent[0]]:g} ({len(silent)} in all); none"
            " can be set"
        )
    return ranges


def observed(program: Program, layout: PaddedLayout, buckets: tuple[int, ...]) -> Observe:
    """What runs a clip through a package of one function."""

    def observe(clip: VocoderInputs, note: Note) -> None:
        fitting = excerpt(clip, start=0, frames=min(clip.frames, buckets[-1]))
        bucket = bucket_for(fitting.frames, buckets)
        run_program(
            program,
            layout,
            fitting,
            bucket,
            hook=lambda name, _, value: note(name, value, fitting.frames / bucket),
        )

    return observe


def observed_function(programs: Mapping[str, Program], name: str, lengths: Lengths) -> Observe:
    """What runs a clip through the streaming layout and observes one of its functions: `utterance`
    sees as much of a sentence as it takes, `window` sees the sentences that are longer.
    """
    chain, longest = StreamingChain(programs, lengths), lengths.utterance[-1]

    def observe(clip: VocoderInputs, note: Note) -> None:
        frames = min(clip.frames, longest if name == UTTERANCE else lengths.decoder[-1])
        if name == WINDOW and frames <= longest:
            return
        bucket = bucket_for(frames, lengths.decoder)
        # a window counts whole; an utterance is padded to its bucket
        share = 1.0 if name == WINDOW else frames / bucket
        chain.render(
            excerpt(clip, 0, frames),
            bucket,
            hooks={name: lambda value_name, _, value: note(value_name, value, share)},
        )

    return observe
