"""Levels of the encoder: weights as they are stored, the checkpoint's own grid, packages that are
built, read back and executed.
"""

import json
import shutil

import numpy as np
import pytest
import torch

from kokoro_ane.core import builder
from kokoro_ane.core.contract import ENCODER_NAME
from kokoro_ane.core.errors import CheckFailed, InputError
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.core.voices import style_row
from kokoro_ane.encoder.encoder_stage import EncoderStage
from kokoro_ane.encoder.encoder_steps import Buckets
from kokoro_ane.encoder.functions import Encoder, make_torch_functions
from kokoro_ane.pipeline.apply import main as quantize
from kokoro_ane.quantize import encoder_layers, plan
from kokoro_ane.quantize.compress import (
    ENCODER_TENSORS,
    LevelFile,
    build_compressed,
    locate_level,
)
from kokoro_ane.quantize.encoder_candidates import EncoderCandidates
from kokoro_ane.quantize.encoder_layers import collect_encoder_fits, plan_encoder, with_stored_lstms
from kokoro_ane.quantize.fits import make_form
from kokoro_ane.quantize.level import load_level
from kokoro_ane.quantize.methods import (
    STAGE_METHODS,
    IntegerWeights,
    Method,
    OwnGrid,
    PaletteWeights,
)
from kokoro_ane.quantize.recipe import locate_kept_recipe
from kokoro_ane.quantize.stored_forms import Integers, Palette
from kokoro_ane.speech.speech import load_own_speech
from mlprogram import Program
from tests.commands import refused

LEVELS = STAGE_METHODS["encoder"]
PARTS = {"bert", "bert_encoder", "text_encoder"} | {
    f"predictor.{name}"
    for name in ("text_encoder", "lstm", "duration_proj", "shared", "F0", "F0_proj", "N", "N_proj")
}


