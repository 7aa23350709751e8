"""Layers of the vocoder against upstream's and NumPy's, and the padded graph."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_ane.core.checkpoint import open_checkpoint
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.contract import HOP_SAMPLES, N_FFT
from kokoro_ane.core.layers import AdaIN1d, Conv, Mask, Snake
from kokoro_ane.speech.speech import check_speech
from kokoro_ane.vocoder.decoder import LOUD_SCALE, QUIET_SCALE, InverseStft, Vocoder
from kokoro_ane.vocoder.layouts import PaddedLayout
from kokoro_ane.vocoder.render import render_reference
from kokoro_ane.vocoder.scaled_conv import ScaledConv
from kokoro_ane.vocoder.source import BINS, HarmonicSource, compute_sine_waves, draw_noise, hann
from kokoro_ane.vocoder.streaming.streaming_layers import (
    POLYNOMIAL,
    PolynomialSnake,
    SineSnake,
)
from kokoro_ane.vocoder.streaming.streaming_model import (
    AffineConv,
    Folding,
    GeneratorNorm,
    GivenNorms,
    read_bias,
)
from tests.demo_voice import DEMO_VOICE

SMALLEST_ALPHA = 9.48e-5  # generator.noise_res.1.alpha2.0; four alphas are negative
LARGEST_ARGUMENT = 88.0  # of sin, generator.resblocks.1.alpha2.2
# of a channel, and of its mean to that: generator.noise_res.1.adain1
SMALLEST_DEVIATION, LARGEST_RATIO = 0.0024, 117.0
# of a convolution's result in the last stage: 218 was seen; 256 squared is infinite
LOUDEST_PEAK, LOUD_DEVIATION = 300.0, 6.5
COLUMNS = 4_000
HALF_DB = 55.0


# [1, 8, 1, S]: noise with means up to ratio deviations, in fp16
def signal(ratio, deviation, seed=0):
    means = torch.linspace(-ratio, ratio, 8).view(1, -1, 1, 1)
    noise = torch.randn(1, 8, 1, COLUMNS, generator=torch.Generator().manual_seed(seed))
    return ((noise + means) * deviation).half()


def normed(x, scale, dtype):
    norm = AdaIN1d(4, 8, scale).to(dtype)
    torch.nn.init.zeros_(norm.fc.weight)
    norm.fc.bias.data.copy_(torch.linspace(0.5, 2.0, 16))
    return norm(
        x.to(dtype),
        torch.zeros(1, 4, 1, 1, dtype=dtype),
        Mask.from_values(torch.ones(1, 1, 1, COLUMNS, dtype=dtype)),
    )


def snr(reference, other):
    return snr_db(reference.double().numpy(), other.double().numpy())


@torch.no_grad()
@pytest.mark.parametrize(
    ("ratio", "deviation", "scale"),
    [(LARGEST_RATIO, SMALLEST_DEVIATION, QUIET_SCALE), (20.0, LOUD_DEVIATION, LOUD_SCALE)],
)
def test_adain_with_real_means_and_deviations(ratio, deviation, scale):
    x = signal(ratio, deviation)
    assert snr(normed(x, scale, torch.float64), normed(x, scale, torch.float16)) >= HALF_DB


@torch.no_grad()
def test_control_a_rounded_mean_alone_is_too_coarse():
    x = signal(LARGEST_RATIO, SMALLEST_DEVIATION)
    centred = x - x.mean(dim=3, keepdim=True)
    plain = centred * torch.rsqrt((centred * centred).mean(dim=3, keepdim=True) + 1e-5)
    wide = x.double() - x.double().mean(dim=3, keepdim=True)
    assert snr(wide * torch.rsqrt((wide * wide).mean(dim=3, keepdim=True) + 1e-5), plain) < 45


@torch.no_grad()
def test_a_loud_convolution_does_not_overflow():
    x = signal(1.0, LOUD_DEVIATION)
    x[..., 7] = LOUDEST_PEAK
    assert normed(x, LOUD_SCALE, torch.float16).isfinite().all()
    # control: without the scale it would
    assert not torch.isfinite((x - x.mean(dim=3, keepdim=True)).square()).all()


def snake(z, alpha):
    return (z + torch.sin(z).square()) / alpha


class Engine16(torch.overrides.TorchFunctionMode):
    """Every result rounded to fp16, and 0 where fp16 would hold it as a subnormal."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if not isinstance(result, torch.Tensor) or not result.is_floating_point():
            return result
        with torch._C.DisableTorchFunctionSubclass():
            whole = result.half().to(result.dtype)
            return torch.where(whole.abs() < torch.finfo(torch.float16).tiny, 0.0, whole)


