"""The command as a user types it, on a tiny random checkpoint: files, streams, times, interruption,
resumption, bad input in one line.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_ane.api import speak
from kokoro_ane.core.checkpoint import open_checkpoint
from kokoro_ane.core.contract import FRAME_SAMPLES, SAMPLE_RATE_HZ
from kokoro_ane.core.errors import InputError
from kokoro_ane.g2p.alphabet import voice_language
from kokoro_ane.pipeline.audio import (
    TickFade,
    TrimmedSink,
    levelled,
    to_file,
    word_end,
)
from kokoro_ane.pipeline.resume import AUDIO, CHUNKS, ResumeState
from kokoro_ane.pipeline.speak import main
from kokoro_ane.pipeline.synthesis import Pipeline, Speech, SpeechOptions
from kokoro_ane.pipeline.text import Chunk, PhonemeReader, TextReader
from kokoro_ane.quantize.locator import Request
from kokoro_ane.runtimes import registry
from kokoro_ane.runtimes.registry import open_runtime
from tests.random_checkpoint import tiny_config, write_checkpoint

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
    assert main([*flags(folder, out, text), *more]) == 0
    return {"pcm": soundfile.read(out, dtype="int16")[0]}


class TestCommand:
    def test_file_times_and_report(
        self, folder: str, tmp_path: Path, capsys: pytest.CaptureFixture
    ) -> None:
        out, stamps = tmp_path / "a.wav", tmp_path / "words.json"
        assert (
            main([*flags(folder, out), "--voice", "slt:0.7,rms:0.3", "--timestamps", str(stamps)])
            == 0
        )
        report = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
        pcm, rate_hz = soundfile.read(out, dtype="int16")
        assert rate_hz == SAMPLE_RATE_HZ
        assert soundfile.info(out).subtype == "PCM_16"
        assert pcm.ndim == 1
        assert report["seconds_of_audio"] == pytest.approx(len(pcm) / SAMPLE_RATE_HZ, abs=1e-6)
        assert report["chunks"] == 3
        assert report["voice"] == "slt:0.7,rms:0.3"
        assert not report["releasable"]
        assert report["samples_at_full_scale"] == 0
        assert report["peak_of_the_model"] > 0.01
        times = json.loads(stamps.read_text(encoding="utf-8"))
        assert times["seconds"] == pytest.approx(len(pcm) / SAMPLE_RATE_HZ, abs=1e-6)
        edges = [
            0.0,
            *(
                edge
                for chunk in times["chunks"]
                for edge in (chunk["start_s"] - chunk["pause_s"], chunk["end_s"])
            ),
        ]
        assert edges[1::2] == pytest.approx(edges[0:-1:2], abs=2e-6)
        assert edges[-1] == times["seconds"]
        words = [word for chunk in times["chunks"] for word in chunk["words"]]
        assert [TEXT[word["start"] : word["end"]] for word in words] == [
            word["text"] for word in words
        ]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.wav", "words.json"]

    def test_flac_seed_speed_and_a_stream_hold_the_samples(
        self, folder: str, tmp_path: Path
    ) -> None:
        assert np.array_equal(
            say(folder, tmp_path / "a.wav")["pcm"], say(folder, tmp_path / "a.flac")["pcm"]
        )
        one, same, other = (
            say(folder, tmp_path / "a.wav", "--seed", seed, text="abc def.")["pcm"]
            for seed in ("0", "0", "1")
        )
        assert np.array_equal(one, same)
        assert len(one) == len(other)
        assert not np.array_equal(one, other)
        assert len(say(folder, tmp_path / "a.wav", "--speed", "2", text="abc def.")["pcm"]) < len(
            one
        )
        pcm = say(folder, tmp_path / "a.wav")["pcm"]
        command = [
            sys.executable,
            "-m",
            "kokoro_ane.pipeline.speak",
            *flags(folder, text="-"),
            "--stream",
            "wav",
        ]
        done = subprocess.run(
            command, cwd=ROOT, input=TEXT.encode(), capture_output=True, check=True
        )
        assert done.stdout[44:] == pcm.tobytes()
        assert done.stdout[:4] == b"RIFF"
        assert json.loads(done.stderr.decode().strip().splitlines()[-1])["out"] == "stream wav"

    def test_stream_of_pcm_equals_the_file(
        self, folder: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture
    ) -> None:
        pcm = say(folder, tmp_path / "a.wav")["pcm"]
        capsysbinary.readouterr()
        assert main([*flags(folder), "--stream", "pcm"]) == 0
        said = capsysbinary.readouterr()
        assert said.out == pcm.tobytes()
        assert json.loads(said.err.decode().strip().splitlines()[-1])["out"] == "stream pcm"

    def test_reader_that_goes_away_is_one_line(self, folder: str) -> None:
        command = [
            sys.executable,
            "-m",
            "kokoro_ane.pipeline.speak",
            *flags(folder, text=TEXT * 20),
            "--stream",
        ]
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            process.stdout.read(100)
            process.stdout.close()
            error = process.stderr.read().decode()
        assert process.returncode == 2
        assert "the reader of the stream went away after" in error
        assert "Traceback" not in error

    def test_an_interrupted_run_goes_on(
        self, folder: str, tmp_path: Path, capsys: pytest.CaptureFixture
    ) -> None:
        """Interrupted by the keyboard after some chunks; --resume speaks the rest only, and the
        samples are those of one run.
        """
        text = " ".join(
            f"{word} and some more."
            for word in ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta") * 4
        )
        book, out, parts = tmp_path / "book.txt", tmp_path / "a.wav", tmp_path / "a.wav.parts"
        book.write_text(text, encoding="utf-8")
        given = ["--file", str(book), *flags(folder, out)[1:]]
        # a shell's background job ignores it, and so would its children
        heeds = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
        command = [sys.executable, "-m", "kokoro_ane.pipeline.speak", *given]
        process = subprocess.Popen(
            command, cwd=ROOT, stderr=subprocess.PIPE, text=True, preexec_fn=heeds
        )
        state = parts / "chunks.jsonl"
        while process.poll() is None and not (
            state.exists() and len(state.read_text(encoding="utf-8").splitlines()) > 3
        ):
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        error = process.communicate()[1]
        assert process.returncode == 2
        assert "--resume goes on" in error
        assert not out.exists()
        assert "Traceback" not in error
        assert main([*given, "--resume"]) == 0
        report = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
        assert 3 < report["chunks_of_an_earlier_run"] < report["chunks"] == 32
        assert not parts.exists()
        whole = tmp_path / "whole.wav"
        assert main([*given[:-1], str(whole)]) == 0
        assert out.read_bytes() == whole.read_bytes()

    def test_reads_a_file_with_a_byte_order_mark(self, folder: str, tmp_path: Path) -> None:
        book = tmp_path / "book.txt"
        book.write_bytes(b"\xef\xbb\xbfabc def.")
        assert main(["--file", str(book), *flags(folder, tmp_path / "a.wav")[1:]]) == 0
        assert np.array_equal(
            soundfile.read(tmp_path / "a.wav", dtype="int16")[0],
            say(folder, tmp_path / "b.wav", text="abc def.")["pcm"],
        )

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
            (
                "abc.",
                ["-o", "{tmp}/a.wav", "--method", "w8a9"],
                "unknown method 'w8a9'; did you mean w8a8",
            ),
            ("abc.", ["-o", "{tmp}/a.wav", "--method", "w8a8"], "PyTorch has only fp32, fp16"),
            ("abc.", ["-o", "{tmp}/a.wav", "--runtime", "mlprog"], "did you mean mlprogram?"),
            ("abc.", ["-o", "{tmp}/a.wav", "--runtime", "coreml"], "needs macOS"),
            (
                "abc.",
                ["-o", "{tmp}/a.wav", "--runtime", "mlprogram", "--build", "{tmp}"],
                "run `kokoro-ane build encoder --checkpoint ",
            ),
            ("abc.", ["-o", "{tmp}/a.wav", "--speed", "5"], "speed 5.0 is outside 0.25 to 4"),
            ("abc.", ["-o", "{tmp}/a.wav", "--file", "{tmp}/file"], "not both"),
            ("a3c.", ["-o", "{tmp}/a.wav"], "'3' (U+0033) at 1"),
            (" \n", ["-o", "{tmp}/a.wav"], "nothing to say"),
            ("?!", ["-o", "{tmp}/a.wav"], "nothing to say"),
            (
                "abc.",
                ["-o", "{tmp}/a.wav", "--timestamps", "{tmp}/file/t.json"],
                "is a file, not a folder",
            ),
            ("abc.", ["-o", "{tmp}/a.wav", "--checkpoint", "nowhere"], "neither a folder nor"),
        ],
    )
    def test_bad_input_is_one_line_and_exit_2(
        self,
        folder: str,
        text: str,
        more: list[str],
        message: str,
        tmp_path: Path,
        capsys: pytest.CaptureFixture,
    ) -> None:
        if sys.platform == "darwin" and "coreml" in more:
            pytest.skip("Core ML is here")
        (tmp_path / "file").write_text("x", encoding="utf-8")
        (tmp_path / "dir.wav").mkdir()
        assert main([*flags(folder, text=text), *(word.format(tmp=tmp_path) for word in more)]) == 2
        error = capsys.readouterr().err.strip().splitlines()
        assert message in error[-1]
        assert error[-1].startswith("error: ")
        assert "Traceback" not in "".join(error)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["dir.wav", "file"]

    @pytest.mark.parametrize(
        ("data", "message"),
        [(b"abc \xff", "is not UTF-8: byte 0xff at 4"), (None, "does not exist")],
        ids=["not utf-8", "missing"],
    )
    def test_bad_text_file(
        self,
        folder: str,
        data: bytes | None,
        message: str,
        tmp_path: Path,
        capsys: pytest.CaptureFixture,
    ) -> None:
        book = tmp_path / "book.txt"
        if data is not None:
            book.write_bytes(data)
        assert main(["--file", str(book), *flags(folder, tmp_path / "a.wav")[1:]]) == 2
        assert message in capsys.readouterr().err

    def test_a_full_disk_is_one_line_and_what_was_spoken_is_kept(
        self,
        folder: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture,
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
        assert "error: cannot write a.wav: no room for it" in error
        assert "1 finished chunks are kept" in error
        assert "Traceback" not in error
        assert [path.name for path in tmp_path.iterdir()] == ["a.wav.parts"]


def test_the_runtime_that_is_there(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without packages PyTorch speaks, and a line says so, unless a runtime or a level is asked
    for; the call in Python does the same and keeps its model until the build folder changes.
    """
    given = [
        "hello.",
        "--phonemes",
        "--checkpoint",
        folder,
        "--build",
        str(tmp_path),
        "-o",
        str(tmp_path / "a.wav"),
    ]
    assert main(given) == 0
    said = capsys.readouterr()
    assert json.loads(said.out.splitlines()[-1])["runtime"] == "torch"
    assert "is not built: PyTorch speaks" in said.err
    assert main([*given, "--method", "fp16"]) == 2
    assert "does not exist" in capsys.readouterr().err
    opened = []
    monkeypatch.setattr(
        registry,
        "open_runtime",
        lambda name, request: opened.append(name) or open_runtime(name, request),
    )
    for change in ("", "", "new.json"):
        (tmp_path / change).touch() if change else None
        speak("hello", checkpoint=folder, build=tmp_path, phonemes=True)
    # the command's model is still open: only a changed folder is opened anew
    assert opened == ["torch"]


