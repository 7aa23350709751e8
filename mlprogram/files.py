"""Text and JSON from files that nobody vouches for; files written so that the old one stays until the new one is whole.

with aside(Path("forecast.json")) as path:
    path.write_text("{}")
rules = read_json(Path("rules.json"))

What a killed process left aside, the next one removes.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mlprogram.errors import ProgramError
from mlprogram.scratch import interrupted_before

PREFIX = ".aside-"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
MAX_TEXT_BYTES, MAX_INTEGER_DIGITS = 100_000_000, 30


@contextlib.contextmanager
def aside(target: Path) -> Iterator[Path]:
    """A path beside `target`; renamed over it on success. Raises ProgramError where nothing can be written."""
    check_target(target)
    place = Path(os.path.realpath(target))
    for left in place.parent.glob(f"{PREFIX}*"):
        _clear(left)
    path = place.with_name(f"{PREFIX}{uuid.uuid4().hex[:12]}{place.suffix}")
    with path.open("xb") as owner:
        _locked(owner.fileno())
        try:
            yield path
            interrupted_before()
            path.replace(place)
        except OSError as problem:
            if problem.errno in NO_ROOM:
                raise ProgramError(f"cannot write {target}: {problem.strerror}; nothing was left half-written") from None
            raise
        finally:
            path.unlink(missing_ok=True)


def _locked(number: int) -> bool:
    """Lock an open file for as long as this process lives; False where another that lives has it."""
    import fcntl  # late: only what writes needs it

    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _clear(left: Path) -> None:
    with contextlib.suppress(OSError):
        if left.is_symlink() or not left.is_file():
            return
        with left.open("r+b") as stream:
            if _locked(stream.fileno()):
                left.unlink()


def check_target(target: Path) -> None:
    """ProgramError unless a file can be written there: an existing folder to stand in, and no folder, device or pipe of that name."""
    place = Path(os.path.realpath(target))
    try:
        if place.is_symlink() or (place.exists() and not place.is_file()):
            raise ProgramError(f"{target}: not a file that could be replaced")
        with tempfile.TemporaryFile(dir=place.parent) as probe:
            probe.write(bytes(1 << 16))
    except OSError as problem:
        raise ProgramError(f"cannot write {str(target)[:200]}: {problem.strerror}") from None


def read_text(path: Path) -> str:
    """UTF-8 of a file. Raises ProgramError for a device or a pipe, which would never end, for MAX_TEXT_BYTES, and for other bytes."""
    if not path.is_file():
        raise ProgramError(f"{path}: {'not a file' if path.exists() else 'there is no such file'}")
    if path.stat().st_size > MAX_TEXT_BYTES:
        raise ProgramError(f"{path}: {path.stat().st_size} bytes, more than {MAX_TEXT_BYTES}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        raise ProgramError(f"{path}: not UTF-8 ({problem.reason})") from None


def read_json(path: Path) -> Any:
    """Parsed JSON. Raises ProgramError as read_text and parse_json do."""
    return parse_json(read_text(path), str(path))


def parse_json(text: str, where: str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """JSON from text; `where` names it in the ProgramError. Limits: MAX_INTEGER_DIGITS, and the depth that Python parses."""
    try:
        return json.loads(text, parse_int=_integer, object_pairs_hook=pairs)
    except RecursionError:
        raise ProgramError(f"{where} is not JSON that can be read: brackets nested too deep") from None
    except ValueError as problem:
        raise ProgramError(f"{where} is not JSON: {str(problem)[:200]}") from None


def _integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)
