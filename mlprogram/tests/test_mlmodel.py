"""MLModel takes and gives what coremltools' MLModel.predict documents, and fails with its
exceptions.
"""

import coremltools as ct
import numpy as np
import pytest
import torch
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import types
from PIL import Image
from torch import nn

from built import FP32, IOS18, converted, package_of
from mlprogram import MLModel, Program, ProgramError


class Affine(nn.Module):
    """x * factor + 1."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor + 1


X = ct.TensorType("x", shape=(1, 3))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return converted(Affine(2), tmp_path_factory.mktemp("plain"), X)


@pytest.fixture(scope="module")
def tenfold(tmp_path_factory):
    y = ct.TensorType("y", shape=(1, 3))
    return converted(Affine(10), tmp_path_factory.mktemp("tenfold"), y, outputs=("z",))


KINDS = "float32 float64 float16 int64".split()


@pytest.mark.parametrize(
    "value",
    [
        *(np.array([[1, 2, 3]], kind) for kind in KINDS),
        torch.tensor([[1.0, 2, 3]], requires_grad=True),
        [[1, 2, 3]],
    ],
    ids=[*KINDS, "tensor", "list"],
)
def test_any_array_of_numbers(plain, value):
    out = MLModel(plain).predict({"x": value})["y"]
    assert out.dtype == np.float32
    assert out.tolist() == [[3, 5, 7]]


def test_batches_and_descriptions(plain):
    model = MLModel(str(plain), compute_units=ct.ComputeUnit.CPU_AND_NE)
    rows = model.predict([{"x": [[k, 0, 0]]} for k in range(3)])
    assert [row["y"][0, 0] for row in rows] == [1, 3, 5]
    assert list(model.input_description) == ["x"]
    assert list(model.output_description) == ["y"]
    assert model.compute_unit == ct.ComputeUnit.CPU_AND_NE
    spec = model.get_spec()
    spec.description.input[0].name = "other"
    assert model.get_spec().description.input[0].name == "x"
    again = MLModel(model.get_spec(), weights_dir=plain)
    assert again.predict({"x": [[0, 0, 0]]})["y"].tolist() == [[1, 1, 1]]


def test_integers_lose_their_fraction(tmp_path):
    """int32 inputs are asked for as they come: coremltools' own helpers hand over float32."""
    model = MLModel(package_of({"i": (4,)}, lambda i: {"y": mb.add(x=i, y=1)}, tmp_path))
    y = model.predict({"i": np.array([1.9, -1.9, 7, 0], np.float32)})["y"]
    assert y.dtype == np.int32
    assert y.tolist() == [2, 0, 8, 1]
    for value, message in ((2.0**40, "outside int32"), (np.nan, "NaN or infinity")):
        pytest.raises(ProgramError, model.predict, {"i": [value, 0, 0, 0]}).match(message)


def image_model(folder, layout, outputs=None):
    """x + 1 of pixels, 4 rows and 6 columns."""
    colour = getattr(ct.colorlayout, layout)
    shape = (1, 1 if layout.startswith("GRAY") else 3, 4, 6)
    x = ct.ImageType("x", shape=shape, color_layout=colour)
    outputs = outputs or [ct.ImageType("y", color_layout=colour)]
    return MLModel(converted(Affine(1), folder, x, outputs=outputs, compute_precision=FP32))


@pytest.mark.parametrize(
    ("layout", "mode"),
    [("RGB", "RGB"), ("BGR", "RGB"), ("GRAYSCALE", "L"), ("GRAYSCALE_FLOAT16", "F")],
)
def test_images_in_and_out(layout, mode, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 254, (4, 6, 3)).astype(np.uint8)
    picture = Image.fromarray(pixels if mode == "RGB" else pixels[..., 0]).convert(mode)
    y = image_model(tmp_path, layout).predict({"x": picture})["y"]
    assert y.mode == {"RGB": "RGBA"}.get(mode, mode)
    *colours, opaque = y.split() if mode == "RGB" else (y, None)
    np.testing.assert_array_equal(np.squeeze(np.stack(colours, -1)), np.asarray(picture) + 1)
    assert opaque is None or opaque.getextrema() == (255, 255)


# the program of a BGR input sees blue in channel 0
def test_blue_comes_first_where_the_layout_says_so(tmp_path):
    model = image_model(tmp_path, "BGR", outputs=("y",))
    y = model.predict({"x": Image.new("RGB", (6, 4), (10, 20, 30))})["y"]
    assert y[0, :, 0, 0].tolist() == [31, 21, 11]


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (np.zeros((1, 3, 4, 6)), TypeError, "Image input, 'x' must be of type PIL.Image.Image"),
        (
            Image.new("L", (6, 4)),
            TypeError,
            "must be of type PIL.Image.Image with mode=='RGB'",
        ),
        (
            Image.new("RGB", (6, 5)),
            ProgramError,
            r"shape \[1, 3, 5, 6\]; allowed: \[1, 3, 4, 6\]",
        ),
    ],
)
def test_images_that_do_not_fit(value, error, message, tmp_path):
    predict = image_model(tmp_path, "RGB").predict
    pytest.raises(error, predict, {"x": value}).match(message)


@pytest.mark.parametrize("labels", [["cat", "dog", "fox"], [7, 8, 9]])
def test_class_label_and_probabilities(labels, tmp_path):
    names = ct.ClassifierConfig(labels)
    model = MLModel(converted(nn.Softmax(-1), tmp_path, X, outputs=None, classifier_config=names))
    out = model.predict({"x": [[0, 3, 1]]})
    assert out["classLabel"] == labels[1]
    (chances,) = (value for value in out.values() if isinstance(value, dict))
    assert list(chances) == labels
    assert sum(chances.values()) == pytest.approx(1, abs=1e-3)