def noise(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


class TestStored:
    def test_a_scale_for_few_is_nearer_than_one_for_a_row(self):
        weight = (
            noise(16, 64, 1, 3) * np.linspace(0.01, 1, 64, dtype=np.float32)[None, :, None, None]
        )
        row, block = (make_form(weight, how) for how in (IntegerWeights(), IntegerWeights(8, 32)))
        assert isinstance(block, Integers)
        assert block.scale.shape == (16, 2, 1, 1)
        errors = [np.square(form.to_array() - weight).mean() for form in (row, block) if form]
        assert errors[1] < 0.7 * errors[0]
        assert np.abs(block.to_array() - weight).max() <= np.abs(weight).max() / 254 * 1.001

    def test_a_table_for_some_rows_is_nearer_than_one_for_all(self):
        weight = noise(32, 1024) * np.repeat(np.array([0.01, 1], np.float32), 16)[:, None]
        whole, grouped = (make_form(weight, PaletteWeights(6, rows=rows)) for rows in (0, 16))
        assert isinstance(grouped, Palette)
        assert grouped.entries.shape == (2, 64)
        assert grouped.index.max() < 64
        quiet = [
            np.square(form.to_array()[:16] - weight[:16]).sum() for form in (whole, grouped) if form
        ]
        assert quiet[1] < 0.01 * quiet[0]

    @pytest.mark.parametrize("bits", [4, 6, 8])
    def test_few_values_are_their_own_table(self, bits):
        values = noise(2**bits)
        weight = values[np.random.default_rng(1).integers(0, 2**bits, (40, 50))]
        form = make_form(weight, OwnGrid())
        assert isinstance(form, Palette)
        assert form.entries.shape[1] == 2**bits
        assert np.array_equal(form.to_array(), weight)

    def test_a_grid_of_each_row_is_found(self):
        """With scales that float32 holds every weight comes back to its last bit."""
        generator = np.random.default_rng(2)
        scale = generator.uniform(1e-3, 1e-2, (48, 1)).astype(np.float32)
        whole = generator.integers(-127, 128, (48, 300))
        weight = (whole.astype(np.float32) * scale).astype(np.float32)
        form = make_form(weight, OwnGrid())
        assert isinstance(form, Integers)
        assert np.array_equal(form.values, whole)
        assert np.abs(form.to_array() - weight).max() <= 1e-7 * np.abs(weight).max()
        assert (form.to_array() == weight).mean() > 0.99

    def test_what_stands_on_no_grid_stays(self):
        weight = noise(8, 300)
        assert make_form(weight, OwnGrid()) is None
        on_grid = np.rint(weight * 20).astype(np.float32) * np.float32(0.013)
        # one weight of 2,400 beside the grid of its row; the others' are more than 256 values
        on_grid[3, 7] += 0.004
        on_grid *= np.linspace(1, 2, 8, dtype=np.float32)[:, None]
        assert make_form(on_grid, OwnGrid()) is None
        assert make_form(weight.astype(np.float16), OwnGrid()) is None


def test_a_searched_encoder_has_the_forms_of_its_choice(tiny_checkpoint, tmp_path, monkeypatch):
    """Its file and recipe are read by whoever opens it, and a recipe of others is refused."""
    monkeypatch.setattr(plan, "SMALL", 0)
    clips = load_own_speech(tiny_checkpoint, "tuning")[:2]
    monkeypatch.setattr(encoder_layers, "load_own_speech", lambda *_: clips)
    candidates = EncoderCandidates.make(tiny_checkpoint, LEVELS["searched"])
    assert set(candidates.parts) == PARTS
    choice = candidates.choose_all("p8g_gptq") | {"text_encoder": "p4g_gptq"}
    saved = [candidates.count_saved(candidates.choose_all(name)) for name in candidates.levels]
    assert saved[0] < candidates.count_saved(choice) < saved[-1]
    candidates.save(choice, tmp_path)
    level = LevelFile.open("searched", tiny_checkpoint, tmp_path, "encoder").level
    assert level.forms.keys() == candidates.layers.keys()
    for path, form in level.forms.items():
        assert form.entries.shape[1] == (16 if path.startswith("text_encoder") else 256), path
    path = locate_kept_recipe(tiny_checkpoint, "searched", tmp_path)
    recipe = json.loads(path.read_text(encoding="utf-8"))
    for change, message in (
        ({"levels": dict(list(recipe["levels"].items())[1:])}, "recipe does not name"),
        ({"levels": {**recipe["levels"], "lstm": "w8"}}, "that the encoder does not have: lstm"),
        ({"checkpoint_sha256": "0" * 64}, "the recipe was found for checkpoint"),
    ):
        path.write_text(json.dumps(recipe | change), encoding="utf-8")
        locate_level(LEVELS["searched"], tiny_checkpoint, tmp_path, ENCODER_NAME).unlink(True)
        refused(message, LevelFile.open, "searched", tiny_checkpoint, tmp_path, "encoder")


def arguments_for(method, checkpoint, build):
    """The command line that builds a level of the encoder."""
    folders = ("--checkpoint", str(checkpoint.folder), "--build", str(build))
    return ["--stage", "encoder", "--method", method, *folders]


def test_moments_are_of_what_a_weight_multiplies(tiny_build, tiny_checkpoint, monkeypatch):
    """As the executed package has them in its padding: an LSTM's recurrent weights multiply its
    outputs of a step before. Embeddings and layers that read the style have no moments.
    """
    short = [
        one
        for one in load_own_speech(tiny_checkpoint, "tuning")
        if len(one.input_ids) < 192 and one.frames < 640
    ][:2]
    monkeypatch.setattr(encoder_layers, "load_own_speech", lambda *_: short)
    encoder = with_stored_lstms(Encoder.from_checkpoint(tiny_checkpoint))
    monkeypatch.setattr(plan, "SMALL", 0)
    every = Method("every", "", "fp16", PaletteWeights(6, gptq=True))
    planned = plan_encoder(every, encoder)
    fits = collect_encoder_fits(tiny_checkpoint, encoder, planned)
    without = set(planned) - set(fits)
    assert without == {path for path in planned if path.endswith(("fc", "embedding", "embeddings"))}
    program = Program(tiny_build / "KokoroEncoder-tiny-fp16.mlpackage", function="duration")
    lstm = next(op for op in program.operations if op.op_type == "lstm")
    seen = {}
    inputs, later = [], []
    for one in short:
        count, padded = len(one.input_ids), np.full((1, 192), -1, np.int32)
        padded[0, :count] = one.input_ids
        style = style_row(tiny_checkpoint.blend(one.voice), len(one.phonemes))
        style = style[:, tiny_checkpoint.config.style_dim :]
        arguments = {"input_ids": padded, "style": style, "speed": np.array([1], np.float32)}
        program(arguments, hook=lambda name, _, value: seen.__setitem__(name, value))
        inputs.append(seen[lstm.inputs["x"][0]][:count, 0])
        later.append(seen[lstm.outputs[0].name][1:count, 0].chunk(2, dim=1)[1])
    for name, columns in (("weight_ih", torch.cat(inputs)), ("weight_hh_back", torch.cat(later))):
        moments = fits[f"predictor.text_encoder.lstms.0.{name}"].moments
        expected = columns.T @ columns / len(columns)
        assert torch.allclose(moments, expected, rtol=1e-3, atol=1e-6), name


def test_mixed_gives_energy_fewer_bits_than_durations():
    mixed = LEVELS["mixed"]
    names = (
        "predictor.text_encoder.lstms.0.weight_ih",
        "bert_encoder",
        "predictor.shared.weight_ih",
        "predictor.N.0.conv1",
    )
    assert [mixed.find_weights(name) for name in names] == [
        PaletteWeights(bits, gptq=True, rows=16) for bits in (6, 8, 6, 4)
    ]


def test_stored_lstms_compute_what_the_encoder_does(tiny_checkpoint):
    """To fp32's rounding, padding and all."""
    encoder = Encoder.from_checkpoint(tiny_checkpoint)
    ids = torch.tensor([[1, 2, 3, 4, 5, -1, -1]], dtype=torch.int32)
    inputs = ids, torch.ones(1, tiny_checkpoint.config.style_dim), torch.ones(1)
    with torch.no_grad():
        expected = make_torch_functions(encoder).duration(*inputs)
        computed = make_torch_functions(with_stored_lstms(encoder)).duration(*inputs)
    for theirs, ours in zip(expected, computed, strict=True):
        assert theirs.std() > 1e-2
        assert torch.allclose(ours, theirs, atol=1e-5)


class TestPackage:
    @pytest.mark.parametrize(
        ("method", "kind"),
        [("w8g", "constexpr_blockwise_shift_scale"), ("p6g", "constexpr_lut_to_dense")],
    )
    def test_every_weight_is_stored_and_executed(
        self,
        method,
        kind,
        tiny_build,
        tiny_checkpoint,
        tmp_path,
        capsys,
    ):
        build = shutil.copytree(tiny_build, tmp_path / "build")
        assert quantize(arguments_for(method, tiny_checkpoint, build)) == 0
        lines = capsys.readouterr().out.splitlines()
        assert any("not releasable" in line for line in lines)
        summary = json.loads(lines[-1])
        assert summary["share_of_parent"] < 0.6
        manifest = Manifest.load(build / f"KokoroEncoder-tiny-{method}.json")
        manifest.verify()
        assert summary["manifest"] == str(manifest.path)
        assert summary["compression"]["compressed_ops"] > 10
        parent = Manifest.load(build / "KokoroEncoder-tiny-fp16.json")
        assert manifest.parent_sha256 == parent.package_sha256
        assert manifest.operations == parent.operations
        figures = [figure["name"] for figure in manifest.checks["figures"]]
        moved = [name.split()[0] for name in figures if "fp16 in PyTorch" in name]
        assert moved == list(ENCODER_TENSORS)
        assert "f0_hz against PyTorch, worst fill" in figures
        program = Program(manifest.package_path, function="prosody")
        lstm = next(op for op in program.operations if op.op_type == "lstm")
        makers = {value.name: op.op_type for op in program.operations for value in op.outputs}
        # weight_hh is too small here to pay
        stored = [makers[lstm.inputs[name][0]] for name in ("weight_ih", "weight_hh")]
        assert stored == [kind, "const"]
        path = locate_level(LEVELS[method], tiny_checkpoint, build, ENCODER_NAME)
        level = load_level(path, tiny_checkpoint, LEVELS[method])
        assert level is not None
        assert np.array_equal(
            level.forms["predictor.shared.weight_ih"].to_array(),
            program.constant(lstm.inputs["weight_ih"][0]),
        )
        with pytest.raises(InputError, match="was made from another method"):
            load_level(path, tiny_checkpoint, LEVELS["w8"])

    def test_a_constant_that_unpacks_to_something_else_is_refused(
        self,
        tiny_build,
        tiny_checkpoint,
        tmp_path,
        monkeypatch,
    ):
        build = shutil.copytree(tiny_build, tmp_path / "build")
        whole = Palette.to_array
        monkeypatch.setattr(Palette, "to_array", lambda form: whole(form)[::-1])
        with pytest.raises(CheckFailed, match="unpacks"):
            build_compressed(LEVELS["p6"], tiny_checkpoint, build, stage=ENCODER_NAME)
        assert [path.name for path in build.glob("*p6*")] == ["KokoroEncoder-tiny-p6.safetensors"]

    def test_noise_has_no_lossless_form(self, tiny_build, tiny_checkpoint, tmp_path):
        build = shutil.copytree(tiny_build, tmp_path / "build")
        with pytest.raises(CheckFailed, match="lossless compresses no weight"):
            build_compressed(LEVELS["lossless"], tiny_checkpoint, build, stage=ENCODER_NAME)

    @pytest.mark.slow
    def test_two_packages_stay_two(self, tiny_checkpoint, tmp_path):
        """Of iOS 17, where the level needs iOS 18: each says what it holds itself."""
        stage = EncoderStage(tiny_checkpoint, Buckets((64,), (160,)), target="iOS17")
        builder.build_packages(stage, tmp_path)
        pairs = build_compressed(LEVELS["w8g"], tiny_checkpoint, tmp_path, stage=ENCODER_NAME)
        assert [parent.stage for parent, _ in pairs] == [child.stage for _, child in pairs]
        assert [child.target for _, child in pairs] == ["iOS18", "iOS18"]
        for _, child in pairs:
            stored = Program(child.package_path).operations
            kinds = [op.op_type for op in stored if op.op_type.startswith("constexpr_")]
            assert child.compression["compressed_ops"] == len(kinds) > 0
