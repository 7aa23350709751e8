"""bench.models at small widths: every network converts, runs and agrees; a wrong one is rejected.

python -m pytest tests/test_bench_models.py -q
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from bench.compressions import COMPRESSIONS, twin
from bench.models import COMPRESSED_OF, LIMITS_DB, compressed_figures, convert, main, measure, network_figures
from bench.networks import NETWORKS


@pytest.mark.parametrize("name", NETWORKS)
def test_network_agrees_with_float64(name: str, tmp_path: Path) -> None:
    figures = network_figures(name, tiny=True, rounds=1, folder=tmp_path)
    assert figures["holds"], figures["db"]
    assert set(figures["to_eager"]) == set(LIMITS_DB)


@pytest.mark.parametrize("method", ["int4 weights in blocks", "sparse and palette of 4 bits"])
def test_compressed_weights_are_those_that_coremltools_decompresses(method: str, tmp_path: Path) -> None:
    figures = compressed_figures(method, tiny=True, rounds=1, folder=tmp_path)
    assert figures["holds"], figures["db"]


def test_another_module_is_rejected(tmp_path: Path) -> None:
    """The control: the package of one set of weights beside the module of another, and dense weights beside compressed ones."""
    torch.manual_seed(0)
    case, other = (NETWORKS[COMPRESSED_OF].make(True) for _ in range(2))
    for each in (case, other):
        each.module.eval()
    model = convert(case, "fp32")
    model.save(str(tmp_path / "a.mlpackage"))
    assert not measure(other, {"fp32": tmp_path / "a.mlpackage"}, 1)["holds"]
    compressed = COMPRESSIONS["palette of 6 bits"](model, 16)
    compressed.save(str(tmp_path / "b.mlpackage"))
    assert not measure(case, {"fp32": tmp_path / "b.mlpackage"}, 1)["holds"]
    with pytest.raises(ValueError, match="nothing was compressed"):
        twin(case.module, model, tmp_path / "c.mlpackage")


def test_command(capsys: pytest.CaptureFixture) -> None:
    assert main(["--tiny", "--rounds", "1", "--network", "GRU 32, 100 steps"]) == 0
    lines = capsys.readouterr().out.strip().splitlines()
    assert json.loads(lines[-1])["networks"]["GRU 32, 100 steps"]["holds"]
    assert lines[0].startswith("| network |")
    assert main(["--network", "GPT-9"]) == 2 and "unknown; one of ResNet-50" in capsys.readouterr().err
    assert main(["--rounds", "0"]) == 2
