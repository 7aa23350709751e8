"""Compiled models: a .mlmodelc gives what the package it came from gives, and what cannot be read says so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
import torch
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import Function, types
from torch import nn

from mlprogram import MLModel, Program, ProgramError
from mlprogram.miltext import parse_program
from mlprogram.tests.built import converted, save
from mlprogram.tests.built_compiled import compile_package

# the syntax of published folders, older compilers' (ios16) and newer ones' (ios18)
OLD = """program(1.0)
[buildInfo = dict<tensor<string, []>, tensor<string, []>>({{"coremlc-component-MIL", "3500.14.1"}, {"coremlc-version", "3500.32.1"}})]
{
    func main<ios16>(tensor<fp16, [1, ?]> audio) [FlexibleShapeInformation = tuple<tuple<tensor<string, []>, dict<tensor<string, []>,
        tensor<int32, [?]>>>, tuple<tensor<string, []>, dict<tensor<string, []>, list<tensor<int32, [2]>, ?>>>>((("DefaultShapes",
        {{"audio", [1, 4]}}), ("RangeDims", {{"audio", [[1, 1], [2, 9]]}})))] {
            tensor<fp16, []> gain = const()[name = tensor<string, []>("op_1"), val = tensor<fp16, []>(-0x1.8p+0)];
            tensor<bool, []> together = const()[name = tensor<string, []>("op_2"), val = tensor<bool, []>(false)];
            tensor<int32, []> axis = const()[name = tensor<string, []>("op_3"), val = tensor<int32, []>(-1)];
            tensor<fp16, [1, ?]> loud = mul(x = audio, y = gain)[name = tensor<string, []>("op_4")];
            tensor<fp16, [1, ?]> both = concat(axis = axis, interleave = together, values = (audio, loud))[name = tensor<string, []>("b")];
            tensor<fp16, [1, ?]> first, tensor<fp16, [1, ?]> second = split(axis = axis, num_splits = tensor<int32, []>(2), x = both);
        } -> (second, first);
}"""
NEW = """program(1.3)
[buildInfo = dict<string, string>({{"coremlc-component-MIL", "3510.2.1"}, {"coremltools-version", "9.0"}})]
{
    func main<ios18>(state<tensor<fp16, [2]>> memory, tensor<fp16, [2]> x) {
            tensor<fp16, [2]> before = read_state(input = memory)[name = string("before")];
            fp16 half = const()[name = string("half"), val = fp16(0x1p-1)];
            tensor<fp16, [2]> kept = mul(x = before, y = half)[name = string("a \\"name\\"")];
            tensor<fp16, [2]> sum = add(x = kept, y = x)[name = string("sum")];
            write_state(data = sum, input = memory)[name = string("w")];
        } -> (sum);
}"""


class Net(nn.Module):
    """Weights in the blob file, an LSTM, several outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.lstm = nn.Conv1d(4, 16, 5, padding=2), nn.LSTM(16, 12, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(self.conv(x)).transpose(1, 2)
        return self.lstm(y)[0], y.mean(1)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("compiled") / "net.mlpackage"
    shapes = ct.EnumeratedShapes([[1, 4, 8], [1, 4, 16]], default=[1, 4, 8])
    return converted(Net(), torch.zeros(1, 4, 8), path, [ct.TensorType("x", shape=shapes)], ("y", "m"))


@pytest.mark.parametrize("scalars", [True, False])
def test_compiled_gives_what_its_package_gives(package: Path, tmp_path: Path, scalars: bool) -> None:
    folder = compile_package(package, tmp_path / "net.mlmodelc", scalars)
    whole, compiled = MLModel(package), MLModel(folder)
    assert compiled.programs[0].inputs == whole.programs[0].inputs
    for length in (8, 16):
        x = np.random.default_rng(length).normal(size=(1, 4, length))
        for name, value in whole.predict({"x": x}).items():
            np.testing.assert_array_equal(value, compiled.predict({"x": x})[name])
    with pytest.raises(ProgramError, match=r"allowed: one of \[1, 4, 8\], \[1, 4, 16\]"):
        compiled.predict({"x": np.zeros((1, 4, 9))})


def test_loops_and_branches(tmp_path: Path) -> None:
    """Nested blocks, in this reader's own spelling: no published text with one was at hand."""
    with Function({"x": mb.placeholder(shape=(3,), dtype=types.fp32)}, opset_version=ct.target.iOS17) as function:
        x = function.inputs["x"]
        step = {"_cond": lambda k, t: mb.less(x=k, y=4), "_body": lambda k, t: (mb.add(x=k, y=1), mb.add(x=t, y=x))}
        total = mb.while_loop(loop_vars=(0, x), **step)[1]
        big = mb.greater(x=mb.reduce_max(x=total), y=9.0)
        function.set_outputs([mb.cond(pred=big, _true_fn=lambda: mb.mul(x=total, y=2.0), _false_fn=lambda: mb.sub(x=total, y=x), name="y")])
    path = save(function, tmp_path / "p.mlpackage", ct.target.iOS17)
    folder = compile_package(path, tmp_path / "p.mlmodelc")
    for x in (np.array([1, 2, 3], np.float32), np.array([0, 1, 0], np.float32)):
        np.testing.assert_array_equal(Program(folder)({"x": x})["y"], Program(path)({"x": x})["y"])


def test_text_of_an_older_compiler(tmp_path: Path) -> None:
    """No metadata.json: shapes come from the function's attribute; outputs may come in another order than they are made."""
    (tmp_path / "a.mlmodelc").mkdir()
    (tmp_path / "a.mlmodelc" / "model.mil").write_text(OLD, encoding="utf-8")
    model = MLModel(tmp_path / "a.mlmodelc")
    out = model.predict({"audio": [[1, 2, 3]]})
    assert list(out) == ["second", "first"]
    assert out["second"].tolist() == [[-1.5, -3, -4.5]]
    assert out["first"].tolist() == [[1, 2, 3]]
    with pytest.raises(ProgramError, match=r"allowed: \[1, 2..9\]"):
        model.predict({"audio": [[1]]})


def test_text_of_a_newer_compiler_with_a_state(tmp_path: Path) -> None:
    (tmp_path / "a.mlmodelc").mkdir()
    (tmp_path / "a.mlmodelc" / "model.mil").write_text(NEW, encoding="utf-8")
    model = MLModel(tmp_path / "a.mlmodelc")
    state = model.make_state()
    assert model.predict({"x": [2, 4]}, state)["sum"].tolist() == [2, 4]
    assert model.predict({"x": [2, 4]}, state)["sum"].tolist() == [3, 6]
    assert state.read_state("memory").tolist() == [3, 6]


def test_pipeline_of_folders(package: Path, tmp_path: Path) -> None:
    """model0 makes y and m, model1 takes m."""
    with Function({"m": mb.placeholder(shape=(1, 16), dtype=types.fp16)}, opset_version=ct.target.iOS17) as function:
        function.set_outputs([mb.reduce_sum(x=function.inputs["m"], axes=[1], name="total")])
    compile_package(package, tmp_path / "p.mlmodelc" / "model0")
    compile_package(save(function, tmp_path / "s.mlpackage", ct.target.iOS17), tmp_path / "p.mlmodelc" / "model1", metadata=False)
    x = np.random.default_rng(0).normal(size=(1, 4, 8))
    out = MLModel(tmp_path / "p.mlmodelc").predict({"x": x})
    assert sorted(out) == ["total", "y"]
    np.testing.assert_allclose(out["total"], MLModel(package).predict({"x": x})["m"].sum(1), rtol=2e-3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("program(1.0) { func main<ios17>(tensor<fp16, [2]> x) { fp16 y = }", "line 1: '}' where a name should stand"),
        ("program(1.0)\n{ func main<ios17>(tensor<fp17, [2]> x) {} -> (x); }", "line 2: .* where an element type other than 'fp17'"),
        ("program(1.0) { func main<ios17>(tensor<fp16, [2]> x) { } -> (x)", "'end of the text' where 'func' should stand"),
        ("program(1.0) { func main<ios17>() { fp16 a = const()[val = fp16(0xzz)]; } -> (a); }", "line 1"),
    ],
)
def test_text_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        parse_program(text)


def test_folders_that_cannot_be_run(package: Path, tmp_path: Path) -> None:
    network = tmp_path / "n.mlmodelc"
    network.mkdir()
    (network / "model.espresso.net").write_text("{}", encoding="utf-8")
    with pytest.raises(ProgramError, match="n.mlmodelc: a compiled neural network, it has no model.mil"):
        MLModel(network)
    folder = compile_package(package, tmp_path / "net.mlmodelc")
    shutil.rmtree(folder / "weights")
    with pytest.raises(ProgramError, match="weight.bin: the program stores its weights in this file, and it is missing"):
        MLModel(folder)
    (folder / "metadata.json").write_text(json.dumps([])[:1], encoding="utf-8")
    with pytest.raises(ProgramError, match="metadata.json: not the metadata of a compiled model"):
        MLModel(folder)
