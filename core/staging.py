"""Write aside, then rename: a folder or file appears under its own name only when it is complete.

with staged(Path("build/x.mlpackage")) as aside:
    write(aside)
    check(aside)
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.errors import InputError


@contextmanager
def staged(target: Path) -> Iterator[Path]:
    """Give a path beside `target` to write to; on success it replaces `target`, on any error it is removed and `target` is untouched."""
    if target.parent.exists() and not target.parent.is_dir():
        raise InputError(f"{target.parent} is a file, not a folder to write in")
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".staged-", dir=target.parent))
    aside = folder / target.name
    try:
        yield aside
        replace(aside, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def replace(aside: Path, target: Path) -> None:
    """Rename `aside` over `target`; an old folder is moved out of the way first, because rename does not replace a full one."""
    if target.is_dir():
        target.rename(aside.with_name(aside.name + ".old"))  # inside the staging folder, removed with it
    aside.replace(target)


def read_json(path: Path, missing: str, again: str = "") -> Any:
    """Parsed JSON. InputError says `missing` when there is no such file, and `again` after what is wrong with one that is not JSON."""
    if not path.is_file():
        raise InputError(f"{path} does not exist: {missing}")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as problem:
        raise InputError(f"{path} is not JSON: {problem}{again}") from None


def write_json(path: Path, data: Any) -> None:
    """Write sorted, indented JSON by rename."""
    with staged(path) as aside:
        aside.write_text(json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
