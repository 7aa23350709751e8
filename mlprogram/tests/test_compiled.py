"""Compiled models: a .mlmodelc gives what its text says, and what cannot be read says so. No
compiler runs here: the texts are spelled as published folders are.
"""

import re

import numpy as np
import pytest
import torch
from coremltools.libmilstoragepython import _BlobStorageWriter

from mlprogram import MLModel, OpenShape, Program, ProgramError
from mlprogram.miltext import parse_program

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
# a weight in the blob file, flexible sizes, several outputs
NET = """program(1.0)
[buildInfo = dict<string, string>({{"coremlc-version", "3500.32.1"}})]
{
    func main<ios17>(tensor<fp32, [1, 4, ?]> x) {
            string same = const()[name = string("same"), val = string("same")];
            tensor<int32, [1]> ones = const()[name = string("ones"), val = tensor<int32, [1]>([1])];
            tensor<int32, [2]> pad = const()[name = string("pad"),
                val = tensor<int32, [2]>([0, 0])];
            int32 groups = const()[name = string("groups"), val = int32(1)];
            tensor<fp32, [2]> bias = const()[name = string("bias"),
                val = tensor<fp32, [2]>([0x1p-1, -0x1.8p+0])];
            tensor<fp32, [2, 4, 5]> weight = const()[name = string("weight"),
                val = tensor<fp32, [2, 4, 5]>(BLOBFILE(
                    path = string("@model_path/weights/weight.bin"), offset = uint64(OFFSET)))];
            tensor<fp32, [1, 2, ?]> y = conv(bias = bias, dilations = ones, groups = groups,
                pad = pad, pad_type = same, strides = ones, weight = weight, x = x);
            tensor<int32, [1]> axes = const()[name = string("axes"),
                val = tensor<int32, [1]>([-1])];
            bool keep = const()[name = string("keep"), val = bool(false)];
            tensor<fp32, [1, 2]> m = reduce_mean(axes = axes, keep_dims = keep, x = y);
        } -> (y, m);
}"""
METADATA = """[{"metadataOutputVersion": "3.0", "specificationVersion": 8,
    "inputSchema": [{"name": "x", "type": "MultiArray", "dataType": "Float32", "isOptional": "0",
        "shape": "[1, 4, 8]", "enumeratedShapes": "[[1, 4, 8], [1, 4, 16]]"}],
    "outputSchema": [{"name": "y", "type": "MultiArray", "dataType": "Float32", "shape": "[]"},
        {"name": "m", "type": "MultiArray", "dataType": "Float32", "shape": "[1, 2]"}]}]"""
# takes what NET makes
SUM = """program(1.0)
{
    func main<ios17>(tensor<fp32, [1, 2]> m) {
            tensor<fp32, [1]> total = reduce_sum(axes = tensor<int32, [1]>([1]),
                keep_dims = bool(false), x = m);
        } -> (total);
}"""
# nested blocks, in this reader's own spelling: no published text with one was at hand
LOOP = """program(1.0)
{
    func main<ios17>(tensor<fp32, [3]> x) {
            int32 zero = const()[name = string("zero"), val = int32(0)];
            int32 count, tensor<fp32, [3]> total = while_loop(loop_vars = (zero, x))
                (int32 k, tensor<fp32, [3]> sum) {
                    bool goes_on = less(x = k, y = int32(4));
                } -> (goes_on),
                (int32 j, tensor<fp32, [3]> old) {
                    int32 next = add(x = j, y = int32(1));
                    tensor<fp32, [3]> new = add(x = old, y = x);
                } -> (next, new);
            fp32 largest = reduce_max(axes = tensor<int32, [1]>([0]), keep_dims = bool(false),
                x = total);
            bool big = greater(x = largest, y = fp32(0x1.2p+3));
            tensor<fp32, [3]> y = cond(pred = big)() {
                    tensor<fp32, [3]> double = mul(x = total, y = fp32(0x1p+1));
                } -> (double), () {
                    tensor<fp32, [3]> less_x = sub(x = total, y = x);
                } -> (less_x);
        } -> (y);
}"""


