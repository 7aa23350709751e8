"""Packages of tiny checkpoints for the tests: built once, by whichever worker asks first, and not
again while nothing that makes them has changed; read by all, spoilt in copies.
"""

import dataclasses
import hashlib
import importlib.util
import json
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import pytest
import torch
from filelock import FileLock

from kokoro_ane.core.builder import build_packages as build_stage
from kokoro_ane.core.checkpoint import open_checkpoint
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.contract import PADDED
from kokoro_ane.core.manifest import tool_versions
from kokoro_ane.pipeline.build import main as build
from kokoro_ane.pipeline.package_builds import make_vocoder_stage
from kokoro_ane.quantize.compress import build_compressed
from kokoro_ane.quantize.locator import PackageRequest
from kokoro_ane.quantize.methods import METHODS, Activations
from kokoro_ane.quantize.plan import list_vocoder_layers
from kokoro_ane.quantize.recipe import QuantizationRecipe
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.layouts import PaddedLayout
from kokoro_g2p.network import LetterToSound, save_weights
from kokoro_g2p.neural import Config
from kokoro_g2p.port.text_tables import TEXT_BYTES, write_text_tables
from mlprogram import Program
from tests.commands import ROOT
from tests.demo_voice import DEMO_VOICE
from tests.random_checkpoint import tiny_config, write_checkpoint

VECTORS_VOICE = ["--voice", "slt:0.6,rms:0.4"]
SMALLEST_G2P = Config(width=16, heads=2, inner=24, blocks=2, answers=(1,))


def left_behind(folder):
    """Names of what stands in a folder; nothing where there is none."""
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


# the tiny architecture with Kokoro's vocabulary: with an encoder it can say the frozen texts
def speaking_config():
    return tiny_config() | {"vocab": KokoroConfig.load(DEMO_VOICE / "config.json").vocab}


def small_config(kernel=3):
    """The tiny architecture with one residual block a stage instead of three, two thirds of the
    operations, and Kokoro's vocabulary.
    """
    config = speaking_config()
    config["istftnet"] |= {
        "resblock_kernel_sizes": [kernel],
        "resblock_dilation_sizes": [[1, 3, 5]],
    }
    return config


def once(factory, key, make):
    """The folder that `make` fills, for a key that JSON can say; made aside and renamed, so that a
    failure leaves nothing.

    What `make` filled stays in KEPT for the next session, under a hash of the key and of all that
    makes it (`state_of`); a session works on a copy. A clean clone and `make clean` begin anew.
    """
    base = factory.getbasetemp()
    home = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "once"
    home.mkdir(exist_ok=True)
    maker = getattr(make, "func", make).__code__.co_filename
    description = json.dumps([key, state_of(maker)], sort_keys=True).encode()
    folder = home / hashlib.sha256(description).hexdigest()[:16]
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            aside, cache_folder = factory.mktemp("aside") / folder.name, KEPT / folder.name
            if cache_folder.exists():
                os.utime(cache_folder)
                shutil.copytree(cache_folder, aside)
            else:
                aside.mkdir()
                make(aside)
                keep(aside, cache_folder)
            aside.rename(folder)
    return folder


KEPT = ROOT / ".pytest_cache" / "made"
KEPT_COUNT = 60  # folders, of two or three states of the tree
MAKERS = ("core", "g2p", "encoder", "vocoder", "quantize", "runtimes", "pipeline", "mlprogram/src")


@cache
def state_of(maker):
    """One hash over everything that can change what is made: code and data of the rooms that make
    it, libraries, the tests' helpers and the file that asks.
    """
    digest = hashlib.sha256(json.dumps(tool_versions(), sort_keys=True).encode())
    files = [*ROOT.glob("tests/*.py"), ROOT / "constraints.txt", Path(maker)]
    files += [path for room in MAKERS for path in (ROOT / room).rglob("*") if path.is_file()]
    for path in sorted(path for path in files if "__pycache__" not in path.parts):
        digest.update(f"{path}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def keep(made, cache_folder):
    """Copy a folder to where the next session looks, by rename; the oldest ones go."""
    cache_folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder.parent) as aside:
        copy = Path(shutil.copytree(made, Path(aside) / cache_folder.name))
        # Another session may have been as quick.
        with suppress(OSError):
            copy.rename(cache_folder)
    oldest = sorted(cache_folder.parent.iterdir(), key=lambda path: path.stat().st_mtime)
    for path in oldest[:-KEPT_COUNT]:
        shutil.rmtree(path, ignore_errors=True)


