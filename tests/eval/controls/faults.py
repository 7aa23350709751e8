"""Known errors of a vocoder: in its features, its source, its weights or its inverse STFT.

    block_dropped(reference, inputs)  # [600 F] float32
    of_waveform(hum)(reference, inputs)  # tests/eval/controls/waveform_faults.py

An error of the model is put into a copy of the PyTorch vocoder; the reference's own vocoder is
never changed.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core import (
    DEFAULT_BUCKETS,
    FRAME_SAMPLES,
    HARMONICS,
    HOP_SAMPLES,
    N_FFT,
    PROSODY_PER_FRAME,
    SAMPLE_RATE_HZ,
    bucket_for,
    style_row,
)
from kokoro_ane.eval.reference import Reference
from kokoro_ane.vocoder import (
    BINS,
    STEP_SAMPLES,
    VOICED_ABOVE_HZ,
    Vocoder,
    VocoderInputs,
    draw_noise,
    render_reference,
)
from tests.eval.controls.waveform_faults import late, power

DROPOUT_SAMPLES = SAMPLE_RATE_HZ // 100  # 10 ms
WRONG_FRAMES = 3  # 75 ms
OTHER_STYLE = 0.15
DC_BIN, NYQUIST_BIN = 0, N_FFT // 2
PULSE_STEP_SAMPLES = 240  # 10 ms between the pulses of a generator that is stuck
STYLE_ROW = 60  # phonemes: the row of another voice that takes the place of the right one

# renders a clip's inputs with an error in it: [600 F] float32
Fault = Callable[[Reference, VocoderInputs], np.ndarray]


def rendered(reference: Reference, inputs: VocoderInputs, **changed: Tensor) -> np.ndarray:
    """Render [600 F] float32 with some of the inputs changed."""
    return render_reference(reference.vocoder, replace(inputs, **changed))


def of_waveform(change: Callable[[np.ndarray], np.ndarray]) -> Fault:
    """Return the fault that changes the rendered samples."""
    return lambda reference, inputs: change(rendered(reference, inputs))


def of_model(change: Callable[[Vocoder], object]) -> Fault:
    """Return the fault that alters a copy of the vocoder in place."""

    def render(reference: Reference, inputs: VocoderInputs) -> np.ndarray:
        vocoder = deepcopy(reference.vocoder)
        with torch.no_grad():
            change(vocoder)
        return render_reference(vocoder.eval(), inputs)

    return render


def of_tail(change: Callable[[Tensor], object]) -> Fault:
    """Return the fault that alters the logarithms of the magnitudes [B, 11, 1, S] in place, in
    front of the inverse STFT.
    """

    def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        change(inputs[0][:, :BINS])

    return of_model(lambda vocoder: vocoder.generator.stft.register_forward_pre_hook(hook))


def drop(block: nn.Module, passed_on: Callable[..., object]) -> None:
    """Take a block out: in its place a function passes on what came in."""
    block.forward = passed_on


def int4(vocoder: Vocoder) -> None:
    """Round every convolution's weight to int4, with one scale for each output channel."""
    for module in vocoder.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            axis = int(isinstance(module, nn.ConvTranspose2d))
            others = [i for i in range(module.weight.dim()) if i != axis]
            scale = module.weight.abs().amax(dim=others, keepdim=True).clamp(min=1e-12) / 7
            module.weight.copy_(torch.round(module.weight / scale).clamp(-7, 7) * scale)


def first_block_dropped(vocoder: Vocoder) -> None:
    """The first residual block of the last of two stages passes its input on."""
    drop(vocoder.generator.resblocks[vocoder.generator.blocks_per_stage], lambda x, *_: x)


def alpha_doubled(vocoder: Vocoder) -> None:
    """Double alpha in every Snake of the last stage."""
    for block in vocoder.generator.resblocks[vocoder.generator.blocks_per_stage :]:
        for snake in (*block.alpha1, *block.alpha2):
            for parameter in snake.parameters():
                parameter.mul_(2.0)


def loudest_frame(inputs: VocoderInputs) -> int:
    """The frame of the loudest voiced prosody value, or of the loudest where nothing is voiced."""
    voiced, energy = inputs.f0_hz[0] > VOICED_ABOVE_HZ, inputs.energy[0]
    if bool(voiced.any()):
        energy = energy.masked_fill(~voiced, -1e9)
    return int(energy.argmax()) // PROSODY_PER_FRAME


