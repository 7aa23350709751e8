"""What decides is not believed but checked: manifests, cached figures, decisions, voices and limits
that somebody changed.
"""

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kokoro_ane.core import commit
from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checksummed import checksummed
from kokoro_ane.eval.listening import REFERENCE, Heard
from kokoro_ane.eval.provenance import Libraries
from kokoro_ane.eval.reference import judged_clips
from kokoro_ane.eval.report import main as report
from kokoro_ane.pipeline.decision_file import ABOUT
from tests.release_build import release, shortened
from tests.sweep_calls import changed, places


class TestNothingIsBelieved:
    """Edited files, swapped voices, moved limits: found, named, exit 2 with no decision, or said in
    the decision.
    """

    def refused(self, place: tuple[Checkpoint, Path], capsys: pytest.CaptureFixture) -> str:
        """The one line of a release of fp16 that ends with exit 2 and leaves no decision."""
        (place[1] / "release" / "decision.json").unlink(missing_ok=True)
        capsys.readouterr()
        assert release(place, "--methods", "fp16") == 2
        assert not (place[1] / "release" / "decision.json").exists()
        return [
            line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")
        ][0]

    @pytest.mark.parametrize(
        ("edit", "said"),
        [
            (
                {"package_bytes": 1},
                "says package_bytes 1, but KokoroVocoder-tiny-fp16.mlpackage has",
            ),
            ({"target": "iOS15"}, "says target iOS15, the package itself iOS17"),
            ({"operations": {"conv": 1}}, "says operations {'conv': 1}, the package itself"),
            ({"compression": {"int8_macs_share": 0.9}}, "says"),
            ({"releasable": True}, "says releasable: true, but its weights"),
        ],
    )
    def test_an_edited_manifest(
        self,
        placed: tuple[Checkpoint, Path],
        measured: list[str],
        edit: dict,
        said: str,
        capsys: pytest.CaptureFixture,
    ) -> None:
        path = placed[1] / "KokoroVocoder-tiny-fp16.json"
        path.write_text(
            json.dumps(json.loads(path.read_text(encoding="utf-8")) | edit), encoding="utf-8"
        )
        line = self.refused(placed, capsys)
        assert said in line
        assert "edited" in line
        assert not measured

    @pytest.mark.parametrize("name", ["judged-05", "facts-*", "limits"])
    def test_an_edited_cache(
        self,
        placed: tuple[Checkpoint, Path],
        measured: list[str],
        name: str,
        capsys: pytest.CaptureFixture,
    ) -> None:
        release(placed, "--methods", "fp16")
        path = next((placed[1] / "release" / "cache").rglob(f"{name}.json"))
        path.write_text(
            path.read_text(encoding="utf-8").replace('"data": {', '"data": {"pesq": 4.64, '),
            encoding="utf-8",
        )
        assert "edited or copied here; delete it and it is measured again" in self.refused(
            placed, capsys
        )

    def test_an_edited_decision(
        self, placed: tuple[Checkpoint, Path], measured: list[str], capsys: pytest.CaptureFixture
    ) -> None:
        release(placed, "--methods", "fp16")
        path = placed[1] / "release" / "decision.json"
        path.write_text(
            path.read_text(encoding="utf-8").replace(
                '"may_be_released": false', '"may_be_released": true'
            ),
            encoding="utf-8",
        )
        assert report(["--checkpoint", str(placed[0].folder), "--build", str(placed[1])]) == 2
        assert "edited or copied here; run `kokoro-ane release` again" in capsys.readouterr().err

    def test_a_swapped_voice(
        self,
        placed: tuple[Checkpoint, Path],
        measured: list[str],
        tmp_path: Path,
        capsys: pytest.CaptureFixture,
    ) -> None:
        """The same weights, so the package's hash of them agreed and the old figures came back."""
        folder = Path(shutil.copytree(placed[0].folder, tmp_path / "swapped"))
        shutil.copy(folder / "voices" / "awb.pt", folder / "voices" / "slt.pt")
        line = self.refused((Checkpoint.from_folder(folder), placed[1]), capsys)
        assert "the same weights with another config or other voices" in line

    def test_moved_limits_are_told_and_judge_again(
        self, placed: tuple[Checkpoint, Path], measured: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def notes(limits: dict[str, str]) -> list[str]:
            monkeypatch.setattr("kokoro_ane.eval.store.limits", lambda: limits)
            release(placed, "--methods", "fp16")
            decision = json.loads(
                (placed[1] / "release" / "decision.json").read_text(encoding="utf-8")
            )
            assert decision["provenance"]["limits"][-1]["sha256"] == limits["sha256"]
            return [note for note in decision["notes"] if note.startswith("limits ")]

        old = {"sha256": "a" * 64, "commit": "1" * 40, "committed": "2020-01-01T00:00:00+00:00"}
        assert notes(old) == []
        (moved,) = notes(old | {"sha256": "b" * 64, "commit": "2" * 40})
        assert moved.startswith("limits were moved after results")
        assert "1111111111" in moved
        assert "2222222222" in moved
        assert len(measured) == 24  # judged again, not measured again
        newer = placed[1] / "release" / "cache"
        shutil.rmtree(newer)
        assert notes(old | {"committed": "2999-01-01T00:00:00+00:00"})[0].startswith(
            "limits are newer than results"
        )
        shutil.rmtree(newer)
        assert notes(old | {"commit": "1" * 40 + "+"})[0].startswith("limits that no commit holds")


TAGS = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>')
ODD: tuple[Any, ...] = (*TAGS, None, -1, 1e300, "x", "\ud800", [], {}, {"x": {}})
SILENCE = np.zeros(24, np.float32)


class Forger:
    """A decision that anybody edits and seals again, and the report of it."""

    def __init__(self, place: tuple[Checkpoint, Path]) -> None:
        self.command = ["--checkpoint", str(place[0].folder), "--build", str(place[1])]
        self.folder = place[1] / "release"
        self.record = json.loads((self.folder / "decision.json").read_text(encoding="utf-8"))
        del self.record["checksum_sha256"]

    def reported(self, record: Mapping[str, Any]) -> int:
        (self.folder / "decision.json").write_text(
            json.dumps(checksummed(record, ABOUT)), encoding="utf-8"
        )
        return report(self.command)

    def page(self) -> str:
        return (self.folder / "report.html").read_text(encoding="utf-8")


class TestAForgedDecision:
    """Whoever edits a decision may seal it again. The page shows it in safety, or there is one
    line.
    """

    @pytest.fixture
    def decided(
        self, placed: tuple[Checkpoint, Path], measured: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> Forger:
        assert release(placed, "--methods", "fp16,w8") == 3  # w8 is not built: a level that failed
        monkeypatch.undo()
        spoken = judged_clips(placed[0])
        cheap = {  # what the page does not depend on
            "kokoro_ane.core.checkpoint.open_checkpoint": lambda _: placed[0],
            "kokoro_ane.eval.reference.Reference": lambda *_: None,
            "kokoro_ane.eval.reference.judged_clips": lambda *_: spoken,
            "kokoro_ane.eval.listening.audition": lambda _, levels, said: [
                Heard(clip, dict.fromkeys((REFERENCE, *levels), SILENCE)) for clip in said
            ],
            "kokoro_ane.eval.listening.write_pack": lambda *_: 0,
        }
        for name, function in cheap.items():
            monkeypatch.setattr(name, function)
        return Forger(placed)

    def test_it_is_shown_as_it_was(self, decided: Forger) -> None:
        assert decided.reported(decided.record) == 0
        assert "iOS 17" in decided.page()

    def test_every_leaf_in_turn(self, decided: Forger, capsys: pytest.CaptureFixture) -> None:
        record, shown = shortened(decided.record), 0
        kinds = {
            tuple(0 if isinstance(key, int) else key for key in at): at for at in places(record)
        }
        for number, at in enumerate(kinds.values()):
            for value in (TAGS[number % 2], ODD[number % len(ODD)]):
                capsys.readouterr()
                code = decided.reported(changed(record, at, value))
                said = capsys.readouterr().err.splitlines()
                assert code == 0 or (
                    code == 2 and len(said) == 1 and said[0].startswith("error: ")
                ), (at, value, said)
                shown += code == 0
                assert code or not any(tag in decided.page() for tag in TAGS), (at, value)
        assert shown > 20


@pytest.fixture(scope="module")
# this tree as one commit of a repository of its own
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("committed") / "tree"
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=commit.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(
        lambda name: (commit.ROOT / name).is_file() or (commit.ROOT / name).is_symlink(),
        names.stdout.splitlines(),
    ):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        # kokoro_ane/ leads to the rooms
        shutil.copy2(commit.ROOT / name, place / name, follow_symlinks=False)
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "-m", "all of it"],
    ):
        subprocess.run(["git", *words], cwd=place, check=True)
    return place


