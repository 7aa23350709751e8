"""Tiny packages of every method, padded and tiled: structure, bytes, refusal, exactness, and the command that builds them."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.errors import CheckFailed, InputError
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.pipeline.apply import main as apply
from kokoro_ane.pipeline.build import main as build_stage
from kokoro_ane.quantize.compress import build_compressed
from kokoro_ane.quantize.layer_plan import ALL_STYLES, CONVOLUTIONS, Coverage, plan_for, program_layers
from kokoro_ane.quantize.methods import METHODS, LinearWeights
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.tiled.tiled_model import TiledVocoder
from mlprogram import Program
from mlprogram.graph import Operation
from tests.builds import checkpoint_once, speaking_config
from tests.quantize_build import COMPRESSED, QUICK, manifest_of, program_of, quantize_ops, quick, recipe_of


def storage(program: Program) -> dict[str, str]:
    """Kind of operation that holds each convolution's weight."""
    kinds = {value.name: op.op_type for op in program.operations for value in op.outputs}
    return {op.name: kinds[op.inputs["weight"][0]] for op in program.operations if op.op_type in CONVOLUTIONS}


def large_layers(built: tuple[Checkpoint, Path]) -> set[str]:
    """Operations whose weights are worth compressing."""
    layers = program_layers(program_of(built, "fp16"), Vocoder.of(built[0]))
    return {layer.op_name for layer in layers if layer.elements > 2048 and not layer.is_tail}


def reads_of(layer: str, convolutions: list[Operation], maker: dict[str, str]) -> str | None:
    """What makes the input of a layer, which is found by the names of its constants: a prepared program names its operations otherwise."""
    starts = tuple(f"vocoder_{layer.replace('.', '_')}_{part}" for part in ("weight", "bias"))
    op = next(op for op in convolutions if any(op.inputs.get(part, ("",))[0].startswith(starts) for part in ("weight", "bias")))
    return maker.get(op.inputs["x"][0])


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
        layers = program_layers(program_of(built, "fp16"), Vocoder.of(built[0]))
        layer = next(x for x in layers if x.elements > 2048 and x.op_type == "conv")
        stored = next(op.inputs["weight"][0] for op in program_of(built, "w8").operations if op.name == layer.op_name)
        exact = np.asarray(program_of(built, "fp16").constant(layer.weight), dtype=np.float64)
        coarse = np.asarray(program_of(built, "w8").constant(stored), dtype=np.float64)
        steps = np.abs(exact).reshape(len(exact), -1).max(axis=1) / 127
        assert np.abs(coarse - exact).reshape(len(exact), -1).max(axis=1) == pytest.approx(steps / 2, rel=0.5)

    def test_mixed_follows_its_recipe(self, built: tuple[Checkpoint, Path]) -> None:
        layers = program_layers(program_of(built, "fp16"), Vocoder.of(built[0]))
        plan = plan_for(METHODS["mixed"], layers, manifest_of(built, "mixed").compression["recipe"]["levels"])
        coverage = Coverage.of(plan, layers, program_of(built, "mixed"))
        coverage.require()
        assert {"constexpr_affine_dequantize", "constexpr_lut_to_dense", "const"} == set(storage(program_of(built, "mixed")).values())
        assert 0 < coverage.int8_macs_share < manifest_of(built, "w8a8").compression["int8_macs_share"]

    def test_a_package_that_differs_from_its_plan_is_refused(self, built: tuple[Checkpoint, Path]) -> None:
        layers = program_layers(program_of(built, "fp16"), Vocoder.of(built[0]))
        plan = plan_for(METHODS["w8a8"], layers, None)
        mixed = plan_for(METHODS["mixed"], layers, manifest_of(built, "mixed").compression["recipe"]["levels"])
        with pytest.raises(CheckFailed, match="weights are not stored as planned, the first is"):
            Coverage.of(plan, layers, program_of(built, "fp16")).require()
        with pytest.raises(CheckFailed, match="inputs are not as planned, the first is"):
            Coverage.of(
                tuple(dataclasses.replace(entry, int8_input=False) for entry in mixed), layers, program_of(built, "mixed")
            ).require()
        untouched = plan_for(dataclasses.replace(METHODS["w8"], weights=None), layers, None)
        with pytest.raises(CheckFailed, match="no weight was compressed"):
            Coverage.of(untouched, layers, program_of(built, "fp16")).require()


