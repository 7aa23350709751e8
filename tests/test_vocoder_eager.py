"""The layout for PyTorch is the vocoder's function: same samples at any length, frozen, and its statistics hold at 30 s."""

import copy

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.comparison import random_inputs
from bench.random_checkpoint import kokoro_config, random_vocoder, tiny_config
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.layers import StyleAffine
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.eager import EagerVocoder, last_channels, moments
from kokoro_ane.vocoder.render import render_reference


@pytest.fixture(scope="module")
def tiny() -> tuple[Vocoder, EagerVocoder, int]:
    config = KokoroConfig.from_dict(tiny_config(), "test")
    vocoder = random_vocoder(config, seed=0)
    with torch.no_grad():
        for layer in vocoder.modules():
            if isinstance(layer, StyleAffine):
                layer.bias[: layer.channels] += 1  # gains near 1, as trained ones are: every layer is heard at the end
    return vocoder, EagerVocoder(vocoder), config.hidden_dim


@settings(max_examples=6, deadline=None)
@given(frames=st.integers(2, 90))
def test_same_samples_at_any_length(tiny: tuple, frames: int) -> None:
    vocoder, fast, hidden = tiny
    x = random_inputs(vocoder, frames, hidden)
    assert snr_db(render_reference(vocoder, x), render_reference(fast, x)) >= 100


def test_thirty_seconds(tiny: tuple) -> None:
    """The frame rate itself is dealt out to groups from 1,024 frames on."""
    vocoder, fast, hidden = tiny
    x = random_inputs(vocoder, 1200, hidden)
    assert snr_db(render_reference(vocoder, x), render_reference(fast, x)) >= 100


@pytest.mark.parametrize("steps", [40, 2048])
def test_moments_of_any_layout(steps: int) -> None:
    x = torch.randn(1, 5, 1, steps, generator=torch.Generator().manual_seed(0))
    for found, expected in zip(moments(x), moments(last_channels(x)), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


def wide(vocoder: Vocoder) -> Vocoder:
    """A copy in float64; Snake freezes its quotient, in float64 then, when the mode changes."""
    return copy.deepcopy(vocoder).double().train().eval()


def test_float64_is_the_same_function(tiny: tuple) -> None:
    """What is folded is exact: only float32's rounding separates the two in the test above."""
    vocoder, _, hidden = tiny
    x = random_inputs(vocoder, 21, hidden)
    expected = render_reference(wide(vocoder), x, torch.float64)
    assert snr_db(expected, render_reference(EagerVocoder(wide(vocoder)), x, torch.float64)) >= 250


@pytest.mark.slow
def test_full_size() -> None:
    config = KokoroConfig.from_dict(kokoro_config(), "test")
    vocoder = random_vocoder(config, seed=0)
    eager = EagerVocoder(vocoder)
    for frames in (7, 40, 200):
        x = random_inputs(vocoder, frames, config.hidden_dim)
        assert snr_db(render_reference(vocoder, x), render_reference(eager, x)) >= 100, frames


@pytest.mark.parametrize(
    "name",
    [
        "encode.norm1.fc.weight",
        "encode.conv1x1.weight",
        "decode.3.pool.bias",
        "decode.3.conv2.bias",
        "F0_conv.bias",
        "asr_res.0.bias",
        "generator.ups.1.bias",
        "generator.noise_convs.0.bias",
        "generator.noise_res.1.alpha1.2.alpha",
        "generator.resblocks.5.convs2.2.bias",
        "generator.resblocks.0.adain2.1.fc.weight",
        "generator.conv_post.bias",
    ],
)
def test_every_kind_of_weight_is_heard(tiny: tuple, name: str) -> None:
    """Negative control and completeness: a weight changed in the vocoder is missed by the frozen copy and followed by a new one."""
    vocoder, _, hidden = tiny
    changed = copy.deepcopy(vocoder)
    with torch.no_grad():
        changed.get_parameter(name).mul_(1.3).add_(0.01)
    x = random_inputs(vocoder, 9, hidden)
    expected, old, new = (
        render_reference(layout, x, torch.float64) for layout in (wide(changed), EagerVocoder(wide(vocoder)), EagerVocoder(wide(changed)))
    )
    assert snr_db(expected, old) < 150
    assert snr_db(expected, new) >= 250


@pytest.mark.parametrize("steps", [2, 31, 1023, 1024, 1600, 9601])
def test_moments(steps: int) -> None:
    torch.manual_seed(steps)
    x = last_channels(torch.randn(1, 6, 1, steps) * 2 + 5)
    mean, variance = moments(x)
    exact = x.double().flatten(1).view(6, steps)
    torch.testing.assert_close(mean.double(), exact.mean(1), rtol=3e-6, atol=0)
    torch.testing.assert_close(variance.double(), exact.var(1, correction=0), rtol=2e-5, atol=0)


def test_moments_hold_at_thirty_seconds() -> None:
    """Control: PyTorch's own statistics for channels last lose 30 dB there."""
    torch.manual_seed(0)
    x = last_channels(torch.randn(1, 4, 1, 144_001) + 1)
    expected = F.instance_norm(x.double()).numpy()
    assert snr_db(expected, F.batch_norm(x, *moments(x), eps=1e-5).numpy()) >= 130
    assert snr_db(expected, F.batch_norm(x, None, None, training=True).numpy()) < 115


def test_inputs_are_left_alone(tiny: tuple) -> None:
    """Work in place stays inside."""
    vocoder, fast, hidden = tiny
    x = random_inputs(vocoder, 12, hidden)
    before = {name: getattr(x, name).clone() for name in ("asr", "f0_hz", "energy", "style", "spectrum")}
    first = render_reference(fast, x)
    assert all(torch.equal(getattr(x, name), value) for name, value in before.items())
    assert (first == render_reference(fast, x)).all()
