"""Bad arguments of eval.quality: the known methods are listed; a process of its own says one line and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eval.quality import main

ROOT = Path(__file__).resolve().parents[1]


def test_unknown_method_lists_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--method", "w9"])
    error = capsys.readouterr().err
    assert "invalid choice: 'w9'" in error and "w8" in error


def test_unknown_checkpoint_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "eval/quality.py", "--method", "w8", "--checkpoint", str(tmp_path / "none")]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: checkpoint ")
