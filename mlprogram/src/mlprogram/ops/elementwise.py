"""Elementwise operations of one and two tensors: arithmetic, functions, comparisons, logic, casts.

    ELEMENTWISE["inverse"].run(x, epsilon=1e-4)

Definitions: coremltools 9.0, mil/ops/defs/iOS15/elementwise_unary.py and elementwise_binary.py.
Shapes broadcast as in NumPy. A result gets the declared type from the executor, so `cast` gives its
input back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional as F

from mlprogram.ops.kernel import Kernel, kernel

# an operation's function -> the one that it calls with the same tensors
TORCH: dict[Callable, Callable] = {}


def _make_unary(
    function: Callable[[Tensor], Tensor], half: bool = False, pointwise: bool = False
) -> Kernel:
    def run(x: Tensor) -> Tensor:
        return function(x)

    # What an operation computes is its docstring, so a wrapper takes that of its function.
    run.__doc__ = (
        function.__doc__ if function.__module__ == __name__ else f"As torch.{function.__name__}."
    )
    TORCH[run] = function
    # The wrapper names its tensors x and y, as MIL does; the functions of torch do not.
    return kernel(run, half, pointwise)


def _make_binary(function: Callable[[Tensor, Tensor], Tensor], half: bool = False) -> Kernel:
    def run(x: Tensor, y: Tensor) -> Tensor:
        return function(x, y)

    run.__doc__ = f"As torch.{function.__name__}."
    TORCH[run] = function
    return kernel(run, half)


def identity(x: Tensor) -> Tensor:
    """x."""
    return x


def square(x: Tensor) -> Tensor:
    """x * x."""
    return x * x  # torch.square is fourteen times slower on fp16


def cast(x: Tensor, dtype: str) -> Tensor:
    """x; the executor converts it to the declared type. A float becomes an integer by
    truncation.
    """
    return x


def clip(x: Tensor, alpha: float, beta: float) -> Tensor:
    """min(max(x, alpha), beta)."""
    return x.clamp(alpha, beta)


def inverse(x: Tensor, epsilon: float = 1e-4) -> Tensor:
    """1 / (x + epsilon)."""
    return (x + epsilon).reciprocal()


def log(x: Tensor, epsilon: float = 1e-45) -> Tensor:
    """log(x + epsilon)."""
    return torch.log(x + epsilon)


def rsqrt(x: Tensor, epsilon: float = 1e-12) -> Tensor:
    """1 / sqrt(x + epsilon)."""
    return torch.rsqrt(x + epsilon)


def threshold(x: Tensor, alpha: float) -> Tensor:
    """max(x, alpha)."""
    return x.clamp(min=alpha)


def power(x: Tensor, y: Tensor) -> Tensor:
    """x ** y. A scalar exponent is handed over as a number: PyTorch has fast kernels for 2, 3, 0.5
    and the like.
    """
    return torch.pow(x, y.item()) if y.dim() == 0 else torch.pow(x, y)


def real_div(x: Tensor, y: Tensor) -> Tensor:
    """x / y; the quotient of integers is truncated when it is stored."""
    return x / y


def select(cond: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """a where cond is true, b elsewhere."""
    return torch.where(cond, a, b)


ELEMENTWISE = MappingProxyType(
    {
        # `half` marks what fp16 does exactly or rounds once; the other functions are tabulated.
        "abs": _make_unary(torch.abs, half=True),
        "acos": _make_unary(torch.acos, pointwise=True),
        "asin": _make_unary(torch.asin, pointwise=True),
        "atan": _make_unary(torch.atan, pointwise=True),
        "atanh": _make_unary(torch.atanh, pointwise=True),
        "cast": kernel(cast, half=True),
        "ceil": _make_unary(torch.ceil, half=True),
        "clip": kernel(clip, half=True),
        "cos": _make_unary(torch.cos, pointwise=True),
        "cosh": _make_unary(torch.cosh, pointwise=True),
        "erf": _make_unary(torch.erf, pointwise=True),
        "exp": _make_unary(torch.exp, pointwise=True),
        "exp2": _make_unary(torch.exp2, pointwise=True),
        "floor": _make_unary(torch.floor, half=True),
        "identity": kernel(identity, half=True),
        "inverse": kernel(inverse, pointwise=True),
        "log": kernel(log, pointwise=True),
        "logical_not": _make_unary(torch.logical_not),
        "round": _make_unary(torch.round, half=True),
        "rsqrt": kernel(rsqrt, pointwise=True),
        "sign": _make_unary(torch.sign, half=True),
        "sin": _make_unary(torch.sin, pointwise=True),
        "sinh": _make_unary(torch.sinh, pointwise=True),
        "sqrt": _make_unary(torch.sqrt, half=True),
        "square": _make_unary(square, half=True),
        "tan": _make_unary(torch.tan, pointwise=True),
        "tanh": _make_unary(torch.tanh, pointwise=True),
        "threshold": kernel(threshold, half=True),
        "add": _make_binary(torch.add, half=True),
        "equal": _make_binary(torch.eq, half=True),
        # A quotient rounded to fp16 may reach the next integer before it is floored.
        "floor_div": _make_binary(torch.floor_divide),
        "greater": _make_binary(torch.gt, half=True),
        "greater_equal": _make_binary(torch.ge, half=True),
        "less": _make_binary(torch.lt, half=True),
        "less_equal": _make_binary(torch.le, half=True),
        "logical_and": _make_binary(torch.logical_and),
        "logical_or": _make_binary(torch.logical_or),
        "logical_xor": _make_binary(torch.logical_xor),
        "maximum": _make_binary(torch.maximum, half=True),
        "minimum": _make_binary(torch.minimum, half=True),
        # The sign is the divisor's, as in Python; Core ML is reported to differ (numerics.py).
        "mod": _make_binary(torch.remainder),
        "mul": _make_binary(torch.mul, half=True),
        "not_equal": _make_binary(torch.ne, half=True),
        "pow": kernel(power, pointwise=True),
        "real_div": kernel(real_div, half=True),
        "select": kernel(select, half=True),
        "sub": _make_binary(torch.sub, half=True),
    }
)


def clamped_relu(x: Tensor, alpha: float, beta: float) -> Tensor:
    """min(x, beta) where x >= 0, min(alpha x, beta) elsewhere."""
    return torch.where(x >= 0, x.clamp(max=beta), (alpha * x).clamp(max=beta))


def elu(x: Tensor, alpha: float) -> Tensor:
    """x where x > 0, alpha (exp(x) - 1) elsewhere."""
    return F.elu(x, alpha)


def gelu(x: Tensor, mode: str = "EXACT") -> Tensor:
    """x Phi(x): EXACT (erf), TANH_APPROXIMATION, or SIGMOID_APPROXIMATION (x sigmoid(1.702 x))."""
    # Written out, because on some processors PyTorch's gelu is oneDNN's, in fp32 too.
    if mode == "SIGMOID_APPROXIMATION":
        return x * torch.sigmoid(1.702 * x)
    if mode == "TANH_APPROXIMATION":
        # (1 + tanh u) / 2 = sigmoid(2 u)
        return x * torch.sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * (x * x * x)))
    if mode == "EXACT":
        # 1 + erf(u) = erfc(-u), which keeps its digits where x is far below zero.
        return 0.5 * x * torch.erfc(-math.sqrt(0.5) * x)
    raise ValueError(f"mode '{mode}' of gelu is unknown")


def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """x where x >= 0, alpha x elsewhere."""
    return F.leaky_relu(x, alpha)


def linear_activation(x: Tensor, alpha: float, beta: float) -> Tensor:
    """alpha x + beta."""
    return alpha * x + beta


def prelu(x: Tensor, alpha: Tensor) -> Tensor:
    """x where x >= 0, alpha[c] x elsewhere; alpha [C] for axis 1."""
    return torch.where(x >= 0, x, _per_channel(alpha, x) * x)


def relu(x: Tensor) -> Tensor:
    """max(x, 0)."""
    return torch.relu(x)


def relu6(x: Tensor) -> Tensor:
    """min(max(x, 0), 6)."""
    return x.clamp(0, 6)


def scaled_tanh(x: Tensor, alpha: float, beta: float) -> Tensor:
    """alpha tanh(beta x)."""
    return alpha * torch.tanh(beta * x)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return torch.sigmoid(x)


def sigmoid_hard(x: Tensor, alpha: float, beta: float) -> Tensor:
    """min(max(alpha x + beta, 0), 1)."""
    return (alpha * x + beta).clamp(0, 1)


def silu(x: Tensor) -> Tensor:
    """x sigmoid(x)."""
    return F.silu(x)


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x - max) / sum along `axis`."""
    return torch.softmax(x, axis)


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), without overflow."""
    # logaddexp(x, 0) takes the larger term out, so exp never overflows.
    return torch.logaddexp(x, torch.zeros((), dtype=x.dtype))


def softplus_parametric(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """alpha[c] log(1 + exp(beta[c] x))."""
    return _per_channel(alpha, x) * softplus(_per_channel(beta, x) * x)


def softsign(x: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return x / (1 + x.abs())


def thresholded_relu(x: Tensor, alpha: float) -> Tensor:
    """x where x >= alpha, 0 elsewhere."""
    return torch.where(x >= alpha, x, torch.zeros((), dtype=x.dtype))


def _per_channel(parameter: Tensor, x: Tensor) -> Tensor:
    return parameter.reshape(-1, *[1] * (x.dim() - 2))  # [C, 1, ...] lines up with axis 1


ACTIVATION = MappingProxyType(
    {
        "clamped_relu": kernel(clamped_relu),
        "elu": kernel(elu, pointwise=True),
        "gelu": kernel(gelu, pointwise=True),
        "leaky_relu": kernel(leaky_relu, half=True),
        "linear_activation": kernel(linear_activation),
        "prelu": kernel(prelu),
        "relu": kernel(relu, half=True),
        "relu6": kernel(relu6, half=True),
        "scaled_tanh": kernel(scaled_tanh, pointwise=True),
        "sigmoid": kernel(sigmoid, pointwise=True),
        "sigmoid_hard": kernel(sigmoid_hard),
        "silu": kernel(silu, pointwise=True),
        "softmax": kernel(softmax),
        "softplus": kernel(softplus, pointwise=True),
        "softplus_parametric": kernel(softplus_parametric),
        "softsign": kernel(softsign, pointwise=True),
        "thresholded_relu": kernel(thresholded_relu, half=True),
    }
)


_RANGE = MappingProxyType(
    {"int8": (-128, 127), "uint8": (0, 255), "int4": (-8, 7), "uint4": (0, 15)}
)


def quantize(
    input: Tensor,  # noqa: A002  MIL's name
    scale: Tensor,
    output_dtype: str,
    zero_point: Tensor | None = None,
    axis: int | None = None,
) -> Tensor:
    """clip(round(input / scale) + zero_point)."""
    low, high = _RANGE[output_dtype]
    # one new tensor: the steps after the division work in its place
    x = (input / _place_along(scale, input, axis)).round_()
    # A zero point is added behind the rounding, so it moves no halves.
    x = x if zero_point is None else x.add_(_place_along(zero_point, input, axis))
    return x.clamp_(low, high)


def dequantize(
    input: Tensor,  # noqa: A002  MIL's name
    scale: Tensor,
    zero_point: Tensor | None = None,
    axis: int | None = None,
) -> Tensor:
    """(input - zero_point) * scale. In fp16 the difference is exact and the product is rounded
    once.
    """
    x = input.to(scale.dtype)  # a new tensor: integers become floats
    # The difference comes before the product, because the product would round it.
    x = x if zero_point is None else x.sub_(_place_along(zero_point, input, axis).to(scale.dtype))
    return x.mul_(_place_along(scale, input, axis))


def _place_along(parameter: Tensor, x: Tensor, axis: int | None) -> Tensor:
    if parameter.dim() == 0:
        return parameter
    if axis is None:
        raise ValueError("a scale or zero point for each channel needs an axis")
    shape = [1] * x.dim()
    shape[axis] = -1
    # [C] -> [1, ..., C, ..., 1]
    return parameter.reshape(shape)


QUANTIZATION = MappingProxyType(
    {"dequantize": kernel(dequantize, half=True), "quantize": kernel(quantize)}
)
