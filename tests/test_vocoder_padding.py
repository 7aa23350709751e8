"""Padding changes nothing, whatever stands in it; and the check that gives a package its name rejects one mask dropped at one place."""

from collections.abc import Callable
from itertools import count

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bench.comparison import padded_render, random_inputs
from bench.random_checkpoint import kokoro_config, random_vocoder, tiny_config
from kokoro_ane.core.checks import Check, snr_db
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.contract import PackedLayout
from kokoro_ane.core.layers import AdaIN1d, Mask
from kokoro_ane.vocoder import decoder, vocoder_stage
from kokoro_ane.vocoder.decoder import PackedVocoder, Vocoder
from kokoro_ane.vocoder.layouts import PaddedLayout
from kokoro_ane.vocoder.packing import VocoderInputs, pack
from kokoro_ane.vocoder.render import render_reference
from kokoro_ane.vocoder.vocoder_stage import LIMIT_FLAT_DB, fill_figures

CONFIG = KokoroConfig.from_dict(tiny_config(), "test")
BUCKETS = (20, 60)
GENERATOR_MASKS = 55  # calls of masked() in one render


@pytest.fixture(scope="module")
def tiny() -> tuple[Vocoder, int]:
    return random_vocoder(CONFIG, seed=0), CONFIG.hidden_dim


@settings(max_examples=10, deadline=None)
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


@torch.no_grad()
def run_in_pytorch(told: Vocoder, _layout: PaddedLayout, inputs: VocoderInputs, bucket: int, half: bool | None = None) -> np.ndarray:
    """Stands for run_program: the packed graph in fp32, which is what the executed program is in exact arithmetic."""
    packed = PackedVocoder(told, PackedLayout(CONFIG.hidden_dim))
    return packed(torch.from_numpy(pack(inputs, bucket)), inputs.style[:, :, None, None]).flatten()[: 600 * inputs.frames].numpy()


def padding_figure(told: Vocoder, monkeypatch: pytest.MonkeyPatch) -> Check:
    monkeypatch.setattr(vocoder_stage, "run_program", run_in_pytorch)
    vocoder = random_vocoder(CONFIG, seed=0)
    inputs = random_inputs(vocoder, BUCKETS[0], CONFIG.hidden_dim)
    found = fill_figures(told, told, PaddedLayout(), vocoder, inputs, BUCKETS, "fp16")
    return next(figure for figure in found if figure.name.startswith("padding"))


def test_an_honest_vocoder_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert padding_figure(random_vocoder(CONFIG, seed=0), monkeypatch).value > 100


@pytest.mark.parametrize("name", ["decode.2.norm1", "generator.noise_res.0.adain1.0", "generator.resblocks.4.adain1.1"])
def test_control_one_norm_that_counts_the_padding_is_rejected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = random_vocoder(CONFIG, seed=0)
    norm = told.get_submodule(name)
    norm.forward = lambda x, style, mask: AdaIN1d.forward(norm, x, style, Mask.of(mask.values * 0 + 1))
    assert not padding_figure(told, monkeypatch).holds


@pytest.mark.parametrize("call", [3, 14, 30, 53, 27])
def test_control_one_mask_dropped_is_rejected(call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call-th mask of the generator: what a convolution reads in either stage's branch and trunk; the first stage's result."""
    masked, calls = decoder.masked, count()

    def dropping(x: Tensor, mask: Mask | None) -> Tensor:
        return x if mask is None or next(calls) % GENERATOR_MASKS == call else masked(x, mask)

    monkeypatch.setattr(decoder, "masked", dropping)
    assert not padding_figure(random_vocoder(CONFIG, seed=0), monkeypatch).holds


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], dict[str, Check]]:
    """Figures of programs that are PyTorch itself plus noise, so much louder in the longer bucket."""
    vocoder = random_vocoder(CONFIG, seed=0)
    inputs = random_inputs(vocoder, 40, CONFIG.hidden_dim)
    reference = render_reference(vocoder, inputs)
    loud = np.where(np.arange(len(reference)) // 600 == 20, 30.0, 1.0)  # one frame holds most of the error, as in real speech

    def figures(louder_db: float) -> dict[str, Check]:
        def program(name: str, _layout: PaddedLayout, _: VocoderInputs, bucket: int, half: bool | None = None) -> np.ndarray:
            noise = np.random.default_rng(bucket).standard_normal(len(reference)) * 1e-4
            jump = np.where(loud > 1, 2.0, 1.0) if bucket == BUCKETS[1] else 1.0  # the loud frame wanders by 6 dB
            return reference + noise * loud * jump * 10 ** (louder_db / 20 if bucket == BUCKETS[1] else 0) * (name == "declared")

        monkeypatch.setattr(vocoder_stage, "run_program", program)
        return {f.name.split()[0]: f for f in fill_figures("declared", "exact", PaddedLayout(), vocoder, inputs, BUCKETS, "fp16")}

    return figures


def test_one_frame_that_wanders_is_not_a_loss(rendered: Callable) -> None:
    assert rendered(0.0)["fp16's"].holds


def test_control_noise_that_grows_with_the_bucket_is_rejected(rendered: Callable) -> None:
    assert not rendered(LIMIT_FLAT_DB + 0.5)["fp16's"].holds


def test_silence_has_a_level() -> None:
    assert vocoder_stage.noise_levels_db(np.zeros(1200)).tolist() == [-100.0, -100.0]
