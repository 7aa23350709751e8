"""The check that gives a vocoder package its name: it passes what padding does not touch and rejects a mask dropped at one place."""

from collections.abc import Callable
from itertools import count

import numpy as np
import pytest
import torch
from torch import Tensor

from bench.comparison import random_inputs
from bench.random_checkpoint import random_vocoder, tiny_config
from core.config import KokoroConfig
from core.contract import PackedLayout
from core.figures import Figure
from core.layers import AdaIN1d, Mask
from vocoder import check, generator
from vocoder.check import LIMIT_FLAT_DB, fill_figures
from vocoder.decoder import Vocoder
from vocoder.forms import LiteralForm
from vocoder.package import render_reference
from vocoder.packing import PackedVocoder, VocoderInputs, pack

CONFIG = KokoroConfig.from_dict(tiny_config(), "test")
BUCKETS = (20, 60)
GENERATOR_MASKS = 55  # calls of masked() in one render


@torch.no_grad()
def run_in_pytorch(told: Vocoder, _form: LiteralForm, inputs: VocoderInputs, bucket: int, half: bool | None = None) -> np.ndarray:
    """Stands for run_program: the packed graph in fp32, which is what the executed program is in exact arithmetic."""
    packed = PackedVocoder(told, PackedLayout(CONFIG.hidden_dim))
    return packed(pack(inputs, bucket), inputs.style[:, :, None, None]).flatten()[: 600 * inputs.frames].numpy()


def padding_figure(told: Vocoder, monkeypatch: pytest.MonkeyPatch) -> Figure:
    monkeypatch.setattr(check, "run_program", run_in_pytorch)
    vocoder = random_vocoder(CONFIG, seed=0)
    inputs = random_inputs(vocoder, BUCKETS[0], CONFIG.hidden_dim)
    found = fill_figures(told, told, LiteralForm(), vocoder, inputs, BUCKETS, "fp16")
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
    masked, calls = generator.masked, count()

    def dropping(x: Tensor, mask: Mask | None) -> Tensor:
        return x if mask is None or next(calls) % GENERATOR_MASKS == call else masked(x, mask)

    monkeypatch.setattr(generator, "masked", dropping)
    assert not padding_figure(random_vocoder(CONFIG, seed=0), monkeypatch).holds


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], dict[str, Figure]]:
    """Figures of programs that are PyTorch itself plus noise, so much louder in the longer bucket."""
    vocoder = random_vocoder(CONFIG, seed=0)
    inputs = random_inputs(vocoder, 40, CONFIG.hidden_dim)
    reference = render_reference(vocoder, inputs)
    loud = np.where(np.arange(len(reference)) // 600 == 20, 30.0, 1.0)  # one frame holds most of the error, as in real speech

    def figures(louder_db: float) -> dict[str, Figure]:
        def program(name: str, _form: LiteralForm, _: VocoderInputs, bucket: int, half: bool | None = None) -> np.ndarray:
            noise = np.random.default_rng(bucket).standard_normal(len(reference)) * 1e-4
            jump = np.where(loud > 1, 2.0, 1.0) if bucket == BUCKETS[1] else 1.0  # the loud frame wanders by 6 dB
            return reference + noise * loud * jump * 10 ** (louder_db / 20 if bucket == BUCKETS[1] else 0) * (name == "declared")

        monkeypatch.setattr(check, "run_program", program)
        return {f.name.split()[0]: f for f in fill_figures("declared", "exact", LiteralForm(), vocoder, inputs, BUCKETS, "fp16")}

    return figures


def test_one_frame_that_wanders_is_not_a_loss(rendered: Callable) -> None:
    assert rendered(0.0)["fp16's"].holds


def test_control_noise_that_grows_with_the_bucket_is_rejected(rendered: Callable) -> None:
    assert not rendered(LIMIT_FLAT_DB + 0.5)["fp16's"].holds


def test_silence_has_a_level() -> None:
    assert check.noise_levels_db(np.zeros(1200)).tolist() == [-100.0, -100.0]
