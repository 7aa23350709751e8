"""Known-bad controls beyond the first thirteen: errors that other ports shipped, and damage in one place that no mean shows.

    for control in SHIPPED: control.render(faults, inputs)   # [600 F] float32

A caller's noise of seed 0 in every sentence is no error that a sentence can show: it is another seed (eval/harmless.py). One draw a frame
from seed 0 breaks no gate on the demo voice either. What is put in here is one draw a harmonic: nine equal noises add up to more.
"""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from core.contract import COLUMNS_PER_FRAME, FRAME_SAMPLES, HARMONICS, PROSODY_PER_FRAME, SAMPLE_RATE_HZ
from eval.damage import dipped
from eval.faults import Control, Faults
from vocoder.harmonics import SINE_AMPLITUDE, STEP_SAMPLES, VOICED_ABOVE_HZ, VOICED_NOISE, spectrum_of
from vocoder.package import render_reference
from vocoder.packing import VocoderInputs
from vocoder.source import gaussian_noise

WRONG_FRAMES = 3  # 75 ms
OTHER_STYLE = 0.15


def wrong_phone(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """Three frames about the loudest voiced one take the text features of another phone: of all frames', those at the median distance."""
    at = max(1, min(loudest_frame(inputs), inputs.frames - 2))
    distance = (inputs.asr - inputs.asr[..., at : at + 1]).norm(dim=1)[0]  # [F]
    others = int((distance > 0).sum())  # 0 in a held vowel: one phone, and nothing to take
    other = int(distance.argsort()[len(distance) - others + others // 2]) if others else at
    asr = inputs.asr.clone()
    asr[..., at - 1 : at - 1 + WRONG_FRAMES] = inputs.asr[..., other : other + 1]
    return render_reference(faults.vocoder, replace(inputs, asr=asr))


def loudest_frame(inputs: VocoderInputs) -> int:
    """The frame of the loudest voiced prosody value; of the loudest at all where nothing is voiced."""
    voiced = inputs.f0_hz[0] > VOICED_ABOVE_HZ
    energy = inputs.energy[0] if not bool(voiced.any()) else torch.where(voiced, inputs.energy[0], torch.full_like(inputs.energy[0], -1e9))
    return int(energy.argmax()) // PROSODY_PER_FRAME


def dipped_window(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The loudest 60 ms 9 dB quieter, faded over 5 ms."""
    return dipped(render_reference(faults.vocoder, inputs), 9.0)


def negative_real_flipped(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The phase of a negative real bin, DC or Nyquist, is -pi where it is pi: atan2(-0, negative)."""
    spectrum = inputs.spectrum.clone()
    bins = spectrum.shape[1] // 2
    for real in (0, bins - 1):
        phase = spectrum[:, bins + real]
        phase[phase.abs() > torch.pi / 2] *= -1
    return render_reference(faults.vocoder, replace(inputs, spectrum=spectrum))


def noise_again(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """Noise drawn harmonic by harmonic, each time from seed 0: nine equal noises, 6 dB more of them on real Kokoro."""
    noise = gaussian_noise(inputs.frames, 0)[..., :1].repeat(1, 1, HARMONICS)  # [1, 600 F, 9]
    return render_reference(faults.vocoder, replace(inputs, spectrum=faults.source(inputs.f0_hz, noise)))


def half_phase(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The running sum of the phase kept in fp16: from the 2048th cycle on it moves in whole ones, from the 64th in sixteenths."""
    steps = (inputs.f0_hz[0].double() * STEP_SAMPLES / SAMPLE_RATE_HZ).numpy().astype(np.float16)
    cycles, total = np.zeros(len(steps)), np.float16(0)
    for i, step in enumerate(steps):
        total = np.float16(total + step)
        cycles[i] = float(total)
    return render_reference(faults.vocoder, replace(inputs, spectrum=source_of(faults, inputs, torch.from_numpy(cycles)[None])))


def source_of(faults: Faults, inputs: VocoderInputs, cycles: Tensor) -> Tensor:
    """The harmonic spectrum [1, 22, 120F + 1] of phases given in cycles [1, 2F] at the F0 rate, otherwise as `HarmonicSource`."""
    phase = torch.nn.functional.interpolate(cycles[:, None], scale_factor=float(STEP_SAMPLES), mode="linear")  # [1, 1, 600F]
    sines = np.sin(2 * np.pi * phase.transpose(1, 2).numpy() * np.arange(1, HARMONICS + 1))  # [1, 600F, 9]
    voiced = np.repeat(inputs.f0_hz.numpy() > VOICED_ABOVE_HZ, STEP_SAMPLES, axis=1)[..., None].astype(np.float64)
    noise = gaussian_noise(inputs.frames, faults.seed).numpy() * (voiced * VOICED_NOISE + (1 - voiced) * SINE_AMPLITUDE / 3)
    merge = faults.vocoder.generator.m_source.merge
    excitation = np.tanh((sines * SINE_AMPLITUDE * voiced + noise) @ merge.weights.astype(np.float64) + merge.bias)
    return torch.from_numpy(spectrum_of(excitation)).float()


def lost_duration(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The duration of the loudest phone is NaN, cast to an integer and held at 1: the phone lasts one frame, all after it comes early."""
    at = loudest_frame(inputs)
    same = ((inputs.asr - inputs.asr[..., at : at + 1]).abs().amax(dim=1)[0] == 0).numpy()
    start = at - int(np.argmin(same[: at + 1][::-1])) + 1 if not same[: at + 1].all() else 0
    stop = at + int(np.argmin(same[at:])) if not same[at:].all() else len(same)
    kept = np.r_[0 : start + 1, stop : len(same)]
    filled = np.r_[kept, np.full(len(same) - len(kept), len(same) - 1)]  # the last frame, pause, is drawn out
    f0_hz, energy = (_rows(track, filled, PROSODY_PER_FRAME) for track in (inputs.f0_hz, inputs.energy))
    spectrum = faults.source(f0_hz, gaussian_noise(inputs.frames, faults.seed))
    early = replace(inputs, asr=inputs.asr[..., torch.from_numpy(filled)], f0_hz=f0_hz, energy=energy, spectrum=spectrum)
    return render_reference(faults.vocoder, early)


def _rows(track: Tensor, frames: np.ndarray, step: int) -> Tensor:
    """track [1, step F] -> the values of `frames`."""
    return track.reshape(1, -1, step)[:, torch.from_numpy(frames)].reshape(1, -1)


def other_style(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """85 % of the style and 15 % of another voice's, the nearest one."""
    row = min(len(faults.checkpoint.voice(faults.checkpoint.voices[0])), 60) - 1
    half = inputs.style.shape[1]
    styles = [faults.checkpoint.voice(voice)[row, :, :half] for voice in faults.checkpoint.voices]
    far = sorted((style for style in styles), key=lambda style: float((style - inputs.style).norm()))
    other = far[1] if len(far) > 1 else far[0]  # the first is the voice itself
    return render_reference(faults.vocoder, replace(inputs, style=(1 - OTHER_STYLE) * inputs.style + OTHER_STYLE * other))


def late_from_the_middle(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """Two pieces joined with one sample too many: from the middle of the clip on, everything is a sample late."""
    signal = render_reference(faults.vocoder, inputs)
    middle = inputs.frames // 2 * COLUMNS_PER_FRAME * (FRAME_SAMPLES // COLUMNS_PER_FRAME)
    return np.concatenate([signal[:middle], signal[middle - 1 : -1]])


SHIPPED = (
    Control("wrong phone", "local_spectrum_db", wrong_phone, "75 ms of another phone: PESQ 4.30, MCD 0.19, shipped by the means alone"),
    Control("dipped 60 ms", "local_level_db", dipped_window, "the loudest 60 ms 9 dB quieter: a block's scale overflowed there"),
    Control("negative real bin flipped", "mcd_db", negative_real_flipped, "atan2(-0, negative) is -pi, in a published port"),
    Control("noise of seed 0 in every call", "lsd_db", noise_again, "a fixed seed in every call of the generator, in a published port"),
    Control("phase summed in fp16", "mcd_db", half_phase, "a cumulative sum on the engine"),
    Control("NaN duration", "local_spectrum_db", lost_duration, "compiled programs without flexible shapes gave NaN durations"),
    Control("15 % of another voice", "mcd_db", other_style, "styles blended by a wrong index"),
    Control("one boundary a sample late", "lag_samples", late_from_the_middle, "off-by-one where two pieces are joined"),
)
