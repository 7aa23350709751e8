"""Write aside, then rename: a folder or file appears under its own name only when it is complete,
and nobody else's is ever replaced.

    with staged(Path("build/x.json")) as aside:  # a file
        aside.write_text("{}")
    # a folder: the old one goes only if `vectors_of_ours` says nothing
    with staged(Path("build/vectors"), vectors_of_ours) as aside:
        aside.mkdir()

What is written stands in PARENT/.staged-kokoro-ane-NAME/new until then, for one process at a time:
a second one onto the same name waits. To give several names at once, what stood there moves to
old/, and each of new/ to its place. A run that is killed leaves that folder: the next command that
reads or writes in PARENT puts all of new/, or else all of old/, in its place, removes the rest, and
says so. It only ever fills a place where nothing stands. No link is written through: check_output
follows one that the user named.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_ane.core.data_files import MAX_TEXT_BYTES, read_json
from kokoro_ane.core.errors import CheckFailed, InputError
from kokoro_ane.core.process import NO_ROOM, hold_folder, raise_swallowed_interrupt, take_leftovers
from kokoro_g2p import json_text

# returns why a folder or file is not this project's, or None
Reason = Callable[[Path], str | None]
PROBE_BYTES = 1 << 16
PREFIX = ".staged-kokoro-ane-"  # of folders that core.staging writes in
PACKAGES = (".mlpackage", ".mlmodelc")
WEIGHTS = (".pth", ".pt", ".safetensors")
SUMS = "SHA256SUMS"


@dataclass(frozen=True)
class OwnFile:
    """A target that is a file: `reason` says why an old one is not the command's own."""

    reason: Reason


Ours = Reason | OwnFile


def json_of(*keys: str) -> OwnFile:
    """Return the rule of a file of the project that is a JSON object with these keys."""

    def reason(path: Path) -> str | None:
        with suppress(InputError):
            data = read_json(path, "")
            if isinstance(data, dict) and data.keys() >= set(keys):
                return None
        return f"it is no JSON object with {' and '.join(keys)}, so not one of ours"

    return OwnFile(reason)


def bytes_of(mark: bytes) -> OwnFile:
    """Return the rule of a file of the project that holds these bytes."""
    return OwnFile(
        lambda path: None if mark in path.read_bytes() else "it was not written by this command"
    )


def check_output(
    target: Path,
    ours: Ours | None = None,
    suffixes: Collection[str] = (),
    arguments: object = None,
) -> Path:
    """Return the path that will be written for a name that the user typed: `target`, or what it is
    a link to. `arguments`: all options of the command.

    Raises InputError: see the module, and `part_of_a_whole`.
    """
    if suffixes and target.suffix.lower() not in suffixes:
        raise InputError(
            f"{target} ends in {target.suffix or 'nothing'!r}: the output is"
            f" {' or '.join(suffixes)}"
        )
    with explain_unwritable(target):
        # Only here is a link followed: the user has named it.
        place = Path(os.path.realpath(target)) if target.is_symlink() else target
        if place.is_symlink():
            raise InputError(f"cannot write {target}: the link leads round in a circle")
        why = explain_protected(place, vars(arguments) if arguments else {}, ours is None)
        if why:
            raise InputError(f"{target} is not replaced: {why}. Name another file")
    return check_implied(place, ours)


def explain_protected(
    place: Path, arguments: Mapping[str, Any], is_record_kept: bool = True
) -> str | None:
    """Return why a file may not be written there though the user named it, or None: two of the
    arguments name it, or it belongs to a package, a signed folder or a checkpoint, which would no
    longer be what its hash says. `is_record_kept`: neither is a JSON file with hashes replaced, nor
    the file beside it that it names.
    """
    # Every folder above it counts, by its true name, whatever links the path leads over.
    real = Path(os.path.realpath(place))
    same = [
        key
        for key, value in arguments.items()
        for path in (value if isinstance(value, list | tuple) else [value])
        if isinstance(path, Path) and _is_same(path, real)
    ]
    if len(same) > 1:
        return f"{' and '.join(same)} are the same file"
    for folder in real.parents:
        sums = folder / SUMS
        if folder.suffix in PACKAGES:
            return f"it is inside the package {folder.name}"
        # SHA256SUMS names files relative to its own folder.
        name = real.relative_to(folder).as_posix().encode()
        if sums.is_file() and name in sums.read_bytes().split():
            return f"{sums} names it"
    is_voice = real.parent.name == "voices"
    home = real.parent.parent if is_voice else real.parent
    is_part = is_voice or real.name == "config.json" or real.suffix in WEIGHTS
    is_part = is_part and (home / "config.json").is_file()
    if is_part and any(path.suffix in WEIGHTS for path in home.iterdir()):
        return f"it is part of the checkpoint {home}"
    beside = real.with_suffix(".json")  # its manifest, or itself
    is_described = is_record_kept and real.is_file() and beside.is_file()
    if is_described and beside.stat().st_size <= MAX_TEXT_BYTES:
        text = beside.read_bytes()
        if b'sha256"' in text and (beside == real or f'"{real.name}"'.encode() in text):
            return f"{beside.name} is a manifest or record, with hashes"
    return None


