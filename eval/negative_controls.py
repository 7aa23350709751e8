"""The negative controls: errors that ports of this model really shipped, or that the gates claim to
catch; and what does no harm.

    CONTROLS["mask dropped"].render(faults, inputs)   # [600 F] float32

Errors of the model are injected into the PyTorch vocoder (its features, source, mask, weights or
inverse STFT), the others are done to the waveform. A gate that rejects nothing proves nothing, and
one that rejects HARMLESS is wrong in the other direction: `kokoro-ane controls` runs them all.
"""

from copy import deepcopy
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor, nn

from kokoro_ane.core.contract import (
    DEFAULT_BUCKETS,
    FRAME_SAMPLES,
    HARMONICS,
    N_FFT,
    PROSODY_PER_FRAME,
    SAMPLE_RATE_HZ,
    bucket_for,
)
from kokoro_ane.core.voices import style_row
from kokoro_ane.eval import waveform_faults as wave
from kokoro_ane.eval.faults import (
    HALVED,
    LATE,
    UNNORMALIZED,
    Control,
    Faults,
    Harmless,
    Render,
    dropout_columns,
    of_tail,
    of_waveform,
)
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

WRONG_FRAMES = 3  # 75 ms
OTHER_STYLE = 0.15
DC_BIN, NYQUIST_BIN = 0, N_FFT // 2
PULSE_STEP_SAMPLES = 240  # 10 ms between the pulses of a generator that is stuck
STYLE_ROW = 60  # phonemes: the row of another voice that the wrong voice takes
UNSEEN_SEED = 7  # more than the seeds of the variation


