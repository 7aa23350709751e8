"""The comparison of two versions of coremltools: what counts as the same package, and what is then
judged.
"""

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import coremltools as ct
import pytest
import torch
from torch import nn

from bench import coremltools_versions
from built import converted
from mlprogram.package import open_package


def another_version(package):
    model = next(package.rglob("model.mlmodel"))
    spec = open_package(package).spec
    spec.mlProgram.attributes["buildInfo"].docString = "of another version"
    model.write_bytes(spec.SerializeToString())


def another_weight(package):
    weights = next(package.rglob("weight.bin"))
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")


def another_operation(package):
    model = next(package.rglob("model.mlmodel"))
    spec = open_package(package).spec
    function = spec.mlProgram.functions["main"]
    operations = function.block_specializations[function.opset].operations
    next(op for op in operations if op.type == "relu").type = "tanh"
    model.write_bytes(spec.SerializeToString())


@pytest.mark.parametrize(
    ("change", "judged", "exit_code"),
    [(another_version, 0, 0), (another_weight, 2, 1), (another_operation, 2, 1)],
)
def test_only_what_differs_is_judged(change, judged, exit_code, tmp_path, monkeypatch):
    x = torch.ones(1, 4, 9)
    module = nn.Sequential(nn.Conv1d(4, 4, 3), nn.ReLU())
    stored = converted(module, tmp_path, ct.TensorType("x", x.shape))
    ran = []

    def run(words, **_):
        ran.append(words)
        if words[-2] == "--out":
            package = Path(words[-1]) / "V-fp16.mlpackage"
            shutil.copytree(stored, package)
            if words[0] == "other":
                change(package)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", run)
    assert coremltools_versions.main(["other", "tiny", str(tmp_path)]) == exit_code
    assert sum("quality" in words for words in ran) == judged
    assert {words[0] == "other" for words in ran} == {True, False}
