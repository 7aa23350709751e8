"""What a known error is, the model that errors are put into, and what the gates say of it.

    Spoilt(Faults(checkpoint, vocoder, seed=0), of_tail(HALVED)).render(inputs)

Errors of the model are injected into a copy of the PyTorch vocoder; the vocoder itself is never
changed.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.contract import HOP_SAMPLES, N_FFT, SAMPLE_RATE_HZ
from kokoro_ane.core.layers import Mask
from kokoro_ane.eval.gates import MEAN, gates_for
from kokoro_ane.eval.judge import ClipResult, decided, judge_clip
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.verdict import statistic
from kokoro_ane.quantize.corpus import Utterance
from kokoro_ane.vocoder.decoder import BINS, InverseStft, Vocoder
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.render import render_reference
from kokoro_ane.vocoder.source import gaussian_noise

UNNORMALIZED, HALVED, LATE, NONE = "unnormalized", "halved", "late", "none"
JUDGED_AS = "w8"  # the common gates, without what fp16 is held to
DROPOUT_SAMPLES = SAMPLE_RATE_HZ // 100  # 10 ms


class BrokenTail(InverseStft):
    """[B, 22, 1, S] -> [B, 1, 1, 5 (S - 1)] as the true tail, but for `fault`, and with the columns
    of `silent` at magnitude 0.
    """

    def __init__(self, fault: str = NONE, silent: tuple[int, int] = (0, 0)) -> None:
        super().__init__()
        self.fault, self.silent = fault, silent

    def forward(self, x: Tensor, mask: Mask | None) -> Tensor:
        """x [B, 22, 1, S] at exact length (the mask is not read) -> [B, 1, 1, 5 (S - 1)] with the
        fault in it.
        """
        magnitude = torch.exp(x[:, :BINS])  # [B, 11, 1, S]
        magnitude[..., self.silent[0] : self.silent[1]] = 0.0
        if self.fault == HALVED:
            magnitude[:, 1:-1] *= 0.5
        phase = torch.sin(x[:, BINS:])
        # [B, 22, 1, S]
        spectrum = torch.cat([magnitude * torch.cos(phase), magnitude * torch.sin(phase)], dim=1)
        early = 1 if self.fault == LATE else 0
        # [B, 1, 1, 5 (S - 1) + 20]
        signal = F.conv_transpose2d(spectrum, self.kernel, stride=(1, HOP_SAMPLES))
        envelope = F.conv_transpose2d(
            torch.ones_like(x[:, :1]), self.window_power, stride=(1, HOP_SAMPLES)
        )
        if self.fault == UNNORMALIZED:
            envelope = torch.ones_like(envelope)
        inside = slice(N_FFT // 2 - early, signal.shape[3] - N_FFT // 2 - early)
        return (signal / envelope.clamp(min=1.0))[..., inside]


def dropout_columns(signal: np.ndarray) -> tuple[int, int]:
    """First and one-past-last spectrum column of the loudest 10 ms."""
    power = np.convolve(
        np.square(signal.astype(np.float64)), np.ones(DROPOUT_SAMPLES), mode="valid"
    )
    start = int(np.argmax(power)) // HOP_SAMPLES
    return start, start + DROPOUT_SAMPLES // HOP_SAMPLES


@dataclass(frozen=True)
class Faults:
    """Responsibilities: 1. the PyTorch vocoder that errors are put into, never changed itself; 2.
    its seed and spoilt copies.
    """

    checkpoint: Checkpoint
    vocoder: Vocoder
    seed: int

    def source(self, f0_hz: Tensor, noise: np.ndarray) -> Tensor:
        """The harmonic spectrum [1, 22, 120F + 1] of other pitch or noise."""
        return self.vocoder.generator.m_source.spectrum(f0_hz, noise)

    def noise(self, inputs: VocoderInputs) -> np.ndarray:
        """The source's noise of a clip, by this seed."""
        return gaussian_noise(inputs.frames, self.seed)

    def rendered(self, inputs: VocoderInputs, **changed: Tensor) -> np.ndarray:
        """[600 F] float32 by the vocoder, with some of its inputs changed."""
        return render_reference(self.vocoder, replace(inputs, **changed))

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
                module.weight.data = rounded(
                    module.weight.data, bits=4, axis=int(isinstance(module, nn.ConvTranspose2d))
                )
        return copy.eval()


