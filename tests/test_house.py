"""The house: import direction, sizes, CLI heads, names, and nothing of a machine in the tree."""

import ast
import json
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("core", "demo", "g2p", "encoder", "vocoder", "pipeline", "mlprogram", "quantize", "eval", "bench")
SOURCES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
TEXTS = [
    path
    for path in map(Path, subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines())
    if path.suffix in (".py", ".md", ".toml", ".txt", ".json", "") and (ROOT / path).is_file()
]
# Each room may import itself and the rooms of lower levels; the three models never import each other; nobody imports demo.
LEVELS = (("mlprogram",), ("core",), ("g2p", "encoder", "vocoder"), ("quantize",), ("pipeline",), ("eval",), ("bench",))
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms} | {"demo": len(LEVELS)}
CLIS = {
    "g2p.__main__": "g2p/__main__.py",
    "pipeline.build": "pipeline/build.py",
    "pipeline.validate": "pipeline/validate.py",
    "pipeline.synthesize": "pipeline/synthesize.py",
    "pipeline.vectors": "pipeline/vectors.py",
    "pipeline.assemble": "pipeline/assemble.py",
    "pipeline.bundle": "pipeline/bundle.py",
    "quantize.apply": "quantize/apply.py",
    "quantize.sensitivity": "quantize/sensitivity.py",
    "quantize.reconstruct": "quantize/reconstruct.py",
    "eval.quality": "eval/quality.py",
    "eval.release": "eval/release.py",
    "eval.report": "eval/report.py",
    "eval.controls": "eval/controls.py",
}


def imports_of(path: Path) -> set[str]:
    """Absolute names imported anywhere in a file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module)
    return found


def modules_of(path: Path) -> set[str]:
    """Absolute names that a file imports, `from package import module` also as package.module."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_imports_point_downwards() -> None:
    """core, mlprogram <- g2p, encoder, vocoder <- quantize <- pipeline <- eval <- bench; demo beside them."""
    back = []
    for path in SOURCES:
        room = path.relative_to(ROOT).parts[0]
        rooms = {name.split(".")[0] for name in imports_of(path)} & {*ROOMS, "tests"} - {room}
        lower = {other for other in ROOMS if LEVEL[other] < LEVEL[room]}
        back += [f"{path.relative_to(ROOT)} imports {other}" for other in sorted(rooms - lower)]
    assert not back


def test_no_circle_between_files() -> None:
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in SOURCES}
    known = set(names.values())
    graph = {names[path]: (modules_of(path) & known) - {names[path]} for path in SOURCES}
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as circle:
        raise AssertionError(f"circle: {' -> '.join(circle.args[1])}") from None


def test_nothing_imports_a_cli() -> None:
    for path in SOURCES:
        own = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        assert not (imports_of(path) & set(CLIS)) - {own} or own.startswith("bench."), path


def functions(path: Path) -> list[ast.FunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_sizes_and_docstrings(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300
    assert ast.get_docstring(ast.parse(text)), "module docstring is missing"
    for function in functions(path):
        assert function.end_lineno - function.lineno < 80, function.name
        assert function.returns is not None or function.name == "__init__", f"{function.name} has no return type"


def test_module_names_shadow_nothing() -> None:
    taken = set(sys.stdlib_module_names) - {"profile", "statistics"}
    for path in SOURCES:
        if path.parent.parent == ROOT:
            assert path.stem.startswith("__") or path.stem not in taken, path


def test_every_make_target_is_phony() -> None:
    """Folders carry the same names: without .PHONY, `make vocoder` says "up to date" and does nothing."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = set(re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE).group(1).split())
    targets = {name for line in re.findall(r"^([a-z0-9 -]+):", text, re.MULTILINE) for name in line.split()}
    assert targets == phony
    wanted = {"vocoder", "g2p", "encoder", "all", "demo", "quality", "bench", "test", "test-slow", "lint", "clean", "help"}
    assert wanted <= phony


@pytest.fixture(scope="module")
def help_as_module() -> dict[str, str]:
    """What `python -m MODULE --help` prints, for every command, all in one process."""
    code = """
import contextlib, io, json, runpy, sys
said = {}
for module in sys.argv[1:]:
    sys.argv, out = [module, "--help"], io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        assert not stop.code, module
    said[module] = out.getvalue()
print(json.dumps(said))
"""
    done = subprocess.run([sys.executable, "-c", code, *CLIS], cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("module", CLIS)
def test_help_as_file_from_another_folder_and_as_module_without_a_heavy_import(
    module: str, help_as_module: dict[str, str], tmp_path: Path
) -> None:
    """--help answers before torch, coremltools, numpy or scipy are imported."""
    command = [sys.executable, "-X", "importtime", str(ROOT / CLIS[module]), "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert "argparse" in imported
    assert not imported & {"torch", "coremltools", "numpy", "scipy", "sklearn", "matplotlib"}
    assert done.stdout.startswith("usage: ") and done.stdout == help_as_module[module]


@pytest.mark.parametrize("module", CLIS)
def test_cli_heads_are_alike(module: str) -> None:
    """Run as a file: the repository root, not the room, stands first on sys.path; one module identity, however it was started."""
    text = (ROOT / CLIS[module]).read_text(encoding="utf-8")
    assert "sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])" in text
    assert f"from {module} import main" in text


def test_no_machine_path_and_no_registry_host() -> None:
    trace = re.compile(r"/(?:root|home|work)/[a-z.]|pypi\.org|files\.pythonhosted|deb\.debian\.org|registry\.npmjs")
    for path in TEXTS:
        if path != Path("tests/test_house.py"):
            found = trace.search((ROOT / path).read_text(encoding="utf-8"))
            assert not found, f"{path}: {found.group(0)}"


def test_sources_and_docs_are_in_the_wheel() -> None:
    """Every package folder is matched by pyproject.toml's explicit list."""
    listed = set(re.findall(r'"([a-z0-9]+)\.\*"', (ROOT / "pyproject.toml").read_text(encoding="utf-8")))
    assert listed == set(ROOMS)
    for path in SOURCES:
        assert (path.parent / "__init__.py").exists(), f"{path.parent} is no package"