@torch.no_grad()
@pytest.mark.parametrize("form", [SineSnake(), PolynomialSnake()])
@pytest.mark.parametrize("alpha", [9.5e-5, 1e-3])
def test_a_small_alpha_survives_an_engine_without_subnormals(form, alpha, monkeypatch):
    """Real Kokoro has such channels; the negative control carries alpha z, and loses the channel or
    a part of it.
    """
    torch.manual_seed(0)
    conv, norm = Conv(8, 6, 3, padding=1), GeneratorNorm("", AdaIN1d(4, 8), snake_with(alpha))
    channel = torch.zeros(6, 8, 1, 3)
    channel[:, 3] = conv.weight[:, 3]
    conv.weight.data = channel  # the channel alone is heard
    x, affine = torch.randn(1, 8, 1, 256), torch.randn(16, dtype=torch.float64)

    def rendered():
        scaled_affine = (affine * norm.factor(form).repeat(2)).float().view(1, -1, 1, 1)
        made = AffineConv(norm, conv, read_bias(conv) * 0, Folding({}, form))
        with Engine16():
            rounded = made(x, GivenNorms(scaled_affine, [8]))
        return made(x, GivenNorms(scaled_affine, [8])), rounded

    assert snr(*rendered()) > 50
    monkeypatch.setattr("kokoro_ane.vocoder.streaming.streaming_layers.SMALL", 0.0)
    assert snr(*rendered()) < 40


def snake_with(alpha):  # of channel 3; 1 elsewhere
    made = Snake(8)
    made.alpha.data = torch.where(torch.arange(8) == 3, alpha, 1.0).view(1, -1, 1, 1)
    made.freeze()
    return made


@torch.no_grad()
@pytest.mark.parametrize(("alpha", "apart"), [(0.2, False), (0.05, True), (1e-4, True)])
def test_a_small_alpha_stays_out_of_the_weights(alpha, apart):
    """One channel's 1 / alpha would leave int8 weights little for the others; the negative control
    is an alpha like its neighbours'.
    """
    conv = Conv(8, 6, 3, padding=1)
    made = AffineConv(
        GeneratorNorm("", AdaIN1d(4, 8), snake_with(alpha)),
        conv,
        read_bias(conv),
        Folding({}, SineSnake()),
    )
    kernels = made.conv.weight.abs().amax(dim=(0, 2, 3)) / conv.weight.abs().amax(dim=(0, 2, 3))
    assert (made.scale is not None) == apart
    assert float(kernels[3] / kernels[0]) == pytest.approx(1.0 if apart else 1 / alpha)


@torch.no_grad()
@pytest.mark.parametrize("kind", [lambda conv: conv, ScaledConv])
def test_a_long_row_is_convolved_in_fewer_products_and_written_down_as_one_convolution(kind):
    """fp32's noise is another one: no level is nearer than 50 dB."""
    torch.manual_seed(0)
    conv = kind(Conv(64, 64, 11, padding=15, dilation=3))
    x = torch.randn(1, 64, 1, COLUMNS)
    y = conv(x)
    direct = torch.conv2d(x, conv.weight, conv.bias, 1, (0, 15), (1, 3))
    assert not torch.equal(y, direct)
    assert snr_db(direct.numpy(), y.numpy()) > 110
    graph = str(torch.jit.trace(conv, x, check_trace=False).inlined_graph)
    assert "aten::_convolution" in graph
    assert "aten::bmm" not in graph


