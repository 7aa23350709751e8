"""The distribution alone: what its wheel holds, and that it reads six languages, runs its command
and passes its tests in an environment that has nothing of the house.
"""

import ast
import email
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from kokoro_g2p import phonemize

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src" / "kokoro_g2p"
TEXTS = {
    "us": "The harbour cost $3.50, blorfkin!",
    "gb": "The harbour cost £3.50, blorfkin!",
    "es": "Hola, ¿qué tal?",
    "it": "Buongiorno, 3 amici.",
    "fr": "Il est 10 heures, mon ami.",
    "pt": "Bom dia, 3 amigos.",
}
READ = f"""
import sys
from kokoro_g2p import phonemize
for language, text in {TEXTS!r}.items():
    print(phonemize(text, language).phonemes)
print(sorted({{"torch", "scipy", "spacy", "misaki", "kokoro_ane"}} & set(sys.modules)))
"""


def run(*command, folder):
    """What a command prints, without what this test session put on Python's path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    # built from a copy, because setuptools leaves its own folders beside the sources
    folder = tmp_path_factory.mktemp("wheel")
    left_out = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", ".*")
    copy = shutil.copytree(ROOT, folder / "g2p", ignore=left_out)
    flags = "-q --no-deps --no-build-isolation --disable-pip-version-check".split()
    run(sys.executable, "-m", "pip", "wheel", *flags, "-w", folder, copy, folder=folder)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The interpreter of an environment with the wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", wheel, folder=folder)
    return python


def test_the_wheel_holds_the_reader_its_data_and_licences_alone(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    files = {path for path in SOURCES.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    expected = {
        f"kokoro_g2p/{path.relative_to(SOURCES).as_posix()}"
        for path in files
        if "training" not in path.parts
    }
    assert {name for name in names if ".dist-info/" not in name} == expected
    licences = {"LICENSE", *(path.name for path in SOURCES.glob("data/*.LICENSE.txt"))}
    assert {Path(name).name for name in names if "/licenses/" in name} == licences


def test_numpy_and_lazy_loader_are_all_that_it_asks_for(wheel):
    archive = zipfile.ZipFile(wheel)
    metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    asked = email.message_from_bytes(archive.read(metadata)).get_all("Requires-Dist")
    always = [re.split("[<>=]", one)[0] for one in asked if "extra" not in one]
    assert always == ["lazy-loader", "numpy"]


def test_what_is_shipped_imports_no_other_package():
    allowed = {"kokoro_g2p", "lazy_loader", "numpy", *sys.stdlib_module_names}
    # network.py is PyTorch's side of the network, espeak.py what figures are compared with
    optional = {"network.py": {"torch"}, "espeak.py": {"espeakng_loader", "phonemizer"}}
    for path in SOURCES.rglob("*.py"):
        if path.parent.name == "training":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            tops = {name.partition(".")[0] for name in names if name}
            if not (isinstance(node, ast.ImportFrom) and node.level):
                assert tops <= allowed | optional.get(path.name, set()), path


@pytest.mark.slow
def test_it_reads_six_languages_alone(python, tmp_path):
    *answers, heavy = run(python, "-c", READ, folder=tmp_path).splitlines()
    assert answers == [phonemize(text, language).phonemes for language, text in TEXTS.items()]
    assert heavy == "[]"


@pytest.mark.slow
def test_its_command_reads_a_text(python, tmp_path):
    command = python.with_name("kokoro-g2p")
    printed = run(command, TEXTS["fr"], "--dialect", "fr", folder=tmp_path)
    assert printed.splitlines()[0] == phonemize(TEXTS["fr"], "fr").phonemes


@pytest.mark.slow
def test_the_readmes_lines_run(python, tmp_path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    # a comment behind a line is what its value is
    shown = re.sub(r"^(phonemize.*?)  # (.*)$", r"assert \1 == '\2'", block, flags=re.MULTILINE)
    assert shown.count("assert") == 2
    run(python, "-c", shown, folder=tmp_path)


@pytest.mark.slow
def test_its_tests_pass_there(python, tmp_path):
    run(python, "-m", "pip", "install", "-q", "hypothesis", "pytest", folder=tmp_path)
    tests = shutil.copytree(ROOT / "tests", tmp_path / "tests")
    for name in ("README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)  # lines that the tests read
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = tests\nmarkers = slow\n")
    files = [tests / f"test_{name}.py" for name in ("phonemize", "markup", "grammar")]
    printed = run(python, "-m", "pytest", "-q", "-m", "not slow", *files, folder=tmp_path)
    assert re.search(r"^\d+ passed", printed, re.MULTILINE)
