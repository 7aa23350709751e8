"""The power of a gate: found where the limit says, not found where nothing is done; every dial turns from weak to strong."""

import json

import numpy as np
import pytest

from core.corpus import heldout
from demo.features import resampled
from eval.corpus import Spoken
from eval.dials import DIALS, Dial, gained
from eval.gates import COMMON
from eval.power import main, smallest_found
from tests.signals import white_noise


@pytest.fixture(scope="module")
def spoken() -> list[Spoken]:
    """Three recordings, their other seeds noise 50 dB down."""
    clips = [resampled(heldout()[i].recording, 16_000)[12_000:60_000] for i in range(3)]
    seeds = [tuple(white_noise(clip, 50, seed) for seed in (1, 2, 3)) for clip in clips]
    return [Spoken("so", clip, others, 100.0, clip, others) for clip, others in zip(clips, seeds, strict=True)]


def test_a_gain_is_found_just_above_the_limit(spoken: list[Spoken]) -> None:
    dial = Dial("level_db worst", "louder", "dB", (0.1, 0.3, 0.49, 0.51, 0.8), gained)
    assert smallest_found(dial, spoken) == 0.51
    assert smallest_found(Dial("level_db worst", "louder", "dB", (0.1, 0.3), gained), spoken) is None


def test_every_gate_has_a_dial() -> None:
    assert {dial.gate for dial in DIALS} == {gate.name for gate in COMMON}


@pytest.mark.parametrize("dial", DIALS, ids=lambda dial: dial.gate)
def test_dials_name_gates_and_keep_the_length(dial: Dial) -> None:
    assert dial.gate in {gate.name for gate in COMMON}
    signal = 0.1 * np.random.default_rng(0).standard_normal(96_000)
    for amount in (dial.amounts[0], dial.amounts[-1]):
        assert dial.damage(signal, amount).shape == signal.shape
        short = signal[:12_000]  # half a second, the shortest sentence
        assert dial.damage(short, amount).shape == short.shape
    errors = [np.square(dial.damage(signal, amount) - signal).sum() for amount in (dial.amounts[0], dial.amounts[-1])]
    assert errors[0] > 0
    assert errors[0] < errors[1] or dial.unit in ("cents", "samples")  # noise that is moved is as far from itself at once


def test_an_unknown_metric_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--checkpoint", "demo", "--clips", "1", "--metrics", "loudness"]) == 2
    out = capsys.readouterr()
    assert "loudness: there are dials for" in out.err
    assert not out.out or "error" in json.loads(out.out.splitlines()[-1])