SPEECH = np.sin(np.arange(7200) / 9).astype(np.float32)  # 12 frames of it: a word
BACK = np.zeros(6000, np.float32)
TICK = np.array([0.2, -0.1], np.float32)


def without_tick(samples: np.ndarray, durations: Sequence[int], phonemes: str) -> np.ndarray:
    return TickFade(durations, phonemes, len(samples))(samples)


def placed(sound: np.ndarray, at: int) -> np.ndarray:
    found = BACK.copy()
    found[at : at + len(sound)] = sound
    return found


class TestPolish:
    @pytest.mark.parametrize("at", [300, 1000, 3000, 5000])
    def test_a_tick_behind_the_word_is_silenced_and_the_word_is_whole(self, at: int) -> None:
        found = without_tick(np.concatenate([SPEECH, placed(TICK, at)]), (2, 10, 10), "a")
        assert np.array_equal(found[:7200], SPEECH)
        assert np.abs(found[7200 + 240 :]).max() < 0.01

    @pytest.mark.parametrize(
        "cuts", [[3000, 6000, 9000], [7200], [7100, 7300], [12_600], [9000, 9001]]
    )
    def test_a_chunk_in_pieces_loses_the_same_and_no_word_waits(self, cuts: list[int]) -> None:
        whole = np.concatenate([SPEECH, placed(TICK, 1000)])
        fade, given = TickFade((2, 10, 10), "a", len(whole)), np.split(whole, cuts)
        heard = [fade(piece) for piece in given]
        assert np.array_equal(np.concatenate(heard), without_tick(whole, (2, 10, 10), "a"))
        assert [min(at, 7200) for at in np.cumsum([0, *map(len, heard[:-1])])] == [
            min(at, 7200) for at in [0, *cuts]
        ]

    @pytest.mark.parametrize(
        ("phonemes", "behind"),
        [
            ("a", SPEECH[:2400]),
            ("a", placed(SPEECH[:1200], 600)),
            ("at", placed(TICK, 1200)),
            (
                "a",
                placed(np.full(720, 0.2, np.float32), 2400)
                + placed(np.full(2400, 0.2, np.float32), 2640),
            ),
            ("...", placed(TICK, 1000)),
        ],
        ids=["rings out", "goes on", "a late release", "long", "no phone"],
    )
    def test_no_word_loses_sound(self, phonemes: str, behind: np.ndarray) -> None:
        given = np.concatenate([SPEECH, behind])
        durations = (2, *[10 // len(phonemes)] * len(phonemes), 10)
        assert np.array_equal(without_tick(given, durations, phonemes), given)

    @pytest.mark.parametrize("pieces", [1, 7, 100])
    def test_silence_at_both_ends_is_cut_and_inside_it_stays(
        self, pieces: int, tmp_path: Path
    ) -> None:
        whole = np.concatenate([BACK, SPEECH, BACK, BACK, SPEECH, BACK, BACK])
        with to_file(tmp_path / "a.wav") as inner:
            sink = TrimmedSink(inner)
            for piece in np.array_split(whole, pieces):
                sink.write(piece)
            sink.finish()
        pcm = soundfile.read(tmp_path / "a.wav", dtype="int16")[0]
        heard = np.flatnonzero(np.abs(pcm) > 200)
        assert abs(heard[0] - 2400) < 9
        assert abs(len(pcm) - heard[-1] - 6000) < 9
        assert len(pcm) + sink.cut == len(whole)
        assert heard[-1] - heard[0] > 2 * 7200 + 12_000 - 20

    def test_a_stream_is_trimmed_and_a_file_where_asked(
        self, folder: str, tmp_path: Path, capsys: pytest.CaptureFixture
    ) -> None:
        assert (
            main(
                [
                    *flags(folder, tmp_path / "a.wav"),
                    "--trim",
                    "--timestamps",
                    str(tmp_path / "t.json"),
                ]
            )
            == 2
        )
        assert "give one of them" in capsys.readouterr().err
        whole, cut = (
            say(folder, tmp_path / "a.wav", *more, text="abc.")["pcm"] for more in ((), ("--trim",))
        )
        trimmed_s = json.loads(capsys.readouterr().out.splitlines()[-1])["seconds_trimmed"]
        assert len(whole) - len(cut) == round(trimmed_s * SAMPLE_RATE_HZ)


SHORT = (
    "Hi.",
    "No?",
    "A.",
    "Go!",
    "Yes.",
    "Oh.",
    "Two.",
    "Stop!",
    "Okay.",
    "Me?",
    "Thanks.",
    "Wait.",
)


def bursts(samples: np.ndarray, start: int) -> list[tuple[int, int]]:
    """Begin and length, in steps of 2.5 ms behind `start`, of what passes -40 dBFS, with less than
    10 ms of quiet inside.
    """
    count = max(0, len(samples) - start) // 60
    loud = np.flatnonzero(
        np.abs(samples[start : start + 60 * count].reshape(count, 60)).max(axis=1) > 0.01
    )
    runs = np.split(loud, np.flatnonzero(np.diff(loud) > 4) + 1) if len(loud) else []
    return [(int(run[0]), int(run[-1] + 1 - run[0])) for run in runs]


@pytest.mark.slow
def test_short_texts_of_real_kokoro_end_without_a_tick_in_every_voice() -> None:
    checkpoint = open_checkpoint("kokoro-int8")
    opened, ticked, left, shortened = (
        open_runtime("torch", Request(checkpoint, Path("build"), "")),
        0,
        [],
        [],
    )
    for voice in checkpoint.voices:
        chain = Pipeline(
            TextReader.load(voice_language(voice), None),
            opened.encoder,
            opened.vocoder,
            checkpoint.config.vocab,
        )
        for text in SHORT:
            (spoken,) = chain.speak(text, checkpoint.voice(voice), SpeechOptions())
            end, found = (
                word_end(spoken.durations, spoken.chunk.phonemes),
                without_tick(spoken.samples, spoken.durations, spoken.chunk.phonemes),
            )
            ticks = [
                [burst for burst in bursts(one, end) if burst[0] >= 4 and burst[1] <= 12]
                for one in (spoken.samples, found)
            ]
            faded = int(np.append(np.flatnonzero(found != spoken.samples), len(found))[0])
            ticked, left = ticked + bool(ticks[0]), left + ticks[1]
            shortened += (
                [(voice, text)]
                if faded < end or any(length > 12 for _, length in bursts(spoken.samples, faded))
                else []
            )
    print(
        f"{ticked} of {len(checkpoint.voices) * len(SHORT)} tick in the model, {len(left)} ticks"
        f" left, {len(shortened)} words shortened"
    )
    assert ticked > 10
    assert not left
    assert not shortened


class TestLoudness:
    """ITU-R BS.1770: a sine of 997 Hz and amplitude a dBFS has a - 3.01 LUFS."""

    def test_a_sine_gets_the_amplitude_that_the_standard_says(self) -> None:
        sine = np.sin(np.arange(48_000) * 2 * np.pi * 997 / SAMPLE_RATE_HZ).astype(np.float32)
        for lufs in (-23.0, -40.0):
            found, reached = levelled(0.3 * sine, lufs)
            assert reached == lufs
            assert 20 * np.log10(np.abs(found).max()) == pytest.approx(lufs + 3.01, abs=0.1)

    def test_the_peak_goes_before_and_what_has_no_loudness_stays(self) -> None:
        spiky = 0.01 * SPEECH.repeat(3)
        spiky[::2000] = 0.5
        found, reached = levelled(spiky, -10.0)
        assert np.abs(found).max() == pytest.approx(10 ** (-1 / 20), rel=1e-5)
        assert reached is not None
        assert reached < -10.5
        for kept in (np.zeros(48_000, np.float32), SPEECH):  # silence; 0.3 s
            assert levelled(kept, -19.0)[0] is kept
            assert levelled(kept, -19.0)[1] is None

    @pytest.mark.parametrize("voice", ["awb", "rms", "slt"])
    def test_every_voice_has_the_loudness_asked_for(
        self,
        voice: str,
        folder: str,
        tmp_path: Path,
        capsys: pytest.CaptureFixture,
    ) -> None:
        import pyloudnorm

        pcm = say(folder, tmp_path / "a.wav", "--voice", voice, "--loudness", "-30", "--trim")[
            "pcm"
        ]
        report = json.loads(capsys.readouterr().out.splitlines()[-1])
        samples, rate_hz = speak(
            TEXT,
            voice,
            checkpoint=folder,
            runtime="torch",
            build=tmp_path,
            loudness=-30,
            phonemes=True,
        )
        for heard in (pcm / 32768, samples):
            assert pyloudnorm.Meter(rate_hz).integrated_loudness(
                heard.astype(np.float64)
            ) == pytest.approx(-30, abs=0.5)
        assert report["loudness_lufs"] == pytest.approx(-30, abs=0.5)
        assert report["samples_at_full_scale"] == 0

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            (["nan", "-o", "a.wav"], "a loudness of nan LUFS: give -50 to -5"),
            (["3", "-o", "a.wav"], "a loudness of 3 LUFS"),
            (["-19", "--stream"], "--loudness needs -o FILE"),
        ],
    )
    def test_refusals(
        self, more: list[str], said: str, folder: str, tmp_path: Path, capsys: pytest.CaptureFixture
    ) -> None:
        given = [str(tmp_path / word) if word == "a.wav" else word for word in more]
        assert main([*flags(folder), "--loudness", *given]) == 2
        assert said in capsys.readouterr().err
        assert not (tmp_path / "a.wav").exists()


