"""The resources of one process: temporary files, which go when it ends or is interrupted, and with
the next command where it was killed; locks; and signals.

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

# errors of a disk that takes no more
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
LOCK, SCRATCH = "owner.lock", f"kokoro-ane-{os.getuid()}-"
INTERRUPTED, INTERRUPTED_CODE = "interrupted; nothing was left half-written", 2
ONCE_S = 1.0  # a second signal within this time does not count
AGAIN_S = 0.05  # a signal whose exception was swallowed is sent again after this time


def claim_folder(parent: Path, prefix: str) -> tuple[Path, Callable[[], None]]:
    """Return a new folder in `parent`, and a function that releases its lock. A lock that is held
    means that the owner lives.
    """
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        with suppress(FileNotFoundError):  # another process took the empty folder for a leftover
            held = try_lock(folder / LOCK, os.O_RDWR | os.O_CREAT)
            if held is not None:
                return folder, partial(os.close, held)


def remove_claimed(folder: Path) -> None:
    """Remove a claimed folder, its lock last: a folder without a lock is empty, at whatever point
    its owner was killed.
    """
    with suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != LOCK:
                path.unlink()
        (folder / LOCK).unlink()
        folder.rmdir()


def try_lock(path: Path, flags: int = os.O_RDWR) -> int | None:
    """Return the open lock file, or None where another process holds it, or has removed it since it
    was opened.
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
def folder_lock(parent: Path) -> Iterator[None]:
    """Hold the lock of a folder in which names are given, so that a package and its manifest come
    from the same build. The folder itself is locked: a lock file would stand among the user's.
    """
    import fcntl  # late: only what writes needs it

    with ExitStack() as held:
        # a folder that may not be read, a file system without locks on folders
        with suppress(OSError):
            number = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
            held.callback(os.close, number)
            fcntl.flock(number, fcntl.LOCK_EX)
        yield


def lock_of_killed(folder: Path) -> int | None:
    """Return the lock, now held, of a claimed folder whose owner was killed; None where it is no
    such folder, where its owner lives, and where it was empty and has been removed.
    """
    if folder.is_symlink() or not folder.is_dir():
        return None
    if (folder / LOCK).is_file() and not (folder / LOCK).lstat().st_size:  # ours is empty
        return try_lock(folder / LOCK)
    with suppress(OSError):
        # empty: killed before it had a lock, or about to get one, which then takes another folder
        folder.rmdir()
    return None


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder among the temporary files that goes with this process; folders of killed
    processes are removed. Raises OSError where none can be made.
    """
    parent = Path(tempfile.gettempdir())
    for left in sorted(parent.glob(f"{SCRATCH}*")):
        with suppress(OSError):
            lock = lock_of_killed(left)
            if lock is not None:
                remove_claimed(left)
                os.close(lock)
                print(f"{left} removed: an earlier run was killed", file=sys.stderr)
    folder, release = claim_folder(parent, SCRATCH)
    try:
        yield folder
    finally:
        remove_claimed(folder)
        release()


@contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """Put temporary files of libraries, such as coremltools' copies of packages, into `folder`
    until the block ends.
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
    """End the process: everything is cleaned up and reported, and Python may wait for threads."""
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
