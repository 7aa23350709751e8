"""Reconstruction: the student begins as the level rounds, learning lowers its loss, a resumed run is the same, the package holds it."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from core.checkpoint import Checkpoint
from core.contract import LITERAL
from core.errors import CheckFailed, InputError
from core.layers import Conv, ConvTranspose
from mlprogram import Program
from quantize.apply import main as apply_main
from quantize.build import build_compressed
from quantize.layers import program_layers
from quantize.learned import WEIGHT, Integers, Palette, Rounding, Student
from quantize.learned_folder import LEARNED, Kept, Learned, LearnedPalette, identity_of, read_learned
from quantize.learner import BLOCKS, START, Learner, Outcome, Phase
from quantize.losses import relative_error, sound_error
from quantize.palette import palette
from quantize.phases import LearningPlan
from quantize.reconstruct import main
from quantize.reconstruction import blocks, learn_block
from quantize.simulate import activation_grid, linear_grid
from tests.quantize_build import quick, recipe_of
from vocoder.decoder import Vocoder

PLAN = LearningPlan(block_steps=2, whole_steps=2, voices=1, held=12, decoder_frames=40, generator_frames=30, held_frames=40)
W8A8 = quick("w8a8").in_form(LITERAL)


@pytest.fixture(scope="module")
def fresh(built: tuple[Checkpoint, Path]) -> Learner:
    """For `outcome` alone: what has been put back after learning begins on whole steps of its grids."""
    return Learner.of(built[0], W8A8, None, PLAN)


@pytest.fixture(scope="module")
def learner(fresh: Learner, outcome: Outcome) -> Learner:
    """The same, when `outcome` is there."""
    return fresh


@pytest.fixture(scope="module")
def kept(built: tuple[Checkpoint, Path], tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(tmp_path_factory.mktemp("learned"), identity_of(built[0], W8A8, None), PLAN.as_dict())


@pytest.fixture(scope="module")
def outcome(fresh: Learner, kept: Kept) -> Outcome:
    return fresh.learned(kept)


def arrays_of(student: Student) -> dict[str, np.ndarray]:
    return student.arrays(student.layers())


class TestGrids:
    @pytest.mark.parametrize("layer", [Conv(6, 5, 3, padding=1), ConvTranspose(6, 5, 4, stride=2, padding=1)], ids=("conv", "transposed"))
    def test_integers_begin_where_the_package_rounds(self, layer: Conv | ConvTranspose) -> None:
        grid = Integers(layer)
        assert torch.allclose(grid(layer.weight), linear_grid(layer.weight.detach(), 8, axis=1 if isinstance(layer, ConvTranspose) else 0))

    def test_the_largest_of_a_channel_stay(self) -> None:
        layer = Conv(6, 5, 3)
        grid = Integers(layer)
        grid(layer.weight).sum().backward()
        assert grid.units.grad is not None
        assert torch.equal(grid.units.grad == 0, grid.largest) and grid.largest.sum() == 5

    def test_a_palette_begins_and_comes_back_as_it_was(self) -> None:
        weight = np.random.default_rng(0).normal(size=(5, 6, 1, 3)).astype(np.float16)
        table, index = palette(weight, 4)
        grid = Palette(table, index, torch.Size(weight.shape))
        assert torch.allclose(grid(Tensor()).flatten(), torch.from_numpy(table[index].astype(np.float32)), atol=1e-6)
        other = Palette(*palette(weight * 2, 4), torch.Size(weight.shape))
        other.load(grid.arrays())
        assert torch.allclose(other(Tensor()), grid(Tensor()), atol=1e-5)
        with pytest.raises(InputError, match="16 values|where the layer has"):
            Palette(*palette(weight, 6), torch.Size(weight.shape)).load(grid.arrays())

    @given(size=st.floats(0.1, 10), seed=st.integers(0, 99))
    def test_inputs_are_rounded_as_the_package_rounds(self, size: float, seed: int) -> None:
        x = torch.randn(1, 3, 1, 20, generator=torch.Generator().manual_seed(seed))
        rounding = Rounding(size, learned=True)
        made = rounding(Conv(3, 3, 1), (x,))[0]
        assert (made - activation_grid(x, size)).abs().max() <= 1.01 * size / 127  # its scale is of fp16: a code may differ on an edge
        rounding.dropped = 1.0
        assert torch.equal(rounding(Conv(3, 3, 1), (x,))[0], x)

    def test_a_range_too_wide_is_made_smaller(self) -> None:
        x = torch.randn(1, 3, 1, 200, generator=torch.Generator().manual_seed(0))
        rounding = Rounding(400.0, learned=True)
        (rounding(Conv(3, 3, 1), (x,))[0] - x).square().sum().backward()
        assert rounding.log_gain.grad is not None and rounding.log_gain.grad > 0


class TestLosses:
    def test_none_where_nothing_differs_and_more_where_more_does(self) -> None:
        x = torch.randn(1, 4, 1, 480, generator=torch.Generator().manual_seed(0))
        assert relative_error(x, x, 4) == 0 < relative_error(1.01 * x, x, 4) < relative_error(1.1 * x, x, 4)
        sound = x.flatten()[:1920].repeat(3)
        assert sound_error(sound, sound) == 0 < sound_error(1.01 * sound, sound) < sound_error(1.1 * sound, sound)

    def test_an_error_in_a_pause_counts_as_in_speech(self) -> None:
        loud, quiet = torch.ones(1, 4, 1, 480), torch.full((1, 4, 1, 480), 0.05)
        wanted = torch.cat([loud, quiet], dim=3)
        in_pause = torch.cat([loud, 1.2 * quiet], dim=3)
        assert relative_error(in_pause, wanted, 8) > 0.3 * relative_error(torch.cat([1.2 * loud, quiet], dim=3), wanted, 8)


class TestLearning:
    def test_blocks_come_in_the_order_of_execution(self, built: tuple[Checkpoint, Path], learner: Learner) -> None:
        vocoder = Vocoder.of(built[0])
        order: list[str] = []
        for path in blocks(vocoder):
            vocoder.get_submodule(path).register_forward_pre_hook(lambda *_, path=path: order.append(path))
        learner.generator.heard(vocoder, blocks(vocoder)[-1])
        assert tuple(order[: len(blocks(vocoder))]) == blocks(vocoder)

    def test_learning_a_block_lowers_its_loss(self, learner: Learner) -> None:
        start = arrays_of(learner.student)
        before, after = learn_block(
            learner.student, learner.generator, "generator.resblocks.0", dataclasses.replace(PLAN, block_steps=8), print
        )
        learner.student.load(start)
        assert after < before

    def test_a_loss_that_is_no_number_stops(self, learner: Learner) -> None:
        start, bias = arrays_of(learner.student), "generator.resblocks.0.convs1.0/bias"
        learner.student.load(start | {bias: start[bias] * np.nan})
        with pytest.raises(CheckFailed, match="smaller rate"):
            learn_block(learner.student, learner.generator, "generator.resblocks.0", PLAN, print)
        learner.student.load(start)

    def test_a_run_that_goes_on_is_the_same(self, built: tuple[Checkpoint, Path], kept: Kept, outcome: Outcome, tmp_path: Path) -> None:
        assert [phase.name for phase in outcome.phases][0] == START and len(outcome.phases) == 3
        shutil.copytree(kept.folder, tmp_path / "again")
        (tmp_path / "again" / "whole.phase.npz").unlink()
        (tmp_path / "again" / "generator.resblocks.1.phase.npz").unlink()
        again = Learner.of(built[0], W8A8, None, PLAN)
        assert again.learned(dataclasses.replace(kept, folder=tmp_path / "again")) == outcome

    def test_the_nearest_phase_is_kept_and_nothing_where_none_is(self) -> None:
        phases = tuple(Phase(name, None, None, damage, 0.0) for name, damage in (("a", 1.0), ("b", 0.4), ("c", 0.5)))
        assert Outcome(phases).chosen.name == "b" and Outcome(phases[:1]).chosen.name == "a"


class TestPackage:
    def test_it_holds_what_was_learned(self, learner: Learner, copied: tuple[Checkpoint, Path]) -> None:
        path, start = "generator.resblocks.0.convs1.0", arrays_of(learner.student)
        codes = start[f"{path}/{WEIGHT}"]
        moved = np.where(np.abs(codes) < 100, codes + 3, codes).astype(np.int8)  # 3: nothing that rounding to the nearest could give
        learned = Learned(start | {f"{path}/{WEIGHT}": moved})
        _, manifest = build_compressed(quick("w8a8"), *copied, learned=learned)
        assert manifest.compression["reconstruction_sha256"] == learned.sha256
        program = Program(manifest.package_path)
        layer = next(layer for layer in program_layers(program, learner.student.vocoder) if layer.name == path)
        op = next(op for op in program.operations if op.name == layer.op_name)
        stored = np.asarray(program.constant(op.inputs["weight"][0]), np.float32)
        scales = np.abs(stored).max(axis=(1, 2, 3), keepdims=True) / 127
        assert np.array_equal(np.rint(stored / scales), moved) and not np.array_equal(moved, codes)

    def test_palettes_too(self, copied: tuple[Checkpoint, Path]) -> None:
        checkpoint, build = copied
        recipe = recipe_of(checkpoint, build)
        path = next(path for path, level in recipe.levels.items() if level == "p4" and path.startswith("generator.resblocks"))
        weight = Vocoder.of(checkpoint).get_submodule(path).weight.detach().half().numpy()
        table, index = palette(weight, 4)
        arrays = {f"{path}/table": table.astype(np.float32) * 1.5, f"{path}/index": index.reshape(weight.shape)}
        _, manifest = build_compressed(quick("mixed"), checkpoint, build, recipe, learned=Learned(arrays))
        program = Program(manifest.package_path)
        layer = next(layer for layer in program_layers(program, Vocoder.of(checkpoint)) if layer.name == path)
        op = next(op for op in program.operations if op.name == layer.op_name)
        stored = np.asarray(program.constant(op.inputs["weight"][0]), np.float32)
        assert np.allclose(np.unique(stored), np.unique((table.astype(np.float32) * 1.5).astype(np.float16)), rtol=1e-3)
        with pytest.raises(InputError, match="does not fit"):
            LearnedPalette(table, index)(weight, 6)

    def test_ranges_too(self, learner: Learner) -> None:
        ranges = Learned(arrays_of(learner.student)).ranges
        assert ranges and all(size > 0 for size in ranges.values())
        assert set(ranges) == {path for path, rounding in learner.student.roundings.items() if rounding.learned}


class TestBadInput:
    def test_a_file_of_another_run_or_an_edited_one(self, kept: Kept, outcome: Outcome, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="encode.phase.npz is not as it was written"):
            dataclasses.replace(kept, plan=dict(kept.plan) | {"seed": 7}).phase("encode")
        arrays = dict(np.load(kept.folder / "encode.phase.npz"))
        name = next(name for name in arrays if name.endswith(WEIGHT))
        shutil.copytree(kept.folder, tmp_path / "edited")
        np.savez(tmp_path / "edited" / "encode.phase.npz", **arrays | {name: arrays[name] * 0})
        with pytest.raises(InputError, match="is not as it was written"):
            dataclasses.replace(kept, folder=tmp_path / "edited").phase("encode")

    def test_another_checkpoints_or_levels(self, built: tuple[Checkpoint, Path], tmp_path: Path) -> None:
        identity = identity_of(built[0], W8A8, None)
        Kept(tmp_path, identity, {}).choose({"encode.conv1/bias": np.zeros(3, np.float32)})
        assert read_learned(tmp_path, identity).arrays
        for other in ({"checkpoint": "0" * 64}, {"method": "mixed"}, {"settings": None}):
            with pytest.raises(InputError, match=f"{LEARNED} is not as it was written"):
                read_learned(tmp_path, identity | other)

    def test_what_another_layer_learned_does_not_load(self, learner: Learner) -> None:
        path = next(iter(learner.student.weights))
        with pytest.raises(InputError, match="where the layer has"):
            learner.student.load({f"{path}/{WEIGHT}": np.zeros((1, 2, 1, 1), np.int8)})

    @pytest.mark.parametrize(
        ("flags", "said"),
        [
            (["--method", "w8a8", "--block-steps", "-1"], "--block-steps -1: give 0 to"),
            (["--method", "w8a8", "--clips", "1"], "--clips 1: give 2 or more"),
            (["--method", "w8a8", "--set", "clip=2"], "--set clip=2: give KEY=VALUE"),
            (["--method", "w8a8", "--whole-rate", "0"], "--whole-rate 0.0: above 0"),
            (["--method", "w8a8", "--recipe", "x.json"], "takes no recipe"),
            (["--method", "mixed", "--recipe", "missing.json"], "missing.json"),
        ],
    )
    def test_one_line(self, flags: list[str], said: str, tiny_checkpoint: Checkpoint, capfd: pytest.CaptureFixture[str]) -> None:
        assert main([*flags, "--checkpoint", str(tiny_checkpoint.folder)]) == 2
        said_last = capfd.readouterr().err.strip().splitlines()[-1]
        assert said_last.startswith("error: ") and said in said_last

    def test_as_a_user_runs_it(self, built: tuple[Checkpoint, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        few = ["--block-steps", "1", "--whole-steps", "0", "--clips", "2", "--set", "clips=2"]
        assert main(["--method", "w8a8", "--checkpoint", str(built[0].folder), "--out", str(tmp_path), *few]) in (0, 1)
        said = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert list(said["phases"]) == [START, BLOCKS]
        assert (tmp_path / LEARNED).exists() == (said["kept"] == BLOCKS)
        assert len(list(tmp_path.glob("*.phase.npz"))) == len(blocks(Vocoder.of(built[0])))

    def test_apply_wants_a_finished_one(self, copied: tuple[Checkpoint, Path], capfd: pytest.CaptureFixture[str]) -> None:
        checkpoint, build = copied
        flags = ["--method", "w8a8", "--checkpoint", str(checkpoint.folder), "--build", str(build), "--reconstruction", str(build)]
        assert apply_main(flags) == 2
        assert f"no {LEARNED}" in capfd.readouterr().err
