"""Arithmetic against sums of ones and closed forms, bytes and live memory on a chain counted by hand, stored bytes of every compression."""

from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
import torch
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import types
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from mlprogram.examine.profile import count_flops, count_macs, open_program
from mlprogram.tests.built import Compress, joint, linear, package_of, palette, profile_of, sparse

small = st.integers(1, 4)
VALUES = 64 * 32 * 4
WEIGHT = np.random.default_rng(0).standard_normal((64, 32, 1, 4)).astype(np.float32)


@settings(max_examples=50, deadline=None)
@given(
    batch=small,
    groups=small,
    c_in=small,
    c_out=small,
    kernel=st.tuples(small, small),
    stride=small,
    dilation=small,
    extra=st.integers(0, 5),
)
def test_conv_macs_are_the_sum_of_ones(
    batch: int, groups: int, c_in: int, c_out: int, kernel: tuple[int, int], stride: int, dilation: int, extra: int
) -> None:
    spans = [(k - 1) * dilation + 1 + extra for k in kernel]
    x, w = torch.ones(batch, groups * c_in, *spans), torch.ones(groups * c_out, c_in, *kernel)
    y = F.conv2d(x, w, stride=stride, dilation=dilation, groups=groups)  # each output is the number of its products
    assert count_macs("conv", {"x": tuple(x.shape), "weight": tuple(w.shape)}, (tuple(y.shape),), {}) == int(y.sum())


@settings(max_examples=50, deadline=None)
@given(batch=small, groups=small, c_in=small, c_out=small, kernel=small, stride=small, width=st.integers(1, 9))
def test_conv_transpose_macs_are_the_sum_of_ones(
    batch: int, groups: int, c_in: int, c_out: int, kernel: int, stride: int, width: int
) -> None:
    x, w = torch.ones(batch, groups * c_in, width), torch.ones(groups * c_in, c_out, kernel)
    y = F.conv_transpose1d(x, w, stride=stride, groups=groups)
    assert count_macs("conv_transpose", {"x": tuple(x.shape), "weight": tuple(w.shape)}, (tuple(y.shape),), {}) == int(y.sum())


@settings(max_examples=50, deadline=None)
@given(batch=small, rows=small, inner=small, columns=small, flip=st.booleans())
def test_product_macs_are_the_sum_of_ones(batch: int, rows: int, inner: int, columns: int, flip: bool) -> None:
    x, y = torch.ones(batch, rows, inner), torch.ones(batch, inner, columns)
    total = int((x @ y).sum())
    shape = tuple((x.mT if flip else x).shape)
    assert count_macs("matmul", {"x": shape, "y": tuple(y.shape)}, ((batch, rows, columns),), {"transpose_x": flip}) == total
    operands = {"values[000]": (batch, rows, inner), "values[001]": (batch, inner, columns)}
    assert count_macs("einsum", operands, ((batch, rows, columns),), {"equation": "bij,bjk->bik"}) == total
    assert count_macs("linear", {"x": (batch, rows, inner), "weight": (columns, inner)}, ((batch, rows, columns),), {}) == total


def test_attention_and_lstm_closed_forms() -> None:
    shapes = {"query": (2, 3, 5, 8), "key": (2, 3, 7, 8), "value": (2, 3, 7, 4)}
    assert count_macs("scaled_dot_product_attention", shapes, ((2, 3, 5, 4),), {}) == 2 * 3 * 5 * 7 * (8 + 4)
    shapes = {"x": (10, 2, 6), "weight_ih": (16, 6), "weight_hh": (16, 4), "bias": (16,)}
    assert count_macs("lstm", shapes, ((10, 2, 4),), {}) == 10 * 2 * 16 * (6 + 4)


def test_flops_of_operations_without_macs() -> None:
    x = {"x": (2, 3, 4)}
    assert count_flops("relu", 0, x, ((2, 3, 4),)) == 24
    assert count_flops("reduce_sum", 0, x, ((2, 3, 1),)) == 24
    assert count_flops("softmax", 0, x, ((2, 3, 4),)) == 120
    assert count_flops("transpose", 0, x, ((4, 3, 2),)) == 0
    assert count_flops("conv", 7, x, ((2, 3, 4),)) == 14


def test_chain_counted_by_hand(tmp_path: Path) -> None:
    def chain(x):
        a = mb.relu(x=x)  # reads x, writes a
        b = mb.add(x=a, y=x)  # reads a and x, the last use of both
        c = mb.reshape(x=b, shape=[1, 8, 1, 4])  # the same bytes as b
        return mb.conv(x=c, weight=np.ones((2, 8, 1, 1), np.float16))  # [1, 2, 1, 4]

    profile = profile_of({"x": (1, 4, 1, 8)}, chain, tmp_path)
    relu, add, reshape, conv = profile.ops
    tensor = 4 * 8 * 2  # bytes of x, a, b
    assert [op.activation_bytes for op in profile.ops] == [2 * tensor, 3 * tensor, 0, tensor + 2 * 4 * 2]
    assert [op.weight_bytes for op in profile.ops] == [0, 0, 0, 2 * 8 * 2]
    assert profile.live_bytes() == [2 * tensor, 3 * tensor, tensor, tensor + 16]
    assert profile.live_peak_bytes() == 3 * tensor
    assert (relu.macs, add.flops, reshape.flops, conv.macs) == (0, 32, 0, 2 * 4 * 8)