def stop_at_after(name, kind, value):
    if name == "after":
        raise RuntimeError("stop here")


@pytest.fixture(scope="module")
# x is written into the middle of a state of three
def stateful(tmp_path_factory):
    def build(x, s):
        before = mb.read_state(input=s)
        after = mb.slice_update(x=before, update=x, begin=[1], end=[2])
        return {"before": before, "after": mb.coreml_update_state(state=s, value=after)}

    inputs = {"x": (1,), "s": mb.state_tensor_placeholder((3,), types.fp16)}
    return package_of(inputs, build, tmp_path_factory.mktemp("state"), target=IOS18)


def test_a_value_read_from_a_state_survives_a_write(stateful):
    program = Program(stateful)
    state = program.make_state()
    held, x = state["s"], {"x": np.array([9], np.float16)}
    for value, was in ((4, 0), (7, 4)):
        out = program({"x": np.array([value], np.float16)}, state=state)
        assert out["before"].tolist() == [0, was, 0]
        assert out["after"].tolist() == [0, value, 0]
    # in place
    assert held is state["s"]
    pytest.raises(RuntimeError, program, x, state=state, hook=stop_at_after).match("stop here")
    assert held.tolist() == [0, 7, 0]  # a run that fails leaves the state as it was
    for missing, message in (
        (None, r"keeps states \(s\); pass state=program.make_state"),
        ({"other": torch.zeros(3)}, r"states \['other'\] given, the program has \['s'\]"),
    ):
        pytest.raises(ProgramError, program, x, state=missing).match(message)


def test_state_is_kept_between_calls(stateful):
    model, x = MLModel(stateful), {"x": [2]}
    state, other = model.make_state(), model.make_state()
    for before in ([0, 0, 0], [0, 2, 0]):
        assert model.predict(x, state)["before"].tolist() == before
    assert state.read_state("s").dtype == np.float32
    assert other.read_state("s").tolist() == [0, 0, 0]
    other.write_state("s", np.array([5, 5, 5], np.float32))
    assert model.predict(x, other)["after"].tolist() == [5, 2, 5]
    for message, *call in (
        ("make_state", model.predict, x),
        ("unbatched", model.predict, [x], state),
        ("there is no state 'nothing'; the model keeps s", state.read_state, "nothing"),
        (r"has shape \[3\]; given \[2\]", state.write_state, "s", np.zeros(2)),
    ):
        pytest.raises(ProgramError, *call).match(message)


def test_several_functions_and_the_default_one(plain, tenfold, tmp_path):
    descriptor, path = ct.utils.MultiFunctionDescriptor(), tmp_path / "both.mlpackage"
    descriptor.add_function(str(plain), "main", "twice")
    descriptor.add_function(str(tenfold), "main", "tenfold")
    descriptor.default_function_name = "tenfold"
    ct.utils.save_multifunction(descriptor, str(path))
    assert MLModel(path).predict({"y": [[1, 2, 3]]})["z"].tolist() == [[11, 21, 31]]
    assert MLModel(path).function_name == Program(path).function == "tenfold"
    twice = MLModel(path, function_name="twice")
    assert twice.predict({"x": [[1, 2, 3]]})["y"].tolist() == [[3, 5, 7]]
    assert Program(path, function="twice")({"x": np.ones((1, 3))})["y"].tolist() == [[3, 3, 3]]
    for error, call, model, name, message in (
        (
            ProgramError,
            Program,
            path,
            "main",
            "no function 'main'; this program has tenfold, twice",
        ),
        (ValueError, MLModel, path, "thrice", "thrice not found in the model; it has twice, tenf"),
        (ValueError, MLModel, plain, "twice", 'must be "main" for non multifunction model'),
    ):
        option = {"function" if call is Program else "function_name": name}
        pytest.raises(error, call, model, **option).match(message)


def test_pipeline(plain, tenfold, tmp_path):
    models = [ct.models.MLModel(str(path), skip_model_load=True) for path in (plain, tenfold)]
    path = tmp_path / "line.mlpackage"
    ct.utils.make_pipeline(*models).save(str(path))
    model = MLModel(path)
    assert model.predict({"x": [[1, 2, 3]]})["z"].tolist() == [[31, 51, 71]]
    assert len(model.programs) == 2
    pytest.raises(ProgramError, model.make_state).match("a pipeline keeps no state")


def test_what_coremltools_refuses(plain):
    model, x = MLModel(plain), {"x": [[1, 2, 3]]}
    for error, message, *call in (
        (KeyError, 'Provided key "z", in the input dict, does not match', model.predict, {"z": 1}),
        (TypeError, '"data" parameter must be either a dict or list', model.predict, np.zeros(3)),
        (TypeError, '"data" list must contain only dictionaries', model.predict, [3]),
        (TypeError, '"compute_units" parameter', MLModel, plain, "CPU_ONLY"),
        (TypeError, "Expected model to be", MLModel, 3),
        (RuntimeError, "missing input 'x'", model.predict, {}),
        (RuntimeError, r"allowed: \[1, 3\]", model.predict, {"x": [[1, 2]]}),
        (RuntimeError, "keeps no state", model.predict, x, model.make_state()),
        (RuntimeError, "holds <U", model.predict, {"x": [["a", "b", "c"]]}),
    ):
        pytest.raises(error, *call).match(message)
