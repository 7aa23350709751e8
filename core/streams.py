"""How every command begins and ends: its parser, its standard streams, and what cannot be had told
in one line.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from kokoro_ane.core.process import NO_ROOM
from mlprogram.errors import EXIT_BAD_INPUT, one_line

# how standard output says that it takes no more
LOST = (errno.EPIPE, errno.EBADF, errno.EIO, *NO_ROOM)
NO_MEMORY = "there is not enough memory for this input"
SAID_OF_MEMORY = (
    "failed to map segment",
    "annot allocate memory",
    "can't allocate memory",
    "could not create a primitive",
    "bad_alloc",
)


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
        """Say it, and where help is."""
        self.exit(
            EXIT_BAD_INPUT,
            "error: " + one_line(f"{message} (`{self.prog} --help` lists what there is)") + "\n",
        )

    def _print_message(self, message: str, file: Any = None) -> None:
        (file or sys.stderr).write(message)


def with_streams(command: Callable[[], int]) -> int:
    """What a command gives. Where standard output is closed, full, or not read to its end: one line
    on stderr, and EXIT_BAD_INPUT.
    """
    why, reported = _not_open(), False
    if why is None:
        try:
            try:
                code = command()
                reported = code == EXIT_BAD_INPUT
            finally:
                sys.stdout.flush()  # help too, after which argparse ends the process
            return code
        except SystemExit as ended:  # what rich makes of a reader that went away
            if not isinstance(ended.__context__, BrokenPipeError):
                raise
            why = lost(ended.__context__)
        except OSError as problem:
            if problem.filename is not None or problem.errno not in LOST:
                raise
            why = lost(problem)
        # One line has been said, or is said below; Python would add its own at the end.
        silenced()
        if reported:
            return EXIT_BAD_INPUT
    print(f"error: {why}", file=sys.stderr)
    return EXIT_BAD_INPUT


def lost(problem: OSError) -> str:
    """What to tell of an output that takes no more."""
    if isinstance(problem, BrokenPipeError):
        return "the reader of the output went away"
    return f"cannot write output: {problem.strerror}; nothing was left half-written"


def silenced() -> None:
    """What is still to be written goes nowhere: Python would complain once more when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _not_open() -> str | None:
    """Why standard output takes nothing, None where it does. A closed input is empty, and what is
    said to a closed stderr is lost.
    """
    if sys.stdin is None:
        # open as long as the process
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    closed = sys.stdout is None or sys.stdout.closed
    # no POSIX, or a stream put in its place
    with contextlib.suppress(ImportError, OSError, ValueError, AttributeError):
        import fcntl

        closed = (
            closed or fcntl.fcntl(sys.stdout.fileno(), fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        )
    return (
        "standard output is closed, or open for reading only: where nobody reads it, give"
        " `>/dev/null`"
        if closed
        else None
    )


def no_memory(problem: BaseException) -> bool:
    """Whether that came of too little memory, while a library was loaded or ran: each says it in
    its own way.
    """
    is_reported = isinstance(problem, ImportError | RuntimeError) and any(
        words in str(problem) for words in SAID_OF_MEMORY
    )
    return is_reported or isinstance(problem, MemoryError)
