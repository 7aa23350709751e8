"""Renders to compare: upstream against ours, exact length against padded. Parity bench and parity tests share these.

theirs, ours = both_renders(upstream, vocoder, frames=40, dtype=torch.float64)
"""

from pathlib import Path

import numpy as np
import torch

from bench.upstream import injected_noise
from core.contract import COLUMNS_PER_FRAME, FRAME_SAMPLES
from core.layers import Mask
from vocoder.decoder import Vocoder
from vocoder.packing import VocoderInputs
from vocoder.source import gaussian_noise

STYLES = Path(__file__).parent / "data" / "kokoro_styles.npz"


def real_style(index: int) -> torch.Tensor:
    """The decoder's half of one of six real Kokoro voices: [1, 128]."""
    with np.load(STYLES) as styles:
        return torch.from_numpy(styles[sorted(styles)[index % len(styles)]][None, :128])


def random_features(frames: int, hidden: int) -> dict[str, torch.Tensor]:
    """Speech-like ranges: unvoiced for the first third, F0 80 to 280 Hz after it, the style of a real Kokoro voice."""
    generator = torch.Generator().manual_seed(frames)
    f0_hz = torch.rand(1, 2 * frames, generator=generator) * 200 + 80
    f0_hz[:, : 2 * frames // 3] = 0
    return {
        "asr": torch.randn(1, hidden, frames, generator=generator),
        "f0_hz": f0_hz,
        "energy": torch.randn(1, 2 * frames, generator=generator),
        "style": real_style(frames),
    }


def random_inputs(vocoder: Vocoder, frames: int, hidden: int) -> VocoderInputs:
    """The same with the spectrum of the vocoder's own source, noise from seed 0."""
    features = random_features(frames, hidden)
    spectrum = vocoder.generator.m_source.spectrum(features["f0_hz"], gaussian_noise(frames, seed=0))
    return VocoderInputs(**features, spectrum=spectrum)


@torch.no_grad()
def both_renders(
    upstream: torch.nn.Module, vocoder: Vocoder, hidden: int, frames: int, dtype: torch.dtype
) -> tuple[np.ndarray, np.ndarray]:
    """Upstream's and our waveform [600F] in `dtype`, the same noise injected into both."""
    x = {name: value.to(dtype) for name, value in random_features(frames, hidden).items()}
    noise = gaussian_noise(frames, seed=1)
    upstream, vocoder = upstream.to(dtype), vocoder.to(dtype)
    with injected_noise(noise):
        theirs = upstream(x["asr"], x["f0_hz"].clone(), x["energy"], x["style"])
    spectrum = vocoder.generator.m_source(x["f0_hz"], noise).to(dtype)
    asr, f0, energy = x["asr"][:, :, None], x["f0_hz"][:, None, None], x["energy"][:, None, None]
    return theirs.flatten().numpy(), vocoder(asr, f0, energy, x["style"][:, :, None, None], spectrum).flatten().numpy()


@torch.no_grad()
def padded_render(vocoder: Vocoder, x: VocoderInputs, bucket: int, masked: bool = True) -> np.ndarray:
    """Render in `bucket` frames with noise five times as loud as the features in the padding: [600F]."""
    extra = bucket - x.frames
    generator = torch.Generator().manual_seed(bucket)

    def fill(tensor: torch.Tensor, length: int) -> torch.Tensor:
        return torch.cat([tensor, 5 * torch.randn(*tensor.shape[:-1], length, generator=generator)], dim=-1)

    mask = torch.ones(1, 1, 1, bucket)
    mask[..., x.frames :] = 0 if masked else 1
    asr, f0, energy = fill(x.asr[:, :, None], extra), fill(x.f0_hz[:, None, None], 2 * extra), fill(x.energy[:, None, None], 2 * extra)
    spectrum = fill(x.spectrum[:, :, None], COLUMNS_PER_FRAME * extra)
    return vocoder(asr, f0, energy, x.style[:, :, None, None], spectrum, Mask.of(mask)).flatten()[: FRAME_SAMPLES * x.frames].numpy()
