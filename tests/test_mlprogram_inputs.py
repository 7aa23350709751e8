"""What a program says of its inputs, and one clear line for everything that does not fit.

python -m pytest tests/test_mlprogram_inputs.py -q
"""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
import torch
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import Function, types
from coremltools.proto import Model_pb2
from torch import nn

from mlprogram import PRECISIONS, NonFiniteInput, Program, ProgramError, TensorSpec
from tests.mlprogram_build import save

SHAPES = ((1, 4, 1, 10), (1, 4, 1, 20), (1, 4, 1, 40))


class Net(nn.Module):
    """Large enough that its weights go to the blob file."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, (1, 9), padding=(0, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(x))


class Sum(nn.Module):
    """Two inputs."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a * 2 + b.sum(-1, keepdim=True)


def convert(module: nn.Module, examples: tuple, inputs: list[ct.TensorType], path: Path, target: ct.target = ct.target.iOS17) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(module.eval(), examples, check_trace=False)
        options = {"convert_to": "mlprogram", "minimum_deployment_target": target, "skip_model_load": True}
        ct.convert(traced, inputs=inputs, outputs=[ct.TensorType("y")], compute_precision=ct.precision.FLOAT32, **options).save(str(path))
    return path


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    shape = ct.EnumeratedShapes([list(s) for s in SHAPES], default=list(SHAPES[1]))
    path = tmp_path_factory.mktemp("inputs") / "net.mlpackage"
    return convert(Net(), (torch.zeros(SHAPES[1]),), [ct.TensorType("x", shape=shape, dtype=np.float16)], path)


@pytest.fixture
def copy(package: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(package, tmp_path / "copy.mlpackage"))


def test_specifications(package: Path) -> None:
    program = Program(package)
    assert program.inputs["x"] == TensorSpec("x", "fp16", SHAPES[1], shapes=program.inputs["x"].shapes)
    assert sorted(program.inputs["x"].shapes) == list(SHAPES)
    assert program.outputs["y"].dtype in ("fp16", "fp32") and program.outputs["y"].shape[:3] == (1, 4, 1)
    assert [op.op_type for op in program.operations if op.op_type not in ("const", "cast")] == ["conv", "relu"]
    assert {op.path for op in program.operations} == {"main"}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_enumerated_shape_runs(precision: str, package: Path) -> None:
    program = Program(package, precision=precision)
    for shape in SHAPES:
        y = program({"x": np.ones(shape, np.float32)})["y"]
        assert y.shape == shape and y.dtype == {"exact": torch.float32, "exact64": torch.float64}.get(precision, y.dtype)


def test_ranges(tmp_path: Path) -> None:
    shape = ct.Shape([1, 4, 1, ct.RangeDim(5, 50, default=10)])
    program = Program(convert(Net(), (torch.zeros(SHAPES[0]),), [ct.TensorType("x", shape=shape)], tmp_path / "r.mlpackage"))
    assert program.inputs["x"].ranges == ((1, 1), (4, 4), (1, 1), (5, 50))
    assert program({"x": torch.zeros(1, 4, 1, 33)})["y"].shape == (1, 4, 1, 33)
    with pytest.raises(ProgramError, match="input 'x' has shape \\[1, 4, 1, 51\\]; allowed: \\[1, 4, 1, 5..50\\]"):
        program({"x": torch.zeros(1, 4, 1, 51)})


def test_enumerations_pair_by_index(tmp_path: Path) -> None:
    inputs = [
        ct.TensorType("a", shape=ct.EnumeratedShapes([[1, 2], [1, 4]])),
        ct.TensorType("b", shape=ct.EnumeratedShapes([[1, 3], [1, 6]])),
    ]
    program = Program(convert(Sum(), (torch.zeros(1, 2), torch.zeros(1, 3)), inputs, tmp_path / "p.mlpackage", ct.target.iOS18))
    assert program({"a": torch.ones(1, 4), "b": torch.ones(1, 6)})["y"].tolist() == [[8, 8, 8, 8]]
    with pytest.raises(ProgramError, match="pair by index; allowed together: a \\[1, 2\\], b \\[1, 3\\]; a \\[1, 4\\], b \\[1, 6\\]"):
        program({"a": torch.ones(1, 4), "b": torch.ones(1, 3)})


def test_optional_input_takes_its_default(tmp_path: Path) -> None:
    inputs = [ct.TensorType("a", shape=(1, 2)), ct.TensorType("b", shape=(1, 3), default_value=np.full((1, 3), 0.5, np.float32))]
    program = Program(convert(Sum(), (torch.zeros(1, 2), torch.zeros(1, 3)), inputs, tmp_path / "o.mlpackage"))
    assert program.inputs["b"].default == 0.5
    assert program({"a": torch.ones(1, 2)})["y"].tolist() == [[3.5, 3.5]]