def wrong_phone(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """Three frames about the loudest voiced one take the text features of another phone: of all
    frames', those at the median distance.
    """
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
    energy = (
        inputs.energy[0]
        if not bool(voiced.any())
        else torch.where(voiced, inputs.energy[0], torch.full_like(inputs.energy[0], -1e9))
    )
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
    phase = torch.nn.functional.interpolate(
        cycles[:, None], scale_factor=float(STEP_SAMPLES), mode="linear"
    )
    # [1, 600F, 9]
    sines = np.sin(2 * np.pi * phase.transpose(1, 2).numpy() * np.arange(1, HARMONICS + 1))
    voiced = np.repeat(inputs.f0_hz.numpy() > VOICED_ABOVE_HZ, STEP_SAMPLES, axis=1)[
        ..., None
    ].astype(np.float64)
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
    same = ((inputs.asr - inputs.asr[..., at : at + 1]).abs().amax(dim=1)[0] == 0).numpy()
    start = at - int(np.argmin(same[: at + 1][::-1])) + 1 if not same[: at + 1].all() else 0
    stop = at + int(np.argmin(same[at:])) if not same[at:].all() else len(same)
    kept = np.r_[0 : start + 1, stop : len(same)]
    # the last frame, pause, is drawn out
    filled = np.r_[kept, np.full(len(same) - len(kept), len(same) - 1)]
    f0_hz, energy = (
        _rows(track, filled, PROSODY_PER_FRAME) for track in (inputs.f0_hz, inputs.energy)
    )
    spectrum = faults.source(f0_hz, faults.noise(inputs))
    early = replace(
        inputs,
        asr=inputs.asr[..., torch.from_numpy(filled)],
        f0_hz=f0_hz,
        energy=energy,
        spectrum=spectrum,
    )
    return render_reference(faults.vocoder, early)


def _rows(track: Tensor, frames: np.ndarray, step: int) -> Tensor:
    """track [1, step F] -> the values of `frames`."""
    return track.reshape(1, -1, step)[:, torch.from_numpy(frames)].reshape(1, -1)


def other_style(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """85 % of the style and 15 % of another voice's, the nearest one."""
    row = min(len(faults.checkpoint.voice(faults.checkpoint.voices[0])), 60) - 1
    half = inputs.style.shape[1]
    styles = [faults.checkpoint.voice(voice)[row, :, :half] for voice in faults.checkpoint.voices]
    far = sorted(
        (style for style in styles), key=lambda style: float((style - inputs.style).norm())
    )
    other = far[1] if len(far) > 1 else far[0]  # the first is the voice itself
    return faults.rendered(inputs, style=(1 - OTHER_STYLE) * inputs.style + OTHER_STYLE * other)


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
    """The prosody's half of the style row in the decoder, of the voice that the style is nearest
    to.
    """
    half = inputs.style.shape[1]
    # [510 voices, 2 half]
    rows = torch.cat([faults.checkpoint.voice(voice)[:, 0] for voice in faults.checkpoint.voices])
    nearest = rows[(rows[:, :half] - inputs.style).norm(dim=1).argmin()]
    return faults.rendered(inputs, style=nearest[None, half:])


def _late(track: Tensor, frames: int) -> Tensor:
    """A curve [1, 2F] that many frames late, its first value held."""
    step = frames * PROSODY_PER_FRAME
    return torch.cat([track[:, :1].repeat(1, step), track[:, :-step]], dim=1)


def of_f0(faults: Faults, inputs: VocoderInputs, f0_hz: Tensor) -> np.ndarray:
    """Another F0, in the source and in the decoder."""
    return faults.rendered(inputs, f0_hz=f0_hz, spectrum=faults.source(f0_hz, faults.noise(inputs)))


def of_noise(faults: Faults, inputs: VocoderInputs, noise: np.ndarray) -> np.ndarray:
    """Another source noise."""
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
    order = torch.arange(inputs.frames)
    order[at - 3 : at + 3] = torch.cat([order[at : at + 3], order[at - 3 : at]])
    return faults.rendered(inputs, asr=inputs.asr[..., order])


def real_bins(factor: float) -> Render:
    """DC and Nyquist where they are negative: atan2 is `factor` times the pi it should be. -1:
    atan2(-0, negative); 0: the sign is lost.
    """

    def render(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
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
    frames = bucket_for(inputs.frames + 1, DEFAULT_BUCKETS)
    padded = {
        name: _padded(getattr(inputs, name), inputs.frames, frames)
        for name in ("asr", "f0_hz", "energy", "spectrum")
    }
    samples = faults.rendered(inputs, **padded)
    return samples[: len(samples) * inputs.frames // frames]


def _padded(tensor: Tensor, frames: int, wanted: int) -> Tensor:
    columns = tensor.shape[-1] // frames * (wanted - frames)
    return torch.nn.functional.pad(tensor, (0, columns))


def wrong_voice(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The style of the voice that is farthest from the right one."""
    half = faults.checkpoint.config.style_dim
    styles = [
        style_row(faults.checkpoint.voice(voice), STYLE_ROW)[:, :half]
        for voice in faults.checkpoint.voices
    ]
    return faults.rendered(
        inputs, style=max(styles, key=lambda style: float((style - inputs.style).norm()))
    )


def dropout(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """10 ms of the tail's magnitudes overflowed to zero, where the clip is loudest."""
    start, stop = dropout_columns(faults.rendered(inputs))
    return render_reference(faults.with_tail(silent=(start, stop)), inputs)


THIRTEEN = (
    Control(
        "atan2 flipped at DC",
        "mcd_db",
        real_bins(0.0),
        "Core ML's atan2(0, negative) is 0: word error rate 10.38 % until found",
    ),
    Control(
        "overlap-add factor 1.5",
        "level_db",
        of_tail(UNNORMALIZED),
        "inverse STFT without normalization, in a published port",
    ),
    Control(
        "interior bins halved",
        "band_2_4_khz_db",
        of_tail(HALVED),
        "one-sided factor lost in every bucket of a published port",
    ),
    Control(
        "DC instead of noise",
        "mcd_db",
        lambda f, x: of_noise(f, x, np.ones_like(f.noise(x))),
        "noise replaced by a constant, in a published port",
    ),
    Control(
        "mask dropped",
        "thd_n_increase_db",
        mask_dropped,
        "statistics over the padding: level moves by 3 dB in a published port",
    ),
    Control(
        "one sample shift",
        "lag_samples",
        of_tail(LATE),
        "off-by-one in a trim: not heard, but the graph is wrong",
    ),
    Control("dropout 10 ms", "click_db", dropout, "a chunk boundary or an overflow to zero"),
    Control(
        "low-pass 9 kHz",
        "lsd_db",
        of_waveform(wave.band_limited),
        "a generator stage lost; at three quarters of the voice's own band",
    ),
    Control(
        "hard clipping", "clipping_percent", of_waveform(wave.clipped), "saturating int8 range"
    ),
    Control(
        "F0 off by 3 %",
        "f0_rmse_cents",
        lambda f, x: of_f0(f, x, x.f0_hz * 1.03),
        "pitch drawn out at the wrong rate",
    ),
    Control("wrong voice", "mcd_db", wrong_voice, "style row of another pack"),
    Control(
        "seed-0 pulse train",
        "mcd_db",
        pulse_noise,
        "xorshift started at 0 stays at 0, in a published port",
    ),
    Control(
        "int4 everything",
        "pesq",
        lambda f, x: render_reference(f.int4, x),
        "every convolution in int4, one scale per channel",
    ),
)
SHIPPED = (
    Control(
        "wrong phone",
        "local_spectrum_db",
        wrong_phone,
        "75 ms of another phone: PESQ 4.30, MCD 0.19, shipped by the means alone",
    ),
    Control(
        "dipped 60 ms",
        "local_level_db",
        of_waveform(wave.dipped),
        "the loudest 60 ms 9 dB quieter: a block's scale overflowed there",
    ),
    Control(
        "negative real bin flipped",
        "mcd_db",
        real_bins(-1.0),
        "atan2(-0, negative) is -pi, in a published port",
    ),
    Control(
        "noise of seed 0 in every call",
        "lsd_db",
        noise_again,
        "a fixed seed in every call of the generator, in a published port",
    ),
    Control("phase summed in fp16", "mcd_db", half_phase, "a cumulative sum on the engine"),
    Control(
        "NaN duration",
        "local_spectrum_db",
        lost_duration,
        "compiled programs without flexible shapes gave NaN durations",
    ),
    Control("15 % of another voice", "mcd_db", other_style, "styles blended by a wrong index"),
    Control(
        "one boundary a sample late",
        "lag_samples",
        of_waveform(wave.late_from_the_middle),
        "off-by-one where two pieces are joined",
    ),
)
LATER = (
    Control("residual block dropped", "mcd_db", block_dropped, "a branch of a stage not added"),
    Control("Snake alpha doubled", "mcd_db", alpha_doubled, "a scale folded in twice"),
    Control(
        "other half of the style", "mcd_db", other_half, "columns 128 to 256 instead of 0 to 128"
    ),
    Control(
        "F0 a frame late",
        "mcd_db",
        lambda f, x: of_f0(f, x, _late(x.f0_hz, frames=1)),
        "off-by-one in the alignment of prosody",
    ),
    Control("voiced everywhere", "mcd_db", voiced_everywhere, "F0 not set to 0 where unvoiced"),
    Control(
        "noise 18 dB louder",
        "mcd_db",
        lambda f, x: of_noise(f, x, 8 * f.noise(x)),
        "uniform bits not scaled",
    ),
    Control(
        "energy two frames late",
        "mcd_db",
        lambda f, x: f.rendered(x, energy=_late(x.energy, frames=2)),
        "a track of another rate cut instead of drawn out",
    ),
    Control(
        "25 ms said twice",
        "local_spectrum_db",
        said_twice,
        "overlap counted twice where pieces are joined",
    ),
    Control(
        "three frames swapped", "local_spectrum_db", frames_swapped, "rows packed in another order"
    ),
    Control("constant added", "pause_floor_db", of_waveform(wave.offset), "a bias lost on its way"),
    Control("hum", "pause_floor_db", of_waveform(wave.hum), "the DC bin modulated"),
    Control("click in a pause", "click_db", of_waveform(wave.clicked), "one overflow"),
    Control(
        "level sways",
        "gain_variation_db",
        of_waveform(wave.swaying),
        "a scale that depends on the block: 2 dB either way",
    ),
    Control(
        "roughness, 8 % at 27 Hz",
        "roughness_percent",
        of_waveform(wave.rough),
        "a scale that changes from block to block",
    ),
    Control(
        "roughness, 3 % at 40 Hz",
        "roughness_percent",
        of_waveform(wave.trembling),
        "the same once a frame",
    ),
    Control(
        "ghost voice at -36 dB",
        "pause_peak_db",
        of_waveform(wave.haunted),
        "a buffer of another call not cleared",
    ),
    Control("echo at -20 dB", "lsd_db", of_waveform(wave.echoing), "state kept from another call"),
    Control("8 bits", "pause_floor_db", of_waveform(wave.eight_bits), "samples stored too short"),
)
CONTROLS = MappingProxyType({control.name: control for control in (*THIRTEEN, *SHIPPED, *LATER)})

HARMLESS = (
    Harmless(
        "another noise seed",
        lambda f, x: of_noise(f, x, gaussian_noise(x.frames, f.seed + UNSEEN_SEED)),
        "nobody can say which of two renders is right",
    ),
    Harmless(
        "polarity",
        of_waveform(wave.turned_over),
        "a sign cannot be heard: every metric but `polarity` turns the clip over first",
    ),
    Harmless(
        "0.3 dB quieter",
        of_waveform(wave.quieter),
        "below what a listener notices; THD+N takes the gain out, `level_db` holds it",
    ),
    Harmless(
        "0.25 ms late",
        of_waveform(wave.later),
        "not heard; PESQ and THD+N undo it, frames of 25 ms hardly see it",
        "lag_samples",
    ),
    Harmless("hiss at -70 dB", of_waveform(wave.hiss), "below the model's own noise"),
)
