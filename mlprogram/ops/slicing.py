"""Slices: by index, by size, and the update of one.

    SLICING["slice_by_index"].run(x, begin=[0, -1], end=[0, 0], stride=[1, -2], begin_mask=[True, False], end_mask=[True, True])

Definitions: coremltools 9.0, mil/ops/defs/iOS15/tensor_transformation.py and iOS18/tensor_transformation.py. The rules are NumPy's:
negative indices count from the end, a mask leaves a side open, a stride may be negative; `squeeze_mask` takes the one element at `begin`.
"""

from __future__ import annotations

from types import MappingProxyType

import torch
from torch import Tensor

from mlprogram.ops.kernel import kernel


def slice_by_index(
    x: Tensor,
    begin: list[int],
    end: list[int],
    stride: list[int] | None = None,
    begin_mask: list[bool] | None = None,
    end_mask: list[bool] | None = None,
    squeeze_mask: list[bool] | None = None,
) -> Tensor:
    """x[begin:end:stride] on every axis."""
    index, reversals = _index(x.shape, begin, end, stride, begin_mask, end_mask, squeeze_mask)
    y = x[index]
    return y.flip(reversals) if reversals else y


def _index(
    shape: torch.Size,
    begin: list[int],
    end: list[int],
    stride: list[int] | None,
    begin_mask: list[bool] | None,
    end_mask: list[bool] | None,
    squeeze_mask: list[bool] | None,
) -> tuple[tuple[int | slice, ...], list[int]]:
    """An index of positive strides, and the axes of its result that run backwards."""
    none = [False] * len(shape)
    plan = zip(begin, end, stride or [1] * len(shape), begin_mask or none, end_mask or none, squeeze_mask or none, strict=True)
    index: list[int | slice] = []
    reversals = []
    for axis, (first, last, step, open_begin, open_end, squeezed) in enumerate(plan):
        if squeezed:
            index.append(0 if open_begin else first)
            continue
        places = range(*slice(None if open_begin else first, None if open_end else last, step).indices(shape[axis]))
        if step < 0:
            reversals.append(sum(not isinstance(i, int) for i in index))
            places = places[::-1]
        index.append(slice(places.start, places.stop, places.step) if len(places) else slice(0, 0))
    return tuple(index), reversals


def slice_by_size(x: Tensor, begin: list[int], size: list[int]) -> Tensor:
    """`size` elements from `begin` on every axis; -1 for all that are left."""
    starts = [b % n if b < 0 else b for b, n in zip(begin, x.shape, strict=True)]
    return x[tuple(slice(b, None if s == -1 else b + s) for b, s in zip(starts, size, strict=True))]


def slice_update(
    x: Tensor,
    update: Tensor,
    begin: list[int],
    end: list[int],
    stride: list[int] | None = None,
    begin_mask: list[bool] | None = None,
    end_mask: list[bool] | None = None,
    squeeze_mask: list[bool] | None = None,
) -> Tensor:
    """x with the slice replaced by `update`, which has the shape of the slice."""
    index, reversals = _index(x.shape, begin, end, stride, begin_mask, end_mask, squeeze_mask)
    y = x.clone()
    target = y[index]  # a view
    update = update.reshape(target.shape)
    target.copy_(update.flip(reversals) if reversals else update)
    return y


SLICING = MappingProxyType(
    {
        "slice_by_index": kernel(slice_by_index, half=True),
        "slice_by_size": kernel(slice_by_size, half=True),
        "slice_update": kernel(slice_update, half=True),
    }
)