def wrong_phone(reference: Reference, inputs: VocoderInputs) -> np.ndarray:
    """Three frames about the loudest voiced one take the text features of another phone of the
    clip: the one at the median distance, as neither the nearest nor the farthest is typical.
    """
    at = max(1, min(loudest_frame(inputs), inputs.frames - 2))
    distance = (inputs.asr - inputs.asr[..., at : at + 1]).norm(dim=1)[0]  # [F]
    nearest_first = distance.argsort()
    others = nearest_first[distance[nearest_first] > 0]  # none in a held vowel, which has one phone
    other = int(others[len(others) // 2]) if len(others) else at
    asr = inputs.asr.clone()
    asr[..., at - 1 : at - 1 + WRONG_FRAMES] = inputs.asr[..., other : other + 1]
    return rendered(reference, inputs, asr=asr)


def lost_duration(reference: Reference, inputs: VocoderInputs) -> np.ndarray:
    """The duration of the loudest phone is NaN, cast to an integer and held at 1: the phone lasts
    one frame, and everything behind it comes early.
    """
    at, frames = loudest_frame(inputs), inputs.frames
    # The frames around it that have its text features are its phone.
    distance = (inputs.asr - inputs.asr[..., at : at + 1]).abs().amax(dim=1)[0]  # [F]
    others = np.flatnonzero(distance.numpy())
    start = others[others < at].max(initial=-1) + 1
    stop = others[others > at].min(initial=frames)
    left = np.r_[0 : start + 1, stop:frames]
    # The last frame, a pause, fills the end.
    order = torch.from_numpy(np.r_[left, np.full(frames - len(left), frames - 1)])
    # [1, 2F] -> [1, F, 2] -> [1, 2F]
    f0_hz, energy = (
        track.reshape(1, -1, PROSODY_PER_FRAME)[:, order].reshape(1, -1)
        for track in (inputs.f0_hz, inputs.energy)
    )
    return of_f0(reference, replace(inputs, asr=inputs.asr[..., order], energy=energy), f0_hz)


def frames_swapped(reference: Reference, inputs: VocoderInputs) -> np.ndarray:
    """The text features of the loudest three frames and of the three before them change places."""
    at = max(3, min(loudest_frame(inputs), inputs.frames - 3))
    order = torch.arange(inputs.frames)
    order[at - 3 : at + 3] = torch.cat([order[at : at + 3], order[at - 3 : at]])
    return rendered(reference, inputs, asr=inputs.asr[..., order])


def delayed(track: Tensor, frames: int) -> Tensor:
    """Return a curve [1, 2F] that many frames late, its first value held."""
    step = frames * PROSODY_PER_FRAME
    return torch.cat([track[:, :1].repeat(1, step), track[:, :-step]], dim=1)


def noise_of(reference: Reference, inputs: VocoderInputs) -> np.ndarray:
    """The source's noise of a clip [1, 600 F, 9], by the reference's seed."""
    return draw_noise(inputs.frames, reference.seed)


def of_noise(reference: Reference, inputs: VocoderInputs, noise: np.ndarray) -> np.ndarray:
    """Render with another noise in the source."""
    spectrum = reference.vocoder.generator.m_source.compute_spectrum(inputs.f0_hz, noise)
    return rendered(reference, inputs, spectrum=spectrum)


def of_f0(reference: Reference, inputs: VocoderInputs, f0_hz: Tensor) -> np.ndarray:
    """Render with another F0, in the source and in the decoder."""
    return of_noise(reference, replace(inputs, f0_hz=f0_hz), noise_of(reference, inputs))


def half_phase(reference: Reference, inputs: VocoderInputs) -> np.ndarray:
    """The running sum of the phase kept in fp16: from the 64th cycle on it moves in sixteenths of
    a cycle, from the 2048th on in whole ones.
    """
    steps = (inputs.f0_hz.double() * STEP_SAMPLES / SAMPLE_RATE_HZ).numpy().astype(np.float16)
    cycles = np.cumsum(steps, axis=1, dtype=np.float16).astype(np.float64)
    f0_hz = np.diff(cycles, prepend=0.0) * SAMPLE_RATE_HZ / STEP_SAMPLES
    # A step that the sum loses is no pitch, but stays voiced.
    f0_hz[(inputs.f0_hz > VOICED_ABOVE_HZ).numpy() & (f0_hz == 0)] = VOICED_ABOVE_HZ + 1
    source = reference.vocoder.generator.m_source
    spectrum = source.compute_spectrum(torch.from_numpy(f0_hz).float(), noise_of(reference, inputs))
    return rendered(reference, inputs, spectrum=spectrum)


def voiced_everywhere(reference: Reference, inputs: VocoderInputs) -> np.ndarray:
    """Unvoiced places are voiced at the mean pitch: no frame has noise alone."""
    voiced = inputs.f0_hz > VOICED_ABOVE_HZ
    mean = inputs.f0_hz[voiced].mean() if bool(voiced.any()) else torch.tensor(150.0)
    # a held vowel is voiced already: it is flat
    f0_hz = inputs.f0_hz * 0.9 if voiced.all() else torch.where(voiced, inputs.f0_hz, mean)
    return of_f0(reference, inputs, f0_hz)


def noise_again(reference: Reference, inputs: VocoderInputs) -> np.ndarray:
    """Noise drawn harmonic by harmonic, each time from seed 0: nine equal noises, 6 dB more of them
    on real Kokoro.
    """
    noise = draw_noise(inputs.frames, 0)[..., :1].repeat(HARMONICS, axis=2)  # [1, 600 F, 9]
    return of_noise(reference, inputs, noise)


def pulse_noise(reference: Reference, inputs: VocoderInputs) -> np.ndarray:
    """A generator whose state is stuck at zero: one pulse each 10 ms, of the noise's power, in
    place of noise.
    """
    noise = np.zeros_like(noise_of(reference, inputs))
    noise[:, ::PULSE_STEP_SAMPLES] = PULSE_STEP_SAMPLES**0.5
    return of_noise(reference, inputs, noise)


def real_bins(factor: float) -> Fault:
    """DC and Nyquist are real, so their phase is 0, or pi where the bin is negative: such a pi is
    multiplied by `factor`. -1: atan2(-0, negative); 0: the sign is lost.
    """

    def render(reference: Reference, inputs: VocoderInputs) -> np.ndarray:
        spectrum = inputs.spectrum.clone()
        for real in (DC_BIN, NYQUIST_BIN):
            phase = spectrum[:, BINS + real]
            phase[phase.abs() > torch.pi / 2] *= factor
        return rendered(reference, inputs, spectrum=spectrum)

    return render


def styles(reference: Reference, inputs: VocoderInputs) -> list[Tensor]:
    """The decoder's half of one row of every voice [1, 128], the nearest to the clip's first."""
    packs = [reference.checkpoint.voice(voice) for voice in reference.checkpoint.voices]
    halves = [
        style_row(pack, min(len(pack), STYLE_ROW))[:, : inputs.style.shape[1]] for pack in packs
    ]
    return sorted(halves, key=lambda style: float((style - inputs.style).norm()))


def wrong_voice(reference: Reference, inputs: VocoderInputs) -> np.ndarray:
    """Render by the style of the voice that is farthest from the right one."""
    return rendered(reference, inputs, style=styles(reference, inputs)[-1])


def other_style(reference: Reference, inputs: VocoderInputs) -> np.ndarray:
    """Render by 85 % of the style and 15 % of the nearest other voice's."""
    other = styles(reference, inputs)[:2][-1]  # the first is the voice itself
    style = (1 - OTHER_STYLE) * inputs.style + OTHER_STYLE * other
    return rendered(reference, inputs, style=style)


def other_half(reference: Reference, inputs: VocoderInputs) -> np.ndarray:
    """Render by the prosody's half of the style row that is nearest to the clip's."""
    half, checkpoint = inputs.style.shape[1], reference.checkpoint
    # [510 voices, 2 half]
    rows = torch.cat([checkpoint.voice(voice)[:, 0] for voice in checkpoint.voices])
    nearest = rows[(rows[:, :half] - inputs.style).norm(dim=1).argmin()]
    return rendered(reference, inputs, style=nearest[None, half:])


def mask_dropped(reference: Reference, inputs: VocoderInputs) -> np.ndarray:
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
    return rendered(reference, inputs, **padded)[: FRAME_SAMPLES * inputs.frames]


def said_twice(reference: Reference, inputs: VocoderInputs) -> np.ndarray:
    """The loudest 25 ms twice, everything after them 25 ms late, the end cut off."""
    at = (loudest_frame(inputs) + 1) * FRAME_SAMPLES
    return late(rendered(reference, inputs), at, FRAME_SAMPLES)


def dropout(reference: Reference, inputs: VocoderInputs) -> np.ndarray:
    """10 ms of the tail's magnitudes become zero, where the clip is loudest."""
    start = int(np.argmax(power(rendered(reference, inputs), DROPOUT_SAMPLES))) // HOP_SAMPLES
    silent = slice(start, start + DROPOUT_SAMPLES // HOP_SAMPLES)
    return of_tail(lambda log: log[..., silent].fill_(-torch.inf))(reference, inputs)
