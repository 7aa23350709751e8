"""Levels of the encoder: weights as they are stored, the checkpoint's own grid, packages that are
built, read back and executed.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.errors import CheckFailed
from kokoro_ane.core.export import quiet_coremltools
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.core.voices import style_row
from kokoro_ane.encoder.encoder_stage import EncoderPackage
from kokoro_ane.pipeline.apply import main as quantize
from kokoro_ane.quantize import encoder_fits, stage_levels
from kokoro_ane.quantize.fits import form_of
from kokoro_ane.quantize.methods import (
    STAGE_METHODS,
    BlockWeights,
    LinearWeights,
    OwnGrid,
    PaletteWeights,
)
from kokoro_ane.quantize.speech import own_speech
from kokoro_ane.quantize.stored_forms import Integers, Table
from mlprogram import Program

with quiet_coremltools():
    from kokoro_ane.quantize.constants import weights_of


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


class TestStored:
    def test_a_scale_for_few_is_nearer_than_one_for_a_row(self) -> None:
        weight = (
            noise(16, 64, 1, 3) * np.linspace(0.01, 1, 64, dtype=np.float32)[None, :, None, None]
        )
        row, block = (form_of(weight, how) for how in (LinearWeights(), BlockWeights(8, 32)))
        assert isinstance(block, Integers)
        assert block.scale.shape == (16, 2, 1, 1)
        errors = [np.square(form.array() - weight).mean() for form in (row, block) if form]
        assert errors[1] < 0.7 * errors[0]
        assert np.abs(block.array() - weight).max() <= np.abs(weight).max() / 254 * 1.001

    def test_a_table_for_some_rows_is_nearer_than_one_for_all(self) -> None:
        weight = noise(32, 1024) * np.repeat(np.array([0.01, 1], np.float32), 16)[:, None]
        whole, grouped = (form_of(weight, PaletteWeights(6, rows=rows)) for rows in (0, 16))
        assert isinstance(grouped, Table)
        assert grouped.entries.shape == (2, 64)
        assert grouped.index.max() < 64
        quiet = [
            np.square(form.array()[:16] - weight[:16]).sum() for form in (whole, grouped) if form
        ]
        assert quiet[1] < 0.01 * quiet[0]

    @pytest.mark.parametrize("bits", [4, 6, 8])
    def test_few_values_are_their_own_table(self, bits: int) -> None:
        values = noise(2**bits)
        weight = values[np.random.default_rng(1).integers(0, 2**bits, (40, 50))]
        form = form_of(weight, OwnGrid())
        assert isinstance(form, Table)
        assert form.entries.shape[1] == 2**bits
        assert np.array_equal(form.array(), weight)

    def test_a_grid_of_each_row_is_found(self) -> None:
        """With scales that float32 holds, and zero points as the export has them, every weight
        comes back to its last bit.
        """
        generator = np.random.default_rng(2)
        scale, zero = (
            generator.uniform(1e-3, 1e-2, (48, 1)).astype(np.float32),
            generator.integers(90, 160, (48, 1)),
        )
        weight = ((generator.integers(0, 256, (48, 300)) - zero).astype(np.float32) * scale).astype(
            np.float32
        )
        form = form_of(weight, OwnGrid())
        assert isinstance(form, Integers)
        assert form.values.dtype == torch.uint8
        assert np.abs(form.array() - weight).max() <= 1e-7 * np.abs(weight).max()
        assert (form.array() == weight).mean() > 0.99

    def test_what_stands_on_no_grid_stays(self) -> None:
        weight = noise(8, 300)
        assert form_of(weight, OwnGrid()) is None
        on_grid = np.rint(weight * 20).astype(np.float32) * np.float32(0.013)
        # one weight of 2,400 beside the grid of its row; the others' are more than 256 values
        on_grid[3, 7] += 0.004
        on_grid *= np.linspace(1, 2, 8, dtype=np.float32)[:, None]
        assert form_of(on_grid, OwnGrid()) is None
        assert form_of(weight.astype(np.float16), OwnGrid()) is None


def copied_encoder(tiny_build: Path, folder: Path) -> Path:
    """A build folder with the encoder's fp16 package."""
    for path in tiny_build.glob("KokoroEncoder-tiny-fp16*"):
        (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / path.name)
    return folder


def arguments_for(method: str, checkpoint: Checkpoint, build: Path) -> list[str]:
    """The command line that builds a level of the encoder."""
    folders = ("--checkpoint", str(checkpoint.folder), "--build", str(build))
    return ["--stage", "encoder", "--method", method, *folders]


