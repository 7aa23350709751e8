"""The command as a user types it, on a tiny random checkpoint: files, streams, times, interruption,
resumption, bad input in one line.
"""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np
import pyloudnorm
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_ane.api import speak
from kokoro_ane.core.contract import FRAME_SAMPLES, SAMPLE_RATE_HZ
from kokoro_ane.pipeline.audio import level_loudness, trim_silence
from kokoro_ane.pipeline.resume import resume_state
from kokoro_ane.pipeline.speak import SpeakOptions, check_speak_options, main
from kokoro_ane.pipeline.speak import speak_text as spoken
from kokoro_ane.pipeline.synthesis import Speech
from kokoro_ane.runtimes.registry import open_runtime
from kokoro_g2p.text import Chunk, phoneme_sentences
from kokoro_g2p.text import check_sayable as checked_for_words
from tests.builds import left_behind
from tests.commands import ROOT, heeds_ctrl_c, parsed, printed, ran, refused
from tests.demo_voice import DEMO_VOICE
from tests.random_checkpoint import tiny_config, write_checkpoint

SPEAK = (sys.executable, "-m", "kokoro_ane.pipeline.speak")
# PyTorch speaks without Core ML's tools, whose import takes as long as PyTorch's
ALONE = """
import sys
from kokoro_ane.pipeline.speak import SpeakOptions, main
from kokoro_ane.pipeline.speak import speak_text as spoken
from kokoro_g2p.text import text_reader
code = main(sys.argv[1:])
assert [*text_reader("us")("Hello.")]
assert "coremltools" not in sys.modules
raise SystemExit(code)
"""
VOCAB = {symbol: index + 1 for index, symbol in enumerate("abcdefghijklmnopqrstuvwxyzˈ .,!?")}
TEXT = "hello worˈld. this is a test, ha!\n\nmore?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    config = tiny_config() | {"vocab": VOCAB}
    return str(write_checkpoint(tmp_path_factory.mktemp("checkpoint"), config, encoder=True))


def flags(folder, out=None, text=TEXT):
    words = [text, *"--phonemes --runtime torch --checkpoint".split(), folder]
    return words if out is None else [*words, "-o", str(out)]


def say(folder, out, *more, text=TEXT):
    """The samples that the command wrote."""
    assert main([*flags(folder, out, text), *more]) == 0
    return soundfile.read(out, dtype="int16")[0]


