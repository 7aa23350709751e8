"""Known-bad controls that were thought of after the gates were frozen (docs/metrics.md names the commit): no limit was chosen for them.

for control in LATER: control.render(faults, inputs)   # [600 F] float32
"""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from core.contract import FRAME_SAMPLES, PROSODY_PER_FRAME, SAMPLE_RATE_HZ
from eval.damage import swaying
from eval.faults import Control, Faults
from eval.shipped_errors import loudest_frame
from vocoder.harmonics import VOICED_ABOVE_HZ
from vocoder.package import render_reference
from vocoder.packing import VocoderInputs
from vocoder.source import gaussian_noise


class Through(nn.Module):
    """A residual block that is not there."""

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """x, unchanged."""
        return x


def block_dropped(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The first residual block of the last stage passes its input on."""
    copy = deepcopy(faults.vocoder)
    copy.generator.resblocks[copy.generator.blocks_per_stage] = Through()  # type: ignore[assignment]
    return render_reference(copy.eval(), inputs)


def alpha_doubled(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The Snakes of the last stage have twice their alpha."""
    copy = deepcopy(faults.vocoder)
    last = copy.generator.resblocks[copy.generator.blocks_per_stage :]
    with torch.no_grad():
        for snake in [s for block in last for s in (*block.alpha1, *block.alpha2)]:
            for parameter in snake.parameters():
                parameter.mul_(2.0)
    return render_reference(copy.eval(), inputs)


def other_half(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The prosody's half of the style row in the decoder, of the voice that the style is nearest to."""
    half = inputs.style.shape[1]
    rows = torch.cat([faults.checkpoint.voice(voice)[:, 0] for voice in faults.checkpoint.voices])  # [510 voices, 2 half]
    nearest = rows[(rows[:, :half] - inputs.style).norm(dim=1).argmin()]
    return render_reference(faults.vocoder, replace(inputs, style=nearest[None, half:]))


def f0_late(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """F0 one frame late, in the source and in the decoder."""
    f0_hz = torch.cat([inputs.f0_hz[:, :1].repeat(1, PROSODY_PER_FRAME), inputs.f0_hz[:, :-PROSODY_PER_FRAME]], dim=1)
    spectrum = faults.source(f0_hz, gaussian_noise(inputs.frames, faults.seed))
    return render_reference(faults.vocoder, replace(inputs, f0_hz=f0_hz, spectrum=spectrum))


def voiced_everywhere(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """Unvoiced places are voiced at the mean pitch: no frame has noise alone."""
    voiced = inputs.f0_hz > VOICED_ABOVE_HZ
    mean = inputs.f0_hz[voiced].mean() if bool(voiced.any()) else torch.tensor(150.0)
    f0_hz = torch.where(voiced, inputs.f0_hz, mean) * 1.0
    f0_hz = torch.where(voiced.all(), f0_hz * 0.9, f0_hz)  # a held vowel is voiced already: it is flat
    spectrum = faults.source(f0_hz, gaussian_noise(inputs.frames, faults.seed))
    return render_reference(faults.vocoder, replace(inputs, f0_hz=f0_hz, spectrum=spectrum))


def noise_loud(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """Source noise of eight times the deviation."""
    noise = 8 * gaussian_noise(inputs.frames, faults.seed)
    return render_reference(faults.vocoder, replace(inputs, spectrum=faults.source(inputs.f0_hz, noise)))


def energy_late(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The energy curve two frames late."""
    step = 2 * PROSODY_PER_FRAME
    energy = torch.cat([inputs.energy[:, :1].repeat(1, step), inputs.energy[:, :-step]], dim=1)
    return render_reference(faults.vocoder, replace(inputs, energy=energy))


def said_twice(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The loudest 25 ms twice, everything after them 25 ms late, the end cut off."""
    signal = render_reference(faults.vocoder, inputs)
    at = (loudest_frame(inputs) + 1) * FRAME_SAMPLES
    return np.concatenate([signal[:at], signal[at - FRAME_SAMPLES : -FRAME_SAMPLES]])


def frames_swapped(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The text features of the loudest three frames and of the three before them change places."""
    at = max(3, min(loudest_frame(inputs), inputs.frames - 3))
    order = torch.arange(inputs.frames)
    order[at - 3 : at + 3] = torch.cat([order[at : at + 3], order[at - 3 : at]])
    return render_reference(faults.vocoder, replace(inputs, asr=inputs.asr[..., order]))


def offset(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """A constant of a twentieth of the peak added."""
    signal = render_reference(faults.vocoder, inputs)
    return signal + np.float32(0.05 * np.abs(signal).max())


def hum(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """50 Hz, 35 dB below the peak."""
    signal = render_reference(faults.vocoder, inputs)
    wave = np.sin(2 * np.pi * 50 * np.arange(len(signal)) / SAMPLE_RATE_HZ) * np.abs(signal).max() * 10 ** (-35 / 20)
    return (signal + wave).astype(np.float32)


def clicked(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """One sample of the clip's quietest 100 ms at the clip's peak."""
    signal = render_reference(faults.vocoder, inputs).copy()
    power = np.convolve(np.square(signal.astype(np.float64)), np.ones(2400), mode="valid")
    signal[int(np.argmin(power)) + 1200] = np.abs(signal).max()
    return signal


def trembling(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The level sways by 2 dB either way, five times a second."""
    return swaying(render_reference(faults.vocoder, inputs), 2.0).astype(np.float32)


def echoing(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """An echo after 30 ms, 20 dB down."""
    signal = render_reference(faults.vocoder, inputs)
    late = SAMPLE_RATE_HZ * 30 // 1000
    return signal + np.float32(0.1) * np.concatenate([np.zeros(late, signal.dtype), signal[:-late]])


def eight_bits(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """Samples rounded to 8 bits of full scale."""
    return np.round(render_reference(faults.vocoder, inputs) * 127).astype(np.float32) / np.float32(127)


LATER = (
    Control("residual block dropped", "mcd_db", block_dropped, "a branch of a stage not added"),
    Control("Snake alpha doubled", "mcd_db", alpha_doubled, "a scale folded in twice"),
    Control("other half of the style", "mcd_db", other_half, "columns 128 to 256 instead of 0 to 128"),
    Control("F0 a frame late", "mcd_db", f0_late, "off-by-one in the alignment of prosody"),
    Control("voiced everywhere", "mcd_db", voiced_everywhere, "F0 not set to 0 where unvoiced"),
    Control("noise 18 dB louder", "mcd_db", noise_loud, "uniform bits not scaled"),
    Control("energy two frames late", "mcd_db", energy_late, "a track of another rate cut instead of drawn out"),
    Control("25 ms said twice", "lag_samples", said_twice, "overlap counted twice where pieces are joined"),
    Control("three frames swapped", "local_spectrum_db", frames_swapped, "rows packed in another order"),
    Control("constant added", "pause_floor_db", offset, "a bias lost on its way"),
    Control("hum", "pause_floor_db", hum, "the DC bin modulated"),
    Control("click in a pause", "jump_db", clicked, "one overflow"),
    Control("level sways", "level_sway_db", trembling, "a scale that depends on the block: 2 dB either way"),
    Control("echo at -20 dB", "lsd_db", echoing, "state kept from another call"),
    Control("8 bits", "pause_floor_db", eight_bits, "samples stored too short"),
)
