"""Reductions over axes, argmax and argmin, cumulative sum.

    REDUCTION["reduce_log_sum_exp"].run(x, axes=[-1], keep_dims=True)

Definitions: coremltools 9.0, mil/ops/defs/iOS15/reduction.py; `axes` None means all. Ties of argmax and argmin go to the first place.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import torch
from torch import Tensor

from mlprogram.ops.kernel import Kernel, kernel


def channels_apart(x: Tensor, axes: list[int]) -> tuple[Tensor, list[int], bool]:
    """x and axes, or what they are with the channels last where they are stored so: PyTorch sums [N, H, W, C] ten times as fast."""
    if x.dim() != 4 or x.is_contiguous() or not x.is_contiguous(memory_format=torch.channels_last):
        return x, axes, False
    return x.permute(0, 2, 3, 1), [(0, 3, 1, 2)[axis % 4] for axis in axes], True


def _reduction(function: Callable[[Tensor, list[int], bool], Tensor], meaning: str) -> Kernel:
    def run(x: Tensor, axes: list[int] | None = None, keep_dims: bool = False) -> Tensor:
        axes = list(range(x.dim())) if axes is None else axes
        if not keep_dims:
            return function(x, axes, False)
        x, axes, moved = channels_apart(x, axes)
        result = function(x, axes, True)
        return result.permute(0, 3, 1, 2) if moved else result

    run.__doc__ = f"{meaning} over `axes`."
    return kernel(run)


def _prod(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    for axis in sorted((a % x.dim() for a in axes), reverse=True):
        x = x.prod(axis, keepdim=keep)
    return x


def _mean(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return x.mean(axes, keepdim=keep) if x.is_floating_point() else x.double().mean(axes, keepdim=keep)


def argmax(x: Tensor, axis: int = -1, keep_dims: bool = False, output_dtype: str = "int32") -> Tensor:
    """Place of the largest value along `axis`."""
    return x.argmax(axis, keepdim=keep_dims)


def argmin(x: Tensor, axis: int = -1, keep_dims: bool = False, output_dtype: str = "int32") -> Tensor:
    """Place of the smallest value along `axis`."""
    return x.argmin(axis, keepdim=keep_dims)


def cumsum(x: Tensor, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Running sum along `axis`; `exclusive` leaves the element itself out, `reverse` runs from the end."""
    ordered = x.flip(axis) if reverse else x
    total = ordered.cumsum(axis)
    total = total - ordered if exclusive else total
    return total.flip(axis) if reverse else total


REDUCTION = MappingProxyType(
    {
        "cumsum": kernel(cumsum),
        "reduce_argmax": kernel(argmax, half=True),
        "reduce_argmin": kernel(argmin, half=True),
        "reduce_l1_norm": _reduction(lambda x, axes, keep: x.abs().sum(axes, keepdim=keep), "Sum of absolute values"),
        "reduce_l2_norm": _reduction(lambda x, axes, keep: (x * x).sum(axes, keepdim=keep).sqrt(), "Square root of the sum of squares"),
        "reduce_log_sum": _reduction(lambda x, axes, keep: x.sum(axes, keepdim=keep).log(), "Logarithm of the sum"),
        "reduce_log_sum_exp": _reduction(
            lambda x, axes, keep: torch.logsumexp(x, axes, keepdim=keep), "Logarithm of the sum of exponentials"
        ),
        "reduce_max": _reduction(lambda x, axes, keep: torch.amax(x, axes, keepdim=keep), "Maximum"),
        "reduce_mean": _reduction(_mean, "Mean"),
        "reduce_min": _reduction(lambda x, axes, keep: torch.amin(x, axes, keepdim=keep), "Minimum"),
        "reduce_prod": _reduction(_prod, "Product"),
        "reduce_sum": _reduction(lambda x, axes, keep: x.sum(axes, keepdim=keep), "Sum"),
        "reduce_sum_square": _reduction(lambda x, axes, keep: (x * x).sum(axes, keepdim=keep), "Sum of squares"),
    }
)
