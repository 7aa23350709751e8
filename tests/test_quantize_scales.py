"""Compression of the engine variant: its layers, channels balanced by the scales of quantize, the commands."""

import json
from pathlib import Path

import numpy as np
import pytest

from core.checkpoint import Checkpoint
from core.manifest import Manifest
from mlprogram import Program
from pipeline.build import main as build_stage
from quantize.apply import main as apply
from quantize.layers import ALL_STYLES, program_layers
from quantize.methods import METHODS, LinearWeights
from quantize.plan import plan_for
from tests.builds import checkpoint_once, speaking_config
from tests.quantize_build import quantize_ops
from vocoder.decoder import Vocoder
from vocoder.windowed.model import WindowedVocoder


@pytest.fixture(scope="module")
def built(quick_conversion: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkpoint, Path]:
    """A tiny engine variant in fp16 and W8A8."""
    checkpoint, out = checkpoint_once(tmp_path_factory, speaking_config(), encoder=True), tmp_path_factory.mktemp("build")
    given = ["--checkpoint", str(checkpoint.folder)]
    assert build_stage(["vocoder", *given, "--form", "windowed", "--chips", "m3", "--buckets", "41,62,119", "--out", str(out)]) == 0
    assert apply([*given, "--form", "windowed", "--method", "w8a8", "--build", str(out), "--set", "clips=2"]) == 0
    return checkpoint, out


def program(built: tuple[Checkpoint, Path], method: str) -> Program:
    return Program(built[1] / f"KokoroVocoder-tiny-windowed-{method}.mlpackage")


def test_every_layer_of_the_variant_is_known(built: tuple[Checkpoint, Path]) -> None:
    checkpoint, _ = built
    layers = program_layers(program(built, "fp16"), WindowedVocoder(Vocoder.of(checkpoint), checkpoint.config.hidden_dim))
    names = [layer.name for layer in layers]
    assert {"first.blocks.0.first.0.conv", "last.up", "decode.3.pool", "decode.3.shortcut", "conv_post", "styles"} <= set(names)
    assert sum(name.startswith(("first.", "last.")) and name.endswith(".conv") for name in names) == 48
    assert all(layer.is_fixed == layer.name.endswith((".outer", ".inner", "ones_2", "ones_10", "ones_6")) for layer in layers)


def test_affines_of_all_norms_share_no_palette(built: tuple[Checkpoint, Path]) -> None:
    checkpoint, _ = built
    layers = program_layers(program(built, "fp16"), WindowedVocoder(Vocoder.of(checkpoint), checkpoint.config.hidden_dim))
    weights = {entry.layer.name: entry.weights for entry in plan_for(METHODS["p6"], layers, None) if entry.weights is not None}
    assert {name for name, chosen in weights.items() if isinstance(chosen, LinearWeights)} == {ALL_STYLES} < set(weights)


def test_snakes_are_read_in_int8_with_a_scale_a_channel(built: tuple[Checkpoint, Path]) -> None:
    small = program(built, "w8a8")
    scales = [np.asarray(small.constant(op.inputs["scale"][0])) for op in quantize_ops(small)]
    along = [scale for scale in scales if scale.ndim == 1]
    assert len(along) == 6 + 1 + 1 < len(scales)  # the first stage's wide dilations, the strided layer of the spectrum, the text's branch
    assert all(scale.min() > 0 and np.ptp(scale) > 0 for scale in along)  # balanced: no two channels need be alike
    dequantized = [op for op in small.operations if op.op_type == "dequantize"]
    assert all(np.asarray(small.constant(op.inputs["scale"][0])).ndim == 0 for op in dequantized)


def test_one_range_where_time_is_followed(built: tuple[Checkpoint, Path]) -> None:
    """What is divided by its envelope has the range 1, whatever the sentences; its result is multiplied by the envelope."""
    small = program(built, "w8a8")
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


def test_the_manifest_says_so_and_the_clip_is_near(built: tuple[Checkpoint, Path]) -> None:
    manifest = Manifest.load(built[1] / "KokoroVocoder-tiny-windowed-w8a8.json")
    assert manifest.level == "windowed-w8a8" and manifest.form == "windowed"
    exact, following, near = manifest.checks["figures"]
    assert exact["value"] >= 100 and following["value"] >= 20 and near["value"] >= 15
    assert manifest.compression["int8_macs_share"] > 0.5


def test_a_variant_that_is_not_built(built: tuple[Checkpoint, Path], capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint, out = built
    given = ["--checkpoint", str(checkpoint.folder), "--build", str(out)]
    assert apply([*given, "--form", "windowed-poly", "--method", "w8a8"]) == 2
    said = capsys.readouterr()
    assert "windowed-poly-fp16" in said.err and "build vocoder --form windowed-poly" in said.err and len(said.err.strip().splitlines()) == 1
    assert apply([*given, "--form", "windowed", "--method", "w8"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["compression"]["int8_inputs"] == 0
