"""What the sweep of bad invocations (tests/sweep.py) and tests/kill.py found in words, texts and
interrupts: a named case each.
"""

import ast
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from bench import chain_speed
from kokoro_ane import cli
from kokoro_ane.core.errors import InputError, run_cli
from kokoro_ane.g2p.__main__ import main as g2p
from kokoro_ane.pipeline.bundle import main as bundle
from kokoro_ane.pipeline.speak import main as speak
from kokoro_ane.pipeline.vectors import main as vectors
from kokoro_ane.vocoder.render import VocoderPackage
from kokoro_ane.vocoder.vocoder_steps import STEPS
from mlprogram.__main__ import main as mlprogram
from mlprogram.errors import LONGEST_LINE, one_line
from tests.builds import left_behind

ROOT = Path(__file__).resolve().parents[1]


class TestWords:
    @pytest.mark.parametrize("bad", ["a\nb", "a\rb", "\x1b[2J", "a\u2028b", "\ud800", "\u202eabc"])
    def test_an_error_is_one_line_whatever_was_given(
        self,
        bad: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture,
    ) -> None:
        # where no killed test beside this one leaves its files
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

        def main(_argv: list[str] | None) -> int:
            raise InputError(f"--voice {bad}: no such voice")

        assert run_cli(main, None) == 2
        said = capsys.readouterr().err
        assert len(said.splitlines()) == 1
        assert said.isascii()
        assert said.endswith(": no such voice\n")

    def test_a_name_of_100_000_characters_is_not_said_back(self) -> None:
        said = one_line(f"{'x' * 100_000}: no such voice")
        assert len(said) <= LONGEST_LINE
        assert one_line("ˈnaïve, 5 €") == "ˈnaïve, 5 €"

    @pytest.mark.parametrize(
        "given", [["ane", "x", "--rules"], ["rules", "--check"], ["rules", "--write"]]
    )
    def test_rules_that_never_end(
        self, given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture
    ) -> None:
        (tmp_path / "zero").symlink_to("/dev/zero")
        assert mlprogram([*given, str(tmp_path / "zero")]) == 2
        assert "not a file" in capsys.readouterr().err

    def test_mlprogram_says_one_line_too(
        self, tmp_path: Path, capsys: pytest.CaptureFixture
    ) -> None:
        assert mlprogram(["ane", str(tmp_path), "--chip", "m1\n" + "x" * 100_000]) == 2
        said = capsys.readouterr().err
        assert len(said.splitlines()) == 1
        assert len(said) <= LONGEST_LINE + len("error: \n")

    def test_vectors_of_a_checkpoint_without_voices(
        self, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture
    ) -> None:
        folder = Path(shutil.copytree(tiny, tmp_path / "checkpoint"))
        shutil.rmtree(folder / "voices")
        assert vectors(["--checkpoint", str(folder), "--out", str(tmp_path / "v")]) == 2
        assert "holds no voice" in capsys.readouterr().err

    def test_a_bundle_into_no_name(self, tiny: Path, capsys: pytest.CaptureFixture) -> None:
        assert bundle(["--checkpoint", str(tiny), "--out", ""]) == 2
        assert "its bundle has to say so: --out bundle-tiny-fp16" in capsys.readouterr().err

    def test_a_picture_of_no_format_is_told_before_anything_is_written(
        self, tiny_build: Path, tmp_path: Path, capsys: pytest.CaptureFixture
    ) -> None:
        package = tiny_build / "KokoroVocoder-tiny-fp16.mlpackage"
        given = [
            "ane",
            str(package),
            "--chip",
            "m1",
            "--no-device",
            "--json",
            str(tmp_path / "x.json"),
            "--plot",
            str(tmp_path / "x.wav"),
        ]
        assert mlprogram(given) == 2
        assert "must end in one of" in capsys.readouterr().err
        assert not left_behind(tmp_path)

    def test_flags_that_a_bench_command_reads_are_its_flags(self) -> None:
        """bench.chain_speed asked for --layout, which it did not have, and ended in a traceback
        whatever was given.
        """
        tree = ast.parse(Path(chain_speed.__file__).read_text(encoding="utf-8"))
        read = {
            n.attr
            for n in ast.walk(tree)
            if isinstance(n, ast.Attribute)
            and isinstance(n.value, ast.Name)
            and n.value.id == "arguments"
        }
        assert read <= set(vars(chain_speed.parse_arguments([])))


