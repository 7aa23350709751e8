"""Write aside, then rename: a folder or file appears under its own name only when it is complete,
and nobody else's is ever replaced.

    with staged(Path("build/x.json")) as aside:  # a file
        aside.write_text("{}")
    # a folder: the old one goes only if `vectors_of_ours` says nothing
    with staged(Path("build/vectors"), vectors_of_ours) as aside:
        aside.mkdir()

What is written stands in PARENT/.staged-*/new until then. Killed at any point, the next command
that writes to PARENT puts back what was moved away, removes the rest, and says so. No link is
written through: core.staging.check_output follows one that the user named.
"""

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_ane.core.data_files import conform
from kokoro_ane.core.errors import CheckFailed, InputError
from kokoro_ane.core.process import (
    LOCK,
    NO_ROOM,
    claimed,
    interrupted_before,
    left_behind,
    removed,
)
from kokoro_ane.core.replaceable import needed
from mlprogram import files
from mlprogram.errors import ProgramError

Reason = Callable[[Path], str | None]  # why a folder or file is not one of ours, or None
PROBE_BYTES = 1 << 16
# of any file that a checkpoint, a package or a bundle holds: more is not read to be hashed
LARGEST_BYTES = 1 << 32
PREFIX = ".staged-"  # of folders that core.staging writes in
NOT_COUNTED = (".DS_Store",)  # the Finder's


@dataclass(frozen=True)
class OwnFile:
    """Of a file, not a folder: why an old one is not the command's own."""

    reason: Reason


Ours = Reason | OwnFile


def json_of(*keys: str) -> OwnFile:
    """Our own is a JSON object with these keys."""

    def reason(path: Path) -> str | None:
        with suppress(ProgramError):
            data = files.read_json(path)
            if isinstance(data, dict) and data.keys() >= set(keys):
                return None
        return f"it is no JSON object with {' and '.join(keys)}, so not one of ours"

    return OwnFile(reason)


def bytes_of(mark: bytes) -> OwnFile:
    """Our own holds these bytes."""
    return OwnFile(
        lambda path: None if mark in path.read_bytes() else "it was not written by this command"
    )


def check_output(
    target: Path,
    ours: Ours | None = None,
    suffixes: Collection[str] = (),
    given: argparse.Namespace | None = None,
) -> Path:
    """The path that will be written, of a name that the user typed: `target`, or what it is a link
    to. `given`: all that was typed.

    Raises InputError: see the module, and core/replaceable.py.
    """
    if suffixes and target.suffix.lower() not in suffixes:
        raise InputError(
            f"{target} ends in {target.suffix or 'nothing'!r}: the output is"
            f" {' or '.join(suffixes)}"
        )
    with cannot_write(target):
        place = Path(os.path.realpath(target)) if target.is_symlink() else target
        if place.is_symlink():
            raise InputError(f"cannot write {target}: the link leads round in a circle")
        why = needed(place, vars(given) if given else {}, ours is None)
        if why:
            raise InputError(f"{target} is not replaced: {why}. Name another file")
    return check_implied(place, ours)


def check_implied(target: Path, ours: Ours | None = None) -> Path:
    """`target`, a name that the user did not type. Raises InputError for a link too."""
    with cannot_write(target):
        real = Path(os.path.realpath(target))  # raises for what can be no name
        if target.is_symlink():
            raise InputError(
                f"cannot write {target}: it is a link, which is followed only where it is named"
            )
        _check_replaceable(target, ours)
        folder = next(parent for parent in real.parents if os.path.lexists(parent))
        if not folder.is_dir():
            raise InputError(f"cannot write {target}: {folder} is a file, not a folder")
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(PROBE_BYTES))
    return target


