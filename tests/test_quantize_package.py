"""Tiny packages of every method: structure, bytes, refusal, exactness, and the command that builds them."""

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
from eval.metrics.registry import METRICS as METRICS_JUDGED
from eval.quality import main as quality
from mlprogram import Program
from pipeline.checkpoint import Checkpoint
from pipeline.errors import CheckFailed, InputError
from pipeline.manifest import Manifest
from quantize import build as compression
from quantize import measure
from quantize.activations import calibration_inputs
from quantize.apply import main as apply
from quantize.build import build_compressed
from quantize.coverage import Coverage, quantize_ops
from quantize.layers import CONVOLUTIONS, program_layers
from quantize.measure import Bench
from quantize.methods import METHODS, Activations, Method
from quantize.packages import find_package
from quantize.plan import plan_for
from quantize.recipe import Recipe, load_recipe
from quantize.sensitivity import main as sensitivity
from vocoder.export import build as build_vocoder

QUICK = Activations(clips=2)
COMPRESSED = ("w8", "w8a8", "mixed")


def quick(name: str) -> Method:
    """The method, calibrated on two sentences; `mixed` on the parent's own channels, which saves a conversion."""
    changes = {"w8a8": {"activations": QUICK}, "mixed": {"activations": dataclasses.replace(QUICK, exponent=0.0)}}
    return dataclasses.replace(METHODS[name], **changes.get(name, {}))


def small_config() -> dict[str, Any]:
    """The tiny architecture with one residual block a stage instead of three: half the operations."""
    config = tiny_config()
    config["istftnet"] |= {"resblock_kernel_sizes": [11], "resblock_dilation_sizes": [[1, 3, 5]]}
    return config


def recipe_of(checkpoint: Checkpoint, build: Path) -> Recipe:
    """Every level in turn; AdaIN affines and the pitch and energy filters w8."""
    layers = program_layers(Program(find_package(build, checkpoint, METHODS["fp16"]).package_path), checkpoint.vocoder())
    turns = ("w8a8", "p6", "fp16", "w8", "p4")
    levels = {x.name: "w8" if x.is_style or x.elements < 10 else turns[i % 5] for i, x in enumerate(layers) if not x.is_tail}
    return Recipe(checkpoint.name, checkpoint.sha256, {"int8_macs": 0.2}, {"damage_db2": 0.0}, levels)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkpoint, Path]:
    """A tiny checkpoint and a build folder with its packages."""
    folder = tmp_path_factory.mktemp("quantize")
    checkpoint = Checkpoint.from_folder(write_checkpoint(folder / "checkpoint", small_config()))
    build_vocoder(checkpoint, (40, 280), "fp16", "iOS17", folder / "build")
    for name in COMPRESSED:
        build_compressed(quick(name), checkpoint, folder / "build", recipe_of(checkpoint, folder / "build"))
    return checkpoint, folder / "build"


@pytest.fixture
def copied(built: tuple[Checkpoint, Path], tmp_path: Path) -> tuple[Checkpoint, Path]:
    """The same in a folder of its own, to be spoilt."""
    return built[0], Path(shutil.copytree(built[1], tmp_path / "build"))


@pytest.fixture
def instant(copied: tuple[Checkpoint, Path], monkeypatch: pytest.MonkeyPatch) -> tuple[Checkpoint, Path]:
    """`copied`, with compression replaced by the w8 package that it gave before."""
    before = shutil.copytree(manifest_of(copied, "w8").package_path, copied[1] / "before.mlpackage")
    monkeypatch.setattr(compression, "compressed", lambda *_: ct.models.MLModel(str(before), skip_model_load=True))
    return copied


def manifest_of(built: tuple[Checkpoint, Path], method: str) -> Manifest:
    """The verified manifest."""
    return find_package(built[1], built[0], METHODS[method])


def program_of(built: tuple[Checkpoint, Path], method: str) -> Program:
    """The package, loaded."""
    return Program(manifest_of(built, method).package_path)


def storage(program: Program) -> dict[str, str]:
    """Kind of operation that holds each convolution's weight."""
    kinds = {value.name: op.op_type for op in program.operations for value in op.outputs}
    return {op.name: kinds[op.inputs["weight"][0]] for op in program.operations if op.op_type in CONVOLUTIONS}


def large_layers(built: tuple[Checkpoint, Path]) -> set[str]:
    """Operations whose weights are worth compressing."""
    layers = program_layers(program_of(built, "fp16"), built[0].vocoder())
    return {layer.op_name for layer in layers if layer.elements > 2048 and not layer.is_tail}


