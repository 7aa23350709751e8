"""Elementwise operations, comparisons and reductions of MIL in PyTorch.

ELEMENTWISE["mul"](call)

Operations that are one in MIL and several in PyTorch (a root of a sum, a norm) are computed in fp32 and rounded once.
"""

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bench.coreai.call import Call, Lowering

DTYPES = MappingProxyType(
    {f"{kind}{bits}": getattr(torch, f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32)}
    | {"fp16": torch.float16, "fp32": torch.float32, "bool": torch.bool}
)
GELU = MappingProxyType({"EXACT": "none", "TANH_APPROXIMATION": "tanh"})
ROOT_EPSILON, LOG_EPSILON = 1e-12, 1e-45  # MIL's defaults


def of_two(compute: Callable[[Any, Any], Tensor]) -> Lowering:
    """x and y, either of which may be a number."""
    return lambda call: compute(call.operand("x"), call.operand("y"))


def of_one(compute: Callable[[Tensor], Tensor]) -> Lowering:
    """x alone."""
    return lambda call: compute(call.tensor("x"))


def reduced(compute: Callable[..., Tensor]) -> Lowering:
    """compute(x, axes, keep_dims), all axes where none is given."""

    def lowered(call: Call) -> Tensor:
        x = call.tensor("x")
        return compute(x, call.attribute("axes", list(range(x.dim()))), bool(call.attribute("keep_dims", False)))

    return lowered


def real_div(call: Call) -> Tensor:
    """Of floats; integers divide otherwise."""
    x, y = call.operand("x"), call.operand("y")
    if not any(isinstance(v, Tensor) and v.is_floating_point() for v in (x, y)):
        raise call.refuse("a quotient of integers")
    return x / y  # type: ignore[return-value]  # one of them is a tensor


def rsqrt(call: Call) -> Tensor:
    """1 / sqrt(x + epsilon)."""
    x = call.tensor("x")
    return torch.rsqrt(x.float() + call.attribute("epsilon", ROOT_EPSILON)).to(x.dtype)


def log(call: Call) -> Tensor:
    """ln(x + epsilon)."""
    x = call.tensor("x")
    return torch.log(x.float() + call.attribute("epsilon", LOG_EPSILON)).to(x.dtype)


def l2_norm(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    """sqrt(sum(x^2))."""
    return x.float().square().sum(axes, keepdim=keep).sqrt().to(x.dtype)


def maximum(x: Any, y: Any) -> Tensor:
    """The larger of two, a number among them or not."""
    numbers = [v for v in (x, y) if not isinstance(v, Tensor)]
    return torch.maximum(x, y) if not numbers else (x if isinstance(x, Tensor) else y).clamp(min=numbers[0])


def cast(call: Call) -> Tensor:
    """Floats to integers: towards zero."""
    dtype = DTYPES[call.attribute("dtype")]
    return call.tensor("x").to(call.half if dtype == torch.float16 else dtype)


def gelu(call: Call) -> Tensor:
    """Exact, or by a hyperbolic tangent."""
    mode = call.attribute("mode", "EXACT")
    if mode not in GELU:
        raise call.refuse(f"mode {mode}")
    return F.gelu(call.tensor("x"), approximate=GELU[mode])


def cumsum(call: Call) -> Tensor:
    """From the first on, itself included."""
    if call.attribute("exclusive", False) or call.attribute("reverse", False):
        raise call.refuse("exclusive or reverse")
    x = call.tensor("x")
    return torch.cumsum(x, call.attribute("axis", 0), dtype=x.dtype)


ELEMENTWISE: Mapping[str, Lowering] = MappingProxyType(
    {
        "add": of_two(operator.add),
        "sub": of_two(operator.sub),
        "mul": of_two(operator.mul),
        "real_div": real_div,
        "maximum": of_two(maximum),
        "greater": of_two(operator.gt),
        "greater_equal": of_two(operator.ge),
        "not_equal": of_two(operator.ne),
        "select": lambda call: torch.where(call.tensor("cond"), call.operand("a"), call.operand("b")),
        "sin": of_one(torch.sin),
        "cos": of_one(torch.cos),
        "exp": of_one(torch.exp),
        "log": log,
        "rsqrt": rsqrt,
        "relu": of_one(torch.relu),
        "sigmoid": of_one(torch.sigmoid),
        "tanh": of_one(torch.tanh),
        "gelu": gelu,
        "leaky_relu": lambda call: F.leaky_relu(call.tensor("x"), call.attribute("alpha", 0.01)),
        "clip": lambda call: call.tensor("x").clamp(call.attribute("alpha"), call.attribute("beta")),
        "softmax": lambda call: F.softmax(call.tensor("x"), call.attribute("axis", -1)),
        "cumsum": cumsum,
        "cast": cast,
        "reduce_mean": reduced(lambda x, axes, keep: x.mean(axes, keepdim=keep)),
        "reduce_sum": reduced(lambda x, axes, keep: x.sum(axes, keepdim=keep, dtype=x.dtype)),
        "reduce_max": reduced(lambda x, axes, keep: torch.amax(x, axes, keepdim=keep)),
        "reduce_min": reduced(lambda x, axes, keep: torch.amin(x, axes, keepdim=keep)),
        "reduce_l2_norm": reduced(l2_norm),
    }
)
