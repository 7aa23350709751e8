"""What a program says of its inputs, and one clear line for everything that does not fit."""

import shutil
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
import torch
from coremltools.converters.mil.mil import Builder as mb
from coremltools.proto import Model_pb2
from torch import nn

from built import FP32, IOS18, converted, operations_of, program_of
from mlprogram import PRECISIONS, NonFiniteInput, Program, ProgramError, TensorSpec

SHAPES = ((1, 4, 1, 10), (1, 4, 1, 20), (1, 4, 1, 40))
ZEROS = np.zeros(SHAPES[0])


def network():
    """Large enough that its weights go to the blob file."""
    return nn.Sequential(nn.Conv2d(4, 4, (1, 9), padding=(0, 4)), nn.ReLU())


class Sum(nn.Module):
    """Two inputs."""

    def forward(self, a, b):
        return a * 2 + b.sum(-1, keepdim=True)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    torch.manual_seed(0)
    shape = ct.EnumeratedShapes([list(s) for s in SHAPES], default=list(SHAPES[1]))
    x = ct.TensorType("x", shape=shape, dtype=np.float16)
    return converted(network(), tmp_path_factory.mktemp("inputs"), x, compute_precision=FP32)


@pytest.fixture
def copy(package, tmp_path):
    return Path(shutil.copytree(package, tmp_path / "copy.mlpackage"))


def test_specifications(package):
    program = Program(package)
    spec = program.inputs["x"]
    assert spec == TensorSpec("x", "fp16", SHAPES[1], shapes=spec.shapes)
    assert sorted(spec.shapes) == list(SHAPES)
    assert program.outputs["y"].dtype in ("fp16", "fp32")
    assert program.outputs["y"].shape[:3] == (1, 4, 1)
    kinds = [op.op_type for op in program.operations]
    assert [kind for kind in kinds if kind not in ("const", "cast")] == ["conv", "relu"]
    assert {op.path for op in program.operations} == {"main"}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_enumerated_shape_runs(precision, package):
    program = Program(package, precision=precision)
    for shape in SHAPES:
        y = program({"x": np.ones(shape, np.float32)})["y"]
        assert y.shape == shape
        kinds = {"exact": torch.float32, "exact64": torch.float64}
        assert y.dtype == kinds.get(precision, y.dtype)


def test_a_range_of_shapes(tmp_path):
    x = ct.TensorType("x", shape=ct.Shape([1, 4, 1, ct.RangeDim(5, 50, default=10)]))
    program = Program(converted(network(), tmp_path, x))
    assert program.inputs["x"].ranges == ((1, 1), (4, 4), (1, 1), (5, 50))
    assert program({"x": torch.zeros(1, 4, 1, 33)})["y"].shape == (1, 4, 1, 33)
    message = r"input 'x' has shape \[1, 4, 1, 51\]; allowed: \[1, 4, 1, 5..50\]"
    pytest.raises(ProgramError, program, {"x": torch.zeros(1, 4, 1, 51)}).match(message)


def test_enumerations_pair_by_index(tmp_path):
    a = ct.TensorType("a", shape=ct.EnumeratedShapes([[1, 2], [1, 4]]))
    b = ct.TensorType("b", shape=ct.EnumeratedShapes([[1, 3], [1, 6]]))
    program = Program(converted(Sum(), tmp_path, a, b, target=IOS18))
    assert program({"a": torch.ones(1, 4), "b": torch.ones(1, 6)})["y"].tolist() == [[8] * 4]
    message = r"pair by index; allowed together: a \[1, 2\], b \[1, 3\]; a \[1, 4\], b \[1, 6\]"
    pytest.raises(ProgramError, program, {"a": torch.ones(1, 4), "b": torch.ones(1, 3)}).match(
        message
    )


def test_an_input_with_a_default_may_be_left_out(tmp_path):
    default = np.full((1, 3), 0.5, np.float32)
    a, b = ct.TensorType("a", (1, 2)), ct.TensorType("b", (1, 3), default_value=default)
    program = Program(converted(Sum(), tmp_path, a, b))
    assert program.inputs["b"].default == 0.5
    assert program({"a": torch.ones(1, 2)})["y"].tolist() == [[3.5, 3.5]]


