"""What the two wheels install, and that they work beside a user's own files of the rooms' names.

python -m pytest tests/test_wheels.py -q

The wheels are built from a copy of the tracked tree, unpacked, and used from a folder that holds an eval.py, a bench.py and a core/ of
somebody else's.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kokoro_ane import __version__
from kokoro_ane.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
NOT_INSTALLED = ("bench", "training", "tests", "docs", "mlprogram/benches", "mlprogram/tests")
DATA = (".json", ".npz", ".npy", ".txt", ".tsv", ".gz", ".flac", ".pth", ".pt", ".bin", ".onnx", ".css", ".js", ".html", ".typed")


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.splitlines() if (ROOT / name).exists()]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both wheels, unpacked in one folder."""
    copy, site = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("site")
    for name in tracked():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run([*command, "-w", str(copy / "dist"), str(copy), str(copy / "mlprogram")], check=True, capture_output=True, text=True)
    for wheel in (copy / "dist").glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    return site


def run(site: Path, folder: Path, *command: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_names_and_nothing_else_stand_at_the_top(site: Path) -> None:
    names = {path.name for path in site.iterdir() if path.suffix != ".dist-info"}
    assert names == {"kokoro_ane", "mlprogram"}
    assert {path.name for path in site.glob("*.dist-info")} == {
        f"{name}-{__version__}.dist-info" for name in ("kokoro_ane", "coreml_mlprogram")
    }
    assert not list(site.rglob("__pycache__")) and not [path for path in site.rglob("*") if path.is_symlink()]


def test_every_source_and_data_file_of_the_rooms_is_installed(site: Path) -> None:
    missing = []
    for name in tracked():
        top = name.split("/")[0]
        home = name if top in ("mlprogram", "kokoro_ane") else f"kokoro_ane/{name}"
        room = top == "mlprogram" or (ROOT / "kokoro_ane" / top).is_symlink() or top == "kokoro_ane"
        wanted = room and not name.startswith(NOT_INSTALLED) and name.endswith((".py", *DATA)) and not (ROOT / name).is_symlink()
        missing += [name] if wanted and not (site / home).is_file() else []
    assert not missing
    installed = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    assert not [name for name in installed for room in NOT_INSTALLED if name.startswith((f"{room}/", f"kokoro_ane/{room}/"))]


def test_it_works_beside_a_users_own_files_of_the_same_names(site: Path, tmp_path: Path) -> None:
    for name in ("eval", "bench", "g2p", "pipeline", "quantize", "tests"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the user\\'s own')\n", encoding="utf-8")
    for name in ("core", "vocoder", "encoder", "runtimes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the user\\'s own')\n", encoding="utf-8")
    told = run(site, tmp_path, "-m", "kokoro_ane", "--help")
    assert all(verb in told for verb in COMMANDS)
    code = """
import kokoro_ane, mlprogram, sys
assert all(hasattr(kokoro_ane, name) for name in kokoro_ane.__all__)
samples, rate_hz = kokoro_ane.speak("Hello.", checkpoint="demo")
assert abs(samples).max() > 0.01 and samples.dtype == "float32" and rate_hz == 24000
print(kokoro_ane.__file__, mlprogram.__file__, len(samples) / rate_hz)
"""
    own, other, seconds = run(site, tmp_path, "-c", code).split()
    assert Path(own).is_relative_to(site) and Path(other).is_relative_to(site) and 0.3 < float(seconds) < 3
