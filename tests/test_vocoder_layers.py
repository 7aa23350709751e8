"""Layers of the vocoder: in fp16 at the extremes of real Kokoro's weights, so that CI needs no real weights; the inverse STFT; the source.

Every operation on fp16 tensors rounds its result once, which is what an executed package declares. Each control is the layout that failed.
The extremes are kokoro-int8's, in eight sentences of five voices.
"""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.contract import HOP_SAMPLES, N_FFT
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.export import TensorType, convert
from kokoro_ane.core.layers import AdaIN1d, Mask
from kokoro_ane.vocoder.decoder import BINS, LOUD_SCALE, QUIET_SCALE, InverseStft, hann
from kokoro_ane.vocoder.source import HarmonicSource, gaussian_noise, sine_waves
from kokoro_ane.vocoder.tiled.tiled_layers import POLYNOMIAL, Moments, Norm, PolynomialSnake, Rows, SineSnake, StyleRows, moments

SMALLEST_ALPHA = 9.48e-5  # generator.noise_res.1.alpha2.0; four alphas are negative
LARGEST_ARGUMENT = 88.0  # of sin, generator.resblocks.1.alpha2.2
SMALLEST_DEVIATION, LARGEST_RATIO = 0.0024, 117.0  # of a channel, and of its mean to that: generator.noise_res.1.adain1
LOUDEST_PEAK, LOUD_DEVIATION = 300.0, 6.5  # of a convolution's result in the last stage: 218 was seen; 256 squared is infinite
COLUMNS = 4_000
HALF_DB = 55.0


def signal(ratio: float, deviation: float, seed: int = 0) -> Tensor:
    """[1, 8, 1, S]: noise with means up to ratio deviations, in fp16."""
    means = torch.linspace(-ratio, ratio, 8).view(1, -1, 1, 1)
    noise = torch.randn(1, 8, 1, COLUMNS, generator=torch.Generator().manual_seed(seed))
    return ((noise + means) * deviation).half()


def normed(x: Tensor, scale: float, dtype: torch.dtype) -> Tensor:
    norm = AdaIN1d(4, 8, scale).to(dtype)
    torch.nn.init.zeros_(norm.fc.weight)
    norm.fc.bias.data.copy_(torch.linspace(0.5, 2.0, 16))
    return norm(x.to(dtype), torch.zeros(1, 4, 1, 1, dtype=dtype), Mask.of(torch.ones(1, 1, 1, COLUMNS, dtype=dtype)))


def snr(reference: Tensor, other: Tensor) -> float:
    return snr_db(reference.double().numpy(), other.double().numpy())


@torch.no_grad()
@pytest.mark.parametrize(
    ("ratio", "deviation", "scale"),
    [(LARGEST_RATIO, SMALLEST_DEVIATION, QUIET_SCALE), (20.0, LOUD_DEVIATION, LOUD_SCALE)],
)
def test_adain_with_real_means_and_deviations(ratio: float, deviation: float, scale: float) -> None:
    x = signal(ratio, deviation)
    assert snr(normed(x, scale, torch.float64), normed(x, scale, torch.float16)) >= HALF_DB


@torch.no_grad()
def test_control_a_rounded_mean_alone_is_too_coarse() -> None:
    x = signal(LARGEST_RATIO, SMALLEST_DEVIATION)
    centred = x - x.mean(dim=3, keepdim=True)
    plain = centred * torch.rsqrt((centred * centred).mean(dim=3, keepdim=True) + 1e-5)
    wide = x.double() - x.double().mean(dim=3, keepdim=True)
    assert snr(wide * torch.rsqrt((wide * wide).mean(dim=3, keepdim=True) + 1e-5), plain) < 45


@torch.no_grad()
def test_a_loud_convolution_does_not_overflow() -> None:
    x = signal(1.0, LOUD_DEVIATION)
    x[..., 7] = LOUDEST_PEAK
    assert normed(x, LOUD_SCALE, torch.float16).isfinite().all()
    assert not torch.isfinite((x - x.mean(dim=3, keepdim=True)).square()).all()  # control: without the scale it would


def tiled(x: Tensor, dtype: torch.dtype, found: Moments | None = None) -> Tensor:
    styles = StyleRows()
    norm = AdaIN1d(4, 8)
    torch.nn.init.zeros_(norm.fc.weight)
    norm.fc.bias.data.copy_(torch.linspace(0.5, 2.0, 16))
    layer = Norm(norm, styles)
    given = tuple(part.to(dtype) for part in styles.product()(torch.zeros(1, 4, 1, 1)))
    rows = Rows(torch.ones(1, 1, 1, COLUMNS, dtype=dtype), *torch.tensor([COLUMNS**-0.5, 1.0], dtype=dtype).view(2, 1, 1, 1, 1))
    return layer(found or moments(x.to(dtype), rows), given)


@torch.no_grad()
def test_tiled_statistics_with_real_means() -> None:
    x = signal(20.0, 0.1)
    assert snr(tiled(x, torch.float64), tiled(x, torch.float16)) >= 50
    mean, power = x.mean(dim=3, keepdim=True), x.square().mean(dim=3, keepdim=True)
    cancelled = Moments(x, mean, torch.rsqrt(torch.relu(power - mean * mean) + 1e-5))  # control: power less squared mean
    assert snr(tiled(x, torch.float64), tiled(x, torch.float16, cancelled)) < 35