def test_inputs_are_rounded_to_their_declared_type(package):
    x, program = torch.rand(SHAPES[0], dtype=torch.float64), Program(package)
    assert torch.equal(program({"x": x})["y"], program({"x": x.half()})["y"])


REFUSED = {
    "missing": ({}, r"missing input 'x'; the program takes x \(fp16 one of "),
    "unknown": ({"z": ZEROS}, "unknown input 'z'; the program takes x"),
    "shape": (
        {"x": np.zeros((1, 4, 1, 11))},
        r"'x' has shape \[1, 4, 1, 11\]; allowed: one of .*\[1, 4, 1, 10\].*\[1, 4, 1, 40\]",
    ),
    "rank": ({"x": ZEROS[0]}, r"input 'x' has shape \[4, 1, 10\]"),
    "integers": (
        {"x": ZEROS.astype(np.int32)},
        r"input 'x' is int32; expected fp16 \(any float type is taken\)",
    ),
    "list": ({"x": [1.0]}, "input 'x' is a list; give a NumPy array or a torch tensor of fp16"),
    "objects": ({"x": np.full(SHAPES[0], "a")}, "input 'x' holds <U1; give fp16"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_input_that_does_not_fit_is_one_clear_line(name, package):
    inputs, message = REFUSED[name]
    with pytest.raises(ProgramError, match=message) as error:
        Program(package)(inputs)
    assert "\n" not in str(error.value)


def test_integer_input_out_of_range(tmp_path):
    program = program_of({"i": (3,)}, lambda i: mb.add(x=i, y=1), tmp_path)
    assert program({"i": np.array([1, 2, 3], np.int64)})["y"].tolist() == [2, 3, 4]
    for i, message in (
        (np.array([1, 2, 2**32]), "input 'i' holds values 1..4294967296, outside int32"),
        (np.zeros(3, np.float32), "input 'i' is float32; expected int32"),
    ):
        pytest.raises(ProgramError, program, {"i": i}).match(message)


def test_nan_and_infinity_are_allowed_counted_and_reported(package):
    program, x = Program(package), np.zeros(SHAPES[0], np.float32)
    x[0, 0, 0, :2], x[0, 1, 0, 3] = np.nan, np.inf
    with pytest.warns(NonFiniteInput, match="input 'x' holds 2 NaN and 1 infinite values of 40"):
        y = program({"x": x})["y"]
    assert program.last_nonfinite == {"x": (2, 1)}
    assert y.isnan().any()
    program({"x": ZEROS})
    assert program.last_nonfinite == {}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "n.mlpackage",
            None,
            "nothing there; give an .mlpackage or .mlmodelc folder or a .mlmodel",
        ),
        ("folder/x", b"", "not an .mlpackage, it has no Manifest.json"),
        ("text.mlmodel", b"no protobuf at all", "text.mlmodel: not a Core ML specification"),
        ("void.mlmodel", b"", "it has no specification version"),
    ],
)
def test_not_a_package(name, content, message, tmp_path):
    path = tmp_path / name
    if content is not None:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    pytest.raises(ProgramError, Program, tmp_path / name.removesuffix("/x")).match(message)


def edited(change):
    """A specification after a change of it, or of its relu."""

    def run(whole):
        spec = Model_pb2.Model.FromString(whole)
        change(spec, next(op for op in operations_of(spec) if op.type == "relu"))
        return spec.SerializeToString()

    return run


def lie(spec, relu):
    relu.outputs[0].type.tensorType.dimensions[1].constant.size = 5


