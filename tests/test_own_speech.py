"""A checkpoint's own speech: three sets that share no text, features kept by content, an altered file refused."""

import multiprocessing
from pathlib import Path

import numpy as np
import pytest

from kokoro_ane.core.checkpoint import DEMO_FOLDER, Checkpoint
from kokoro_ane.core.checksummed import read_checksummed_arrays
from kokoro_ane.core.contract import BOTH, DEFAULT_BUCKETS, JUDGED, SECOND, TUNING, bucket_for
from kokoro_ane.core.errors import InputError
from kokoro_ane.eval.reference import judged_clips
from kokoro_ane.quantize import sources, speech
from kokoro_ane.quantize.activations import calibration_inputs
from kokoro_ane.quantize.corpus import letters, require_disjoint, speech_lines
from kokoro_ane.quantize.speech import own_speech, speakers
from kokoro_ane.vocoder.decoder import Vocoder


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Checkpoint:
    """The demo voice, with a cache of its own."""
    monkeypatch.setenv("KOKORO_ANE_CACHE", str(tmp_path))
    return Checkpoint.from_folder(DEMO_FOLDER)


def test_no_text_is_in_two_sets() -> None:
    texts = [letters(line.text) for name in (TUNING, JUDGED, SECOND) for line in speech_lines(name)]
    assert len(texts) == len(set(texts)) == 72


def test_the_judged_set_spans_lengths_speeds_and_voices(demo: Checkpoint) -> None:
    spoken = own_speech(demo, JUDGED)
    assert len({bucket_for(utterance.frames, DEFAULT_BUCKETS) for utterance in spoken}) >= 12
    assert {line.speed for line in speech_lines(JUDGED)} >= {0.6, 2.0}
    assert {utterance.voice for utterance in spoken} == set(demo.voices)
    assert all(len(u.f0_hz) == len(u.energy) == 2 * u.frames and np.isfinite(u.f0_hz).all() for u in spoken)


def test_the_second_set_has_other_voices(demo: Checkpoint) -> None:
    assert not set(speakers(demo, SECOND)) & set(speakers(demo, JUDGED))


def test_features_are_kept_and_the_same(demo: Checkpoint, tmp_path: Path) -> None:
    first = own_speech(demo, JUDGED)
    (kept,) = (tmp_path / "speech").glob("judged-*.npz")
    written = kept.stat().st_mtime_ns
    again = own_speech(demo, JUDGED)
    assert kept.stat().st_mtime_ns == written
    assert all(np.array_equal(a.energy, b.energy) and np.array_equal(a.durations, b.durations) for a, b in zip(first, again, strict=True))


def test_an_altered_file_is_refused(demo: Checkpoint, tmp_path: Path) -> None:
    own_speech(demo, JUDGED)
    (kept,) = (tmp_path / "speech").glob("judged-*.npz")
    with np.load(kept) as stored:
        fields = {name: stored[name] for name in stored.files}
    fields["0/energy"] = fields["0/energy"] + 1
    np.savez(kept, **fields)
    with pytest.raises(InputError, match="is not as it was written"):
        own_speech(demo, JUDGED)
    kept.write_bytes(b"PK")
    with pytest.raises(InputError, match="cannot be read as arrays"):
        own_speech(demo, JUDGED)


def test_what_is_judged_is_never_tuned_on(demo: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways: calibration refuses a tuning set with a judged text, and the judge refuses it too."""
    shared = own_speech(demo, JUDGED)
    monkeypatch.setattr("kokoro_ane.quantize.activations.own_speech", lambda *_: shared)
    with pytest.raises(InputError, match="tune on other text"):
        next(calibration_inputs(demo, Vocoder.of(demo), 3))
    monkeypatch.setattr("kokoro_ane.eval.reference.own_speech", lambda *_: shared)
    with pytest.raises(InputError, match="tune on other text"):
        judged_clips(demo)


def test_the_bundled_sets_pass(demo: Checkpoint) -> None:
    require_disjoint(own_speech(demo, TUNING), [*own_speech(demo, JUDGED), *own_speech(demo, SECOND)])
    assert len(judged_clips(demo, count=5)) == 5
    both = judged_clips(demo, BOTH)
    assert [clip.id for clip in both] == [clip.id for name in (JUDGED, SECOND) for clip in own_speech(demo, name)] and len(both) == 48


def test_the_speed_comes_with_them(demo: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The executed encoder is asked for the same one (eval.execution)."""
    monkeypatch.setenv("KOKORO_ANE_CACHE", str(tmp_path))
    monkeypatch.setattr(speech, "_spoken", lambda *_: stand_in())
    assert {utterance.speed for utterance in own_speech(demo, JUDGED)} == {1.25}


def test_other_code_has_another_file(demo: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six worktrees shared the cache: a file checksummed by one's core/checksummed.py was read by another's, under the same name."""
    monkeypatch.setattr(speech, "_spoken", lambda *_: stand_in())
    own_speech(demo, JUDGED)
    assert {"core/checksummed.py", "core/voices.py", "encoder/functions.py", "quantize/speech.py"} <= {
        path.relative_to(sources.ROOT).as_posix() for path in sources.files_behind(("quantize/speech.py",))
    }
    monkeypatch.setattr(speech, "sha256_of_files", lambda files: "another")
    own_speech(demo, JUDGED)
    assert len(list((tmp_path / "speech").glob("judged-*.npz"))) == 2


def test_code_that_changed_under_a_process_keeps_nothing(
    demo: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """What runs is older than what stands on disk and names the file."""
    monkeypatch.setattr(speech, "_spoken", lambda *_: stand_in())
    monkeypatch.setattr(speech, "STARTED_NS", 1)
    own_speech(demo, JUDGED)
    assert not (tmp_path / "speech").exists() and "features are neither taken from" in capsys.readouterr().err


def test_processes_at_once_leave_one_whole_file(demo: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech, "_spoken", lambda *_: stand_in())
    path = tmp_path / "speech" / "judged-x.npz"

    def keeps() -> None:
        for _ in range(25):
            speech._keep(path, stand_in())
            read_checksummed_arrays(path, {"set": path.stem}, "")

    processes = [multiprocessing.get_context("fork").Process(target=keeps) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def stand_in() -> dict[str, np.ndarray]:
    """Features of 24 lines, as long as they have to be."""
    fields = {"input_ids": np.zeros(3, np.int32), "durations": np.ones(3, np.int32), "f0_hz": np.zeros(6, np.float32)}
    fields |= {"energy": np.full(6, 0.5, np.float32), "speed": np.asarray(1.25)}
    return {f"{line}/{name}": value for line in range(24) for name, value in fields.items()}
