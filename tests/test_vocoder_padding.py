"""Padding changes nothing: the same features at any bucket fill give the same audio, whatever stands in the padding."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.config import KokoroConfig
from pipeline.contract import COLUMNS_PER_FRAME, FRAME_SAMPLES
from pipeline.layers import Mask
from tests.test_vocoder_parity import random_features
from tests.tiny import kokoro_config, random_vocoder, tiny_config
from vocoder.check import snr_db
from vocoder.decoder import Vocoder
from vocoder.package import render_reference
from vocoder.packing import VocoderInputs
from vocoder.source import gaussian_noise


def inputs_for(vocoder: Vocoder, frames: int, hidden: int) -> VocoderInputs:
    x = random_features(frames, hidden)
    spectrum = vocoder.generator.m_source(x["f0_hz"], gaussian_noise(frames, seed=0)).squeeze(2).float()
    return VocoderInputs(**x, spectrum=spectrum)


@torch.no_grad()
def padded_render(vocoder: Vocoder, x: VocoderInputs, bucket: int, masked: bool = True) -> torch.Tensor:
    """Render in `bucket` frames with noise five times as loud as the features in the padding."""
    extra = bucket - x.frames
    generator = torch.Generator().manual_seed(bucket)

    def fill(tensor: torch.Tensor, length: int) -> torch.Tensor:
        return torch.cat([tensor, 5 * torch.randn(*tensor.shape[:-1], length, generator=generator)], dim=-1)

    mask = torch.ones(1, 1, 1, bucket)
    mask[..., x.frames :] = 0 if masked else 1
    waveform = vocoder(
        fill(x.asr[:, :, None], extra),
        fill(x.f0_hz[:, None, None], 2 * extra),
        fill(x.energy[:, None, None], 2 * extra),
        x.style[:, :, None, None],
        fill(x.spectrum[:, :, None], COLUMNS_PER_FRAME * extra),
        Mask.of(mask),
    )
    return waveform.flatten()[: FRAME_SAMPLES * x.frames].numpy()


@pytest.fixture(scope="module")
def tiny() -> tuple[Vocoder, int]:
    config = KokoroConfig.from_dict(tiny_config(), "test")
    return random_vocoder(config, seed=0), config.hidden_dim


@settings(max_examples=25, deadline=None)
@given(frames=st.integers(2, 60), extra=st.integers(0, 200))
def test_any_length_any_padding(tiny: tuple, frames: int, extra: int) -> None:
    vocoder, hidden = tiny
    x = inputs_for(vocoder, frames, hidden)
    assert snr_db(render_reference(vocoder, x), padded_render(vocoder, x, frames + extra)) >= 90


def test_control_without_the_mask_it_fails(tiny: tuple) -> None:
    vocoder, hidden = tiny
    x = inputs_for(vocoder, 30, hidden)
    assert snr_db(render_reference(vocoder, x), padded_render(vocoder, x, 60, masked=False)) < 20


@pytest.mark.slow
@pytest.mark.parametrize("bucket", [40, 44, 50, 60, 80, 133, 200, 440])
def test_full_size_fills_from_9_to_100_percent(bucket: int) -> None:
    config = KokoroConfig.from_dict(kokoro_config(), "test")
    vocoder = random_vocoder(config, seed=0)
    x = inputs_for(vocoder, 40, config.hidden_dim)
    assert snr_db(render_reference(vocoder, x), padded_render(vocoder, x, bucket)) >= 90
