"""Where a command may write: checked before any work is done, with one line that says what is in the way.

check_output(Path("hello.wav"))                           # a file: an old one is replaced, anything else is refused
check_output(Path("build/vectors"), vectors_of_ours)      # a folder: replaced only when it is one of ours of the same kind
"""

import os
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from core.errors import InputError

Ours = Callable[[Path], str | None]  # why a folder is not one of ours, or None
PROBE_BYTES = 1 << 16
PREFIX = ".staged-"  # of folders that core.staging writes in
NOT_COUNTED = (".DS_Store",)  # the Finder's


def check_output(target: Path, ours: Ours | None = None, suffixes: Collection[str] = ()) -> Path:
    """The path that will be written: `target`, or what it is a link to. Raises InputError: see the module."""
    if suffixes and target.suffix.lower() not in suffixes:
        raise InputError(f"{target} ends in {target.suffix or 'nothing'!r}: the output is {' or '.join(suffixes)}")
    with cannot_write(target):
        place = Path(os.path.realpath(target))
        if place.is_symlink():
            raise InputError(f"cannot write {target}: the link leads round in a circle")
        _check_replaceable(place, ours)
        folder = next(parent for parent in place.parents if os.path.lexists(parent))
        if not folder.is_dir():
            raise InputError(f"cannot write {target}: {folder} is a file, not a folder")
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(PROBE_BYTES))
    return place


def _check_replaceable(place: Path, ours: Ours | None) -> None:
    if place.is_dir():
        if ours is None:
            raise InputError(f"{place} is a folder: name a file in it")
        reason = _reason(place, ours)
        if reason:
            raise InputError(f"{place} is not replaced: {reason}. Name another folder, or remove this one yourself")
    elif place.exists():
        if not place.is_file():
            raise InputError(f"cannot write {place}: it is a device, a pipe or a socket")
        if ours is not None:
            raise InputError(f"{place} is a file: a folder is written there")


def _reason(place: Path, ours: Ours) -> str | None:
    """Why a folder is not ours; asked again when another process has replaced it in the meantime."""
    while (found := identity(place)) is not None:
        try:
            reason = ours(place) if any(place.iterdir()) else None
        except FileNotFoundError:
            if identity(place) == found:
                raise
            continue
        if reason is None or identity(place) == found:
            return reason
    return None


def identity(place: Path) -> tuple[int, int, int] | None:
    """What tells a file or folder from the one that took its place; None where nothing is. With its time: inodes are used again."""
    try:
        status = place.stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


def strangers(folder: Path, own: Collection[str]) -> str | None:
    """Why a folder is not ours alone: the first file in it that is not in `own` (relative names), or None."""
    found = [Path(parent) / name for parent, _, names in os.walk(folder) for name in names]  # not rglob: a folder in it may go meanwhile
    for path in sorted(found):
        name = path.relative_to(folder).as_posix()
        half_written = any(part.startswith(PREFIX) for part in name.split("/"))
        if not path.is_dir() and name not in own and path.name not in NOT_COUNTED and not half_written:
            return f"it holds {name}, which was not written by this command"
    return None


@contextmanager
def cannot_write(target: Path) -> Iterator[None]:
    """An OSError of writing there (no room, no rights, too long a name, a null byte) becomes an InputError."""
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError) as problem:
        place = str(target)[:200].replace("\0", "\\0")
        raise InputError(f"cannot write {place}: {getattr(problem, 'strerror', None) or problem}") from None
