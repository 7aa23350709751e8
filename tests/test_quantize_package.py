"""A tiny package, compressed, executed and judged: from random checkpoint to verdict through the two commands."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest

from bench.random_checkpoint import tiny_config, write_checkpoint
from eval import judge
from eval.metrics.registry import METRICS
from eval.quality import main as quality
from mlprogram import Program
from pipeline.checkpoint import Checkpoint
from pipeline.errors import CheckFailed, InputError
from pipeline.export import package_sha256
from pipeline.manifest import Manifest
from quantize import build as compression
from quantize.apply import main as apply
from quantize.build import build_compressed
from quantize.methods import METHODS
from quantize.packages import find_package
from quantize.weights import Coverage
from vocoder.convert import build as build_vocoder

W8 = METHODS["w8"]


def small_config() -> dict[str, Any]:
    """The tiny architecture with one residual block a stage instead of three: half the operations."""
    config = tiny_config()
    config["istftnet"] |= {"resblock_kernel_sizes": [11], "resblock_dilation_sizes": [[1, 3, 5]]}
    return config


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkpoint, Path]:
    """A tiny checkpoint and a build folder with its fp16 and w8 packages."""
    folder = tmp_path_factory.mktemp("quantize")
    checkpoint = Checkpoint.from_folder(write_checkpoint(folder / "checkpoint", small_config()))
    build_vocoder(checkpoint, (40, 280), "fp16", "iOS17", folder / "build")
    build_compressed(W8, checkpoint, folder / "build")
    return checkpoint, folder / "build"


@pytest.fixture
def copied(built: tuple[Checkpoint, Path], tmp_path: Path) -> tuple[Checkpoint, Path]:
    """The same in a folder of its own, to be spoilt."""
    return built[0], Path(shutil.copytree(built[1], tmp_path / "build"))


@pytest.fixture
def quick(copied: tuple[Checkpoint, Path], monkeypatch: pytest.MonkeyPatch) -> tuple[Checkpoint, Path]:
    """`copied`, with compression replaced by the package that it gave before."""
    before = shutil.copytree(manifest_of(copied, "w8").package_path, copied[1] / "before.mlpackage")
    monkeypatch.setattr(compression, "compressed", lambda *_: ct.models.MLModel(str(before), skip_model_load=True))
    return copied


def manifest_of(built: tuple[Checkpoint, Path], method: str) -> Manifest:
    """The verified manifest."""
    return find_package(built[1], built[0], METHODS[method])


class TestCompression:
    def test_the_parent_is_untouched_and_both_verify(self, built: tuple[Checkpoint, Path]) -> None:
        """coremltools rewrites the Manifest.json of a package it opens; ours opens a copy."""
        parent, child = manifest_of(built, "fp16"), manifest_of(built, "w8")
        assert child.parent_sha256 == parent.package_sha256
        assert child.method == "w8"
        assert child.releasable is False
        assert (child.buckets, child.inputs, child.checkpoint) == (parent.buckets, parent.inputs, parent.checkpoint)
        assert child.package_bytes < parent.package_bytes

    def test_large_convolutions_are_int8_per_channel_and_small_ones_stay(self, built: tuple[Checkpoint, Path]) -> None:
        before, after = (Program(manifest_of(built, name).package_path) for name in ("fp16", "w8"))
        constants = {op.outputs[0].name: op.op_type for op in after.operations if op.outputs}
        sizes = {op.name: np.asarray(before.constant(op.inputs["weight"][0])).size for op in before.operations if op.op_type == "conv"}
        stored = {op.name: constants[op.inputs["weight"][0]] for op in after.operations if op.op_type == "conv"}
        assert {name for name, kind in stored.items() if kind.startswith("constexpr_")} == {name for name, n in sizes.items() if n > 2048}
        assert manifest_of(built, "w8").compression["compressed_ops"] >= 10
        assert manifest_of(built, "w8").compression["skipped"] == []

    def test_weights_are_on_the_int8_grid_of_their_channel(self, built: tuple[Checkpoint, Path]) -> None:
        before, after = (Program(manifest_of(built, name).package_path) for name in ("fp16", "w8"))
        kinds = {op.outputs[0].name: op.op_type for op in after.operations if op.outputs}
        names = {op.name: op.inputs["weight"][0] for op in after.operations if op.op_type == "conv"}
        conv = next(name for name, weight in names.items() if kinds[weight].startswith("constexpr_"))
        exact = np.asarray(before.constant(next(o.inputs["weight"][0] for o in before.operations if o.name == conv)), dtype=np.float64)
        coarse = np.asarray(after.constant(names[conv]), dtype=np.float64)
        steps = np.abs(exact).reshape(len(exact), -1).max(axis=1) / 127
        assert np.abs(coarse - exact).reshape(len(exact), -1).max(axis=1) == pytest.approx(steps / 2, rel=0.5)
        levels = coarse.reshape(len(exact), -1) / steps[:, None]
        assert np.abs(levels - np.round(levels)).max() < 0.1

    def test_same_inputs_same_bytes(self, copied: tuple[Checkpoint, Path]) -> None:
        first = manifest_of(copied, "w8").package_sha256
        assert build_compressed(W8, *copied)[1].package_sha256 == first == package_sha256(manifest_of(copied, "w8").package_path)

    def test_a_skipped_layer_is_refused(self, built: tuple[Checkpoint, Path]) -> None:
        program = Program(manifest_of(built, "fp16").package_path)
        coverage = Coverage.of(program, program, keep_up_to=2048)
        assert coverage.compressed_ops == 0
        with pytest.raises(CheckFailed, match="convolutions kept their float weights, the first is"):
            coverage.require()
        with pytest.raises(CheckFailed, match="no weight was compressed"):
            dataclasses.replace(coverage, skipped=()).require()

    def test_a_package_below_the_limit_is_not_kept(self, quick: tuple[Checkpoint, Path]) -> None:
        checkpoint, build = quick
        shutil.rmtree(manifest_of(quick, "w8").package_path)
        with pytest.raises(CheckFailed, match=r"SNR against fp16, .* limit 300 dB"):
            build_compressed(dataclasses.replace(W8, check_snr_db=300.0), checkpoint, build)
        assert not list(build.glob("*w8.mlpackage")) + list(build.glob(".staged*"))

    def test_fp16_is_not_a_compression(self, built: tuple[Checkpoint, Path]) -> None:
        with pytest.raises(InputError, match="method 'fp16' compresses nothing: `make vocoder`"):
            build_compressed(METHODS["fp16"], *built)


class TestApplyCommand:
    def test_last_line_is_json(self, quick: tuple[Checkpoint, Path], capsys: pytest.CaptureFixture[str]) -> None:
        checkpoint, build = quick
        assert apply(["--method", "w8", "--checkpoint", str(checkpoint.folder), "--build", str(build)]) == 0
        printed = capsys.readouterr()
        data = json.loads(printed.out.splitlines()[-1])
        assert data["manifest"].endswith("-w8.json")
        assert data["share_of_parent"] < 1
        assert "not releasable" in printed.out

    def test_no_parent(self, built: tuple[Checkpoint, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert apply(["--method", "w8", "--checkpoint", str(built[0].folder), "--build", str(tmp_path)]) == 2
        assert "the fp16 package is not built; `make vocoder` builds it" in capsys.readouterr().err
        assert not list(tmp_path.iterdir())


class TestQualityCommand:
    def run(self, built: tuple[Checkpoint, Path], *more: str, method: str = "w8") -> int:
        return quality(["--method", method, "--checkpoint", str(built[0].folder), "--build", str(built[1]), *more])

    def test_one_clip_is_measured_but_undecided(self, copied: tuple[Checkpoint, Path], capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run(copied, "--clips", "1") == 2
        printed = capsys.readouterr().out
        data = json.loads(printed.splitlines()[-1])
        record = json.loads(Path(data["file"]).read_text(encoding="utf-8"))
        assert "PESQ wide band" in printed
        assert "never releasable" in printed
        assert data["verdict"] == record["verdict"] == "UNDECIDED"
        assert data["releasable"] is False
        assert record["clips"][0]["figures"]["snr_db"] == pytest.approx(data["summary"]["snr_db"]["mean"], abs=1e-4)
        assert record["clips"][0]["figures"]["pesq"] > record["clips"][0]["floor"]["pesq"]
        assert record["provenance"]["package_sha256"] == manifest_of(copied, "w8").package_sha256

        assert self.run(copied, "--clips", "1", "--out", str(copied[1] / "again.json")) == 2
        assert json.loads((copied[1] / "again.json").read_text(encoding="utf-8")) == record

    def test_all_clips_decide(self, copied: tuple[Checkpoint, Path], monkeypatch: pytest.MonkeyPatch,
                              capsys: pytest.CaptureFixture[str]) -> None:
        """Clips are measured as perfect, and then as silent: SHIP and REJECT reach the exit code."""
        monkeypatch.setattr(judge, "judge_clip", measured_as(None))
        assert self.run(copied) == 0
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["verdict"] == "SHIP"
        monkeypatch.setattr(judge, "judge_clip", measured_as("is silent"))
        assert self.run(copied) == 1
        data = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert data["verdict"] == "REJECT"
        assert "the package's output is silent" in data["reasons"][0]

    def test_not_built(self, built: tuple[Checkpoint, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run((built[0], tmp_path)) == 2
        assert "the w8 package is not built; `python -m quantize.apply --method w8` builds it" in capsys.readouterr().err

    def test_another_checkpoint(self, copied: tuple[Checkpoint, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        other = Checkpoint.from_folder(write_checkpoint(tmp_path / "other", small_config(), seed=1))
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
        assert "--clips 25: there are 24 held-out clips, give 1 to 24" in capsys.readouterr().err


def measured_as(defect):
    """A judge_clip that finds every clip perfect, or without audio."""
    perfect = {name: metric.perfect for name, metric in METRICS.items()}

    def judge_clip(_truth, _subject, utterance) -> judge.ClipResult:
        return judge.ClipResult(utterance.id, utterance.voice, 5.0, utterance.text, {} if defect else perfect, perfect, defect)

    return judge_clip
