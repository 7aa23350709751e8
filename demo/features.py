"""What the vocoder is conditioned on, measured on a recording: pitch and energy, 80 values a second.

    audio = to_frames(resampled(recording, 16_000), frames)
    f0_hz, energy = pitch_hz(audio, VoiceRange(120, 350)), log_energy(audio)

Value i of both belongs to the middle of samples 300 i to 300 i + 299 at 24 kHz.
"""

from dataclasses import dataclass

import numpy as np
from scipy.signal import resample_poly

from core.contract import FRAME_SAMPLES, PROSODY_PER_FRAME, SAMPLE_RATE_HZ

STEP_SAMPLES = FRAME_SAMPLES // PROSODY_PER_FRAME
FFT_SAMPLES, WINDOW_SAMPLES, MEL_CHANNELS, POWER_FLOOR = 2048, 1200, 80, 1e-5
MEL_SCALE_RATE_HZ = 16_000  # StyleTTS2 leaves torchaudio's default: 80 HTK filters spread over all bins as if Nyquist were 8 kHz


@dataclass(frozen=True)
class VoiceRange:
    """Where a voice's F0 is searched."""

    lowest_hz: float
    highest_hz: float


VOICE_RANGES = {"slt": VoiceRange(100.0, 350.0), "rms": VoiceRange(60.0, 220.0), "awb": VoiceRange(70.0, 260.0)}


def resampled(audio: np.ndarray, rate_hz: int, target_hz: int = SAMPLE_RATE_HZ) -> np.ndarray:
    """Polyphase resampling, float64 [samples]."""
    common = np.gcd(rate_hz, target_hz)
    return resample_poly(audio.astype(np.float64), target_hz // common, rate_hz // common)


def to_frames(audio: np.ndarray, frames: int) -> np.ndarray:
    """Cut or zero-pad [samples] to [600 F]."""
    wanted = frames * FRAME_SAMPLES
    return np.pad(audio[:wanted], (0, max(0, wanted - len(audio))))


def pitch_hz(audio: np.ndarray, search: VoiceRange) -> np.ndarray:
    """F0 [2F] in Hz by Praat's autocorrelation, 0 where unvoiced."""
    import parselmouth

    sound = parselmouth.Sound(audio.astype(np.float64), sampling_frequency=SAMPLE_RATE_HZ)
    pitch = sound.to_pitch_ac(time_step=STEP_SAMPLES / SAMPLE_RATE_HZ, pitch_floor=search.lowest_hz, pitch_ceiling=search.highest_hz)
    middles_seconds = (np.arange(len(audio) // STEP_SAMPLES) + 0.5) * STEP_SAMPLES / SAMPLE_RATE_HZ
    values = np.array([pitch.get_value_at_time(t) for t in middles_seconds])  # nan where unvoiced
    return np.nan_to_num(values, nan=0.0).astype(np.float32)


def log_energy(audio: np.ndarray) -> np.ndarray:
    """Kokoro's N, [2F]: ln of the L2 norm over 80 mel channels of (power + 1e-5); 1200-sample Hann window, 2048-point FFT."""
    windows = _windows(audio)  # [2F, 1200]
    power = np.abs(np.fft.rfft(windows, FFT_SAMPLES, axis=1)) ** 2  # [2F, 1025]
    mel = power @ mel_filters() + POWER_FLOOR  # [2F, 80]
    return np.log(np.linalg.norm(mel, axis=1)).astype(np.float32)


def mel_filters() -> np.ndarray:
    """Triangular HTK filters [1025, 80], peak 1 (torchaudio.functional.melscale_fbanks, norm=None)."""
    bins_hz = np.linspace(0, MEL_SCALE_RATE_HZ / 2, FFT_SAMPLES // 2 + 1)
    top_mel = 2595 * np.log10(1 + MEL_SCALE_RATE_HZ / 2 / 700)
    edges_hz = 700 * (10 ** (np.linspace(0, top_mel, MEL_CHANNELS + 2) / 2595) - 1)
    rising = (bins_hz[:, None] - edges_hz[:-2]) / np.diff(edges_hz)[:-1]
    falling = (edges_hz[2:] - bins_hz[:, None]) / np.diff(edges_hz)[1:]
    return np.maximum(0, np.minimum(rising, falling))


def _windows(audio: np.ndarray) -> np.ndarray:
    """Hann-weighted windows [2F, 1200] around the middle of every step, zeros beyond the ends."""
    half = (WINDOW_SAMPLES - STEP_SAMPLES) // 2
    view = np.lib.stride_tricks.sliding_window_view(np.pad(audio, half), WINDOW_SAMPLES)[::STEP_SAMPLES]
    return view * np.hanning(WINDOW_SAMPLES + 1)[:-1]
