"""What a user may cause is one line and an exit code; what is a bug keeps its traceback."""

import errno
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator

import pytest

from kokoro_ane.core.errors import CheckFailed, InputError, run_cli


def raising(problem: BaseException) -> Callable[[list[str] | None], int]:
    def main(_argv: list[str] | None) -> int:
        raise problem

    return main


@pytest.mark.parametrize(
    ("problem", "code", "line"),
    [
        (InputError("no such voice"), 2, "error: no such voice"),
        (CheckFailed("SNR is 3 dB"), 1, "rejected: SNR is 3 dB"),
        (OSError(errno.ENOSPC, "No space left", "x.bin"), 2, "error: cannot write x.bin: No space left; nothing was left half-written"),
        (OSError(errno.EACCES, "Permission denied", "in.txt"), 2, "error: cannot use in.txt: Permission denied"),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "x.pth"), 2, "error: cannot use x.pth: Is a directory"),
        (shutil.Error([("a", "b", "No space left")]), 2, "error: cannot write b: No space left; nothing was left half-written"),
        (MemoryError(), 2, "error: there is not enough memory for this input"),
        (KeyboardInterrupt(), 2, "error: interrupted; nothing was left half-written"),
    ],
)
def test_one_line_and_a_code(problem: BaseException, code: int, line: str, capsys: pytest.CaptureFixture) -> None:
    assert run_cli(raising(problem), None) == code
    assert capsys.readouterr().err == line + "\n"


def test_a_python_without_the_dependencies(capsys: pytest.CaptureFixture) -> None:
    assert run_cli(raising(ModuleNotFoundError("No module named 'torch'", name="torch")), None) == 2
    assert "run `make venv`, then `. .venv/bin/activate`" in capsys.readouterr().err


@pytest.mark.parametrize("bug", [ValueError("x"), ModuleNotFoundError("x", name="kokoro_ane.vocoder.nothing"), OSError(errno.ENOENT, "x")])
def test_bugs_keep_their_traceback(bug: Exception) -> None:
    with pytest.raises(type(bug)):
        run_cli(raising(bug), None)


def test_the_line_is_the_last_one(capsys: pytest.CaptureFixture) -> None:
    """A progress bar lived as long as the exception that had gone through it, and wrote an empty line after the error."""

    def bar() -> Iterator[None]:
        try:
            yield
        finally:
            print("the bar has gone", file=sys.stderr)

    def main(_argv: list[str] | None) -> int:
        shown = bar()  # a local, which the traceback keeps alive
        for _ in shown:
            raise KeyboardInterrupt
        return 0

    assert run_cli(main, []) == 2
    assert capsys.readouterr().err == "the bar has gone\nerror: interrupted; nothing was left half-written\n"


def killed(left: list[str]) -> Callable[[list[str] | None], int]:
    """A command that gets SIGTERM and has something to clean up."""

    def main(_argv: list[str] | None) -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            return 0
        finally:
            left.append("cleaned up")

    return main


def test_sigterm_cleans_up_as_an_interruption(capsys: pytest.CaptureFixture) -> None:
    left, of_the_tests = [], signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        assert run_cli(killed(left), []) == 2 and left == ["cleaned up"]
        assert "interrupted" in capsys.readouterr().err
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, of_the_tests)


def test_sigterm_of_the_tests_themselves_is_no_interruption() -> None:
    """`timeout` ends the session (tests/conftest.py); it does not make the test in work fail."""
    left: list[str] = []
    with pytest.raises(pytest.exit.Exception):
        run_cli(killed(left), None)
    assert left == ["cleaned up"]
