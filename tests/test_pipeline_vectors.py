"""The chain's contract: vectors written, read again, every step replayed; damage, other packages and a broken step are found; its table."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.pipeline.chain import STEPS
from kokoro_ane.pipeline.synthesis import Pipeline, SpeechOptions
from kokoro_ane.pipeline.text import PhonemeReader
from kokoro_ane.pipeline.vector_files import UTTERANCES, load_index, load_tensors
from kokoro_ane.pipeline.vectors import main
from kokoro_ane.quantize.locator import Request
from kokoro_ane.runtimes.registry import open_runtime
from tests.builds import VECTORS_VOICE

DOC = Path(__file__).resolve().parents[1] / "docs" / "synthesis.md"


def flags(checkpoint: Checkpoint, build: Path) -> list[str]:
    return ["--checkpoint", str(checkpoint.folder), "--build", str(build), *VECTORS_VOICE]


@pytest.fixture
def written(tiny_vectors: Path) -> Path:
    return tiny_vectors


def check(written: Path, checkpoint: Checkpoint, build: Path) -> int:
    return main([*flags(checkpoint, build), "--check", str(written)])


def test_every_step_replays(written: Path, tiny_checkpoint: Checkpoint, tiny_build: Path, capsys: pytest.CaptureFixture) -> None:
    assert check(written, tiny_checkpoint, tiny_build) == 0
    report = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert report == {"tensors": len(UTTERANCES) * sum(len(step.writes) for step in STEPS) + 2, "missed": []}


def test_index_describes_every_file(written: Path) -> None:
    index = load_index(written)
    listed = {entry["file"] for utterance in index["utterances"] for entry in utterance["tensors"].values()}
    assert {path.relative_to(written).as_posix() for path in written.rglob("*") if path.is_file()} == {
        *listed, "index.json", "voice.npy", "text.wav"
    }  # fmt: skip
    made = {name for step in index["steps"] for name in step["writes"]} | {"phonemes", "speed", "seed"}
    assert all(set(utterance["tensors"]) == made for utterance in index["utterances"])
    assert index["text"]["chunks"][-1]["ending"] == "sentence" and len(index["text"]["chunks"]) == 4


def test_they_are_what_the_pipeline_speaks(written: Path, tiny_checkpoint: Checkpoint, tiny_build: Path) -> None:
    """The list of steps and Pipeline are two ways through one chain."""
    opened = open_runtime("mlprogram", Request(tiny_checkpoint, tiny_build))
    pipeline = Pipeline(PhonemeReader(), opened.encoder, opened.vocoder, tiny_checkpoint.config.vocab)
    voice = torch.from_numpy(np.load(written / "voice.npy"))
    for utterance, entry in zip(UTTERANCES[:1], load_index(written)["utterances"], strict=False):
        speech = next(pipeline.speak(utterance.phonemes, voice, SpeechOptions(utterance.speed, utterance.seed)))
        stored = load_tensors(written, entry)
        assert np.array_equal(stored["samples"], speech.samples) and tuple(stored["durations"]) == speech.durations


@pytest.mark.parametrize("name", ["round", "pack", "noise", "excitation", "spectrum", "finish", "pad"])
def test_control_a_broken_step_is_the_one_named(
    written: Path, tiny_checkpoint: Checkpoint, tiny_build: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    broken = []
    for step in STEPS:
        if step.name == name:
            step = dataclasses.replace(step, run=lambda chain, given, run=step.run: {k: v * 2 + 1 for k, v in run(chain, given).items()})
        broken.append(step)
    monkeypatch.setattr("kokoro_ane.pipeline.vector_files.STEPS", tuple(broken))
    assert check(written, tiny_checkpoint, tiny_build) == 1
    missed = json.loads(capsys.readouterr().out.strip().splitlines()[-1])["missed"]
    assert {row["step"] for row in missed} == {name}


def test_damage_and_other_packages_are_refused(
    written: Path, tiny_checkpoint: Checkpoint, tiny_build: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    copy = Path(shutil.copytree(written, tmp_path / "vectors"))
    path = copy / "short" / "f0_hz.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert check(copy, tiny_checkpoint, tiny_build) == 2
    assert "short/f0_hz.npy is damaged" in capsys.readouterr().err
    path.unlink()
    assert check(copy, tiny_checkpoint, tiny_build) == 2
    assert "short/f0_hz.npy is missing" in capsys.readouterr().err
    assert main([*flags(tiny_checkpoint, tiny_build), "--method", "fp32", "--check", str(written)]) == 2
    assert "was written with other packages" in capsys.readouterr().err
    assert check(tmp_path, tiny_checkpoint, tiny_build) == 2
    assert "holds no vectors; `kokoro-ane vectors --out" in capsys.readouterr().err


def test_the_document_names_every_step_and_tensor() -> None:
    text = DOC.read_text(encoding="utf-8")
    for step in STEPS:
        assert f"`{step.name}`" in text, step.name
        assert all(f"`{name}`" in text for name in (*step.reads, *step.writes)), step.name


def test_every_tensor_is_written_before_it_is_read() -> None:
    there = {"phonemes", "speed", "seed"}
    for step in STEPS:
        assert set(step.reads) <= there, step.name
        there |= set(step.writes)
