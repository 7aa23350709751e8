"""The exceptions a user may cause, the exit codes, and the one place that turns the first into a
clear line and the second.

    @command
    def main(argv: list[str] | None = None) -> int: ...
"""

import errno
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import TypeVar, cast

from kokoro_ane.core.process import (
    INTERRUPTED,
    NO_ROOM,
    interrupted_before,
    interruptible,
    temporary_files_apart,
)
from kokoro_ane.core.streams import NO_MEMORY, lost, no_memory, silenced, with_streams
from kokoro_ane.core.streams import Parser as Parser  # of every command
from mlprogram.errors import one_line

OWN = ("kokoro_ane", "mlprogram", "training", "bench")  # a module of these that is missing is a bug
# in the middle of a file: Python does not say which
DISK_FAILED = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT)
# 3: undecided, or good and not releasable; core.commands.exit_of
EXIT_GOOD, EXIT_REJECTED, EXIT_BAD_INPUT, EXIT_UNDECIDED = 0, 1, 2, 3


class InputError(ValueError):
    """Bad input: the message says what was wrong, where, and what would be right."""


class UtteranceTooLong(InputError):
    """More phonemes or frames than one call of a model takes: what was asked for is good and has to
    be split.
    """


class CheckFailed(RuntimeError):
    """An artifact was built, executed, and missed a limit: it is thrown away, exit code 1."""


def run_cli(main: Callable[[list[str] | None], int], argv: list[str] | None) -> int:
    """Call `main(argv)`; a user's mistake becomes one line on stderr and exit 2, a missed limit
    exit 1.

    A file that cannot be read or written, a closed or full output, too little memory, and a Python
    without the dependencies are a user's mistake too. SIGTERM ends as Ctrl-C does; where `argv` is
    None the process ends with the command, and a second one ends it at once. The rest are bugs and
    keep their traceback.
    """
    try:
        with interruptible(last=argv is None):
            try:
                with temporary_files_apart():
                    code = with_streams(lambda: _code_of(main, argv))
                    interrupted_before()
                    return code
            except KeyboardInterrupt:
                pass
            # a second one is held off; what the exception kept alive, such as a progress bar, has
            # said its last
            return _interrupted()
    except KeyboardInterrupt:
        return _interrupted()


Main = TypeVar("Main", bound=Callable[..., int])


def command(main: Main) -> Main:
    """A function of argv as a command: called through run_cli."""

    @wraps(main)
    def called(argv: list[str] | None = None) -> int:
        return run_cli(main, argv)

    return cast(Main, called)


def _interrupted() -> int:
    print(f"error: {INTERRUPTED}", file=sys.stderr)
    return EXIT_BAD_INPUT


def _code_of(main: Callable[[list[str] | None], int], argv: list[str] | None) -> int:
    _any_character()
    try:
        return main(argv)
    except CheckFailed as problem:
        print(f"rejected: {one_line(str(problem))}", file=sys.stderr)
        return EXIT_REJECTED
    except (InputError, ImportError, OSError, MemoryError, RuntimeError) as problem:
        line = _line(problem)
        if line is None:
            raise
        print(f"error: {one_line(line)}", file=sys.stderr)
        return EXIT_BAD_INPUT


def _line(problem: Exception) -> str | None:
    """What to tell the user; None for a bug."""
    if isinstance(problem, InputError):
        return str(problem)
    if no_memory(problem):
        return NO_MEMORY
    if isinstance(problem, ModuleNotFoundError):
        is_project_module = (problem.name or "").split(".")[0] in OWN
        return (
            None
            if is_project_module
            else f"{problem} in {sys.executable}: run `make venv`, then `. .venv/bin/activate`"
        )
    # a tree that could not be copied: (from, to, why) of each file
    if isinstance(problem, shutil.Error):
        first = problem.args[0][0] if problem.args and problem.args[0] else ("", "output", "")
        return f"cannot write {first[1]}: {first[2]}; nothing was left half-written"
    if isinstance(problem, BrokenPipeError):
        silenced()
        return lost(problem)
    # A full disk, a quota, a read-only file system: what to do is in the system's own words.
    if isinstance(problem, OSError) and problem.errno in NO_ROOM:
        return (
            f"cannot write {problem.filename or 'output'}: {problem.strerror}; nothing was left"
            " half-written"
        )
    if isinstance(problem, OSError) and problem.errno in DISK_FAILED and problem.filename is None:
        return f"a file could not be read or written: {problem.strerror}"
    if isinstance(problem, OSError) and problem.filename is not None:
        return f"cannot use {str(problem.filename)[:200]}: {problem.strerror}"
    return None


def _any_character() -> None:
    """A terminal that knows only ASCII gets \\u0259 for a schwa, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", None) == "strict":
            with suppress(AttributeError, ValueError):
                # a stream put in its place may lack it
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
