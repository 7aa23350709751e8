"""What coremltools' own tests found: the smallest case of each defect, so that none comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from coremltools.converters.mil.mil import Builder as mb

from mlprogram import ProgramError
from mlprogram.ops import KERNELS
from mlprogram.tests.built import program_of


def run(op: str, **arguments: Any) -> Any:
    """A kernel by name, NumPy arrays in, tensors out."""
    return KERNELS[op].run(**{n: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for n, v in arguments.items()})


def near(got: torch.Tensor, want: Any) -> None:
    np.testing.assert_allclose(got.numpy().ravel(), np.ravel(want), atol=1e-3)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def test_scalars_concatenate(tmp_path: Path) -> None:
    """Every model with computed shapes does this: sizes gathered one by one, then joined."""

    def body(x):
        size = mb.gather(x=mb.shape(x=mb.non_zero(x=x)), indices=np.int32(0), axis=0)
        return [mb.concat(values=[size, size], axis=0, name="y")]

    assert program_of(body, tmp_path, x=(2, 3))({"x": np.array([[1, 0, 2], [0, 3, 0]], np.float32)})["y"].tolist() == [3, 3]


def test_one_value_given_back_twice(tmp_path: Path) -> None:
    def body(x):
        y = mb.add(x=x, y=1.0, name="y")
        return [y, y]

    out = program_of(body, tmp_path, x=(2,))({"x": ones(2)})
    assert {n: t.tolist() for n, t in out.items()} == {"y": [2, 2]}


def test_lstm_clips_the_cell_state() -> None:
    """Gates near 1 and a cell state of 6: clipped to 0.2, so h is 0.2 with relu."""
    weights = {"weight_ih": ones(4, 1) * 5, "weight_hh": np.zeros((4, 1), np.float32)}
    y, _, c = run("lstm", x=ones(1, 1, 1), initial_h=ones(1, 1) * 0, initial_c=ones(1, 1) * 6, activation="relu", clip=0.2, **weights)
    assert c.item() == pytest.approx(0.2)
    assert y.item() == pytest.approx(0.2, abs=2e-3)


def test_lstm_takes_the_first_rows_of_a_longer_initial_state() -> None:
    """coremltools converts pack_padded_sequence with a state for each step instead of each sample."""
    torch.manual_seed(0)
    given = {"x": torch.randn(5, 2, 3), "weight_ih": torch.randn(16, 3), "weight_hh": torch.randn(16, 4)}
    h, c = torch.randn(2, 7, 4)
    longer, exact = (KERNELS["lstm"].run(initial_h=h[:n], initial_c=c[:n], **given) for n in (7, 2))
    assert all(torch.equal(one, other) for one, other in zip(longer, exact, strict=True))


def test_gru_resets_before_the_product() -> None:
    """U (r h) and r (U h) part where U mixes states: r = (sigmoid 4, sigmoid -4) and U_n swaps, z near 0."""
    weight_hh = np.array([[4, 0], [0, -4], [0, 1], [1, 0], [-9, -9], [-9, -9]], np.float32)
    given = {"x": ones(1, 1, 1) * 0, "initial_h": ones(1, 2), "weight_ih": ones(6, 1) * 0, "weight_hh": weight_hh}
    low, high = np.tanh(1 / (1 + np.exp([4.0, -4.0])))
    near(run("gru", **given)[1], [low, high])
    near(run("gru", reset_after=True, **given)[1], [high, low])


@pytest.mark.parametrize("steps", [1, 6])
def test_gru_that_resets_after_the_product_is_pytorch_s(steps: int) -> None:
    torch.manual_seed(1)
    module, x, h = torch.nn.GRU(3, 4), torch.randn(steps, 2, 3), torch.randn(1, 2, 4)
    w, u, b, c = (torch.cat([p.chunk(3)[i] for i in (0, 2, 1)]).detach() for p in module.parameters())  # r z n -> r n z
    y, last = KERNELS["gru"].run(x, h[0], w, u, bias=c, input_bias=b, reset_after=True, output_sequence=True)
    want, final = module(x, h)
    near(y, want.detach())
    near(last, final.detach())


def test_scaled_tanh_in_a_recurrent_layer_is_tanh() -> None:
    given = {"x": ones(1, 1, 1), "initial_h": ones(1, 1) * 0, "weight_ih": ones(1, 1), "weight_hh": ones(1, 1)}
    near(run("rnn", activation="scaled_tanh", **given)[1], [np.tanh(1.0)])


@pytest.mark.parametrize(
    ("box", "want"),
    [
        ([0.1, 0.3, 1.3, 1.0], [3.1, 5.2, 10, 10]),  # its last row lies outside
        ([0.5, 1.8, 1.0, 0.3], [10, 7.9, 10, 13.9]),  # from right to left, and its first column outside
        ([2 / 3, 2 / 3, 1 / 3, 1 / 3], [11, 10, 7, 6]),  # backwards on both axes
    ],
)
def test_crop_resize_outside_and_backwards(box: list[float], want: list[float]) -> None:
    image = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    size = {"target_height": 2, "target_width": 2, "normalized_coordinates": True, "sampling_mode": "ALIGN_CORNERS", "pad_value": 10.0}
    near(run("crop_resize", x=image, boxes=np.array([box], np.float32), **size), want)


def test_crop_resize_of_an_inverted_roi_without_aligned_corners() -> None:
    """The one such case of coremltools' tests: the whole image stands in."""
    roi = np.array([2, 2, 1, 1], np.float32).reshape(1, 1, 4, 1, 1)
    size = {"target_height": 2, "target_width": 2, "normalized_coordinates": True, "sampling_mode": "UNALIGN_CORNERS"}
    near(run("crop_resize", x=np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4), roi=roi, **size), [3.5, 5.5, 11.5, 13.5])