SETTINGS = {"text": "1", "seed": 0}


def speech(index: int, frames: int = 2, fresh: bool = True) -> Speech:
    words = next(PhonemeReader().sentences(f"{'abcdefghij'[index]}b.")).words
    samples = np.random.default_rng(index).uniform(-1, 1, frames * FRAME_SAMPLES).astype(np.float32)
    return Speech(
        index,
        Chunk.of(words),
        (1, frames - 1),
        samples,
        10 * index,
        0.5,
        2.0,
        {"g2p": 1.0} if fresh else {},
    )


# write `count` chunks and forget the state, as a crash does
def kept_after(folder: Path, count: int = 4) -> list[Speech]:
    with ResumeState.open(folder, SETTINGS, resume=False) as state:
        for index in range(count):
            state.keep(speech(index, frames=2 + index))
    return [speech(index, frames=2 + index) for index in range(count)]


def resumed(folder: Path, count: int = 4) -> list[Speech | None]:
    with ResumeState.open(folder, SETTINGS, resume=True) as state:
        return [state.earlier(index, speech(index).chunk) for index in range(count)]


class TestResume:
    def test_gives_back_what_was_kept(self, tmp_path: Path) -> None:
        for wanted, got in zip(kept_after(tmp_path / "p"), resumed(tmp_path / "p"), strict=True):
            assert np.array_equal(wanted.samples, got.samples)
            assert not got.seconds
            assert (wanted.durations, wanted.pause, wanted.gain, wanted.peak) == (
                got.durations,
                got.pause,
                got.gain,
                got.peak,
            )

    @given(st.integers(0, 13 * FRAME_SAMPLES * 4), st.integers(0, 900))
    @settings(max_examples=25, deadline=None)
    def test_any_crash_leaves_a_prefix_of_whole_chunks(
        self, tmp_path_factory: pytest.TempPathFactory, audio: int, lines: int
    ) -> None:
        """Cut both files anywhere: what comes back is right, and the run can go on to the same
        end.
        """
        folder = tmp_path_factory.mktemp("crash") / "p"
        wanted = kept_after(folder)
        for name, size in ((AUDIO, audio), (CHUNKS, lines)):
            with (folder / name).open("r+b") as stream:
                stream.truncate(min(size, (folder / name).stat().st_size))
        with ResumeState.open(folder, SETTINGS, resume=True) as state:
            for index, one in enumerate(wanted):
                got = state.earlier(index, one.chunk)
                assert got is None or np.array_equal(got.samples, one.samples)
                state.keep(got or one)
        assert all(
            got is not None and np.array_equal(got.samples, one.samples)
            for one, got in zip(wanted, resumed(folder), strict=True)
        )

    @pytest.mark.parametrize("name", [AUDIO, CHUNKS])
    def test_a_damaged_chunk_is_spoken_again_with_all_that_follows(
        self, name: str, tmp_path: Path
    ) -> None:
        folder = tmp_path / "p"
        wanted, data = kept_after(folder), bytearray((folder / name).read_bytes())
        # in chunk 1; no UTF-8
        data[4 * FRAME_SAMPLES * 2 + 100 if name == AUDIO else data.index(b"\n") + 20] ^= 0x81
        (folder / name).write_bytes(data)
        with ResumeState.open(folder, SETTINGS, resume=True) as state:
            found = []
            for index, one in enumerate(wanted):
                got = state.earlier(index, one.chunk)
                found.append(got is not None)
                state.keep(got or one)
        assert found == [True, False, False, False]
        assert all(
            np.array_equal(got.samples, one.samples)
            for one, got in zip(wanted, resumed(folder), strict=True)
        )

    def test_another_chunk_is_not_given_back(self, tmp_path: Path) -> None:
        kept_after(tmp_path / "p")
        with ResumeState.open(tmp_path / "p", SETTINGS, resume=True) as state:
            assert state.earlier(0, speech(1).chunk) is None
            assert state.earlier(4, speech(0).chunk) is None

    def test_other_settings_and_nothing_kept_begin_anew(self, tmp_path: Path) -> None:
        folder = tmp_path / "p"
        kept_after(folder)
        pytest.raises(
            InputError, ResumeState.open, folder, SETTINGS | {"seed": 1}, resume=True
        ).match("chunks of another seed")
        with ResumeState.open(folder, SETTINGS | {"seed": 1}, resume=False) as state:
            assert state.earlier(0, speech(0).chunk) is None
            state.remove()
        assert not folder.exists()
        with ResumeState.open(tmp_path / "p", SETTINGS, resume=True) as state:
            assert state.written == 0
        assert (
            json.loads((tmp_path / "p" / "settings.json").read_text(encoding="utf-8")) == SETTINGS
        )
