"""Pooling over 1 to 3 spatial axes: average, L2, maximum.

    POOL["avg_pool"].run(x, kernel_sizes=[3], pad_type="custom", pad=[1, 1], exclude_padding_from_average=True)

Definitions: coremltools 9.0, mil/ops/defs/iOS15/pool.py. With ceil_mode the last window may reach past the padded input; what lies there
counts neither for a maximum nor for an average, as in PyTorch.
"""

from __future__ import annotations

import math
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional as F

from mlprogram.ops.kernel import kernel
from mlprogram.ops.windows import amounts, flat

_AVG = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)
_MAX = (F.max_pool1d, F.max_pool2d, F.max_pool3d)


def avg_pool(
    x: Tensor,
    kernel_sizes: list[int],
    pad_type: str,
    strides: list[int] | None = None,
    pad: list[int] | None = None,
    exclude_padding_from_average: bool = False,
    ceil_mode: bool = False,
) -> Tensor:
    """Mean over each window; the divisor counts padding unless it is excluded."""
    pads, extra, strides = _plan(x, kernel_sizes, pad_type, strides, pad, ceil_mode)
    inside = torch.ones(1, 1, *x.shape[2:], dtype=x.dtype)
    counted = F.pad(F.pad(inside, flat(pads), value=0.0 if exclude_padding_from_average else 1.0), extra)
    total = _AVG[x.dim() - 3](F.pad(F.pad(x, flat(pads)), extra), kernel_sizes, strides)
    return total / _AVG[x.dim() - 3](counted, kernel_sizes, strides)


def l2_pool(
    x: Tensor,
    kernel_sizes: list[int],
    pad_type: str,
    strides: list[int] | None = None,
    pad: list[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Square root of the sum of squares over each window."""
    pads, extra, strides = _plan(x, kernel_sizes, pad_type, strides, pad, ceil_mode)
    mean = _AVG[x.dim() - 3](F.pad(F.pad(x.square(), flat(pads)), extra), kernel_sizes, strides)
    return (mean * math.prod(kernel_sizes)).sqrt()


def max_pool(
    x: Tensor,
    kernel_sizes: list[int],
    pad_type: str,
    strides: list[int] | None = None,
    pad: list[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Maximum over each window."""
    pads, extra, strides = _plan(x, kernel_sizes, pad_type, strides, pad, ceil_mode)
    return _MAX[x.dim() - 3](F.pad(F.pad(x, flat(pads), value=-math.inf), extra, value=-math.inf), kernel_sizes, strides)


def _plan(
    x: Tensor, kernel_sizes: list[int], pad_type: str, strides: list[int] | None, pad: list[int] | None, ceil_mode: bool
) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Padding of the definition, the further padding ceil_mode needs (in the order of F.pad), and the strides."""
    strides = strides or [1] * len(kernel_sizes)
    pads = amounts(pad_type, pad, x.shape[2:], kernel_sizes, strides)
    extra = []
    for size, (before, after), k, s in zip(x.shape[2:], pads, kernel_sizes, strides, strict=True):
        padded = size + before + after
        count = (padded - k + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode and (count - 1) * s >= size + before and before + after > 0:
            count -= 1
        extra.append((0, max(0, (count - 1) * s + k - padded)))
    return pads, flat(extra), strides


POOL = MappingProxyType({"avg_pool": kernel(avg_pool), "l2_pool": kernel(l2_pool), "max_pool": kernel(max_pool)})