def _check_replaceable(place: Path, ours: Ours | None) -> None:
    file, reason = ours is None or isinstance(ours, OwnFile), None
    try:
        # one look: between two, another process may have put its folder there
        status = place.stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISDIR(status.st_mode):
        if ours is None or isinstance(ours, OwnFile):
            raise InputError(f"{place} is a folder: name a file in it")
        reason = _reason(place, ours)
    elif not stat.S_ISREG(status.st_mode):
        raise InputError(f"cannot write {place}: it is a device, a pipe or a socket")
    elif not file:
        raise InputError(f"{place} is a file: a folder is written there")
    elif isinstance(ours, OwnFile) and status.st_size:
        reason = ours.reason(place)
    if reason:
        raise InputError(
            f"{place} is not replaced: {reason}. Name another {'file' if file else 'folder'}, or"
            " remove this one yourself"
        )


def _reason(place: Path, ours: Reason) -> str | None:
    """Why a folder is not ours; asked again when another process has replaced it in the
    meantime.
    """
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
    """What tells a file or folder from the one that took its place; None where nothing is. With its
    time: inodes are used again.
    """
    try:
        status = place.stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


def strangers(folder: Path, own: Collection[str]) -> str | None:
    """Why a folder is not ours alone: the first file in it that is not in `own` (relative names),
    or None.
    """
    # not rglob: a folder in it may go meanwhile
    found = [Path(parent) / name for parent, _, names in os.walk(folder) for name in names]
    for path in sorted(found):
        name = path.relative_to(folder).as_posix()
        inner = [folder / above for above in path.relative_to(folder).parents]
        half_written = any(
            above.name.startswith(PREFIX) and (above / LOCK).is_file() for above in inner
        )
        if (
            not path.is_dir()
            and name not in own
            and path.name not in NOT_COUNTED
            and not half_written
        ):
            return f"it holds {name}, which was not written by this command"
    return None


@contextmanager
def cannot_write(target: Path) -> Iterator[None]:
    """An OSError of writing there (no room, no rights, too long a name, a null byte) becomes an
    InputError.
    """
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError) as problem:
        place = str(target)[:200].replace("\0", "\\0")
        raise InputError(
            f"cannot write {place}: {getattr(problem, 'strerror', None) or problem}"
        ) from None


NEW, OLD, PLAN = "new", "old", "plan.json"


@contextmanager
def staged(target: Path, ours: Ours | None = None) -> Iterator[Path]:
    """Give a path to write to; on success it replaces `target`, on any error it is removed and
    `target` is untouched.

    `ours`: says why a folder that is already there is not one of ours (None: it is, and may be
    replaced), or is an OwnFile. Without it `target` is a file, of which any may be replaced.
    """
    with staged_together((target, ours)) as (aside,):
        yield aside


@contextmanager
def staged_together(*targets: tuple[Path, Ours | None]) -> Iterator[tuple[Path, ...]]:
    """As `staged` for several in one folder, the last one named last: all of them are replaced, or
    none.
    """
    # before they are checked: what comes meanwhile is checked again
    seen = [identity(target) for target, _ in targets]
    places = tuple(check_implied(target, ours) for target, ours in targets)
    parent = places[0].parent
    # by this call, if it makes any; the inmost first
    made = [above for above in (parent, *parent.parents) if not above.exists()]
    with cannot_write(places[0]):
        parent.mkdir(parents=True, exist_ok=True)
        recover(parent)
        folder, release = claimed(parent, PREFIX)
    try:
        (folder / NEW).mkdir()
        yield tuple(folder / NEW / place.name for place in places)
        interrupted_before()
        _rights_by_umask(folder)
        with _alone_in(parent):
            for place, before, (_, ours) in zip(places, seen, targets, strict=True):
                if identity(place) != before:
                    check_implied(place, ours)  # somebody else's has come to stand there
            try:
                _named(folder, places)
            except BaseException:
                _roll_back(folder)
                raise
    except (OSError, RuntimeError) as problem:
        if _has_no_room(problem, folder):
            why = getattr(problem, "strerror", None) or "no room is left there"
            raise InputError(
                f"cannot write {places[-1]}: {why}; nothing was left half-written"
            ) from problem
        raise
    finally:
        # interrupted once more while it was put back: the next command does that
        if not (folder / PLAN).exists():
            removed(folder)
        release()
        with suppress(OSError):  # the first that holds something stays, and those that it stands in
            for above in made:
                above.rmdir()