class TestStructure:
    @pytest.mark.parametrize("name", COMPRESSED)
    def test_the_parent_is_untouched_and_both_verify(self, built: tuple[Checkpoint, Path], name: str) -> None:
        """coremltools rewrites the Manifest.json of a package it opens; ours opens a copy."""
        parent, child = manifest_of(built, "fp16"), manifest_of(built, name)
        assert child.parent_sha256 == parent.package_sha256
        assert child.method == name
        assert child.releasable is False
        assert (child.buckets, child.inputs, child.checkpoint) == (parent.buckets, parent.inputs, parent.checkpoint)
        assert child.compression["skipped"] == child.compression["misplaced"] == []

    def test_exactly_the_large_weights_are_compressed(self, built: tuple[Checkpoint, Path]) -> None:
        found = storage(program_of(built, "w8"))
        assert {op for op, stored in found.items() if stored == "constexpr_affine_dequantize"} == large_layers(built)
        assert set(found.values()) == {"constexpr_affine_dequantize", "const"}

    def test_w8_is_on_the_grid_of_its_channel(self, built: tuple[Checkpoint, Path]) -> None:
        layer = next(x for x in program_layers(program_of(built, "fp16"), built[0].vocoder()) if x.elements > 2048 and x.op_type == "conv")
        stored = next(op.inputs["weight"][0] for op in program_of(built, "w8").operations if op.name == layer.op_name)
        exact = np.asarray(program_of(built, "fp16").constant(layer.weight), dtype=np.float64)
        coarse = np.asarray(program_of(built, "w8").constant(stored), dtype=np.float64)
        steps = np.abs(exact).reshape(len(exact), -1).max(axis=1) / 127
        assert np.abs(coarse - exact).reshape(len(exact), -1).max(axis=1) == pytest.approx(steps / 2, rel=0.5)

    def test_mixed_follows_its_recipe(self, built: tuple[Checkpoint, Path]) -> None:
        layers = program_layers(program_of(built, "fp16"), built[0].vocoder())
        plan = plan_for(METHODS["mixed"], layers, manifest_of(built, "mixed").compression["recipe"]["levels"])
        coverage = Coverage.of(plan, layers, program_of(built, "mixed"))
        coverage.require()
        assert {"constexpr_affine_dequantize", "constexpr_lut_to_dense", "const"} == set(storage(program_of(built, "mixed")).values())
        assert 0 < coverage.int8_macs_share < manifest_of(built, "w8a8").compression["int8_macs_share"]

    def test_a_package_that_differs_from_its_plan_is_refused(self, built: tuple[Checkpoint, Path]) -> None:
        layers = program_layers(program_of(built, "fp16"), built[0].vocoder())
        plan = plan_for(METHODS["w8a8"], layers, None)
        with pytest.raises(CheckFailed, match="weights are not stored as planned, the first is"):
            Coverage.of(plan, layers, program_of(built, "fp16")).require()
        with pytest.raises(CheckFailed, match="inputs are not as planned, the first is"):
            Coverage.of(tuple(dataclasses.replace(e, int8_input=False) for e in plan), layers, program_of(built, "w8a8")).require()
        untouched = plan_for(dataclasses.replace(METHODS["w8"], weights=None), layers, None)
        with pytest.raises(CheckFailed, match="no weight was compressed"):
            Coverage.of(untouched, layers, program_of(built, "fp16")).require()


class TestW8A8:
    def test_every_convolution_but_the_exceptions_reads_int8(self, built: tuple[Checkpoint, Path]) -> None:
        program, layers = program_of(built, "w8a8"), program_layers(program_of(built, "fp16"), built[0].vocoder())
        maker = {value.name: op.op_type for op in program.operations for value in op.outputs}
        reads = {op.name: maker.get(op.inputs["x"][0]) for op in program.operations if op.op_type in CONVOLUTIONS}
        in_float = {x.name for x in layers if not x.is_style and not x.is_tail and reads[x.op_name] != "dequantize"}
        assert in_float == {"F0_conv", "N_conv", "decode.3.pool", "generator.ups.1"}
        assert not [x.name for x in layers if x.is_style and reads[x.op_name] == "dequantize"]
        shared = {x.input for x in layers if reads[x.op_name] == "dequantize"}  # both noise convolutions read the masked spectrum
        assert len(quantize_ops(program)) == len(shared) == sum(kind == "dequantize" for kind in reads.values()) - 1

    def test_scales_are_symmetric_and_of_the_calibration(self, built: tuple[Checkpoint, Path]) -> None:
        program = program_of(built, "w8a8")
        for op in quantize_ops(program):
            assert "zero_point" not in op.inputs
            assert np.asarray(program.constant(op.inputs["scale"][0])).dtype == np.float16
            assert op.outputs[0].dtype.name == "int8"

    def test_figures_and_share_are_in_the_manifest(self, built: tuple[Checkpoint, Path]) -> None:
        manifest = manifest_of(built, "w8a8")
        balanced, against_parent = manifest.checks["figures"]
        assert balanced["value"] > 100.0
        assert against_parent["value"] > 15.0
        assert 0.8 < manifest.compression["int8_macs_share"] < 1.0  # the tail weighs more in a tiny model
        assert manifest.compression["activations"]["exponent"] == QUICK.exponent


