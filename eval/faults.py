"""Known errors of a vocoder, and the model that they are put into.

    block_dropped(Faults.of(reference), inputs)   # [600 F] float32
    of_tail(HALVED)(faults, inputs), of_waveform(hum)(faults, inputs)

Errors of the model are injected into a copy of the PyTorch vocoder (its features, source, mask,
weights or inverse STFT), the others are done to the waveform. The vocoder itself is never changed.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.contract import (
    DEFAULT_BUCKETS,
    FRAME_SAMPLES,
    HARMONICS,
    HOP_SAMPLES,
    N_FFT,
    PROSODY_PER_FRAME,
    SAMPLE_RATE_HZ,
    bucket_for,
)
from kokoro_ane.core.layers import Mask
from kokoro_ane.core.voices import style_row
from kokoro_ane.eval import waveform_faults as wave
from kokoro_ane.eval.reference import Reference
from kokoro_ane.vocoder.decoder import BINS, InverseStft, Vocoder
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.render import render_reference
from kokoro_ane.vocoder.source import (
    SINE_AMPLITUDE,
    STEP_SAMPLES,
    VOICED_ABOVE_HZ,
    VOICED_NOISE,
    gaussian_noise,
    spectrum_of,
)

UNNORMALIZED, HALVED, LATE, NONE = "unnormalized", "halved", "late", "none"
DROPOUT_SAMPLES = SAMPLE_RATE_HZ // 100  # 10 ms
WRONG_FRAMES = 3  # 75 ms
OTHER_STYLE = 0.15
DC_BIN, NYQUIST_BIN = 0, N_FFT // 2
PULSE_STEP_SAMPLES = 240  # 10 ms between the pulses of a generator that is stuck
STYLE_ROW = 60  # phonemes: the row of another voice that takes the place of the right one


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


class Dropped(nn.Module):
    """A block that is not there: in its place a function passes on what came in."""

    def __init__(self, passed_on: Callable[..., object]) -> None:
        super().__init__()
        self.passed_on = passed_on

    def forward(self, *inputs: Tensor) -> object:
        """Return what the block's neighbours take for its output."""
        return self.passed_on(*inputs)


@dataclass(frozen=True)
class Faults:
    """Responsibilities: 1. the PyTorch vocoder that errors are put into, never changed itself; 2.
    its seed and spoilt copies.
    """

    checkpoint: Checkpoint
    vocoder: Vocoder
    seed: int

    @classmethod
    def of(cls, reference: Reference) -> "Faults":
        """Put errors into the fp32 model."""
        return cls(reference.checkpoint, reference.vocoder, reference.seed)

    def source(self, f0_hz: Tensor, noise: np.ndarray) -> Tensor:
        """Return the harmonic spectrum [1, 22, 120F + 1] of other pitch or noise."""
        return self.vocoder.generator.m_source.spectrum(f0_hz, noise)

    def noise(self, inputs: VocoderInputs) -> np.ndarray:
        """Draw the source's noise of a clip by this seed."""
        return gaussian_noise(inputs.frames, self.seed)

    def rendered(self, inputs: VocoderInputs, **changed: Tensor) -> np.ndarray:
        """Render [600 F] float32 with some of the inputs changed."""
        return render_reference(self.vocoder, replace(inputs, **changed))

    def styles(self, inputs: VocoderInputs) -> list[Tensor]:
        """The decoder's half of one row of every voice [1, 128], the nearest to the clip's
        first.
        """
        packs = [self.checkpoint.voice(voice) for voice in self.checkpoint.voices]
        rows = [style_row(pack, min(len(pack), STYLE_ROW)) for pack in packs]
        halves = [row[:, : inputs.style.shape[1]] for row in rows]
        return sorted(halves, key=lambda style: float((style - inputs.style).norm()))

    def with_tail(self, fault: str = NONE, silent: tuple[int, int] = (0, 0)) -> Vocoder:
        """Return a copy whose inverse STFT has a fault."""
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


def of_waveform(change: Callable[[np.ndarray], np.ndarray]) -> Render:
    """Render, then change the samples (eval/waveform_faults.py)."""
    return lambda faults, inputs: change(faults.rendered(inputs))


def of_tail(fault: str) -> Render:
    """Render with a fault of the inverse STFT."""
    return lambda faults, inputs: render_reference(faults.with_tail(fault), inputs)


def rounded(weight: Tensor, bits: int, axis: int) -> Tensor:
    """Weights rounded to symmetric integers of `bits`, one scale per index of `axis`, and back."""
    most = 2 ** (bits - 1) - 1
    others = [i for i in range(weight.dim()) if i != axis]
    scale = weight.abs().amax(dim=others, keepdim=True).clamp(min=1e-12) / most
    return torch.round(weight / scale).clamp(-most, most) * scale