class TestCommand:
    def test_file_times_and_report(self, folder, tmp_path, capsys):
        out, stamps = tmp_path / "a.wav", tmp_path / "words.json"
        pcm = say(folder, out, "--voice", "slt:0.7,rms:0.3", "--timestamps", str(stamps))
        report, times, info = printed(capsys), parsed(stamps), soundfile.info(out)
        assert (info.samplerate, info.channels, info.subtype) == (SAMPLE_RATE_HZ, 1, "PCM_16")
        assert report["seconds_of_audio"] == pytest.approx(len(pcm) / SAMPLE_RATE_HZ, abs=1e-6)
        assert report["chunks"] == 3
        assert report["voice"] == "slt:0.7,rms:0.3"
        assert not report["releasable"]
        assert report["samples_at_full_scale"] == 0
        assert report["peak_of_the_model"] > 0.01
        end_s = 0.0
        for chunk in times["chunks"]:
            assert chunk["start_s"] - chunk["pause_s"] == pytest.approx(end_s, abs=2e-6)
            end_s = chunk["end_s"]
        assert end_s == times["seconds"]
        assert end_s == pytest.approx(len(pcm) / SAMPLE_RATE_HZ, abs=1e-6)
        words = [word for chunk in times["chunks"] for word in chunk["words"]]
        assert all(TEXT[word["start"] : word["end"]] == word["text"] for word in words)
        assert left_behind(tmp_path) == ["a.wav", "words.json"]

    def test_flac_seed_and_speed(self, folder, tmp_path):
        assert np.array_equal(say(folder, tmp_path / "a.wav"), say(folder, tmp_path / "a.flac"))
        one, same, other, fast = (
            say(folder, tmp_path / "a.wav", *more.split(), text="abc def.")
            for more in ("--seed 0", "--seed 0", "--seed 1", "--speed 2")
        )
        assert np.array_equal(one, same)
        assert len(one) == len(other)
        assert not np.array_equal(one, other)
        assert len(fast) < len(one)

    @pytest.mark.parametrize("kind, header", [("wav", 44), ("pcm", 0)])
    def test_a_stream_holds_the_samples_of_the_file(self, kind, header, folder, tmp_path):
        command = [sys.executable, "-c", ALONE, *flags(folder, text="-"), "--stream", kind]
        done = ran(*command, input=TEXT.encode(), text=False)
        assert done.returncode == 0
        assert done.stdout.startswith(b"RIFF") == (kind == "wav")
        assert done.stdout[header:] == say(folder, tmp_path / "a.wav").tobytes()
        assert json.loads(done.stderr.splitlines()[-1])["out"] == f"stream {kind}"

    def test_reader_that_goes_away_is_one_line(self, folder):
        command = [*SPEAK, *flags(folder, text=TEXT * 20), "--stream"]
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            process.stdout.read(100)
            process.stdout.close()
            error = process.stderr.read().decode()
        assert process.returncode == 2
        assert "the reader of the stream went away after" in error
        assert "Traceback" not in error

    def test_an_interrupted_run_goes_on(self, folder, tmp_path, capsys):
        """Interrupted by the keyboard after some chunks; the same command speaks the rest only, and
        the samples are those of one run.
        """
        text = " ".join(
            f"{word} and some more."
            for word in ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta") * 4
        )
        book, out, parts = tmp_path / "book.txt", tmp_path / "a.wav", tmp_path / "a.wav.parts"
        book.write_text(text, encoding="utf-8-sig")
        arguments = ["--file", str(book), *flags(folder, out)[1:]]
        process = subprocess.Popen(
            [*SPEAK, *arguments],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=heeds_ctrl_c,
        )
        while process.poll() is None and len(list(parts.glob("*.npz"))) <= 4:
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        error = process.communicate()[1]
        assert process.returncode == 2
        assert "the same command goes on" in error
        assert not out.exists()
        assert "Traceback" not in error
        # another voice would lose what is finished
        assert main([*arguments, "--voice", "rms"]) == 2
        assert "finished chunks of another voice: give what" in capsys.readouterr().err
        assert main(arguments) == 0
        output = capsys.readouterr()
        report = json.loads(output.out.splitlines()[-1])
        assert "finished chunks of an earlier run are kept" in output.err
        assert 3 < report["chunks_of_an_earlier_run"] < report["chunks"] == 32
        assert not parts.exists()
        # the byte order mark of the book is none of its text
        assert np.array_equal(
            soundfile.read(out, dtype="int16")[0], say(folder, tmp_path / "whole.wav", text=text)
        )

    def test_the_text_names_voices(self, tmp_path, capsys):
        spoken = speak("One two. [voice:rms] Three four.", "slt", checkpoint=str(DEMO_VOICE))[0]
        alone = speak("One two. Three four.", "slt", checkpoint=str(DEMO_VOICE))[0]
        assert len(spoken) != len(alone)
        for named in ("[voice:nobody]", "<voice name='nobody'>"):
            words = [f"Hello. {named} Hi.", "--checkpoint", str(DEMO_VOICE), "-o"]
            assert main([*words, str(tmp_path / "a.wav")]) == 2
            error = capsys.readouterr().err.strip().splitlines()[-1]
            assert error.startswith("error: no voice 'nobody' in ")
            assert error.endswith("There are: awb, rms, slt")
        words = ["Hello. <lang xml:lang='de'>Rad</lang>", "--checkpoint", str(DEMO_VOICE), "-o"]
        assert main([*words, str(tmp_path / "a.wav")]) == 2
        error = capsys.readouterr().err.strip().splitlines()[-1]
        assert error.startswith("error: <lang xml:lang='de'>: this language is not read; en, ")
        assert left_behind(tmp_path) == []

    def test_a_full_disk_is_one_line_and_what_was_spoken_is_kept(
        self, folder, tmp_path, monkeypatch, capsys
    ):
        """libsndfile's error in the second chunk, as it comes when the disk fills."""
        write, calls = soundfile.SoundFile.write, []

        def filling(self, data):
            calls.append(data)
            if len(calls) == 2:
                raise soundfile.LibsndfileError(2)
            write(self, data)

        monkeypatch.setattr(soundfile.SoundFile, "write", filling)
        assert main(flags(folder, tmp_path / "a.wav")) == 2
        error = capsys.readouterr().err
        assert "a.wav: no room for it" in error
        assert "1 finished chunks are kept" in error
        assert "Traceback" not in error
        assert left_behind(tmp_path) == ["a.wav.parts"]


