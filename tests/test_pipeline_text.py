"""Text through the real g2p: the step validator and synthesis agree with it on phonemes and offsets."""

import json
import wave
from pathlib import Path

import numpy as np
import pytest

from bench.random_checkpoint import tiny_config, write_checkpoint
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.g2p import G2P
from kokoro_ane.g2p.alphabet import voice_language
from kokoro_ane.pipeline.speak import main as synthesize
from kokoro_ane.pipeline.text import chunks
from kokoro_ane.pipeline.validate import main as validate

DEMO = Path(__file__).resolve().parents[1] / "core" / "data" / "demo" / "config.json"
TEXT = "Hello world. It's five o'clock (nearly), isn't it?\n\nShe said “go home!” and left; nobody, it seems, minded."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    config = tiny_config() | {"vocab": KokoroConfig.load(DEMO).vocab}
    return str(write_checkpoint(tmp_path_factory.mktemp("checkpoint"), config, encoder=True))


def test_chunks_hold_g2ps_own_phonemes_and_offsets() -> None:
    results = list(G2P.load("us").sentences(TEXT))
    found = list(chunks(iter(results), TEXT))
    assert [chunk.phonemes for chunk in found] == [result.phonemes for result in results]
    assert [chunk.ending for chunk in found][1] == "paragraph"
    for chunk in found:
        for word, place in zip(chunk.words, chunk.places, strict=True):
            assert TEXT[word.start : word.end] == word.text and chunk.phonemes[place:].startswith(word.phonemes)


def test_speaks_text_and_says_what_was_left_out(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    flags = ["--runtime", "torch", "--checkpoint", folder, "-o", str(tmp_path / "a.wav"), "--timestamps", str(tmp_path / "a.json")]
    assert synthesize([f"{TEXT} 😀", *flags]) == 0
    report = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert sum(report["dropped"].values()) == 1 and report["chunks"] >= 3
    words = [word for chunk in json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["chunks"] for word in chunk["words"]]
    assert [word["text"] for word in words][:3] == ["Hello", "world", "."]
    assert all(TEXT[word["start"] : word["end"]] == word["text"] for word in words)
    assert synthesize(["😀", *flags]) == 2
    assert "nothing to say: the text holds no word (left out: 1" in capsys.readouterr().err


@pytest.mark.parametrize("times", ["a.json", "a.srt"])
def test_a_pause_at_the_end_is_silence(folder: str, tmp_path: Path, times: str, capsys: pytest.CaptureFixture) -> None:
    flags = ["--runtime", "torch", "--checkpoint", folder, "-o", str(tmp_path / "a.wav"), "--timestamps", str(tmp_path / times)]
    assert synthesize(["Hello. [pause 1.5s]", *flags]) == 0
    report = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    with wave.open(str(tmp_path / "a.wav")) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    assert report["chunks"] == 2 and len(samples) / 24000 == report["seconds_of_audio"]
    assert not samples[-36000:].any() and samples[-36600:-36000].any()


def test_validator_takes_text(folder: str, capsys: pytest.CaptureFixture) -> None:
    assert validate(["--checkpoint", folder, "--text", "Hello world."]) == 0
    by_text = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert validate(["--checkpoint", folder, "--phonemes", G2P.load("us").phonemize("Hello world.").phonemes]) == 0
    by_phonemes = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert by_text["intermediates"] == by_phonemes["intermediates"] and by_text["tokens"] == by_phonemes["tokens"]


@pytest.mark.parametrize(
    ("flags", "message"), [(["--text", "☺"], "nothing to say"), (["--text", "word " * 400], "at most 510 fit one utterance")]
)
def test_validator_refuses_text(folder: str, flags: list[str], message: str, capsys: pytest.CaptureFixture) -> None:
    assert validate(["--checkpoint", folder, *flags]) == 2
    assert message in capsys.readouterr().err


def test_british_voices_speak_british() -> None:
    assert (voice_language("bf_emma"), voice_language("bm_lewis:0.5,af_heart"), voice_language("af_heart"), voice_language("slt")) == (
        "gb",
        "gb",
        "us",
        "us",
    )
