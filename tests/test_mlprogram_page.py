"""The pytest example of docs/mlprogram.md runs as it stands there.

python -m pytest tests/test_mlprogram_page.py -q
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import coremltools as ct
import numpy as np
import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[1]


def test_the_example_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "mlprogram.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(# test_my_model\.py.*?)```", text, re.DOTALL)
    (tmp_path / "test_my_model.py").write_text(example, encoding="utf-8")
    torch.manual_seed(0)
    module, x = nn.Sequential(nn.Conv1d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv1d(8, 2, 1)).eval(), torch.randn(1, 3, 16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(module, x)
        options = {"outputs": [ct.TensorType("y")], "minimum_deployment_target": ct.target.iOS17, "skip_model_load": True}
        ct.convert(traced, inputs=[ct.TensorType("x", shape=x.shape)], **options).save(str(tmp_path / "MyModel.mlpackage"))
    np.savez(tmp_path / "recorded.npz", x=x.numpy(), y=module(x).detach().numpy())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "test_my_model.py"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