class TestTexts:
    @pytest.mark.skipif(
        not Path("/proc/self/mem").exists(),
        reason="Linux only: a file that opens and cannot be read",
    )
    @pytest.mark.parametrize(
        "given",
        [
            ["g2p", "--file", "{}"],
            ["speak", "--file", "{}", "-o", "{out}", "--runtime", "torch"],
            ["g2p", "x", "--lexicon", "{}"],
        ],
    )
    def test_a_file_that_opens_and_cannot_be_read(
        self, given: list[str], tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture
    ) -> None:
        given = [word.format("/proc/self/mem", out=tmp_path / "x.wav") for word in given]
        assert (
            cli.main([*given, *(["--checkpoint", str(tiny)] if given[0] == "speak" else [])]) == 2
        )
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "/proc/self/mem: Input/output error" in said
        assert not left_behind(tmp_path)

    def test_a_disk_that_fails_in_the_middle_is_one_line(
        self, capsys: pytest.CaptureFixture
    ) -> None:
        def main(_argv: list[str] | None) -> int:
            raise OSError(errno.EIO, "Input/output error")  # as read(2) says it, without a name

        assert run_cli(main, None) == 2
        assert (
            capsys.readouterr().err
            == "error: a file could not be read or written: Input/output error\n"
        )

    @pytest.mark.parametrize("text", ["a \udcff b", "\ud800\udc00"])
    def test_a_text_that_is_not_utf8(
        self, text: str, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture
    ) -> None:
        """It ended in a traceback: when the samples' settings were hashed, or in the middle of the
        subtitles.
        """
        given = [
            text,
            "-o",
            str(tmp_path / "x.wav"),
            "--timestamps",
            str(tmp_path / "x.srt"),
            "--runtime",
            "torch",
        ]
        assert speak([*given, "--checkpoint", str(tiny)]) == 2
        assert "the text is not UTF-8" in capsys.readouterr().err
        assert not left_behind(tmp_path)

    def test_a_function_that_is_not_utf8(
        self, tiny_build: Path, capsys: pytest.CaptureFixture
    ) -> None:
        assert (
            mlprogram(
                [
                    "describe",
                    str(tiny_build / "KokoroVocoder-tiny-fp16.mlpackage"),
                    "--function",
                    "\ud800",
                ]
            )
            == 2
        )
        assert "no function '\\ud800'" in capsys.readouterr().err

    def test_a_table_of_many_words_takes_what_the_words_take(
        self, tmp_path: Path, capsys: pytest.CaptureFixture
    ) -> None:
        """g2p --explain: 39 s for 200,000 brackets, which rich laid out one by one; the plain run
        took 1.4 s.
        """
        (tmp_path / "deep.txt").write_text("[" * 20_000)
        seconds = []
        for more in ([], ["--explain"]):
            started = time.process_time()
            assert g2p(["--file", str(tmp_path / "deep.txt"), *more]) == 0
            seconds.append(time.process_time() - started)
        said = capsys.readouterr().out
        assert said.count("punctuation        1.00") == 20_000
        assert seconds[1] < 8 * max(seconds[0], 0.1)  # 28 before

    def test_a_word_wider_than_the_terminal_is_folded(self, capsys: pytest.CaptureFixture) -> None:
        assert g2p(["[x] " + "a" * 200, "--explain"]) == 0
        assert (
            max(map(len, capsys.readouterr().out.split("confidence")[1].splitlines()[:-1])) <= 120
        )


@pytest.mark.parametrize("threads", ["0", "-1", "9" * 30, "x"])
def test_threads_that_are_none(threads: str, capsys: pytest.CaptureFixture) -> None:
    pytest.raises(SystemExit, chain_speed.parse_arguments, ["--threads", threads]).match("2")
    assert "not a whole number from 1 to 1024" in capsys.readouterr().err


class TestNothingThatIsNoNumber:
    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    @pytest.mark.parametrize("which", [0, 1])
    def test_the_package_takes_none(self, value: float, which: int, tiny_build: Path) -> None:
        package = VocoderPackage(tiny_build / "KokoroVocoder-tiny-fp16.json")
        spec = package.program.inputs
        given = [torch.zeros(spec["features"].shapes[0]), torch.zeros(spec["style"].shape)]
        given[which].view(-1)[3] = value
        pytest.raises(InputError, package.run, *given, frames=40).match(
            "holds 1 NaN or infinite values"
        )

    def test_the_chain_gives_none(self) -> None:  # as 16 bit it was silence, with exit 0

        class Broken:
            arrays = True

            def run(self, *_: object) -> np.ndarray:
                return np.full(600, np.nan, np.float32)

        class Context:
            vocoder = Broken()

        step, ones = (
            next(step for step in STEPS if step.name == "vocoder"),
            np.ones((1, 2, 1, 2), np.float32),
        )
        with pytest.raises(InputError, match="waveform holds 600 NaN or infinite values"):
            step.run(Context(), {"features": ones, "style": ones, "asr": np.ones((1, 4, 1))})


