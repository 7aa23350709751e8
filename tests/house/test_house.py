"""The structure of the repository: import direction, sizes, names, and no path of a machine. Every
limit stands in the tables below.

python -m pytest tests/house/test_house.py -q
"""

import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import pytest

from kokoro_ane.cli import COMMANDS
from tests.commands import ROOT, ran, tracked

TRACKED = [Path(name) for name in tracked() if (ROOT / name).is_file()]
# Room -> the most thousand tokens of code, in the order of the arrows: a room imports itself and
# rooms of the levels before it, and neither the two distributions below nor the models import each
# other. A limit rises only in a commit of its own that says what fell instead. `kokoro_ane`
# (command line and API) names rooms and is imported by none.
LEVELS = (
    {"mlprogram": 59.3, "g2p": 109.0},
    {"core": 28.3},
    {"encoder": 8.4, "vocoder": 24.5},
    {"speech": 4.3},
    {"quantize": 26.8},
    {"runtimes": 20.2},
    {"pipeline": 31.1},
    {"eval": 46.8},
    {"kokoro_ane": 1.9},
    {"training": 4.4},
    {"bench": 6.8},
)
# where the packages of the two other distributions stand, and how a room is imported
HOMES = {"mlprogram": "mlprogram/src/mlprogram", "g2p": "g2p/src/kokoro_g2p"}
IMPORTED = {"mlprogram": "mlprogram", "g2p": "kokoro_g2p"}
ROOM_TOKENS = {room: 1000 * limit for level in LEVELS for room, limit in level.items()}
LEVEL = {room: number for number, level in enumerate(LEVELS) for room in level}
# Rooms that only their own commands and tests import.
APART = ("training", "bench", "tests")
TEST_TOKENS, DOC_WORDS, DOC_PAGES = 227_500, 20_800, 14
# What a token of code is not: comments and layout cost nothing, and docstrings are left out below.
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
LONGEST_FUNCTION = 100  # lines
# Basenames that a reader would have to tell apart by their folder: allowed once in the house, and
# once in mlprogram.
ANYWHERE = ("__init__.py", "__main__.py")
# seconds each; NumPy is a tenth of one
HEAVY = {"torch", "coremltools", "scipy", "sklearn", "matplotlib"}

SOURCES = [
    path
    for path in TRACKED
    # tests have a limit of their own, examples are copied and never imported
    if path.suffix == ".py" and path.parts[0] in LEVEL and not {"tests", "examples"} & {*path.parts}
]
TESTS = [path for path in TRACKED if path.suffix == ".py" and "tests" in path.parts]
# Written ones: docs/reference.py makes the reference, and the log is no page to read through.
PAGES = [
    path
    for path in TRACKED
    if path.suffix == ".md"
    and (path.parts[0] == "docs" or path.as_posix() in ("README.md", "CONTRIBUTING.md"))
    and path.name not in ("reference.md", "LOG.md")
]


@cache
def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def tree_of(path):
    return ast.parse(text_of(path))


def docstrings(path):
    """The docstrings of a file by the place (line, column) where they begin."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(tree_of(path)) if isinstance(node, documented) and node.body]
    texts = [(node.body[0], ast.get_docstring(node)) for node in nodes]
    return {(first.lineno, first.col_offset): text for first, text in texts if text is not None}


def tokens(paths):
    """Names, operators, numbers and strings of code; no comments, docstrings or layout."""
    count = 0
    for path in paths:
        documentation = docstrings(path)
        stream = tokenize.generate_tokens(io.StringIO(text_of(path)).readline)
        count += sum(t.type not in LAYOUT and t.start not in documentation for t in stream)
    return count


def module_of(path):
    """core.staging of core/staging.py: without the import name, as rooms stand in the tree."""
    name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    return name.removeprefix("mlprogram.src.").removeprefix("g2p.src.")


def room_named(name):
    """The room of an imported name, without the import name `kokoro_ane`."""
    top = name.split(".")[0]
    return next((room for room, package in IMPORTED.items() if package == top), top)


@cache
def imports_of(path):
    """Names that a file imports anywhere, without the import name `kokoro_ane`; `from package
    import module` also as package.module.
    """
    names = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(name.removeprefix("kokoro_ane.") for name in names)


def test_imports_point_downwards():
    back = []
    for path in SOURCES:
        room = path.parts[0]
        rooms = {room_named(name) for name in imports_of(path)} & {*LEVEL, *APART} - {room}
        lower = {other for other in LEVEL if LEVEL[other] < LEVEL[room] and other not in APART}
        back += [f"{path} imports {other}" for other in sorted(rooms - lower)]
    assert not back


def doors():
    """The names that each room's stub hands out, by the room."""
    rooms = [room for room in LEVEL if (ROOT / HOMES.get(room, room) / "__init__.pyi").is_file()]
    stubs = {room: tree_of(Path(HOMES.get(room, room)) / "__init__.pyi") for room in rooms}
    return {
        room: {
            alias.name
            for each in stub.body
            if isinstance(each, ast.ImportFrom)
            for alias in each.names
        }
        for room, stub in stubs.items()
    }


