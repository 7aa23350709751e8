"""The resources of one process: temporary files, which go when it ends or is interrupted, and with
the next command where it was killed; locks; and signals.

    with scratch() as folder:  # TMPDIR/kokoro-ane-UID-x
        (folder / "x").touch()
    with temporary_files_apart():  # of a whole command, those of its libraries too
        run(arguments)
"""

import errno
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType

# errors of a disk that takes no more
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
LOCK, SCRATCH = "owner.lock", f"kokoro-ane-{os.getuid()}-"
INTERRUPTED, INTERRUPTED_CODE = "interrupted; nothing was left half-written", 2
GRACE_S = 1.0  # for a command to clean up


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
    clean_at_interrupt(partial(remove_claimed, folder))
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
    """Handler of SIGINT and SIGTERM. Responsibilities: 1. raise KeyboardInterrupt once, so that a
    command cleans up; 2. of a process of its own, end it where it still runs GRACE_S later.
    """

    def __init__(self) -> None:
        self.has_come = False
        self.cleanups: list[Callable[[], None]] = []
        self.ended = threading.Event()

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt at the first signal: a second one would end the cleaning up."""
        has_come, self.has_come = self.has_come, True
        if not has_come:
            raise KeyboardInterrupt

    def end_late(self, numbers: Collection[int], pipe: int) -> None:
        """Wait for one of these signals, whose numbers Python writes into the pipe, then for the
        command to end; where it does not, clean up and end the process here.
        """
        with open(pipe, "rb", buffering=0) as signals:
            while number := signals.read(1):
                if number[0] in numbers and not self.ended.wait(GRACE_S):
                    for clean in self.cleanups:
                        clean()
                    end_interrupted()


def end_interrupted() -> None:
    """Say the line of an interrupted command and end the process, without waiting for threads or
    for PyTorch's own end, which takes seconds.
    """
    # not sys.stderr: where the main thread has not come back, a library's words may be held there
    with suppress(OSError):
        os.write(2, f"error: {INTERRUPTED}\n".encode())
    os._exit(INTERRUPTED_CODE)


def show_unraisable(unraised: "sys.UnraisableHookArgs") -> None:
    """Show an exception in a destructor or in a C library's callback, unless it is an interrupt."""
    if not issubclass(unraised.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraised)


def _interrupt() -> Interrupt | None:
    handler = signal.getsignal(signal.SIGTERM)
    return handler if isinstance(handler, Interrupt) else None


def clean_at_interrupt(clean: Callable[[], None]) -> None:
    """Have `clean` called where a signal ends the process from outside the main thread."""
    if interrupt := _interrupt():
        interrupt.cleanups.append(clean)


def interrupted_before() -> None:
    """Raise KeyboardInterrupt where one was raised and a library swallowed it: what it made since
    is not to be trusted.
    """
    interrupt = _interrupt()
    if interrupt and interrupt.has_come:
        raise KeyboardInterrupt


def has_limited_addresses() -> bool:
    """Return whether the process may use some addresses only (`ulimit -v`); never on Windows."""
    try:
        import resource
    except ImportError:
        return False
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


@contextmanager
def interruptible(last: bool = False) -> Iterator[None]:
    """SIGTERM is KeyboardInterrupt as Ctrl-C is, since cleaning up takes an exception; pressed
    twice, it does not break the cleaning up.

    `last`: the process ends after this, soon after a signal in any case: coremltools swallows
    exceptions of any kind, and no exception reaches C code in the main thread.
    """
    usual = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    changed = {
        number: before for number, before in usual.items() if signal.getsignal(number) is before
    }
    if not changed or threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupt, hook = Interrupt(), sys.unraisablehook
    sys.unraisablehook = show_unraisable
    with ExitStack() as held:
        for number, before in changed.items():
            held.callback(signal.signal, number, before)
            signal.signal(number, interrupt)
        held.callback(setattr, sys, "unraisablehook", hook)
        # A thread reserves 70 MB of addresses. Where those are counted, OpenBLAS then finds no room
        # for its own and tries for ever; the handlers alone have to do.
        if last and not has_limited_addresses():
            reader, writer = os.pipe()
            os.set_blocking(writer, False)
            held.callback(os.close, writer)
            held.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(writer))
            held.callback(interrupt.ended.set)
            threading.Thread(
                target=interrupt.end_late, args=(set(changed), reader), daemon=True
            ).start()
        yield