def snake(z: Tensor, alpha: float) -> Tensor:
    return (z + torch.sin(z).square()) / alpha


@pytest.mark.parametrize("alpha", [SMALLEST_ALPHA, -0.02, 0.02, 1.0])
@pytest.mark.parametrize("layout", [SineSnake(), PolynomialSnake()])
def test_snake_with_real_alphas(layout: torch.nn.Module, alpha: float) -> None:
    x = torch.linspace(-7.4, 7.4, 2_001, dtype=torch.float64).view(1, 1, 1, -1)
    found = layout((x * alpha * layout.factor).half()).double() / (alpha * layout.factor)
    assert snr(snake(x * alpha, alpha), found) >= HALF_DB


def test_control_the_cosine_layout_loses_small_alphas() -> None:
    x = torch.linspace(-7.4, 7.4, 2_001, dtype=torch.float64).view(1, 1, 1, -1)
    u = (2 * SMALLEST_ALPHA * x).half()
    found = ((u - torch.cos(u)).double() + 1) / (2 * SMALLEST_ALPHA)
    assert snr(snake(x * SMALLEST_ALPHA, SMALLEST_ALPHA), found) < 20


@pytest.mark.parametrize("layout", [SineSnake(), PolynomialSnake()])
def test_snake_with_the_largest_argument(layout: torch.nn.Module) -> None:
    z = torch.linspace(-LARGEST_ARGUMENT, LARGEST_ARGUMENT, 20_001, dtype=torch.float64).view(1, 1, 1, -1)
    assert snr(snake(z, 1.0), layout((z * layout.factor).half()).double() / layout.factor) >= HALF_DB


def test_error_in_exact_arithmetic_is_below_fp16s_own() -> None:
    u = torch.linspace(-13, 13, 40_001, dtype=torch.float64).view(1, 1, 1, -1)  # the demo voice reaches 12.4
    exact = u + torch.sin(math.pi * u) ** 2 / math.pi
    assert (PolynomialSnake()(u) - exact).abs().max() < 4e-5
    assert all(float(np.float16(value)) == value for value in POLYNOMIAL)


def test_error_with_every_step_in_fp16() -> None:
    """Each tensor of fp16 tensors is rounded: no worse than the cosine form, 2.0e-4 (docs/neural-engine.md)."""
    u = torch.linspace(-1, 1, 20_001, dtype=torch.float64).half().view(1, 1, 1, -1)
    exact = u.double() + torch.sin(math.pi * u.double()) ** 2 / math.pi
    error = PolynomialSnake()(u).double() - exact
    assert error.square().mean().sqrt() < 2.2e-4


def test_it_converts_to_nine_operations() -> None:
    class Between(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.layout, self.second = torch.nn.Conv2d(4, 4, 1), PolynomialSnake(), torch.nn.Conv2d(4, 4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.layout(self.first(x)))

    sides = {"inputs": [TensorType("x", np.float32, shapes=((1, 4, 2, 8), (1, 4, 3, 8)))], "outputs": [TensorType("y", np.float32)]}
    model = convert(Between(), (torch.randn(1, 4, 2, 8),), **sides, precision="fp16", keep_fp32=(), target="iOS17")
    found = Counter(op.op_type for op in model._mil_program.functions["main"].operations)
    own = {name: count for name, count in found.items() if name not in ("const", "cast", "conv")}
    assert own == {"round": 1, "sub": 1, "mul": 4, "batch_norm": 2, "add": 1}


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
    waves = torch.from_numpy(sine_waves(np.full((1, 160), 100.0)))[0]  # [48000, 9]
    middle = waves[300:-300, 0]
    period = 240
    torch.testing.assert_close(middle[period:], middle[:-period], atol=1e-9, rtol=0)
    assert middle.abs().max() == pytest.approx(1.0, abs=1e-3)


def test_phase_stays_exact_over_30_seconds() -> None:
    """Accumulated in float64: the last second of a constant tone is as clean as the first."""
    waves = torch.from_numpy(sine_waves(np.full((1, 2400), 440.0)))[0, :, 8]
    time = torch.arange(len(waves), dtype=torch.float64) + 0.5 - 150 + 300  # phase reaches one step at the middle of the first step
    ideal = torch.sin(2 * torch.pi * 440 * 9 / 24000 * time)
    assert (waves - ideal)[150:-150].abs().max() < 1e-7


def test_noise_is_an_argument() -> None:
    source, f0_hz = HarmonicSource(np.ones(9), 0.0), np.full((1, 14), 120.0)
    one, same, other = (source.spectrum(f0_hz, gaussian_noise(7, seed)) for seed in (3, 3, 4))
    assert np.array_equal(one, same) and not np.array_equal(one, other)


def test_noise_of_another_length_is_refused() -> None:
    with pytest.raises(InputError, match="14 F0 values need"):
        HarmonicSource(np.ones(9), 0.0).spectrum(np.zeros((1, 14)), gaussian_noise(8, 0))
