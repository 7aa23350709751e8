"""Write aside, then rename: a folder or file appears under its own name only when it is complete, and nobody else's is ever replaced.

with staged(Path("build/x.json")) as aside:                     # a file
    aside.write_text("{}")
with staged(Path("build/vectors"), vectors_of_ours) as aside:   # a folder: the old one goes only if `vectors_of_ours` says nothing
    aside.mkdir()

What is written stands in PARENT/.staged-*/new until then. Killed at any point, the next command that writes to PARENT puts back what was
moved away, removes the rest, and says so.
"""

import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.output import PREFIX, Ours, cannot_write, check_output, identity

LOCK, NEW, OLD, PLAN, SCRATCH = "owner.lock", "new", "old", "plan.json", "kokoro-ane"
MAX_JSON_BYTES, MAX_INTEGER_DIGITS = 100_000_000, 30


@contextmanager
def staged(target: Path, ours: Ours | None = None) -> Iterator[Path]:
    """Give a path to write to; on success it replaces `target`, on any error it is removed and `target` is untouched.

    `ours`: says why a folder that is already there is not one of ours (None: it is, and may be replaced). Without it `target` is a file.
    """
    with staged_together((target, ours)) as (aside,):
        yield aside


@contextmanager
def staged_together(*targets: tuple[Path, Ours | None]) -> Iterator[tuple[Path, ...]]:
    """As `staged` for several in one folder, the last one named last: all of them are replaced, or none."""
    places = tuple(check_output(target, ours) for target, ours in targets)
    parent = places[0].parent
    with cannot_write(places[0]):
        parent.mkdir(parents=True, exist_ok=True)
        recover(parent)
        folder, release = _claimed(parent)
    try:
        (folder / NEW).mkdir()
        seen = [identity(place) for place in places]
        yield tuple(folder / NEW / place.name for place in places)
        _rights_by_umask(folder)
        with _alone_in(parent):
            for place, before, (_, ours) in zip(places, seen, targets, strict=True):
                if identity(place) != before:
                    check_output(place, ours)  # somebody else's has come to stand there
            try:
                _named(folder, places)
            except BaseException:
                _roll_back(folder)
                raise
    finally:
        _removed(folder)
        release()