class TestSnake:
    @pytest.mark.parametrize(
        ("alpha", "largest"),
        [(SMALLEST_ALPHA, 7.4), (-0.02, 7.4), (0.02, 7.4), (1.0, 7.4), (1.0, LARGEST_ARGUMENT)],
    )
    @pytest.mark.parametrize("form", [SineSnake(), PolynomialSnake()])
    def test_snake_with_real_alphas_and_arguments(self, form, alpha, largest):
        x = torch.linspace(-largest, largest, 20_001, dtype=torch.float64).view(1, 1, 1, -1)
        rounded = form((x * alpha * form.factor).half()).double() / (alpha * form.factor)
        assert snr(snake(x * alpha, alpha), rounded) >= HALF_DB

    def test_control_the_cosine_layout_loses_small_alphas(self):
        x = torch.linspace(-7.4, 7.4, 2_001, dtype=torch.float64).view(1, 1, 1, -1)
        u = (2 * SMALLEST_ALPHA * x).half()
        cosine_form = ((u - torch.cos(u)).double() + 1) / (2 * SMALLEST_ALPHA)
        assert snr(snake(x * SMALLEST_ALPHA, SMALLEST_ALPHA), cosine_form) < 20

    @pytest.mark.parametrize(
        ("dtype", "largest", "limit"),
        # the demo voice reaches 12.4; in fp16 no worse than the cosine form, 2.0e-4
        # (docs/devices.md)
        [(torch.float64, 13.0, 4e-5), (torch.float16, 1.0, 2.2e-4)],
    )
    def test_errors_of_the_polynomial(self, dtype, largest, limit):
        u = torch.linspace(-largest, largest, 20_001, dtype=torch.float64).to(dtype)
        u = u.view(1, 1, 1, -1)
        exact = u.double() + torch.sin(math.pi * u.double()) ** 2 / math.pi
        error = PolynomialSnake()(u).double() - exact
        worst = error.square().mean().sqrt() if dtype == torch.float16 else error.abs().max()
        assert worst < limit

    def test_the_polynomials_numbers_are_halves(self):
        assert [float(np.float16(value)) for value in POLYNOMIAL] == list(POLYNOMIAL)

    @settings(max_examples=20, deadline=None)
    @given(columns=st.integers(5, 400), extra=st.integers(0, 50), seed=st.integers(0, 99))
    def test_equals_torch_istft(self, columns, extra, seed):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(1, 2 * BINS, 1, columns + extra, generator=generator, dtype=torch.float64)
        mask = torch.ones(1, 1, 1, columns + extra, dtype=torch.float64)
        mask[..., columns:] = 0
        inside = x[:, :, 0, :columns]
        spectrum = torch.exp(inside[:, :BINS]) * torch.exp(1j * torch.sin(inside[:, BINS:]))
        expected = torch.istft(spectrum, N_FFT, HOP_SAMPLES, N_FFT, torch.from_numpy(hann()))
        waveform = InverseStft().double()(x, Mask.from_values(mask)).flatten()[: expected.shape[-1]]
        # the kernel is stored in float32
        torch.testing.assert_close(waveform, expected[0], rtol=1e-5, atol=1e-5)

    def test_phases_stay_exact_and_noise_is_an_argument(self):
        """Accumulated in float64: the last second of a constant tone is as clean as the first."""
        waves = torch.from_numpy(compute_sine_waves(np.full((1, 2400), 440.0)))[0, :, 8]
        # phase reaches one step at the middle of the first step
        time = torch.arange(len(waves), dtype=torch.float64) + 0.5 - 150 + 300
        ideal = torch.sin(2 * torch.pi * 440 * 9 / 24000 * time)
        assert (waves - ideal)[150:-150].abs().max() < 1e-7
        source, f0_hz = HarmonicSource(np.ones(9), 0.0), np.full((1, 14), 120.0)
        one, same, other = (
            source.compute_spectrum(f0_hz, draw_noise(7, seed)) for seed in (3, 3, 4)
        )
        assert np.array_equal(one, same)
        assert not np.array_equal(one, other)


def test_the_padded_graph_is_the_vocoder():
    """The demo voice's widths, in exact arithmetic."""
    checkpoint = open_checkpoint(str(DEMO_VOICE))
    vocoder, speech = Vocoder.from_checkpoint(checkpoint), check_speech(checkpoint, 140)
    layout = PaddedLayout()
    module = layout.make_module(vocoder, checkpoint.config.hidden_dim).eval()
    with torch.no_grad():
        out = module(layout.pack(speech, 180), speech.style[:, :, None, None])
    reference = render_reference(vocoder, speech)
    assert snr_db(reference, layout.join(out, 140).numpy()) >= 105
