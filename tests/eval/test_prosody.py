"""The encoder's judge: what is measured, gates that reject known errors, verdicts as a user types
them.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from kokoro_ane.core.contract import JUDGED
from kokoro_ane.encoder.encoder_steps import Encoded
from kokoro_ane.eval.comparisons import EncoderComparison
from kokoro_ane.eval.execution import judge_clip
from kokoro_ane.eval.gates import ENCODER_GATES
from kokoro_ane.eval.judge import REJECT, UNDECIDED, judge_results
from kokoro_ane.eval.metrics.catalog import PROSODY, measure
from kokoro_ane.eval.metrics.prosody_metrics import ProsodyTrial, pauses
from kokoro_ane.eval.quality import main as quality
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.renditions import ClipReader, EncoderSubject
from kokoro_ane.eval.subjects import ENCODER
from kokoro_ane.speech.corpus import Utterance
from kokoro_ane.speech.speech import load_own_speech
from tests.eval.controls.negative_controls import CONTROLS, ControlTrials, Setting


def random_encoding(frames=40, tokens=8):
    generator = torch.Generator().manual_seed(0)
    hidden, text = (torch.randn(1, 4, tokens, generator=generator) for _ in range(2))
    each, wide = torch.ones(tokens), torch.ones(1, 4, frames)
    f0_hz = torch.full((1, 2 * frames), 200.0)
    energy = torch.randn(1, 2 * frames, generator=generator)
    return Encoded(
        each, each, hidden=hidden, text=text, frames=wide, asr=wide, f0_hz=f0_hz, energy=energy
    )


def clip():
    durations, curve = np.array([4, 5, 6, 5, 5, 5, 5, 5], np.int32), np.zeros(80)
    ids = np.arange(8, dtype=np.int32)
    return Utterance("c", "v", "ab, cd", "ab, cd", ids, durations, curve, curve, None)


def figures_of(durations, test=None):
    return measure(ProsodyTrial(clip(), durations, (random_encoding(), test or random_encoding())))


class TestFigures:
    def test_equal_is_zero(self):
        figures = figures_of(clip().durations)
        assert set(figures) == set(PROSODY)
        assert not any(figures.values())

    def test_durations(self):
        # token 3 is the comma, 4 the space behind it
        moved = clip().durations + np.array([0, 1, 0, 2, 0, 0, 0, 0])
        figures = figures_of(moved)
        assert figures["tokens_changed_percent"] == pytest.approx(25)
        assert figures["tokens_moved_percent"] == pytest.approx(12.5)
        assert figures["length_percent"] == pytest.approx(7.5)
        assert figures["pause_ms"] == pytest.approx(50.0)

    def test_a_pause_that_moves_within_itself_is_the_same(self):
        moved = clip().durations + np.array([0, 0, 0, 2, -2, 0, 0, 0])
        assert figures_of(moved)["pause_ms"] == 0.0
        assert pauses("ab, cd") == [slice(3, 5)]
        assert pauses("a b") == []
        assert pauses("a.") == [slice(2, 3)]

    def test_pitch_in_cents_and_text_by_token(self):
        other = replace(
            random_encoding(),
            f0_hz=random_encoding().f0_hz * 2 ** (25 / 1200),
            text=random_encoding().text.clone(),
        )
        other.text[..., 3] *= 1.5
        figures = figures_of(clip().durations, other)
        assert figures["f0_cents"] == pytest.approx(25, abs=1e-3)
        assert 0 < figures["text_percent"] < figures["text_token_percent"]


@pytest.fixture(scope="module")
def setting(tiny_checkpoint):
    clips = sorted(load_own_speech(tiny_checkpoint, JUDGED), key=lambda one: one.frames)[:6]
    return Setting(Reference(tiny_checkpoint, seed=0), clips)


class TestGates:
    def test_known_errors_are_rejected_and_neighbours_pass(self, setting):
        """Random weights have no prosody: what is tested here is that each control changes what it
        says it changes.
        """
        trials = ControlTrials(setting, ENCODER)
        outcomes = {name: trials.outcome(control) for name, control in CONTROLS[ENCODER].items()}
        changed = {
            name: {
                metric
                for metric, row in outcome.judgement.compute_summary().items()
                if row["worst"]
            }
            for name, outcome in outcomes.items()
        }
        errors = [name for name, outcome in outcomes.items() if outcome.control.rejected]
        assert len(errors) == 7
        assert all(changed[name] for name in errors)
        assert "f0_cents" in changed["a block of F0 dropped"]
        assert "text_percent" not in changed["a block of F0 dropped"]
        assert "text_percent" in changed["two phonemes' embeddings exchanged"]
        assert "text_percent" in changed["two tokens swapped"]
        assert not changed["fp32 itself"]

    def test_a_broken_duration_is_a_result(self, setting):
        class Broken(ClipReader):
            def encode_prosody(self, clip, durations=None):
                encoded = super().encode_prosody(clip, durations)
                return replace(encoded, raw=encoded.raw * float("nan"))

        comparison = EncoderComparison(setting.reference)
        subject = EncoderSubject(Broken(setting.reference))
        results = [judge_clip(comparison, subject, clip) for clip in setting.clips]
        decision = judge_results(ENCODER_GATES, results)
        assert decision.verdict == REJECT
        assert "is nan" in decision.reasons[0]


class TestCommand:
    @pytest.mark.parametrize("method", ["fp16", "w8 --runtime torch"])
    def test_a_verdict_with_its_file(self, method, tiny_checkpoint, tiny_build, capsys, tmp_path):
        flags = (
            f"--stage encoder --method {method} --checkpoint {tiny_checkpoint.folder} "
            f"--build {tmp_path if 'torch' in method else tiny_build}"
        ).split()
        every = ["--clips", "4", "--all-clips"]
        code = quality([*flags, *every, "--out", str(tmp_path / "x.json")])
        report = json.loads(capsys.readouterr().out.splitlines()[-1])
        # four sentences of noise never ship
        assert code == {REJECT: 1, UNDECIDED: 3}[report["verdict"]]
        assert report["clips"] == 4
        record = json.loads((tmp_path / "x.json").read_text())
        assert record["stage"] == "encoder"
        assert len(record["clips"]) == 4
        assert (record["summary"]["text_percent"]["mean"] > 0.2) == ("torch" in method)
        assert (record["summary"]["tokens_changed_percent"]["mean"] == 0.0) == (method == "fp16")
