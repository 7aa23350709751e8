"""Slices, gather and scatter families, sorting and tensors made of indices, against NumPy.

python -m pytest tests/test_mlprogram_indexing.py -q
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
import torch

from mlprogram.ops.indexing import gather as executed_gather
from tests.mlprogram_build import Case, check

Rng = np.random.Generator
from tests.test_mlprogram_layout import sizes, some_axis, tensor


def slice_arguments(rng: Rng, shape: tuple[int, ...]) -> tuple[dict, tuple]:
    """Random begin, end, stride and masks that leave something on every axis, and the NumPy index they mean."""
    begin, end, stride, begin_mask, end_mask, squeeze_mask, index = [], [], [], [], [], [], []
    for n in shape:
        step = int(rng.choice([1, 1, 2, -1, -2]))
        low, high = sorted(int(i) for i in rng.choice(n + 1, 2, replace=False))
        first, last = (low, high) if step > 0 else (high - 1, low - 1)
        squeezed, open_begin, open_end = bool(rng.random() < 0.15), bool(rng.random() < 0.3), bool(rng.random() < 0.3 or last < 0)
        negative = rng.random() < 0.3
        begin.append(first - n if negative else first)
        end.append(last - n if negative and 0 <= last < n else last)
        stride.append(1 if squeezed else step)
        begin_mask.append(open_begin and not squeezed)
        end_mask.append(open_end)
        squeeze_mask.append(squeezed)
        index.append(first if squeezed else slice(None if open_begin else first, None if open_end else last, step))
    if all(squeeze_mask):  # keep a tensor
        squeeze_mask[0], index[0] = False, slice(None)
        begin_mask[0] = end_mask[0] = True
    arguments = {"begin": begin, "end": end, "stride": stride, "begin_mask": begin_mask, "end_mask": end_mask, "squeeze_mask": squeeze_mask}
    return arguments, tuple(index)


def slice_by_index(rng: Rng) -> Case:
    shape = tuple(int(n) for n in rng.integers(2, 6, rng.integers(1, 4)))
    arguments, index = slice_arguments(rng, shape)
    return Case({"x": tensor(rng, *shape)}, lambda x, *_: x[index], attrs=arguments)


def slice_update(rng: Rng) -> Case:
    shape = tuple(int(n) for n in rng.integers(2, 6, rng.integers(1, 4)))
    arguments, index = slice_arguments(rng, shape)
    arguments["squeeze_mask"] = [False] * len(shape)
    index = tuple(slice(i, None if i == -1 else i + 1) if isinstance(i, int) else i for i in index)
    for axis, part in enumerate(index):  # what was squeezed is a slice of one now
        if part.step is None:
            arguments["begin"][axis], arguments["end"][axis], arguments["stride"][axis] = part.start or 0, part.stop or 0, 1
            arguments["begin_mask"][axis] = part.start is None
            arguments["end_mask"][axis] = part.stop is None
    update = rng.normal(size=np.zeros(shape)[index].shape)

    def reference(x, update, *_):
        y = x.copy()
        y[index] = update
        return y

    return Case({"x": tensor(rng, *shape), "update": update}, reference, attrs=arguments)


def slice_by_size(rng: Rng) -> Case:
    begin, size = [[([1, 0, 2], [2, -1, 2]), ([0, -2, -3], [-1, 1, 2])][rng.integers(2)]][0]
    index = tuple(slice(b % n, n if s == -1 else b % n + s) for b, s, n in zip(begin, size, (4, 3, 5), strict=True))
    return Case({"x": tensor(rng, 4, 3, 5)}, lambda x, *_: x[index], attrs={"begin": begin, "size": size})


def gather(rng: Rng) -> Case:
    x, axis = tensor(rng, 3, 4, 5), some_axis(rng, 3)
    indices = rng.integers(0, x.shape[axis], sizes(rng, 1, 2)).astype(np.int32)
    if rng.random() < 0.4:  # batched
        indices = rng.integers(0, 5, (3, 4, 2)).astype(np.int32)
        return Case({"x": x, "indices": indices}, lambda x, i, *_: np.take_along_axis(x, i, 2), attrs={"axis": 2, "batch_dims": 2})
    return Case({"x": x, "indices": indices}, np.take, attrs={"axis": axis})


def gather_along_axis(rng: Rng) -> Case:
    x, axis = tensor(rng, 3, 4, 5), some_axis(rng, 3)
    shape = list(x.shape)
    shape[axis] = 6
    return Case({"x": x, "indices": rng.integers(0, x.shape[axis], shape).astype(np.int32)}, np.take_along_axis, attrs={"axis": axis})


def gather_nd(rng: Rng) -> Case:
    x, depth, batch = tensor(rng, 3, 4, 5), int(rng.integers(1, 3)), int(rng.integers(0, 2))
    lead = (3, 2) if batch else (2, 2)
    indices = rng.integers(0, 3, (*lead, depth)).astype(np.int32)

    def reference(x, indices, batch_dims):
        if not batch_dims:
            return x[tuple(np.moveaxis(indices, -1, 0))]
        return np.stack([one[tuple(np.moveaxis(i, -1, 0))] for one, i in zip(x, indices, strict=True)])

    return Case({"x": x, "indices": indices}, reference, attrs={"batch_dims": batch})


UPDATES: dict[str, Callable] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "update": lambda old, new: new,
}


def combined(data: np.ndarray, places: list, updates: np.ndarray, mode: str) -> np.ndarray:
    """data with updates[k] combined at index places[k], one after the other."""
    y = data.copy()
    for place, new in zip(places, updates, strict=True):
        y[place] = UPDATES[mode](y[place], new)
    return y


def scatter(rng: Rng) -> Case:
    mode, axis = str(rng.choice(list(UPDATES))), int(rng.integers(0, 3))
    indices = rng.permutation(3)[:2].astype(np.int32) if mode == "update" else rng.integers(0, 3, 4).astype(np.int32)
    shape = [3, 4, 5]
    shape[axis] = len(indices)

    def reference(data, indices, updates, axis, mode):
        return np.moveaxis(combined(np.moveaxis(data, axis, 0), list(indices), np.moveaxis(updates, axis, 0), mode), 0, axis)

    return Case(
        {"data": rng.normal(size=(3, 4, 5)), "indices": indices, "updates": rng.uniform(0.5, 2, shape)},
        reference,
        attrs={"axis": axis, "mode": mode},
        ulps=2,
    )


def scatter_along_axis(rng: Rng) -> Case:
    mode = str(rng.choice(list(UPDATES)))
    rows = np.stack([rng.permutation(5)[:3] for _ in range(4)]) if mode == "update" else rng.integers(0, 5, (4, 3))
    updates = rng.uniform(0.5, 2, (4, 3))

    def reference(data, indices, updates, axis, mode):
        return combined(data, [(i, int(k)) for i, row in enumerate(indices) for k in row], updates.flatten(), mode)

    return Case(
        {"data": rng.normal(size=(4, 5)), "indices": rows.astype(np.int32), "updates": updates},
        reference,
        attrs={"axis": 1, "mode": mode},
        folds=mode == "update",
        ulps=2,
    )  # value inference ignores the mode


def scatter_nd(rng: Rng) -> Case:
    mode = str(rng.choice(list(UPDATES)))
    indices = np.array([[0, 1], [2, 3], [0, 2]] if mode == "update" else [[0, 1], [2, 3], [0, 1]], np.int32)

    def reference(data, indices, updates, mode):
        return combined(data, [tuple(i) for i in indices], updates, mode)

    return Case(
        {"data": rng.normal(size=(3, 4, 2)), "indices": indices, "updates": rng.uniform(0.5, 2, (3, 2))},
        reference,
        attrs={"mode": mode},
        ulps=2,
    )


def sorted_case(rng: Rng) -> Case:
    x, axis, ascending = tensor(rng, 4, 5), some_axis(rng, 2), bool(rng.random() < 0.5)
    return Case(
        {"x": x},
        lambda x, axis, ascending: np.argsort(x if ascending else -x, axis, kind="stable"),
        attrs={"axis": axis, "ascending": ascending},
    )


def topk(rng: Rng) -> Case:
    x, axis, ascending, k = tensor(rng, 4, 5), some_axis(rng, 2), bool(rng.random() < 0.5), int(rng.integers(1, 4))

    def reference(x, k, axis, ascending):
        places = np.take(np.argsort(x if ascending else -x, axis, kind="stable"), range(k), axis)
        return np.take_along_axis(x, places, axis), places

    return Case({"x": x}, reference, attrs={"k": k, "axis": axis, "ascending": ascending})


def non_zero(rng: Rng) -> Case:
    return Case({"x": rng.integers(0, 2, (3, 4)) / 2.0}, lambda x: np.argwhere(x))


def one_hot(rng: Rng) -> Case:
    indices, axis = rng.integers(-1, 5, (3, 2)).astype(np.int32), int(rng.integers(-1, 3))

    def reference(indices, size, axis, on, off):
        return np.moveaxis(np.where(indices[..., None] == np.arange(size), on, off), -1, axis)

    return Case({"indices": indices}, reference, attrs={"one_hot_vector_size": 4, "axis": axis, "on_value": 1.5, "off_value": -0.5})


def shape(rng: Rng) -> Case:
    return Case({"x": tensor(rng, *sizes(rng, 1, 5))}, lambda x: np.array(x.shape))


def range_1d(rng: Rng) -> Case:
    bounds = [{"end": 17, "start": 2, "step": 4}, {"end": -3.0, "start": 4.0, "step": -1.5}][rng.integers(2)]
    return Case({}, lambda end, start, step: np.arange(start, end, step), attrs=bounds)


def fill(rng: Rng) -> Case:
    return Case({"shape": np.array(sizes(rng, 1, 3), np.int32)}, np.full, attrs={"value": 2.5}, folds=False)


def fill_like(rng: Rng) -> Case:
    return Case({"ref_tensor": tensor(rng, *sizes(rng, 1, 4))}, np.full_like, attrs={"value": 2.5}, folds=False)


def band_part(rng: Rng) -> Case:
    lower, upper = int(rng.integers(-1, 3)), int(rng.integers(-1, 3))

    def reference(x, lower, upper):
        y = x if lower < 0 else np.triu(x, -lower)
        return y if upper < 0 else np.tril(y, upper)

    return Case({"x": tensor(rng, 2, 4, 5)}, reference, attrs={"lower": lower, "upper": upper})


CASES: dict[str, Callable[[Rng], Case]] = {
    f.__name__: f
    for f in (
        slice_by_index,
        slice_update,
        slice_by_size,
        gather,
        gather_along_axis,
        gather_nd,
        scatter,
        scatter_along_axis,
        scatter_nd,
        topk,
        non_zero,
        one_hot,
        shape,
        range_1d,
        fill,
        fill_like,
        band_part,
    )
} | {"argsort": sorted_case}


@pytest.mark.parametrize("op", sorted(CASES))
def test_operation(op: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(sum(map(ord, op)))
    check(op, [CASES[op](rng) for _ in range(6)], tmp_path, ct.target.iOS18 if op == "slice_update" else ct.target.iOS17)


def test_gather_of_one_from_a_vector_has_no_axis() -> None:
    picked = executed_gather(torch.arange(4.0), torch.tensor(2))
    assert picked.shape == () and picked == 2.0
