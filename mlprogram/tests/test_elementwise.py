"""Elementwise operations, activations, reductions, resizing and sampling against NumPy, SciPy and
PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
import scipy.special
import torch
from torch.nn import functional as F

from built import Case, check, makers, run_all, test_of
from mlprogram.ops import KERNELS

Rng = np.random.Generator


def shape_of(rng: Rng, low: int = 1, high: int = 4) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(1, 6, rng.integers(low, high + 1)))


def unary(
    function: Callable,
    low: float = -3,
    high: float = 3,
    folds: bool = True,
    ulps: float = 1,
    **attrs: float,
) -> Callable[[Rng], Case]:
    """A case maker for an operation of one tensor with values in [low, high]."""

    def make(rng: Rng) -> Case:
        return Case(
            {"x": rng.uniform(low, high, shape_of(rng))},
            function,
            attrs=attrs,
            folds=folds,
            ulps=ulps,
        )

    return make


def binary(
    function: Callable, low: float = -3, high: float = 3, away: float = 0.0, ulps: float = 1
) -> Callable[[Rng], Case]:
    """A case maker for two tensors that broadcast; |y| >= away."""

    def make(rng: Rng) -> Case:
        shape = shape_of(rng)
        other = tuple(n if rng.random() < 0.6 else 1 for n in shape[rng.integers(len(shape)) :])
        x, y = rng.uniform(low, high, shape), rng.uniform(low, high, other)
        y = np.where(np.abs(y) < away, np.sign(y) * away + away * (y == 0), y)
        x, y = np.atleast_1d(x), np.atleast_1d(y)
        return Case(
            {"x": x, "y": y} if rng.random() < 0.5 else {"x": x, "y": np.resize(y, y.shape)},
            function,
            ulps=ulps,
        )

    return make


def integers(function: Callable, low: int = -9, high: int = 9) -> Callable[[Rng], Case]:
    """A case maker for two integer tensors of one shape, the second without zeros."""

    def make(rng: Rng) -> Case:
        shape = shape_of(rng)
        y = rng.integers(1, high, shape) * rng.choice([-1, 1], shape)
        return Case(
            {"x": rng.integers(low, high, shape).astype(np.int32), "y": y.astype(np.int32)},
            function,
            fp16=False,
        )

    return make


def halves(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(-2, 3, shape) / 2.0


def truths(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    return rng.random(shape) < 0.5


# A case maker whose inputs of one shape are drawn one by one
def drawn(function: Callable, **draws: Callable) -> Callable[[Rng], Case]:

    def make(rng: Rng) -> Case:
        shape = shape_of(rng)
        return Case({name: draw(rng, shape) for name, draw in draws.items()}, function)

    return make


def cast(rng: Rng) -> Case:
    target, x = (
        str(rng.choice(["int32", "fp16", "fp32", "bool"])),
        rng.uniform(-40, 40, shape_of(rng)),
    )
    x.flat[0] = 0.0
    change = {
        "int32": lambda x: np.trunc(x).astype(np.int32),
        "fp16": np.float16,
        "fp32": np.float32,
        "bool": lambda x: x != 0,
    }[target]
    return Case(
        {"x": x},
        lambda x, dtype: change(x),
        attrs={"dtype": target},
        ulps=2.0**26 if target == "fp16" else 2.0**13,
    )


def per_channel(function: Callable, *names: str) -> Callable[[Rng], Case]:
    """A case maker for an activation with parameters of shape [C]; x has rank 4."""

    def make(rng: Rng) -> Case:
        shape = tuple(int(n) for n in rng.integers(1, 5, 4))
        parameters = {n: rng.uniform(0.2, 1.5, shape[1]) for n in names}
        return Case(
            {"x": rng.normal(size=shape)},
            lambda x, *p: function(x, *(v.reshape(-1, 1, 1) for v in p)),
            consts=parameters,
        )

    return make


def gelu(rng: Rng) -> Case:
    mode = str(rng.choice(["EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"]))
    curves = {
        "EXACT": lambda x: x * scipy.special.ndtr(x),
        "TANH_APPROXIMATION": lambda x: (
            0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
        ),
        "SIGMOID_APPROXIMATION": lambda x: x * scipy.special.expit(1.702 * x),
    }
    return Case(
        {"x": rng.normal(size=shape_of(rng)) * 2},
        lambda x, mode: curves[mode](x),
        attrs={"mode": mode},
        ulps=4,
    )


def softmax(rng: Rng) -> Case:
    x = rng.normal(size=shape_of(rng)) * 3
    axis = int(rng.integers(-x.ndim, x.ndim))
    return Case({"x": x}, lambda x, axis: scipy.special.softmax(x, axis), attrs={"axis": axis})


def reduction(function: Callable, low: float = -2, high: float = 2) -> Callable[[Rng], Case]:
    """A case maker for a reduction over random axes; function(x, axis, keepdims)."""

    def make(rng: Rng) -> Case:
        x = rng.uniform(low, high, shape_of(rng, 2))
        axes = sorted(int(a) for a in rng.choice(x.ndim, rng.integers(1, x.ndim), replace=False))
        axes, keep = (
            [a - x.ndim if rng.random() < 0.5 else a for a in axes],
            bool(rng.random() < 0.5),
        )
        return Case(
            {"x": x},
            lambda x, axes, keep_dims: function(x, tuple(axes), keepdims=keep_dims),
            attrs={"axes": axes, "keep_dims": keep},
            ulps=2,
        )

    return make


def argument(function: Callable) -> Callable[[Rng], Case]:

    def make(rng: Rng) -> Case:
        x = rng.integers(-3, 4, shape_of(rng, 2)).astype(np.float64)
        axis, keep = int(rng.integers(-x.ndim, x.ndim)), bool(rng.random() < 0.5)
        return Case(
            {"x": x},
            lambda x, axis, keep_dims: function(x, axis=axis, keepdims=keep_dims),
            attrs={"axis": axis, "keep_dims": keep},
        )

    return make


def cumsum(rng: Rng) -> Case:
    x = rng.integers(-4, 5, shape_of(rng, 1, 3)).astype(np.float64)
    attrs = {
        "axis": int(rng.integers(x.ndim)),
        "exclusive": bool(rng.random() < 0.5),
        "reverse": bool(rng.random() < 0.5),
    }

    def reference(x, axis, exclusive, reverse):
        y = np.flip(x, axis) if reverse else x
        total = np.cumsum(y, axis)
        if exclusive:  # shift by one
            total = np.concatenate(
                [np.zeros_like(np.take(total, [0], axis)), np.delete(total, -1, axis)], axis
            )
        return np.flip(total, axis) if reverse else total

    # value inference of an exclusive cumsum raises
    return Case({"x": x}, reference, attrs=attrs, folds=not attrs["exclusive"])


COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
# as in NumPy
THE_SAME = ("abs", "ceil", "cosh", "exp", "exp2", "floor", "sign", "sinh", "square", "tanh")
CASES: dict[str, Callable[[Rng], Case]] = {
    **{name: unary(getattr(np, name)) for name in THE_SAME},
    "acos": unary(np.arccos, -1, 1),
    "asin": unary(np.arcsin, -1, 1),
    "atan": unary(np.arctan),
    "atanh": unary(np.arctanh, -0.9, 0.9),
    "cast": cast,
    "cos": unary(np.cos, -20, 20),
    "clip": unary(lambda x, alpha, beta: np.clip(x, alpha, beta), alpha=-0.7, beta=1.3),
    "erf": unary(scipy.special.erf),
    "identity": unary(lambda x: x),
    "inverse": unary(lambda x, epsilon: 1 / (x + epsilon), 0.1, 3, epsilon=1e-4),
    "log": unary(lambda x, epsilon: np.log(x + epsilon), 0.01, 9, epsilon=1e-3, ulps=2),
    "round": unary(np.round, -9.5, 9.5),
    "rsqrt": unary(lambda x, epsilon: 1 / np.sqrt(x + epsilon), 0.1, 9, epsilon=1e-3),
    "sin": unary(np.sin, -20, 20),
    "sqrt": unary(np.sqrt, 0, 9),
    "tan": unary(np.tan, -1.2, 1.2),
    "threshold": unary(lambda x, alpha: np.maximum(x, alpha), alpha=0.4),
    "add": binary(np.add),
    "sub": binary(np.subtract),
    "mul": binary(np.multiply),
    "real_div": binary(np.divide, away=0.1),
    "maximum": binary(np.maximum),
    "minimum": binary(np.minimum),
    "pow": binary(np.power, 0.1, 3, ulps=2),
    "floor_div": integers(np.floor_divide),
    "mod": integers(np.mod),
    "logical_not": drawn(np.logical_not, x=truths),
    "select": drawn(np.where, cond=truths, a=halves, b=halves),
    **{name: drawn(getattr(np, name), x=halves, y=halves) for name in COMPARISONS},
    **{
        name: drawn(getattr(np, name), x=truths, y=truths)
        for name in ("logical_and", "logical_or", "logical_xor")
    },
    "clamped_relu": unary(
        lambda x, alpha, beta: np.where(x >= 0, np.minimum(x, beta), np.minimum(alpha * x, beta)),
        alpha=0.3,
        beta=1.2,
    ),
    "elu": unary(lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)), alpha=0.7),
    "gelu": gelu,
    "leaky_relu": unary(lambda x, alpha: np.where(x >= 0, x, alpha * x), alpha=0.1),
    "linear_activation": unary(lambda x, alpha, beta: alpha * x + beta, alpha=0.7, beta=-0.2),
    "relu": unary(lambda x: np.maximum(x, 0)),
    "relu6": unary(lambda x: np.clip(x, 0, 6), -3, 9),
    "scaled_tanh": unary(lambda x, alpha, beta: alpha * np.tanh(beta * x), alpha=1.7, beta=0.6),
    "prelu": per_channel(lambda x, a: np.where(x >= 0, x, a * x), "alpha"),
    "softplus_parametric": per_channel(
        lambda x, a, b: a * np.log1p(np.exp(b * x)), "alpha", "beta"
    ),
    "sigmoid": unary(scipy.special.expit, -9, 9),
    "silu": unary(lambda x: x * scipy.special.expit(x)),
    "softmax": softmax,
    "sigmoid_hard": unary(
        lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), alpha=0.3, beta=0.5
    ),
    "softplus": unary(lambda x: np.logaddexp(x, 0), -30, 30),
    "softsign": unary(lambda x: x / (1 + np.abs(x))),
    # value inference changes its argument
    "thresholded_relu": unary(lambda x, alpha: np.where(x >= alpha, x, 0), alpha=0.6, folds=False),
    **{
        f"reduce_{name}": reduction(getattr(np, name))
        for name in ("sum", "mean", "max", "min", "prod")
    },
    "reduce_l1_norm": reduction(lambda x, a, keepdims: np.abs(x).sum(a, keepdims=keepdims)),
    "reduce_l2_norm": reduction(lambda x, a, keepdims: np.sqrt((x * x).sum(a, keepdims=keepdims))),
    "reduce_sum_square": reduction(lambda x, a, keepdims: (x * x).sum(a, keepdims=keepdims)),
    "reduce_log_sum": reduction(lambda x, a, keepdims: np.log(x.sum(a, keepdims=keepdims)), 1.1, 3),
    "reduce_log_sum_exp": reduction(
        lambda x, a, keepdims: scipy.special.logsumexp(x, a, keepdims=keepdims), 0.5, 3
    ),
    "reduce_argmax": argument(np.argmax),
    "reduce_argmin": argument(np.argmin),
    "cumsum": cumsum,
}


@pytest.mark.parametrize("name", ["gelu", "sigmoid", "silu", "tanh"])
def test_fp16_kernel_rounds_once(name: str) -> None:
    """PyTorch's fp16 kernels that are used as they are: of every fp16 value what its fp32 kernel
    gives, rounded.

    Its own kernel: on some processors (AMD with AVX-512) fp32 goes to oneDNN instead, whose gelu
    differs in 403 values, NaN at infinity.
    """
    values, run = (
        torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch.float16),
        KERNELS[name].run,
    )
    assert KERNELS[name].half
    with torch.backends.mkldnn.flags(enabled=False):
        wide = run(values.float())
    torch.testing.assert_close(run(values), wide.half(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_of_fp16_is_the_nearest_value(axis: int) -> None:
    x = (torch.randn(40, 50, 60, generator=torch.Generator().manual_seed(axis)) * 3).half()
    exact, computed = (
        torch.softmax(x.double(), axis),
        KERNELS["softmax"].run(x, axis=axis).half().double(),
    )
    step = 2.0 ** (torch.floor(torch.log2(exact)).clamp(min=-14) - 10)
    assert (
        float(((computed - exact).abs() / step).max()) <= 0.502
    )  # half a step and the error of fp32


IMAGE, WIDER = (np.random.default_rng(0).normal(size=(2, 3, 4, width)) for width in (5, 6))


def interpolated(size: list[int], **more: Any) -> Callable[..., np.ndarray]:
    return lambda x, *_: F.interpolate(torch.from_numpy(x), size=size, **more).numpy()


def upsample_bilinear(fh: int, fw: int, align: bool) -> Case:
    attrs = {"scale_factor_height": fh, "scale_factor_width": fw, "align_corners": align}
    return Case(
        {"x": IMAGE},
        interpolated([4 * fh, 5 * fw], mode="bilinear", align_corners=align),
        attrs=attrs,
        ulps=2,
    )


def upsample_nearest_neighbor(fh: float, fw: float) -> Case:
    attrs = {"scale_factor_height": fh, "scale_factor_width": fw}
    return Case(
        {"x": WIDER},
        interpolated([int(4 * fh), int(6 * fw)], mode="nearest"),
        attrs=attrs,
        fp16=False,
    )


def resize_nearest_neighbor(h: int, w: int) -> Case:
    return Case(
        {"x": WIDER},
        interpolated([h, w], mode="nearest"),
        attrs={"target_size_height": h, "target_size_width": w},
    )


# interpolation as a matrix [count, size] of tent functions
def tent(size: int, places: np.ndarray) -> np.ndarray:
    return np.clip(1 - np.abs(places[:, None] - np.arange(size)), 0, None)


def places_of(size: int, count: int, mode: str) -> np.ndarray:
    i = np.arange(count)
    if mode == "STRICT_ALIGN_CORNERS" or (mode == "ALIGN_CORNERS" and count > 1):
        p = i * ((size - 1) / max(count - 1, 1))
    elif mode == "ALIGN_CORNERS":
        p = np.array([(size - 1) / 2])
    elif mode == "DEFAULT":
        p = i * ((size - size / count) / max(count - 1, 1))
    elif mode == "OFFSET_CORNERS":
        p = 0.5 * max(1, size - 1) / count + i * max(1, size - 1) / count
    else:
        p = i * size / count + 0.5 * size / count - 0.5
    return np.clip(p, 0, size - 1)


MODES = ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS", "UNALIGN_CORNERS")


def resize_bilinear(h: int, w: int, mode: str) -> Case:
    def reference(x, *_):
        return np.einsum(
            "nchw,ah,bw->ncab", x, tent(4, places_of(4, h, mode)), tent(5, places_of(5, w, mode))
        )

    return Case(
        {"x": IMAGE},
        reference,
        attrs={"target_size_height": h, "target_size_width": w, "sampling_mode": mode},
        ulps=2,
    )


def resize(height: int, interpolation: str, mode: str) -> Case:
    def reference(x, *_):
        if interpolation == "NEAREST_NEIGHBOR":
            return x[:, :, np.ceil(np.arange(height) * 4 / height - 0.5).astype(int)]
        return np.einsum(
            "nchw,ah,bw->ncab",
            x,
            tent(4, places_of(4, height, mode)),
            tent(5, places_of(5, 5, mode)),
        )

    attrs = {"shape": np.array([7, height, 0], np.int32), "resized_dims": np.uint32(2)}
    return Case(
        {"x": IMAGE},
        reference,
        attrs=attrs | {"interpolation_mode": interpolation, "sampling_mode": mode},
        ulps=2,
    )


def resample(rng: Rng) -> Case:
    sampling, align = str(rng.choice(["bilinear", "nearest"])), bool(rng.random() < 0.5)
    padding = str(rng.choice(["constant", "border", "reflection", "symmetric"]))
    # grid_sample reflects about edges when corners are not aligned
    align = align or padding != "constant" and padding != "border"
    torch_padding = {
        "constant": "zeros",
        "border": "border",
        "reflection": "reflection",
        "symmetric": "reflection",
    }[padding]
    padding = "reflection" if torch_padding == "reflection" else padding

    def reference(x, c, *_):
        return F.grid_sample(
            torch.from_numpy(x), torch.from_numpy(c), sampling, torch_padding, align
        ).numpy()

    attrs = {
        "sampling_mode": sampling,
        "padding_mode": padding,
        "padding_value": 0.0,
        "coordinates_mode": "normalized_minus_one_to_one",
        "align_corners": align,
    }
    return Case(
        {"x": rng.normal(size=(2, 3, 4, 5)), "coordinates": rng.uniform(-1.5, 1.5, (2, 3, 2, 2))},
        reference,
        attrs=attrs,
        ulps=2,
    )


def affine(rng: Rng) -> Case:
    def reference(x, matrix, *_):
        grid = F.affine_grid(
            torch.from_numpy(matrix).reshape(-1, 2, 3), [2, 3, 6, 7], align_corners=True
        )
        return F.grid_sample(torch.from_numpy(x), grid, align_corners=True).numpy()

    attrs = {
        "output_height": 6,
        "output_width": 7,
        "sampling_mode": "bilinear",
        "padding_mode": "constant",
        "padding_value": 0.0,
        "coordinates_mode": "normalized_minus_one_to_one",
        "align_corners": True,
    }
    return Case(
        {"x": rng.normal(size=(2, 3, 4, 5)), "transform_matrix": rng.uniform(-1, 1, (2, 6))},
        reference,
        attrs=attrs,
        ulps=2,
    )


def crop_resize(rng: Rng) -> Case:
    top, left = rng.uniform(0, 2, 2), rng.uniform(0, 2, 2)
    boxes = np.stack([top, left, top + 3, left + 2.5], 1)
    width_first, normal = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
    scale = np.array([5.0, 6.0, 5.0, 6.0]) if normal else np.ones(4)
    regions = (boxes / scale)[:, [1, 0, 3, 2]] if width_first else boxes / scale

    def reference(x, regions, indices, *_):
        boxes = (regions[:, [1, 0, 3, 2]] if width_first else regions) * scale
        rows = [
            np.einsum(
                "chw,ah,bw->cab",
                x[i],
                tent(6, np.linspace(b[0], b[2], 4)),
                tent(7, np.linspace(b[1], b[3], 3)),
            )
            for i, b in zip(indices, boxes, strict=True)
        ]
        return np.stack(rows)

    attrs = {
        "target_height": 4,
        "target_width": 3,
        "normalized_coordinates": normal,
        "sampling_mode": "STRICT_ALIGN_CORNERS",
        "box_coordinate_mode": "CORNERS_WIDTH_FIRST" if width_first else "CORNERS_HEIGHT_FIRST",
    }
    return Case(
        {
            "x": rng.normal(size=(2, 3, 6, 7)),
            "boxes": regions,
            "box_indices": np.array([1, 0], np.int32),
        },
        reference,
        attrs=attrs,
        ulps=2,
    )


CASES |= makers(globals()) | {
    "upsample_bilinear": [
        upsample_bilinear(*attributes)
        for attributes in ((1, 2, True), (3, 1, False), (2, 3, True), (2, 2, False))
    ],
    "upsample_nearest_neighbor": [
        upsample_nearest_neighbor(*attributes)
        for attributes in ((1.0, 1.5), (3.0, 2.0), (2.0, 3.0))
    ],
    "resize_nearest_neighbor": [
        resize_nearest_neighbor(*size) for size in ((1, 11), (7, 3), (4, 6), (9, 1))
    ],
    "resize_bilinear": [
        resize_bilinear(*size, mode) for mode in MODES for size in ((1, 7), (8, 1), (3, 5))
    ],
    "resize": [
        *(resize(h, "LINEAR", mode) for mode in MODES for h in (1, 3, 8)),
        *(resize(h, "NEAREST_NEIGHBOR", "DEFAULT") for h in (2, 7)),
    ],
}
test_operation = test_of(CASES, {"affine": ct.target.iOS16}, count=5)


def test_crop_resize_before_ios17(tmp_path: Path) -> None:
    """Boxes as [N, 1, 4, 1, 1], for every image, or [N, 1, 5, 1, 1], the image's index first
    (coremltools declares B crops, not 1).
    """
    rng, boxes = np.random.default_rng(0), np.array([[0.0, 1.0, 3.0, 4.0], [1.5, 0.5, 4.0, 5.5]])
    attrs = {"target_height": 4, "target_width": 3, "sampling_mode": "STRICT_ALIGN_CORNERS"}

    def crops(x: np.ndarray, roi: np.ndarray, *_: object) -> np.ndarray:
        rows = []
        for row in roi.reshape(len(roi), -1):
            top, left, bottom, right = row[-4:]
            images = x if len(row) == 4 else x[int(row[0]) : int(row[0]) + 1]
            rows.append(
                np.einsum(
                    "nchw,ah,bw->ncab",
                    images,
                    tent(6, np.linspace(top, bottom, 4)),
                    tent(7, np.linspace(left, right, 3)),
                )
            )
        return np.stack(rows)

    regions = {2: boxes, 1: np.concatenate([np.zeros((2, 1)), boxes], 1)}
    cases = [
        Case(
            {"x": rng.normal(size=(batch, 3, 6, 7)), "roi": roi[:, None, :, None, None]},
            crops,
            attrs=attrs,
            ulps=2,
        )
        for batch, roi in regions.items()
    ]
    check("crop_resize", run_all({"crop_resize": cases}, tmp_path, ct.target.iOS16))
