"""The exceptions a user may cause, the exit codes, and how every command begins and ends: its
parser, its standard streams, and one clear line for what went wrong.

    @command
    def main(argv: list[str] | None = None) -> int: ...
"""

import argparse
import errno
import gc
import os
import shutil
import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

from kokoro_ane.core.extras import BASE, find_missing, format_install_line
from kokoro_ane.core.process import (
    INTERRUPTED,
    NO_ROOM,
    end_interrupted,
    handle_interrupts,
    raise_swallowed_interrupt,
    separate_temporary_files,
)

# the reader's own: its texts and ours fail alike
from kokoro_g2p import InputError as InputError
from kokoro_g2p import UtteranceTooLong as UtteranceTooLong

# a missing module of these packages is a bug, any other one is not installed
OWN_PACKAGES = ("kokoro_ane", "kokoro_g2p", "mlprogram", "training", "bench")
# errors in the middle of a file, of which Python does not give the name
DISK_FAILED = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT)
# 3: undecided, or good and not releasable; core.commands.exit_of
EXIT_GOOD, EXIT_REJECTED, EXIT_BAD_INPUT, EXIT_UNDECIDED = 0, 1, 2, 3
LONGEST_LINE = 1500  # of a message: a name of 100,000 characters is not repeated
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


_began: ContextVar[float | None] = ContextVar("began", default=None)


class CheckFailed(RuntimeError):
    """An artifact was built, executed, and missed a limit: it is thrown away, exit code 1."""


def require_installed(use: str, extra: str = BASE, modules: Collection[str] = ()) -> None:
    """Raise InputError that names all modules of an extra (core/extras.py), or of `modules`, that
    are missing, and the line that installs them.
    """
    if missing := find_missing(extra, modules):
        are = "is" if len(missing) == 1 else "are"
        raise InputError(
            f"{use} needs {', '.join(missing)}, which {are} not installed: run"
            f" `{format_install_line(missing)}`"
        )


class _HelpAll(argparse.Action):
    """--help-all of a Parser."""

    def __call__(self, parser: Any, *_: Any) -> None:
        """Print the help with the rare options, and end."""
        # With nothing rare left, format_help shows everything.
        parser.rare.clear()
        parser.print_help()
        parser.exit()


class Parser(argparse.ArgumentParser):
    """A usage error is one line; help that cannot be written is an error; every command has
    --json (core.commands.conclude). The description: the first paragraph of `doc`, None with -OO.
    """

    def __init__(self, prog: str | None = None, doc: str | None = None, **more: Any) -> None:
        # A command whose --json names a file (`ane`) replaces the flag.
        about = " ".join((doc or "").partition("\n\n")[0].split())
        usual = {"description": about, "conflict_handler": "resolve"}
        super().__init__(prog=prog, **(usual | more))
        self.rare: list[argparse.Action] = []  # what few people need
        self.add_argument("--help-all", action=_HelpAll, nargs=0, help=argparse.SUPPRESS)
        self._json = self.add_argument(
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

    def format_help(self) -> str:
        """What most people need; `--help-all` shows the rare options too."""
        if not self.rare:
            return super().format_help()
        shown = {action: action.help for action in (*self.rare, self._json)}
        for action in shown:
            action.help = argparse.SUPPRESS
        places = [action for action in self._get_positional_actions() if action not in shown]
        # the flags stand below
        self.usage = " ".join(
            ["%(prog)s [options]"]
            + [f"[{place.dest}]" if place.nargs == "?" else place.dest for place in places]
        )
        try:
            return super().format_help() + "\n--help-all shows all options\n"
        finally:
            # Suppressed texts come back, so that help can be asked for again.
            self.usage = None
            for action, text in shown.items():
                action.help = text

    def _print_message(self, message: str, file: Any = None) -> None:
        (file or sys.stderr).write(message)


def run_cli(main: Callable[[list[str] | None], int], argv: list[str] | None) -> int:
    """Call `main(argv)`; a user's mistake becomes one line on stderr and exit 2, a missed limit
    exit 1.

    A file that cannot be read or written, a closed or full output, too little memory, and a Python
    without the dependencies are a user's mistake too. SIGTERM ends as Ctrl-C does; where `argv` is
    None the process ends with the command, within about a second. The rest are bugs and keep their
    traceback.
    """
    token = _began.set(time.perf_counter())
    if argv is None:
        # PyTorch's import makes half a million objects and no garbage: looking at them seven
        # hundred at a time takes a tenth of a first sentence's processor time
        gc.set_threshold(10_000)
    try:
        with handle_interrupts(last=argv is None):
            try:
                with separate_temporary_files():
                    code = run_with_streams(lambda: _run(main, argv))
                    raise_swallowed_interrupt()
                    return code
            except KeyboardInterrupt:
                pass
            # a second one is held off; what the exception kept alive, such as a progress bar, has
            # said its last
            return _end_interrupted(argv is None)
    except KeyboardInterrupt:
        return _end_interrupted(argv is None)
    finally:
        _began.reset(token)
        if argv is None:
            gc.freeze()  # the process ends: its memory goes back whole, and is not searched again


def command_began() -> float:
    """When the command that runs was called, by time.perf_counter; now, where none runs."""
    return _began.get(None) or time.perf_counter()


def one_line(text: str) -> str:
    """Return `text` without characters that break a line or steer a terminal (they are written as
    escapes), LONGEST_LINE at most.
    """
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[: 2 * LONGEST_LINE])
    return text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE - 300]} ... {text[-290:]}"


Main = TypeVar("Main", bound=Callable[..., int])


def command(main: Main) -> Main:
    """Decorate a function of argv that is a command: it is called through run_cli."""

    @wraps(main)
    def called(argv: list[str] | None = None) -> int:
        return run_cli(main, argv)

    return cast(Main, called)


def _end_interrupted(last: bool) -> int:
    if last:
        end_interrupted()
    print(f"error: {INTERRUPTED}", file=sys.stderr)
    return EXIT_BAD_INPUT


def _run(main: Callable[[list[str] | None], int], argv: list[str] | None) -> int:
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
    if is_out_of_memory(problem):
        return NO_MEMORY
    if isinstance(problem, ModuleNotFoundError):
        # What is installed bears the name of the outermost package.
        module = (problem.name or "").partition(".")[0].replace("-", "_")
        # mlprogram as a whole comes with an extra; a module of it does not
        if module in OWN_PACKAGES and problem.name != "mlprogram":
            return None
        return f"{problem} in {sys.executable}: run `{format_install_line([module])}`"
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


def run_with_streams(command: Callable[[], int]) -> int:
    """Return what a command returns. Where standard output is closed, full, or not read to its end:
    one line on stderr, and EXIT_BAD_INPUT.
    """
    # A closed input is empty, and what is printed to a closed stderr is lost.
    if sys.stdin is None:
        # open as long as the process
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    reason = "standard output is closed: where nobody reads it, give `>/dev/null`"
    is_reported = False
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


def is_out_of_memory(problem: BaseException) -> bool:
    """Return whether too little memory was the reason, while a library was loaded or ran; each
    library has its own words for it.
    """
    is_reported = isinstance(problem, ImportError | RuntimeError) and any(
        words in str(problem) for words in OUT_OF_MEMORY_WORDS
    )
    return is_reported or isinstance(problem, MemoryError)
