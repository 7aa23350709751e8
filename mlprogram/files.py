"""Write a file so that the old one stays until the new one is whole.

with aside(Path("forecast.json")) as path:
    path.write_text("{}")
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mlprogram.errors import ProgramError


@contextlib.contextmanager
def aside(target: Path) -> Iterator[Path]:
    """A path in a folder beside `target`; renamed over it on success. Raises ProgramError where nothing can be written."""
    check_target(target)
    place = Path(os.path.realpath(target))
    with tempfile.TemporaryDirectory(prefix=".aside-", dir=place.parent) as folder:
        path = Path(folder) / place.name
        yield path
        path.replace(place)


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
