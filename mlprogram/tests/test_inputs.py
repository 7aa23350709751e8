"""What a program says of its inputs, and one clear line for everything that does not fit."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
import torch
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import types
from coremltools.proto import Model_pb2
from torch import nn

from built import converted, program_of
from mlprogram import PRECISIONS, NonFiniteInput, Program, ProgramError, TensorSpec

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


def convert(
    module: nn.Module, examples: tuple, inputs: list[ct.TensorType], path: Path, **more: Any
) -> Path:
    return converted(module, examples, path, inputs, compute_precision=ct.precision.FLOAT32, **more)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    shape = ct.EnumeratedShapes([list(s) for s in SHAPES], default=list(SHAPES[1]))
    path = tmp_path_factory.mktemp("inputs") / "net.mlpackage"
    return convert(
        Net(), (torch.zeros(SHAPES[1]),), [ct.TensorType("x", shape=shape, dtype=np.float16)], path
    )


@pytest.fixture
def copy(package: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(package, tmp_path / "copy.mlpackage"))


def test_specifications(package: Path) -> None:
    program = Program(package)
    assert program.inputs["x"] == TensorSpec(
        "x", "fp16", SHAPES[1], shapes=program.inputs["x"].shapes
    )
    assert sorted(program.inputs["x"].shapes) == list(SHAPES)
    assert program.outputs["y"].dtype in ("fp16", "fp32")
    assert program.outputs["y"].shape[:3] == (
        1,
        4,
        1,
    )
    assert [op.op_type for op in program.operations if op.op_type not in ("const", "cast")] == [
        "conv",
        "relu",
    ]
    assert {op.path for op in program.operations} == {"main"}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_enumerated_shape_runs(precision: str, package: Path) -> None:
    program = Program(package, precision=precision)
    for shape in SHAPES:
        y = program({"x": np.ones(shape, np.float32)})["y"]
        assert y.shape == shape
        assert y.dtype == {
            "exact": torch.float32,
            "exact64": torch.float64,
        }.get(precision, y.dtype)


def test_ranges_enumerations_and_defaults_of_inputs(tmp_path: Path) -> None:
    shape = ct.Shape([1, 4, 1, ct.RangeDim(5, 50, default=10)])
    program = Program(
        convert(
            Net(),
            (torch.zeros(SHAPES[0]),),
            [ct.TensorType("x", shape=shape)],
            tmp_path / "r.mlpackage",
        )
    )
    assert program.inputs["x"].ranges == ((1, 1), (4, 4), (1, 1), (5, 50))
    assert program({"x": torch.zeros(1, 4, 1, 33)})["y"].shape == (1, 4, 1, 33)
    with pytest.raises(
        ProgramError, match="input 'x' has shape \\[1, 4, 1, 51\\]; allowed: \\[1, 4, 1, 5..50\\]"
    ):
        program({"x": torch.zeros(1, 4, 1, 51)})
    inputs = [ct.TensorType("a", shape=ct.EnumeratedShapes([[1, 2], [1, 4]])),
        ct.TensorType("b", shape=ct.EnumeratedShapes([[1, 3], [1, 6]]))]  # fmt: skip
    program = Program(
        convert(
            Sum(),
            (torch.zeros(1, 2), torch.zeros(1, 3)),
            inputs,
            tmp_path / "p.mlpackage",
            minimum_deployment_target=ct.target.iOS18,
        )
    )
    assert program({"a": torch.ones(1, 4), "b": torch.ones(1, 6)})["y"].tolist() == [[8, 8, 8, 8]]
    with pytest.raises(
        ProgramError,
        match=(
            "pair by index; allowed together: a \\[1, 2\\], b \\[1, 3\\]; a \\[1, 4\\], b \\[1,"
            " 6\\]"
        ),
    ):
        program({"a": torch.ones(1, 4), "b": torch.ones(1, 3)})
    inputs = [
        ct.TensorType("a", shape=(1, 2)),
        ct.TensorType("b", shape=(1, 3), default_value=np.full((1, 3), 0.5, np.float32)),
    ]
    program = Program(
        convert(Sum(), (torch.zeros(1, 2), torch.zeros(1, 3)), inputs, tmp_path / "o.mlpackage")
    )
    assert program.inputs["b"].default == 0.5
    assert program({"a": torch.ones(1, 2)})["y"].tolist() == [[3.5, 3.5]]


def test_inputs_are_rounded_to_their_declared_type(package: Path) -> None:
    x, program = torch.rand(SHAPES[0], dtype=torch.float64), Program(package)
    assert torch.equal(program({"x": x})["y"], program({"x": x.half()})["y"])


REFUSED = {
    "missing": ({}, "missing input 'x'; the program takes x \\(fp16 one of "),
    "unknown": ({"z": np.zeros(SHAPES[0])}, "unknown input 'z'; the program takes x"),
    "shape": (
        {"x": np.zeros((1, 4, 1, 11))},
        (
            "input 'x' has shape \\[1, 4, 1, 11\\]; allowed: one of .*\\[1, 4, 1, 10\\].*\\[1, 4,"
            " 1, 40\\]"
        ),
    ),
    "rank": ({"x": np.zeros((4, 1, 10))}, "input 'x' has shape \\[4, 1, 10\\]"),
    "integers": (
        {"x": np.zeros(SHAPES[0], np.int32)},
        "input 'x' is int32; expected fp16 \\(any float type is taken\\)",
    ),
    "list": (
        {"x": [1.0, 2.0]},
        "input 'x' is a list; give a NumPy array or a torch tensor of fp16",
    ),
    "objects": ({"x": np.full(SHAPES[0], "a")}, "input 'x' holds <U1; give fp16"),
}


class TestRefusals:
    @pytest.mark.parametrize("name", REFUSED)
    def test_input_that_does_not_fit_is_one_clear_line(self, name: str, package: Path) -> None:
        inputs, message = REFUSED[name]
        with pytest.raises(ProgramError, match=message) as caught:
            Program(package)(inputs)
        assert "\n" not in str(caught.value)

    def test_integer_input_out_of_range(self, tmp_path: Path) -> None:
        program = program_of(
            lambda x: [mb.add(x=x, y=1, name="y")], tmp_path, x=((3,), types.int32)
        )
        assert program({"x": np.array([1, 2, 3], np.int64)})["y"].tolist() == [2, 3, 4]
        pytest.raises(ProgramError, program, {"x": np.array([1, 2, 2**32])}).match(
            "input 'x' holds values 1..4294967296, outside int32"
        )
        pytest.raises(ProgramError, program, {"x": np.zeros(3, np.float32)}).match(
            "input 'x' is float32; expected int32"
        )

    def test_nan_and_infinity_are_allowed_counted_and_reported(self, package: Path) -> None:
        program, x = Program(package), np.zeros(SHAPES[0], np.float32)
        x[0, 0, 0, :2], x[0, 1, 0, 3] = np.nan, np.inf
        with pytest.warns(
            NonFiniteInput, match="input 'x' holds 2 NaN and 1 infinite values of 40"
        ):
            y = program({"x": x})["y"]
        assert program.last_nonfinite == {"x": (2, 1)}
        assert y.isnan().any()
        program({"x": np.zeros(SHAPES[0])})
        assert program.last_nonfinite == {}

    def test_not_a_package(self, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        (tmp_path / "text.mlmodel").write_text("not a protobuf at all")
        (tmp_path / "void.mlmodel").write_bytes(b"")
        for name, message in (
            (
                "none.mlpackage",
                "nothing there; give an .mlpackage or .mlmodelc folder or a .mlmodel file",
            ),
            ("empty", "not an .mlpackage, it has no Manifest.json"),
            ("text.mlmodel", "text.mlmodel: not a Core ML specification"),
            ("void.mlmodel", "it has no specification version"),
        ):
            pytest.raises(ProgramError, Program, tmp_path / name).match(message)

    @pytest.mark.parametrize(
        ("name", "damage", "message"),
        [
            (
                "Manifest.json",
                lambda _: b"{",
                r"Manifest.json is no.*; a package manifest is needed",
            ),
            (
                "Manifest.json",
                lambda _: b'{"itemInfoEntries": {}}',
                "must name a rootModelIdentifier",
            ),
            (
                "weight.bin",
                lambda whole: whole[:-8],
                r"weight.bin: \d+ bytes, but a tensor ends at byte.*truncated",
            ),
            (
                "weight.bin",
                lambda whole: whole[:100],
                "weight.bin: 100 bytes, but the program reads a tensor at.*truncated",
            ),
            (
                "weight.bin",
                lambda whole: whole[:10],
                "weight.bin: 10 bytes, shorter than its 64-byte header.*truncated",
            ),
            ("weight.bin", None, "weight.bin: .* it is missing; copy the whole package"),
        ],
    )
    def test_damaged_file(
        self, name: str, damage: Callable[[bytes], bytes] | None, message: str, copy: Path
    ) -> None:
        path = next(copy.rglob(name))
        if damage:
            path.write_bytes(damage(path.read_bytes()))
        else:
            path.unlink()
        pytest.raises(ProgramError, Program, copy).match(message)


def relu_of(spec: Model_pb2.Model) -> Any:
    function = spec.mlProgram.functions["main"]
    return next(
        op for op in function.block_specializations[function.opset].operations if op.type == "relu"
    )


def lie(spec: Model_pb2.Model) -> None:
    relu_of(spec).outputs[0].type.tensorType.dimensions[1].constant.size = 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda spec: setattr(spec, "specificationVersion", 99),
            "specification version 99 is newer than \\d+, the last one coremltools \\S+ knows",
        ),
        (lambda spec: spec.neuralNetwork.SetInParent(), "holds a neuralNetwork, not an ML program"),
        (
            lambda spec: setattr(relu_of(spec), "type", "hyper_relu"),
            (
                "unknown operation hyper_relu 'y' \\(operation \\d+ of main\\);"
                " mlprogram/OPERATIONS.md"
            ),
        ),
        (
            lambda spec: relu_of(spec).inputs["slope"].CopyFrom(relu_of(spec).inputs["x"]),
            "relu 'y' .*: unknown parameter 'slope'; known: x",
        ),
        (
            lambda spec: setattr(relu_of(spec).inputs["x"].arguments[0], "name", "nowhere"),
            "relu 'y' .*: there is no value 'nowhere' at this place",
        ),
        (
            lie,
            (
                "relu 'y' .* gave shape \\[1, 4, 1, 10\\], the program declares \\[1, 5, 1,"
                " 'any'\\] for 'y'"
            ),
        ),
    ],
)
def test_a_specification_that_cannot_be_run_says_why(
    change: Callable, message: str, copy: Path
) -> None:
    model = next(copy.rglob("model.mlmodel"))
    spec = Model_pb2.Model.FromString(model.read_bytes())
    change(spec)
    model.write_bytes(spec.SerializeToString())
    with pytest.raises(ProgramError, match=message):
        Program(copy)({"x": np.zeros(SHAPES[0])})


def test_operation_that_fails_says_where_and_on_what(tmp_path: Path) -> None:
    program = program_of(
        lambda x, i: [mb.gather(x=x, indices=i, axis=0, name="y")],
        tmp_path,
        x=(3,),
        i=((1,), types.int32),
    )
    with pytest.raises(
        ProgramError,
        match=(
            "gather 'y' \\(operation \\d+ of main\\) failed: index 7 is outside an axis of 3; its"
            " inputs: .*float32 \\[3\\]"
        ),
    ):
        program({"x": np.zeros(3), "i": np.array([7])})


def test_unknown_precision(package: Path) -> None:
    with pytest.raises(
        ProgramError,
        match=(
            "precision 'fp8' is unknown; one of declared, exact, exact64, declared64, ane_numerics"
        ),
    ):
        Program(package, precision="fp8")


# the .mlmodel inside a package, with its weights folder beside it
def test_bare_model_file_runs(package: Path, tmp_path: Path) -> None:
    inside = next(package.rglob("model.mlmodel")).parent
    shutil.copytree(inside, tmp_path / "bare")
    x = {"x": np.ones(SHAPES[0], np.float32)}
    assert torch.equal(
        Program(tmp_path / "bare" / "model.mlmodel")(x)["y"], Program(package)(x)["y"]
    )


# coremltools' users and tests match these words
def test_a_shape_is_refused_in_core_mls_words_too() -> None:
    ranged = TensorSpec("x", "fp32", (3, 1), ranges=((3, 5), (1, None)))
    assert ranged.refusal((99, 0)) == "; Size (99) of dimension (0) is not in allowed range (3..5)"
    assert ranged.refusal((4, 1)) == ""
    assert ranged.refusal((4,)) == ""
    listed = TensorSpec("x", "fp32", (1, 3), shapes=((1, 3), (1, 4)))
    assert (
        listed.refusal((1, 29))
        == "; MultiArray Shape (1 x 29) was not in enumerated set of allowed shapes"
    )
