"""The whole chain: the encoder's steps, the vocoder's, and what is done to the waveform. docs/conductor.md says the same in words.

    tensors = run(STEPS, Chain(vocab, voice, encoder, vocoder), begin("həlˈO.", speed=1.0, seed=0))
    tensors["samples"]                                                       # [600F]

synthesize, validate, vectors, bundle and eval all run this list; which backend computes is the only difference.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from core.figures import snr_db
from core.steps import Step, Tensors
from encoder.functions import Buckets
from encoder.steps import STEPS as ENCODER_STEPS
from encoder.steps import EncoderBackend
from pipeline.join import finished
from pipeline.seams import rectangular
from vocoder.steps import STEPS as VOCODER_STEPS
from vocoder.steps import VocoderBackend

JOIN = "join"


@dataclass(frozen=True, eq=False)
class Chain:
    """What the steps work with: vocabulary, one voice [510, 1, 256], and who computes encoder and vocoder."""

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


def _finish(_: Chain, given: Tensors) -> Tensors:
    samples, gain = finished(given["waveform"])
    return {"samples": samples, "gain": np.array([gain], np.float32)}


STEPS = (
    *ENCODER_STEPS,
    *VOCODER_STEPS,
    Step("finish", JOIN, "fades of 120 samples, turned down where louder than full scale", ("waveform",),
         {"samples": 100.0, "gain": 100.0}, _finish),
)  # fmt: skip


def replay(chain: Chain, stored: Tensors, step: Step) -> dict[str, float]:
    """Run one step on stored tensors: SNR in dB of each tensor it writes against the stored one, -inf for another shape."""
    found = step.run(chain, {name: stored[name] for name in step.reads})
    return {name: nearness(name, stored[name], found[name]) for name in step.writes}


def nearness(name: str, wanted: np.ndarray, got: np.ndarray) -> float:
    """SNR in dB; a spectrum is compared by real and imaginary parts, because the phase of silence means nothing."""
    if wanted.shape != got.shape:
        return float("-inf")
    return snr_db(*(rectangular(array) for array in (wanted, got))) if name == "spectrum" else snr_db(wanted, got)


def lengths(buckets: Buckets) -> dict[str, list[int]]:
    """Both enumerations, for index.json."""
    return {"tokens": list(buckets.tokens), "frames": list(buckets.frames)}
