"""Compiled models: a .mlmodelc gives what the package it came from gives, and what cannot be read
says so.
"""

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
from coremltools.proto import FeatureTypes_pb2, MIL_pb2
from torch import nn

from built import converted, save
from mlprogram import MLModel, OpenShape, Program, ProgramError
from mlprogram.constants import Constants
from mlprogram.dtypes import dtype_of
from mlprogram.miltext import parse_program
from mlprogram.package import Package, open_package

WORDS = {"FLOAT16": "Float16", "FLOAT32": "Float32", "DOUBLE": "Double", "INT32": "Int32"}


def compile_package(package: Path, out: Path, scalars: bool = True, metadata: bool = True) -> Path:
    opened = open_package(package)
    out.mkdir(parents=True)
    if opened.weights_dir.is_dir():
        shutil.copytree(opened.weights_dir, out / "weights")
    (out / "model.mil").write_text(Writer(opened, scalars).program(), encoding="utf-8")
    if metadata:
        description = opened.spec.description
        content = {
            "inputSchema": [row(f) for f in description.input],
            "outputSchema": [row(f) for f in description.output],
        }
        content |= {
            "specificationVersion": opened.spec.specificationVersion,
            "metadataOutputVersion": "3.0",
        }
        (out / "metadata.json").write_text(json.dumps([content]), encoding="utf-8")
    return out


def row(feature: FeatureTypes_pb2.FeatureType) -> dict[str, str]:
    kind, common = (
        feature.type.WhichOneof("Type"),
        {"name": feature.name, "isOptional": "1" if feature.type.isOptional else "0"},
    )
    if kind == "imageType":
        image = feature.type.imageType
        space = FeatureTypes_pb2.ImageFeatureType.ColorSpace.Name(image.colorSpace)
        return common | {
            "type": "Image",
            "width": str(image.width),
            "height": str(image.height),
            "colorspace": space,
        }
    if kind != "multiArrayType":
        return common | {
            "type": {"stringType": "String", "dictionaryType": "Dictionary", "int64Type": "Int64"}[
                kind
            ]
        }
    array = feature.type.multiArrayType
    cells = common | {"type": "MultiArray", "shape": str(list(array.shape))}
    cells["dataType"] = WORDS[FeatureTypes_pb2.ArrayFeatureType.ArrayDataType.Name(array.dataType)]
    if array.WhichOneof("ShapeFlexibility") == "enumeratedShapes":
        cells["enumeratedShapes"] = str([list(s.shape) for s in array.enumeratedShapes.shapes])
    if array.WhichOneof("ShapeFlexibility") == "shapeRange":
        cells["shapeRange"] = str(
            [[r.lowerBound, r.upperBound] for r in array.shapeRange.sizeRanges]
        )
    return cells