@pytest.mark.slow
class TestW4:
    def test_blocks_a_warning_and_much_worse(self, copied: tuple[Checkpoint, Path]) -> None:
        """The known-bad control, with one scale a block and the reason why it is not for the engine."""
        manifest = build_compressed(METHODS["w4"], *copied)[1]
        found = storage(program_of(copied, "w4"))
        assert {op for op, stored in found.items() if stored == "constexpr_blockwise_shift_scale"} == large_layers(copied)
        assert manifest.target == "iOS18"
        assert "Neural Engine" in manifest.compression["unfit_for_engine"]
        snr_db = {name: manifest_of(copied, name).checks["figures"][-1]["value"] for name in ("w4", "w8", "w8a8")}
        assert snr_db["w4"] < min(snr_db["w8"], snr_db["w8a8"]) - 5.0


class TestBuild:
    def test_same_inputs_same_bytes(self, copied: tuple[Checkpoint, Path]) -> None:
        """Ranges, int8 inputs, palettes and integers; tests/test_convert.py holds the conversion to it."""
        first = manifest_of(copied, "mixed").package_sha256
        assert build_compressed(quick("mixed"), *copied, recipe_of(*copied))[1].package_sha256 == first

    def test_a_package_below_the_limit_leaves_nothing(self, instant: tuple[Checkpoint, Path]) -> None:
        checkpoint, build = instant
        shutil.rmtree(manifest_of(instant, "w8").package_path)
        with pytest.raises(CheckFailed, match=r"SNR against fp16, .* limit >= 300 dB"):
            build_compressed(dataclasses.replace(METHODS["w8"], check_snr_db=300.0), checkpoint, build)
        assert not list(build.glob("*w8.mlpackage")) + list(build.glob(".staged*"))

    def test_fp16_is_not_a_compression(self, built: tuple[Checkpoint, Path]) -> None:
        with pytest.raises(InputError, match="method 'fp16' compresses nothing: `make vocoder`"):
            build_compressed(METHODS["fp16"], *built)

    def test_a_recipe_of_other_weights_is_refused(self, built: tuple[Checkpoint, Path]) -> None:
        other = dataclasses.replace(recipe_of(*built), checkpoint_sha256="00ff")
        with pytest.raises(InputError, match="the recipe was found for checkpoint tiny 00ff"):
            build_compressed(quick("mixed"), *built, other)


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
        assert "the fp16 package is not built; `make vocoder` builds it" in capsys.readouterr().err
        assert not list(tmp_path.iterdir())

    def test_unknown_method_lists_the_methods(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit, match="2"):
            apply(["--method", "w9"])
        said = capsys.readouterr().err
        assert all(name in said for name in METHODS if name != "fp16")

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            (["--method", "mixed"], "there is no recipe for this checkpoint; `python -m quantize.sensitivity` finds one"),
            (["--method", "w8", "--recipe", "r.json"], "method 'w8' takes no recipe"),
            (["--method", "w8a8", "--set", "alpha=1"], "give KEY=VALUE with a key of clips, exponent, float_inputs"),
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

        def damage_db2(_: Bench, levels: dict[str, str]) -> float:
            layers.append(next(iter(levels)) if len(levels) == 1 else "together")
            return len(layers[-1]) / 1000

        monkeypatch.setattr(Bench, "damage_db2", damage_db2)
        monkeypatch.setattr(measure, "calibration_inputs", lambda checkpoint, vocoder, _: calibration_inputs(checkpoint, vocoder, 2))
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
        plan_for(METHODS["mixed"], program_layers(program_of(built, "fp16"), built[0].vocoder()), recipe.levels)
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

    def test_no_parent(self, built: tuple[Checkpoint, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert sensitivity(["--checkpoint", str(built[0].folder), "--build", str(tmp_path)]) == 2
        assert "the fp16 package is not built; `make vocoder` builds it" in capsys.readouterr().err

    def test_a_budget_that_is_no_share(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit, match="2"):
            sensitivity(["--size", "1.5"])
        assert "1.5 is not a share" in capsys.readouterr().err


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

    def test_all_clips_decide(
        self, copied: tuple[Checkpoint, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
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
    perfect = {name: metric.perfect for name, metric in METRICS_JUDGED.items()}

    def judge_clip(_truth, _subject, utterance) -> judge.ClipResult:
        return judge.ClipResult(utterance.id, utterance.voice, 5.0, utterance.text, {} if defect else perfect, perfect, defect)

    return judge_clip