def test_moments_are_of_what_a_constant_multiplies(
    tiny_build: Path, tiny_checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Padding is left out, and an LSTM's recurrent weights multiply its outputs of a step before.
    Embeddings and layers that read the style have no moments.
    """
    short = [
        one
        for one in own_speech(tiny_checkpoint, "tuning")
        if len(one.input_ids) < 192 and one.frames < 640
    ][:2]
    monkeypatch.setattr(
        encoder_fits, "own_speech", lambda _, name: short if name == "tuning" else []
    )
    package = EncoderPackage((tiny_build / "KokoroEncoder-tiny-fp16.json",))
    manifest = package.manifests[0]
    programs = {
        name: Program(manifest.package_path, function=inside)
        for name, inside in manifest.functions.items()
    }
    fits = encoder_fits.encoder_fits(tiny_checkpoint, package.backend, programs)
    program, names = programs["duration"], weights_of(programs["duration"])
    ours = {
        name: fits["duration"][value].moments
        for value, name in names.items()
        if value in fits["duration"]
    }
    assert not [name for name in ours if "fc_weight" in name or name.endswith("embeddings_weight")]
    lstm, seen = (
        next(op for op in program.operations if op.op_type == "lstm"),
        dict[str, torch.Tensor](),
    )
    inputs, later = [], []
    for one in short:
        count = len(one.input_ids)
        padded = np.pad(
            one.input_ids, (0, package.backend.token_width(count) - count), constant_values=-1
        )[None].astype(np.int32)
        style = style_row(tiny_checkpoint.blend(one.voice), len(one.phonemes))[
            :, tiny_checkpoint.config.style_dim :
        ]
        arguments = {
            "input_ids": padded,
            "style": style,
            "speed": np.array([one.speed], np.float32),
        }
        program(arguments, hook=lambda name, _, value: seen.__setitem__(name, value))
        inputs.append(seen[lstm.inputs["x"][0]][:count, 0])
        later.append(seen[lstm.outputs[0].name][1:count, 0].chunk(2, dim=1)[1])
    for name, columns in (
        ("lstm0.weight_ih", torch.cat(inputs)),
        ("lstm0.weight_hh_back", torch.cat(later)),
    ):
        assert torch.allclose(
            ours[name], columns.T @ columns / len(columns), rtol=1e-3, atol=1e-6
        ), name


def test_mixed_gives_energy_fewer_bits_than_durations() -> None:
    mixed = STAGE_METHODS["encoder"]["mixed"]
    names = (
        "duration.lstm0.weight_ih",
        "duration.duration_predictor_bert_encoder_weight",
        "prosody.lstm0.weight_ih",
        "prosody.energy_x",
    )
    assert [mixed.weights_of(name) for name in names] == [
        PaletteWeights(bits, gptq=True, rows=16) for bits in (6, 8, 6, 4)
    ]


class TestPackage:
    @pytest.mark.parametrize(
        ("method", "kind"),
        [("w8g", "constexpr_blockwise_shift_scale"), ("p6g", "constexpr_lut_to_dense")],
    )
    def test_every_weight_is_stored_and_executed(
        self,
        method: str,
        kind: str,
        tiny_build: Path,
        tiny_checkpoint: Checkpoint,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        build = copied_encoder(tiny_build, tmp_path)
        assert quantize(arguments_for(method, tiny_checkpoint, build)) == 0
        summary = json.loads(capsys.readouterr().out.splitlines()[-1])
        manifest = Manifest.load(build / f"KokoroEncoder-tiny-{method}.json")
        manifest.verify()
        assert summary["manifest"] == str(manifest.path)
        assert summary["compression"]["compressed_ops"] == manifest.operations[kind] > 10
        parent = Manifest.load(build / "KokoroEncoder-tiny-fp16.json")
        assert manifest.parent_sha256 == parent.package_sha256
        assert manifest.package_bytes < 0.6 * parent.package_bytes
        assert [figure["name"].split()[0] for figure in manifest.checks["figures"]] == [
            "raw",
            "hidden",
            "text",
            "f0_hz",
            "energy",
        ]
        names = weights_of(Program(manifest.package_path, function="prosody"))
        # no float constant any more; weight_hh is too small here to pay
        assert "lstm0.weight_ih" not in names.values()

    def test_a_constant_that_unpacks_to_something_else_is_refused(
        self,
        tiny_build: Path,
        tiny_checkpoint: Checkpoint,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        build = copied_encoder(tiny_build, tmp_path)
        whole = stage_levels.with_constants

        def spoilt(package: Path, stored: dict[str, dict[str, Table]]) -> object:
            other = {
                f: {n: form.with_index(form.index.flip(0), form.axis) for n, form in forms.items()}
                for f, forms in stored.items()
            }
            return whole(package, other)

        monkeypatch.setattr(stage_levels, "with_constants", spoilt)
        with pytest.raises(CheckFailed, match="unpacks"):
            stage_levels.build_level(STAGE_METHODS["encoder"]["p6"], tiny_checkpoint, build)
        assert sorted(path.name for path in build.iterdir()) == [
            "KokoroEncoder-tiny-fp16.json",
            "KokoroEncoder-tiny-fp16.mlpackage",
        ]

    def test_noise_has_no_lossless_form(
        self, tiny_build: Path, tiny_checkpoint: Checkpoint, tmp_path: Path
    ) -> None:
        with pytest.raises(CheckFailed, match="lossless compresses none"):
            stage_levels.build_level(
                STAGE_METHODS["encoder"]["lossless"],
                tiny_checkpoint,
                copied_encoder(tiny_build, tmp_path),
            )

    def test_flags_of_the_vocoder_are_refused(
        self, tiny_checkpoint: Checkpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        arguments = arguments_for("w8", tiny_checkpoint, tmp_path)
        assert quantize([*arguments, "--layout", "streaming"]) == 2
        assert "--layout belongs to the vocoder" in capsys.readouterr().err
        assert quantize(arguments_for("w4", tiny_checkpoint, tmp_path)) == 2
        assert "unknown method 'w4'" in capsys.readouterr().err