class TestW8A8:
    def test_every_convolution_but_the_exceptions_reads_int8(self, built: tuple[Checkpoint, Path]) -> None:
        program, layers = program_of(built, "w8a8"), program_layers(program_of(built, "fp16"), Vocoder.of(built[0]))
        maker = {value.name: op.op_type for op in program.operations for value in op.outputs}
        convolutions = [op for op in program.operations if op.op_type in CONVOLUTIONS]
        reads = {x.name: reads_of(x.name, convolutions, maker) for x in layers if not x.is_tail}
        in_float = {x.name for x in layers if not x.is_style and not x.is_tail and reads[x.name] != "dequantize"}
        upsamplers = {x.name for x in layers if x.name.endswith(".pool") or x.name.startswith("generator.ups.")}
        assert in_float == upsamplers | {"F0_conv", "N_conv", "encode.conv1", "generator.noise_convs.1"}
        assert not [x.name for x in layers if x.is_style and reads[x.name] == "dequantize"]
        assert len(quantize_ops(program)) == sum(kind == "dequantize" for kind in reads.values())

    def test_scales_are_symmetric_and_of_the_calibration(self, built: tuple[Checkpoint, Path]) -> None:
        program = program_of(built, "w8a8")
        for op in quantize_ops(program):
            assert "zero_point" not in op.inputs
            assert np.asarray(program.constant(op.inputs["scale"][0])).dtype == np.float16
            assert op.outputs[0].dtype.name == "int8"

    def test_figures_and_share_are_in_the_manifest(self, built: tuple[Checkpoint, Path]) -> None:
        manifest = manifest_of(built, "w8a8")
        balanced, following, against_parent = manifest.checks["figures"]
        assert balanced["value"] > 100.0 > following["value"] > 25.0
        assert against_parent["value"] > 15.0
        assert 0.5 < manifest.compression["int8_macs_share"] < 1.0  # tail and decoder weigh more in a tiny model
        assert manifest.compression["activations"]["exponent"] == QUICK.exponent


@pytest.mark.slow
class TestW4:
    def test_blocks_a_warning_and_much_worse(self, copied: tuple[Checkpoint, Path]) -> None:
        """The negative control, with one scale a block and the reason why it is not for the engine."""
        manifest = build_compressed(METHODS["w4"], *copied)[1]
        found = storage(program_of(copied, "w4"))
        assert {op for op, stored in found.items() if stored == "constexpr_blockwise_shift_scale"} == large_layers(copied)
        assert manifest.target == "iOS18"
        assert "Neural Engine" in manifest.compression["unfit_for_engine"]
        snr_db = {name: manifest_of(copied, name).checks["figures"][-1]["value"] for name in ("w4", "w8")}
        assert snr_db["w4"] < snr_db["w8"] - 15.0


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
        with pytest.raises(InputError, match="method 'fp16' compresses nothing: `kokoro-ane build vocoder`"):
            build_compressed(METHODS["fp16"], *built)

    def test_a_recipe_of_other_weights_is_refused(self, built: tuple[Checkpoint, Path]) -> None:
        other = dataclasses.replace(recipe_of(*built), checkpoint_sha256="00ff")
        with pytest.raises(InputError, match="the recipe was found for checkpoint tiny 00ff"):
            build_compressed(quick("mixed"), *built, other)


@pytest.fixture(scope="module")
def tiled(quick_conversion: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkpoint, Path]:
    """A tiny engine variant in fp16 and W8A8."""
    checkpoint, out = checkpoint_once(tmp_path_factory, speaking_config(), encoder=True), tmp_path_factory.mktemp("build")
    given = ["--checkpoint", str(checkpoint.folder)]
    assert build_stage(["vocoder", *given, "--layout", "tiled", "--chips", "m3", "--buckets", "41,62,119", "--out", str(out)]) == 0
    assert apply([*given, "--layout", "tiled", "--method", "w8a8", "--build", str(out), "--set", "clips=2"]) == 0
    return checkpoint, out


def tiled_program(tiled: tuple[Checkpoint, Path], method: str) -> Program:
    return Program(tiled[1] / f"KokoroVocoder-tiny-tiled-{method}.mlpackage")