def written(text, folder, metadata=""):
    """A compiled model of this text."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.mil").write_text(text, encoding="utf-8")
    if metadata:
        (folder / "metadata.json").write_text(metadata, encoding="utf-8")
    return folder


WEIGHT = np.random.default_rng(0).normal(size=(2, 4, 5)).astype(np.float32)


def network(folder, spelled=NET):
    """NET with its weights."""
    (folder / "weights").mkdir(parents=True)
    writer = _BlobStorageWriter(str(folder / "weights" / "weight.bin"))
    offset = writer.write_float_data(WEIGHT.flatten())
    return written(spelled.replace("OFFSET", str(offset)), folder, METADATA)


# as older compilers write scalars, and newer ones
OLDER = re.sub(r"\b(string|uint64|int32|bool)(?=\(| \w)", r"tensor<\1, []>", NET)


@pytest.mark.parametrize("spelled", [NET, OLDER])
def test_compiled_gives_what_its_text_says(spelled, tmp_path):
    model = MLModel(network(tmp_path / "net.mlmodelc", spelled))
    spec = model.programs[0].inputs["x"]
    assert (spec.dtype, spec.shape, spec.shapes) == ("fp32", (1, 4, 8), ((1, 4, 8), (1, 4, 16)))
    for length in (8, 16):
        x = torch.randn(1, 4, length)
        out = model.predict({"x": x})
        arguments = torch.from_numpy(WEIGHT), torch.tensor([0.5, -1.5])
        y = torch.conv1d(x, *arguments, padding=2).numpy()
        np.testing.assert_allclose(out["y"], y, atol=1e-5)
        np.testing.assert_allclose(out["m"], y.mean(-1), atol=1e-5)
    pytest.raises(ProgramError, model.predict, {"x": np.zeros((1, 4, 9))}).match(
        r"allowed: one of \[1, 4, 8\], \[1, 4, 16\]"
    )


@pytest.mark.parametrize(
    ("x", "y"), [([1, 2, 3], [10, 20, 30]), ([0, 1, 0], [0, 4, 0])], ids=["true", "false"]
)
def test_loops_and_branches(x, y, tmp_path):
    program = Program(written(LOOP, tmp_path / "p.mlmodelc"))
    assert program({"x": np.array(x, np.float32)})["y"].tolist() == y


def test_text_of_an_older_compiler(tmp_path):
    """No metadata.json: shapes come from the function's attribute; outputs may come in another
    order than they are made.
    """
    model = MLModel(written(OLD, tmp_path / "a.mlmodelc"))
    out = model.predict({"audio": [[1, 2, 3]]})
    assert {n: y.tolist() for n, y in out.items()} == {
        "second": [[-1.5, -3, -4.5]],
        "first": [[1, 2, 3]],
    }
    assert list(out) == ["second", "first"]
    pytest.raises(ProgramError, model.predict, {"audio": [[1]]}).match(r"allowed: \[1, 2..9\]")


def test_unknown_sizes_are_warned_of(tmp_path):
    attribute, stop = OLD.index("[FlexibleShapeInformation"), OLD.index("] {")
    program = Program(written(OLD[:attribute] + OLD[stop + 1 :], tmp_path / "a.mlmodelc"))
    with pytest.warns(OpenShape, match=r"input 'audio' \[1, 'any'\] allows: .* refuse \[1, 11\]"):
        program({"audio": np.zeros((1, 11), np.float32)})


def test_text_of_a_newer_compiler_with_a_state(tmp_path):
    model = MLModel(written(NEW, tmp_path / "a.mlmodelc"))
    state = model.make_state()
    for total in ([2, 4], [3, 6]):
        assert model.predict({"x": [2, 4]}, state)["sum"].tolist() == total
    assert state.read_state("memory").tolist() == [3, 6]


def test_pipeline_of_folders(tmp_path):
    network(tmp_path / "p.mlmodelc" / "model0")
    written(SUM, tmp_path / "p.mlmodelc" / "model1")
    x = np.random.default_rng(0).normal(size=(1, 4, 8))
    out = MLModel(tmp_path / "p.mlmodelc").predict({"x": x})
    assert sorted(out) == ["total", "y"]
    np.testing.assert_allclose(out["total"], out["y"].mean(-1).sum(-1), atol=1e-5)


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
def test_text_that_cannot_be_read(text, message):
    pytest.raises(ProgramError, parse_program, text).match(message)


def test_folders_that_cannot_be_run(tmp_path):
    espresso = tmp_path / "n.mlmodelc"
    espresso.mkdir()
    (espresso / "model.espresso.net").write_text("{}", encoding="utf-8")
    folder = network(tmp_path / "net.mlmodelc")
    (folder / "weights" / "weight.bin").unlink()
    broken = network(tmp_path / "broken.mlmodelc")
    (broken / "metadata.json").write_text("[", encoding="utf-8")
    for path, message in (
        (espresso, "n.mlmodelc: a compiled neural network, it has no model.mil"),
        (folder, "weight.bin: the program stores its weights in this file, and it is missing"),
        (broken, "metadata.json: not the metadata of a compiled model"),
    ):
        pytest.raises(ProgramError, MLModel, path).match(message)
