"""The resources of one process: folders that it works in, temporary ones among them, which go when
it ends or is interrupted, and with the next command where it was killed; and signals.

    with hold_folder(Path("out/.staged-x.wav")) as folder:  # one process at a time
        (folder / "x").touch()
    with scratch() as folder:  # TMPDIR/kokoro-ane-UID-x
        (folder / "x").touch()
    with separate_temporary_files():  # of a whole command, those of its libraries too
        run(arguments)
"""

import errno
import gc
import itertools
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType

# errors of a disk that takes no more
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
LOCK = "owner.lock"
SCRATCH = f"kokoro-ane-{os.getuid()}-"
INTERRUPTED, INTERRUPTED_CODE = "interrupted; nothing was left half-written", 2
GRACE_S = 1.0  # for a command to clean up
AGAIN_S = 0.1  # how often a waiting process tries a lock


def claim(folder: Path) -> int:
    """Return the open lock of a folder, which is made where it is missing. Waits for a process that
    has the lock; a lock that is held means that the owner lives.
    """
    for attempt in itertools.count():
        # the owner removes the folder when it has ended, perhaps between two lines here
        with suppress(FileNotFoundError, FileExistsError):
            folder.mkdir(parents=True, exist_ok=True)
            lock = try_lock(folder)
            # None also means that the owner removed the folder meanwhile: then it is made anew.
            if lock is not None:
                return lock
        # At the second attempt: a wait of a tenth of a second is not worth a line.
        if attempt == 1:
            line = f"{folder}: another process writes this output: waiting until it has ended"
            print(line, file=sys.stderr, flush=True)
        time.sleep(AGAIN_S)
    raise AssertionError("there is no last attempt")


def try_lock(folder: Path) -> int | None:
    """Return the open lock file of a folder, or None where another process holds it, or has removed
    it since it was opened.
    """
    import fcntl  # late: only what writes needs it

    # O_NOFOLLOW: in a folder for all, a link could lead to somebody's file.
    number = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with suppress(BlockingIOError):
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A lock file without a name is that of a folder that was removed: its lock keeps nobody
        # out.
        if os.fstat(number).st_nlink:
            return number
    os.close(number)
    return None


@contextmanager
def hold_folder(folder: Path) -> Iterator[Path]:
    """Hold the lock of a folder, and remove the folder in the end."""
    lock = claim(folder)
    interrupt = _find_interrupt()
    clean = partial(shutil.rmtree, folder, ignore_errors=True)
    cleanups = interrupt.cleanups if interrupt else []
    cleanups.append(clean)
    try:
        yield folder
    finally:
        # Removed first, so that a late signal does not clean a second time.
        cleanups.remove(clean)
        clean()
        os.close(lock)


def take_leftovers(parent: Path, prefix: str) -> Iterator[Path]:
    """Give each claimed folder whose owner was killed, locked; then remove it and say so."""
    for folder in sorted(parent.glob(f"{prefix}*")):
        with suppress(OSError):  # gone meanwhile, or not ours to touch
            lock = None if folder.is_symlink() else try_lock(folder)
            if lock is not None:
                yield folder
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)
                print(f"{folder} removed: an earlier run was killed", file=sys.stderr)


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder among the temporary files that goes with this process; folders of killed
    processes are removed. Raises OSError where none can be made.
    """
    parent = Path(tempfile.gettempdir())
    for _ in take_leftovers(parent, SCRATCH):
        pass
    with hold_folder(Path(tempfile.mkdtemp(prefix=SCRATCH, dir=parent))) as folder:
        yield folder


@contextmanager
def put_temporary_files_in(folder: Path) -> Iterator[None]:
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
def separate_temporary_files() -> Iterator[None]:
    """Put temporary files of a whole command in a scratch folder. Where none can be made, a
    command that needs none still runs.
    """
    with ExitStack() as held:
        with suppress(OSError, ImportError):
            # Within a command another one may be called; one scratch folder is enough for both.
            if not Path(tempfile.gettempdir()).name.startswith(SCRATCH):
                held.enter_context(put_temporary_files_in(held.enter_context(scratch())))
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
            # An empty read means that the other end is closed: the command has ended.
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


def _find_interrupt() -> Interrupt | None:
    handler = signal.getsignal(signal.SIGTERM)
    return handler if isinstance(handler, Interrupt) else None


def raise_swallowed_interrupt() -> None:
    """Raise KeyboardInterrupt where one was raised and a library swallowed it: what it made since
    is not to be trusted.
    """
    interrupt = _find_interrupt()
    if interrupt and interrupt.has_come:
        raise KeyboardInterrupt


def has_limited_addresses() -> bool:
    """Return whether the process may use some addresses only (`ulimit -v`); never on Windows."""
    try:
        import resource
    except ImportError:
        return False
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def release_memory() -> None:
    """Give back to the system what was freed. glibc keeps it for the threads that used it: 9 GB of
    10.7 after the fits of a search.
    """
    import ctypes  # late: few commands need it

    gc.collect()
    # other systems' allocators have no such function, and give back by themselves
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)


@contextmanager
def handle_interrupts(last: bool = False) -> Iterator[None]:
    """SIGTERM is KeyboardInterrupt as Ctrl-C is, since cleaning up takes an exception; pressed
    twice, it does not break the cleaning up.

    `last`: the process ends after this, soon after a signal in any case: coremltools swallows
    exceptions of any kind, and no exception reaches C code in the main thread.
    """
    usual = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    # A handler that somebody else has set stays.
    changed = {
        number: before for number, before in usual.items() if signal.getsignal(number) is before
    }
    if not changed or threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupt = Interrupt()
    hook = sys.unraisablehook
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
            # Called in reverse: the thread is told, the handler of wake-ups goes, the pipe closes.
            held.callback(os.close, writer)
            held.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(writer))
            held.callback(interrupt.ended.set)
            threading.Thread(
                target=interrupt.end_late, args=(set(changed), reader), daemon=True
            ).start()
        yield