def wrong_phone(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """Three frames about the loudest voiced one take the text features of another phone: of all
    frames', those at the median distance.
    """
    # Another phone of the same clip: the median, as neither the same nor the farthest is typical.
    at = max(1, min(loudest_frame(inputs), inputs.frames - 2))
    distance = (inputs.asr - inputs.asr[..., at : at + 1]).norm(dim=1)[0]  # [F]
    others = int((distance > 0).sum())  # 0 in a held vowel: one phone, and nothing to take
    other = int(distance.argsort()[len(distance) - others + others // 2]) if others else at
    asr = inputs.asr.clone()
    asr[..., at - 1 : at - 1 + WRONG_FRAMES] = inputs.asr[..., other : other + 1]
    return faults.rendered(inputs, asr=asr)


def loudest_frame(inputs: VocoderInputs) -> int:
    """The frame of the loudest voiced prosody value; of the loudest at all where nothing is
    voiced.
    """
    voiced = inputs.f0_hz[0] > VOICED_ABOVE_HZ
    energy = inputs.energy[0]
    if bool(voiced.any()):
        energy = energy.masked_fill(~voiced, -1e9)
    return int(energy.argmax()) // PROSODY_PER_FRAME


def noise_again(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """Noise drawn harmonic by harmonic, each time from seed 0: nine equal noises, 6 dB more of them
    on real Kokoro.
    """
    noise = gaussian_noise(inputs.frames, 0)[..., :1].repeat(HARMONICS, axis=2)  # [1, 600 F, 9]
    return of_noise(faults, inputs, noise)


def half_phase(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The running sum of the phase kept in fp16: from the 2048th cycle on it moves in whole ones,
    from the 64th in sixteenths.
    """
    # Above 2048 the spacing of fp16 is 2: a step below one cycle is lost.
    steps = (inputs.f0_hz[0].double() * STEP_SAMPLES / SAMPLE_RATE_HZ).numpy().astype(np.float16)
    cycles, total = np.zeros(len(steps)), np.float16(0)
    for i, step in enumerate(steps):
        total = np.float16(total + step)
        cycles[i] = float(total)
    return faults.rendered(
        inputs, spectrum=source_of(faults, inputs, torch.from_numpy(cycles)[None])
    )


def source_of(faults: Faults, inputs: VocoderInputs, cycles: Tensor) -> Tensor:
    """The harmonic spectrum [1, 22, 120F + 1] of phases given in cycles [1, 2F] at the F0 rate,
    otherwise as `HarmonicSource`.
    """
    # [1, 1, 600F]
    phase = F.interpolate(cycles[:, None], scale_factor=float(STEP_SAMPLES), mode="linear")
    # [1, 600F, 9]
    sines = np.sin(2 * np.pi * phase.transpose(1, 2).numpy() * np.arange(1, HARMONICS + 1))
    # [1, 600F, 1]
    voiced = (
        np.repeat(inputs.f0_hz.numpy() > VOICED_ABOVE_HZ, STEP_SAMPLES, axis=1)[..., None] * 1.0
    )
    noise = faults.noise(inputs) * (voiced * VOICED_NOISE + (1 - voiced) * SINE_AMPLITUDE / 3)
    merge = faults.vocoder.generator.m_source.host
    excitation = np.tanh(
        (sines * SINE_AMPLITUDE * voiced + noise) @ merge.weights.astype(np.float64) + merge.bias
    )
    return torch.from_numpy(spectrum_of(excitation)).float()


def lost_duration(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The duration of the loudest phone is NaN, cast to an integer and held at 1: the phone lasts
    one frame, all after it comes early.
    """
    at = loudest_frame(inputs)
    # The frames around it that have its text features are its phone.
    same = ((inputs.asr - inputs.asr[..., at : at + 1]).abs().amax(dim=1)[0] == 0).numpy()
    start = at - int(np.argmin(same[: at + 1][::-1])) + 1 if not same[: at + 1].all() else 0
    stop = at + int(np.argmin(same[at:])) if not same[at:].all() else len(same)
    frames = np.r_[0 : start + 1, stop : len(same)]
    # the last frame, pause, is drawn out
    filled = np.r_[frames, np.full(len(same) - len(frames), len(same) - 1)]
    # [1, 2F] -> [1, F, 2] -> [1, 2F]
    f0_hz, energy = (
        track.reshape(1, -1, PROSODY_PER_FRAME)[:, torch.from_numpy(filled)].reshape(1, -1)
        for track in (inputs.f0_hz, inputs.energy)
    )
    spectrum = faults.source(f0_hz, faults.noise(inputs))
    asr = inputs.asr[..., torch.from_numpy(filled)]
    return faults.rendered(inputs, asr=asr, f0_hz=f0_hz, energy=energy, spectrum=spectrum)


def other_style(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """Render by 85 % of the style and 15 % of the nearest other voice's."""
    other = faults.styles(inputs)[:2][-1]  # the first is the voice itself
    return faults.rendered(inputs, style=(1 - OTHER_STYLE) * inputs.style + OTHER_STYLE * other)


def block_dropped(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The first residual block of the last stage passes its input on."""
    copy = deepcopy(faults.vocoder)
    first = copy.generator.blocks_per_stage  # of the last of two stages
    copy.generator.resblocks[first] = Dropped(lambda x, *_: x)  # type: ignore[assignment]
    return render_reference(copy.eval(), inputs)


def alpha_doubled(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The Snakes of the last stage have twice their alpha."""
    # Of both convolutions of every residual block behind the last upsampling.
    copy = deepcopy(faults.vocoder)
    last = copy.generator.resblocks[copy.generator.blocks_per_stage :]
    with torch.no_grad():
        for snake in [s for block in last for s in (*block.alpha1, *block.alpha2)]:
            for parameter in snake.parameters():
                parameter.mul_(2.0)
    return render_reference(copy.eval(), inputs)


def other_half(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The prosody's half of the style row in the decoder, of the voice that the style is nearest
    to.
    """
    half = inputs.style.shape[1]
    # [510 voices, 2 half]
    rows = torch.cat([faults.checkpoint.voice(voice)[:, 0] for voice in faults.checkpoint.voices])
    nearest = rows[(rows[:, :half] - inputs.style).norm(dim=1).argmin()]
    return faults.rendered(inputs, style=nearest[None, half:])


def delayed(track: Tensor, frames: int) -> Tensor:
    """Return a curve [1, 2F] that many frames late, its first value held."""
    step = frames * PROSODY_PER_FRAME
    return torch.cat([track[:, :1].repeat(1, step), track[:, :-step]], dim=1)


def of_f0(faults: Faults, inputs: VocoderInputs, f0_hz: Tensor) -> np.ndarray:
    """Render with another F0, in the source and in the decoder."""
    return faults.rendered(inputs, f0_hz=f0_hz, spectrum=faults.source(f0_hz, faults.noise(inputs)))


def of_noise(faults: Faults, inputs: VocoderInputs, noise: np.ndarray) -> np.ndarray:
    """Render with another noise in the source."""
    return faults.rendered(inputs, spectrum=faults.source(inputs.f0_hz, noise))


def voiced_everywhere(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """Unvoiced places are voiced at the mean pitch: no frame has noise alone."""
    voiced = inputs.f0_hz > VOICED_ABOVE_HZ
    mean = inputs.f0_hz[voiced].mean() if bool(voiced.any()) else torch.tensor(150.0)
    f0_hz = torch.where(voiced, inputs.f0_hz, mean) * 1.0
    # a held vowel is voiced already: it is flat
    return of_f0(faults, inputs, torch.where(voiced.all(), f0_hz * 0.9, f0_hz))


def said_twice(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The loudest 25 ms twice, everything after them 25 ms late, the end cut off."""
    signal = faults.rendered(inputs)
    at = (loudest_frame(inputs) + 1) * FRAME_SAMPLES
    return np.concatenate([signal[:at], signal[at - FRAME_SAMPLES : -FRAME_SAMPLES]])


def frames_swapped(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The text features of the loudest three frames and of the three before them change places."""
    at = max(3, min(loudest_frame(inputs), inputs.frames - 3))
    # The order of frames, with two neighbouring groups of three exchanged.
    order = torch.arange(inputs.frames)
    order[at - 3 : at + 3] = torch.cat([order[at : at + 3], order[at - 3 : at]])
    return faults.rendered(inputs, asr=inputs.asr[..., order])


def real_bins(factor: float) -> Render:
    """DC and Nyquist where they are negative: atan2 is `factor` times the pi it should be. -1:
    atan2(-0, negative); 0: the sign is lost.
    """

    def render(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
        # DC and Nyquist are real: their phase is 0 or pi, and pi where the bin is negative.
        spectrum = inputs.spectrum.clone()
        for real in (DC_BIN, NYQUIST_BIN):
            phase = spectrum[:, N_FFT // 2 + 1 + real]
            phase[phase.abs() > torch.pi / 2] *= factor
        return faults.rendered(inputs, spectrum=spectrum)

    return render


def pulse_noise(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """A generator whose state is stuck at zero: one pulse each 10 ms, of the noise's power, in
    place of noise.
    """
    noise = np.zeros_like(faults.noise(inputs))
    noise[:, ::PULSE_STEP_SAMPLES] = PULSE_STEP_SAMPLES**0.5
    return of_noise(faults, inputs, noise)


def mask_dropped(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """Padded to its bucket without the prefix mask: normalizations and convolutions see the
    padding.
    """
    # The bucket of one frame more than the clip has, so that there is always padding.
    frames = bucket_for(inputs.frames + 1, DEFAULT_BUCKETS)
    padded = {}
    for name in ("asr", "f0_hz", "energy", "spectrum"):
        tensor = getattr(inputs, name)
        columns = tensor.shape[-1] // inputs.frames * (frames - inputs.frames)
        padded[name] = F.pad(tensor, (0, columns))
    samples = faults.rendered(inputs, **padded)
    return samples[: len(samples) * inputs.frames // frames]


def wrong_voice(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """Render by the style of the voice that is farthest from the right one."""
    return faults.rendered(inputs, style=faults.styles(inputs)[-1])


def dropout(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """10 ms of the tail's magnitudes overflowed to zero, where the clip is loudest."""
    power = wave.power(faults.rendered(inputs), DROPOUT_SAMPLES)
    start = int(np.argmax(power)) // HOP_SAMPLES
    silent = start, start + DROPOUT_SAMPLES // HOP_SAMPLES
    return render_reference(faults.with_tail(silent=silent), inputs)
