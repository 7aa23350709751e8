"""What the sweep of bad invocations (tests/attacks/sweep.py) found in words, texts and
interrupts: a named case each.
"""

import os
import sys
import tempfile
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bench import chain_speed
from kokoro_ane.core.errors import LONGEST_LINE, InputError, one_line, run_cli
from kokoro_ane.encoder.encoder_steps import STEPS as ENCODER_STEPS
from kokoro_ane.vocoder.render import VocoderPackage
from kokoro_ane.vocoder.vocoder_steps import STEPS, VOCODER_INPUTS
from kokoro_g2p.__main__ import main as g2p
from tests.builds import left_behind
from tests.commands import ran, refused


class TestWords:
    @pytest.mark.parametrize("bad", ["a\nb", "a\rb", "\x1b[2J", "a\u2028b", "\ud800", "\u202eabc"])
    def test_an_error_is_one_line_whatever_was_given(self, bad, tmp_path, monkeypatch, capsys):
        # where no killed test beside this one leaves its files
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

        def main(_argv):
            raise InputError(f"--voice {bad}: no such voice")

        assert run_cli(main, None) == 2
        error = capsys.readouterr().err
        assert len(error.splitlines()) == 1
        assert error.isascii()
        assert error.endswith(": no such voice\n")

    def test_a_name_of_100_000_characters_is_not_said_back(self):
        line = one_line(f"{'x' * 100_000}: no such voice")
        assert len(line) <= LONGEST_LINE
        assert one_line("ˈnaïve, 5 €") == "ˈnaïve, 5 €"


class TestTexts:
    def test_a_table_of_many_words_takes_what_the_words_take(self, tmp_path, capsys):
        """g2p --explain: 39 s for 200,000 brackets, which rich laid out one by one; the plain run
        took 1.4 s.
        """
        (tmp_path / "deep.txt").write_text("[" * 20_000)
        seconds = []
        for more in ([], ["--explain"]):
            started = time.process_time()
            assert g2p([*f"--file {tmp_path}/deep.txt".split(), *more]) == 0
            seconds.append(time.process_time() - started)
        assert capsys.readouterr().out.count("punctuation  1.00") == 20_000
        assert seconds[1] < 8 * max(seconds[0], 0.1)  # 28 before


@pytest.mark.parametrize("threads", ["0", "-1", "9" * 30, "x"])
def test_threads_that_are_none(threads, capsys):
    pytest.raises(SystemExit, chain_speed.main, ["--threads", threads]).match("2")
    assert "not a whole number from 1 to 1024" in capsys.readouterr().err


class TestNothingThatIsNoNumber:
    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    @pytest.mark.parametrize("which", [0, 1])
    def test_the_package_takes_none(self, value, which, tiny_build):
        package = VocoderPackage(tiny_build / "KokoroVocoder-tiny-padded-fp16.json")
        spec = package.program.inputs
        inputs = [torch.zeros(spec["features"].shapes[0]), torch.zeros(spec["style"].shape)]
        inputs[which].view(-1)[3] = value
        inputs.append(torch.zeros(1, 0, 1, 1))  # this layout measures its statistics
        refused("holds 1 NaN or infinite values", package.run, *inputs, frames=40)


NOISE = np.random.default_rng(0).normal(size=6 * 600).astype(np.float32)


def pinned(value, count):
    """Six frames of noise whose last `count` samples stand still."""
    waveform = NOISE.copy()
    waveform[len(waveform) - count :] = value
    return waveform


