"""The release decision: choice by objective, resuming, exit codes, provenance, the page and the listening pack."""

import base64
import csv
import hashlib
import json
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from bench.random_checkpoint import write_checkpoint
from core.checkpoint import Checkpoint
from core.corpus import calibration, heldout, require_disjoint
from core.errors import InputError
from core.manifest import Manifest
from eval import levels as judged_levels
from eval.choose import Choice, choose
from eval.judge import ClipResult
from eval.levels import JudgedLevel
from eval.listening import pairs
from eval.metrics.registry import METRICS
from eval.release import main, parse_arguments
from eval.report import main as report
from mlprogram.examine.rules import load_rules
from tests.builds import small_config

PERFECT = {name: metric.perfect for name, metric in METRICS.items()}


def level(name: str, megabytes: float, verdict: str, unfit: str | None = None) -> JudgedLevel:
    """A judged level; its forecast rises as its size falls."""
    fields = dict.fromkeys(Manifest.__dataclass_fields__)
    manifest = Manifest(**fields | {"package_bytes": int(megabytes * 1e6), "compression": {}, "format": 1, "path": Path()})
    record = {"verdict": verdict, "broken": ["pesq mean"] if verdict == "REJECT" else [], "reasons": ["too near to tell"]}
    return JudgedLevel(name, name, unfit, None, manifest, record, {"m4": {"low_ms": 1 / megabytes, "high_ms": 4 / megabytes}})


LEVELS = [level("fp16", 7.0, "SHIP"), level("w8", 4.0, "SHIP"), level("p4", 2.0, "REJECT"), level("w4", 2.5, "SHIP", "for the GPU")]


def chosen(levels: list[JudgedLevel], objective: str = "smallest", releasable: bool = True) -> Choice:
    """The choice for chip m4."""
    return choose(levels, objective, "m4", "demo", releasable)


class TestChoice:
    def test_smallest_and_fastest_differ(self) -> None:
        assert chosen(LEVELS).level == "w8"
        assert chosen(LEVELS, "fastest").level == "fp16"
        assert "4.00 MB, the next is fp16 with 7.00 MB" in chosen(LEVELS).reason
        assert "forecast for m4" in chosen(LEVELS, "fastest").reason

    def test_what_would_be_better_is_named_with_its_reason(self) -> None:
        assert chosen(LEVELS).notes == (
            "w4 keeps every gate but is not chosen: for the GPU",
            "p4 would be 2.00 MB: REJECT, pesq mean",
        )

    def test_nothing_ships(self) -> None:
        assert chosen([level("p4", 2.0, "REJECT")]).verdict == "REJECT"
        assert chosen([level("p4", 2.0, "REJECT"), level("w8", 4.0, "UNDECIDED")]).verdict == "UNDECIDED"

    def test_a_demo_voice_is_judged_and_never_released(self) -> None:
        choice = chosen(LEVELS, releasable=False)
        assert (choice.verdict, choice.level, choice.may_be_released) == ("SHIP", "w8", False)
        assert "ever released" in choice.notes[1]
        assert chosen(LEVELS).may_be_released


@pytest.fixture(scope="module")
def built(tiny_checkpoint: Checkpoint, tiny_build: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkpoint, Path]:
    """A tiny checkpoint and its fp16 vocoder."""
    out = tmp_path_factory.mktemp("release") / "build"
    shutil.copytree(tiny_build, out, ignore=shutil.ignore_patterns("*Encoder*", "*fp32*"))
    return tiny_checkpoint, out


@pytest.fixture
def copied(built: tuple[Checkpoint, Path], tmp_path: Path) -> tuple[Checkpoint, Path]:
    """The same in a folder of its own."""
    return built[0], Path(shutil.copytree(built[1], tmp_path / "build"))


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Clips are found perfect without being rendered; the list of those that were asked for."""
    asked: list[str] = []

    def judge_clip(_truth: object, _package: object, utterance, seed_floor: dict[str, float]) -> ClipResult:
        asked.append(utterance.id)
        return ClipResult(utterance.id, utterance.voice, 5.0, utterance.text, PERFECT, seed_floor)

    class Spoken:
        """Stands for the fp32 renders."""

        def seed_floor(self) -> dict[str, float]:
            return PERFECT

    monkeypatch.setattr(judged_levels, "judge_clip", judge_clip)
    monkeypatch.setattr("eval.corpus.Truth.of", lambda *_: Spoken())
    monkeypatch.setattr("eval.decision.thread_floor", lambda *_: PERFECT)
    return asked


def release(place: tuple[Checkpoint, Path], *more: str) -> int:
    """The command on a place."""
    return main(["--checkpoint", str(place[0].folder), "--build", str(place[1]), "--no-build", *more])


def test_a_level_is_judged_once_and_the_same_each_time(
    copied: tuple[Checkpoint, Path], measured: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 3: the voice is not releasable. The other levels are not built and say how they would be."""
    assert release(copied) == 3
    first = json.loads((copied[1] / "release" / "decision.json").read_text(encoding="utf-8"))
    assert release(copied) == 3
    assert json.loads((copied[1] / "release" / "decision.json").read_text(encoding="utf-8")) == first
    assert len(measured) == 24
    assert (first["verdict"], first["level"], first["releasable"], first["may_be_released"]) == ("SHIP", "fp16", False, False)
    known = {"checkpoint_sha256", "corpus_sha256", "code_sha256", "commit", "tools", "seed", "seed_floor_seed", "bootstrap"}
    assert known <= set(first["provenance"])
    w8 = next(level for level in first["levels"] if level["method"] == "w8")
    assert w8["failed"] == "not built; `kokoro-ane quantize --method w8` builds it"
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["levels"]["fp16"] == "SHIP"


