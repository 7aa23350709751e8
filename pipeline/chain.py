"""The whole chain: the encoder's steps, the vocoder's, and what is done to the waveform.
docs/synthesis.md says the same in words.

    chain = Chain(vocab, voice, encoder, vocoder)
    tensors = run_steps(STEPS, chain, begin("həlˈO.", speed=1.0, seed=0))
    tensors["samples"]                                                       # [600F]

synthesize, validate, vectors, bundle and eval all run this list; which backend computes is the only
difference.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kokoro_ane.core.steps import Step, Tensors
from kokoro_ane.encoder.encoder_steps import STEPS as ENCODER_STEPS
from kokoro_ane.encoder.encoder_steps import EncoderBackend
from kokoro_ane.pipeline.audio import finished
from kokoro_ane.vocoder.vocoder_steps import STEPS as VOCODER_STEPS
from kokoro_ane.vocoder.vocoder_steps import VOCODER, VocoderBackend

JOIN = "join"


@dataclass(frozen=True, eq=False)
class Chain:
    """What the steps work with: vocabulary, one voice [510, 1, 256], and who computes encoder and
    vocoder.
    """

    vocab: Mapping[str, int]
    voice: np.ndarray
    encoder: EncoderBackend
    vocoder: VocoderBackend


def begin(phonemes: str, speed: float, seed: int) -> Tensors:
    """What an utterance starts from, as arrays: phonemes [n] code points, speed [1], seed [1]."""
    return {
        "phonemes": np.array([ord(symbol) for symbol in phonemes], np.int32),
        "speed": np.array([speed], np.float32),
        "seed": np.array([seed], np.int64),
    }


def _finish(_: Chain, inputs: Tensors) -> Tensors:
    samples, gain = finished(inputs["waveform"])
    return {"samples": samples, "gain": np.array([gain], np.float32)}


STEPS = (
    *ENCODER_STEPS,
    *VOCODER_STEPS,
    Step(
        "finish",
        JOIN,
        "fades of 120 samples, turned down where louder than full scale",
        ("waveform",),
        {"samples": 100.0, "gain": 100.0},
        _finish,
    ),
)
# what comes before a vocoder that gives its samples in windows
BEFORE_VOCODER = STEPS[: [step.name for step in STEPS].index(VOCODER)]