def _is_same(one: Path, other: Path) -> bool:
    # asked of the file system: where letters' case does not count, two spellings are one file
    if one.exists() and other.exists():
        return one.samefile(other)
    return os.path.realpath(one) == str(other)


def check_implied(target: Path, ours: Ours | None = None) -> Path:
    """Return `target`, a name that the user did not type, where it can be written. Raises
    InputError for a link too.
    """
    with explain_unwritable(target):
        real = Path(os.path.realpath(target))  # raises for what can be no name
        _require_free(target, ours)
        # The nearest folder that is there: those below it will be made.
        folder = next(parent for parent in real.parents if os.path.lexists(parent))
        if not folder.is_dir():
            raise InputError(f"cannot write {target}: {folder} is a file, not a folder")
        # Rights alone do not tell: a file system may be full, or read-only.
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(PROBE_BYTES))
    return target


def _require_free(place: Path, ours: Ours | None) -> None:
    """Raise InputError unless nothing stands there, or what a command may replace."""
    if place.is_symlink():
        raise InputError(
            f"cannot write {place}: it is a link, which is followed only where it is named"
        )
    file = ours is None or isinstance(ours, OwnFile)
    reason = None
    try:
        # one look: between two, another process may have put its folder there
        status = place.stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISDIR(status.st_mode):
        if ours is None or isinstance(ours, OwnFile):
            raise InputError(f"{place} is a folder: name a file in it")
        # An empty folder holds nothing that could be lost, whoever made it.
        reason = ours(place) if any(place.iterdir()) else None
    elif not stat.S_ISREG(status.st_mode):
        raise InputError(f"cannot write {place}: it is a device, a pipe or a socket")
    elif not file:
        raise InputError(f"{place} is a file: a folder is written there")
    # An empty file, too, holds nothing that could be lost.
    elif isinstance(ours, OwnFile) and status.st_size:
        reason = ours.reason(place)
    if reason:
        raise InputError(
            f"{place} is not replaced: {reason}. Name another {'file' if file else 'folder'}, or"
            " remove this one yourself"
        )


def strangers(folder: Path, expected: Collection[str]) -> str | None:
    """Return why a folder holds more than this project wrote: the first file in it that is not
    among the `expected` relative names; or None.
    """
    # not rglob: a folder in it may go meanwhile
    files = [Path(parent) / name for parent, _, names in os.walk(folder) for name in names]
    for path in sorted(files):
        name = path.relative_to(folder).as_posix()
        if name not in expected and not is_of_finder(path.name):
            return f"it holds {name}, which was not written by this command"
    return None


def is_of_finder(name: str) -> bool:
    """Return whether a file is one that macOS puts beside the user's: it is part of nothing."""
    return name == ".DS_Store" or name.startswith("._")


