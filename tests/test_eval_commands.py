"""The commands as a user starts them: as a file, as a module, from another folder, with bad arguments; help at once."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = {
    "eval/quality.py": "eval.quality",
    "eval/controls.py": "eval.controls",
    "eval/release.py": "eval.release",
    "eval/report.py": "eval.report",
    "quantize/apply.py": "quantize.apply",
}


def run(*arguments: str, folder: Path = ROOT, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments."""
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("script", COMMANDS)
def test_help_comes_at_once(script: str) -> None:
    fastest = min(timed(script) for _ in range(3))
    assert fastest < 0.3


def timed(script: str) -> float:
    """Seconds for --help."""
    start = time.perf_counter()
    assert run(script, "--help").returncode == 0
    return time.perf_counter() - start


@pytest.mark.parametrize("script", COMMANDS)
def test_from_another_folder_and_as_a_module(script: str, tmp_path: Path) -> None:
    by_path = run(str(ROOT / script), "--help", folder=tmp_path)
    by_name = run("-m", COMMANDS[script], "--help")
    installed = run("-m", COMMANDS[script], "--help", folder=tmp_path, path=str(ROOT))
    assert by_path.returncode == by_name.returncode == installed.returncode == 0
    assert by_path.stdout == by_name.stdout == installed.stdout
    assert by_path.stdout.startswith(f"usage: {COMMANDS[script]}")


@pytest.mark.parametrize("script", ["eval/quality.py", "quantize/apply.py"])
def test_unknown_method_lists_the_known(script: str) -> None:
    done = run(script, "--method", "w9")
    assert done.returncode == 2
    assert "invalid choice: 'w9'" in done.stderr
    assert "w8" in done.stderr


def test_unknown_checkpoint_is_one_line(tmp_path: Path) -> None:
    done = run("eval/quality.py", "--method", "w8", "--checkpoint", str(tmp_path / "none"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: checkpoint ")