def test_the_runtime_that_is_there(folder, tmp_path, capsys, monkeypatch):
    """Without packages PyTorch speaks, and a line says so, unless a runtime or a level is asked
    for; the call in Python does the same and keeps its model until the build folder changes.
    """
    flags = f"--phonemes --checkpoint {folder} --build {tmp_path} -o {tmp_path}/a.wav"
    arguments = ["hello.", *flags.split()]
    assert main(arguments) == 0
    output = capsys.readouterr()
    assert json.loads(output.out.splitlines()[-1])["runtime"] == "torch"
    assert "is not built: PyTorch speaks" in output.err
    assert main([*arguments, "--method", "fp16"]) == 2
    assert "does not exist" in capsys.readouterr().err
    opened = []
    monkeypatch.setattr(
        "kokoro_ane.runtimes.open_runtime",
        lambda name, request: opened.append(name) or open_runtime(name, request),
    )
    for change in ("", "", "new.json"):
        (tmp_path / change).touch() if change else None
        speak("hello", checkpoint=folder, build=tmp_path, phonemes=True)
    # the command's model is still open: only a changed folder is opened anew
    assert opened == ["torch"]


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "nothing to say: the text holds no word"),
        ("...", "nothing to say: the text holds no word"),
        ("☺ ☺", "nothing to say: the text holds no word (left out: 2 emoji)"),
        ("Привет", "nothing to say: the text holds no word (left out:"),
    ],
)
def test_a_text_without_a_word_is_refused_before_a_model_opens(text, message, tmp_path, capsys):
    """In 36 s on a busy machine before."""
    arguments = [text, "--checkpoint", str(DEMO_VOICE), "--build", str(tmp_path)]
    with monkeypatched_opening():
        assert main([*arguments, "-o", str(tmp_path / "new" / "a.wav")]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith(f"error: {message}")
    assert len(error.splitlines()) == 1
    # and before a folder is made
    assert left_behind(tmp_path) == []


@contextmanager
def monkeypatched_opening():
    """Nothing may be opened in the block."""

    def opened(source=None, thorough=False):
        raise AssertionError("a checkpoint was opened")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kokoro_ane.core.open_checkpoint", opened)
        yield


def test_words_that_are_signs_are_said():
    for text in ("&", "½", "5", "I"):
        checked_for_words(text, "us")


def test_a_folder_that_is_made_is_named(folder, tmp_path, capsys):
    assert main(flags(folder, tmp_path / "new" / "a.wav", "hello.")) == 0
    assert f"{tmp_path}/new is no folder yet: it is made" in capsys.readouterr().err
    assert left_behind(tmp_path / "new") == ["a.wav"]


def test_flags_behind_a_text_that_begins_with_a_dash(folder, tmp_path, capsys):
    options = f"--phonemes --runtime torch --checkpoint {folder}".split()
    for words in (
        ["--", "-five", *options],
        ["-five degrees", *options],
        [*options, "--", "-five"],
    ):
        out = tmp_path / "a.wav"
        out_first = words[-1] == "-five"
        arguments = ["-o", str(out), *words] if out_first else [*words, "-o", str(out)]
        assert main([word.replace("-five", "-5 hello") for word in arguments]) == 2
        # the words are read; a digit is no phoneme
        assert "phonemes outside the vocabulary" in capsys.readouterr().err


def test_figures_count_from_the_start_and_have_one_convention(
    folder, tmp_path, capsys, monkeypatch
):
    began = time.perf_counter() - 1000  # as if a thousand seconds had gone into opening the model
    monkeypatch.setattr("kokoro_ane.pipeline.speak.command_began", lambda: began)
    say(folder, tmp_path / "a.wav")
    spent = time.perf_counter() - began
    output = capsys.readouterr().out
    report = json.loads(output.splitlines()[-1])
    assert 1000 < report["first_audio_s"] < spent
    factor = report["real_time_factor"]
    whole = next(line for line in output.splitlines() if line.startswith("│ all"))
    assert float(whole.split("│")[-2]) == pytest.approx(factor, abs=1e-3)
    assert f"real-time factor {factor:.3f} (seconds of computing for a second of sound)" in output
    assert "times real time" not in output


SPEECH = np.sin(np.arange(7200) / 9).astype(np.float32)  # 12 frames of it: a word
BACK = np.zeros(6000, np.float32)


class TestPolish:
    @pytest.mark.parametrize("pieces", [1, 7, 100])
    def test_silence_at_both_ends_is_cut_and_inside_it_stays(self, pieces):
        whole = np.concatenate([BACK, SPEECH, BACK, BACK, SPEECH, BACK, BACK])
        samples = np.concatenate(list(trim_silence(np.array_split(whole, pieces))))
        heard = np.flatnonzero(np.abs(samples) > 200 / 32768)
        assert abs(heard[0] - 2400) < 9
        assert abs(len(samples) - heard[-1] - 6000) < 9
        assert heard[-1] - heard[0] > 2 * 7200 + 12_000 - 20

    def test_silence_is_trimmed_where_asked_and_from_a_stream_without_times(self, tmp_path):
        options = SpeakOptions("Hello. [pause 1s]", checkpoint=str(DEMO_VOICE), runtime="torch")
        whole, cut = (spoken(replace(options, trim=trim)) for trim in (None, True))
        samples_trimmed = round(cut.report["seconds_trimmed"] * SAMPLE_RATE_HZ)
        assert len(whole.samples) - len(cut.samples) == samples_trimmed >= 18_000
        stream, stamped = replace(options, stream="pcm"), {"timestamps": tmp_path / "t.json"}
        assert check_speak_options(stream).trim
        assert not check_speak_options(replace(stream, **stamped)).trim
        refused("give one of them", check_speak_options, replace(options, trim=True, **stamped))


class TestLoudness:
    """ITU-R BS.1770: a sine of 997 Hz and amplitude a dBFS has a - 3.01 LUFS."""

    def test_a_sine_gets_the_amplitude_that_the_standard_says(self):
        sine = np.sin(np.arange(48_000) * 2 * np.pi * 997 / SAMPLE_RATE_HZ).astype(np.float32)
        for lufs in (-23.0, -40.0):
            samples, reached = level_loudness(0.3 * sine, lufs)
            assert reached == lufs
            assert 20 * np.log10(np.abs(samples).max()) == pytest.approx(lufs + 3.01, abs=0.1)

    def test_the_peak_goes_before_and_what_has_no_loudness_stays(self):
        spiky = 0.01 * SPEECH.repeat(3)
        spiky[::2000] = 0.5
        samples, reached = level_loudness(spiky, -10.0)
        assert np.abs(samples).max() == pytest.approx(10 ** (-1 / 20), rel=1e-5)
        assert reached is not None
        assert reached < -10.5
        for samples in (np.zeros(48_000, np.float32), SPEECH):  # silence; 0.3 s
            assert level_loudness(samples, -19.0)[0] is samples
            assert level_loudness(samples, -19.0)[1] is None

    @pytest.mark.parametrize("voice", ["awb", "rms", "slt"])
    def test_every_voice_has_the_loudness_asked_for(self, voice, folder, tmp_path, capsys):
        pcm = say(folder, tmp_path / "a.wav", "--voice", voice, "--loudness", "-30", "--trim")
        report, meter = printed(capsys), pyloudnorm.Meter(SAMPLE_RATE_HZ)
        assert meter.integrated_loudness(pcm / 32768) == pytest.approx(-30, abs=0.5)
        assert report["loudness_lufs"] == pytest.approx(-30, abs=0.5)
        assert report["samples_at_full_scale"] == 0


SETTINGS = {"text": "1", "seed": 0}


def speech(index, frames=2):
    words = next(phoneme_sentences(f"{'abcdefghij'[index]}b.")).words
    samples = np.random.default_rng(index).uniform(-1, 1, frames * FRAME_SAMPLES).astype(np.float32)
    return Speech(
        index,
        Chunk.from_words(words),
        (1, frames - 1),
        (0, FRAME_SAMPLES, frames * FRAME_SAMPLES),
        samples,
        10 * index,
        0.5,
        2.0,
        {"g2p": 1.0},
    )


@contextmanager
def interrupted(folder, settings=SETTINGS, fresh=False):
    """A run that is interrupted at the end of the block."""
    with suppress(KeyboardInterrupt), resume_state(folder, settings, fresh) as state:
        yield state
        raise KeyboardInterrupt


def kept_after(folder, count=4):
    speeches = [speech(index, frames=2 + index) for index in range(count)]
    with interrupted(folder, fresh=True) as state:
        for one in speeches:
            state.keep(one)
    return speeches


def resumed(folder, count=4):
    with interrupted(folder) as state:
        return [state.earlier(index, speech(index).chunk) for index in range(count)]


def file_of(folder, index):
    return folder / f"00000{index}.npz"


class TestResume:
    def test_gives_back_what_was_kept_and_no_other_chunk(self, tmp_path):
        for one, got in zip(kept_after(tmp_path / "p"), resumed(tmp_path / "p"), strict=True):
            assert np.array_equal(one.samples, got.samples)
            assert got.samples.dtype == np.float32
            one_figures, got_figures = (
                replace(speech, samples=None, seconds={}) for speech in (one, got)
            )
            assert one_figures == got_figures
            assert not got.seconds
        with interrupted(tmp_path / "p") as state:
            assert state.earlier(0, speech(1).chunk) is None
            assert state.earlier(4, speech(0).chunk) is None

    @given(st.integers(0, 3), st.floats(0, 1, exclude_max=True))
    @settings(max_examples=25, deadline=None)
    def test_a_chunk_that_a_crash_cut_short_is_spoken_again(self, tmp_path_factory, index, share):
        """Cut a file anywhere: what comes back is right, and the run can go on to the same end."""
        folder = tmp_path_factory.mktemp("crash") / "p"
        speeches = kept_after(folder)
        os.truncate(file_of(folder, index), int(share * file_of(folder, index).stat().st_size))
        with interrupted(folder) as state:
            for one in speeches:
                got = state.earlier(one.index, one.chunk)
                assert (got is None) == (one.index == index)
                state.keep(got or one)
        assert all(
            np.array_equal(got.samples, one.samples)
            for one, got in zip(speeches, resumed(folder), strict=True)
        )

    @pytest.mark.parametrize("place", [100, 0.3, 0.5, 0.9])
    def test_a_damaged_chunk_is_not_given_back(self, place, tmp_path):
        file = file_of(tmp_path / "p", 1)
        kept_after(tmp_path / "p")
        data = bytearray(file.read_bytes())
        data[place if place > 1 else int(place * len(data))] ^= 0x81
        file.write_bytes(data)
        returned = [got is not None for got in resumed(tmp_path / "p")]
        assert returned == [True, False, True, True]

    def test_what_a_killed_run_finished_is_named(self, folder, tmp_path, capsys):
        """A killed process leaves its half-written file too."""
        out = tmp_path / "a.wav"
        code = """
import os, signal, sys
from kokoro_ane.pipeline import resume, speak
keep = resume.ResumeState.keep
def kept(state, speech):
    keep(state, speech)
    os.kill(os.getpid(), signal.SIGKILL)
resume.ResumeState.keep = kept
speak.main(sys.argv[1:])
"""
        assert ran(sys.executable, "-c", code, *flags(folder, out)).returncode == -signal.SIGKILL
        assert main(flags(folder, out)) == 0
        lines = capsys.readouterr().err.splitlines()
        assert any(line.endswith("a.wav removed: an earlier run was killed") for line in lines)
        assert any(
            line.startswith("1 finished chunks of an earlier run are kept") for line in lines
        )
        assert left_behind(tmp_path) == ["a.wav"]

    def test_other_settings_are_refused_or_begin_anew_and_a_complete_run_leaves_nothing(
        self, tmp_path, capsys
    ):
        folder, others = tmp_path / "p", SETTINGS | {"seed": 1}
        kept_after(folder)
        assert "4 finished chunks are kept" in capsys.readouterr().err
        with refused("holds 4 finished chunks of another seed"), resume_state(folder, others):
            pass
        assert not capsys.readouterr().err
        with resume_state(folder, others, fresh=True) as state:
            assert parsed(folder / "settings.json") == others
            assert state.earlier(0, speech(0).chunk) is None
            state.keep(speech(0))
        assert not folder.exists()
        with resume_state(folder, SETTINGS) as state:
            assert not state.chunk_files
            assert parsed(folder / "settings.json") == SETTINGS
