"""Fixtures that several test files share: a tiny random checkpoint with Kokoro's vocabulary, and its packages."""

from pathlib import Path

import pytest

from bench.random_checkpoint import tiny_config, write_checkpoint
from core.checkpoint import DEMO_FOLDER, Checkpoint, open_checkpoint
from core.config import KokoroConfig
from pipeline.build import main as build

pytest_plugins = ["tests.quantize_build"]


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """Upstream's architecture, 1/16 as wide, random weights, not releasable."""
    config = tiny_config() | {"vocab": KokoroConfig.load(DEMO_FOLDER / "config.json").vocab}
    return open_checkpoint(str(write_checkpoint(tmp_path_factory.mktemp("tiny"), config, encoder=True)))


@pytest.fixture(scope="session")
def tiny_build(tiny_checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Encoder and vocoder packages of it, fp16 and fp32, three lengths each."""
    out = tmp_path_factory.mktemp("build")
    common = ["--checkpoint", str(tiny_checkpoint.folder), "--out", str(out), "--buckets", "40,160,640"]
    for precision in ("fp16", "fp32"):
        assert build(["encoder", *common, "--precision", precision, "--token-buckets", "16,64"]) == 0
        assert build(["vocoder", *common, "--precision", precision]) == 0
    return out
