"""Packages of every method on a tiny checkpoint, for the tests of quantize/: built once a session.

conftest.py makes the fixtures known to every test file.
"""

import dataclasses
import shutil
from pathlib import Path

import coremltools as ct
import pytest

from core.build import build as build_stage
from core.checkpoint import Checkpoint
from core.manifest import Manifest
from mlprogram import Program
from mlprogram.graph import Operation
from pipeline.build import vocoder_stage
from quantize import build as compression
from quantize.build import build_compressed
from quantize.layers import program_layers
from quantize.methods import METHODS, Activations, Method
from quantize.packages import find_package
from quantize.recipe import Recipe
from tests.builds import checkpoint_once, once, small_config
from vocoder.decoder import Vocoder
from vocoder.forms import LiteralForm

QUICK = Activations(clips=2)
SPEAKS = 3  # random weights in whose output PESQ finds speech, as it does not in every one
COMPRESSED = ("w8", "w8a8", "mixed")


def quick(name: str) -> Method:
    """The method, calibrated on two sentences; `mixed` on the parent's own channels, which saves a conversion."""
    changes = {"w8a8": {"activations": QUICK}, "mixed": {"activations": dataclasses.replace(QUICK, exponent=0.0, follow=False)}}
    return dataclasses.replace(METHODS[name], **changes.get(name, {}))


def recipe_of(checkpoint: Checkpoint, build: Path) -> Recipe:
    """Every level in turn; AdaIN affines and the pitch and energy filters w8."""
    layers = program_layers(Program(find_package(build, checkpoint, METHODS["fp16"]).package_path), Vocoder.of(checkpoint))
    turns = ("w8a8", "p6", "fp16", "w8", "p4")
    levels = {x.name: "w8" if x.is_style or x.elements < 10 else turns[i % 5] for i, x in enumerate(layers) if not x.is_tail}
    return Recipe(checkpoint.name, checkpoint.sha256, {"int8_macs": 0.2}, {"damage_db2": 0.0}, levels)


@pytest.fixture(scope="session")
def built(quick_conversion: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkpoint, Path]:
    """A tiny checkpoint and a build folder with its packages. Shared: `copied` is to be written in."""
    checkpoint = checkpoint_once(tmp_path_factory, small_config(kernel=11), seed=SPEAKS, encoder=True)

    def make(out: Path) -> None:
        build_stage(vocoder_stage(checkpoint, LiteralForm(), (80, 280)), out)
        for name in COMPRESSED:
            build_compressed(quick(name), checkpoint, out, recipe_of(checkpoint, out))

    return checkpoint, once(tmp_path_factory, [checkpoint.sha256, COMPRESSED], make)


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


def quantize_ops(program: Program) -> list[Operation]:
    """The `quantize` operations of a program, in order."""
    return [op for op in program.operations if op.op_type == "quantize"]
