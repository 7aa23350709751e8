"""The release decision: choice by objective, resuming, exit codes, provenance."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bench.random_checkpoint import write_checkpoint
from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.errors import InputError
from kokoro_ane.eval import execution
from kokoro_ane.eval.decision import Choice, choose
from kokoro_ane.eval.execution import THREADS, Execution, Workers, shared_cores
from kokoro_ane.eval.judge import ClipResult
from kokoro_ane.eval.levels import JudgedLevel, PackageFacts
from kokoro_ane.eval.quality import main as quality
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.release import parse_arguments
from kokoro_ane.eval.report import main as report
from kokoro_ane.quantize.corpus import calibration, heldout, require_disjoint
from kokoro_ane.quantize.speech import own_speech
from mlprogram.examine.rules import load_rules
from tests.builds import small_config
from tests.release_build import release


def level(name: str, megabytes: float, verdict: str, unfit: str | None = None, int8: float = 0.0) -> JudgedLevel:
    """A judged level; its forecast rises as its size falls."""
    facts = PackageFacts(int(megabytes * 1e6), int8, {}, {}, "iOS17", {"m4": {"low_ms": 1 / megabytes, "high_ms": 4 / megabytes}})
    record = {"verdict": verdict, "broken": ["pesq mean"] if verdict == "REJECT" else [], "reasons": ["too near to tell"]}
    record["summary"] = {"pesq": {"mean": 4.0 + megabytes / 12}, "mcd_db": {"mean": 1 / megabytes}}
    return JudgedLevel(name, name, unfit, facts=facts, record=record)


LEVELS = [level("fp16", 7.0, "SHIP"), level("w8", 4.0, "SHIP"), level("p4", 2.0, "REJECT"), level("w4", 2.5, "SHIP", "for the GPU")]


def chosen(levels: list[JudgedLevel], objective: str = "smallest", releasable: bool = True) -> Choice:
    """The choice for chip m4."""
    return choose(levels, objective, "m4", None if releasable else "the demo voice is never released")


class TestChoice:
    def test_smallest_and_fastest_differ(self) -> None:
        assert chosen(LEVELS).level == "w8"
        assert chosen(LEVELS, "fastest").level == "fp16"
        assert "4.00 MB, the next is fp16 with 7.00 MB" in chosen(LEVELS).reason
        assert "forecast for M4" in chosen(LEVELS, "fastest").reason

    def test_what_it_costs_and_saves_and_what_else_is_best(self) -> None:
        choice = chosen([*LEVELS, level("p6", 2.8, "SHIP")])
        assert choice.costs == "60 % smaller than fp16, PESQ 0.35 lower"
        assert [(best["by"], best["level"]) for best in choice.bests] == [("size", "p6"), ("the Neural Engine", "fp16"), ("fidelity", "w8")]
        assert choice.bests[1]["costs"] == "uncompressed"

    def test_what_would_be_better_is_named_with_its_reason(self) -> None:
        assert chosen(LEVELS).notes == (
            "w4 keeps every gate but is not chosen: for the GPU",
            "p4 would be 2.00 MB: REJECT, pesq mean",
        )

    def test_int8_that_buys_no_time_is_told(self) -> None:
        told = chosen([*LEVELS, level("w8a8", 4.1, "SHIP", int8=0.93)]).notes[-1]
        assert told.startswith("w8a8 multiplies 93 % of its arithmetic in int8 and is forecast no faster: 0 to 1 ms per second")
        assert told.endswith("fp16 0 to 1; what it saves is size")
        assert not any("no faster" in note for note in chosen([*LEVELS, level("w8a8", 7.5, "SHIP", int8=0.93)]).notes)

    def test_nothing_ships(self) -> None:
        assert chosen([level("p4", 2.0, "REJECT")]).verdict == "REJECT"
        assert chosen([level("p4", 2.0, "REJECT"), level("w8", 4.0, "UNDECIDED")]).verdict == "UNDECIDED"

    def test_a_demo_voice_is_judged_and_never_released(self) -> None:
        choice = chosen(LEVELS, releasable=False)
        assert (choice.verdict, choice.level, choice.may_be_released) == ("SHIP", "w8", False)
        assert "ever released" in choice.notes[1]
        assert chosen(LEVELS).may_be_released


def test_a_level_is_judged_once_and_the_same_each_time(
    placed: tuple[Checkpoint, Path], measured: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 3: the voice is not releasable. The other levels are not built and say how they would be."""
    assert release(placed) == 3
    first = json.loads((placed[1] / "release" / "decision.json").read_text(encoding="utf-8"))
    assert release(placed) == 3
    assert json.loads((placed[1] / "release" / "decision.json").read_text(encoding="utf-8")) == first
    assert len(measured) == 24
    assert (first["verdict"], first["level"], first["releasable"], first["may_be_released"]) == ("SHIP", "fp16", False, False)
    known = {"checkpoint_sha256", "corpus_sha256", "code_sha256", "commit", "libraries", "seed", "seed_variation_seed", "bootstrap"}
    assert known <= set(first["provenance"])
    w8 = next(level for level in first["levels"] if level["method"] == "w8")
    assert w8["failed"] == "not built; `kokoro-ane quantize --method w8` builds it"
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["levels"]["fp16"] == "SHIP"


