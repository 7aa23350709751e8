"""The model that errors are put into, and what a known error is.

    Faults(checkpoint, vocoder, seed=0).with_tail(fault=HALVED)

Errors of the model are injected into a copy of the PyTorch vocoder; the vocoder itself is never changed.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from core.checkpoint import Checkpoint
from eval.broken_tail import NONE, BrokenTail
from vocoder.decoder import Vocoder
from vocoder.packing import VocoderInputs


@dataclass(frozen=True)
class Faults:
    """Responsibilities: 1. the PyTorch vocoder that errors are put into, never changed itself; 2. its seed and spoilt copies."""

    checkpoint: Checkpoint
    vocoder: Vocoder
    seed: int

    def source(self, f0_hz: Tensor, noise: Tensor) -> Tensor:
        """The harmonic spectrum [1, 22, 120F + 1] of other pitch or noise."""
        return self.vocoder.generator.m_source.spectrum(f0_hz, noise)

    def with_tail(self, fault: str = NONE, silent: tuple[int, int] = (0, 0)) -> Vocoder:
        """A copy whose inverse STFT has a fault."""
        copy = deepcopy(self.vocoder)
        copy.generator.stft = BrokenTail(fault, silent)
        return copy.eval()

    @cached_property
    def int4(self) -> Vocoder:
        """A copy with every convolution's weight rounded to int4, one scale per output channel."""
        copy = deepcopy(self.vocoder)
        for module in copy.modules():
            if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
                module.weight.data = rounded(module.weight.data, bits=4, axis=int(isinstance(module, nn.ConvTranspose2d)))
        return copy.eval()


@dataclass(frozen=True)
class Control:
    """One known error: how it renders, where it was seen, and the metric that is expected to catch it."""

    name: str
    metric: str
    render: Callable[[Faults, VocoderInputs], np.ndarray]
    seen: str


class Rendered(Protocol):
    """A control or a harmless change."""

    @property
    def name(self) -> str:
        """For tables."""

    @property
    def render(self) -> Callable[[Faults, VocoderInputs], np.ndarray]:
        """[600 F] float32 of a clip's inputs."""


@dataclass(frozen=True)
class KnownBad:
    """A control as something to judge."""

    faults: Faults
    control: Rendered

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        """[600 F] float32 with the error in it."""
        return self.control.render(self.faults, inputs)


def rounded(weight: Tensor, bits: int, axis: int) -> Tensor:
    """Weights rounded to symmetric integers of `bits`, one scale per index of `axis`, and back."""
    most = 2 ** (bits - 1) - 1
    others = [i for i in range(weight.dim()) if i != axis]
    scale = weight.abs().amax(dim=others, keepdim=True).clamp(min=1e-12) / most
    return torch.round(weight / scale).clamp(-most, most) * scale
