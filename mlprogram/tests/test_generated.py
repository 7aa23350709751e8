"""The list of operations is current, and nothing is on it that no test runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
import torch
from torch import nn

from mlprogram.__main__ import main
from mlprogram.constants import CONSTEXPR
from mlprogram.ops import CONTROL, KERNELS
from mlprogram.ops_doc import DOCUMENT, render
from mlprogram.tests import test_elementwise, test_images, test_indexing, test_layers, test_layout
from mlprogram.tests.built import converted

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = (test_elementwise, test_images, test_indexing, test_layers, test_layout)
TESTED_BY_HAND = {  # operation -> what the test of that file writes
    **dict.fromkeys(("cond", "while_loop", "non_maximum_suppression"), "test_programs.py"),
    "read_state": "test_mlmodel.py",
    **dict.fromkeys((name for name in KERNELS if name.startswith(("random_", "list_", "make_list"))), "test_programs.py"),
    **dict.fromkeys(CONSTEXPR, "test_constants.py"),
}
WRITTEN_AS = {"write_state": "mb.coreml_update_state", "classify": "ClassifierConfig"}


def test_document_is_current() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == render(), "run: python -m mlprogram.ops_doc"


def test_every_listed_operation_has_a_test() -> None:
    listed = set(KERNELS) | set(CONSTEXPR) | set(CONTROL)
    cases = set().union(*(module.CASES for module in FAMILIES))
    folder = Path(__file__).parent
    by_hand = {op for op, file in TESTED_BY_HAND.items() if op in (folder / file).read_text(encoding="utf-8")}
    programs = (folder / "test_mlmodel.py").read_text(encoding="utf-8")
    by_hand |= {op for op, text in WRITTEN_AS.items() if text in programs}
    assert listed == cases | by_hand


def test_all_of_coremltools_operations_are_known() -> None:
    """Whatever coremltools can emit, but the two nobody emits: conv_quantized (experimental) and _const_symbolic (internal)."""
    from coremltools.converters.mil.mil.ops.registry import SSAOpRegistry

    known = set(KERNELS) | set(CONSTEXPR) | set(CONTROL) | {"const"}
    assert set(SSAOpRegistry.core_ops) - known == {"conv_quantized", "_const_symbolic"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The network of README.md's figures."""
    torch.manual_seed(0)
    convs = nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.Conv2d(32, 64, 3, padding=2, dilation=2)
    module = nn.Sequential(convs[0], nn.GELU(), convs[1], nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).eval()
    return converted(
        module, torch.randn(1, 3, 64, 64), tmp_path / "Model.mlpackage", [ct.TensorType("image", shape=(1, 3, 64, 64))], ("scores",)
    )


def test_the_readme_runs_and_its_figures_are_those(model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    text = (ROOT / "mlprogram" / "README.md").read_text(encoding="utf-8")
    monkeypatch.chdir(model.parent)
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    found: dict = {}
    exec(example, found)
    assert found["scores"].shape == (1, 10) and 0 < found["error"] < 0.01 and "scores" in found["largest"]
    said = {}
    for verb, line in re.findall(r"^python -m mlprogram (describe|ane) (.*)$", text, re.MULTILINE):
        assert main([verb, *shlex.split(line)]) == 0
        said[verb] = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert said["describe"]["totals"]["live_peak_bytes"] == 262_144 and said["describe"]["by_type"]["conv"]["macs"] == 19_759_104
    low_high = {f["chip"]: [round(ms, 2) for ms in f["optimistic"]["latency_ms"]] for f in said["ane"]["forecasts"]}
    for chip, (low, high) in low_high.items():
        assert chip != "m1" or f"{low} to {high}" in text


@pytest.mark.slow
def test_the_test_of_the_page_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "mlprogram.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(# test_my_model\.py.*?)```", text, re.DOTALL)
    (tmp_path / "test_my_model.py").write_text(example, encoding="utf-8")
    module, x = nn.Sequential(nn.Conv1d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv1d(8, 2, 1)).eval(), torch.randn(1, 3, 16)
    converted(module, x, tmp_path / "MyModel.mlpackage", [ct.TensorType("x", shape=x.shape)])
    np.savez(tmp_path / "recorded.npz", x=x.numpy(), y=module(x).detach().numpy())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "test_my_model.py"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