def test_one_operand_twice_is_read_once_and_a_slice_reads_what_it_writes(tmp_path: Path) -> None:
    def build(x):
        return mb.slice_by_index(x=mb.mul(x=x, y=x), begin=[0, 0, 0, 0], end=[1, 4, 1, 2])

    square, piece = profile_of({"x": (1, 4, 1, 8)}, build, tmp_path).ops
    assert (square.activation_bytes, piece.activation_bytes) == (64 + 64, 16 + 16)


def test_loop_is_counted_as_often_as_it_runs(tmp_path: Path) -> None:
    def build(x):
        return mb.while_loop(
            _cond=lambda i, y: mb.less(x=i, y=3), _body=lambda i, y: (mb.add(x=i, y=1), mb.mul(x=y, y=2.0)), loop_vars=(0, x)
        )[1]

    profile = profile_of({"x": (4,)}, build, tmp_path, dtype=types.fp32)
    times = {op.op_type: op.times for op in profile.ops}
    assert profile.shapes_from == "one run on zeros" and times["mul"] == 3 and times["while_loop"] == 1
    assert next(op for op in profile.ops if op.op_type == "mul").flops == 3 * 4


def test_shapes_that_no_value_decides_are_found_without_a_run(tmp_path: Path) -> None:
    profile = profile_of({"x": (1, 4, 1, 8)}, lambda x: mb.relu(x=x), tmp_path)
    assert profile.shapes_from == "shapes alone"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolution [64, 32, 1, 4] of fp32 weights, to compress."""
    folder = tmp_path_factory.mktemp("plain")
    return package_of({"x": (1, 32, 1, 16)}, lambda x: mb.conv(x=x, weight=WEIGHT), folder, dtype=types.fp32, target=ct.target.iOS18)


def compressed(path: Path, compress: Compress, folder: Path) -> Path:
    """The package with its weights compressed."""
    compress(ct.models.MLModel(str(path), skip_model_load=True)).save(str(folder / "compressed.mlpackage"))
    return folder / "compressed.mlpackage"


@pytest.mark.parametrize(
    ("compress", "kind", "stored"),
    [
        (None, "fp32", 4 * VALUES),
        (linear("int8"), "linear int8", VALUES + 64 * 4),
        (linear("int4", granularity="per_block", block_size=16), "linear per block int4", VALUES // 2 + 64 * 2 * 4),
        (palette(nbits=4), "palette 4-bit", VALUES // 2 + 16 * 4),
        (sparse(0.75), "sparse fp32", VALUES // 4 * 4 + VALUES // 8),
    ],
)
def test_stored_bytes_by_kind(plain: Path, compress: Compress | None, kind: str, stored: int, tmp_path: Path) -> None:
    path = plain if compress is None else compressed(plain, compress, tmp_path)
    assert open_program(path).storage.bytes_by_kind() == {kind: stored}


@pytest.mark.parametrize(
    ("compress", "kind", "stored"),
    [
        (linear("int8"), "linear int8", VALUES + 64 * 4 + 1),
        (palette(nbits=6), "palette 6-bit", VALUES * 6 // 8 + 64 * 4),
        (sparse(0.75), "sparse fp32", VALUES // 4 * 4 + VALUES // 8),
    ],
)
def test_stored_bytes_of_the_older_forms(compress: Compress, kind: str, stored: int, tmp_path: Path) -> None:
    path = package_of({"x": (1, 32, 1, 16)}, lambda x: mb.conv(x=x, weight=WEIGHT), tmp_path, dtype=types.fp32)
    kinds = open_program(compressed(path, compress, tmp_path)).storage.bytes_by_kind()
    assert list(kinds) == [kind] and kinds[kind] == pytest.approx(stored, abs=80)  # 80: shapes and zero points


def test_joint_compression_and_shared_weights(plain: Path, tmp_path: Path) -> None:
    kinds = open_program(compressed(plain, joint("palette", 0.5), tmp_path)).storage.bytes_by_kind()
    assert list(kinds) == ["sparse + palette 4-bit"] and kinds["sparse + palette 4-bit"] < VALUES

    def twice(x):
        weight = mb.const(val=np.ones((4, 4, 1, 3), np.float16))
        return mb.conv(x=mb.conv(x=x, weight=weight), weight=weight)

    assert open_program(package_of({"x": (1, 4, 1, 9)}, twice, tmp_path)).storage.bytes_by_kind() == {"fp16": 96}
