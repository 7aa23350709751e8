"""Features by the encoder package: what a level is given comes from it, durations too, and figures are kept under its hash."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from core.checkpoint import open_checkpoint
from core.contract import DEFAULT_BUCKETS, TUNING
from core.errors import InputError
from core.manifest import Manifest
from encoder.alignment import AlignmentLimits
from encoder.functions import torch_functions
from encoder.model import Encoder
from encoder.steps import EncoderBackend
from eval import execution
from eval.corpus import Truth
from eval.execution import Execution, PackageFeatures
from eval.packages import built_encoder
from quantize.speech import own_speech


@pytest.fixture(scope="module")
def truth() -> Truth:
    """The demo voice."""
    return Truth(open_checkpoint("demo"), seed=0)


class InPyTorch:
    """In the package's place: the same network, so that what comes out is the reference's own."""

    def __init__(self, *_: object) -> None:
        checkpoint = open_checkpoint("demo")
        limits = AlignmentLimits.of(checkpoint.config, DEFAULT_BUCKETS[-1])
        self.backend = EncoderBackend(torch_functions(Encoder.of(checkpoint)), limits)


def test_features_are_the_encoder_s(truth: Truth, monkeypatch: pytest.MonkeyPatch) -> None:
    clip = min(own_speech(truth.checkpoint, TUNING), key=lambda clip: clip.frames)
    said = truth.inputs(clip)
    monkeypatch.setattr(execution, "EncoderPackage", InPyTorch)
    features = PackageFeatures(Execution("declared", (Path("encoder.json"),), "declared-x"), truth)
    found = features.of(
        replace(clip, f0_hz=np.zeros_like(clip.f0_hz), energy=np.zeros_like(clip.energy))
    )  # nothing of the clip's own is taken
    for name in ("asr", "f0_hz", "energy", "style", "spectrum"):
        assert torch.allclose(getattr(found, name), getattr(said, name), atol=1e-3), name
    assert features.of(replace(clip, speed=clip.speed / 2)).frames > said.frames  # the encoder finds the durations


def test_figures_are_kept_by_the_package_s_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Manifest, "load", classmethod(lambda _cls, path: type("M", (), {"package_sha256": path.stem * 40})))
    one, other = (Execution.of("declared", (Path(f"{stem}.json"),)) for stem in ("a", "b"))
    assert Execution.of("declared").name == "declared" and Execution.of("declared").features == "PyTorch fp32"
    assert one.name == "declared-" + "a" * 16 != other.name and one.features == "a"


def test_an_encoder_that_is_not_built_names_the_command(truth: Truth, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist: run `kokoro-ane build encoder"):
        built_encoder(truth.checkpoint, "demo", tmp_path, may_build=False)
