"""What tests/kill.py found in interrupts: a named case each. Ctrl-C and SIGTERM end with one line, wherever they come."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_attacks_output import names

ROOT = Path(__file__).resolve().parents[1]
IMPATIENT = """
import os, signal, sys, time
from core.errors import run_cli
def main(argv):
    try:
        os.kill(os.getpid(), getattr(signal, argv[0]))
        time.sleep(60)
    finally:
        os.kill(os.getpid(), getattr(signal, argv[-1]))  # while it cleans up
        print("cleaned up", flush=True)
raise SystemExit(run_cli(main, sys.argv[1:]))
"""


@pytest.mark.parametrize("first", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("second", ["SIGINT", "SIGTERM"])
def test_pressed_twice_it_still_cleans_up(first: str, second: str, tmp_path: Path) -> None:
    """The second one broke the cleaning up, and its traceback was what the user saw."""
    heeds = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731 - a background job's children ignore it
    command = [sys.executable, "-c", IMPATIENT, first, second]
    alone = dict(os.environ) | {"TMPDIR": str(tmp_path)}  # what others were killed over is not cleared, and told, here
    done = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, check=False, preexec_fn=heeds)
    assert (done.returncode, done.stdout) == (2, "cleaned up\n")
    assert done.stderr == "error: interrupted; nothing was left half-written\n"


SWALLOWED = """
import os, signal, sys
from pathlib import Path
from core.errors import run_cli
from core.staging import staged
def main(argv):
    with staged(Path(argv[0])) as aside:
        aside.write_text("half")
        try:
            os.kill(os.getpid(), getattr(signal, argv[1]))
        except BaseException: pass    # as a callback of a C library does
    return 0
raise SystemExit(run_cli(main, sys.argv[1:]))
"""


@pytest.mark.parametrize("which", ["SIGINT", "SIGTERM"])
def test_an_interrupt_that_a_library_swallows_is_one(which: str, tmp_path: Path) -> None:
    """SIGTERM came while soundfile called back for a stream of Python's: printed, ignored, exit 0, and whatever had been encoded."""
    heeds = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731 - a background job's children ignore it
    (tmp_path / "x.json").write_text("old")
    command = [sys.executable, "-c", SWALLOWED, str(tmp_path / "x.json"), which]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, preexec_fn=heeds)
    assert (done.returncode, done.stderr) == (2, "error: interrupted; nothing was left half-written\n")
    assert (tmp_path / "x.json").read_text() == "old" and names(tmp_path) == ["x.json"]


DESTROYED = """
import os, signal, sys, time
from core.errors import run_cli
class Destructor:
    def __del__(self):
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
        time.sleep(5)
def callback():
    import cffi
    ffi = cffi.FFI()
    @ffi.callback("int(int)")
    def called(number):
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
        time.sleep(5)
        return number
    called(1)
def main(argv):
    callback() if "callback" in sys.argv else Destructor()
    time.sleep(30)
    print("it went on")
    return 0
raise SystemExit(run_cli(main, sys.argv[1:]))
"""


@pytest.mark.parametrize("which", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("where", ["destructor", "callback"])
def test_an_interrupt_in_a_destructor_is_one_line_and_not_forgotten(which: str, where: str, tmp_path: Path) -> None:
    """Ctrl-C in `speak` came in soundfile's destructor: a traceback before the line, and it would have spoken on to the end."""
    done = _ended([sys.executable, "-c", DESTROYED, which, where], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "error: interrupted; nothing was left half-written\n")


AT_THE_END = """
import atexit, os, signal, sys, time
from core.errors import run_cli
def last():   # while Python ends, which takes half a second with torch, or as long as some thread
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    time.sleep(20)
    print("still here", flush=True)
atexit.register(last)
def main(argv):
    os.kill(os.getpid(), signal.SIGINT)
raise SystemExit(run_cli(main, None))
"""


@pytest.mark.parametrize("second", ["SIGINT", "SIGTERM"])
def test_a_second_one_while_python_ends_is_no_traceback(second: str, tmp_path: Path) -> None:
    done = _ended([sys.executable, "-c", AT_THE_END, second], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "error: interrupted; nothing was left half-written\n")


IMPORTING = """
import importlib, os, signal, sys
import kokoro_ane
importlib.import_module = lambda _: os.kill(os.getpid(), getattr(signal, sys.argv[1]))
raise SystemExit(kokoro_ane.main(["speak", "hello"]))
"""


@pytest.mark.parametrize("which", ["SIGINT", "SIGTERM"])
def test_while_modules_are_imported_it_is_one_line(which: str, tmp_path: Path) -> None:
    """SIGTERM had Python's own end until the verb's modules were there."""
    done = _ended([sys.executable, "-c", IMPORTING, which], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "error: interrupted; nothing was left half-written\n")


def _ended(command: list[str], place: Path) -> subprocess.CompletedProcess:
    heeds = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731 - a background job's children ignore it
    alone = dict(os.environ) | {"TMPDIR": str(place)}
    return subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, check=False, preexec_fn=heeds)
