"""Elementwise operations of one and two tensors: arithmetic, functions, comparisons, logic, casts.

    ELEMENTWISE["inverse"].run(x, epsilon=1e-4)

Definitions: coremltools 9.0, mil/ops/defs/iOS15/elementwise_unary.py and elementwise_binary.py. Shapes broadcast as in NumPy. A result
gets the declared type from the executor, so `cast` gives its input back.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import torch
from torch import Tensor

from mlprogram.ops.kernel import Kernel, kernel

TORCH: dict[Callable, Callable] = {}  # an operation's function -> the one that it calls with the same tensors


def _unary(function: Callable[[Tensor], Tensor], half: bool = False) -> Kernel:
    def run(x: Tensor) -> Tensor:
        return function(x)

    run.__doc__ = function.__doc__ if function.__module__ == __name__ else f"As torch.{function.__name__}."
    TORCH[run] = function
    return kernel(run, half)


def _binary(function: Callable[[Tensor, Tensor], Tensor], half: bool = False) -> Kernel:
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
    """x; the executor converts it to the declared type. A float becomes an integer by truncation."""
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
    """x ** y. A scalar exponent is handed over as a number: PyTorch has fast kernels for 2, 3, 0.5 and the like."""
    return torch.pow(x, y.item()) if y.dim() == 0 else torch.pow(x, y)


def real_div(x: Tensor, y: Tensor) -> Tensor:
    """x / y; the quotient of integers is truncated when it is stored."""
    return x / y


def select(cond: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """a where cond is true, b elsewhere."""
    return torch.where(cond, a, b)


ELEMENTWISE = MappingProxyType(
    {
        "abs": _unary(torch.abs, half=True),
        "acos": _unary(torch.acos),
        "asin": _unary(torch.asin),
        "atan": _unary(torch.atan),
        "atanh": _unary(torch.atanh),
        "cast": kernel(cast, half=True),
        "ceil": _unary(torch.ceil, half=True),
        "clip": kernel(clip, half=True),
        "cos": _unary(torch.cos, half=True),
        "cosh": _unary(torch.cosh),
        "erf": _unary(torch.erf),
        "exp": _unary(torch.exp, half=True),
        "exp2": _unary(torch.exp2),
        "floor": _unary(torch.floor, half=True),
        "identity": kernel(identity, half=True),
        "inverse": kernel(inverse),
        "log": kernel(log),
        "logical_not": _unary(torch.logical_not),
        "round": _unary(torch.round, half=True),
        "rsqrt": kernel(rsqrt),
        "sign": _unary(torch.sign, half=True),
        "sin": _unary(torch.sin, half=True),
        "sinh": _unary(torch.sinh),
        "sqrt": _unary(torch.sqrt, half=True),
        "square": _unary(square, half=True),
        "tan": _unary(torch.tan),
        "tanh": _unary(torch.tanh, half=True),
        "threshold": kernel(threshold, half=True),
        "add": _binary(torch.add, half=True),
        "equal": _binary(torch.eq, half=True),
        "floor_div": _binary(torch.floor_divide),
        "greater": _binary(torch.gt, half=True),
        "greater_equal": _binary(torch.ge, half=True),
        "less": _binary(torch.lt, half=True),
        "less_equal": _binary(torch.le, half=True),
        "logical_and": _binary(torch.logical_and),
        "logical_or": _binary(torch.logical_or),
        "logical_xor": _binary(torch.logical_xor),
        "maximum": _binary(torch.maximum, half=True),
        "minimum": _binary(torch.minimum, half=True),
        "mod": _binary(torch.remainder),
        "mul": _binary(torch.mul, half=True),
        "not_equal": _binary(torch.ne, half=True),
        "pow": kernel(power),
        "real_div": kernel(real_div, half=True),
        "select": kernel(select, half=True),
        "sub": _binary(torch.sub, half=True),
    }
)
