"""Packages of every method on a tiny checkpoint, for the tests of quantize/: built once a session.

conftest.py makes the fixtures known to every test file.
"""

import dataclasses
import shutil
from pathlib import Path

import coremltools as ct
import pytest

from kokoro_ane.core.builder import build as build_stage
from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.pipeline.build import vocoder_stage
from kokoro_ane.quantize import compress as compression
from kokoro_ane.quantize.compress import build_compressed
from kokoro_ane.quantize.layer_plan import program_layers
from kokoro_ane.quantize.locator import find_package
from kokoro_ane.quantize.methods import METHODS, Activations, Method
from kokoro_ane.quantize.recipe import Recipe
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.layouts import PaddedLayout
from mlprogram import Program
from mlprogram.graph import Operation
from tests.builds import checkpoint_once, once, small_config

QUICK = Activations(clips=2)
SPEAKS = 3  # random weights in whose output PESQ finds speech, as it does not in every one
COMPRESSED = ("w8", "w8a8", "mixed")


def quick(name: str) -> Method:
    """The method, calibrated on two sentences; `mixed` on the parent's own channels, which saves a conversion."""
    changes = {"w8a8": {"activations": QUICK}, "mixed": {"activations": dataclasses.replace(QUICK, exponent=0.0, time_varying_scale=False)}}
    return dataclasses.replace(METHODS[name], **changes.get(name, {}))


def recipe_of(checkpoint: Checkpoint, build: Path) -> Recipe:
    """Every level in turn; AdaIN affines and the pitch and energy filters w8."""
    layers = program_layers(Program(find_package(build, checkpoint, METHODS["fp16"]).package_path), Vocoder.of(checkpoint))
    turns = ("w8a8", "p6", "fp16", "w8", "p4")
    levels = {x.name: "w8" if x.is_style or x.elements < 10 else turns[i % 5] for i, x in enumerate(layers) if not x.is_tail}
    return Recipe(checkpoint.name, checkpoint.sha256, {"int8_macs": 0.2}, {"spectral_distance_db2": 0.0}, levels)


@pytest.fixture(scope="session")
def built(quick_conversion: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkpoint, Path]:
    """A tiny checkpoint and a build folder with its packages. Shared: `copied` is to be written in."""
    checkpoint = checkpoint_once(tmp_path_factory, small_config(kernel=11), seed=SPEAKS, encoder=True)

    def make(out: Path) -> None:
        build_stage(vocoder_stage(checkpoint, PaddedLayout(), (80, 280)), out)
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