class TestWhatNoCommitHolds:
    """Whatever the gates say, nothing may be released by limits, a list, code or libraries that
    nobody stands for: exit 3.
    """

    @pytest.fixture
    def tree(self, committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        tree = Path(shutil.copytree(committed, tmp_path / "tree", symlinks=True))
        monkeypatch.setattr(commit, "ROOT", tree)
        monkeypatch.setattr(Checkpoint, "withheld", None)
        monkeypatch.setattr(Checkpoint, "releasable", False)  # of its packages' names only
        return tree

    def decided(self, place: tuple[Checkpoint, Path]) -> tuple[int, bool, str]:
        code = release(place, "--methods", "fp16")
        decision = json.loads((place[1] / "release" / "decision.json").read_text(encoding="utf-8"))
        return (
            code,
            decision["may_be_released"],
            " ".join(note for note in decision["notes"] if "releasable" in note),
        )

    def test_edits_that_git_is_told_not_to_see(
        self,
        placed: tuple[Checkpoint, Path],
        measured: list[str],
        tree: Path,
        committed: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        assert self.decided(placed) == (0, True, "")
        gates, allowed = tree / "eval" / "gates.py", tree / "core" / "data" / "releasable.json"
        for path, words in (
            (gates, "--assume-unchanged"),
            (allowed, "--skip-worktree"),
            (gates, ""),
        ):
            honest, name = path.read_bytes(), path.relative_to(tree).as_posix()
            path.write_bytes(honest.replace(b"4.0", b"1.0") + b"\n")
            if words:
                subprocess.run(["git", "update-index", words, name], cwd=tree, check=True)
            else:
                for variable, inner in (
                    ("GIT_DIR", ".git"),
                    ("GIT_WORK_TREE", "."),
                    ("GIT_INDEX_FILE", ".git/index"),
                ):
                    monkeypatch.setenv(variable, str(committed / inner))
            code, may, said = self.decided(placed)
            assert (code, may) == (3, False), words
            assert f"{name} is not as commit" in said, words
            path.write_bytes(honest)
        assert self.decided(placed) == (0, True, "")
        link = tree / "kokoro_ane" / "core"
        link.unlink()
        link.symlink_to("../eval")
        assert "kokoro_ane/core is not as commit" in self.decided(placed)[2]
        shutil.rmtree(tree / ".git")
        code, may, said = self.decided(placed)
        assert (code, may) == (3, False)
        assert "no git checkout says which commit decides" in said

    def test_a_library_that_was_altered_or_stands_in_front(
        self,
        placed: tuple[Checkpoint, Path],
        measured: list[str],
        tree: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        honest = Libraries.of({"pesq", "pystoi"})
        assert not honest.strange
        (tmp_path / "front").mkdir()
        (tmp_path / "front" / "pesq.py").write_text("def pesq(*_): return 4.64\n", encoding="utf-8")
        monkeypatch.setattr(sys, "path", [str(tmp_path / "front"), *sys.path])
        importlib.invalidate_caches()
        monkeypatch.delitem(sys.modules, "pesq", raising=False)
        forged = Libraries.of({"pesq", "pystoi"})
        assert forged.strange == (str(tmp_path / "front" / "pesq.py"),)
        assert forged.sha256["pesq"] != honest.sha256["pesq"]
        assert forged.sha256["pystoi"] == honest.sha256["pystoi"]
        self.decided(placed)
        for module in ("kokoro_ane.eval.store", "kokoro_ane.eval.provenance"):
            monkeypatch.setattr(f"{module}.libraries", lambda: forged)
        code, may, said = self.decided(placed)
        assert (code, may, len(measured)) == (
            3,
            False,
            48,
        )
        assert "pesq.py is not as it was installed" in said

    def test_code_that_changed_under_a_run(
        self,
        placed: tuple[Checkpoint, Path],
        measured: list[str],
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture,
    ) -> None:
        """Edited before it was imported, put back before it was hashed: the clean key must not get
        these figures.
        """
        monkeypatch.setattr("kokoro_ane.eval.store.STARTED_NS", 1)
        assert release(placed, "--methods", "fp16") == 2
        assert "the code has changed since this run began" in capsys.readouterr().err
        assert not list((placed[1] / "release").rglob("judged-*.json"))