def test_no_import_goes_past_a_door():
    """Outside of a room only its door is imported from, and nothing else than what that names;
    tests of a room look inside.
    """
    names, past = doors(), []
    for path in SOURCES:
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            module = node.module.removeprefix("kokoro_ane.")
            room = room_named(module)
            if room not in names or room == path.parts[0]:
                continue
            is_door = module in (room, IMPORTED.get(room))
            wrong = {alias.name for alias in node.names} - names[room] if is_door else {"..."}
            past += [f"{path}: {node.module} import {name}" for name in sorted(wrong)]
    assert not past


def test_a_door_has_no_name_that_nobody_outside_uses():
    outside = {
        (room_named(node.module.removeprefix("kokoro_ane.")), alias.name)
        for path in (*SOURCES, *TESTS, *(path for path in TRACKED if path.match("docs/*.py")))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if room_named(node.module.removeprefix("kokoro_ane.")) != path.parts[0]
    }
    house = {room for room in doors() if room not in IMPORTED}
    assert not [
        f"{room}: {name}"
        for room in sorted(house)
        for name in sorted(doors()[room])
        if (room, name) not in outside
    ]


def test_no_circle_between_files():
    modules = {module_of(path) for path in SOURCES}
    graph = {module_of(path): (imports_of(path) & modules) - {module_of(path)} for path in SOURCES}
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as circle:
        raise AssertionError(f"circle: {' -> '.join(circle.args[1])}") from None


def test_no_room_imports_a_command():
    commands = {module.removeprefix("kokoro_ane.") for module, _ in COMMANDS.values()}
    rooms = [path for path in SOURCES if path.parts[0] not in ("kokoro_ane", *APART)]
    assert not [
        f"{path} imports {name}"
        for path in rooms
        for name in imports_of(path) & commands - {module_of(path)}
    ]


@pytest.mark.parametrize("room", ROOM_TOKENS)
def test_a_room_is_not_overcrowded(room):
    assert tokens([path for path in SOURCES if path.parts[0] == room]) <= ROOM_TOKENS[room]


def test_the_tests_are_not_overcrowded():
    assert tokens(TESTS) <= TEST_TOKENS


def test_the_pages_are_not_overcrowded():
    assert sum(len(text_of(page).split()) for page in PAGES) <= DOC_WORDS
    assert len(PAGES) <= DOC_PAGES


def test_no_function_is_longer_than_two_screens():
    assert not [
        f"{path}: {node.name}"
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= LONGEST_FUNCTION
    ]


def test_a_file_is_known_by_its_name():
    """One home of each name in a distribution; none of the standard library's."""
    for rooms in (set(LEVEL) - set(HOMES), {"mlprogram"}, {"g2p"}):
        names = Counter(
            path.name for path in SOURCES if path.parts[0] in rooms and path.name not in ANYWHERE
        )
        assert not [name for name, count in names.items() if count > 1]
    taken = set(sys.stdlib_module_names) - {"profile", "statistics"}
    assert not [
        path
        for path in SOURCES
        if len(path.parts) == 2 and path.stem in taken and path.name not in ANYWHERE
    ]


def test_every_make_target_is_phony():
    """Folders have the names of targets: without .PHONY, `make vocoder` says "up to date" and does
    nothing.
    """
    text = text_of(Path("Makefile"))
    phony = set(re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE).group(1).split())
    targets = {
        name for line in re.findall(r"^([a-z0-9 -]+):", text, re.MULTILINE) for name in line.split()
    }
    assert targets == phony


def test_every_module_that_a_make_target_runs_is_there():
    for module in set(re.findall(r"\$\(RUN\) -m ([\w.]+)", text_of(Path("Makefile")))):
        assert find_spec(module), module


def test_help_of_every_verb_comes_before_a_heavy_import():
    """All verbs run in one process that has imported none of them."""
    code = """
import contextlib, io, json, sys
from kokoro_ane.cli import main
helps, heavy = {}, set(json.loads(sys.argv[1]))
for verb in json.loads(sys.argv[2]):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        main([verb, "--help"])
    helps[verb] = [out.getvalue(), sorted(heavy & set(sys.modules))]
print(json.dumps(helps))
"""
    done = ran(sys.executable, "-c", code, json.dumps(sorted(HEAVY)), json.dumps(list(COMMANDS)))
    helps = json.loads(done.stdout)
    assert set(helps) == set(COMMANDS)
    for verb, (text, imported) in helps.items():
        assert text.startswith("usage: "), verb
        assert not imported, verb


def test_quality_runs_as_a_file_from_another_folder(tmp_path):
    """The only command that changes its path: eval/, the first folder on the path of a file that is
    run, holds names of other libraries.
    """
    done = ran(sys.executable, str(ROOT / "eval" / "quality.py"), "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: "), done.stderr
    assert [path for path in SOURCES if "sys.path[0]" in text_of(path)] == [Path("eval/quality.py")]


def test_no_machine_path_and_no_registry_host():
    trace = re.compile(
        r"/(?:root|home|work)/[a-z.]|pypi\.org|files\.pythonhosted|deb\.debian\.org|registry\.npmjs"
    )
    for path in TRACKED:
        if path.suffix in (".py", ".md", ".toml", ".txt", ".json", "") and path != Path(
            "tests/house/test_house.py"
        ):
            match = trace.search(text_of(path))
            assert not match, f"{path}: {match.group(0)}"
