"""A folder that one process at a time writes: its lock is in it, and another process says who holds it, and waits.

lock, new = held(Path("book.wav.parts"), "settings.json", settings, journal_of_ours)
...
os.close(lock)
"""

import fcntl
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.output import Ours, check_output
from core.staging import staged, write_json
from mlprogram.scratch import LOCK

PROCESS_DIGITS = 10


class _Taken(InputError):
    """Another process has made the folder meanwhile."""


def held(folder: Path, marker: str, content: Any, ours: Ours) -> tuple[int, bool]:
    """The folder's lock, held, and whether the folder is new: made with its marker and lock, so never there without them.

    Raises InputError for a folder that is not one of `ours`.
    """
    while True:
        if not (folder / marker).is_file():
            lock = _made(folder, marker, content, ours)
            if lock is not None:
                return lock, True
        check_output(folder, ours)
        lock = _waited_for(folder)
        if lock is not None:
            return lock, False


def _made(folder: Path, marker: str, content: Any, ours: Ours) -> int | None:
    """None where another process was faster."""

    def free(place: Path) -> str | None:
        if (place / marker).is_file():
            raise _Taken
        return ours(place)

    lock = None
    try:
        with staged(folder, free) as aside:
            aside.mkdir()
            write_json(aside / marker, content)
            lock = os.open(aside / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
            _mine(lock)
        return lock
    except BaseException as problem:
        if lock is not None:
            os.close(lock)
        if isinstance(problem, _Taken):
            return None
        raise


def _waited_for(folder: Path) -> int | None:
    """None where its owner has removed the folder."""
    with suppress(FileNotFoundError):
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            _mine(lock, folder)
            if os.path.samestat(os.fstat(lock), (folder / LOCK).stat()):
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
    return None


def _mine(lock: int, folder: Path | None = None) -> None:
    """Hold it, after whoever holds it now, and write down who does."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(lock, PROCESS_DIGITS, 0).decode(errors="replace")
        print(f"{folder}: process {owner} writes this output: waiting until it has ended", file=sys.stderr, flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
