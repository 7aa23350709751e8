"""Padding changes nothing: the same features at any bucket fill give the same audio, whatever stands in the padding."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.comparison import padded_render, random_inputs
from bench.random_checkpoint import kokoro_config, random_vocoder, tiny_config
from core.config import KokoroConfig
from core.figures import snr_db
from vocoder.decoder import Vocoder
from vocoder.package import render_reference


@pytest.fixture(scope="module")
def tiny() -> tuple[Vocoder, int]:
    config = KokoroConfig.from_dict(tiny_config(), "test")
    return random_vocoder(config, seed=0), config.hidden_dim


@settings(max_examples=25, deadline=None)
@given(frames=st.integers(2, 60), extra=st.integers(0, 200))
def test_any_length_any_padding(tiny: tuple, frames: int, extra: int) -> None:
    vocoder, hidden = tiny
    x = random_inputs(vocoder, frames, hidden)
    assert snr_db(render_reference(vocoder, x), padded_render(vocoder, x, frames + extra)) >= 90


def test_control_without_the_mask_it_fails(tiny: tuple) -> None:
    vocoder, hidden = tiny
    x = random_inputs(vocoder, 30, hidden)
    assert snr_db(render_reference(vocoder, x), padded_render(vocoder, x, 60, masked=False)) < 40


@pytest.fixture(scope="module")
def full_size() -> tuple:
    """A vocoder of Kokoro's size, 40 frames of input, and its render of them."""
    config = KokoroConfig.from_dict(kokoro_config(), "test")
    vocoder = random_vocoder(config, seed=0)
    x = random_inputs(vocoder, 40, config.hidden_dim)
    return vocoder, x, render_reference(vocoder, x)


@pytest.mark.slow
@pytest.mark.parametrize("bucket", [40, 44, 60, 133, 440])
def test_full_size_fills_from_9_to_100_percent(full_size: tuple, bucket: int) -> None:
    vocoder, x, reference = full_size
    assert snr_db(reference, padded_render(vocoder, x, bucket)) >= 90
