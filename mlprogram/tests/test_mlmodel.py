"""MLModel takes and gives what coremltools' MLModel.predict documents, and fails with its
exceptions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
import torch
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import Function, types
from coremltools.converters.mil.mil.program import StateTensorPlaceholder
from PIL import Image
from torch import nn

from built import converted, save
from mlprogram import MLModel, Program, ProgramError

IOS17, IOS18 = ct.target.iOS17, ct.target.iOS18


class Affine(nn.Module):
    """x * factor + 1."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor + 1


def convert(
    module: nn.Module,
    shape: tuple[int, ...],
    path: Path,
    inputs: list[Any] | None = None,
    **more: Any,
) -> Path:
    return converted(
        module, torch.zeros(shape), path, inputs or [ct.TensorType("x", shape=shape)], **more
    )


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return convert(Affine(2), (1, 3), tmp_path_factory.mktemp("m") / "plain.mlpackage")


@pytest.mark.parametrize(
    "value",
    [
        np.array([[1, 2, 3]], np.float32),
        np.array([[1, 2, 3]], np.float64),
        np.array([[1, 2, 3]], np.float16),
        np.array([[1, 2, 3]], np.int64),
        torch.tensor([[1.0, 2, 3]], requires_grad=True),
        [[1, 2, 3]],
    ],
    ids=["float32", "float64", "float16", "int64", "tensor", "list"],
)
def test_any_array_of_numbers(plain: Path, value: Any) -> None:
    out = MLModel(plain).predict({"x": value})["y"]
    assert out.dtype == np.float32
    assert out.tolist() == [[3, 5, 7]]


def test_batches_and_descriptions(plain: Path) -> None:
    model = MLModel(str(plain), compute_units=ct.ComputeUnit.CPU_AND_NE)
    rows = model.predict([{"x": [[k, 0, 0]]} for k in range(3)])
    assert [row["y"][0, 0] for row in rows] == [1, 3, 5]
    assert list(model.input_description) == ["x"]
    assert list(model.output_description) == ["y"]
    assert model.compute_unit == ct.ComputeUnit.CPU_AND_NE
    spec = model.get_spec()
    spec.description.input[0].name = "other"
    assert model.get_spec().description.input[0].name == "x"
    assert MLModel(model.get_spec(), weights_dir=plain).predict({"x": [[0, 0, 0]]})[
        "y"
    ].tolist() == [[1, 1, 1]]


def test_integers_lose_their_fraction(tmp_path: Path) -> None:
    """int32 inputs are asked for as they come: coremltools' own helpers hand over float32."""
    with Function(
        {"i": mb.placeholder(shape=(4,), dtype=types.int32)}, opset_version=IOS17
    ) as function:
        function.set_outputs([mb.add(x=function.inputs["i"], y=1, name="y")])
    model = MLModel(save(function, tmp_path / "i.mlpackage", IOS17))
    out = model.predict({"i": np.array([1.9, -1.9, 7, 0], np.float32)})["y"]
    assert out.dtype == np.int32
    assert out.tolist() == [2, 0, 8, 1]
    pytest.raises(ProgramError, model.predict, {"i": [2.0**40, 0, 0, 0]}).match("outside int32")
    pytest.raises(ProgramError, model.predict, {"i": [np.nan, 0, 0, 0]}).match("NaN or infinity")


def image_model(path: Path, layout: str, channels: int, **image: Any) -> MLModel:
    colour = getattr(ct.colorlayout, layout)
    kinds = {"inputs": [ct.ImageType("x", shape=(1, channels, 4, 6), color_layout=colour, **image)]}
    kinds["outputs"] = [ct.ImageType("y", color_layout=colour)]
    return MLModel(
        convert(
            Affine(1), (1, channels, 4, 6), path, compute_precision=ct.precision.FLOAT32, **kinds
        )
    )