def discard(folder: Path) -> None:
    """Remove a folder of ours: gone from its name at once, so that a killed process never leaves half of it there."""
    place, release = _claimed(folder.parent)
    try:
        folder.rename(place / OLD)
    finally:
        _removed(place)
        release()


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for what only this process needs, where temporary files go. What killed processes left there is removed."""
    parent = Path(tempfile.gettempdir()) / f"{SCRATCH}-{os.getuid()}"
    with cannot_write(parent):
        parent.mkdir(mode=0o700, exist_ok=True)
        if parent.is_symlink() or parent.stat().st_uid != os.getuid():
            raise InputError(f"{parent} is not a folder of yours: remove it, or choose another TMPDIR")
        recover(parent)
        folder, release = _claimed(parent)
    try:
        yield folder
    finally:
        _removed(folder)
        release()


@contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """Temporary files of libraries go there until the block ends, so that they are removed with it: coremltools' copies of packages."""
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _claimed(parent: Path) -> tuple[Path, Callable[[], None]]:
    """A new folder in `parent`, and what gives its lock back. The lock says that the owner lives: a killed one's is free."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        with suppress(FileNotFoundError):  # another process took the empty folder for a leftover
            held = _locked(folder / LOCK, os.O_RDWR | os.O_CREAT)
            if held is not None:
                return folder, partial(os.close, held)


def _removed(folder: Path) -> None:
    """The lock goes last: a folder without one is empty, whenever its owner was killed."""
    with suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != LOCK:
                path.unlink()
        (folder / LOCK).unlink()
        folder.rmdir()


def _locked(path: Path, flags: int = os.O_RDWR) -> int | None:
    """The open lock file, or None where another process holds it, or has removed it since it was opened."""
    number = os.open(path, flags, 0o600)
    with suppress(BlockingIOError):
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(number).st_nlink:
            return number
    os.close(number)
    return None


@contextmanager
def _alone_in(parent: Path) -> Iterator[None]:
    """One process at a time gives names in a folder: a package and its manifest are of the same build."""
    with ExitStack() as held:
        with suppress(OSError):  # a folder that may not be read, a file system without locks on folders
            number = os.open(parent, os.O_RDONLY)
            held.callback(os.close, number)
            fcntl.flock(number, fcntl.LOCK_EX)
        yield


def _named(folder: Path, places: tuple[Path, ...]) -> None:
    """Give what is in new/ its names. A single file is one rename; else what was there is kept in old/ until all have their names."""
    if len(places) == 1 and not (folder / NEW / places[0].name).is_dir():
        (folder / NEW / places[0].name).replace(places[0])
        return
    (folder / OLD).mkdir()
    for place in places:
        if place.is_file():
            shutil.copy2(place, folder / OLD / place.name)
    (folder / f"{PLAN}.new").write_text(json.dumps([place.name for place in places]), encoding="utf-8")
    (folder / f"{PLAN}.new").replace(folder / PLAN)  # from here on a killed run is put back
    for place in places:
        if place.is_dir():  # rename does not replace a full folder
            place.rename(folder / OLD / place.name)
        (folder / NEW / place.name).replace(place)
    (folder / PLAN).unlink()  # and from here on it is not: what is left may go in any order


def _roll_back(folder: Path) -> list[str]:
    """Put back what `_named` had moved away, and take away what stands in its place; the names of what was put back."""
    if not (folder / PLAN).is_file():
        return []
    back = []
    for name in json.loads((folder / PLAN).read_text(encoding="utf-8")):
        place, new, old = folder.parent / name, folder / NEW / name, folder / OLD / name
        if place.exists() and not new.exists():  # it had its name already
            place.rename(new)
        if old.exists():
            old.replace(place)
            back.append(name)
    (folder / PLAN).unlink()
    return back


def recover(parent: Path) -> None:
    """Finish what killed processes left in `parent`: old packages come back, half-written things go; a line on stderr for each."""
    for folder in sorted(parent.glob(f"{PREFIX}*")):
        if folder.is_symlink() or not folder.is_dir():
            continue
        if not (folder / LOCK).is_file():
            with suppress(OSError):
                folder.rmdir()  # empty: killed before it had a lock, or about to get one, which then takes another folder
            continue
        with suppress(OSError, ValueError):  # gone meanwhile, or not ours to touch
            held = _locked(folder / LOCK)
            if held is None:
                continue  # its owner lives
            try:
                with _alone_in(parent):
                    back = _roll_back(folder)
                _removed(folder)
            finally:
                os.close(held)
            told = f"{', '.join(back)} put back" if back else "half-written files removed"
            print(f"{parent}: an earlier run was killed: {told}", file=sys.stderr)


def _rights_by_umask(folder: Path) -> None:
    """Give all of new/ the rights that a plain open and mkdir would: coremltools' files are 0600, its folders 0700."""
    file, inner = folder / "rights", folder / "rights.d"
    file.touch()
    inner.mkdir()
    file_mode, folder_mode = file.stat().st_mode & 0o777, inner.stat().st_mode & 0o777
    for path in (folder / NEW).rglob("*"):
        if not path.is_symlink():
            path.chmod(folder_mode if path.is_dir() else file_mode)


def read_json(path: Path, missing: str, again: str = "") -> Any:
    """Parsed JSON. InputError says `missing` when there is no such file, and `again` after what is wrong with one that is not JSON.

    Limits: MAX_JSON_BYTES, MAX_INTEGER_DIGITS, and the depth that Python parses.
    """
    try:
        if not path.is_file():
            raise InputError(f"{path} does not exist: {missing}" if not path.exists() else f"{path} is not a file: {missing}")
        if path.stat().st_size > MAX_JSON_BYTES:
            raise InputError(f"{path} has {path.stat().st_size} bytes, more than {MAX_JSON_BYTES}{again}")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        raise InputError(f"{path} is not JSON: {problem}{again}") from None
    except (OSError, ValueError) as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError(f"cannot read {path}: {getattr(problem, 'strerror', None) or problem}") from None
    return parse_json(text, str(path), again)


def parse_json(text: str, where: str, again: str = "") -> Any:
    """JSON from text that nobody vouches for; `where` names it in the InputError."""
    try:
        return json.loads(text, parse_int=_integer)
    except RecursionError:
        raise InputError(f"{where} is not JSON that can be read: brackets nested too deep{again}") from None
    except ValueError as problem:
        raise InputError(f"{where} is not JSON: {str(problem)[:200]}{again}") from None


def _integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def write_json(path: Path, data: Any) -> None:
    """Write sorted, indented JSON by rename."""
    with staged(path) as aside:
        aside.write_text(json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, hexadecimal. Raises InputError for anything that is not one: a folder, a pipe that would never end."""
    if not path.is_file():
        raise InputError(f"{path} {'is not a file' if os.path.lexists(path) else 'does not exist'}")
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
