"""The source files behind a result, found by following imports, and whether they are still the ones
that this process runs.

    files = files_behind(("quantize/speech.py",))
    key = sha256_of_files(files)
    # what runs may be older than what stands on disk: nothing is kept under that key
    changed_since(files, STARTED_NS)
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@cache
def files_behind(roots: tuple[str, ...], left_out: tuple[str, ...] = ()) -> tuple[Path, ...]:
    """Our files that these import, inside functions too, and themselves. left_out: beginnings of
    paths that do not count.
    """
    found, open_ends = set[Path](), [ROOT / name for name in roots]
    while open_ends:
        path = open_ends.pop()
        if path in found or path.relative_to(ROOT).as_posix().startswith(left_out or ("\0",)):
            continue
        found.add(path)
        open_ends += [own for name in imported(path) for own in _files_of(name)]
    return tuple(sorted(found))


def sha256_of_files(files: Iterable[Path]) -> str:
    """Hash of names and bytes."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def changed_since(files: Iterable[Path], moment_ns: int) -> bool:
    """Whether one of them has been written after that moment (time.time_ns), whatever time it was
    given since.
    """
    return any(
        max((told := path.stat()).st_mtime_ns, told.st_ctime_ns) > moment_ns for path in files
    )


@cache
def imported(path: Path) -> tuple[str, ...]:
    """Dotted names that a file imports when it runs; `from a import b` gives a.b, which may be a
    module or a name in one.
    """
    return tuple(_names(_walk(ast.parse(path.read_text(encoding="utf-8")))))


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Every node but those below `if TYPE_CHECKING:`, which no run imports."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (
            isinstance(child, ast.If)
            and isinstance(child.test, ast.Name)
            and child.test.id == "TYPE_CHECKING"
        ):
            yield from _walk(child)


def _names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _files_of(name: str) -> Iterator[Path]:
    """Our files behind a dotted name: the packages on its way, and the module itself."""
    parts = name.removeprefix("kokoro_ane.").split(".")
    home = ROOT / "mlprogram" / "src" if parts[0] == "mlprogram" else ROOT
    for count in range(1, len(parts) + 1):
        place = home.joinpath(*parts[:count])
        yield from (
            path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()
        )
