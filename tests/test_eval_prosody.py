"""The encoder's judge: what is measured, gates that reject known errors, verdicts as a user types
them.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.contract import JUDGED
from kokoro_ane.encoder.encoder_steps import Encoded
from kokoro_ane.eval.judge import ClipResult, decided
from kokoro_ane.eval.prosody_controls import controls, harmless
from kokoro_ane.eval.prosody_gates import (
    LENGTH,
    MOVED,
    PAUSE,
    PITCH,
    PROSODY_GATES,
    PROSODY_METRICS,
    TEXT,
    TEXT_TOKEN,
    TOKENS,
    ProsodyGate,
)
from kokoro_ane.eval.prosody_judge import ProsodyBench, pauses, prosody_figures
from kokoro_ane.eval.quality import main as quality
from kokoro_ane.eval.verdict import REJECT, SHIP, UNDECIDED, Decision
from kokoro_ane.quantize.corpus import Utterance
from kokoro_ane.quantize.speech import own_speech


def said(frames: int = 40, tokens: int = 8) -> Encoded:
    generator = torch.Generator().manual_seed(0)
    drawn = {name: torch.randn(1, 4, tokens, generator=generator) for name in ("hidden", "text")}
    f0_hz = torch.full((1, 2 * frames), 200.0)
    energy = torch.randn(1, 2 * frames, generator=generator)
    return Encoded(
        torch.ones(tokens),
        torch.ones(tokens),
        frames=torch.ones(1, 4, frames),
        asr=torch.ones(1, 4, frames),
        f0_hz=f0_hz,
        energy=energy,
        **drawn,
    )


def clip() -> Utterance:
    durations = np.array([4, 5, 6, 5, 5, 5, 5, 5], np.int32)
    return Utterance(
        "c",
        "v",
        "ab, cd",
        "ab, cd",
        np.arange(8, dtype=np.int32),
        durations,
        np.zeros(80),
        np.zeros(80),
        None,
    )


class TestFigures:
    def test_equal_is_zero(self) -> None:
        figures = prosody_figures(clip(), said(), said(), clip().durations)
        assert set(figures) == set(PROSODY_METRICS)
        assert not any(figures.values())

    def test_durations(self) -> None:
        # token 3 is the comma, 4 the space behind it
        moved = clip().durations + np.array([0, 1, 0, 2, 0, 0, 0, 0])
        figures = prosody_figures(clip(), said(), said(), moved)
        assert figures[TOKENS] == pytest.approx(25)
        assert figures[MOVED] == pytest.approx(12.5)
        assert figures[LENGTH] == pytest.approx(7.5)
        assert figures[PAUSE] == pytest.approx(50.0)

    def test_a_pause_that_moves_within_itself_is_the_same(self) -> None:
        moved = clip().durations + np.array([0, 0, 0, 2, -2, 0, 0, 0])
        assert prosody_figures(clip(), said(), said(), moved)[PAUSE] == 0.0
        assert pauses("ab, cd") == [slice(3, 5)]
        assert pauses("a b") == []
        assert pauses("a.") == [slice(2, 3)]

    def test_pitch_in_cents_and_text_by_token(self) -> None:
        other = replace(said(), f0_hz=said().f0_hz * 2 ** (25 / 1200), text=said().text.clone())
        other.text[..., 3] *= 1.5
        figures = prosody_figures(clip(), said(), other, clip().durations)
        assert figures[PITCH] == pytest.approx(25, abs=1e-3)
        assert 0 < figures[TEXT] < figures[TEXT_TOKEN]


@pytest.fixture(scope="module")
def bench(tiny_checkpoint: Checkpoint) -> Iterator[ProsodyBench]:
    clips = sorted(own_speech(tiny_checkpoint, JUDGED), key=lambda one: one.frames)[:6]
    yield ProsodyBench(tiny_checkpoint, clips)


class TestGates:
    def test_every_figure_has_a_gate_and_every_gate_can_be_broken(self) -> None:
        assert {gate.metric for gate in PROSODY_GATES} == set(PROSODY_METRICS)
        rows = dict.fromkeys(PROSODY_METRICS, 0.1) | {
            f"{name} worst": 0.1 for name in PROSODY_METRICS
        }
        good = [
            ClipResult(str(n), f"v{n % 4}", 2.0, "text", dict.fromkeys(PROSODY_METRICS, 0.05), rows)
            for n in range(24)
        ]

        def verdict(clips: list[ClipResult]) -> Decision:
            return decided("x", clips, gates=PROSODY_GATES).decision

        assert verdict(good).verdict == SHIP
        for gate in PROSODY_GATES:
            bad = [
                replace(one, figures=one.figures | {gate.metric: 2 * gate.limit}) for one in good
            ]
            assert gate.name in verdict(bad).broken
        assert verdict(good[:6]).verdict == UNDECIDED
        assert verdict([*good, replace(good[0], defect="NaN")]).verdict == REJECT
        pytest.raises(ValueError, ProsodyGate, "mcd_db", "mean", 1.0, "no metric of prosody")

    def test_known_errors_are_rejected_and_neighbours_pass(self, bench: ProsodyBench) -> None:
        """Random weights have no prosody: what is held here is that each control changes what it
        says it changes.
        """
        told = {name: bench.judged(name, say) for name, say in controls(bench).items()}
        changed = {
            name: {metric for metric, row in judged.summary().items() if row["mean"]}
            for name, judged in told.items()
        }
        assert len(told) == 7
        assert all(changed.values())
        assert PITCH in changed["a block of F0 dropped"]
        assert TEXT not in changed["a block of F0 dropped"]
        assert TEXT in changed["two phonemes' embeddings exchanged"]
        assert TEXT in changed["two tokens swapped"]
        same = bench.judged("fp32", harmless(bench)["fp32 itself"])
        assert not any(row["worst"] for row in same.summary().values())

    def test_a_broken_duration_is_a_result(self, bench: ProsodyBench) -> None:
        def broken(one: Utterance) -> Encoded:
            return replace(bench.wanted(one), raw=bench.wanted(one).raw * float("nan"))

        judged = bench.judged("x", broken)
        assert judged.decision.verdict == REJECT
        assert "is nan" in judged.decision.reasons[0]


class TestCommand:
    def test_a_verdict_with_its_file(
        self,
        tiny_checkpoint: Checkpoint,
        tiny_build: Path,
        capsys: pytest.CaptureFixture[str],
        tmp_path: Path,
    ) -> None:
        asked = [
            "--stage",
            "encoder",
            "--method",
            "fp16",
            "--checkpoint",
            str(tiny_checkpoint.folder),
            "--build",
            str(tiny_build),
        ]
        code = quality([*asked, "--clips", "4", "--out", str(tmp_path / "x.json")])
        said = json.loads(capsys.readouterr().out.splitlines()[-1])
        # four sentences of noise never ship
        assert code == {REJECT: 1, UNDECIDED: 3}[said["verdict"]]
        assert said["clips"] == 4
        record = json.loads((tmp_path / "x.json").read_text())
        assert record["stage"] == "encoder"
        assert len(record["clips"]) == 4
        assert record["summary"][TOKENS]["mean"] == 0.0

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (["--stage", "encoder", "--method", "w8a8"], "unknown method 'w8a8'"),
            (["--method", "w8g"], "give --stage encoder"),
            (["--stage", "encoder", "--method", "w8", "--layout", "streaming"], "--layout belongs"),
        ],
    )
    def test_bad_input(
        self,
        flags: list[str],
        message: str,
        tiny_checkpoint: Checkpoint,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        assert quality([*flags, "--checkpoint", str(tiny_checkpoint.folder)]) == 2
        assert message in capsys.readouterr().err
