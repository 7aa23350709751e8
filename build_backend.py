"""setuptools' build backend, and one thing more: in the clone that `pip install git+URL` makes, the
two other distributions of this repository come from the same address and commit.

pyproject.toml asks for them by version, as an index or a folder of wheels has them. None has the
version of a commit, so there the requirement is given its place, which pip resolves and records:

    kokoro-g2p==0.2.0  ->  kokoro-g2p @ git+URL@COMMIT#subdirectory=g2p

Wheels and sdists of any other tree keep the versions: an index refuses direct references. uv does
the same by [tool.uv.sources]. One distribution with three import names would be simpler, and would
own the files of two that others install by themselves.
"""

import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 - the other hooks

SIBLINGS = {"kokoro-g2p": "g2p", "coreml-mlprogram": "mlprogram"}


def is_pip_clone(tree: Path) -> bool:
    """Whether pip cloned this tree into a temporary folder of its own."""
    names = (tree.name, tree.parent.name)
    return (tree / ".git").exists() and any(re.match(r"pip-(req-build|install)-", n) for n in names)


def with_places(text: str, address: str, commit: str) -> str:
    """Return pyproject.toml's text with a direct reference for each sibling's version. A name and
    password in an http address are left out: the reference is stored where it is installed.
    """
    parts = urlsplit(address)
    if parts.scheme in ("http", "https"):
        address = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    # pip below 24.1 takes no address without a host; git reads file://./path as /path
    address = re.sub(r"^file:///", "file://./", address)
    for name, folder in SIBLINGS.items():
        place = f"{name} @ git+{address}@{commit}#subdirectory={folder}"
        text = re.sub(rf'"{name}==[\w.]+"', f'"{place}"', text)
    return text


def place_siblings(tree: Path) -> None:
    """Write the references into pyproject.toml of a clone that pip will throw away."""
    if not is_pip_clone(tree):
        return

    def git(*words: str) -> str:
        return subprocess.check_output(["git", "-C", tree, *words], text=True).strip()

    path = tree / "pyproject.toml"
    address, commit = git("config", "--get", "remote.origin.url"), git("rev-parse", "HEAD")
    path.write_text(with_places(path.read_text("utf-8"), address, commit), "utf-8")


def prepare_metadata_for_build_wheel(*arguments: Any, **options: Any) -> str:
    """PEP 517's hook."""
    place_siblings(Path.cwd())
    return build_meta.prepare_metadata_for_build_wheel(*arguments, **options)


def build_wheel(*arguments: Any, **options: Any) -> str:
    """PEP 517's hook."""
    place_siblings(Path.cwd())
    return build_meta.build_wheel(*arguments, **options)