@contextmanager
def explain_unwritable(target: Path) -> Iterator[None]:
    """Turn an OSError of writing `target` (no room, no rights, too long a name, a null byte) into
    an InputError.
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


NEW, OLD = "new", "old"


@contextmanager
def staged(target: Path, ours: Ours | None = None) -> Iterator[Path]:
    """Give a path to write to; on success it replaces `target`, on any error it is removed and
    `target` is untouched.

    `ours`: a function that returns why an old folder may not be replaced, or None; or an OwnFile.
    Without it `target` is a file, of which any may be replaced.
    """
    with staged_together((target, ours)) as (aside,):
        yield aside


@contextmanager
def staged_together(*targets: tuple[Path, Ours | None]) -> Iterator[tuple[Path, ...]]:
    """Do what `staged` does for several targets in one folder: all are replaced, or none. The last
    one gets its name last.
    """
    places = tuple(check_implied(target, ours) for target, ours in targets)
    parent = places[0].parent
    # the folders that this call makes, the inmost first
    missing = [above for above in (parent, *parent.parents) if not above.exists()]
    with ExitStack() as stack:
        with explain_unwritable(places[-1]):
            # First what a killed process left, which may be the very output that is written now.
            recover(parent)
            folder = stack.enter_context(hold_folder(_name_aside(places[-1])))
            _settle(folder)  # of a process that was waited for, and killed
            # A half-written new/ of an earlier run would be mixed into this one.
            shutil.rmtree(folder / NEW, ignore_errors=True)
            (folder / NEW).mkdir()
        try:
            # Each keeps its name, so that what is written can speak of its neighbours.
            yield tuple(folder / NEW / place.name for place in places)
            raise_swallowed_interrupt()
            _set_rights(folder / NEW)
            for place, ours in targets:
                _require_free(place, ours)  # another process may have put something there
            _give_names(folder, places)
        except (OSError, RuntimeError) as problem:
            if _has_no_room(problem, folder):
                why = getattr(problem, "strerror", None) or "no room is left there"
                raise InputError(
                    f"cannot write {places[-1]}: {why}; nothing was left half-written"
                ) from problem
            raise
        finally:
            stack.close()
            with suppress(OSError):  # the first that holds something stays, and those around it
                for above in missing:
                    above.rmdir()


def _name_aside(place: Path) -> Path:
    return place.with_name(f"{PREFIX}{place.name}")


def discard(folder: Path) -> None:
    """Remove a folder of the project. It loses its name at once, so that a killed process never
    leaves half of it there.
    """
    with hold_folder(_name_aside(folder)) as aside:
        folder.rename(aside / NEW)


def _has_no_room(problem: OSError | RuntimeError, folder: Path) -> bool:
    """Return whether a full disk, or a quota, caused it; some libraries raise an OSError without a
    number, or a RuntimeError.
    """
    if any(os.strerror(number) in str(problem) for number in NO_ROOM):
        return True
    # Only an error without a number leaves the cause open; then the disk itself is asked.
    is_silent = getattr(problem, "errno", None) is None and not isinstance(problem, CheckFailed)
    return is_silent and shutil.disk_usage(folder).free < PROBE_BYTES


def _give_names(folder: Path, places: tuple[Path, ...]) -> None:
    """Give what is in new/ its names. A single file is one rename; for all else see the module."""
    new = folder / NEW
    if len(places) == 1 and not (new / places[0].name).is_dir():
        (new / places[0].name).replace(places[0])
        return
    # A file that nobody announced would get no place and be lost with new/.
    written = {path.name for path in new.iterdir()}
    names = {place.name for place in places}
    if written != names:
        raise RuntimeError(f"{sorted(written)} was written where {sorted(names)} was expected")
    (folder / OLD).mkdir()
    try:
        # the last one, by which readers know the others, goes first
        for place in reversed(places):
            if place.exists():
                place.rename(folder / OLD / place.name)
    finally:
        _settle(folder)  # Ctrl-C between two of them: all, or none


def _settle(folder: Path) -> None:
    """Finish or undo the giving of names: move all of new/ to its place, or, where something stands
    there, all of old/. Without old/ nobody knows that new/ is complete.
    """
    new, old = folder / NEW, folder / OLD
    if not old.is_dir() or old.is_symlink() or new.is_symlink():  # no run of ours leaves a link
        return
    # a package before its manifest: "x.mlpackage" > "x.json"
    ready, before = (sorted(part.glob("*"), reverse=True) for part in (new, old))
    is_free = not any(os.path.lexists(folder.parent / path.name) for path in ready)
    # All or nothing: one place that is taken sends every old one back.
    for path in ready if is_free else before:
        if not os.path.lexists(folder.parent / path.name):
            path.rename(folder.parent / path.name)
    shutil.rmtree(old)  # before new/, which is complete no longer


def is_there(path: Path) -> bool:
    """Return whether a file stands there, after what killed processes left beside it was put in its
    place: a reader sees what a writer would.
    """
    recover(path.parent)
    return path.is_file()


def recover(parent: Path) -> None:
    """Finish or undo what killed processes left in `parent`: finished things get their names,
    half-written ones are removed, with a line on stderr for each.
    """
    for folder in take_leftovers(parent, PREFIX):
        _settle(folder)


def _set_rights(new: Path) -> None:
    """Give all of new/ the rights that a plain open and mkdir would: coremltools' files are 0600,
    its folders 0700.
    """
    mode = new.stat().st_mode & 0o777  # what mkdir made of 0777; open would have made it of 0666
    for path in new.rglob("*"):
        if not path.is_symlink():
            path.chmod(mode if path.is_dir() else mode & 0o666)


def write_json(path: Path, data: Any, ours: OwnFile | None = None) -> None:
    """Write sorted, indented JSON by rename."""
    with staged(path, ours) as aside:
        aside.write_text(json_text(data), encoding="utf-8")