def discard(folder: Path) -> None:
    """Remove a folder of ours: gone from its name at once, so that a killed process never leaves
    half of it there.
    """
    place, release = claimed(folder.parent, PREFIX)
    try:
        folder.rename(place / OLD)
    finally:
        removed(place)
        release()


def _has_no_room(problem: OSError | RuntimeError, folder: Path) -> bool:
    """Whether that came from a full disk, or a quota: some libraries say OSError without a number,
    or RuntimeError.
    """
    number, file = getattr(problem, "errno", None), getattr(problem, "filename", None)
    if isinstance(problem, shutil.Error):  # a tree that could not be copied: texts
        return any(os.strerror(number) in str(problem) for number in NO_ROOM)
    if number is not None:
        return number in NO_ROOM and (file is None or str(file).startswith(str(folder)))
    return not isinstance(problem, CheckFailed) and shutil.disk_usage(folder).free < PROBE_BYTES


@contextmanager
def _alone_in(parent: Path) -> Iterator[None]:
    """One process at a time gives names in a folder: a package and its manifest are of the same
    build.

    flock on the folder itself, where filelock (core/kokoro_int8/cache.py) would leave a file of its
    own among the user's.
    """
    with ExitStack() as held:
        # a folder that may not be read, a file system without locks on folders
        with suppress(OSError):
            number = os.open(parent, os.O_RDONLY)
            held.callback(os.close, number)
            fcntl.flock(number, fcntl.LOCK_EX)
        yield


def _named(folder: Path, places: tuple[Path, ...]) -> None:
    """Give what is in new/ its names. A single file is one rename; else what was there is kept in
    old/ until all have their names.
    """
    if len(places) == 1 and not (folder / NEW / places[0].name).is_dir():
        (folder / NEW / places[0].name).replace(places[0])
        return
    (folder / OLD).mkdir()
    for place in places:
        if place.is_file():
            shutil.copy2(place, folder / OLD / place.name)
    plan = {place.name: (folder / NEW / place.name).lstat().st_ino for place in places}
    (folder / f"{PLAN}.new").write_text(json.dumps(plan), encoding="utf-8")
    (folder / f"{PLAN}.new").replace(folder / PLAN)  # from here on a killed run is put back
    for place in places:
        if place.is_dir():  # rename does not replace a full folder
            place.rename(folder / OLD / place.name)
        (folder / NEW / place.name).replace(place)
    (folder / PLAN).unlink()  # and from here on it is not: what is left may go in any order


def _roll_back(folder: Path) -> list[str]:
    """Put back what `_named` had moved away, and take away what it had named; the names of what was
    put back.

    Raises InputError, and touches nothing, for a plan that `_named` cannot have written.
    """
    if not os.path.lexists(folder / PLAN):
        return []
    back = []
    for name, made in _plan_of(folder).items():
        place, new, old = folder.parent / name, folder / NEW / name, folder / OLD / name
        if os.path.lexists(place) and place.lstat().st_ino == made:  # it had its name already
            place.rename(new)
        if os.path.lexists(old):
            if not os.path.lexists(place):
                old.replace(place)
            back.append(name)
    (folder / PLAN).unlink()
    return back