def test_every_layer_of_the_variant_is_known(tiled: tuple[Checkpoint, Path]) -> None:
    checkpoint, _ = tiled
    layers = program_layers(tiled_program(tiled, "fp16"), TiledVocoder(Vocoder.of(checkpoint), checkpoint.config.hidden_dim))
    names = [layer.name for layer in layers]
    assert {"first.blocks.0.first.0.conv", "last.up", "decode.3.pool", "decode.3.shortcut", "conv_post", "styles"} <= set(names)
    assert sum(name.startswith(("first.", "last.")) and name.endswith(".conv") for name in names) == 48
    assert all(layer.is_fixed == layer.name.endswith((".outer", ".inner", "ones_2", "ones_10", "ones_6")) for layer in layers)


def test_affines_of_all_norms_share_no_palette(tiled: tuple[Checkpoint, Path]) -> None:
    checkpoint, _ = tiled
    layers = program_layers(tiled_program(tiled, "fp16"), TiledVocoder(Vocoder.of(checkpoint), checkpoint.config.hidden_dim))
    weights = {entry.layer.name: entry.weights for entry in plan_for(METHODS["p6"], layers, None) if entry.weights is not None}
    assert {name for name, chosen in weights.items() if isinstance(chosen, LinearWeights)} == {ALL_STYLES} < set(weights)


def test_snakes_are_read_in_int8_with_a_scale_a_channel(tiled: tuple[Checkpoint, Path]) -> None:
    small = tiled_program(tiled, "w8a8")
    scales = [np.asarray(small.constant(op.inputs["scale"][0])) for op in quantize_ops(small)]
    along = [scale for scale in scales if scale.ndim == 1]
    assert len(along) == 6 + 1 + 1 < len(scales)  # the first stage's wide dilations, the strided layer of the spectrum, the text's branch
    assert all(scale.min() > 0 and np.ptp(scale) > 0 for scale in along)  # balanced: no two channels need be alike
    dequantized = [op for op in small.operations if op.op_type == "dequantize"]
    assert all(np.asarray(small.constant(op.inputs["scale"][0])).ndim == 0 for op in dequantized)


def test_one_range_where_time_is_followed(tiled: tuple[Checkpoint, Path]) -> None:
    """What is divided by its envelope has the range 1, whatever the sentences; its result is multiplied by the envelope."""
    small = tiled_program(tiled, "w8a8")
    made = {value.name: op for op in small.operations for value in op.outputs}
    read = [
        made[made[op.inputs["x"][0]].inputs["input"][0]]
        for op in small.operations
        if op.op_type in ("conv", "conv_transpose") and ".conv" not in op.name
        if made.get(op.inputs["x"][0]) is not None and made[op.inputs["x"][0]].op_type == "dequantize"
    ]
    unit = [
        op
        for op in read
        if np.ndim(small.constant(op.inputs["scale"][0])) == 0 and abs(float(small.constant(op.inputs["scale"][0])) - 1 / 127) < 1e-5
    ]
    assert len(unit) == 42 + 14  # the generator's of short reach; the decoder's fifteen but its first
    assert all(made[op.inputs["input"][0]].op_type == "mul" for op in unit)


def test_the_manifest_says_so_and_the_clip_is_near(tiled: tuple[Checkpoint, Path]) -> None:
    manifest = Manifest.load(tiled[1] / "KokoroVocoder-tiny-tiled-w8a8.json")
    assert manifest.level == "tiled-w8a8" and manifest.layout == "tiled"
    exact, following, near = manifest.checks["figures"]
    assert exact["value"] >= 100 and following["value"] >= 20 and near["value"] >= 15
    assert manifest.compression["int8_macs_share"] > 0.5


def test_a_variant_that_is_not_built(tiled: tuple[Checkpoint, Path], capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint, out = tiled
    given = ["--checkpoint", str(checkpoint.folder), "--build", str(out)]
    assert apply([*given, "--layout", "tiled-poly", "--method", "w8a8"]) == 2
    said = capsys.readouterr()
    assert "tiled-poly-fp16" in said.err and "build vocoder --layout tiled-poly" in said.err and len(said.err.strip().splitlines()) == 1
    assert apply([*given, "--layout", "tiled", "--method", "w8"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["compression"]["int8_inputs"] == 0
