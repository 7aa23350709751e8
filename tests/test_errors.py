"""What a user may cause is one line and an exit code; what is a bug keeps its traceback."""

import errno
from collections.abc import Callable

import pytest

from core.errors import CheckFailed, InputError, run_cli


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
        (KeyboardInterrupt(), 2, "error: interrupted; nothing was left half-written"),
    ],
)
def test_one_line_and_a_code(problem: BaseException, code: int, line: str, capsys: pytest.CaptureFixture) -> None:
    assert run_cli(raising(problem), None) == code
    assert capsys.readouterr().err == line + "\n"


def test_a_python_without_the_dependencies(capsys: pytest.CaptureFixture) -> None:
    assert run_cli(raising(ModuleNotFoundError("No module named 'torch'", name="torch")), None) == 2
    assert "run `make venv`, then `. .venv/bin/activate`" in capsys.readouterr().err


@pytest.mark.parametrize("bug", [ValueError("x"), ModuleNotFoundError("x", name="vocoder.nothing"), OSError(errno.ENOENT, "x")])
def test_bugs_keep_their_traceback(bug: Exception) -> None:
    with pytest.raises(type(bug)):
        run_cli(raising(bug), None)
