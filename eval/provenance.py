"""What a figure depends on, found and not listed: the source files that make it, the libraries they
import, the limits it is held against.

    code_sha256(), libraries().sha256, limits()["commit"]
    # why what decides here is nobody's word, None where a commit and the installers stand for it
    uncommitted()

Files and libraries are followed from ROOTS through every import, those inside functions too, so
that nothing has to be remembered here.
"""

import ast
import base64
import csv
import hashlib
import importlib.util
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.metadata import (
    PackageNotFoundError,
    distribution,
    packages_distributions,
    requires,
    version,
)
from pathlib import Path

from kokoro_ane.core import commit as commits
from kokoro_ane.core.checkpoint import KOKORO_INT8, Checkpoint
from kokoro_ane.core.config import not_releasable
from kokoro_ane.quantize.sources import ROOT, files_behind, imported, sha256_of_files

ROOTS = ("eval/judge.py", "eval/product_judge.py", "vocoder/render.py")
DECIDES = ("eval/release.py", "eval/quality.py")  # from figures to what may be released
# They judge figures and make none: moved limits judge again what was measured.
LIMITS = ("eval/gates.py", "eval/prosody_gates.py", "eval/product_gates.py", "eval/verdict.py")
WHOLE = (
    "mlprogram/src/mlprogram",
)  # imports its own modules by name; the folders of NOT_CODE make no figure
NOT_CODE = (f"{WHOLE[0]}/examine", f"{WHOLE[0]}/benches", *LIMITS)
READ = ("g2p/data/normalize/*.json",)  # what that code reads from beside it: the words of a text
CODE = (".py", ".so", ".pyd", ".dylib", ".dll")  # of a library
THREADS = 2  # that hash libraries: 1 GB with PyTorch's, 2 s of CPU in a run that takes minutes


@dataclass(frozen=True)
class Libraries:
    """`sha256`: by library, over names and bytes of its files. `strange`: imported code that its
    installer's RECORD does not hold so.
    """

    sha256: dict[str, str]
    strange: tuple[str, ...]

    @classmethod
    def of(cls, names: Iterable[str]) -> "Libraries":
        """Of importable names; one that is not installed has no files."""
        homes, sha256, strange = packages_distributions(), {}, list[str]()
        for name in sorted(names):
            told = {
                path: digest
                for home in set(homes.get(name, ()))
                for path, digest in _recorded(home)
            }
            own = set(_imported(name))
            found = _digests(path for path in {*told, *own} if path.is_file())
            whole = "".join(f"{path.name} {found[path]}\n" for path in sorted(found))
            sha256[name] = hashlib.sha256(whole.encode()).hexdigest()
            strange += [
                str(path)
                for path in sorted(own)
                if path.suffix in CODE and found.get(path) != told.get(path)
            ]
        return cls(sha256, tuple(strange))


def _recorded(home: str) -> Iterator[tuple[Path, str]]:
    """Files of a distribution, with the digest that its installer wrote down."""
    installed = distribution(home)
    place = Path(str(installed.locate_file(""))).resolve()
    for name, digest, *_ in csv.reader((installed.read_text("RECORD") or "").splitlines()):
        if _counts(path := place / name) and not name.startswith(".."):
            yield path, digest.removeprefix("sha256=")


