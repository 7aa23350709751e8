"""Layers in fp16 at the extremes of real Kokoro's weights (kokoro-int8, eight sentences, five voices), so that CI needs no real weights.

Every operation on fp16 tensors rounds its result once, which is what an executed package declares. Each control is the form that failed.
"""

import pytest
import torch
from torch import Tensor

from core.figures import snr_db
from core.layers import AdaIN1d, Mask
from vocoder.generator import LOUD_SCALE, QUIET_SCALE
from vocoder.windowed.layers import Moments, Norm, PolynomialSnake, Rows, SineSnake, StyleRows, moments

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


def windowed(x: Tensor, dtype: torch.dtype, found: Moments | None = None) -> Tensor:
    styles = StyleRows()
    norm = AdaIN1d(4, 8)
    torch.nn.init.zeros_(norm.fc.weight)
    norm.fc.bias.data.copy_(torch.linspace(0.5, 2.0, 16))
    layer = Norm(norm, styles)
    given = tuple(part.to(dtype) for part in styles.product()(torch.zeros(1, 4, 1, 1)))
    rows = Rows(torch.ones(1, 1, 1, COLUMNS, dtype=dtype), *torch.tensor([COLUMNS**-0.5, 1.0], dtype=dtype).view(2, 1, 1, 1, 1))
    return layer(found or moments(x.to(dtype), rows), given)


@torch.no_grad()
def test_windowed_statistics_with_real_means() -> None:
    x = signal(20.0, 0.1)
    assert snr(windowed(x, torch.float64), windowed(x, torch.float16)) >= 50
    mean, power = x.mean(dim=3, keepdim=True), x.square().mean(dim=3, keepdim=True)
    cancelled = Moments(x, mean, torch.rsqrt(torch.relu(power - mean * mean) + 1e-5))  # control: power less squared mean
    assert snr(windowed(x, torch.float64), windowed(x, torch.float16, cancelled)) < 35


def snake(z: Tensor, alpha: float) -> Tensor:
    return (z + torch.sin(z).square()) / alpha


@pytest.mark.parametrize("alpha", [SMALLEST_ALPHA, -0.02, 0.02, 1.0])
@pytest.mark.parametrize("form", [SineSnake(), PolynomialSnake()])
def test_snake_with_real_alphas(form: torch.nn.Module, alpha: float) -> None:
    x = torch.linspace(-7.4, 7.4, 2_001, dtype=torch.float64).view(1, 1, 1, -1)
    found = form((x * alpha * form.factor).half()).double() / (alpha * form.factor)
    assert snr(snake(x * alpha, alpha), found) >= HALF_DB


def test_control_the_cosine_form_loses_small_alphas() -> None:
    x = torch.linspace(-7.4, 7.4, 2_001, dtype=torch.float64).view(1, 1, 1, -1)
    u = (2 * SMALLEST_ALPHA * x).half()
    found = ((u - torch.cos(u)).double() + 1) / (2 * SMALLEST_ALPHA)
    assert snr(snake(x * SMALLEST_ALPHA, SMALLEST_ALPHA), found) < 20


@pytest.mark.parametrize("form", [SineSnake(), PolynomialSnake()])
def test_snake_with_the_largest_argument(form: torch.nn.Module) -> None:
    z = torch.linspace(-LARGEST_ARGUMENT, LARGEST_ARGUMENT, 20_001, dtype=torch.float64).view(1, 1, 1, -1)
    assert snr(snake(z, 1.0), form((z * form.factor).half()).double() / form.factor) >= HALF_DB