SIGNALS = ["SIGINT", "SIGTERM"]
HEAD = """
import atexit, importlib, os, signal, sys, time
from pathlib import Path
from kokoro_ane import cli
from kokoro_ane.core.errors import run_cli
from kokoro_ane.core.staging import staged
def send(name): os.kill(os.getpid(), getattr(signal, name))
"""
TAIL = "raise SystemExit(run_cli(main, sys.argv[1:]))"


def interrupted(place: Path, body: str, *argv: str) -> str:
    """Run HEAD and `body` in a process of its own, which has to end with the one line; what it
    printed.
    """
    # a background job's children ignore it
    heeds = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731
    # what others were killed over is not cleared, and told, here
    alone = dict(os.environ) | {"TMPDIR": str(place)}
    command = [sys.executable, "-c", HEAD + body, *argv]
    done = subprocess.run(
        command, cwd=ROOT, env=alone, capture_output=True, text=True, check=False, preexec_fn=heeds
    )
    assert (done.returncode, done.stderr) == (
        2,
        "error: interrupted; nothing was left half-written\n",
    )
    return done.stdout


IMPATIENT = """
def main(argv):
    try:
        send(argv[0])
        time.sleep(60)
    finally:
        send(argv[1])  # while it cleans up
        print("cleaned up", flush=True)
"""


@pytest.mark.parametrize("first", SIGNALS)
@pytest.mark.parametrize("second", SIGNALS)
def test_pressed_twice_it_still_cleans_up(first: str, second: str, tmp_path: Path) -> None:
    """The second one broke the cleaning up, and its traceback was what the user saw."""
    assert interrupted(tmp_path, IMPATIENT + TAIL, first, second) == "cleaned up\n"


SWALLOWED = """
def main(argv):
    with staged(Path(argv[1])) as aside:
        aside.write_text("half")
        try:
            send(argv[0])
        except BaseException: pass    # as a callback of a C library does
    return 0
"""


@pytest.mark.parametrize("which", SIGNALS)
def test_an_interrupt_that_a_library_swallows_is_one(which: str, tmp_path: Path) -> None:
    """SIGTERM came while soundfile called back for a stream of Python's: printed, ignored, exit 0,
    and whatever had been encoded.
    """
    (tmp_path / "x.json").write_text("old")
    interrupted(tmp_path, SWALLOWED + TAIL, which, str(tmp_path / "x.json"))
    assert (tmp_path / "x.json").read_text() == "old"
    assert left_behind(tmp_path) == ["x.json"]


DESTRUCTOR = """
class Destructor:
    def __del__(self):
        send(sys.argv[1])
        time.sleep(5)
def main(argv):
    Destructor()
    time.sleep(30)
    print("it went on")
"""
CALLBACK = """
def main(argv):
    import cffi
    ffi = cffi.FFI()
    @ffi.callback("int(int)")
    def called(number):
        send(argv[0])
        time.sleep(5)
        return number
    called(1)
    time.sleep(30)
    print("it went on")
"""


@pytest.mark.parametrize("which", SIGNALS)
@pytest.mark.parametrize("body", [DESTRUCTOR, CALLBACK], ids=["destructor", "callback"])
def test_an_interrupt_in_a_destructor_is_one_line_and_not_forgotten(
    which: str, body: str, tmp_path: Path
) -> None:
    """Ctrl-C in `speak` came in soundfile's destructor: a traceback before the line, and it would
    have spoken on to the end.
    """
    assert interrupted(tmp_path, body + TAIL, which) == ""


AT_THE_END = """
def last():   # while Python ends, which takes half a second with torch, or as long as some thread
    send(sys.argv[1])
    time.sleep(20)
    print("still here", flush=True)
atexit.register(last)
def main(argv):
    send("SIGINT")
raise SystemExit(run_cli(main, None))   # as a process's own command
"""


@pytest.mark.parametrize("second", SIGNALS)
def test_a_second_one_while_python_ends_is_no_traceback(second: str, tmp_path: Path) -> None:
    assert interrupted(tmp_path, AT_THE_END, second) == ""


IMPORTING = """
importlib.import_module = lambda _: send(sys.argv[1])
raise SystemExit(cli.main(["speak", "hello"]))
"""


@pytest.mark.parametrize("which", SIGNALS)
def test_while_modules_are_imported_it_is_one_line(which: str, tmp_path: Path) -> None:
    """SIGTERM had Python's own end until the verb's modules were there."""
    assert interrupted(tmp_path, IMPORTING, which) == ""