def _imported(name: str) -> Iterator[Path]:
    """Files of the module or package that an import of `name` gives, or has given."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return
    for place in (spec.submodule_search_locations or [spec.origin or ""]) if spec else ():
        path = Path(place).resolve()
        yield from (
            inner for inner in (path.rglob("*") if path.is_dir() else (path,)) if _counts(inner)
        )


def _counts(path: Path) -> bool:
    """Bytecode and what numba compiles at the first use (librosa's) are made anew, and headers are
    for compilers.
    """
    return path.suffix not in (".pyc", ".h", ".hpp", ".cuh", "") and not {
        "include",
        "__pycache__",
    } & {*path.parts}


def _digests(paths: Iterable[Path]) -> dict[Path, str]:
    with ThreadPoolExecutor(THREADS) as pool:  # hashlib lets go of Python's lock
        return dict(pool.map(_digest, paths))


def _digest(path: Path) -> tuple[Path, str]:
    with path.open("rb") as stream:
        return (
            path,
            base64.urlsafe_b64encode(hashlib.file_digest(stream, "sha256").digest())
            .rstrip(b"=")
            .decode(),
        )


@cache
def code_files() -> tuple[Path, ...]:
    """Every source file of ours that a figure depends on."""
    whole = (
        path.relative_to(ROOT).as_posix() for room in WHOLE for path in (ROOT / room).rglob("*.py")
    )
    return files_behind((*ROOTS, *whole), NOT_CODE)


def code_sha256() -> str:
    """Hash of those files and of what they read: names and bytes."""
    return sha256_of_files(
        (*code_files(), *sorted(path for pattern in READ for path in ROOT.glob(pattern)))
    )


@cache
def library_names() -> frozenset[str]:
    """Every library that the files import or name as a text (its weights are read, not its
    code).
    """
    names = {name.split(".")[0] for path in code_files() for name in imported(path)}
    homes = set(packages_distributions())
    names |= {
        name
        for path in code_files()
        if path.is_relative_to(ROOT / "eval")
        for name in _texts(path) & homes
    }
    return frozenset(
        name for name in names if name not in sys.stdlib_module_names and not (ROOT / name).is_dir()
    )


@cache
def libraries() -> Libraries:
    """Their bytes, as this process imports them."""
    return Libraries.of(library_names())


@cache
def library_versions() -> dict[str, str]:
    """Version of Python, of those libraries, and of all that these need in turn."""
    homes, found = packages_distributions(), dict[str, str]()
    open_ends = [_normal(home) for name in library_names() for home in homes.get(name, ())]
    while open_ends:
        name = open_ends.pop()
        if name not in found:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                continue  # needed on another system, or by an extra that is not installed
            open_ends += [_normal(need) for need in requires(name) or () if "extra ==" not in need]
    return {"python": platform.python_version()} | dict(sorted(found.items()))


def limits() -> dict[str, str]:
    """`sha256` of what eval/gates.py and eval/verdict.py compute, the `commit` that last touched
    them, when it was `committed`. A "+" after the commit: the files differ from it; "none" outside
    a git checkout.
    """
    said = commits.git("log", "-1", "--format=%H %cI", "--", *LIMITS).split()
    commit, committed = said if len(said) == 2 else ("none", "")
    changed = "+" if said and commits.differing(LIMITS, commits.held()) else ""
    # comments and spaces left out
    meant = [ast.dump(ast.parse((ROOT / name).read_text(encoding="utf-8"))) for name in LIMITS]
    return {
        "sha256": hashlib.sha256("\0".join(meant).encode()).hexdigest(),
        "commit": commit + changed,
        "committed": committed,
    }


def commit() -> str:
    """The commit of the code, with "+" when files differ from it; "none" outside a git checkout."""
    head = commits.git("rev-parse", "HEAD")
    return head + ("+" if differing() else "") if head else "none"


def differing() -> list[str]:
    """Files of the commit, or that figures and decisions are made by, that are not as the commit
    holds them.
    """
    used = (path.relative_to(ROOT).as_posix() for path in (*code_files(), *files_behind(DECIDES)))
    return commits.differing({*(told := commits.held()), *used}, told)


def withheld(checkpoint: Checkpoint) -> str | None:
    """Why nothing of the checkpoint may be released, in words; None where it may."""
    if checkpoint.withheld is None:
        return uncommitted()
    if checkpoint.name == KOKORO_INT8:
        return not_releasable(checkpoint.name)
    return f"{checkpoint.name} is not releasable: {checkpoint.withheld}"


def uncommitted() -> str | None:
    """Why nothing that is decided here may be released, whatever the checkpoint: files that no
    commit or no installer stands for.
    """
    head, changed, strange = commits.git("rev-parse", "HEAD"), differing(), libraries().strange
    if not head:
        return (
            "not releasable from here: no git checkout says which commit decides (an installed"
            " wheel, or no git)"
        )
    if changed:
        return (
            f"not releasable from here: {changed[0]}{_more(changed)} not as commit {head[:10]}"
            " holds it"
        )
    return (
        f"not releasable from here: {Path(strange[0]).name}{_more(strange)} not as it was installed"
        if strange
        else None
    )


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - 1} more are" if names[1:] else " is"


def _texts(path: Path) -> set[str]:
    """The texts that stand in a file as values."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def _normal(requirement: str) -> str:
    """Distribution name of a requirement such as "torch>=2; extra == 'x'"."""
    named = re.match(r"[A-Za-z0-9._-]+", requirement)
    return re.sub(r"[-_.]+", "-", named.group()).lower() if named else requirement