class Writer:
    """The text of one program."""

    def __init__(self, package: Package, scalars: bool) -> None:
        self.package, self.scalars, self.constants = package, scalars, Constants(package)

    def program(self) -> str:
        functions = "\n".join(
            self.function(n, f) for n, f in self.package.spec.mlProgram.functions.items()
        )
        return (
            'program(1.0)\n[buildInfo = dict<string, string>({{"coremlc-version",'
            f' "3500.32.1"}}}})]\n{{\n{functions}\n}}\n'
        )

    def function(self, name: str, function: MIL_pb2.Function) -> str:
        inputs = ", ".join(f"{self.type(v.type)} {v.name}" for v in function.inputs)
        return (
            f"    func {name}<ios17>({inputs})"
            f" {self.block(function.block_specializations[function.opset])};"
        )

    def block(self, block: MIL_pb2.Block) -> str:
        operations = "\n".join(f"            {self.operation(op)};" for op in block.operations)
        return f"{{\n{operations}\n        }} -> ({', '.join(block.outputs)})"

    def operation(self, op: MIL_pb2.Operation) -> str:
        inputs = ", ".join(
            f"{name} = {self.argument(argument)}" for name, argument in op.inputs.items()
        )
        blocks = ", ".join(
            f"({', '.join(f'{self.type(v.type)} {v.name}' for v in b.inputs)}) {self.block(b)}"
            for b in op.blocks
        )
        attributes = ", ".join(
            f"{name} = {self.value(value)}" for name, value in op.attributes.items()
        )
        outputs = ", ".join(f"{self.type(v.type)} {v.name}" for v in op.outputs)
        return (
            f"{outputs}{' = ' if outputs else ''}{op.type}"
            f"({inputs}){blocks}{f'[{attributes}]' if attributes else ''}"
        )

    def argument(self, argument: MIL_pb2.Argument) -> str:
        parts = [
            b.name if b.WhichOneof("binding") == "name" else self.value(b.value)
            for b in argument.arguments
        ]
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"

    def type(self, kind: MIL_pb2.ValueType) -> str:
        if kind.WhichOneof("type") == "stateType":
            return f"state<{self.type(kind.stateType.wrappedType)}>"
        if kind.WhichOneof("type") == "listType":
            return f"list<{self.type(kind.listType.type)}, ?>"
        if kind.WhichOneof("type") == "dictionaryType":
            return (
                f"dict<{self.type(kind.dictionaryType.keyType)},"
                f" {self.type(kind.dictionaryType.valueType)}>"
            )
        tensor = kind.tensorType
        sizes = [
            str(d.constant.size) if d.WhichOneof("dimension") == "constant" else "?"
            for d in tensor.dimensions
        ]
        name = dtype_of(tensor.dataType).name
        return name if self.scalars and not sizes else f"tensor<{name}, [{', '.join(sizes)}]>"

    def value(self, value: MIL_pb2.Value) -> str:
        kind = self.type(value.type)
        if value.WhichOneof("value") == "blobFileValue":
            blob, text = (
                value.blobFileValue,
                'string("{}")' if self.scalars else 'tensor<string, []>("{}")',
            )
            offset = "uint64({})" if self.scalars else "tensor<uint64, []>({})"
            return (
                f"{kind}(BLOBFILE(path = {text.format(blob.fileName)}, offset ="
                f" {offset.format(blob.offset)}))"
            )
        content = self.constants.read(value)
        return (
            f"{kind}({padded(content if isinstance(content, (str, list)) else content.tolist())})"
        )


def padded(content: object) -> str:  # floats in hexadecimal, as Apple's compiler writes them
    if isinstance(content, list):
        return f"[{', '.join(padded(c) for c in content)}]"
    if isinstance(content, bool):
        return "true" if content else "false"
    if isinstance(content, float):
        return "nan" if content != content else content.hex().replace("0x1.0000000000000p", "0x1p")
    return json.dumps(content) if isinstance(content, str) else str(content)