class TestNoVoice:
    """What a session answers, and what is written with exit 0 where nobody looks."""

    def render(self, waveform):
        vocoder = SimpleNamespace(arrays=True, run=lambda *_: waveform)
        step = next(step for step in STEPS if step.name == "vocoder")
        ones = np.ones((1, 2, 1, 2), np.float32)
        tensors = dict.fromkeys(VOCODER_INPUTS, ones) | {"asr": np.ones((1, 4, 6))}
        return step.run(SimpleNamespace(vocoder=vocoder), tensors)["waveform"]

    @pytest.mark.parametrize(
        ("waveform", "message"),
        [
            (pinned(np.nan, 600), "waveform holds 600 NaN or infinite values"),
            (pinned(1.0, 3600), "waveform holds 3600 equal samples at full scale"),
            (pinned(1.0, 1800), "waveform holds 1800 equal samples at full scale"),
            (pinned(-2.5, 1200), "waveform holds 1200 equal samples at full scale"),
            (NOISE[:-600], r"waveform has shape \[3000\], but 6 frames need \[3600\]"),
        ],
        ids=["NaN", "ones", "ones from the middle", "beyond full scale", "600 samples short"],
    )
    def test_is_refused(self, waveform, message):
        refused(message, self.render, waveform)

    @pytest.mark.parametrize(
        "waveform",
        [NOISE, pinned(0.0, 3600), pinned(1.0, 1199), np.clip(9 * NOISE, -1, 1)],
        ids=["noise", "silence", "a short run", "clipped noise"],
    )
    def test_what_may_be_a_voice_passes(self, waveform):
        assert np.array_equal(self.render(waveform), waveform)

    @pytest.mark.parametrize(
        ("f0_columns", "energy_columns", "name"), [(0, 12, "f0_hz"), (12, 11, "energy")]
    )
    def test_prosody_of_another_length_is_refused(self, f0_columns, energy_columns, name):
        outputs = [np.zeros((1, count), np.float32) for count in (f0_columns, energy_columns)]
        functions = SimpleNamespace(prosody=lambda *_: outputs)
        encoder = SimpleNamespace(functions=functions, arrays=True)
        step = next(step for step in ENCODER_STEPS if step.name == "prosody")
        tensors = dict.fromkeys(("frames", "style_prosody", "token_of_frame"), np.zeros(6))
        with refused(rf"{name} has shape .*, but 6 frames need \[1, 12\]"):
            step.run(SimpleNamespace(encoder=encoder), tensors)


SIGNALS = ["SIGINT", "SIGTERM"]
HEAD = """
import atexit, importlib, os, signal, sys, time
from pathlib import Path
from kokoro_ane import cli
from kokoro_ane.core.errors import run_cli
from kokoro_ane.core.staging import staged
def send(name): os.kill(os.getpid(), getattr(signal, name))
"""
# as a process's own command
TAIL = "raise SystemExit(run_cli(lambda _: main(sys.argv[1:]), None))"


def interrupted(place, body, *argv):
    """Run HEAD and `body` in a process of its own, which has to end with the one line; what it
    printed.
    """
    # what others were killed over is not cleared, and reported, here
    alone = os.environ | {"TMPDIR": str(place)}
    done = ran(sys.executable, "-c", HEAD + body, *argv, env=alone)
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
def test_pressed_twice_it_still_cleans_up(first, second, tmp_path):
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
def test_an_interrupt_that_a_library_swallows_is_one(which, tmp_path):
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


THREADS = """
from kokoro_ane.quantize.statistics import run_on_threads
def work(number):   # calibration: minutes for each half of the sentences
    number or send(sys.argv[1])
    time.sleep(60)
def main(argv):
    run_on_threads(work, range(3))
    print("it went on")
"""
SWALLOWED_LONG_BEFORE = """
def main(argv):
    with staged(Path(os.environ["TMPDIR"]) / "x.json") as aside:
        aside.write_text("half")
        try:
            send(argv[0])
        except: pass   # bare, as those of coremltools' conversion
        sys.stderr = open(os.devnull, "w")   # as while coremltools is kept quiet
        time.sleep(60)
        print("it went on")
"""
NATIVE = """
import hashlib, threading
def main(argv):
    threading.Timer(0.2, send, argv).start()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 400_000_000)   # minutes in C
    print("it went on")
"""


IMPORTING = """
cli.importlib = type("late", (), {"import_module": lambda _: send(sys.argv[1])})
raise SystemExit(cli.main(["speak", "hello"]))
"""


PLACES = {
    # Ctrl-C in `speak` came in soundfile's destructor: a traceback, and it would have spoken on
    "in a destructor": DESTRUCTOR + TAIL,
    "in a callback": CALLBACK + TAIL,
    # `quantize` waited for the threads of its calibration
    "while threads work": THREADS + TAIL,
    "in a bare except": SWALLOWED_LONG_BEFORE + TAIL,
    "in C code": NATIVE + TAIL,
    # SIGTERM had Python's own end until the verb's modules were there
    "while modules are imported": IMPORTING,
}


@pytest.mark.parametrize("which", SIGNALS)
@pytest.mark.parametrize("place", PLACES)
def test_an_interrupt_anywhere_is_one_line_and_not_forgotten(which, place, tmp_path):
    assert interrupted(tmp_path, PLACES[place], which) == ""
    assert not left_behind(tmp_path)
