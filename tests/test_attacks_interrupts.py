"""What tests/kill.py found in interrupts: a named case each. Ctrl-C and SIGTERM end with one line, wherever they come."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_attacks_output import names

ROOT = Path(__file__).resolve().parents[1]
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
    """Run HEAD and `body` in a process of its own, which has to end with the one line; what it printed."""
    heeds = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731 - a background job's children ignore it
    alone = dict(os.environ) | {"TMPDIR": str(place)}  # what others were killed over is not cleared, and told, here
    command = [sys.executable, "-c", HEAD + body, *argv]
    done = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, check=False, preexec_fn=heeds)
    assert (done.returncode, done.stderr) == (2, "error: interrupted; nothing was left half-written\n")
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
    """SIGTERM came while soundfile called back for a stream of Python's: printed, ignored, exit 0, and whatever had been encoded."""
    (tmp_path / "x.json").write_text("old")
    interrupted(tmp_path, SWALLOWED + TAIL, which, str(tmp_path / "x.json"))
    assert (tmp_path / "x.json").read_text() == "old" and names(tmp_path) == ["x.json"]


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
def test_an_interrupt_in_a_destructor_is_one_line_and_not_forgotten(which: str, body: str, tmp_path: Path) -> None:
    """Ctrl-C in `speak` came in soundfile's destructor: a traceback before the line, and it would have spoken on to the end."""
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
