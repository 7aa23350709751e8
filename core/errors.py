"""The exceptions a user may cause, the exit codes, and how every command begins and ends: its
parser, its standard streams, and one clear line for what went wrong.

    @command
    def main(argv: list[str] | None = None) -> int: ...
"""

import argparse
import errno
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

from kokoro_ane.core.process import (
    INTERRUPTED,
    NO_ROOM,
    interrupted_before,
    interruptible,
    temporary_files_apart,
)
from mlprogram.errors import one_line

# a missing module of these packages is a bug, any other one is not installed
OWN_PACKAGES = ("kokoro_ane", "mlprogram", "training", "bench")
# errors in the middle of a file, of which Python does not give the name
DISK_FAILED = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT)
# 3: undecided, or good and not releasable; core.commands.exit_of
EXIT_GOOD, EXIT_REJECTED, EXIT_BAD_INPUT, EXIT_UNDECIDED = 0, 1, 2, 3
# errors of a standard output that takes no more
LOST = (errno.EPIPE, errno.EBADF, errno.EIO, *NO_ROOM)
NO_MEMORY = "there is not enough memory for this input"
OUT_OF_MEMORY_WORDS = (
    "failed to map segment",
    "annot allocate memory",
    "can't allocate memory",
    "could not create a primitive",
    "bad_alloc",
)


class InputError(ValueError):
    """Bad input: the message says what was wrong, where, and what would be right."""


class UtteranceTooLong(InputError):
    """More phonemes or frames than one call of a model takes: the input is valid and has to be
    split.
    """


class CheckFailed(RuntimeError):
    """An artifact was built, executed, and missed a limit: it is thrown away, exit code 1."""


class Parser(argparse.ArgumentParser):
    """A usage error is one line; help that cannot be written is an error; every command has
    --json (core.commands.conclude). The description: the first paragraph of `doc`, None with -OO.
    """

    def __init__(self, prog: str | None = None, doc: str | None = None, **more: Any) -> None:
        # A command whose --json names a file (`ane`) replaces the flag.
        about = " ".join((doc or "").partition("\n\n")[0].split())
        usual = {"description": about, "conflict_handler": "resolve"}
        super().__init__(prog=prog, **(usual | more))
        self.add_argument(
            "--json",
            action="store_true",
            default=argparse.SUPPRESS,
            help="end stdout with one JSON object on a terminal too, as a pipe gets it",
        )

    def error(self, message: str) -> NoReturn:
        """Print the message and where help is, and exit."""
        self.exit(
            EXIT_BAD_INPUT,
            "error: " + one_line(f"{message} (`{self.prog} --help` lists what there is)") + "\n",
        )

    def _print_message(self, message: str, file: Any = None) -> None:
        (file or sys.stderr).write(message)


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
    """Decorate a function of argv that is a command: it is called through run_cli."""

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
    """Return the line that the user reads, or None for a bug."""
    if isinstance(problem, InputError):
        return str(problem)
    if no_memory(problem):
        return NO_MEMORY
    if isinstance(problem, ModuleNotFoundError):
        is_project_module = (problem.name or "").split(".")[0] in OWN_PACKAGES
        return (
            None
            if is_project_module
            else f"{problem} in {sys.executable}: run `make venv`, then `. .venv/bin/activate`"
        )
    # a tree that could not be copied: (from, to, why) of each file
    if isinstance(problem, shutil.Error):
        _, place, reason = problem.args[0][0]
        return f"cannot write {place}: {reason}; nothing was left half-written"
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


def with_streams(command: Callable[[], int]) -> int:
    """Return what a command returns. Where standard output is closed, full, or not read to its end:
    one line on stderr, and EXIT_BAD_INPUT.
    """
    # A closed input is empty, and what is printed to a closed stderr is lost.
    if sys.stdin is None:
        # open as long as the process
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    reason, is_reported = (
        "standard output is closed: where nobody reads it, give `>/dev/null`",
        False,
    )
    if sys.stdout is not None and not sys.stdout.closed:
        try:
            try:
                code = command()
                is_reported = code == EXIT_BAD_INPUT
            finally:
                sys.stdout.flush()  # help too, after which argparse ends the process
            return code
        except (SystemExit, OSError) as ended:
            # rich ends the process where the reader of its output went away
            problem = ended.__context__ if isinstance(ended, SystemExit) else ended
            if not isinstance(problem, OSError) or problem.errno not in LOST or problem.filename:
                raise
            reason = f"cannot write output: {problem.strerror}; nothing was left half-written"
            if isinstance(problem, BrokenPipeError):
                reason = "the reader of the output went away"
        # Python would complain once more when it ends: what is still to be written goes nowhere.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not is_reported:
        print(f"error: {reason}", file=sys.stderr)
    return EXIT_BAD_INPUT


def no_memory(problem: BaseException) -> bool:
    """Return whether too little memory was the reason, while a library was loaded or ran; each
    library has its own words for it.
    """
    is_reported = isinstance(problem, ImportError | RuntimeError) and any(
        words in str(problem) for words in OUT_OF_MEMORY_WORDS
    )
    return is_reported or isinstance(problem, MemoryError)
