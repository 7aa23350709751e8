"""Precisions that round elsewhere: Core AI's kernels against sums written out in fp16, and sums in float64.

python -m pytest tests/test_mlprogram_rounding_models.py -q
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
import torch
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import Function, types
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from core.figures import snr_db
from mlprogram import Program
from mlprogram.core_ai_numerics import TILE, core_ai_conv, core_ai_conv_transpose, core_ai_leaky_relu
from mlprogram.ops.conv import conv, conv_transpose
from mlprogram.plan import KERNELS_OF
from mlprogram.precision import MODELS
from tests.mlprogram_build import save

IOS17 = ct.target.iOS17


def halves(*shape: int, seed: int) -> torch.Tensor:
    """fp16 values in fp32."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).half().float()


def test_every_model_has_kernels() -> None:
    assert set(KERNELS_OF) == set(MODELS)


def test_the_sum_is_rounded_before_the_bias() -> None:
    x, weight, bias = halves(1, 32, 1, 50, seed=0), halves(8, 32, 1, 3, seed=1), 40 * halves(8, seed=2)
    rounded = core_ai_conv(x, weight, bias, pad_type="custom", pad=[0, 0, 1, 1])
    sums = conv(x, weight, None, pad_type="custom", pad=[0, 0, 1, 1])
    assert torch.equal(rounded, sums.half().float() + bias.view(1, -1, 1, 1))
    assert not torch.equal(rounded.half(), (sums + bias.view(1, -1, 1, 1)).half())  # the control: once and twice are not the same


def written_out(x: torch.Tensor, weight: torch.Tensor, stride: int, groups: int) -> torch.Tensor:
    """The full transposed convolution [1, O, (W - 1) stride + K], each product added by itself in fp16, by tiles. x [1, C, W]."""
    channels, per_group, width = weight.shape[0] // groups, weight.shape[1], (x.shape[2] - 1) * stride + weight.shape[2]
    y = np.zeros((groups * per_group, width), np.float16)
    for group in range(groups):
        for channel in range(channels):
            own = group * channels + channel
            for start, tap, out in product(range(0, x.shape[2], TILE), range(weight.shape[2]), range(per_group)):
                for column in range(start, min(start + TILE, x.shape[2])):
                    value = float(x[0, own, column]) * float(weight[own, out, tap])
                    place = (group * per_group + out, column * stride + tap)
                    y[place] = np.float16(np.float32(float(y[place]) + value))
    return torch.from_numpy(y).float()[None]


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 7), st.integers(1, 4), st.integers(1, 3), st.integers(1, 2), st.integers(0, 99))
def test_transposed_sums_are_in_fp16(taps: int, stride: int, channels: int, groups: int, seed: int) -> None:
    x, weight = halves(1, channels * groups, 2 * TILE + 3, seed=seed), halves(channels * groups, 2, taps, seed=seed + 1)
    found = core_ai_conv_transpose(x, weight, strides=[stride], groups=groups)
    assert torch.equal(found, written_out(x, weight, stride, groups))


def test_transposed_with_bias_padding_and_two_axes() -> None:
    """The shape and, within fp16's sums, the values of the ordinary kernel; with many channels those sums lose 20 dB."""
    x, weight, bias = halves(1, 256, 3, 9, seed=3), halves(256, 4, 2, 4, seed=4), halves(4, seed=5)
    rest = {"pad": [0, 1, 1, 2], "pad_type": "custom", "strides": [1, 2], "dilations": [2, 1]}
    wide = conv_transpose(x, weight, bias, **rest)
    narrow = core_ai_conv_transpose(x, weight, bias, **rest)
    assert narrow.shape == wide.shape
    assert 40 < snr_db(wide.numpy(), narrow.numpy()) < snr_db(wide.numpy(), wide.half().numpy()) - 10


def test_alpha_is_a_number_of_fp16() -> None:
    x = halves(1000, seed=6)
    assert torch.equal(core_ai_leaky_relu(x, 0.2), F.leaky_relu(x, 0.199951171875))


def program(folder: Path, dtype: type) -> Path:
    weight = np.random.default_rng(0).standard_normal((16, 16, 1, 3)).astype(types.nptype_from_builtin(dtype))
    with Function({"x": mb.placeholder(shape=(1, 16, 1, 40), dtype=dtype)}, opset_version=IOS17) as function:
        y = mb.conv(x=function.inputs["x"], weight=weight, bias=np.ones(16, weight.dtype), pad_type="same")
        function.set_outputs([mb.leaky_relu(x=y, alpha=weight.dtype.type(0.2), name="y")])
    return save(function, folder / "p.mlpackage", IOS17)


def test_core_ai64_rounds_where_core_ai_does() -> None:
    x, weight, bias = halves(1, 256, 1, 400, seed=10), halves(16, 256, 1, 5, seed=11), 100 * halves(16, seed=12)
    narrow, wide = (KERNELS_OF[name]["conv"].run(x=x, weight=weight, bias=bias).half() for name in ("core_ai", "core_ai64"))
    assert 0 < (narrow != wide).float().mean() < 0.01
    assert (conv(x, weight, bias).half() != wide).float().mean() > 0.05


@pytest.mark.parametrize("precision", MODELS)
def test_models_round_fp16_and_leave_fp32_alone(precision: str, tmp_path: Path) -> None:
    x = {"x": halves(1, 16, 1, 40, seed=7).numpy()}
    path = program(tmp_path / "half", types.fp16)
    declared, exact, modelled = (Program(path, precision=name)(x)["y"].float().numpy() for name in ("declared", "exact", precision))
    assert 60 < snr_db(exact, modelled) < 90
    assert precision == "declared64" or not np.array_equal(declared, modelled)
    path = program(tmp_path / "single", types.fp32)
    assert torch.equal(Program(path)(x)["y"], Program(path, precision=precision)(x)["y"])


def test_another_order_of_additions_is_rounded_once_too() -> None:
    """declared64 gives the nearest fp16 value of every sum; float32's sums miss it where they end beside an edge."""
    x, weight = halves(1, 512, 1, 400, seed=8), halves(16, 512, 1, 5, seed=9)
    nearest = conv(x.double(), weight.double()).half()
    assert torch.equal(KERNELS_OF["declared64"]["conv"].run(x=x, weight=weight).half(), nearest)
    missed = (conv(x, weight).half() != nearest).float().mean()
    assert 0 < missed < 0.01
