"""What goes with a process: temporary files, removed when it ends or is interrupted and by the next
command where it was killed; locks; and its signals.

    with scratch() as folder:  # TMPDIR/kokoro-ane-UID-x
        (folder / "x").touch()
    with temporary_files_apart():  # of a whole command, those of its libraries too
        run(arguments)
"""

import errno
import math
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType

# how a disk says that it takes no more
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
LOCK, SCRATCH = "owner.lock", f"kokoro-ane-{os.getuid()}-"
INTERRUPTED, INTERRUPTED_CODE = "interrupted; nothing was left half-written", 2
ONCE_S = 1.0  # a second signal within this time is the same impatience
AGAIN_S = 0.05  # after which one that was swallowed comes again


def claimed(parent: Path, prefix: str) -> tuple[Path, Callable[[], None]]:
    """A new folder in `parent`, and what gives its lock back. The lock says that the owner lives: a
    killed one's is free.
    """
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        with suppress(FileNotFoundError):  # another process took the empty folder for a leftover
            held = locked(folder / LOCK, os.O_RDWR | os.O_CREAT)
            if held is not None:
                return folder, partial(os.close, held)


def removed(folder: Path) -> None:
    """The lock goes last: a folder without one is empty, whenever its owner was killed."""
    with suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != LOCK:
                path.unlink()
        (folder / LOCK).unlink()
        folder.rmdir()


def locked(path: Path, flags: int = os.O_RDWR) -> int | None:
    """The open lock file, or None where another process holds it, or has removed it since it was
    opened.
    """
    import fcntl  # late: only what writes needs it

    number = os.open(path, flags, 0o600)
    with suppress(BlockingIOError):
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(number).st_nlink:
            return number
    os.close(number)
    return None


@contextmanager
def alone_in(parent: Path) -> Iterator[None]:
    """One process at a time gives names in a folder: a package and its manifest are of the same
    build.

    flock on the folder itself: a lock file would stand among the user's.
    """
    import fcntl  # late: only what writes needs it

    with ExitStack() as held:
        # a folder that may not be read, a file system without locks on folders
        with suppress(OSError):
            number = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
            held.callback(os.close, number)
            fcntl.flock(number, fcntl.LOCK_EX)
        yield


def left_behind(folder: Path) -> int | None:
    """The lock of a folder whose owner was killed, now held. None: it is no such folder, its owner
    lives, or it was empty and is gone.
    """
    if folder.is_symlink() or not folder.is_dir():
        return None
    if (folder / LOCK).is_file() and not (folder / LOCK).lstat().st_size:  # ours is empty
        return locked(folder / LOCK)
    with suppress(OSError):
        # empty: killed before it had a lock, or about to get one, which then takes another folder
        folder.rmdir()
    return None


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder for what only this process needs, where temporary files go; those of killed
    processes are removed. Raises OSError where none can be made.
    """
    parent = Path(tempfile.gettempdir())
    for left in sorted(parent.glob(f"{SCRATCH}*")):
        with suppress(OSError):
            lock = left_behind(left)
            if lock is not None:
                removed(left)
                os.close(lock)
                print(f"{left} removed: an earlier run was killed", file=sys.stderr)
    folder, release = claimed(parent, SCRATCH)
    try:
        yield folder
    finally:
        removed(folder)
        release()


@contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """Temporary files of libraries go there until the block ends, so that they are removed with it:
    coremltools' copies of packages.
    """
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


@contextmanager
def temporary_files_apart() -> Iterator[None]:
    """Put temporary files of a whole command in a scratch folder. Where none can be made, a
    command that needs none still runs.
    """
    with ExitStack() as held:
        with suppress(OSError, ImportError):
            if not Path(tempfile.gettempdir()).name.startswith(SCRATCH):
                held.enter_context(temporary_files_in(held.enter_context(scratch())))
        yield


class Interrupt:
    """Handler of SIGINT and SIGTERM, and of the KeyboardInterrupt that nobody can catch."""

    def __init__(self) -> None:
        self.number, self.last_s = 0, -math.inf  # the last signal, and when it came
        self.again = threading.Timer(0.0, int)

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt, but once in ONCE_S."""
        before_s, self.number, self.last_s = self.last_s, number, time.monotonic()
        if self.last_s - before_s >= ONCE_S:
            raise KeyboardInterrupt

    def unraisable(self, unraised: "sys.UnraisableHookArgs") -> None:
        """Send the signal again where its exception was swallowed, in a destructor or in a C
        library's callback; show every other exception.
        """
        if not issubclass(unraised.exc_type, KeyboardInterrupt):
            sys.__unraisablehook__(unraised)
            return
        self.last_s = -math.inf
        main = threading.main_thread().ident
        self.again = threading.Timer(AGAIN_S, signal.pthread_kill, (main, self.number))
        self.again.daemon = True
        self.again.start()


def _at_once(_number: int, _frame: FrameType | None) -> None:
    """All is cleaned up and told; what Python still does or waits for is not."""
    os._exit(INTERRUPTED_CODE)


def interrupted_before() -> None:
    """Raise KeyboardInterrupt where one was raised and a library's callback swallowed it: what it
    made since is not to be trusted.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if isinstance(handler, Interrupt) and handler.number:
        raise KeyboardInterrupt


@contextmanager
def interruptible(last: bool = False) -> Iterator[None]:
    """SIGTERM is KeyboardInterrupt as Ctrl-C is, since cleaning up takes an exception; pressed
    twice, it does not break the cleaning up.

    `last`: the process ends after this; once interrupted, another signal ends it at once, with the
    same exit code.
    """
    usual = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    changed = {
        number: before for number, before in usual.items() if signal.getsignal(number) is before
    }
    if not changed or threading.current_thread() is not threading.main_thread():
        yield
        return
    # A KeyboardInterrupt in a destructor or a callback is swallowed: the hook sees that.
    interrupt, hook = Interrupt(), sys.unraisablehook
    sys.unraisablehook = interrupt.unraisable
    try:
        for number in changed:
            signal.signal(number, interrupt)
        yield
    finally:
        interrupt.again.cancel()
        sys.unraisablehook = hook
        for number, before in changed.items():
            signal.signal(number, _at_once if last and interrupt.number else before)
