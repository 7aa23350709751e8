"""What an interrupted run leaves: given back only whole, only to the same text and settings."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_ane.core.contract import FRAME_SAMPLES
from kokoro_ane.core.errors import InputError
from kokoro_ane.pipeline.resume import AUDIO, CHUNKS, ResumeState
from kokoro_ane.pipeline.synthesis import Speech
from kokoro_ane.pipeline.text import Chunk, PhonemeReader

SETTINGS = {"text": "1", "seed": 0}


def speech(index: int, frames: int = 2, fresh: bool = True) -> Speech:
    words = next(PhonemeReader().sentences(f"{'abcdefghij'[index]}b.")).words
    samples = np.random.default_rng(index).uniform(-1, 1, frames * FRAME_SAMPLES).astype(np.float32)
    return Speech(index, Chunk.of(words), (1, frames - 1), samples, 10 * index, 0.5, 2.0, {"g2p": 1.0} if fresh else {})


def kept_after(folder: Path, count: int = 4) -> list[Speech]:
    """Write `count` chunks and forget the state, as a crash does."""
    with ResumeState.open(folder, SETTINGS, resume=False) as state:
        for index in range(count):
            state.keep(speech(index, frames=2 + index))
    return [speech(index, frames=2 + index) for index in range(count)]


def resumed(folder: Path, count: int = 4) -> list[Speech | None]:
    with ResumeState.open(folder, SETTINGS, resume=True) as state:
        return [state.kept(index, speech(index).chunk) for index in range(count)]


def test_gives_back_what_was_kept(tmp_path: Path) -> None:
    for wanted, got in zip(kept_after(tmp_path / "p"), resumed(tmp_path / "p"), strict=True):
        assert np.array_equal(wanted.samples, got.samples) and not got.seconds
        assert (wanted.durations, wanted.pause, wanted.gain, wanted.peak) == (got.durations, got.pause, got.gain, got.peak)


@given(st.integers(0, 13 * FRAME_SAMPLES * 4), st.integers(0, 900))
@settings(max_examples=25, deadline=None)
def test_any_crash_leaves_a_prefix_of_whole_chunks(tmp_path_factory: pytest.TempPathFactory, audio: int, lines: int) -> None:
    """Cut both files anywhere: what comes back is right, and the run can go on to the same end."""
    folder = tmp_path_factory.mktemp("crash") / "p"
    wanted = kept_after(folder)
    for name, size in ((AUDIO, audio), (CHUNKS, lines)):
        with (folder / name).open("r+b") as stream:
            stream.truncate(min(size, (folder / name).stat().st_size))
    with ResumeState.open(folder, SETTINGS, resume=True) as state:
        for index, one in enumerate(wanted):
            got = state.kept(index, one.chunk)
            assert got is None or np.array_equal(got.samples, one.samples)
            state.keep(got or one)
    assert all(got is not None and np.array_equal(got.samples, one.samples) for one, got in zip(wanted, resumed(folder), strict=True))


def test_a_damaged_chunk_is_spoken_again_with_all_that_follows(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    wanted = kept_after(folder)
    data = bytearray((folder / AUDIO).read_bytes())
    data[4 * FRAME_SAMPLES * 2 + 100] ^= 1  # in chunk 1
    (folder / AUDIO).write_bytes(data)
    with ResumeState.open(folder, SETTINGS, resume=True) as state:
        found = []
        for index, one in enumerate(wanted):
            got = state.kept(index, one.chunk)
            found.append(got is not None)
            state.keep(got or one)
    assert found == [True, False, False, False]
    assert all(np.array_equal(got.samples, one.samples) for one, got in zip(wanted, resumed(folder), strict=True))


def test_another_chunk_is_not_given_back(tmp_path: Path) -> None:
    kept_after(tmp_path / "p")
    with ResumeState.open(tmp_path / "p", SETTINGS, resume=True) as state:
        assert state.kept(0, speech(1).chunk) is None and state.kept(4, speech(0).chunk) is None


def test_other_settings_are_refused_by_name_and_without_resume_it_begins_anew(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    kept_after(folder)
    with pytest.raises(InputError, match="chunks of another seed"):
        ResumeState.open(folder, SETTINGS | {"seed": 1}, resume=True)
    with ResumeState.open(folder, SETTINGS | {"seed": 1}, resume=False) as state:
        assert state.kept(0, speech(0).chunk) is None
        state.remove()
    assert not folder.exists()


def test_resume_with_nothing_there_begins(tmp_path: Path) -> None:
    with ResumeState.open(tmp_path / "p", SETTINGS, resume=True) as state:
        assert state.written == 0
    assert json.loads((tmp_path / "p" / "settings.json").read_text(encoding="utf-8")) == SETTINGS
