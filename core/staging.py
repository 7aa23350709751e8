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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from core.errors import CheckFailed, InputError
from core.output import PREFIX, PROBE_BYTES, Ours, cannot_write, check_output, identity
from mlprogram import files
from mlprogram.errors import ProgramError
from mlprogram.files import NO_ROOM
from mlprogram.scratch import claimed, interrupted_before, left_behind, removed

NEW, OLD, PLAN = "new", "old", "plan.json"


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
    seen = [identity(target) for target, _ in targets]  # before they are checked: what comes meanwhile is checked again
    places = tuple(check_output(target, ours) for target, ours in targets)
    parent = places[0].parent
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
                    check_output(place, ours)  # somebody else's has come to stand there
            try:
                _named(folder, places)
            except BaseException:
                _roll_back(folder)
                raise
    except (OSError, RuntimeError) as problem:
        if _has_no_room(problem, folder):
            why = getattr(problem, "strerror", None) or "no room is left there"
            raise InputError(f"cannot write {places[-1]}: {why}; nothing was left half-written") from problem
        raise
    finally:
        if not (folder / PLAN).exists():  # interrupted once more while it was put back: the next command does that
            removed(folder)
        release()


def discard(folder: Path) -> None:
    """Remove a folder of ours: gone from its name at once, so that a killed process never leaves half of it there."""
    place, release = claimed(folder.parent, PREFIX)
    try:
        folder.rename(place / OLD)
    finally:
        removed(place)
        release()


def _has_no_room(problem: OSError | RuntimeError, folder: Path) -> bool:
    """Whether that came from a full disk, or a quota: some libraries say OSError without a number, or RuntimeError."""
    number, file = getattr(problem, "errno", None), getattr(problem, "filename", None)
    if isinstance(problem, shutil.Error):  # a tree that could not be copied: texts
        return any(os.strerror(number) in str(problem) for number in NO_ROOM)
    if number is not None:
        return number in NO_ROOM and (file is None or str(file).startswith(str(folder)))
    return not isinstance(problem, CheckFailed) and shutil.disk_usage(folder).free < PROBE_BYTES


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
        with suppress(OSError, ValueError):  # gone meanwhile, or not ours to touch
            held = left_behind(folder)
            if held is None:
                continue  # its owner lives
            try:
                with _alone_in(parent):
                    back = _roll_back(folder)
                removed(folder)
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

    Limits: those of mlprogram.files.parse_json, and its MAX_TEXT_BYTES.
    """
    try:
        if not path.is_file():
            raise InputError(f"{path} does not exist: {missing}" if not path.exists() else f"{path} is not a file: {missing}")
        text = files.read_text(path)
    except ProgramError as problem:
        raise InputError(f"{problem}{again}") from None
    except (OSError, ValueError) as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError(f"cannot read {path}: {getattr(problem, 'strerror', None) or problem}") from None
    return parse_json(text, str(path), again)


def parse_json(text: str, where: str, again: str = "", pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """JSON from text that nobody vouches for; `where` names it in the InputError. `pairs`: instead of a dict, from its pairs."""
    try:
        return files.parse_json(text, where, pairs)
    except ProgramError as problem:
        raise InputError(f"{problem}{again}") from None


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
