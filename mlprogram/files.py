"""Text and JSON from files that nobody vouches for; files written so that the old one stays until
the new one is whole.

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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mlprogram.errors import ProgramError
from mlprogram.scratch import claimed, cleared, interrupted_before, removed

PREFIX = ".aside-"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
MAX_TEXT_BYTES, MAX_INTEGER_DIGITS = 100_000_000, 30
PACKAGES, WEIGHTS, SUMS = (".mlpackage", ".mlmodelc"), (".pth", ".pt", ".safetensors"), "SHA256SUMS"


@contextlib.contextmanager
def aside(target: Path) -> Iterator[Path]:
    """A path in a folder beside `target`; renamed over it on success. Raises ProgramError where
    nothing can be written.
    """
    check_target(target)
    place = Path(os.path.realpath(target))
    for left in place.parent.glob(f"{PREFIX}*"):
        cleared(left)
    folder, release = claimed(place.parent, PREFIX)
    try:
        yield folder / place.name
        interrupted_before()
        (folder / place.name).replace(place)
    except OSError as problem:
        if problem.errno in NO_ROOM:
            raise ProgramError(
                f"cannot write {target}: {problem.strerror}; nothing was left half-written"
            ) from None
        raise
    finally:
        removed(folder)
        release()


def needed(place: Path, given: Mapping[str, Any], manifests: bool = True) -> str | None:
    """Why a file there may not be replaced, though it was named: it is part of something, or two of
    the arguments `given` name it.
    """
    real = Path(os.path.realpath(place))
    paths = [
        (key, path)
        for key, value in given.items()
        for path in (value if isinstance(value, list) else [value])
    ]
    same = [key for key, path in paths if isinstance(path, Path) and _same(path, real)]
    if len(same) > 1:
        return f"{' and '.join(same)} are the same file"
    for folder in real.parents:
        if folder.suffix in PACKAGES:
            return f"it is inside the package {folder.name}"
        if (folder / SUMS).is_file() and real.relative_to(folder).as_posix().encode() in (
            folder / SUMS
        ).read_bytes().split():
            return f"{folder / SUMS} names it"
    voices = real.parent.name == "voices"
    home = real.parent.parent if voices else real.parent
    part = (voices or real.name == "config.json" or real.suffix in WEIGHTS) and (
        home / "config.json"
    ).is_file()
    if part and any(path.suffix in WEIGHTS for path in home.iterdir()):
        return f"it is part of the checkpoint {home}"
    beside = real.with_suffix(".json")  # its manifest, or itself
    if (
        manifests
        and real.is_file()
        and beside.is_file()
        and 0 < beside.stat().st_size <= MAX_TEXT_BYTES
    ):
        text = beside.read_bytes()
        if b'sha256"' in text and (beside == real or f'"{real.name}"'.encode() in text):
            return f"{beside.name} is a manifest or record, with hashes"
    return None


def _same(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return one.samefile(other)
    return os.path.realpath(one) == str(other)


def check_target(target: Path, given: Mapping[str, Any] | None = None) -> None:
    """ProgramError unless a file can be written there: an existing folder to stand in, no folder,
    device or pipe of that name, and nothing that is `needed`.
    """
    place = Path(os.path.realpath(target))
    try:
        why = needed(place, given or {})
        if why:
            raise ProgramError(f"{target} is not replaced: {why}")
        if place.is_symlink() or (place.exists() and not place.is_file()):
            raise ProgramError(f"{target}: not a file that could be replaced")
        with tempfile.TemporaryFile(dir=place.parent) as probe:
            probe.write(bytes(1 << 16))
    except OSError as problem:
        raise ProgramError(f"cannot write {str(target)[:200]}: {problem.strerror}") from None


def read_text(path: Path) -> str:
    """UTF-8 of a file. Raises ProgramError for a device or a pipe, which would never end, for
    MAX_TEXT_BYTES, and for other bytes.
    """
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
        return json.loads(text, parse_int=_integer, object_pairs_hook=pairs)
    except RecursionError:
        raise ProgramError(
            f"{where} is not JSON that can be read: brackets nested too deep"
        ) from None
    except ValueError as problem:
        raise ProgramError(f"{where} is not JSON: {str(problem)[:200]}") from None


def _integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)
