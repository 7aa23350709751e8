"""What decides is not believed but checked: manifests, cached figures, decisions, voices and limits that somebody changed."""

import json
import shutil
from pathlib import Path

import pytest

from core.checkpoint import Checkpoint
from eval.report import main as report
from tests.release_build import release


class TestNothingIsBelieved:
    """Edited files, swapped voices, moved limits: found, named, exit 2 with no decision, or said in the decision."""

    def refused(self, place: tuple[Checkpoint, Path], capsys: pytest.CaptureFixture[str]) -> str:
        """The one line of a release of fp16 that ends with exit 2 and leaves no decision."""
        (place[1] / "release" / "decision.json").unlink(missing_ok=True)
        capsys.readouterr()
        assert release(place, "--methods", "fp16") == 2
        assert not (place[1] / "release" / "decision.json").exists()
        return [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")][0]

    @pytest.mark.parametrize(
        ("edit", "said"),
        [
            ({"package_bytes": 1}, "says package_bytes 1, but KokoroVocoder-tiny-fp16.mlpackage has"),
            ({"target": "iOS15"}, "says target iOS15, the package itself iOS17"),
            ({"operations": {"conv": 1}}, "says operations {'conv': 1}, the package itself"),
            ({"compression": {"int8_macs_share": 0.9}}, "says"),
            ({"releasable": True}, "says releasable: true, but its weights"),
        ],
    )
    def test_an_edited_manifest(
        self, placed: tuple[Checkpoint, Path], measured: list[str], edit: dict, said: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = placed[1] / "KokoroVocoder-tiny-fp16.json"
        path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | edit), encoding="utf-8")
        line = self.refused(placed, capsys)
        assert said in line and "edited" in line
        assert not measured

    @pytest.mark.parametrize("name", ["judged-05", "facts-*", "limits"])
    def test_an_edited_cache(
        self, placed: tuple[Checkpoint, Path], measured: list[str], name: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        release(placed, "--methods", "fp16")
        path = next((placed[1] / "release" / "cache").rglob(f"{name}.json"))
        path.write_text(path.read_text(encoding="utf-8").replace('"data": {', '"data": {"pesq": 4.64, '), encoding="utf-8")
        assert "edited or copied here; delete it and it is measured again" in self.refused(placed, capsys)

    def test_an_edited_decision(self, placed: tuple[Checkpoint, Path], measured: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        release(placed, "--methods", "fp16")
        path = placed[1] / "release" / "decision.json"
        path.write_text(path.read_text(encoding="utf-8").replace('"may_be_released": false', '"may_be_released": true'), encoding="utf-8")
        assert report(["--checkpoint", str(placed[0].folder), "--build", str(placed[1])]) == 2
        assert "edited or copied here; run `python -m eval.release` again" in capsys.readouterr().err

    def test_a_swapped_voice(
        self, placed: tuple[Checkpoint, Path], measured: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
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
            monkeypatch.setattr("eval.store.limits", lambda: limits)
            release(placed, "--methods", "fp16")
            decision = json.loads((placed[1] / "release" / "decision.json").read_text(encoding="utf-8"))
            assert decision["provenance"]["limits"][-1]["sha256"] == limits["sha256"]
            return [note for note in decision["notes"] if note.startswith("limits ")]

        old = {"sha256": "a" * 64, "commit": "1" * 40, "committed": "2020-01-01T00:00:00+00:00"}
        assert notes(old) == []
        (moved,) = notes(old | {"sha256": "b" * 64, "commit": "2" * 40})
        assert moved.startswith("limits were moved after results") and "1111111111" in moved and "2222222222" in moved
        assert len(measured) == 24  # judged again, not measured again
        newer = placed[1] / "release" / "cache"
        shutil.rmtree(newer)
        assert notes(old | {"committed": "2999-01-01T00:00:00+00:00"})[0].startswith("limits are newer than results")
        shutil.rmtree(newer)
        assert notes(old | {"commit": "1" * 40 + "+"})[0].startswith("limits that no commit holds")