class TestKinds:
    @pytest.mark.parametrize(
        ("layout", "mode"),
        [("RGB", "RGB"), ("BGR", "RGB"), ("GRAYSCALE", "L"), ("GRAYSCALE_FLOAT16", "F")],
    )
    def test_images_in_and_out(self, layout: str, mode: str, tmp_path: Path) -> None:
        channels = 3 if mode == "RGB" else 1
        model = image_model(tmp_path / "m.mlpackage", layout, channels)
        pixels = np.random.default_rng(0).integers(0, 254, (4, 6, 3)).astype(np.uint8)
        picture = Image.fromarray(pixels if mode == "RGB" else pixels[..., 0]).convert(mode)
        out = model.predict({"x": picture})["y"]
        assert out.mode == {"RGB": "RGBA"}.get(mode, mode)
        values = np.asarray(out)
        np.testing.assert_array_equal(
            values[..., :3] if mode == "RGB" else values, np.asarray(picture) + 1
        )
        assert mode != "RGB" or (values[..., 3] == 255).all()

    # the program of a BGR input sees blue in channel 0
    def test_blue_comes_first_where_the_layout_says_so(self, tmp_path: Path) -> None:
        kinds = {"inputs": [ct.ImageType("x", shape=(1, 3, 2, 2), color_layout=ct.colorlayout.BGR)]}
        model = MLModel(
            convert(
                Affine(1),
                (1, 3, 2, 2),
                tmp_path / "m.mlpackage",
                compute_precision=ct.precision.FLOAT32,
                **kinds,
            )
        )
        out = model.predict({"x": Image.new("RGB", (2, 2), (10, 20, 30))})["y"]
        assert out[0, :, 0, 0].tolist() == [31, 21, 11]

    def test_images_that_do_not_fit(self, tmp_path: Path) -> None:
        model = image_model(tmp_path / "m.mlpackage", "RGB", 3)
        pytest.raises(TypeError, model.predict, {"x": np.zeros((1, 3, 4, 6))}).match(
            "Image input, 'x' must be of type PIL.Image.Image"
        )
        with pytest.raises(TypeError, match="must be of type PIL.Image.Image with mode=='RGB'"):
            model.predict({"x": Image.new("L", (6, 4))})
        with pytest.raises(ProgramError, match=r"shape \[1, 3, 5, 6\]; allowed: \[1, 3, 4, 6\]"):
            model.predict({"x": Image.new("RGB", (6, 5))})

    @pytest.mark.parametrize("labels", [["cat", "dog", "fox"], [7, 8, 9]])
    def test_class_label_and_probabilities(self, labels: list, tmp_path: Path) -> None:
        model = MLModel(
            convert(
                nn.Softmax(-1),
                (1, 3),
                tmp_path / "m.mlpackage",
                outputs=None,
                classifier_config=ct.ClassifierConfig(labels),
            )
        )
        out = model.predict({"x": [[0, 3, 1]]})
        assert out["classLabel"] == labels[1]
        (chances,) = (value for value in out.values() if isinstance(value, dict))
        assert list(chances) == labels
        assert sum(chances.values()) == pytest.approx(1, abs=1e-3)

    def test_what_was_read_of_a_state_stays_when_it_is_written(self, tmp_path: Path) -> None:
        placeholders = {
            "x": mb.placeholder(shape=(1,), dtype=types.fp16),
            "s": StateTensorPlaceholder((3,), types.fp16),
        }
        with Function(placeholders, opset_version=IOS18) as function:
            before = mb.read_state(input=function.inputs["s"])
            after = mb.slice_update(x=before, update=function.inputs["x"], begin=[1], end=[2])
            written = mb.coreml_update_state(state=function.inputs["s"], value=after)
            function.set_outputs(
                [mb.identity(x=v, name=n) for n, v in (("before", before), ("after", written))]
            )
        program = Program(save(function, tmp_path / "s.mlpackage", IOS18))
        state = program.make_state()
        held = state["s"]
        for x, was in ((4, 0), (7, 4)):
            out = program({"x": np.array([x], np.float16)}, state=state)
            assert (out["before"].tolist(), out["after"].tolist()) == ([0, was, 0], [0, x, 0])
        # in place
        assert held is state["s"]
        assert held.tolist() == [0, 7, 0]
        pytest.raises(
            RuntimeError,
            program,
            {"x": np.array([9], np.float16)},
            state=state,
            hook=_stop_at_after,
        ).match("stop here")
        assert held.tolist() == [0, 7, 0]  # a run that fails leaves the state as it was
        pytest.raises(ProgramError, program, {"x": np.array([9], np.float16)}).match(
            "keeps states \\(s\\); pass state=program.make_state"
        )
        with pytest.raises(
            ProgramError, match="states \\['other'\\] given, the program has \\['s'\\]"
        ):
            program({"x": np.array([9], np.float16)}, state={"other": torch.zeros(3)})


def _stop_at_after(name: str, kind: str, value: object) -> None:
    if name == "after":
        raise RuntimeError("stop here")