def test_inputs_are_rounded_to_their_declared_type(package: Path) -> None:
    x = torch.rand(SHAPES[0], dtype=torch.float64)
    program = Program(package)
    assert torch.equal(program({"x": x})["y"], program({"x": x.half()})["y"])


REFUSED = {
    "missing": ({}, "missing input 'x'; the program takes x \\(fp16 one of "),
    "unknown": ({"z": np.zeros(SHAPES[0])}, "unknown input 'z'; the program takes x"),
    "shape": (
        {"x": np.zeros((1, 4, 1, 11))},
        "input 'x' has shape \\[1, 4, 1, 11\\]; allowed: one of .*\\[1, 4, 1, 10\\].*\\[1, 4, 1, 40\\]",
    ),
    "rank": ({"x": np.zeros((4, 1, 10))}, "input 'x' has shape \\[4, 1, 10\\]"),
    "integers": ({"x": np.zeros(SHAPES[0], np.int32)}, "input 'x' is int32; expected fp16 \\(any float type is taken\\)"),
    "list": ({"x": [1.0, 2.0]}, "input 'x' is a list; give a NumPy array or a torch tensor of fp16"),
    "objects": ({"x": np.full(SHAPES[0], "a")}, "input 'x' holds <U1; give fp16"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_input_that_does_not_fit_is_one_clear_line(name: str, package: Path) -> None:
    given, message = REFUSED[name]
    with pytest.raises(ProgramError, match=message) as caught:
        Program(package)(given)
    assert "\n" not in str(caught.value)


def test_integer_input_out_of_range(tmp_path: Path) -> None:
    with Function({"x": mb.placeholder(shape=(3,), dtype=types.int32)}, opset_version=ct.target.iOS17) as function:
        function.set_outputs([mb.add(x=function.inputs["x"], y=1, name="y")])
    program = Program(save(function, tmp_path / "i.mlpackage", ct.target.iOS17))
    assert program({"x": np.array([1, 2, 3], np.int64)})["y"].tolist() == [2, 3, 4]
    with pytest.raises(ProgramError, match="input 'x' holds values 1..4294967296, outside int32"):
        program({"x": np.array([1, 2, 2**32])})
    with pytest.raises(ProgramError, match="input 'x' is float32; expected int32"):
        program({"x": np.zeros(3, np.float32)})


def test_nan_and_infinity_are_allowed_counted_and_reported(package: Path) -> None:
    program, x = Program(package), np.zeros(SHAPES[0], np.float32)
    x[0, 0, 0, :2], x[0, 1, 0, 3] = np.nan, np.inf
    with pytest.warns(NonFiniteInput, match="input 'x' holds 2 NaN and 1 infinite values of 40"):
        y = program({"x": x})["y"]
    assert program.last_nonfinite == {"x": (2, 1)} and y.isnan().any()
    program({"x": np.zeros(SHAPES[0])})
    assert program.last_nonfinite == {}


def test_not_a_package(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="nothing there; give an .mlpackage or .mlmodelc folder or a .mlmodel file"):
        Program(tmp_path / "none.mlpackage")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ProgramError, match="not an .mlpackage, it has no Manifest.json"):
        Program(tmp_path / "empty")
    (tmp_path / "text.mlmodel").write_text("not a protobuf at all")
    with pytest.raises(ProgramError, match="text.mlmodel: not a Core ML specification"):
        Program(tmp_path / "text.mlmodel")
    (tmp_path / "void.mlmodel").write_bytes(b"")
    with pytest.raises(ProgramError, match="it has no specification version"):
        Program(tmp_path / "void.mlmodel")


def test_damaged_manifest(copy: Path) -> None:
    (copy / "Manifest.json").write_text("{")
    with pytest.raises(ProgramError, match=r"Manifest.json is no.*; a package manifest is needed"):
        Program(copy)
    (copy / "Manifest.json").write_text(json.dumps({"itemInfoEntries": {}}))
    with pytest.raises(ProgramError, match="must name a rootModelIdentifier"):
        Program(copy)


def weight_file(package: Path) -> Path:
    return next(package.rglob("weight.bin"))


def test_truncated_weight_file(copy: Path) -> None:
    path = weight_file(copy)
    whole = path.read_bytes()
    for size, message in (
        (len(whole) - 8, "but a tensor ends at byte"),
        (100, "but the program reads a tensor at"),
        (10, "shorter than its 64-byte header"),
    ):
        path.write_bytes(whole[:size])
        with pytest.raises(ProgramError, match=f"weight.bin: {size} bytes, {message}.*truncated"):
            Program(copy)
    path.unlink()
    with pytest.raises(ProgramError, match="weight.bin: .* it is missing; copy the whole package"):
        Program(copy)


def rewritten(copy: Path, change) -> Path:
    """The copy with its specification changed."""
    model = next(copy.rglob("model.mlmodel"))
    spec = Model_pb2.Model.FromString(model.read_bytes())
    change(spec)
    model.write_bytes(spec.SerializeToString())
    return copy


def test_specification_newer_than_coremltools(copy: Path) -> None:
    def newer(spec):
        spec.specificationVersion = 99

    with pytest.raises(ProgramError, match="specification version 99 is newer than \\d+, the last one coremltools 9.0 knows"):
        Program(rewritten(copy, newer))


def test_another_kind_of_model(copy: Path) -> None:
    def other(spec):
        spec.neuralNetwork.SetInParent()

    with pytest.raises(ProgramError, match="holds a neuralNetwork, not an ML program"):
        Program(rewritten(copy, other))


def main_block(spec):
    function = spec.mlProgram.functions["main"]
    return function.block_specializations[function.opset]


def test_unknown_operation_names_itself_and_its_place(copy: Path) -> None:
    def rename(spec):
        next(op for op in main_block(spec).operations if op.type == "relu").type = "hyper_relu"

    with pytest.raises(ProgramError, match="unknown operation hyper_relu 'y' \\(operation \\d+ of main\\); docs/mlprogram_ops.md"):
        Program(rewritten(copy, rename))


def test_unknown_parameter_and_value(copy: Path, package: Path) -> None:
    def add_parameter(spec):
        relu = next(op for op in main_block(spec).operations if op.type == "relu")
        relu.inputs["slope"].CopyFrom(relu.inputs["x"])

    with pytest.raises(ProgramError, match="relu 'y' .*: unknown parameter 'slope'; known: x"):
        Program(rewritten(copy, add_parameter))

    def misname(spec):
        relu = next(op for op in main_block(spec).operations if op.type == "relu")
        del relu.inputs["slope"]
        relu.inputs["x"].arguments[0].name = "nowhere"

    with pytest.raises(ProgramError, match="relu 'y' .*: there is no value 'nowhere' at this place"):
        Program(rewritten(copy, misname))


def test_operation_that_fails_says_where_and_on_what(tmp_path: Path) -> None:
    with Function(
        {"x": mb.placeholder(shape=(3,), dtype=types.fp32), "i": mb.placeholder(shape=(1,), dtype=types.int32)},
        opset_version=ct.target.iOS17,
    ) as function:
        function.set_outputs([mb.gather(x=function.inputs["x"], indices=function.inputs["i"], axis=0, name="y")])
    program = Program(save(function, tmp_path / "g.mlpackage", ct.target.iOS17))
    with pytest.raises(
        ProgramError,
        match="gather 'y' \\(operation \\d+ of main\\) failed: index 7 is outside an axis of 3; its inputs: .*float32 \\[3\\]",
    ):
        program({"x": np.zeros(3), "i": np.array([7])})


def test_result_of_another_shape_than_declared(copy: Path) -> None:
    """A program that lies about its own shapes is stopped at the operation."""

    def lie(spec):
        relu = next(op for op in main_block(spec).operations if op.type == "relu")
        relu.outputs[0].type.tensorType.dimensions[1].constant.size = 5

    with pytest.raises(ProgramError, match="relu 'y' .* gave shape \\[1, 4, 1, 10\\], the program declares \\[1, 5, 1, 'any'\\] for 'y'"):
        Program(rewritten(copy, lie))({"x": np.zeros(SHAPES[0])})


def test_unknown_precision(package: Path) -> None:
    with pytest.raises(
        ProgramError, match="precision 'fp8' is unknown; one of declared, exact, exact64, declared64, ane_numerics, core_ai, core_ai64"
    ):
        Program(package, precision="fp8")


def test_bare_model_file_runs(package: Path, tmp_path: Path) -> None:
    """The .mlmodel inside a package, with its weights folder beside it."""
    inside = next(package.rglob("model.mlmodel")).parent
    shutil.copytree(inside, tmp_path / "bare")
    x = {"x": np.ones(SHAPES[0], np.float32)}
    assert torch.equal(Program(tmp_path / "bare" / "model.mlmodel")(x)["y"], Program(package)(x)["y"])


def test_a_shape_is_refused_in_core_mls_words_too() -> None:
    """coremltools' users and tests match these words."""
    ranged = TensorSpec("x", "fp32", (3, 1), ranges=((3, 5), (1, None)))
    assert ranged.refusal((99, 0)) == "; Size (99) of dimension (0) is not in allowed range (3..5)"
    assert ranged.refusal((4, 1)) == "" and ranged.refusal((4,)) == ""
    listed = TensorSpec("x", "fp32", (1, 3), shapes=((1, 3), (1, 4)))
    assert listed.refusal((1, 29)) == "; MultiArray Shape (1 x 29) was not in enumerated set of allowed shapes"
