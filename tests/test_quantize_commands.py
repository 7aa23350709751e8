"""The commands of quantize/ and eval.quality on tiny packages: exit codes, last lines, refusals."""

import json
import shutil
from pathlib import Path

import pytest

from bench.random_checkpoint import write_checkpoint
from kokoro_ane.core.checkpoint import Checkpoint, open_checkpoint
from kokoro_ane.eval import execution
from kokoro_ane.eval.judge import ClipResult
from kokoro_ane.eval.metrics.catalog import METRICS as METRICS_JUDGED
from kokoro_ane.eval.quality import main as quality
from kokoro_ane.pipeline.apply import main as apply
from kokoro_ane.quantize import measure
from kokoro_ane.quantize.activations import calibration_inputs
from kokoro_ane.quantize.layer_plan import plan_for, program_layers
from kokoro_ane.quantize.locator import Request
from kokoro_ane.quantize.measure import LayerTrials
from kokoro_ane.quantize.methods import METHODS
from kokoro_ane.quantize.recipe import load_recipe
from kokoro_ane.quantize.sensitivity import main as sensitivity
from kokoro_ane.quantize.speech import own_speech
from kokoro_ane.vocoder.decoder import Vocoder
from tests.builds import small_config
from tests.quantize_build import manifest_of, program_of


