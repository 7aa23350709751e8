"""What runs and what trains are different rooms: no file of g2p/ outside g2p/training/ imports from it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RUNS = [path for path in sorted((ROOT / "g2p").rglob("*.py")) if "training" not in path.relative_to(ROOT).parts]


def modules_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return named | {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}


@pytest.mark.parametrize("path", RUNS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_runs_does_not_import_what_trains(path: Path) -> None:
    assert not [name for name in modules_of(path) if name.startswith("g2p.training")]