# file of the package, its bytes after the damage, what is said
DAMAGES = {
    "manifest": (
        "Manifest.json",
        lambda _: b"{",
        r"Manifest.json is no.*; a package manifest is needed",
    ),
    "other manifest": (
        "Manifest.json",
        lambda _: b'{"itemInfoEntries": {}}',
        "must name a rootModelIdentifier",
    ),
    "truncated": (
        "weight.bin",
        lambda whole: whole[:-8],
        r"weight.bin: \d+ bytes, but a tensor ends at byte.*truncated",
    ),
    "before a tensor": (
        "weight.bin",
        lambda whole: whole[:100],
        "weight.bin: 100 bytes, but the program reads a tensor at.*truncated",
    ),
    "in the header": (
        "weight.bin",
        lambda whole: whole[:10],
        "weight.bin: 10 bytes, shorter than its 64-byte header.*truncated",
    ),
    "no weights": ("weight.bin", None, "weight.bin: .* it is missing; copy the whole package"),
    "newer": (
        "model.mlmodel",
        edited(lambda spec, _: setattr(spec, "specificationVersion", 99)),
        r"specification version 99 is newer than \d+, the last one coremltools \S+ knows",
    ),
    "neural network": (
        "model.mlmodel",
        edited(lambda spec, _: spec.neuralNetwork.SetInParent()),
        "holds a neuralNetwork, not an ML program",
    ),
    "operation": (
        "model.mlmodel",
        edited(lambda _, relu: setattr(relu, "type", "hyper_relu")),
        r"unknown operation hyper_relu 'y' \(operation \d+ of main\); mlprogram/OPERATIONS.md",
    ),
    "parameter": (
        "model.mlmodel",
        edited(lambda _, relu: relu.inputs["slope"].CopyFrom(relu.inputs["x"])),
        "relu 'y' .*: unknown parameter 'slope'; known: x",
    ),
    "value": (
        "model.mlmodel",
        edited(lambda _, relu: setattr(relu.inputs["x"].arguments[0], "name", "nowhere")),
        "relu 'y' .*: there is no value 'nowhere' at this place",
    ),
    "shape": (
        "model.mlmodel",
        edited(lie),
        r"'y' .* gave shape \[1, 4, 1, 10\], the program declares \[1, 5, 1, 'any'\] for 'y'",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_package_says_why(name, copy):
    file, damage, message = DAMAGES[name]
    path = next(copy.rglob(file))
    if damage:
        path.write_bytes(damage(path.read_bytes()))
    else:
        path.unlink()
    pytest.raises(ProgramError, lambda: Program(copy)({"x": ZEROS})).match(message)


def test_operation_that_fails_says_where_and_on_what(tmp_path):
    def build(x, i):
        return [mb.gather(x=x, indices=i, axis=0, name="y")]

    program = program_of({"x": (3,), "i": (1,)}, build, tmp_path)
    message = r"gather 'y' \(operation \d+ of main\) failed: index 7 is outside an axis of 3;"
    pytest.raises(ProgramError, program, {"x": np.zeros(3), "i": np.array([7])}).match(
        message + r" its inputs: .*float32 \[3\]"
    )


def test_unknown_precision(package):
    message = "precision 'fp8' is unknown; one of declared, exact, exact64, declared64, ane_num"
    pytest.raises(ProgramError, Program, package, precision="fp8").match(message)


# the .mlmodel inside a package, with its weights folder beside it
def test_bare_model_file_runs(package):
    bare = Program(next(package.rglob("model.mlmodel")))
    x = {"x": np.ones(SHAPES[0], np.float32)}
    assert torch.equal(bare(x)["y"], Program(package)(x)["y"])


RANGED = TensorSpec("x", "fp32", (3, 1), ranges=((3, 5), (1, None)))
LISTED = TensorSpec("x", "fp32", (1, 3), shapes=((1, 3), (1, 4)))


@pytest.mark.parametrize(
    ("spec", "shape", "words"),
    [
        (RANGED, (99, 0), "; Size (99) of dimension (0) is not in allowed range (3..5)"),
        (RANGED, (4, 1), ""),
        (RANGED, (4,), ""),
        (
            LISTED,
            (1, 29),
            "; MultiArray Shape (1 x 29) was not in enumerated set of allowed shapes",
        ),
    ],
)
# coremltools' users and tests match these words
def test_a_shape_is_refused_in_core_mls_words_too(spec, shape, words):
    assert spec.refusal(shape) == words
