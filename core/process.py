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
LOCK, SCRATCH = "owner.lock", "kokoro-ane"
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

    flock on the folder itself, where filelock (core/kokoro_int8/cache.py) would leave a file of its
    own among the user's.
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
    """A folder for what only this process needs, where temporary files go. Raises OSError where
    none can be made.
    """
    parent, prefix = Path(tempfile.gettempdir()), _prefix()
    if sum(cleared(left) for left in sorted(parent.glob(f"{prefix}*"))):
        print(f"{parent}: an earlier run was killed: its temporary files removed", file=sys.stderr)
    folder, release = claimed(parent, prefix)
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
            if not Path(tempfile.gettempdir()).name.startswith(_prefix()):
                held.enter_context(temporary_files_in(held.enter_context(scratch())))
        yield


class Interrupt:
    """Handler of both signals, and of what becomes of the exception where nobody can catch it."""

    def __init__(self) -> None:
        self.last_s, self.swallowed = -math.inf, False
        self.again = threading.Timer(0.0, int)  # before the first signal

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt, but once in ONCE_S, or once more where it was swallowed."""
        before_s, self.last_s = self.last_s, time.monotonic()
        self.again = threading.Timer(
            AGAIN_S, signal.pthread_kill, (threading.main_thread().ident, number)
        )
        if self.swallowed or self.last_s - before_s >= ONCE_S:
            self.swallowed = False
            raise KeyboardInterrupt

    def unraisable(
        self,
        unraised: "sys.UnraisableHookArgs",
        otherwise: Callable[["sys.UnraisableHookArgs"], object],
    ) -> None:
        """It came while a destructor or a C library's callback ran, and was swallowed there: no
        traceback, and the signal comes again.
        """
        if not issubclass(unraised.exc_type, KeyboardInterrupt):
            otherwise(unraised)
        elif not self.again.is_alive():
            self.swallowed, self.again.daemon = True, True
            self.again.start()

    def done(self) -> None:
        """The command has ended: it comes no more."""
        self.again.cancel()
        self.swallowed = False


def _at_once(_number: int, _frame: FrameType | None) -> None:
    """All is cleaned up and told; what Python still does or waits for is not."""
    os._exit(INTERRUPTED_CODE)


def interrupted_before() -> None:
    """Raise KeyboardInterrupt where one was raised and a library's callback swallowed it: what it
    made since is not to be trusted.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if isinstance(handler, Interrupt) and handler.last_s > -math.inf:
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
    sys.unraisablehook = partial(interrupt.unraisable, otherwise=hook)
    try:
        for number in changed:
            signal.signal(number, interrupt)
        yield
    finally:
        interrupt.done()
        sys.unraisablehook = hook
        for number, before in changed.items():
            signal.signal(number, _at_once if last and interrupt.last_s > -math.inf else before)


def _prefix() -> str:
    return f"{SCRATCH}-{os.getuid() if hasattr(os, 'getuid') else 0}-"


def cleared(left: Path) -> bool:
    """Remove a folder of `claimed` whose owner was killed; whether it was one."""
    with suppress(OSError):
        held = left_behind(left) if left.lstat().st_uid == os.getuid() else None
        if held is not None:
            removed(left)
            os.close(held)
            return True
    return False
