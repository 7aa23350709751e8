"""What the commit of this checkout holds, asked of git's objects: not of the index, which can be
told to look away, and not of a clone that a GIT_* variable names.

    # {} where there is no git, no checkout, or an installed wheel
    told = held()
    # those that are not as the commit holds them, or that it does not hold
    differing(("eval/gates.py",), told)
"""

import hashlib
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHORT = 10


def git(*arguments: str) -> str:
    """What git says of this checkout, "" where there is no git or none. No variable and no `git
    replace` stands between.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "--no-replace-objects", *arguments],
            cwd=ROOT,
            env=own,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return "" if done.returncode else done.stdout.strip()


def short(commit: str) -> str:
    """The first letters of a commit, with the "+" that says that files differ from it."""
    return commit[:SHORT] + ("+" if commit.endswith("+") else "")


def held() -> dict[str, str]:
    """Every file of the commit by its path: the hash of its bytes as git names it."""
    lines = (line.split("\t") for line in git("ls-tree", "-r", "-z", "HEAD").split("\0") if line)
    return {name: entry.split()[2] for entry, name in lines}


def differing(names: Iterable[str], told: Mapping[str, str]) -> list[str]:
    """Those files that are not what the commit holds under their names."""
    return sorted(
        name for name in names if told.get(name) != _blob(ROOT / name, len(told.get(name, "")))
    )


def _blob(path: Path, letters: int) -> str:
    """Name of a file's bytes, or of where a link leads, in git, which uses SHA-1 or SHA-256; "" for
    what cannot be read.
    """
    try:
        data = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
    except OSError:
        return ""
    return hashlib.new(
        "sha256" if letters == 64 else "sha1", b"blob %d\0" % len(data) + data
    ).hexdigest()
