"""The loop that coremltools makes of a GRU: recognized, and the same numbers as step by step; a loop that differs is left alone.

python -m pytest tests/test_mlprogram_gru_loop.py -q
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
import torch
from torch import nn

from core.figures import snr_db
from mlprogram import Program
from tests.test_mlprogram_networks import convert, stored

SHAPE = (1, 9, 6)  # batch, steps, features


class Layers(nn.Module):
    """GRUs as users write them; the first state is not zero where `first` is set."""

    def __init__(self, first: bool = False, **more: object) -> None:
        super().__init__()
        self.gru = nn.GRU(6, 8, batch_first=True, **more)
        self.first = nn.Parameter(torch.randn(1, 1, 8)) if first else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gru(x, None if self.first is None else self.first.expand(1, x.shape[0], 8).contiguous())[0]


KINDS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "one": (Layers, SHAPE, 1),
    "batch of 3": (Layers, (3, 9, 6), 1),
    "no bias": (lambda: Layers(bias=False), SHAPE, 1),
    "first state": (lambda: Layers(first=True), (2, 9, 6), 1),
    "two layers": (lambda: Layers(num_layers=2), SHAPE, 2),
    "both directions": (lambda: Layers(bidirectional=True), SHAPE, 2),
}


def loops(program: Program) -> list:
    """The plan's loops: what each was recognized as."""
    return [step.gru for step in program._plan.body.steps if step.op.op_type == "while_loop"]


def watched(program: Program, x: torch.Tensor) -> torch.Tensor:
    """With a hook every step of the loop is run, and seen."""
    seen = []
    y = program({"x": x}, hook=lambda name, kind, value: seen.append(kind))["y"]
    assert seen.count("tanh") >= x.shape[1]
    return y


@pytest.mark.parametrize("precision", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("kind", KINDS)
def test_recognized_loop_gives_what_its_steps_give(kind: str, precision: str, tmp_path: Path) -> None:
    make, shape, count = KINDS[kind]
    torch.manual_seed(0)
    module = make().eval()
    path = stored(convert(module, shape, ct.target.iOS17, precision), tmp_path / "g.mlpackage")
    x = torch.randn(shape)
    for name in ("declared", "exact", "exact64"):
        program = Program(path, precision=name)
        assert len(loops(program)) == count and None not in loops(program)
        half = precision == "FLOAT16" and name == "declared"
        limit = 75.0 if half else 120.0  # a product that falls on an edge of fp16 goes either way with the order of its sum
        assert snr_db(watched(program, x), program({"x": x})["y"]) >= limit
    with torch.no_grad():
        assert snr_db(module(x), Program(path)({"x": x})["y"]) >= (55.0 if precision == "FLOAT16" else 120.0)


def test_fp16_steps_are_rounded_as_declared(tmp_path: Path) -> None:
    """With numbers whose products are exact in any order, recognized and step by step agree bit by bit."""
    torch.manual_seed(0)
    module = Layers().eval()
    for parameter in module.parameters():
        parameter.data = torch.randint(-2, 3, parameter.shape) / 4
    path = stored(convert(module, SHAPE, ct.target.iOS17, "FLOAT16"), tmp_path / "g.mlpackage")
    program, x = Program(path), torch.randint(-8, 9, SHAPE) / 8
    assert torch.equal(watched(program, x), program({"x": x})["y"])
    assert not torch.equal(program({"x": x})["y"], Program(path, precision="exact")({"x": x})["y"])


def _changed(path: Path, out: Path, change: Callable[[list], None]) -> Path:
    """The package with the loop's body changed."""
    model = ct.models.MLModel(str(path), skip_model_load=True)
    spec = model.get_spec()
    function = spec.mlProgram.functions["main"]
    block = function.block_specializations[function.opset]
    change(next(op for op in block.operations if op.type == "while_loop").blocks[1].operations)
    ct.models.MLModel(spec, weights_dir=model.weights_dir, skip_model_load=True).save(str(out))
    return out


def _another_gate(operations: list) -> None:
    next(op for op in operations if op.type == "sigmoid").type = "tanh"


def _another_rest(operations: list) -> None:
    next(op for op in operations if op.type == "sub").type = "add"


def _gates_swapped(operations: list) -> None:
    """The last product takes the reset gate in place of the update gate."""
    first = next(op for op in operations if op.type == "sigmoid").outputs[0].name
    last = [op for op in operations if op.type == "mul"][-1]
    for binding in (last.inputs["x"].arguments[0], last.inputs["y"].arguments[0]):
        if binding.name.startswith("sigmoid"):
            binding.name = first


@pytest.mark.parametrize("change", [_another_gate, _another_rest, _gates_swapped])
def test_another_loop_is_left_alone(change: Callable, tmp_path: Path) -> None:
    torch.manual_seed(0)
    path = stored(convert(Layers().eval(), SHAPE, ct.target.iOS17), tmp_path / "g.mlpackage")
    program = Program(_changed(path, tmp_path / "c.mlpackage", change))
    assert loops(program) == [None]
    x = torch.randn(SHAPE)
    assert torch.equal(program({"x": x})["y"], program({"x": x}, hook=lambda *_: None)["y"])
    assert snr_db(Program(path)({"x": x})["y"], program({"x": x})["y"]) < 40


def test_engine_model_keeps_its_own_sums(tmp_path: Path) -> None:
    path = stored(convert(Layers().eval(), SHAPE, ct.target.iOS17, "FLOAT16"), tmp_path / "g.mlpackage")
    assert loops(Program(path, precision="ane_numerics")) == [None]
    assert np.isfinite(Program(path, precision="ane_numerics")({"x": torch.randn(SHAPE)})["y"].numpy()).all()