def test_an_interrupted_level_goes_on_where_it_stopped(
    placed: tuple[Checkpoint, Path], measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = execution.judge_clip

    def interrupted(reference: object, package: object, utterance, seed_variation: dict[str, float], **_: object) -> ClipResult:
        if len(measured) == 7:
            raise KeyboardInterrupt
        return honest(reference, package, utterance, seed_variation)

    monkeypatch.setattr(execution, "judge_clip", interrupted)
    assert release(placed, "--methods", "fp16") == 2
    assert not (placed[1] / "release" / "decision.json").exists()
    monkeypatch.setattr(execution, "judge_clip", honest)
    release(placed, "--methods", "fp16")
    assert len(measured) == len(set(measured)) == 24


def test_a_device_claim_is_undecided(placed: tuple[Checkpoint, Path], measured: list[str]) -> None:
    assert release(placed, "--claim", "device", "--methods", "fp16") == 3
    record = json.loads((placed[1] / "release" / "decision.json").read_text(encoding="utf-8"))
    assert record["levels"][0]["reasons"][0].startswith("a device claim needs a run on that device")


def test_processes_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes of two threads on two cores fight; what the user set stays."""
    before = torch.get_num_threads()
    monkeypatch.delenv(THREADS, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    with shared_cores(4):
        assert (torch.get_num_threads(), os.environ[THREADS]) == (2, "2")
    assert torch.get_num_threads() == before and THREADS not in os.environ
    monkeypatch.setenv(THREADS, "3")
    with shared_cores(4):
        assert torch.get_num_threads() == before and os.environ[THREADS] == "3"


@pytest.mark.slow
def test_two_workers_measure_what_one_measures(placed: tuple[Checkpoint, Path], tmp_path: Path) -> None:
    short = sorted(own_speech(placed[0]), key=lambda clip: clip.frames)[:2]  # the tiny package's longest input is 16 s
    manifest, reference = placed[1] / "KokoroVocoder-tiny-fp16.json", Reference(placed[0], 0)
    with Workers(reference, tmp_path / "one", 1) as alone:
        one = {clip.id: result for clip, result in alone.measure(manifest, Execution.of("declared"), short, {})}
    with pytest.raises(InputError, match="none.json does not exist"), Workers(reference, tmp_path / "two", 2) as processes:
        two = {clip.id: result for clip, result in processes.measure(manifest, Execution.of("declared"), short, {})}
        assert one == two and len(one) == 2
        list(processes.measure(placed[1] / "none.json", Execution.of("declared"), short, {}))  # a worker's bad input ends all


class TestBadInput:
    def test_unknown_method(self, placed: tuple[Checkpoint, Path], capsys: pytest.CaptureFixture[str]) -> None:
        assert release(placed, "--methods", "w9") == 2
        assert "unknown method 'w9'; there are: fp16, w8" in capsys.readouterr().err

    def test_nothing_built(self, placed: tuple[Checkpoint, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert release((placed[0], tmp_path), "--methods", "w8") == 2
        assert "`kokoro-ane quantize --method w8` builds it" in capsys.readouterr().err

    def test_another_checkpoint(self, placed: tuple[Checkpoint, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        other = Checkpoint.from_folder(write_checkpoint(tmp_path / "other", small_config(), seed=1, encoder=True))
        assert release((other, placed[1]), "--methods", "fp16") == 2
        assert "was built from checkpoint" in capsys.readouterr().err

    def test_a_spoilt_cache_file(self, placed: tuple[Checkpoint, Path], measured: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        assert release(placed, "--methods", "fp16") == 3
        next((placed[1] / "release" / "cache").rglob("judged-05.json")).write_text("{", encoding="utf-8")
        assert release(placed, "--methods", "fp16") == 2
        assert "delete it and it is measured again" in capsys.readouterr().err

    def test_evaluation_text_is_not_calibration_text(self) -> None:
        require_disjoint(heldout(), calibration())
        with pytest.raises(InputError, match="tune on other text"):
            require_disjoint([calibration()[3]], calibration())

    def test_report_without_a_decision(self, placed: tuple[Checkpoint, Path], capsys: pytest.CaptureFixture[str]) -> None:
        assert report(["--checkpoint", str(placed[0].folder), "--build", str(placed[1])]) == 2
        assert "`kokoro-ane release` decides" in capsys.readouterr().err


def test_the_default_is_the_smallest_level_on_a_chip_of_the_rules() -> None:
    arguments = parse_arguments([])
    assert (arguments.objective, arguments.chip) == ("smallest", "m4") and arguments.chip in load_rules().chips


def test_unknown_method_lists_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        quality(["--method", "w9"])
    error = capsys.readouterr().err
    assert "invalid choice: 'w9'" in error and "w8" in error


def test_unknown_checkpoint_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "eval/quality.py", "--method", "w8", "--checkpoint", str(tmp_path / "none")]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=Path(__file__).resolve().parents[1], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: checkpoint ")
