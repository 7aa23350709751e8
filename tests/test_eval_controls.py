"""Known-bad controls on real held-out recordings: each is rejected, and by the gate that claims to catch it. The undamaged pass."""

import numpy as np
import pytest

from eval.controls import CONTROLS, white_noise
from eval.gates import FEWEST_CLIPS, REJECT, SHIP, decide, gates_for
from eval.metrics.registry import measure
from eval.metrics.trial import Trial
from pipeline.demo.data import VOICES, heldout
from pipeline.demo.features import resampled

REPEATS = FEWEST_CLIPS // len(VOICES)


@pytest.fixture(scope="module")
def recordings() -> list[np.ndarray]:
    """Two seconds of one recording a voice, 24 kHz."""
    first = [next(u for u in heldout() if u.voice == voice) for voice in VOICES]
    return [resampled(utterance.recording, 16_000)[24_000:72_000] for utterance in first]


@pytest.fixture(scope="module")
def floor(recordings: list[np.ndarray]) -> list[dict[str, float]]:
    """A stand-in for the noise redraw: hiss at 35 dB."""
    return [measure(Trial(signal, white_noise(signal, 35, seed=1))) for signal in recordings] * REPEATS


@pytest.mark.parametrize("name", CONTROLS)
def test_control_is_rejected_by_its_gate(name: str, recordings: list[np.ndarray], floor: list[dict[str, float]]) -> None:
    control = CONTROLS[name]
    damaged = [control.damage(signal) for signal in recordings]
    assert all(len(spoilt) == len(signal) for spoilt, signal in zip(damaged, recordings, strict=True))
    redraws = [white_noise(signal, 35, seed=1) for signal in recordings]
    figures = [measure(Trial(*signals)) for signals in zip(recordings, damaged, redraws, strict=True)]
    decision = decide(gates_for("w8"), figures * REPEATS, floor)
    assert decision.verdict == REJECT
    assert control.metric in {broken.split()[0] for broken in decision.broken}


def test_every_gate_that_no_average_metric_covers_has_its_control() -> None:
    assert {control.metric for control in CONTROLS.values()} >= {"pesq", "level_db", "jump_db", "clipping_percent", "lag_samples"}


def test_an_inaudible_error_ships(recordings: list[np.ndarray], floor: list[dict[str, float]]) -> None:
    """Gates that reject everything prove nothing."""
    figures = [measure(Trial(signal, white_noise(signal, 75), white_noise(signal, 35, seed=1))) for signal in recordings]
    assert decide(gates_for("w8"), figures * REPEATS, floor).verdict == SHIP
