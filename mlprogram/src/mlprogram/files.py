"""Text and JSON from files that nobody vouches for; files written so that the old one stays until
the new one is whole.

    with open_aside(Path("forecast.json")) as path:
        path.write_text("{}")
    rules = read_json(Path("rules.json"))
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mlprogram.errors import ProgramError

MAX_TEXT_BYTES, MAX_INTEGER_DIGITS = 100_000_000, 30


@contextlib.contextmanager
def open_aside(target: Path) -> Iterator[Path]:
    """A path beside `target`, renamed over it on success and removed on failure."""
    # In the same folder, so that the rename stays on one file system and is atomic.
    part = target.with_name(f".part-{target.name}")
    try:
        yield part
        part.replace(target)
    except OSError as problem:
        raise ProgramError(f"cannot write {target}: {problem.strerror}") from None
    finally:
        part.unlink(missing_ok=True)


def check_target(target: Path, *inputs: Path | None) -> None:
    """ProgramError unless a file can be written there: in a folder, over no folder, device or pipe,
    and over none of the inputs.
    """
    if not target.parent.is_dir():
        raise ProgramError(f"cannot write {target}: {target.parent} is no folder")
    if target.exists() and not target.is_file():
        raise ProgramError(f"{target}: not a file that could be replaced")
    # samefile sees through links and other spellings of a path.
    if any(path and path.exists() and target.exists() and target.samefile(path) for path in inputs):
        raise ProgramError(f"{target} is not replaced: it is read too")


def read_text(path: Path) -> str:
    """UTF-8 of a file. Raises ProgramError for a device or a pipe, which would never end, for
    MAX_TEXT_BYTES, and for other bytes.
    """
    # is_file is false for a device or a pipe, whose read would never end.
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


def parse_json(
    text: str, where: str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> Any:
    """JSON from text; `where` names it in the ProgramError. Limits: MAX_INTEGER_DIGITS, and the
    depth that Python parses.
    """
    try:
        # Python's own limit on digits is an interpreter setting, so this reader has its own.
        return json.loads(text, parse_int=_parse_integer, object_pairs_hook=pairs)
    except RecursionError:
        raise ProgramError(
            f"{where} is not JSON that can be read: brackets nested too deep"
        ) from None
    except ValueError as problem:
        raise ProgramError(f"{where} is not JSON: {str(problem)[:200]}") from None


def _parse_integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)