def test_unknown_number_of_axes_is_not_one_axis(tmp_path: Path) -> None:
    """fill of a shape whose length only a run knows: the program declares one variadic dimension."""

    def body(x):
        places = mb.reshape(x=mb.cast(x=mb.non_zero(x=x), dtype="int32"), shape=[-1])
        return [mb.fill(shape=mb.add(x=places, y=1), value=7.0, name="y")]

    program = program_of(body, tmp_path, x=(2, 3))
    assert not program.value_type("y").ranked
    assert program({"x": np.array([[0, 0, 0], [0, 1, 1]], np.float32)})["y"].shape == (2, 2, 2, 3)


def test_resample_nearest_takes_halves_up() -> None:
    """Column 6.5 of a 2-pixel axis, mirrored: 7 is pixel 0; to even, 6 would be pixel 1."""
    image, place = np.array([11, 22, 33, 44], np.float32).reshape(1, 1, 2, 2), np.array([3.5, 1.2], np.float32).reshape(1, 1, 1, 2)
    modes = {"sampling_mode": "nearest", "padding_mode": "symmetric", "padding_value": -1.0, "align_corners": False}
    assert run("resample", x=image, coordinates=place, coordinates_mode="normalized_zero_to_one", **modes).item() == 33


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_floats_times_integer_constants(dtype: type) -> None:
    x, y = np.array([[1, 2]], dtype), np.array([[3], [4]], np.int32)
    assert run("matmul", x=x, y=y).tolist() == [[11]]
    assert run("linear", x=x, weight=y.T.copy(), bias=np.array([1], np.int32)).tolist() == [[12]]


@pytest.mark.parametrize("op", ["scatter", "scatter_along_axis", "scatter_nd", "gather", "gather_along_axis", "gather_nd"])
def test_validated_indices_may_not_be_negative(op: str) -> None:
    """A negative index counts from the end unless validate_indices is set; then it is an error."""
    data, last, first = torch.zeros(3), torch.tensor([-1]), {"x": torch.zeros(3)}
    if op.startswith("scatter"):
        first = {"data": data, "updates": torch.ones(1)}
    if op.endswith("_nd"):
        last = last.unsqueeze(1)
    call = KERNELS[op].run
    assert call(indices=last, **first) is not None
    with pytest.raises(IndexError, match="outside an axis of 3"):
        call(indices=last, validate_indices=True, **first)


def test_a_failing_index_names_its_operation(tmp_path: Path) -> None:
    def body(x, i):
        places = mb.cast(x=i, dtype="int32")
        return [mb.scatter(data=x, indices=places, updates=np.ones((1, 3), np.float32), validate_indices=True, name="y")]

    program = program_of(body, tmp_path, x=(2, 3), i=(1,))
    with pytest.raises(ProgramError, match="scatter 'y'"):
        program({"x": ones(2, 3), "i": np.array([-1], np.float32)})


@pytest.mark.parametrize("op", ["scatter", "scatter_along_axis", "scatter_nd"])
@pytest.mark.parametrize("mode", ["add", "update", "max"])
def test_unchecked_scatter_leaves_out_what_is_outside(op: str, mode: str) -> None:
    """From iOS 17 on (validate_indices is there, and false) negative indices are outside too. Before, they count from the end."""
    indices, updates = torch.tensor([1, -1, 3]), torch.tensor([5.0, 6.0, 7.0])
    indices = indices.unsqueeze(1) if op == "scatter_nd" else indices
    call, data = KERNELS[op].run, torch.ones(3)
    with pytest.warns(RuntimeWarning, match="outside an axis of 3"):
        found = call(data=data, indices=indices, updates=updates, mode=mode, validate_indices=False)
    assert found.tolist() == [1, 6 if mode == "add" else 5, 1] and data.tolist() == [1, 1, 1]
    older = call(data=data, indices=indices[:2], updates=updates[:2], mode=mode)
    assert older[2] == (7 if mode == "add" else 6)
    with pytest.raises(IndexError, match="outside an axis of 3"):
        call(data=data, indices=indices, updates=updates, mode=mode)


def test_unchecked_scatter_of_rows() -> None:
    """Whole slices, on another axis than the first, and by coordinates."""
    data = torch.arange(6.0).reshape(2, 3)
    with pytest.warns(RuntimeWarning):
        one = KERNELS["scatter"].run(data=data, indices=torch.tensor([-1]), updates=torch.ones(2, 1), axis=1, validate_indices=False)
        two = KERNELS["scatter"].run(data=data, indices=torch.tensor([0, 9]), updates=torch.ones(2, 2), axis=-1, validate_indices=False)
        places = torch.tensor([[1, 0], [0, -1]])
        three = KERNELS["scatter_nd"].run(data=data, indices=places, updates=torch.ones(2), mode="update", validate_indices=False)
    assert torch.equal(one, data)
    assert two.tolist() == [[1, 1, 2], [4, 4, 5]]
    assert three.tolist() == [[0, 1, 2], [1, 4, 5]]
