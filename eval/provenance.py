"""What a figure depends on, found and not listed: the source files that make it, the libraries they import, the limits it is held against.

    code_sha256(), library_versions(), limits()["commit"]

Files and libraries are followed from ROOTS through every import, those inside functions too, so that nothing has to be remembered here.
"""

import ast
import hashlib
import platform
import re
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version
from pathlib import Path

from core.sources import ROOT, files_behind, imported, sha256_of_files

ROOTS = ("eval/judge.py", "vocoder/package.py")
LIMITS = ("eval/gates.py", "eval/verdict.py")  # they judge figures and make none: moved limits judge again what was measured
WHOLE = ("mlprogram",)  # imports its own modules by name; examine/ forecasts and makes no figure
NOT_CODE = ("mlprogram/examine", *LIMITS)
READ = ("g2p/data/normalize/*.json",)  # what that code reads from beside it: the words of a text


@cache
def code_files() -> tuple[Path, ...]:
    """Every source file of ours that a figure depends on."""
    whole = (path.relative_to(ROOT).as_posix() for room in WHOLE for path in (ROOT / room).rglob("*.py"))
    return files_behind((*ROOTS, *whole), NOT_CODE)


def code_sha256() -> str:
    """Hash of those files and of what they read: names and bytes."""
    return sha256_of_files((*code_files(), *sorted(path for pattern in READ for path in ROOT.glob(pattern))))


@cache
def library_versions() -> dict[str, str]:
    """Version of Python and of every installed library that the files import or name as a text (its weights are read, not its code),
    and of all that these need in turn."""
    homes, found = packages_distributions(), dict[str, str]()
    names = {name.split(".")[0] for path in code_files() for name in imported(path)}
    names |= {name for path in code_files() if path.is_relative_to(ROOT / "eval") for name in _texts(path) & set(homes)}
    foreign = {name for name in names if name not in sys.stdlib_module_names and not (ROOT / name).is_dir()}
    open_ends = [_normal(home) for name in foreign for home in homes.get(name, ())]
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
    """`sha256` of what eval/gates.py and eval/verdict.py compute, the `commit` that last touched them, when it was `committed`. A "+" after
    the commit: the files differ from it; "none" outside a git checkout."""
    said = _git("log", "-1", "--format=%H %cI", "--", *LIMITS).split()
    commit, committed = said if len(said) == 2 else ("none", "")
    changed = "+" if said and _git("status", "--porcelain", "--", *LIMITS) else ""
    meant = [ast.dump(ast.parse((ROOT / name).read_text(encoding="utf-8"))) for name in LIMITS]  # comments and spaces left out
    return {"sha256": hashlib.sha256("\0".join(meant).encode()).hexdigest(), "commit": commit + changed, "committed": committed}


def commit() -> str:
    """The commit of the code, with "+" when files differ from it; "none" outside a git checkout."""
    head = _git("rev-parse", "HEAD")
    return head + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "") if head else "none"


def _git(*arguments: str) -> str:
    """What git says, "" where there is no git or no checkout."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return "" if done.returncode else done.stdout.strip()


def _texts(path: Path) -> set[str]:
    """The texts that stand in a file as values."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def _normal(requirement: str) -> str:
    """Distribution name of a requirement such as "torch>=2; extra == 'x'"."""
    named = re.match(r"[A-Za-z0-9._-]+", requirement)
    return re.sub(r"[-_.]+", "-", named.group()).lower() if named else requirement
