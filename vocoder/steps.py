"""Features to a waveform, step by step: noise, excitation, harmonic spectrum, packing, the vocoder itself.

    tensors = run(STEPS, context, {"asr": ..., "f0_hz": ..., "energy": ..., "style_decoder": ..., "seed": ...})
    tensors["waveform"]          # [600F]
"""

from typing import Protocol

import torch
from torch import Tensor

from core.contract import PROSODY_PER_FRAME
from core.steps import EQUAL, Step, Tensors, as_torch
from vocoder.packing import VocoderInputs
from vocoder.source import HarmonicSource, gaussian_noise, spectrum_of

SOURCE, VOCODER = "source", "vocoder"  # stages, for the time spent


class VocoderBackend(Protocol):
    """Who computes the waveform."""

    @property
    def source(self) -> HarmonicSource:
        """The voice's ten weights: the harmonic source runs on the host."""

    @property
    def buckets(self) -> tuple[int, ...] | None:
        """Enumerated lengths in frames, rising; None at exact length."""

    def pack(self, inputs: VocoderInputs) -> Tensor:
        """`features` of the one flexible input. Raises InputError where no bucket holds the utterance."""

    def run(self, features: Tensor, style: Tensor, frames: int) -> Tensor:
        """style [1, style_dim, 1, 1] -> waveform [600F]."""


class Context(Protocol):
    """What these steps work with."""

    @property
    def vocoder(self) -> VocoderBackend:
        """Who computes."""


def _noise(_: Context, given: Tensors) -> Tensors:
    return {"noise": gaussian_noise(given["f0_hz"].shape[1] // PROSODY_PER_FRAME, int(given["seed"][0])).numpy()}  # [1, 600F, 9]


@torch.no_grad()
def _excitation(context: Context, given: Tensors) -> Tensors:
    return {"excitation": context.vocoder.source.excitation(*as_torch(given, "f0_hz", "noise")).numpy()}  # [1, 600F]


def _spectrum(_: Context, given: Tensors) -> Tensors:
    spectrum = spectrum_of(torch.from_numpy(given["excitation"]))  # [1, 22, 120F + 1] in float64
    return {"spectrum": spectrum.numpy().astype(given["f0_hz"].dtype)}


def _pack(context: Context, given: Tensors) -> Tensors:
    inputs = VocoderInputs(*as_torch(given, "asr", "f0_hz", "energy", "style_decoder", "spectrum"))
    return {"features": context.vocoder.pack(inputs).numpy(), "style": given["style_decoder"][:, :, None, None]}


@torch.no_grad()
def _vocoder(context: Context, given: Tensors) -> Tensors:
    features, style = as_torch(given, "features", "style")
    return {"waveform": context.vocoder.run(features, style, given["asr"].shape[-1]).numpy()}


STEPS = (
    Step("noise", SOURCE, "standard normal from the seed; any other will do", ("f0_hz", "seed"), {"noise": EQUAL}, _noise),
    Step("excitation", SOURCE, "nine sines and noise, merged, in float64", ("f0_hz", "noise"), {"excitation": 100.0}, _excitation),
    Step("spectrum", SOURCE, "20-point STFT, hop 5: 11 magnitudes, 11 phases", ("excitation", "f0_hz"), {"spectrum": 80.0}, _spectrum),
    Step("pack", VOCODER, "rows of the one flexible input, as the package's manifest describes them",
         ("asr", "f0_hz", "energy", "style_decoder", "spectrum"), {"features": EQUAL, "style": EQUAL}, _pack),
    Step("vocoder", VOCODER, "package KokoroVocoder; cut to 600F", ("features", "style", "asr"), {"waveform": 40.0}, _vocoder),
)  # fmt: skip