def checkpoint_once(factory, config, seed=0, encoder=False):
    """A checkpoint with random weights; not releasable."""
    return open_checkpoint(
        str(
            once(
                factory,
                [config, seed, encoder],
                lambda folder: write_checkpoint(folder, config, seed, encoder),
            )
        )
    )


def packages_once(factory, checkpoint, builds):
    """The folder with the packages of a checkpoint: `pipeline.build` with each list of arguments,
    the stage's name first.
    """

    def make(out):
        for arguments in builds:
            assert (
                build([*arguments, "--checkpoint", str(checkpoint.folder), "--out", str(out)]) == 0
            )

    return once(factory, [checkpoint.sha256, builds], make)


def with_shared_text_tables(patch, factory):
    """A language's text tables, three seconds of a bundle, are written once a session; every bundle
    gets a copy.
    """

    def written(folder, language, without=(), others=()):
        if language not in TEXT_BYTES:
            write_text_tables(folder, language)  # which refuses it
        key = ["text tables", language, *without, "beside", *others]
        make = partial(write_text_tables, language=language, without=without, others=others)
        shutil.copytree(once(factory, key, make), folder, dirs_exist_ok=True)

    patch.setattr("kokoro_ane.pipeline.bundle_files.write_text_tables", written)


@pytest.fixture(scope="session")
def g2p_weights(tmp_path_factory):
    """Of the smallest G2P network, random: its package takes two seconds to build. Shared, too."""
    torch.manual_seed(1)
    path = tmp_path_factory.mktemp("weights") / "tiny.npz"
    save_weights(LetterToSound(SMALLEST_G2P), path, {"seed": 1, "steps": 0})
    return path


QUICK = Activations(clips=2)
SPEAKS = 3  # random weights in whose output PESQ finds speech, as it does not in every one
COMPRESSED = ("w8", "w8a8", "mixed")


# the method, calibrated on two sentences; `mixed` on the parent's own channels, which saves a
# conversion
def quick(name):
    changes = {
        "w8a8": {"activations": QUICK},
        "mixed": {
            "activations": dataclasses.replace(QUICK, exponent=0.0, time_varying_scale=False)
        },
    }
    return dataclasses.replace(METHODS[name], **changes.get(name, {}))


# every level in turn; AdaIN affines and the pitch and energy filters w8
def recipe_of(checkpoint):
    layers = list_vocoder_layers(Vocoder.from_checkpoint(checkpoint))
    turns = ("w8a8", "p6", "fp16", "w8", "p4")
    levels = {
        x.name: "w8" if x.is_style or x.elements < 10 else turns[i % 5]
        for i, x in enumerate(layers)
        if not x.is_tail
    }
    return QuantizationRecipe(
        checkpoint.name,
        checkpoint.sha256,
        {"int8_macs": 0.2},
        {"spectral_distance_db2": 0.0},
        levels,
    )


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A tiny checkpoint and a build folder with its packages. Shared: `copied` is to be written
    in.
    """
    checkpoint = checkpoint_once(
        tmp_path_factory, small_config(kernel=11), seed=SPEAKS, encoder=True
    )

    def make(out):
        build_stage(make_vocoder_stage(checkpoint, PaddedLayout(), (80, 280)), out)
        for name in COMPRESSED:
            build_compressed(quick(name), checkpoint, out, recipe_of(checkpoint), PADDED)

    return checkpoint, once(tmp_path_factory, [checkpoint.sha256, COMPRESSED], make)


@pytest.fixture
# the same in a folder of its own, to be spoilt
def copied(built, tmp_path):
    return built[0], Path(shutil.copytree(built[1], tmp_path / "build"))


def manifest_of(built, method):  # the verified manifest
    return PackageRequest(*built, method, PADDED).load_verified()


def program_of(built, method):  # the package, loaded
    return Program(manifest_of(built, method).package_path)


# the `quantize` operations of a program, in order
def quantize_ops(program):
    return [op for op in program.operations if op.op_type == "quantize"]


def uninstall(monkeypatch, package):
    """Let an installed package be looked for in vain."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == package else find(name, *rest),
    )