# the syntax of published folders, older compilers' (ios16) and newer ones' (ios18)
OLD = """program(1.0)
[buildInfo = dict<tensor<string, []>, tensor<string, []>>({{"coremlc-component-MIL", "3500.14.1"},
  {"coremlc-version", "3500.32.1"}})]
{
    func main<ios16>(tensor<fp16, [1, ?]> audio) [FlexibleShapeInformation =
        tuple<tuple<tensor<string, []>, dict<tensor<string, []>, tensor<int32, [?]>>>,
        tuple<tensor<string, []>, dict<tensor<string, []>, list<tensor<int32, [2]>, ?>>>>
        ((("DefaultShapes", {{"audio", [1, 4]}}), ("RangeDims", {{"audio", [[1, 1], [2, 9]]}})))] {
            tensor<fp16, []> gain = const()[name = tensor<string, []>("op_1"),
                val = tensor<fp16, []>(-0x1.8p+0)];
            tensor<bool, []> together = const()[name = tensor<string, []>("op_2"),
                val = tensor<bool, []>(false)];
            tensor<int32, []> axis = const()[name = tensor<string, []>("op_3"),
                val = tensor<int32, []>(-1)];
            tensor<fp16, [1, ?]> loud = mul(x = audio, y = gain)[name = tensor<string, []>("op_4")];
            tensor<fp16, [1, ?]> both = concat(axis = axis, interleave = together,
                values = (audio, loud))[name = tensor<string, []>("b")];
            tensor<fp16, [1, ?]> first, tensor<fp16, [1, ?]> second = split(axis = axis,
                num_splits = tensor<int32, []>(2), x = both);
        } -> (second, first);
}"""
NEW = """program(1.3)
[buildInfo = dict<string, string>({{"coremlc-component-MIL", "3510.2.1"},
  {"coremltools-version", "9.0"}})]
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
        self.conv, self.lstm = (
            nn.Conv1d(4, 16, 5, padding=2),
            nn.LSTM(16, 12, batch_first=True, bidirectional=True),
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(self.conv(x)).transpose(1, 2)
        return self.lstm(y)[0], y.mean(1)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("compiled") / "net.mlpackage"
    shapes = ct.EnumeratedShapes([[1, 4, 8], [1, 4, 16]], default=[1, 4, 8])
    return converted(
        Net(), torch.zeros(1, 4, 8), path, [ct.TensorType("x", shape=shapes)], ("y", "m")
    )


@pytest.mark.parametrize("scalars", [True, False])
def test_compiled_gives_what_its_package_gives(
    package: Path, tmp_path: Path, scalars: bool
) -> None:
    folder = compile_package(package, tmp_path / "net.mlmodelc", scalars)
    whole, compiled = MLModel(package), MLModel(folder)
    assert compiled.programs[0].inputs == whole.programs[0].inputs
    for length in (8, 16):
        x = np.random.default_rng(length).normal(size=(1, 4, length))
        for name, value in whole.predict({"x": x}).items():
            np.testing.assert_array_equal(value, compiled.predict({"x": x})[name])
    pytest.raises(ProgramError, compiled.predict, {"x": np.zeros((1, 4, 9))}).match(
        r"allowed: one of \[1, 4, 8\], \[1, 4, 16\]"
    )


# nested blocks, in this reader's own spelling: no published text with one was at hand
def test_loops_and_branches(tmp_path: Path) -> None:
    with Function(
        {"x": mb.placeholder(shape=(3,), dtype=types.fp32)}, opset_version=ct.target.iOS17
    ) as function:
        x = function.inputs["x"]
        step = {
            "_cond": lambda k, t: mb.less(x=k, y=4),
            "_body": lambda k, t: (mb.add(x=k, y=1), mb.add(x=t, y=x)),
        }
        total = mb.while_loop(loop_vars=(0, x), **step)[1]
        big = mb.greater(x=mb.reduce_max(x=total), y=9.0)
        function.set_outputs(
            [
                mb.cond(
                    pred=big,
                    _true_fn=lambda: mb.mul(x=total, y=2.0),
                    _false_fn=lambda: mb.sub(x=total, y=x),
                    name="y",
                )
            ]
        )
    path = save(function, tmp_path / "p.mlpackage", ct.target.iOS17)
    folder = compile_package(path, tmp_path / "p.mlmodelc")
    for x in (np.array([1, 2, 3], np.float32), np.array([0, 1, 0], np.float32)):
        np.testing.assert_array_equal(Program(folder)({"x": x})["y"], Program(path)({"x": x})["y"])


def written(text: str, folder: Path) -> Path:
    """A compiled model of this text alone."""
    folder.mkdir()
    (folder / "model.mil").write_text(text, encoding="utf-8")
    return folder


def test_text_of_an_older_compiler(tmp_path: Path) -> None:
    """No metadata.json: shapes come from the function's attribute; outputs may come in another
    order than they are made.
    """
    model = MLModel(written(OLD, tmp_path / "a.mlmodelc"))
    out = model.predict({"audio": [[1, 2, 3]]})
    assert list(out) == ["second", "first"]
    assert out["second"].tolist() == [[-1.5, -3, -4.5]]
    assert out["first"].tolist() == [[1, 2, 3]]
    pytest.raises(ProgramError, model.predict, {"audio": [[1]]}).match(r"allowed: \[1, 2..9\]")


def test_sizes_that_no_file_tells_are_warned_of(tmp_path: Path) -> None:
    attribute, stop = OLD.index("[FlexibleShapeInformation"), OLD.index("] {")
    program = Program(written(OLD[:attribute] + OLD[stop + 1 :], tmp_path / "a.mlmodelc"))
    with pytest.warns(OpenShape, match=r"input 'audio' \[1, 'any'\] allows: .* refuse \[1, 11\]"):
        program({"audio": np.zeros((1, 11), np.float32)})


def test_text_of_a_newer_compiler_with_a_state(tmp_path: Path) -> None:
    model = MLModel(written(NEW, tmp_path / "a.mlmodelc"))
    state = model.make_state()
    assert model.predict({"x": [2, 4]}, state)["sum"].tolist() == [2, 4]
    assert model.predict({"x": [2, 4]}, state)["sum"].tolist() == [3, 6]
    assert state.read_state("memory").tolist() == [3, 6]


# model0 makes y and m, model1 takes m
def test_pipeline_of_folders(package: Path, tmp_path: Path) -> None:
    with Function(
        {"m": mb.placeholder(shape=(1, 16), dtype=types.fp16)}, opset_version=ct.target.iOS17
    ) as function:
        function.set_outputs([mb.reduce_sum(x=function.inputs["m"], axes=[1], name="total")])
    compile_package(package, tmp_path / "p.mlmodelc" / "model0")
    compile_package(
        save(function, tmp_path / "s.mlpackage", ct.target.iOS17),
        tmp_path / "p.mlmodelc" / "model1",
        metadata=False,
    )
    x = np.random.default_rng(0).normal(size=(1, 4, 8))
    out = MLModel(tmp_path / "p.mlmodelc").predict({"x": x})
    assert sorted(out) == ["total", "y"]
    np.testing.assert_allclose(
        out["total"], MLModel(package).predict({"x": x})["m"].sum(1), rtol=2e-3
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "program(1.0) { func main<ios17>(tensor<fp16, [2]> x) { fp16 y = }",
            "line 1: '}' where a name should stand",
        ),
        (
            "program(1.0)\n{ func main<ios17>(tensor<fp17, [2]> x) {} -> (x); }",
            "line 2: .* where an element type other than 'fp17'",
        ),
        (
            "program(1.0) { func main<ios17>(tensor<fp16, [2]> x) { } -> (x)",
            "'end of the text' where 'func' should stand",
        ),
        (
            "program(1.0) { func main<ios17>() { fp16 a = const()[val = fp16(0xzz)]; } -> (a); }",
            "line 1",
        ),
    ],
)
def test_text_that_cannot_be_read(text: str, message: str) -> None:
    pytest.raises(ProgramError, parse_program, text).match(message)


def test_folders_that_cannot_be_run(package: Path, tmp_path: Path) -> None:
    network = tmp_path / "n.mlmodelc"
    network.mkdir()
    (network / "model.espresso.net").write_text("{}", encoding="utf-8")
    pytest.raises(ProgramError, MLModel, network).match(
        "n.mlmodelc: a compiled neural network, it has no model.mil"
    )
    folder = compile_package(package, tmp_path / "net.mlmodelc")
    shutil.rmtree(folder / "weights")
    pytest.raises(ProgramError, MLModel, folder).match(
        "weight.bin: the program stores its weights in this file, and it is missing"
    )
    (folder / "metadata.json").write_text(json.dumps([])[:1], encoding="utf-8")
    pytest.raises(ProgramError, MLModel, folder).match(
        "metadata.json: not the metadata of a compiled model"
    )