Render = Callable[[Faults, VocoderInputs], np.ndarray]  # [600 F] float32 of a clip's inputs


@dataclass(frozen=True)
class Control:
    """One known error: the metric that is expected to catch it, how it renders, where it was
    seen.
    """

    name: str
    metric: str
    render: Render
    seen: str


@dataclass(frozen=True)
class Harmless:
    """One change that nobody hears: how it renders, why it does no harm, and the metric that may
    name it, where the graph is wrong.
    """

    name: str
    render: Render
    why: str
    named_by: str | None = None


@dataclass(frozen=True)
class Spoilt:
    """A control or a harmless change as something to judge."""

    faults: Faults
    change: Render

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        """[600 F] float32 with the change in it."""
        return self.change(self.faults, inputs)


@dataclass(frozen=True)
class Caught:
    """What became of one control."""

    name: str
    broken: tuple[str, ...]
    pesq: float
    mcd_db: float

    @property
    def rejected(self) -> bool:
        """At least one gate is broken."""
        return bool(self.broken)


class ControlTrials:
    """Responsibilities: 1. the fp32 renders' own spread, measured once; 2. each control against the
    gates. `only`: these metrics.
    """

    def __init__(
        self, reference: Reference, clips: Sequence[Utterance], only: Sequence[str] = ()
    ) -> None:
        self._reference, self._clips, self._only = reference, clips, only
        self._faults = Faults(reference.checkpoint, reference.vocoder, reference.seed)
        self._renders = {clip.id: reference.of(clip) for clip in clips}
        self._seed_variation = {
            clip.id: self._renders[clip.id].seed_variation(only) for clip in clips
        }

    def caught(self, control: Control | Harmless) -> Caught:
        """Judge one control. Of a harmless change the gates that may name it do not count."""
        changed = Spoilt(self._faults, control.render)
        results = [self._result(changed, clip) for clip in self._clips]
        silent = tuple(f"{result.id} {result.defect}" for result in results if result.defect)
        held = [
            gate
            for gate in gates_for(JUDGED_AS)
            if gate.metric != getattr(control, "named_by", None)
        ]
        made = decided(JUDGED_AS, results, gates=held)
        found = (statistic(name, MEAN, made.figures) for name in ("pesq", "mcd_db"))
        return Caught(
            control.name,
            silent + made.decision.broken,
            *(float("nan") if value is None else value for value in found),
        )

    def _result(self, changed: Spoilt, clip: Utterance) -> ClipResult:
        return judge_clip(
            self._reference,
            changed,
            clip,
            self._seed_variation[clip.id],
            self._renders[clip.id],
            self._only,
        )


def of_waveform(change: Callable[[np.ndarray], np.ndarray]) -> Render:
    """A change of the rendered samples (eval/waveform_faults.py)."""
    return lambda faults, inputs: change(faults.rendered(inputs))


def of_tail(fault: str) -> Render:
    """A fault of the inverse STFT."""
    return lambda faults, inputs: render_reference(faults.with_tail(fault), inputs)


def rounded(weight: Tensor, bits: int, axis: int) -> Tensor:
    """Weights rounded to symmetric integers of `bits`, one scale per index of `axis`, and back."""
    most = 2 ** (bits - 1) - 1
    others = [i for i in range(weight.dim()) if i != axis]
    scale = weight.abs().amax(dim=others, keepdim=True).clamp(min=1e-12) / most
    return torch.round(weight / scale).clamp(-most, most) * scale
