"""Elementwise operations, activations and reductions against NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.special
import torch

from mlprogram.ops import KERNELS
from mlprogram.tests.built import Case, test_of

Rng = np.random.Generator


def shape_of(rng: Rng, low: int = 1, high: int = 4) -> tuple[int, ...]:
    """A random shape of rank low to high."""
    return tuple(int(n) for n in rng.integers(1, 6, rng.integers(low, high + 1)))


def unary(
    function: Callable, low: float = -3, high: float = 3, folds: bool = True, ulps: float = 1, **attrs: float
) -> Callable[[Rng], Case]:
    """A case maker for an operation of one tensor with values in [low, high]."""

    def make(rng: Rng) -> Case:
        return Case({"x": rng.uniform(low, high, shape_of(rng))}, function, attrs=attrs, folds=folds, ulps=ulps)

    return make


def binary(function: Callable, low: float = -3, high: float = 3, away: float = 0.0, ulps: float = 1) -> Callable[[Rng], Case]:
    """A case maker for two tensors that broadcast; |y| >= away."""

    def make(rng: Rng) -> Case:
        shape = shape_of(rng)
        other = tuple(n if rng.random() < 0.6 else 1 for n in shape[rng.integers(len(shape)) :])
        x, y = rng.uniform(low, high, shape), rng.uniform(low, high, other)
        y = np.where(np.abs(y) < away, np.sign(y) * away + away * (y == 0), y)
        x, y = np.atleast_1d(x), np.atleast_1d(y)
        return Case({"x": x, "y": y} if rng.random() < 0.5 else {"x": x, "y": np.resize(y, y.shape)}, function, ulps=ulps)

    return make


def integers(function: Callable, low: int = -9, high: int = 9) -> Callable[[Rng], Case]:
    """A case maker for two integer tensors of one shape, the second without zeros."""

    def make(rng: Rng) -> Case:
        shape = shape_of(rng)
        y = rng.integers(1, high, shape) * rng.choice([-1, 1], shape)
        return Case({"x": rng.integers(low, high, shape).astype(np.int32), "y": y.astype(np.int32)}, function, fp16=False)

    return make


def halves(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    """Few values, so that there are ties."""
    return rng.integers(-2, 3, shape) / 2.0


def truths(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    return rng.random(shape) < 0.5


def drawn(function: Callable, **draws: Callable) -> Callable[[Rng], Case]:
    """A case maker whose inputs of one shape are drawn one by one."""

    def make(rng: Rng) -> Case:
        shape = shape_of(rng)
        return Case({name: draw(rng, shape) for name, draw in draws.items()}, function)

    return make


def cast(rng: Rng) -> Case:
    target = str(rng.choice(["int32", "fp16", "fp32", "bool"]))
    x = rng.uniform(-40, 40, shape_of(rng))
    x.flat[0] = 0.0
    change = {"int32": lambda x: np.trunc(x).astype(np.int32), "fp16": np.float16, "fp32": np.float32, "bool": lambda x: x != 0}[target]
    return Case({"x": x}, lambda x, dtype: change(x), attrs={"dtype": target}, ulps=2.0**26 if target == "fp16" else 2.0**13)


def per_channel(function: Callable, *names: str) -> Callable[[Rng], Case]:
    """A case maker for an activation with parameters of shape [C]; x has rank 4."""

    def make(rng: Rng) -> Case:
        shape = tuple(int(n) for n in rng.integers(1, 5, 4))
        parameters = {n: rng.uniform(0.2, 1.5, shape[1]) for n in names}
        return Case({"x": rng.normal(size=shape)}, lambda x, *p: function(x, *(v.reshape(-1, 1, 1) for v in p)), consts=parameters)

    return make


def gelu(rng: Rng) -> Case:
    mode = str(rng.choice(["EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"]))
    curves = {
        "EXACT": lambda x: x * scipy.special.ndtr(x),
        "TANH_APPROXIMATION": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        "SIGMOID_APPROXIMATION": lambda x: x * scipy.special.expit(1.702 * x),
    }
    return Case({"x": rng.normal(size=shape_of(rng)) * 2}, lambda x, mode: curves[mode](x), attrs={"mode": mode}, ulps=4)


def softmax(rng: Rng) -> Case:
    x = rng.normal(size=shape_of(rng)) * 3
    axis = int(rng.integers(-x.ndim, x.ndim))
    return Case({"x": x}, lambda x, axis: scipy.special.softmax(x, axis), attrs={"axis": axis})


def reduction(function: Callable, low: float = -2, high: float = 2) -> Callable[[Rng], Case]:
    """A case maker for a reduction over random axes; function(x, axis, keepdims)."""

    def make(rng: Rng) -> Case:
        x = rng.uniform(low, high, shape_of(rng, 2))
        axes = sorted(int(a) for a in rng.choice(x.ndim, rng.integers(1, x.ndim), replace=False))
        axes = [a - x.ndim if rng.random() < 0.5 else a for a in axes]
        keep = bool(rng.random() < 0.5)
        return Case(
            {"x": x},
            lambda x, axes, keep_dims: function(x, tuple(axes), keepdims=keep_dims),
            attrs={"axes": axes, "keep_dims": keep},
            ulps=2,
        )

    return make


def argument(function: Callable) -> Callable[[Rng], Case]:
    """A case maker for argmax and argmin, with ties."""

    def make(rng: Rng) -> Case:
        x = rng.integers(-3, 4, shape_of(rng, 2)).astype(np.float64)
        axis, keep = int(rng.integers(-x.ndim, x.ndim)), bool(rng.random() < 0.5)
        return Case(
            {"x": x}, lambda x, axis, keep_dims: function(x, axis=axis, keepdims=keep_dims), attrs={"axis": axis, "keep_dims": keep}
        )

    return make


def cumsum(rng: Rng) -> Case:
    x = rng.integers(-4, 5, shape_of(rng, 1, 3)).astype(np.float64)
    attrs = {"axis": int(rng.integers(x.ndim)), "exclusive": bool(rng.random() < 0.5), "reverse": bool(rng.random() < 0.5)}

    def reference(x, axis, exclusive, reverse):
        y = np.flip(x, axis) if reverse else x
        total = np.cumsum(y, axis)
        if exclusive:  # shift by one
            total = np.concatenate([np.zeros_like(np.take(total, [0], axis)), np.delete(total, -1, axis)], axis)
        return np.flip(total, axis) if reverse else total

    return Case({"x": x}, reference, attrs=attrs, folds=not attrs["exclusive"])  # value inference of an exclusive cumsum raises


COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
THE_SAME = ("abs", "ceil", "cosh", "exp", "exp2", "floor", "sign", "sinh", "square", "tanh")  # as in NumPy
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
    **{name: drawn(getattr(np, name), x=truths, y=truths) for name in ("logical_and", "logical_or", "logical_xor")},
    "clamped_relu": unary(lambda x, alpha, beta: np.where(x >= 0, np.minimum(x, beta), np.minimum(alpha * x, beta)), alpha=0.3, beta=1.2),
    "elu": unary(lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)), alpha=0.7),
    "gelu": gelu,
    "leaky_relu": unary(lambda x, alpha: np.where(x >= 0, x, alpha * x), alpha=0.1),
    "linear_activation": unary(lambda x, alpha, beta: alpha * x + beta, alpha=0.7, beta=-0.2),
    "relu": unary(lambda x: np.maximum(x, 0)),
    "relu6": unary(lambda x: np.clip(x, 0, 6), -3, 9),
    "scaled_tanh": unary(lambda x, alpha, beta: alpha * np.tanh(beta * x), alpha=1.7, beta=0.6),
    "prelu": per_channel(lambda x, a: np.where(x >= 0, x, a * x), "alpha"),
    "softplus_parametric": per_channel(lambda x, a, b: a * np.log1p(np.exp(b * x)), "alpha", "beta"),
    "sigmoid": unary(scipy.special.expit, -9, 9),
    "silu": unary(lambda x: x * scipy.special.expit(x)),
    "softmax": softmax,
    "sigmoid_hard": unary(lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), alpha=0.3, beta=0.5),
    "softplus": unary(lambda x: np.logaddexp(x, 0), -30, 30),
    "softsign": unary(lambda x: x / (1 + np.abs(x))),
    "thresholded_relu": unary(lambda x, alpha: np.where(x >= alpha, x, 0), alpha=0.6, folds=False),  # value inference changes its argument
    **{f"reduce_{name}": reduction(getattr(np, name)) for name in ("sum", "mean", "max", "min", "prod")},
    "reduce_l1_norm": reduction(lambda x, a, keepdims: np.abs(x).sum(a, keepdims=keepdims)),
    "reduce_l2_norm": reduction(lambda x, a, keepdims: np.sqrt((x * x).sum(a, keepdims=keepdims))),
    "reduce_sum_square": reduction(lambda x, a, keepdims: (x * x).sum(a, keepdims=keepdims)),
    "reduce_log_sum": reduction(lambda x, a, keepdims: np.log(x.sum(a, keepdims=keepdims)), 1.1, 3),
    "reduce_log_sum_exp": reduction(lambda x, a, keepdims: scipy.special.logsumexp(x, a, keepdims=keepdims), 0.5, 3),
    "reduce_argmax": argument(np.argmax),
    "reduce_argmin": argument(np.argmin),
    "cumsum": cumsum,
}


test_operation = test_of(CASES, count=5)


@pytest.mark.parametrize("name", ["gelu", "sigmoid", "silu", "tanh"])
def test_fp16_kernel_rounds_once(name: str) -> None:
    """PyTorch's fp16 kernels that are used as they are: of every fp16 value what its fp32 kernel gives, rounded.

    Its own kernel: on some processors (AMD with AVX-512) fp32 goes to oneDNN instead, whose gelu differs in 403 values, NaN at infinity.
    """
    values = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch.float16)
    run = KERNELS[name].run
    assert KERNELS[name].half
    with torch.backends.mkldnn.flags(enabled=False):
        wide = run(values.float())
    torch.testing.assert_close(run(values), wide.half(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_of_fp16_is_the_nearest_value(axis: int) -> None:
    x = (torch.randn(40, 50, 60, generator=torch.Generator().manual_seed(axis)) * 3).half()
    exact = torch.softmax(x.double(), axis)
    found = KERNELS["softmax"].run(x, axis=axis).half().double()
    step = 2.0 ** (torch.floor(torch.log2(exact)).clamp(min=-14) - 10)
    assert float(((found - exact).abs() / step).max()) <= 0.502  # half a step and the error of fp32