def test_an_interrupted_level_goes_on_where_it_stopped(
    copied: tuple[Checkpoint, Path], measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = judged_levels.judge_clip

    def interrupted(truth: object, package: object, utterance, seed_floor: dict[str, float]) -> ClipResult:
        if len(measured) == 7:
            raise KeyboardInterrupt
        return honest(truth, package, utterance, seed_floor)

    monkeypatch.setattr(judged_levels, "judge_clip", interrupted)
    assert release(copied, "--methods", "fp16") == 2
    assert not (copied[1] / "release" / "decision.json").exists()
    monkeypatch.setattr(judged_levels, "judge_clip", honest)
    release(copied, "--methods", "fp16")
    assert len(measured) == len(set(measured)) == 24


def test_a_device_claim_is_undecided(copied: tuple[Checkpoint, Path], measured: list[str]) -> None:
    assert release(copied, "--claim", "device", "--methods", "fp16") == 3
    record = json.loads((copied[1] / "release" / "decision.json").read_text(encoding="utf-8"))
    assert record["levels"][0]["reasons"][0].startswith("a device claim needs a run on that device")


class TestBadInput:
    def test_unknown_method(self, copied: tuple[Checkpoint, Path], capsys: pytest.CaptureFixture[str]) -> None:
        assert release(copied, "--methods", "w9") == 2
        assert "unknown method 'w9'; there are: fp16, w8" in capsys.readouterr().err

    def test_nothing_built(self, built: tuple[Checkpoint, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert release((built[0], tmp_path), "--methods", "w8") == 2
        assert "`kokoro-ane quantize --method w8` builds it" in capsys.readouterr().err

    def test_another_checkpoint(self, copied: tuple[Checkpoint, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        other = Checkpoint.from_folder(write_checkpoint(tmp_path / "other", small_config(), seed=1, encoder=True))
        assert release((other, copied[1]), "--methods", "fp16") == 2
        assert "was built from checkpoint" in capsys.readouterr().err

    def test_a_spoilt_cache_file(self, copied: tuple[Checkpoint, Path], measured: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        assert release(copied, "--methods", "fp16") == 3
        next((copied[1] / "release" / "cache").rglob("judged-05.json")).write_text("{", encoding="utf-8")
        assert release(copied, "--methods", "fp16") == 2
        assert "delete it and it is measured again" in capsys.readouterr().err

    def test_evaluation_text_is_not_calibration_text(self) -> None:
        require_disjoint(heldout(), calibration())
        with pytest.raises(InputError, match="tune on other text"):
            require_disjoint([calibration()[3]], calibration())

    def test_report_without_a_decision(self, copied: tuple[Checkpoint, Path], capsys: pytest.CaptureFixture[str]) -> None:
        assert report(["--checkpoint", str(copied[0].folder), "--build", str(copied[1])]) == 2
        assert "`python -m eval.release` decides" in capsys.readouterr().err


class Outside(HTMLParser):
    """Collects every address a page asks for, and how many players it has."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.players = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.players += tag == "audio"
        self.addresses += [value[:10] for name, value in attributes if name in ("src", "href") and value]


def test_report_is_one_page_and_the_pack_is_blind(
    copied: tuple[Checkpoint, Path], measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    release(copied, "--methods", "fp16")
    curve = copied[1] / "sensitivity" / "KokoroVocoder-tiny-fp16-int8_macs.png"
    curve.parent.mkdir()
    curve.write_bytes(b"a curve")
    monkeypatch.undo()
    arguments = ["--checkpoint", str(copied[0].folder), "--build", str(copied[1])]
    assert report(arguments) == 0
    folder = copied[1] / "release"
    text = (folder / "report.html").read_text(encoding="utf-8")
    page = Outside()
    page.feed(text)
    assert set(page.addresses) == {"data:image", "data:audio"}
    assert page.players == 6  # three voices by the reference and by fp16
    assert f"data:image/png;base64,{base64.b64encode(b'a curve').decode()}" in text
    assert text.index("Would release fp16") < text.index("<table") < text.index("<audio")
    key = base64.b64decode((folder / "listening" / "key.sealed").read_bytes())
    assert hashlib.sha256(key).hexdigest() in (folder / "listening" / "README.txt").read_text(encoding="utf-8")
    with (folder / "listening" / "sheet.csv").open(encoding="utf-8") as stream:
        rows = list(csv.reader(stream))
    assert len(rows) - 1 == len(json.loads(key)["pairs"]) == len(list((folder / "listening").glob("*-A.wav"))) == 6


def test_pairs_are_shuffled_by_the_seed_and_hold_catch_trials() -> None:
    from eval.audition import REFERENCE, Heard

    heard = [Heard(clip, {REFERENCE: np.zeros(1), "w8": np.zeros(1)}) for clip in heldout()[:6]]
    found = pairs(heard, ["w8"], seed=3)
    assert found == pairs(heard, ["w8"], seed=3) != pairs(heard, ["w8"], seed=4)
    assert sum(pair["A"] == pair["B"] == REFERENCE for pair in found) == 6
    assert {pair["A"] for pair in found if pair["A"] != pair["B"]} == {REFERENCE, "w8"}


def test_the_default_is_the_smallest_level_on_a_chip_of_the_rules() -> None:
    arguments = parse_arguments([])
    assert (arguments.objective, arguments.chip) == ("smallest", "m4") and arguments.chip in load_rules().chips
