"""The command as a user types it, on a tiny random checkpoint: files, streams, times, interruption, and every bad input in one line."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from bench.random_checkpoint import tiny_config, write_checkpoint
from kokoro_ane.core.contract import SAMPLE_RATE_HZ
from kokoro_ane.pipeline.speak import main

ROOT = Path(__file__).resolve().parents[1]
VOCAB = {symbol: index + 1 for index, symbol in enumerate("abcdefghijklmnopqrstuvwxyzˈ .,!?")}
TEXT = "hello worˈld. this is a test, ha!\n\nmore?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    config = tiny_config() | {"vocab": VOCAB}
    return str(write_checkpoint(tmp_path_factory.mktemp("checkpoint"), config, encoder=True))


def flags(folder: str, out: Path | None = None, text: str = TEXT) -> list[str]:
    found = [text, "--phonemes", "--runtime", "torch", "--checkpoint", folder]
    return found if out is None else [*found, "-o", str(out)]


def say(folder: str, out: Path, *more: str, text: str = TEXT) -> dict:
    """Speak in this process and read the samples."""
    assert main([*flags(folder, out, text), *more]) == 0
    return {"pcm": soundfile.read(out, dtype="int16")[0]}


def test_file_times_and_report(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out, stamps = tmp_path / "a.wav", tmp_path / "words.json"
    assert main([*flags(folder, out), "--voice", "slt:0.7,rms:0.3", "--timestamps", str(stamps)]) == 0
    report = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    pcm, rate_hz = soundfile.read(out, dtype="int16")
    assert rate_hz == SAMPLE_RATE_HZ and soundfile.info(out).subtype == "PCM_16" and pcm.ndim == 1
    assert report["seconds_of_audio"] == pytest.approx(len(pcm) / SAMPLE_RATE_HZ, abs=1e-6)
    assert report["chunks"] == 3 and report["voice"] == "slt:0.7,rms:0.3" and not report["releasable"]
    assert report["samples_at_full_scale"] == 0 and report["peak_of_the_model"] > 0.01
    times = json.loads(stamps.read_text(encoding="utf-8"))
    assert times["seconds"] == pytest.approx(len(pcm) / SAMPLE_RATE_HZ, abs=1e-6)
    edges = [0.0, *(edge for chunk in times["chunks"] for edge in (chunk["start_s"] - chunk["pause_s"], chunk["end_s"]))]
    assert edges[1::2] == pytest.approx(edges[0:-1:2], abs=2e-6) and edges[-1] == times["seconds"]
    words = [word for chunk in times["chunks"] for word in chunk["words"]]
    assert [TEXT[word["start"] : word["end"]] for word in words] == [word["text"] for word in words]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.wav", "words.json"]


def test_flac_holds_the_same_samples(folder: str, tmp_path: Path) -> None:
    assert np.array_equal(say(folder, tmp_path / "a.wav")["pcm"], say(folder, tmp_path / "a.flac")["pcm"])


def test_seed_and_speed(folder: str, tmp_path: Path) -> None:
    one, same, other = (say(folder, tmp_path / "a.wav", "--seed", seed, text="abc def.")["pcm"] for seed in ("0", "0", "1"))
    assert np.array_equal(one, same) and len(one) == len(other) and not np.array_equal(one, other)
    assert len(say(folder, tmp_path / "a.wav", "--speed", "2", text="abc def.")["pcm"]) < len(one)


def test_stream_of_wav_from_stdin_equals_the_file(folder: str, tmp_path: Path) -> None:
    pcm = say(folder, tmp_path / "a.wav")["pcm"]
    command = [sys.executable, "-m", "kokoro_ane.pipeline.speak", *flags(folder, text="-"), "--stream", "wav"]
    done = subprocess.run(command, cwd=ROOT, input=TEXT.encode(), capture_output=True, check=True)
    assert done.stdout[44:] == pcm.tobytes() and done.stdout[:4] == b"RIFF"
    assert json.loads(done.stderr.decode().strip().splitlines()[-1])["out"] == "stream wav"


def test_stream_of_pcm_equals_the_file(folder: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture) -> None:
    pcm = say(folder, tmp_path / "a.wav")["pcm"]
    capsysbinary.readouterr()
    assert main([*flags(folder), "--stream", "pcm"]) == 0
    said = capsysbinary.readouterr()
    assert said.out == pcm.tobytes()
    assert json.loads(said.err.decode().strip().splitlines()[-1])["out"] == "stream pcm"


def test_reader_that_goes_away_is_one_line(folder: str) -> None:
    command = [sys.executable, "-m", "kokoro_ane.pipeline.speak", *flags(folder, text=TEXT * 20), "--stream"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(100)
        process.stdout.close()
        error = process.stderr.read().decode()
    assert process.returncode == 2 and "the reader of the stream went away after" in error and "Traceback" not in error


def test_an_interrupted_run_goes_on(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Interrupted by the keyboard after some chunks; --resume speaks the rest only, and the samples are those of one run."""
    text = " ".join(f"{word} and some more." for word in ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta") * 4)
    book, out, parts = tmp_path / "book.txt", tmp_path / "a.wav", tmp_path / "a.wav.parts"
    book.write_text(text, encoding="utf-8")
    given = ["--file", str(book), *flags(folder, out)[1:]]
    heeds = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731 - a shell's background job ignores it, and so would its children
    command = [sys.executable, "-m", "kokoro_ane.pipeline.speak", *given]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, preexec_fn=heeds)
    state = parts / "chunks.jsonl"
    while process.poll() is None and not (state.exists() and len(state.read_text(encoding="utf-8").splitlines()) > 3):
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    error = process.communicate()[1]
    assert process.returncode == 2 and "--resume goes on" in error and not out.exists() and "Traceback" not in error
    assert main([*given, "--resume"]) == 0
    report = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert 3 < report["chunks_of_an_earlier_run"] < report["chunks"] == 32 and not parts.exists()
    whole = tmp_path / "whole.wav"
    assert main([*given[:-1], str(whole)]) == 0
    assert out.read_bytes() == whole.read_bytes()