def test_state_is_kept_between_calls(tmp_path: Path) -> None:
    placeholders = {
        "x": mb.placeholder(shape=(2,), dtype=types.fp16),
        "total": StateTensorPlaceholder((2,), types.fp16),
    }
    with Function(placeholders, opset_version=IOS18) as function:
        total = function.inputs["total"]
        new = mb.coreml_update_state(
            state=total, value=mb.add(x=mb.read_state(input=total), y=function.inputs["x"])
        )
        function.set_outputs([mb.identity(x=new, name="y")])
    model = MLModel(save(function, tmp_path / "s.mlpackage", IOS18))
    state, other = model.make_state(), model.make_state()
    for k in (1, 2, 3):
        assert model.predict({"x": [1, 2]}, state)["y"].tolist() == [k, 2 * k]
    assert state.read_state("total").dtype == np.float32
    assert other.read_state("total").tolist() == [
        0,
        0,
    ]
    other.write_state("total", np.array([5, 5], np.float32))
    assert model.predict({"x": [1, 2]}, other)["y"].tolist() == [6, 7]
    for call, message in (
        (lambda: model.predict({"x": [1, 2]}), "make_state"),
        (lambda: model.predict([{"x": [1, 2]}], state), "unbatched"),
        (lambda: state.read_state("nothing"), "there is no state 'nothing'; the model keeps total"),
        (lambda: state.write_state("total", np.zeros(3)), r"has shape \[2\]; given \[3\]"),
    ):
        pytest.raises(ProgramError, call).match(message)


def test_several_functions_and_the_default_one(plain: Path, tmp_path: Path) -> None:
    second, descriptor = (
        convert(Affine(10), (1, 3), tmp_path / "b.mlpackage"),
        ct.utils.MultiFunctionDescriptor(),
    )
    descriptor.add_function(str(plain), "main", "twice")
    descriptor.add_function(str(second), "main", "tenfold")
    descriptor.default_function_name = "tenfold"
    path = tmp_path / "both.mlpackage"
    ct.utils.save_multifunction(descriptor, str(path))
    x = {"x": [[1, 2, 3]]}
    assert MLModel(path).predict(dict(x))["y"].tolist() == [[11, 21, 31]]
    assert MLModel(path).function_name == "tenfold"
    assert MLModel(path, function_name="twice").predict(dict(x))["y"].tolist() == [[3, 5, 7]]
    assert Program(path).function == "tenfold"
    assert Program(path, function="twice")({"x": np.ones((1, 3))})["y"].tolist() == [[3, 3, 3]]
    pytest.raises(ProgramError, Program, path, function="main").match(
        "no function 'main'; this program has tenfold, twice"
    )
    with pytest.raises(
        ValueError, match="function_name thrice not found in the model; it has twice, tenfold"
    ):
        MLModel(path, function_name="thrice")
    pytest.raises(ValueError, MLModel, plain, function_name="twice").match(
        'function_name must be "main" for non multifunction model'
    )


def test_pipeline(plain: Path, tmp_path: Path) -> None:
    second = convert(
        Affine(10),
        (1, 3),
        tmp_path / "b.mlpackage",
        inputs=[ct.TensorType("y", shape=(1, 3))],
        outputs=("z",),
    )
    models = [ct.models.MLModel(str(path), skip_model_load=True) for path in (plain, second)]
    path = tmp_path / "line.mlpackage"
    ct.utils.make_pipeline(*models).save(str(path))
    model = MLModel(path)
    assert model.predict({"x": [[1, 2, 3]]})["z"].tolist() == [[31, 51, 71]]
    assert len(model.programs) == 2
    pytest.raises(ProgramError, model.make_state).match("a pipeline keeps no state")


def test_what_coremltools_refuses(plain: Path) -> None:
    model = MLModel(plain)
    pytest.raises(KeyError, model.predict, {"z": [[1, 2, 3]]}).match(
        'Provided key "z", in the input dict, does not match'
    )
    pytest.raises(TypeError, model.predict, np.zeros((1, 3))).match(
        '"data" parameter must be either a dict or list of dict'
    )
    pytest.raises(TypeError, model.predict, [3]).match('"data" list must contain only dictionaries')
    pytest.raises(TypeError, MLModel, plain, compute_units="CPU_ONLY").match(
        '"compute_units" parameter'
    )
    pytest.raises(TypeError, MLModel, 3).match("Expected model to be")
    pytest.raises(RuntimeError, model.predict, {}).match("missing input 'x'")
    pytest.raises(RuntimeError, model.predict, {"x": [[1, 2]]}).match(r"allowed: \[1, 3\]")
    with pytest.raises(RuntimeError, match="keeps no state"):
        model.predict({"x": [[1, 2, 3]]}, model.make_state())
    pytest.raises(RuntimeError, model.predict, {"x": [["a", "b", "c"]]}).match("holds <U")
