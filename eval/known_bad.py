"""The known-bad controls: errors that ports of this model really shipped, or that the gates claim to catch. Thirteen of them stand here.

    CONTROLS["mask dropped"].render(faults, inputs)   # [600 F] float32

Errors of the model are injected into the PyTorch vocoder (its source, style, mask, weights or inverse STFT); only clipping and the low-pass
are done to the waveform. A gate that rejects nothing proves nothing: `python -m eval.controls` runs them all.
"""

from dataclasses import replace
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from core.contract import DEFAULT_BUCKETS, N_FFT, SAMPLE_RATE_HZ, bucket_for
from eval.broken_tail import HALVED, LATE, UNNORMALIZED, dropout_columns
from eval.damage import clipped, low_pass
from eval.faults import Control, Faults
from eval.later_errors import LATER
from eval.shipped_errors import SHIPPED
from quantize.features import style_for
from vocoder.package import render_reference
from vocoder.packing import VocoderInputs
from vocoder.source import gaussian_noise

DC_BIN, NYQUIST_BIN = 0, N_FFT // 2
PULSE_STEP_SAMPLES = 240  # 10 ms between the pulses of a generator that is stuck
STYLE_ROW = 60  # phonemes: the row of another voice that the wrong voice takes
EMPTY_BAND_DB = -50.0  # as eval.metrics.spectral counts a band empty


def flipped_at_dc(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """atan2(0, negative) = 0 instead of pi: the real bins, DC and Nyquist, lose their sign."""
    spectrum = inputs.spectrum.clone()
    for real in (DC_BIN, NYQUIST_BIN):
        phase = spectrum[:, N_FFT // 2 + 1 + real]
        phase[phase.abs() > torch.pi / 2] = 0.0
    return render_reference(faults.vocoder, replace(inputs, spectrum=spectrum))


def constant_noise(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The constant 1, the noise's standard deviation, in place of noise."""
    noise = torch.ones_like(gaussian_noise(inputs.frames, faults.seed))
    return render_reference(faults.vocoder, replace(inputs, spectrum=faults.source(inputs.f0_hz, noise)))


def pulse_noise(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """A generator whose state is stuck at zero: one pulse each 10 ms, of the noise's power, in place of noise."""
    noise = torch.zeros_like(gaussian_noise(inputs.frames, faults.seed))
    noise[:, ::PULSE_STEP_SAMPLES] = PULSE_STEP_SAMPLES**0.5
    return render_reference(faults.vocoder, replace(inputs, spectrum=faults.source(inputs.f0_hz, noise)))


def mask_dropped(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """Padded to its bucket without the prefix mask: normalizations and convolutions see the padding."""
    frames = bucket_for(inputs.frames + 1, DEFAULT_BUCKETS)
    padded = {name: _padded(getattr(inputs, name), inputs.frames, frames) for name in ("asr", "f0_hz", "energy", "spectrum")}
    samples = render_reference(faults.vocoder, replace(inputs, **padded))
    return samples[: len(samples) * inputs.frames // frames]


def _padded(tensor: Tensor, frames: int, wanted: int) -> Tensor:
    columns = tensor.shape[-1] // frames * (wanted - frames)
    return torch.nn.functional.pad(tensor, (0, columns))


def detuned(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """F0 3 % too high, in the source and in the decoder."""
    f0_hz = inputs.f0_hz * 1.03
    return render_reference(
        faults.vocoder, replace(inputs, f0_hz=f0_hz, spectrum=faults.source(f0_hz, gaussian_noise(inputs.frames, faults.seed)))
    )


def wrong_voice(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The style of the voice that is farthest from the right one."""
    styles = [style_for(faults.checkpoint, voice, STYLE_ROW) for voice in faults.checkpoint.voices]
    return render_reference(faults.vocoder, replace(inputs, style=max(styles, key=lambda style: float((style - inputs.style).norm()))))


def int4_weights(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """Every convolution in int4."""
    return render_reference(faults.int4, inputs)


def unnormalized(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The inverse STFT without its overlap-add normalization."""
    return render_reference(faults.with_tail(fault=UNNORMALIZED), inputs)


def halved(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The inverse STFT without its one-sided factor."""
    return render_reference(faults.with_tail(fault=HALVED), inputs)


def late(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """The inverse STFT trimmed one sample too early."""
    return render_reference(faults.with_tail(fault=LATE), inputs)


def dropout(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """10 ms of the tail's magnitudes overflowed to zero, where the clip is loudest."""
    start, stop = dropout_columns(render_reference(faults.vocoder, inputs))
    return render_reference(faults.with_tail(silent=(start, stop)), inputs)


def band_limited(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """A low-pass at 9 kHz of 12; for a voice that is itself band-limited, at the same three quarters of the band it has."""
    signal = render_reference(faults.vocoder, inputs).astype(np.float64)
    return low_pass(signal, 0.75 * bandwidth_hz(signal)).astype(np.float32)


def bandwidth_hz(signal: np.ndarray) -> float:
    """Upper edge of the highest 1 kHz band within 50 dB of the whole energy."""
    energy, hz = np.square(np.abs(np.fft.rfft(signal))), np.fft.rfftfreq(len(signal), 1 / SAMPLE_RATE_HZ)
    bands = np.array([energy[(hz >= low) & (hz < low + 1000)].sum() for low in range(0, SAMPLE_RATE_HZ // 2, 1000)])
    return 1000.0 * float(1 + np.flatnonzero(bands >= energy.sum() * 10 ** (EMPTY_BAND_DB / 10)).max())


def hard_clipped(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
    """Everything above half the peak cut off."""
    return clipped(render_reference(faults.vocoder, inputs))


THIRTEEN = (
    Control(
        "atan2 flipped at DC", "mcd_db", flipped_at_dc, "Core ML's atan2(0, negative) is 0: word error rate 10.38 % until it was found"
    ),
    Control("overlap-add factor 1.5", "level_db", unnormalized, "inverse STFT without normalization, in a published port"),
    Control("interior bins halved", "band_2_4_khz_db", halved, "one-sided factor lost in every bucket of a published port"),
    Control("DC instead of noise", "mcd_db", constant_noise, "noise replaced by a constant, in a published port"),
    Control(
        "mask dropped",
        "thd_n_increase_db",
        mask_dropped,
        "normalization statistics over the padding: level moves by 3 dB in a published port",
    ),
    Control("one sample shift", "lag_samples", late, "off-by-one in a trim: not heard, but the graph is wrong"),
    Control("dropout 10 ms", "jump_db", dropout, "a chunk boundary or an overflow to zero"),
    Control(
        "low-pass 9 kHz",
        "lsd_db",
        band_limited,
        "a generator stage lost; cut at three quarters of the band the voice has, 6 kHz of the demo voice's 8",
    ),
    Control("hard clipping", "clipping_percent", hard_clipped, "saturating int8 range"),
    Control("F0 off by 3 %", "f0_rmse_cents", detuned, "pitch drawn out at the wrong rate"),
    Control("wrong voice", "mcd_db", wrong_voice, "style row of another pack"),
    Control("seed-0 pulse train", "mcd_db", pulse_noise, "xorshift started at 0 stays at 0, in a published port"),
    Control("int4 everything", "pesq", int4_weights, "every convolution in int4, one scale per channel"),
)
CONTROLS = MappingProxyType({control.name: control for control in (*THIRTEEN, *SHIPPED, *LATER)})