def test_reads_a_file_with_a_byte_order_mark(folder: str, tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    book.write_bytes(b"\xef\xbb\xbfabc def.")
    assert main(["--file", str(book), *flags(folder, tmp_path / "a.wav")[1:]]) == 0
    assert np.array_equal(soundfile.read(tmp_path / "a.wav", dtype="int16")[0], say(folder, tmp_path / "b.wav", text="abc def.")["pcm"])


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("abc.", ["-o", "{tmp}/a.mp3"], "ends in '.mp3': the output is .wav or .flac"),
        ("abc.", ["-o", "{tmp}/noext"], "ends in 'nothing'"),
        ("abc.", ["-o", "{tmp}/file/a.wav"], "is a file, not a folder"),
        ("abc.", ["-o", "/proc/a.wav"], "cannot write /proc/a.wav"),
        ("abc.", ["-o", "{tmp}/dir.wav"], "is a folder: name a file in it"),
        ("abc.", [], "give -o FILE.wav (or .flac), or --stream"),
        ("abc.", ["-o", "{tmp}/a.wav", "--stream"], "not both"),
        ("abc.", ["--stream", "--resume"], "a stream keeps nothing"),
        ("abc.", ["-o", "{tmp}/a.wav", "--voice", "sltt"], "did you mean slt?"),
        ("abc.", ["-o", "{tmp}/a.wav", "--method", "w8a9"], "unknown method 'w8a9'; did you mean w8a8"),
        ("abc.", ["-o", "{tmp}/a.wav", "--method", "w8a8"], "PyTorch has only fp32, fp16"),
        ("abc.", ["-o", "{tmp}/a.wav", "--runtime", "mlprog"], "did you mean mlprogram?"),
        ("abc.", ["-o", "{tmp}/a.wav", "--runtime", "coreml"], "needs macOS"),
        ("abc.", ["-o", "{tmp}/a.wav", "--runtime", "mlprogram", "--build", "{tmp}"], "run `kokoro-ane build encoder --checkpoint "),
        ("abc.", ["-o", "{tmp}/a.wav", "--speed", "5"], "speed 5.0 is outside 0.25 to 4"),
        ("abc.", ["-o", "{tmp}/a.wav", "--file", "{tmp}/file"], "not both"),
        ("a3c.", ["-o", "{tmp}/a.wav"], "'3' (U+0033) at 1"),
        (" \n", ["-o", "{tmp}/a.wav"], "nothing to say"),
        ("?!", ["-o", "{tmp}/a.wav"], "nothing to say"),
        ("abc.", ["-o", "{tmp}/a.wav", "--timestamps", "{tmp}/file/t.json"], "is a file, not a folder"),
        ("abc.", ["-o", "{tmp}/a.wav", "--checkpoint", "nowhere"], "neither a folder nor"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    folder: str, text: str, more: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    if sys.platform == "darwin" and "coreml" in more:
        pytest.skip("Core ML is here")
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "dir.wav").mkdir()
    assert main([*flags(folder, text=text), *(word.format(tmp=tmp_path) for word in more)]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert message in error[-1] and error[-1].startswith("error: ") and "Traceback" not in "".join(error)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dir.wav", "file"]


@pytest.mark.parametrize(
    ("data", "message"), [(b"abc \xff", "is not UTF-8: byte 0xff at 4"), (None, "does not exist")], ids=["not utf-8", "missing"]
)
def test_bad_text_file(folder: str, data: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    book = tmp_path / "book.txt"
    if data is not None:
        book.write_bytes(data)
    assert main(["--file", str(book), *flags(folder, tmp_path / "a.wav")[1:]]) == 2
    assert message in capsys.readouterr().err


def test_a_full_disk_is_one_line_and_what_was_spoken_is_kept(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """libsndfile's error in the second chunk, as it comes when the disk fills."""
    write, calls = soundfile.SoundFile.write, []

    def filling(self: soundfile.SoundFile, data: np.ndarray) -> None:
        calls.append(data)
        if len(calls) == 2:
            raise soundfile.LibsndfileError(2)
        write(self, data)

    monkeypatch.setattr(soundfile.SoundFile, "write", filling)
    assert main(flags(folder, tmp_path / "a.wav")) == 2
    error = capsys.readouterr().err
    assert "error: cannot write a.wav: no room for it" in error and "1 finished chunks are kept" in error and "Traceback" not in error
    assert [path.name for path in tmp_path.iterdir()] == ["a.wav.parts"]


def test_resume_refuses_another_text(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    parts = tmp_path / "a.wav.parts"
    parts.mkdir()
    (parts / "settings.json").write_text('{"text": "other"}', encoding="utf-8")
    assert main([*flags(folder, tmp_path / "a.wav"), "--resume"]) == 2
    assert "holds chunks of another" in capsys.readouterr().err
