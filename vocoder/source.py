"""The harmonic source in NumPy float64: F0 and noise to the spectrum that every runtime's vocoder
reads, with or without PyTorch.

    noise = draw_noise(frames=80, seed=0)                               # [1, 48000, 9]
    source = HarmonicSource.from_manifest(manifest.source)
    spectrum = source.compute_spectrum(f0_hz, noise)                        # [1, 22, 9601]

Upstream (SineGen, SourceModuleHnNSF) draws random numbers three times. The initial phase is added
to the first 24 kHz sample, which its linear 1/300 interpolation never reads, and the last draw is
returned unused. So only one draw can be heard, the sine noise, and it is an argument here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_ane.core import (
    FRAME_SAMPLES,
    HARMONICS,
    HOP_SAMPLES,
    N_FFT,
    PROSODY_PER_FRAME,
    SAMPLE_RATE_HZ,
    InputError,
)

SINE_AMPLITUDE, VOICED_NOISE, VOICED_ABOVE_HZ = 0.1, 0.003, 10.0
STEP_SAMPLES = FRAME_SAMPLES // PROSODY_PER_FRAME  # 300 samples to one F0 value
_BLOCK = 16  # of Box-Muller, in PyTorch's order: eight radii, then eight angles
# Hann, periodic, as PyTorch rounds it to float32 and upstream uses it. In column 0 the frame is
# symmetric, so the sign of a phase (+-pi) depends on these roundings: they are written down instead
# of computed.
WINDOW = (
    0.0,
    0.02447173,
    0.0954915,
    0.20610738,
    0.34549153,
    0.5,
    0.65450853,
    0.7938926,
    0.9045085,
    0.9755283,
    1.0,
    0.97552824,
    0.9045085,
    0.7938925,
    0.65450853,
    0.5,
    0.34549144,
    0.20610726,
    0.09549138,
    0.02447173,
)


BINS = N_FFT // 2 + 1


def hann() -> np.ndarray:
    """The window [20] before it is rounded: periodic Hann in float64."""
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(N_FFT) / N_FFT)


def make_synthesis_basis() -> np.ndarray:
    """The windowed inverse real DFT [22, 20] in float32: rows of cosines, then of sines, scaled by
    2 / 20, and by 1 / 20 at DC and Nyquist.
    """
    angle = 2 * np.pi * np.arange(BINS)[:, None] * np.arange(N_FFT) / N_FFT  # [11, 20]
    one_sided = np.full((BINS, 1), 2 / N_FFT)
    one_sided[[0, -1]] = 1 / N_FFT
    basis = np.concatenate([one_sided * np.cos(angle), -one_sided * np.sin(angle)])  # [22, 20]
    basis[[BINS, -1]] = 0.0  # DC and Nyquist have no imaginary part
    return (basis * hann()).astype(np.float32)


def draw_noise(frames: int, seed: int) -> np.ndarray:
    """Standard normal noise [1, 600F, 9] in float32 from a seed: the only randomness in the
    vocoder. It equals torch.randn's to 150 dB.

    MT19937 is seeded with the low 32 bits and gives 24 bits a number; Box-Muller takes blocks of
    16. Where fewer than 16 numbers remain, the last block is drawn anew.
    """
    count = frames * FRAME_SAMPLES * HARMONICS
    rest = count % _BLOCK
    stream = np.random.RandomState(seed & 0xFFFFFFFF)
    bits = stream.randint(0, 1 << 32, size=count + (_BLOCK if rest else 0), dtype=np.uint32)
    # 24 bits, as many as float32 holds
    uniform = (bits & 0xFFFFFF).astype(np.float32) * np.float32(2.0**-24)
    drawn = _box_muller(uniform[: count - rest])
    if rest:
        # The last 16 are drawn anew, although the first of them were drawn before.
        drawn = np.concatenate([drawn[: count - _BLOCK], _box_muller(uniform[count:])])
    return drawn.reshape(1, frames * FRAME_SAMPLES, HARMONICS)


def _box_muller(uniform: np.ndarray) -> np.ndarray:
    """[16n] in [0, 1) -> [16n] standard normal."""
    blocks = uniform.reshape(-1, _BLOCK)
    # 1 - u lies in (0, 1], so that its logarithm is finite.
    radius = np.sqrt(np.float32(-2) * np.log(1 - blocks[:, : _BLOCK // 2]))
    angle = np.float32(2 * np.pi) * blocks[:, _BLOCK // 2 :]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()


def compute_sine_waves(f0_hz: np.ndarray) -> np.ndarray:
    """Sines of F0 and its overtones in float64. f0_hz [B, 2F] -> [B, 600F, 9].

    The phase is a running sum at the F0 rate, interpolated linearly between the middles of the
    300-sample steps and constant at both ends (upstream: F.interpolate(linear, align_corners=False)
    down and up). There is no modulo.
    """
    # [B, 2F] cycles of the fundamental
    cycles = np.cumsum(f0_hz.astype(np.float64) * (STEP_SAMPLES / SAMPLE_RATE_HZ), axis=1)
    last = cycles.shape[1] - 1
    # In steps: sample n lies at (n + 0.5) / 300 - 0.5, between two middles.
    place = np.clip((np.arange(STEP_SAMPLES * (last + 1)) + 0.5) / STEP_SAMPLES - 0.5, 0, last)
    low = np.floor(place).astype(np.int64)
    share = place - low
    phase = (1 - share) * cycles[:, low] + share * cycles[:, np.minimum(low + 1, last)]  # [B, 600F]
    return np.sin(2 * np.pi * phase[..., None] * np.arange(1, HARMONICS + 1))


def compute_stft(excitation: np.ndarray) -> np.ndarray:
    """The STFT of an excitation [B, 600F] in float64, reflected at both ends: 11 magnitudes and 11
    phases (rad), [B, 22, 120F + 1].
    """
    edged = np.pad(excitation, ((0, 0), (N_FFT // 2, N_FFT // 2)), mode="reflect")
    # [B, 120F + 1, 20]
    columns = np.lib.stride_tricks.sliding_window_view(edged, N_FFT, axis=1)[:, ::HOP_SAMPLES]
    window = np.array(WINDOW, np.float32).astype(np.float64)
    stft = np.fft.rfft(columns * window, axis=2).transpose(0, 2, 1)  # [B, 11, 120F + 1]
    return np.concatenate([np.abs(stft), np.angle(stft)], axis=1)


@dataclass(frozen=True, eq=False)
class HarmonicSource:
    """Computes the spectrum from F0 and noise. The ten weights are the checkpoint's, upstream's
    `m_source.l_linear`: weights [9] and a bias that merge the sines.
    """

    weights: np.ndarray
    bias: float

    @classmethod
    def from_manifest(cls, source: Mapping[str, Any]) -> "HarmonicSource":
        """The source that a vocoder's manifest describes. Raises InputError for NaN or infinity;
        ValueError, TypeError for anything that is not ten numbers.
        """
        weights = np.array(source["weights"], np.float32).reshape(HARMONICS)
        bias = float(source["bias"])
        if not (np.isfinite(weights).all() and np.isfinite(bias)):
            raise InputError("the weights of the harmonic source hold NaN or infinity")
        return cls(weights, bias)

    def compute_excitation(self, f0_hz: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """f0_hz [B, 2F], 0 where unvoiced; noise [B, 600F, 9] standard normal -> excitation [B,
        600F] in float64.
        """
        expected_shape = (f0_hz.shape[0], f0_hz.shape[1] * STEP_SAMPLES, HARMONICS)
        if noise.shape != expected_shape:
            raise InputError(
                f"noise has shape {list(noise.shape)}, but {f0_hz.shape[1]} F0 values need"
                f" {list(expected_shape)}"
            )
        voiced = np.repeat(f0_hz > VOICED_ABOVE_HZ, STEP_SAMPLES, axis=1)  # [B, 600F]
        voiced = voiced[..., None].astype(np.float64)  # [B, 600F, 1]
        # A voiced sample has a little noise; an unvoiced one is noise alone.
        level = voiced * VOICED_NOISE + (1 - voiced) * SINE_AMPLITUDE / 3
        # [B, 600F, 9]
        waves = compute_sine_waves(f0_hz) * SINE_AMPLITUDE * voiced + level * noise.astype(
            np.float64
        )
        # one merged value a sample, [B, 600F]
        return np.tanh(waves @ self.weights.astype(np.float64) + np.float64(self.bias))

    def compute_spectrum(self, f0_hz: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """f0_hz [B, 2F], noise [B, 600F, 9] -> harmonic spectrum [B, 22, 120F + 1] in float64."""
        return compute_stft(self.compute_excitation(f0_hz, noise))
