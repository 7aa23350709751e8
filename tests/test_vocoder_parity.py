"""The PyTorch vocoder against upstream's unmodified decoder: full size, random weights, real voice styles, the same injected noise."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch

from bench.comparison import both_renders, upstream_decoder
from bench.random_checkpoint import kokoro_config
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.layers import upstream_state
from kokoro_ane.vocoder.decoder import Vocoder


@pytest.fixture(scope="module")
def pair() -> tuple[torch.nn.Module, Vocoder, KokoroConfig]:
    config = KokoroConfig.from_dict(kokoro_config(), "test")
    upstream = upstream_decoder(config, seed=0)
    vocoder = Vocoder(config)
    vocoder.load_state_dict(upstream.state_dict())
    return upstream, vocoder.eval(), config


@pytest.fixture(scope="module")
def exact(pair: tuple) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """Both renders of that many frames in float64, each made once."""
    return cache(lambda frames: both(pair, frames, torch.float64))


def both(pair: tuple, frames: int, dtype: torch.dtype) -> tuple[np.ndarray, np.ndarray]:
    upstream, vocoder, config = pair
    return both_renders(upstream, vocoder, config.hidden_dim, frames, dtype)


@pytest.mark.parametrize("frames", [7, 40, pytest.param(240, marks=pytest.mark.slow)])
def test_float64_parity(exact: Callable, frames: int) -> None:
    theirs, ours = exact(frames)
    assert theirs.shape == ours.shape == (600 * frames,)
    assert theirs.std() > 0.01
    assert snr_db(theirs, ours) >= 90


@pytest.mark.parametrize("frames", [40, pytest.param(240, marks=pytest.mark.slow)])
def test_float32_is_within_upstreams_own_rounding(pair: tuple, exact: Callable, frames: int) -> None:
    wanted, _ = exact(frames)
    theirs, ours = both(pair, frames, torch.float32)
    assert snr_db(wanted, ours) >= snr_db(wanted, theirs)


def test_initial_phase_is_inaudible_upstream(pair: tuple) -> None:
    """Upstream adds its random initial phase to the one sample that the 1/300 interpolation never reads."""
    upstream, _, _ = pair
    f0_hz = torch.full((1, 24 * 300, 1), 120.0, dtype=torch.float64)
    sine = upstream.generator.m_source.l_sin_gen
    waves, rand = [], torch.rand
    for phase in (0.0, 0.61):
        torch.rand = lambda *shape, phase=phase, **_: torch.full(shape, phase)
        try:
            waves.append(sine._f02sine(f0_hz * torch.arange(1, 10)))
        finally:
            torch.rand = rand
    assert torch.equal(*waves)


def test_upstream_state_round_trip(pair: tuple) -> None:
    """Every load hook is undone exactly: the keys are upstream's, and loading them again gives the same weights."""
    upstream, vocoder, config = pair
    state = upstream_state(vocoder.float())
    optional = {key for key in upstream.state_dict() if key.endswith(("norm.weight", "norm.bias"))}
    assert set(state) == set(upstream.state_dict()) - optional
    again = Vocoder(config)
    again.load_state_dict(state)
    for key, value in again.state_dict().items():
        torch.testing.assert_close(value, vocoder.state_dict()[key], rtol=0, atol=2e-7)


def test_instance_norm_affine_is_folded(pair: tuple) -> None:
    """A checkpoint that has upstream's norm.weight and norm.bias (the released one does not) means the same function."""
    upstream, vocoder, config = pair
    torch.manual_seed(5)
    with torch.no_grad():
        for name, parameter in upstream.named_parameters():
            if name.endswith("norm.weight"):
                parameter.uniform_(0.5, 1.5)
            elif name.endswith("norm.bias"):
                parameter.uniform_(-0.5, 0.5)
    affine = Vocoder(config)
    affine.load_state_dict(upstream.state_dict())
    theirs, ours = both((upstream, affine.eval(), config), 7, torch.float64)
    plain = both((upstream, vocoder, config), 7, torch.float64)[1]
    assert snr_db(theirs, ours) >= 90
    assert snr_db(theirs, plain) < 20
