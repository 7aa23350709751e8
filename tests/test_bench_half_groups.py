"""bench.half_groups: each group rounds its own results, the tail none, and nothing stays behind."""

from pathlib import Path

import numpy as np
import pytest

from bench.half_groups import GROUPS, INPUTS, WEIGHTS, figures, rendered
from core.checkpoint import Checkpoint
from core.figures import snr_db
from quantize.activations import calibration_inputs
from quantize.features import excerpt
from vocoder.decoder import Vocoder
from vocoder.packing import VocoderInputs


@pytest.fixture(scope="module")
def speech(built: tuple[Checkpoint, Path]) -> tuple[Vocoder, VocoderInputs]:
    vocoder = Vocoder.of(built[0])
    return vocoder, excerpt(next(calibration_inputs(built[0], vocoder, 1)), 0, 20)


def test_every_group_alone_is_heard_and_all_are_the_worst(speech: tuple[Vocoder, VocoderInputs]) -> None:
    vocoder, clip = speech
    rows = figures(vocoder, [clip], lambda groups, _: groups)
    alone = {name: rows[name]["alone_db"] for name in GROUPS}
    assert all(20 < value < 140 for value in alone.values()), alone
    assert rows["all"]["alone_db"] < min(alone.values())
    assert all(row["without_db"] > rows["all"]["alone_db"] - 1 for name, row in rows.items() if name != "all")


def test_without_a_group_nothing_is_rounded_and_no_hook_stays(speech: tuple[Vocoder, VocoderInputs]) -> None:
    vocoder, clip = speech
    plain = rendered(vocoder, clip, frozenset())
    assert np.array_equal(plain, rendered(vocoder, clip, frozenset({WEIGHTS})))  # weights are the caller's to round
    assert not np.array_equal(plain, rendered(vocoder, clip, frozenset({INPUTS})))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in vocoder.modules())
    assert snr_db(plain, rendered(vocoder, clip, frozenset({"generator: residual sums"}))) > 20


def test_layers_show_the_frames_that_an_error_is_in(speech: tuple[Vocoder, VocoderInputs]) -> None:
    from bench.half_layers import compared, traced

    vocoder, clip = speech
    exact = traced(vocoder, clip, frozenset())
    assert exact[-1][0] == "generator" and {"F0_conv", "decode.0", "generator.ups.1"} <= {path for path, _ in exact}
    wrong = [(path, value.clone()) for path, value in exact]
    columns = wrong[-1][1].shape[-1]
    wrong[-1][1][..., columns * 5 // clip.frames : columns * 8 // clip.frames] *= 1.01
    row = compared(exact, wrong, clip.frames, slice(5, 8))[-1]
    assert 39 < row["local_db"] < 41 and row["rest_db"] > 200
    rounded = compared(exact, traced(vocoder, clip, frozenset({INPUTS})), clip.frames, slice(5, 8))
    assert all(20 < entry["local_db"] < 140 for entry in rounded)
    assert not any(module._forward_hooks for module in vocoder.modules())
