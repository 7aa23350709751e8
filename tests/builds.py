"""Packages of tiny checkpoints for the tests: built once a session, by whichever worker asks first, and read by all.

    build = packages_once(tmp_path_factory, checkpoint, [["vocoder", "--buckets", "40,160"]])

What stands in such a folder is shared: a test that writes beside a package, or spoils one, copies the folder first.
"""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from bench.random_checkpoint import tiny_config, write_checkpoint
from kokoro_ane.core.checkpoint import DEMO_FOLDER, Checkpoint, open_checkpoint
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.pipeline.build import main as build

VECTORS_VOICE = ["--voice", "slt:0.6,rms:0.4"]


def speaking_config() -> dict[str, Any]:
    """The tiny architecture with Kokoro's vocabulary: with an encoder it can say the frozen texts."""
    return tiny_config() | {"vocab": KokoroConfig.load(DEMO_FOLDER / "config.json").vocab}


def small_config(kernel: int = 3) -> dict[str, Any]:
    """The tiny architecture with one residual block a stage instead of three, two thirds of the operations, and Kokoro's vocabulary."""
    config = speaking_config()
    config["istftnet"] |= {"resblock_kernel_sizes": [kernel], "resblock_dilation_sizes": [[1, 3, 5]]}
    return config


def once(factory: pytest.TempPathFactory, key: Any, make: Callable[[Path], object]) -> Path:
    """The folder that `make` fills, for a key that JSON can say; made aside and renamed, so that a failure leaves nothing."""
    base = factory.getbasetemp()
    home = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "once"
    home.mkdir(exist_ok=True)
    folder = home / hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            aside = factory.mktemp("aside") / folder.name
            aside.mkdir()
            make(aside)
            aside.rename(folder)
    return folder


def checkpoint_once(factory: pytest.TempPathFactory, config: dict[str, Any], seed: int = 0, encoder: bool = False) -> Checkpoint:
    """A checkpoint with random weights; not releasable."""
    return open_checkpoint(str(once(factory, [config, seed, encoder], lambda folder: write_checkpoint(folder, config, seed, encoder))))


def packages_once(factory: pytest.TempPathFactory, checkpoint: Checkpoint, builds: list[list[str]]) -> Path:
    """The folder with the packages of a checkpoint: `pipeline.build` with each list of arguments, the stage's name first."""

    def make(out: Path) -> None:
        for arguments in builds:
            assert build([*arguments, "--checkpoint", str(checkpoint.folder), "--out", str(out)]) == 0

    return once(factory, [checkpoint.sha256, builds], make)


def without_self_checks(patch: pytest.MonkeyPatch) -> None:
    """coremltools looks over the whole program after each of its hundred passes, a third of a conversion's time.

    The packages are the same: tests/test_convert.py compares their bytes with those of a process that has the checks.
    """
    from coremltools.converters.mil.mil import Program

    patch.setattr(Program, "validate", lambda *_, **__: None)
