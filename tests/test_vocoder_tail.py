"""The tail against torch.istft, and the source's parts."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.contract import HOP_SAMPLES, N_FFT
from core.errors import InputError
from core.layers import Mask
from vocoder.istft import BINS, InverseStft, hann
from vocoder.source import HarmonicSource, gaussian_noise, sine_waves


@settings(max_examples=20, deadline=None)
@given(columns=st.integers(5, 400), extra=st.integers(0, 50), seed=st.integers(0, 99))
def test_equals_torch_istft(columns: int, extra: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(1, 2 * BINS, 1, columns + extra, generator=generator, dtype=torch.float64)
    mask = torch.ones(1, 1, 1, columns + extra, dtype=torch.float64)
    mask[..., columns:] = 0
    inside = x[:, :, 0, :columns]
    spectrum = torch.exp(inside[:, :BINS]) * torch.exp(1j * torch.sin(inside[:, BINS:]))
    expected = torch.istft(spectrum, N_FFT, HOP_SAMPLES, N_FFT, hann())
    found = InverseStft().double()(x, Mask.of(mask)).flatten()[: expected.shape[-1]]
    torch.testing.assert_close(found, expected[0], rtol=1e-5, atol=1e-5)  # the kernel is stored in float32


def test_sine_waves_are_sines() -> None:
    waves = sine_waves(torch.full((1, 160), 100.0))[0]  # [48000, 9]
    middle = waves[300:-300, 0]
    period = 240
    torch.testing.assert_close(middle[period:], middle[:-period], atol=1e-9, rtol=0)
    assert middle.abs().max() == pytest.approx(1.0, abs=1e-3)


def test_phase_stays_exact_over_30_seconds() -> None:
    """Accumulated in float64: the last second of a constant tone is as clean as the first."""
    waves = sine_waves(torch.full((1, 2400), 440.0))[0, :, 8]
    time = torch.arange(len(waves), dtype=torch.float64) + 0.5 - 150 + 300  # phase reaches one step at the middle of the first step
    ideal = torch.sin(2 * torch.pi * 440 * 9 / 24000 * time)
    assert (waves - ideal)[150:-150].abs().max() < 1e-7


def test_noise_is_an_argument() -> None:
    source, f0_hz = HarmonicSource(), torch.full((1, 14), 120.0)
    one, same, other = (source(f0_hz, gaussian_noise(7, seed)) for seed in (3, 3, 4))
    assert torch.equal(one, same) and not torch.equal(one, other)


def test_noise_of_another_length_is_refused() -> None:
    with pytest.raises(InputError, match="14 F0 values need"):
        HarmonicSource()(torch.zeros(1, 14), gaussian_noise(8, 0))
