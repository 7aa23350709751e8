"""Elementwise operations, activations, reductions, resizing and sampling against PyTorch."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from built import IOS16, Case, each, flip, makers, run_all, test_of
from mlprogram.ops import KERNELS

Tensor = torch.Tensor


def shape_of(rng, low=1, high=4):
    return tuple(rng.integers(1, 6, rng.integers(low, high + 1)).tolist())


def unary(function, low=-3, high=3, **more):
    """A case maker for an operation of one tensor with values in [low, high]."""
    return lambda rng: Case(function, x=rng.uniform(low, high, shape_of(rng)), **more)


def binary(function, low=-3, high=3, away=0, **more):
    """A case maker for two tensors that broadcast; |y| >= away."""

    def make(rng):
        shape = shape_of(rng)
        other = [n if rng.random() < 0.6 else 1 for n in shape[rng.integers(len(shape)) :]]
        y = rng.uniform(low, high, other)
        y = np.copysign(np.maximum(np.abs(y), away), y)
        return Case(function, x=rng.uniform(low, high, shape), y=y, **more)

    return make


def halves(rng, shape):
    return rng.integers(-2, 3, shape) / 2.0


def truths(rng, shape):
    return rng.random(shape) < 0.5


def integers(rng, shape):
    return (rng.integers(1, 9, shape) * rng.choice([-1, 1], shape)).astype(np.int32)


# A case maker whose inputs of one shape are drawn one by one
def drawn(function, fp16=True, **draws):
    def make(rng):
        shape = shape_of(rng)
        return Case(function, fp16=fp16, **{name: draw(rng, shape) for name, draw in draws.items()})

    return make


def cast(rng):
    kinds = {"int32": torch.int32, "fp16": torch.float16, "fp32": torch.float32, "bool": torch.bool}
    name, x = str(rng.choice([*kinds])), rng.uniform(-40, 40, shape_of(rng))
    x.flat[0] = 0.0
    ulps = 2.0**26 if name == "fp16" else 2.0**13
    return Case(lambda x, _: x.to(kinds[name]), x=x, dtype=name, ulps=ulps)


def per_channel(function, *names):
    """A case maker for an activation with parameters of shape [C]; x has rank 4."""

    def make(rng):
        x = rng.normal(size=shape_of(rng, 4))
        parameters = {n: rng.uniform(0.2, 1.5, x.shape[1]) for n in names}
        return Case(
            lambda x, *p: function(x, *(v.reshape(-1, 1, 1) for v in p)),
            x=x,
            consts=parameters,
        )

    return make


def gelu(rng):
    curves = {
        "EXACT": F.gelu,
        "TANH_APPROXIMATION": lambda x: F.gelu(x, approximate="tanh"),
        "SIGMOID_APPROXIMATION": lambda x: x * torch.sigmoid(1.702 * x),
    }
    x, mode = rng.normal(size=shape_of(rng)) * 2, str(rng.choice([*curves]))
    return Case(lambda x, mode: curves[mode](x), x=x, mode=mode, ulps=4)


def softmax(rng):
    x = rng.normal(size=shape_of(rng)) * 3
    return Case(torch.softmax, x=x, axis=int(rng.integers(-x.ndim, x.ndim)))


def reduction(function, low=-2, high=2):
    """A case maker for a reduction over random axes; function(x, axes, keep_dims)."""

    def make(rng):
        x = rng.uniform(low, high, shape_of(rng, 2))
        axes = rng.choice(x.ndim, rng.integers(1, x.ndim), replace=False)
        axes = [int(a) - x.ndim * (rng.random() < 0.5) for a in sorted(axes)]
        return Case(function, x=x, axes=axes, keep_dims=flip(rng), ulps=2)

    return make


# the first of equal values
def argument(function):
    def make(rng):
        x = rng.integers(-3, 4, shape_of(rng, 2)).astype(np.float64)
        axis, keep = int(rng.integers(-x.ndim, x.ndim)), flip(rng)
        return Case(
            lambda x, axis, keep: function(x.numpy(), axis, keepdims=keep),
            x=x,
            axis=axis,
            keep_dims=keep,
        )

    return make


def cumsum(rng):
    x = rng.integers(-4, 5, shape_of(rng, 1, 3)).astype(np.float64)
    exclusive, reverse = flip(rng), flip(rng)
    axis = int(rng.integers(x.ndim))

    def reference(x, axis, exclusive, reverse):
        y = x.flip(axis) if reverse else x
        total = y.cumsum(axis) - y * exclusive
        return total.flip(axis) if reverse else total

    # value inference of an exclusive cumsum raises
    return Case(
        reference,
        x=x,
        axis=axis,
        exclusive=exclusive,
        reverse=reverse,
        folds=not exclusive,
    )


# as in PyTorch
ONE = "abs atan ceil cosh erf exp exp2 floor relu sign sinh square tanh".split()
TWO = "add sub mul maximum minimum".split()
COMPARISONS = "not_equal greater greater_equal less less_equal".split()
LOGIC = "logical_and logical_or logical_xor".split()
CASES = {
    **{name: unary(getattr(torch, name)) for name in ONE},
    **{name: binary(getattr(torch, name)) for name in TWO},
    **{name: drawn(getattr(torch, name), x=halves, y=halves) for name in COMPARISONS},
    **{name: drawn(getattr(torch, name), x=truths, y=truths) for name in LOGIC},
    "acos": unary(torch.acos, -1, 1),
    "asin": unary(torch.asin, -1, 1),
    "atanh": unary(torch.atanh, -0.9, 0.9),
    "cos": unary(torch.cos, -20, 20),
    "clip": unary(torch.clamp, alpha=-0.7, beta=1.3),
    "identity": unary(lambda x: x),
    "inverse": unary(lambda x, epsilon: 1 / (x + epsilon), 0.1, 3, epsilon=1e-4),
    "log": unary(lambda x, epsilon: torch.log(x + epsilon), 0.01, 9, epsilon=1e-3, ulps=2),
    "round": unary(torch.round, -9.5, 9.5),
    "rsqrt": unary(lambda x, epsilon: 1 / torch.sqrt(x + epsilon), 0.1, 9, epsilon=1e-3),
    "sin": unary(torch.sin, -20, 20),
    "sqrt": unary(torch.sqrt, 0, 9),
    "tan": unary(torch.tan, -1.2, 1.2),
    "threshold": unary(torch.clamp, alpha=0.4),
    "real_div": binary(torch.divide, away=0.1),
    "pow": binary(torch.pow, 0.1, 3, ulps=2),
    "equal": drawn(torch.eq, x=halves, y=halves),
    "floor_div": drawn(torch.floor_divide, fp16=False, x=integers, y=integers),
    "mod": drawn(torch.remainder, fp16=False, x=integers, y=integers),
    "logical_not": drawn(torch.logical_not, x=truths),
    "select": drawn(torch.where, cond=truths, a=halves, b=halves),
    "clamped_relu": unary(lambda x, a, b: F.leaky_relu(x, a).clamp(max=b), alpha=0.3, beta=1.2),
    "elu": unary(F.elu, alpha=0.7),
    "leaky_relu": unary(F.leaky_relu, alpha=0.1),
    "linear_activation": unary(lambda x, a, b: a * x + b, alpha=0.7, beta=-0.2),
    "relu6": unary(F.relu6, -3, 9),
    "scaled_tanh": unary(lambda x, a, b: a * torch.tanh(b * x), alpha=1.7, beta=0.6),
    "prelu": per_channel(lambda x, a: torch.where(x >= 0, x, a * x), "alpha"),
    "softplus_parametric": per_channel(
        lambda x, a, b: a * torch.log1p(torch.exp(b * x)), "alpha", "beta"
    ),
    "sigmoid": unary(torch.sigmoid, -9, 9),
    "silu": unary(F.silu),
    "sigmoid_hard": unary(lambda x, a, b: (a * x + b).clamp(0, 1), alpha=0.3, beta=0.5),
    "softplus": unary(lambda x: F.softplus(x, threshold=60), -30, 30),
    "softsign": unary(F.softsign),
    # value inference changes its argument
    "thresholded_relu": unary(lambda x, a: F.threshold(x, a, 0), alpha=0.6, folds=False),
    "reduce_sum": reduction(torch.sum),
    "reduce_mean": reduction(torch.mean),
    "reduce_max": reduction(torch.amax),
    "reduce_min": reduction(torch.amin),
    "reduce_prod": reduction(lambda x, a, keep: x.numpy().prod(tuple(a), keepdims=keep)),
    "reduce_l1_norm": reduction(lambda x, a, keep: x.abs().sum(a, keep)),
    "reduce_l2_norm": reduction(lambda x, a, keep: x.square().sum(a, keep).sqrt()),
    "reduce_sum_square": reduction(lambda x, a, keep: x.square().sum(a, keep)),
    "reduce_log_sum": reduction(lambda x, a, keep: x.sum(a, keep).log(), 1.1, 3),
    "reduce_log_sum_exp": reduction(lambda x, a, keep: x.exp().sum(a, keep).log(), 0.5, 3),
    "reduce_argmax": argument(np.argmax),
    "reduce_argmin": argument(np.argmin),
}


@pytest.mark.parametrize("name", ["gelu", "sigmoid", "silu", "tanh"])
def test_fp16_kernel_rounds_once(name):
    """PyTorch's fp16 kernels that are used as they are: of every fp16 value what its fp32 kernel
    gives, rounded.

    Its own kernel: on some processors (AMD with AVX-512) fp32 goes to oneDNN instead, whose gelu
    differs in 403 values, NaN at infinity.
    """
    values = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch.float16)
    assert KERNELS[name].half
    with torch.backends.mkldnn.flags(enabled=False):
        wide = KERNELS[name].run(values.float())
    torch.testing.assert_close(
        KERNELS[name].run(values), wide.half(), rtol=0, atol=0, equal_nan=True
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_of_fp16_is_the_nearest_value(axis):
    x = (torch.randn(40, 50, 60, generator=torch.Generator().manual_seed(axis)) * 3).half()
    exact = torch.softmax(x.double(), axis)
    computed = KERNELS["softmax"].run(x, axis=axis).half().double()
    step = 2.0 ** (torch.floor(torch.log2(exact)).clamp(min=-14) - 10)
    # half a step and the error of fp32
    assert float(((computed - exact).abs() / step).max()) <= 0.502


IMAGE, WIDER = (np.random.default_rng(0).normal(size=(2, 3, 4, width)) for width in (5, 6))
# place of sample i of `count` on an axis of n pixels
PLACES = {
    "STRICT_ALIGN_CORNERS": lambda i, n, count: i * (n - 1) / max(count - 1, 1),
    "ALIGN_CORNERS": lambda i, n, count: (
        i * (n - 1) / (count - 1) if count > 1 else i + (n - 1) / 2
    ),
    "DEFAULT": lambda i, n, count: i * n / count,
    "OFFSET_CORNERS": lambda i, n, count: (0.5 + i) * max(1, n - 1) / count,
    "UNALIGN_CORNERS": lambda i, n, count: (0.5 + i) * n / count - 0.5,
}


def tent(size, places):
    """Interpolation as a matrix [count, size] of tent functions."""
    distance = places[:, None].clamp(0, size - 1) - torch.arange(size)
    return (1 - distance.abs()).clamp(min=0)


def interpolated(x, rows, columns):
    """x at every crossing of these rows and columns."""
    matrices = tent(x.shape[-2], rows), tent(x.shape[-1], columns)
    return torch.einsum("nchw,ah,bw->ncab", x, *matrices)


def resized(x, h, w, mode):
    places = [
        PLACES[mode](torch.arange(c).double(), n, c)
        for c, n in zip((h, w), x.shape[2:], strict=True)
    ]
    return interpolated(x, *places)


def nearest(x, h, w):
    return F.interpolate(x, size=[int(h), int(w)], mode="nearest")


def resample(rng):
    padding, theirs, align = [
        ("constant", "zeros", False),
        ("constant", "zeros", True),
        ("border", "border", flip(rng)),
        ("reflection", "reflection", True),  # about the centres of the last pixels
        ("symmetric", "reflection", False),  # about their edges
    ][rng.integers(5)]
    return Case(
        lambda x, places, sampling, *_: F.grid_sample(x, places, sampling, theirs, align),
        x=rng.normal(size=(2, 3, 4, 5)),
        coordinates=rng.uniform(-1.5, 1.5, (2, 3, 2, 2)),
        sampling_mode=str(rng.choice(["bilinear", "nearest"])),
        padding_mode=padding,
        **SAMPLED,
        align_corners=align,
        ulps=2,
    )


SAMPLED = {"padding_value": 0.0, "coordinates_mode": "normalized_minus_one_to_one"}


def affine(rng):
    def reference(x, matrix, *_):
        grid = F.affine_grid(matrix.reshape(-1, 2, 3), [2, 3, 6, 7], align_corners=True)
        return F.grid_sample(x, grid, align_corners=True)

    return Case(
        reference,
        x=rng.normal(size=(2, 3, 4, 5)),
        transform_matrix=rng.uniform(-1, 1, (2, 6)),
        output_height=6,
        output_width=7,
        sampling_mode="bilinear",
        padding_mode="constant",
        **SAMPLED,
        align_corners=True,
        ulps=2,
    )


def cropped(x, box):
    """A box (top, left, bottom, right) of images as 4 rows and 3 columns."""
    top, left, bottom, right = box.tolist()
    places = np.linspace(top, bottom, 4), np.linspace(left, right, 3)
    return interpolated(x, *map(torch.from_numpy, places))


CROPPED = {"target_height": 4, "target_width": 3, "sampling_mode": "STRICT_ALIGN_CORNERS"}


def crop_resize(rng):
    corner = rng.uniform(0, 2, (2, 2))
    boxes = np.concatenate([corner, corner + (3, 2.5)], 1)
    width_first, normal = flip(rng), flip(rng)
    order = [1, 0, 3, 2] if width_first else [0, 1, 2, 3]
    scale = np.array([5.0, 6.0, 5.0, 6.0]) if normal else np.ones(4)

    def reference(x, regions, images, *_):
        return torch.cat(
            [
                cropped(x[i : i + 1], b[order] * torch.from_numpy(scale))
                for i, b in zip(images.tolist(), regions, strict=True)
            ]
        )

    return Case(
        reference,
        x=rng.normal(size=(2, 3, 6, 7)),
        boxes=(boxes / scale)[:, order],
        box_indices=np.array([1, 0], np.int32),
        normalized_coordinates=normal,
        box_coordinate_mode=f"CORNERS_{'WIDTH' if width_first else 'HEIGHT'}_FIRST",
        **CROPPED,
        ulps=2,
    )


CASES |= makers(globals()) | {
    "upsample_bilinear": each(
        lambda x, h, w, align: F.interpolate(
            x, size=[4 * h, 5 * w], mode="bilinear", align_corners=align
        ),
        x=IMAGE,
        scale_factor_height=(1, 3),
        scale_factor_width=(2, 3),
        align_corners=(True, False),
        ulps=2,
    ),
    "upsample_nearest_neighbor": each(
        lambda x, h, w: nearest(x, 4 * h, 6 * w),
        x=WIDER,
        scale_factor_height=(1.0, 3.0),
        scale_factor_width=(1.5, 2.0, 3.0),
        fp16=False,
    ),
    "resize_nearest_neighbor": each(
        nearest, x=WIDER, target_size_height=(1, 4, 7), target_size_width=(1, 3, 11)
    ),
    "resize_bilinear": each(
        resized,
        x=IMAGE,
        target_size_height=(1, 8),
        target_size_width=(1, 7),
        sampling_mode=(*PLACES,),
        ulps=2,
    ),
    "resize": [
        *each(
            lambda x, shape, dims, _, mode: resized(x, shape[1], 5, mode),
            x=IMAGE,
            shape=([7, 1, 0], [7, 3, 0], [7, 8, 0]),
            resized_dims=np.uint32(2),
            interpolation_mode="LINEAR",
            sampling_mode=(*PLACES,),
            ulps=2,
        ),
        *each(
            lambda x, shape, *_: x[
                :, :, (torch.arange(shape[1]) * 4 / shape[1] - 0.5).ceil().long()
            ],
            x=IMAGE,
            shape=([7, 2, 0], [7, 7, 0]),
            resized_dims=np.uint32(2),
            interpolation_mode="NEAREST_NEIGHBOR",
            sampling_mode="DEFAULT",
        ),
    ],
}
test_operation = test_of(CASES, {"affine": IOS16}, count=5)


def test_crop_resize_before_ios17(tmp_path):
    """Boxes as [N, 1, 4, 1, 1], for every image, or [N, 1, 5, 1, 1], the image's index first
    (coremltools declares B crops, not 1).
    """
    rng, boxes = np.random.default_rng(0), np.array([[0.0, 1.0, 3.0, 4.0], [1.5, 0.5, 4.0, 5.5]])
    cases = [
        Case(
            lambda x, roi, *_: torch.stack([cropped(x, row[-4:]) for row in roi.flatten(1)]),
            x=rng.normal(size=(batch, 3, 6, 7)),
            roi=roi[:, None, :, None, None],
            **CROPPED,
            ulps=2,
        )
        for batch, roi in ((2, boxes), (1, np.concatenate([np.zeros((2, 1)), boxes], 1)))
    ]
    run_all({"crop_resize": cases}, tmp_path, IOS16)("crop_resize")