class TestApplyCommand:
    def test_last_line_is_json(self, instant: tuple[Checkpoint, Path], capsys: pytest.CaptureFixture[str]) -> None:
        checkpoint, build = instant
        assert apply(["--method", "w8", "--checkpoint", str(checkpoint.folder), "--build", str(build)]) == 0
        printed = capsys.readouterr()
        data = json.loads(printed.out.splitlines()[-1])
        assert data["manifest"].endswith("-w8.json")
        assert data["share_of_parent"] < 1
        assert "not releasable" in printed.out

    def test_no_parent(self, built: tuple[Checkpoint, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert apply(["--method", "w8a8", "--checkpoint", str(built[0].folder), "--build", str(tmp_path)]) == 2
        assert "does not exist: run `kokoro-ane build vocoder --" in capsys.readouterr().err
        assert not list(tmp_path.iterdir())

    def test_unknown_method_lists_the_methods(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit, match="2"):
            apply(["--method", "w9"])
        said = capsys.readouterr().err
        assert all(name in said for name in METHODS if name != "fp16")

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            (["--method", "mixed"], "there is no recipe for this checkpoint; `kokoro-ane sensitivity` finds one"),
            (["--method", "w8", "--recipe", "r.json"], "method 'w8' takes no recipe"),
            (["--method", "w8a8", "--set", "alpha=1"], "give KEY=VALUE with a key of clips, exponent, float_inputs, padded_float"),
        ],
    )
    def test_one_clear_line(
        self, built: tuple[Checkpoint, Path], more: list[str], message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert apply([*more, "--checkpoint", str(built[0].folder), "--build", str(built[1])]) == 2
        assert message in capsys.readouterr().err


class TestSensitivityCommand:
    @pytest.fixture
    def measured_layers(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Layers measured so far; the figure is the number of characters of their names. Calibration takes two sentences."""
        layers: list[str] = []

        def distance_db2(_: LayerTrials, levels: dict[str, str]) -> float:
            layers.append(next(iter(levels)) if len(levels) == 1 else "together")
            return len(layers[-1]) / 1000

        monkeypatch.setattr(LayerTrials, "distance_db2", distance_db2)
        two = lambda checkpoint, vocoder, _, **more: calibration_inputs(checkpoint, vocoder, 2, **more)  # noqa: E731
        monkeypatch.setattr(measure, "calibration_inputs", two)
        return layers

    def run(self, built: tuple[Checkpoint, Path], folder: Path, *more: str) -> int:
        files = ("--log", str(folder / "log.jsonl"), "--recipe", str(folder / "recipe.json"))
        return sensitivity([*files, "--checkpoint", str(built[0].folder), "--build", str(built[1]), "--clips", "1", *more])

    def test_recipe_plot_and_resumption(
        self, built: tuple[Checkpoint, Path], measured_layers: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.run(built, tmp_path, "--int8-macs", "0.5") == 0
        data = json.loads(capsys.readouterr().out.splitlines()[-1])
        recipe = load_recipe(tmp_path / "recipe.json")
        assert data["forecast"]["int8_macs"] == recipe.forecast["int8_macs"] >= 0.5
        assert Path(data["plot"]).read_bytes().startswith(b"\x89PNG")
        plan_for(METHODS["mixed"], program_layers(program_of(built, "fp16"), Vocoder.of(built[0])), recipe.levels)
        assert len(measured_layers) > 50

        whole = (tmp_path / "log.jsonl").read_text(encoding="utf-8")
        (tmp_path / "log.jsonl").write_text(whole[:-20], encoding="utf-8")
        measured_layers.clear()
        assert self.run(built, tmp_path, "--int8-macs", "0.5") == 0
        assert len(measured_layers) == 2  # the line that was cut off, and all together
        assert (tmp_path / "log.jsonl").read_text(encoding="utf-8") == whole
        capsys.readouterr()

        assert self.run(built, tmp_path, "--int8-macs", "0.999") == 2
        assert "budget int8_macs 0.999 is out of reach: these levels go as far as" in capsys.readouterr().err

    def test_a_size_takes_palettes_and_float_inputs(
        self, built: tuple[Checkpoint, Path], measured_layers: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.run(built, tmp_path, "--size", "0.8") == 0
        data = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert data["forecast"]["size"] <= 0.8
        assert data["forecast"]["int8_macs"] == 0
        assert set(load_recipe(tmp_path / "recipe.json").levels.values()) <= {"fp16", "w8", "p6", "p4"}
        assert measured_layers[-1] == "together"

    def test_a_budget_that_is_no_share(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit, match="2"):
            sensitivity(["--size", "1.5"])
        assert "1.5 is not a share" in capsys.readouterr().err


class TestQualityCommand:
    def run(self, built: tuple[Checkpoint, Path], *more: str, method: str = "w8") -> int:
        return quality(["--method", method, "--checkpoint", str(built[0].folder), "--build", str(built[1]), "--workers", "1", *more])

    def test_one_clip_is_measured_but_undecided(
        self, copied: tuple[Checkpoint, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        two_seconds = min((clip for clip in own_speech(copied[0]) if clip.frames >= 80), key=lambda clip: clip.frames)
        monkeypatch.setattr("kokoro_ane.eval.reference.judged_clips", lambda *_: [two_seconds])
        monkeypatch.setattr("kokoro_ane.eval.metrics.trial.words_heard", lambda _: ("nothing",))  # slow where random weights speak
        assert self.run(copied, "--clips", "1") == 3
        printed = capsys.readouterr().out
        data = json.loads(printed.splitlines()[-1])
        record = json.loads(Path(data["file"]).read_text(encoding="utf-8"))
        assert "PESQ wide band" in printed
        assert "not releasable" in printed
        assert data["verdict"] == record["verdict"] == "UNDECIDED"
        assert data["releasable"] is False
        assert record["clips"][0]["figures"]["snr_db"] == pytest.approx(data["summary"]["snr_db"]["mean"], abs=1e-4)
        assert record["clips"][0]["figures"]["pesq"] > record["clips"][0]["seed_variation"]["pesq"]
        assert record["provenance"]["package_sha256"] == manifest_of(copied, "w8").package_sha256

        assert self.run(copied, "--clips", "1", "--out", str(copied[1] / "again.json")) == 3
        assert json.loads((copied[1] / "again.json").read_text(encoding="utf-8")) == record

    def test_all_clips_decide(
        self, copied: tuple[Checkpoint, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Clips are measured as perfect, and then as silent: SHIP and REJECT reach the exit code."""
        monkeypatch.setattr(execution, "judge_clip", measured_as(None))
        assert self.run(copied) == 0
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["verdict"] == "SHIP"
        shutil.rmtree(copied[1] / "release" / "cache")  # what was measured is not measured again
        monkeypatch.setattr(execution, "judge_clip", measured_as("is silent"))
        assert self.run(copied) == 1
        data = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert data["verdict"] == "REJECT"
        assert "the package's output is silent" in data["reasons"][0]

    def test_what_is_missing_is_built_first(
        self, built: tuple[Checkpoint, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """w8 where nothing is built: its parent, then itself, by the commands that a user would type; then it is judged."""
        asked = []

        def build(command: str) -> None:  # stands for the child process
            asked.append(command.split()[1])
            manifest = manifest_of(built, "w8" if asked[-1] == "quantize" else "fp16")
            shutil.copytree(manifest.package_path, tmp_path / manifest.package)
            shutil.copy(manifest.path, tmp_path)

        monkeypatch.setattr("kokoro_ane.quantize.locator.run_command", build)
        monkeypatch.setattr(execution, "judge_clip", measured_as(None))
        assert self.run((built[0], tmp_path)) == 0
        assert asked == ["build", "quantize"]
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["verdict"] == "SHIP"

    def test_a_layout_is_built_under_its_name(self) -> None:
        fp16, w8a8 = (Request(open_checkpoint("demo"), Path("a b"), level, "tiled-poly") for level in ("fp16", "w8a8"))
        assert fp16.command(fp16.vocoder) == "kokoro-ane build vocoder --layout tiled-poly --checkpoint demo --out 'a b'"
        assert w8a8.command(w8a8.vocoder) == "kokoro-ane quantize --method w8a8 --layout tiled-poly --checkpoint demo --build 'a b'"

    def test_another_checkpoint(self, copied: tuple[Checkpoint, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        other = Checkpoint.from_folder(write_checkpoint(tmp_path / "other", small_config(), seed=1, encoder=True))
        assert self.run((other, copied[1])) == 2
        assert "was built from checkpoint" in capsys.readouterr().err

    def test_a_changed_package(self, copied: tuple[Checkpoint, Path], capsys: pytest.CaptureFixture[str]) -> None:
        weights = next(manifest_of(copied, "w8").package_path.rglob("weight.bin"))
        data = bytearray(weights.read_bytes())
        data[-100] ^= 1
        weights.write_bytes(data)
        assert self.run(copied) == 2
        assert "its manifest says" in capsys.readouterr().err

    def test_too_many_clips(self, built: tuple[Checkpoint, Path], capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run(built, "--clips", "25") == 2
        assert "--clips 25: there are 24 clips, give 1 to 24" in capsys.readouterr().err


def measured_as(defect):
    """A judge_clip that finds every clip perfect, or without audio."""
    perfect = {name: metric.perfect for name, metric in METRICS_JUDGED.items()}

    def judge_clip(_truth, _subject, utterance, _seed_variation, **_: object) -> ClipResult:
        return ClipResult(utterance.id, utterance.voice, 5.0, utterance.text, {} if defect else perfect, perfect, defect)

    return judge_clip
