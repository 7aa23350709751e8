"""A tiny checkpoint with its fp16 vocoder to judge, clips that are measured without being rendered, and the command on them."""

import shutil
from pathlib import Path

import pytest

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.eval import execution
from kokoro_ane.eval.judge import ClipResult
from kokoro_ane.eval.metrics.catalog import METRICS
from kokoro_ane.eval.release import main

PERFECT = {name: metric.perfect for name, metric in METRICS.items()}


@pytest.fixture(scope="module")
def release_build(tiny_checkpoint: Checkpoint, tiny_build: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkpoint, Path]:
    """A tiny checkpoint and its fp16 vocoder."""
    out = tmp_path_factory.mktemp("release") / "build"
    shutil.copytree(tiny_build, out, ignore=shutil.ignore_patterns("*Encoder*", "*fp32*"))
    return tiny_checkpoint, out


@pytest.fixture
def placed(release_build: tuple[Checkpoint, Path], tmp_path: Path) -> tuple[Checkpoint, Path]:
    """The same in a folder of its own."""
    return release_build[0], Path(shutil.copytree(release_build[1], tmp_path / "build"))


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Clips are found perfect without being rendered; the list of those that were asked for."""
    asked: list[str] = []

    def judge_clip(_reference: object, _package: object, utterance, seed_variation: dict[str, float] | None, **_: object) -> ClipResult:
        asked.append(utterance.id)
        return ClipResult(utterance.id, utterance.voice, 5.0, utterance.text, PERFECT, seed_variation or PERFECT)

    class ReferenceRenders:
        """Stands for the fp32 renders."""

        def seed_variation(self) -> dict[str, float]:
            return PERFECT

    monkeypatch.setattr(execution, "judge_clip", judge_clip)
    monkeypatch.setattr("kokoro_ane.eval.reference.Reference.of", lambda *_: ReferenceRenders())
    monkeypatch.setattr("kokoro_ane.eval.decision.thread_variation", lambda *_: PERFECT)
    return asked


def release(place: tuple[Checkpoint, Path], *more: str) -> int:
    """The command on a place."""
    return main(["--checkpoint", str(place[0].folder), "--build", str(place[1]), "--no-build", "--workers", "1", *more])
