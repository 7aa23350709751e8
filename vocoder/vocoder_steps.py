"""Features to a waveform, step by step: noise, excitation, harmonic spectrum, packing, the vocoder
itself.

    inputs = {"asr": ..., "f0_hz": ..., "energy": ..., "style_decoder": ..., "seed": ...}
    tensors = run_steps(STEPS, context, inputs)
    tensors["waveform"]  # [600F]
"""

from typing import Protocol

import numpy as np

from kokoro_ane.core import (
    EQUAL,
    FRAME_SAMPLES,
    PROSODY_PER_FRAME,
    InputError,
    Step,
    Tensors,
    computed,
    require_shape,
)
from kokoro_ane.vocoder.packing import FIELDS, Array, VocoderInputs, as_array, require_finite
from kokoro_ane.vocoder.source import HarmonicSource, compute_stft, draw_noise

SOURCE, VOCODER = "source", "vocoder"  # stages, for the time spent
VOCODER_INPUTS = ("features", "style", "statistics")
BROKEN = "written as 16 bit it would be silence; the weights or the package are broken"
# 50 ms at full scale without a change: a clipped peak of a voice lasts a few samples
PINNED_SAMPLES = 2 * FRAME_SAMPLES
FULL_SCALE = 0.999


class VocoderBackend(Protocol):
    """Computes the waveform: PyTorch, a package, or a file of another runtime."""

    @property
    def arrays(self) -> bool:
        """Whether it takes and returns NumPy arrays; else tensors."""

    @property
    def source(self) -> HarmonicSource:
        """The harmonic source with the voice's ten weights, which runs on the host."""

    @property
    def buckets(self) -> tuple[int, ...] | None:
        """Enumerated lengths in frames, rising; None where any length is taken."""

    def pack(self, inputs: VocoderInputs) -> Array:
        """`features` of the one flexible input. Raises InputError where no bucket holds the
        utterance.
        """

    @property
    def predictor(self) -> str:
        """The hash of the predictor of statistics to which a voice adds its own; "" where the
        layout measures them.
        """

    def run(self, features: Array, style: Array, statistics: Array, frames: int) -> Array:
        """style [1, style_dim, 1, 1], statistics [1, 2R, 1, 1], without rows where the layout
        measures them -> waveform [600F].
        """


class VocoderContext(Protocol):
    """What the steps read beside tensors."""

    @property
    def vocoder(self) -> VocoderBackend:
        """Computes the waveform."""

    def statistics_for(self, phonemes: int) -> np.ndarray:
        """What the voice adds to predicted statistics [2R] float32; [0] where none are."""


def require_sound(waveform: Array) -> None:
    """Raise InputError for NaN, infinity, or PINNED_SAMPLES equal samples at full scale or beyond
    (sherpa-onnx issue 3754: a session returned +1.0 throughout), in a waveform or a piece of it.
    """
    require_finite("waveform", waveform, BROKEN)
    samples = as_array(waveform)
    # [n - 1], true where two neighbours are equal at full scale
    still = (np.diff(samples) == 0) & (np.abs(samples[1:]) >= FULL_SCALE)
    # where a run begins and ends: a 0 on either side closes the first and the last one
    edges = np.flatnonzero(np.diff(np.concatenate([[0], still, [0]])))
    # Edges take turns: a run begins at an even one and ends at the next.
    longest = 1 + max(edges[1::2] - edges[::2], default=0)
    if longest >= PINNED_SAMPLES:
        raise InputError(
            f"waveform holds {longest} equal samples at full scale: the weights, the package or"
            " its runtime are broken"
        )


def _draw_noise(_: VocoderContext, tensors: Tensors) -> Tensors:
    # [1, 600F, 9]
    return {
        "noise": draw_noise(tensors["f0_hz"].shape[1] // PROSODY_PER_FRAME, int(tensors["seed"][0]))
    }


def _compute_excitation(context: VocoderContext, tensors: Tensors) -> Tensors:
    # [1, 600F]
    return {
        "excitation": context.vocoder.source.compute_excitation(tensors["f0_hz"], tensors["noise"])
    }


def _compute_spectrum(_: VocoderContext, tensors: Tensors) -> Tensors:
    # [1, 22, 120F + 1]
    return {"spectrum": compute_stft(tensors["excitation"]).astype(tensors["f0_hz"].dtype)}


def _pack(context: VocoderContext, tensors: Tensors) -> Tensors:
    phonemes = len(tensors["durations"]) - 2  # without the boundary tokens
    # Among the tensors there are two styles; the vocoder's is style_decoder.
    five = (tensors["style_decoder" if name == "style" else name] for name in FIELDS)
    (features,) = computed(
        lambda *inputs: (context.vocoder.pack(VocoderInputs(*inputs)),),
        *five,
        arrays=context.vocoder.arrays,
    )
    return {
        "features": features,
        "style": tensors["style_decoder"][:, :, None, None],
        "statistics": context.statistics_for(phonemes)[None, :, None, None],
    }


def _run_vocoder(context: VocoderContext, tensors: Tensors) -> Tensors:
    frames = tensors["asr"].shape[-1]

    def render(features: Array, style: Array, statistics: Array) -> tuple[Array]:
        return (context.vocoder.run(features, style, statistics, frames),)

    inputs = [tensors[name] for name in VOCODER_INPUTS]
    # NaN in an input is told from NaN that the vocoder made of it.
    for name, value in zip(VOCODER_INPUTS, inputs, strict=True):
        require_finite(name, value)
    (waveform,) = computed(render, *inputs, arrays=context.vocoder.arrays)
    require_sound(waveform)
    require_shape("waveform", waveform, (FRAME_SAMPLES * frames,), f"{frames} frames")
    return {"waveform": waveform}


STEPS = (
    Step(
        "noise",
        SOURCE,
        "standard normal from the seed; any other will do",
        ("f0_hz", "seed"),
        {"noise": 120.0},
        _draw_noise,
    ),
    Step(
        "excitation",
        SOURCE,
        "nine sines and noise, merged, in float64",
        ("f0_hz", "noise"),
        {"excitation": 100.0},
        _compute_excitation,
    ),
    Step(
        "spectrum",
        SOURCE,
        "20-point STFT, hop 5: 11 magnitudes, 11 phases",
        ("excitation", "f0_hz"),
        {"spectrum": 80.0},
        _compute_spectrum,
    ),
    Step(
        "pack",
        VOCODER,
        "rows of the one flexible input, as the package's manifest describes them",
        ("asr", "f0_hz", "energy", "style_decoder", "spectrum", "durations"),
        {"features": EQUAL, "style": EQUAL, "statistics": EQUAL},
        _pack,
    ),
    Step(
        "vocoder",
        VOCODER,
        "package KokoroVocoder; cut to 600F",
        (*VOCODER_INPUTS, "asr"),
        {"waveform": 40.0},
        _run_vocoder,
    ),
)