def _plan_of(folder: Path) -> dict[str, int]:
    """What `_named` gives names to, and the inode of each: what stands there otherwise is somebody
    else's.
    """
    if any((folder / part).is_symlink() for part in (PLAN, NEW, OLD)):
        raise InputError(f"{PLAN}, {NEW} or {OLD} in it is a link")
    plan: dict[str, int] = read_json(folder / PLAN, "it was there just now")
    conform(plan, dict[str, int], PLAN)
    for name, made in plan.items():
        place, old = folder.parent / name, folder / OLD / name
        if (
            Path(name).name != name
            or name == ".."
            or "\0" in name
            or name.startswith(PREFIX)
            or old.is_symlink()
        ):
            raise InputError(f"its {PLAN} names {name[:80]!r}, which no run of ours writes")
        in_the_way = (
            os.path.lexists(place)
            and place.lstat().st_ino != made
            and not os.path.lexists(folder / NEW / name)
        )
        if in_the_way and os.path.lexists(old):
            raise InputError(f"{place} is neither what it made nor what it moved away")
    return plan


def there(path: Path) -> bool:
    """Whether a file stands there, once what killed processes left beside it is put back: a reader
    sees what a writer would.
    """
    recover(path.parent)
    return path.is_file()


def recover(parent: Path) -> None:
    """Finish what killed processes left in `parent`: old packages come back, half-written things
    go; a line on stderr for each.

    What no run of ours left there is not touched.
    """
    for folder in sorted(parent.glob(f"{PREFIX}*")):
        with suppress(OSError, ValueError):  # gone meanwhile, or not ours to touch
            held = left_behind(folder)
            if held is None:
                continue  # its owner lives
            try:
                with _alone_in(parent):
                    back = _roll_back(folder)
                removed(folder)
            except InputError as problem:
                print(f"{folder} is left alone: {problem}; remove it yourself", file=sys.stderr)
                continue
            finally:
                os.close(held)
            told = f"{', '.join(back)} put back" if back else "half-written files removed"
            print(f"{parent}: an earlier run was killed: {told}", file=sys.stderr)


def _rights_by_umask(folder: Path) -> None:
    """Give all of new/ the rights that a plain open and mkdir would: coremltools' files are 0600,
    its folders 0700.
    """
    file, inner = folder / "rights", folder / "rights.d"
    file.touch()
    inner.mkdir()
    file_mode, folder_mode = file.stat().st_mode & 0o777, inner.stat().st_mode & 0o777
    for path in (folder / NEW).rglob("*"):
        if not path.is_symlink():
            path.chmod(folder_mode if path.is_dir() else file_mode)


def read_json(path: Path, missing: str, again: str = "") -> Any:
    """Parsed JSON. InputError says `missing` when there is no such file, and `again` after what is
    wrong with one that is not JSON.

    Limits: those of mlprogram.files.parse_json, and its MAX_TEXT_BYTES.
    """
    try:
        if not path.is_file():
            raise InputError(
                f"{path} does not exist: {missing}"
                if not path.exists()
                else f"{path} is not a file: {missing}"
            )
        text = files.read_text(path)
    except ProgramError as problem:
        raise InputError(f"{problem}{again}") from None
    except (OSError, ValueError) as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError(
            f"cannot read {path}: {getattr(problem, 'strerror', None) or problem}"
        ) from None
    return parse_json(text, str(path), again)


def parse_json(
    text: str,
    where: str,
    again: str = "",
    pairs: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """JSON from text that nobody vouches for; `where` names it in the InputError. `pairs`: instead
    of a dict, from its pairs.
    """
    try:
        return files.parse_json(text, where, pairs)
    except ProgramError as problem:
        raise InputError(f"{problem}{again}") from None


def write_json(path: Path, data: Any, ours: OwnFile | None = None) -> None:
    """Write sorted, indented JSON by rename."""
    with staged(path, ours) as aside:
        aside.write_text(
            json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8"
        )


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, hexadecimal. Raises InputError for anything that is not one, a pipe for
    one, and for more than LARGEST_BYTES.
    """
    if not path.is_file():
        raise InputError(f"{path} {'is not a file' if os.path.lexists(path) else 'does not exist'}")
    if (size := path.stat().st_size) > LARGEST_BYTES:
        raise InputError(
            f"{path} has {size} bytes: no file of a checkpoint, package or bundle has more than"
            f" {LARGEST_BYTES}"
        )
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
