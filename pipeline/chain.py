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

from kokoro_ane.core.checks import snr_db
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


def _finish(_: Chain, given: Tensors) -> Tensors:
    samples, gain = finished(given["waveform"])
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
# what a vocoder that gives its samples in windows is told
BEFORE_VOCODER = STEPS[: [step.name for step in STEPS].index(VOCODER)]


def replay(chain: Chain, stored: Tensors, step: Step) -> dict[str, float]:
    """Run one step on stored tensors: SNR in dB of each tensor it writes against the stored one,
    -inf for another shape.
    """
    found = step.run(chain, {name: stored[name] for name in step.reads})
    return {name: nearness(name, stored[name], found[name]) for name in step.writes}


def nearness(name: str, wanted: np.ndarray, got: np.ndarray) -> float:
    """SNR in dB of what a tensor is compared by."""
    if wanted.shape != got.shape:
        return float("-inf")
    return (
        snr_db(*(comparable(array) for array in (wanted, got)))
        if name == "spectrum"
        else snr_db(wanted, got)
    )


def comparable(spectrum: np.ndarray) -> np.ndarray:
    """Magnitudes and phases [1, 22, S] to real parts, imaginary parts, and magnitude times phase,
    [1, 33, S].

    The last tells +pi from -pi, which are two numbers to the vocoder; weighed so, the phase of
    silence may be anything.
    """
    magnitude, phase = np.split(np.asarray(spectrum, np.float64), 2, axis=1)
    return np.concatenate([rectangular(spectrum), magnitude * phase], axis=1)


def rectangular(spectrum: np.ndarray) -> np.ndarray:
    """Real and imaginary parts alone, where a phase of +pi is one of -pi: against upstream, whose
    sign of it hangs on the last bit.
    """
    magnitude, phase = np.split(np.asarray(spectrum, np.float64), 2, axis=1)
    return np.concatenate([magnitude * np.cos(phase), magnitude * np.sin(phase)], axis=1)
