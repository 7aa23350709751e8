"""Operations that move values: reshapes, slices, gathers, scatters, against PyTorch and NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import coremltools as ct
import numpy as np
import torch

from built import Case, makers, test_of
from mlprogram.ops.indexing import gather as executed_gather


def tensor(*shape: int) -> np.ndarray:
    return (
        np.random.default_rng(sum(shape)).permutation(int(np.prod(shape))).reshape(shape) - 7
    ) / 4.0


def calls(function, x: np.ndarray, *attrs: dict, **more) -> list[Case]:
    return [Case({"x": x}, function, attrs=attributes, **more) for attributes in attrs]


def concatenated(values: list[np.ndarray], axis: int, interleave: bool) -> np.ndarray:
    joined = np.concatenate(values, axis)
    return (
        np.take(joined, np.arange(joined.shape[axis]).reshape(len(values), -1).T.flatten(), axis)
        if interleave
        else joined
    )


def concat(axis: int, interleave: bool) -> Case:
    others = [[2, 3, 4], [2, 3, 4], [2, 3, 4]]
    others[1][axis] += 0 if interleave else 2
    values = [tensor(*shape) for shape in others]
    return Case(
        {"values": values},
        concatenated,
        attrs={"axis": axis, "interleave": interleave},
        folds=not interleave,
    )


def split(parts: list[int], **attrs) -> Case:
    return Case(
        {"x": tensor(3, 6, 4)},
        lambda x, *_: tuple(np.split(x, np.cumsum(parts)[:-1], attrs["axis"])),
        attrs=attrs,
    )


def pad(mode: str, pairs: list[tuple[int, int]]) -> Case:
    def reference(x, pad, mode, constant):
        whole = [(0, 0)] * (x.ndim - len(pairs)) + pairs
        return (
            np.pad(x, whole, constant_values=constant)
            if mode == "constant"
            else np.pad(x, whole, {"replicate": "edge"}.get(mode, mode))
        )

    attrs = {"pad": np.array(pairs, np.int32).flatten(), "mode": mode, "constant_val": 1.25}
    return Case({"x": tensor(*(3, 4, 5, 3)[-max(len(pairs), 2) :])}, reference, attrs=attrs)


def reverse_sequence(seq: int, batch: int) -> Case:
    def reference(x, lengths, seq_axis, batch_axis):
        y = np.moveaxis(x, (batch_axis, seq_axis), (0, 1)).copy()
        for row, n in zip(y, lengths, strict=True):
            row[:n] = row[:n][::-1].copy()
        return np.moveaxis(y, (0, 1), (batch_axis, seq_axis))

    x = tensor(4, 3, 5)
    lengths = np.linspace(0, x.shape[seq], x.shape[batch]).astype(np.int32)
    return Case(
        {"x": x, "lengths": lengths},
        reference,
        attrs={"seq_axis": seq, "batch_axis": batch},
        folds=False,
    )


def windows(x: np.ndarray, axis: int, size: int, stride: int) -> np.ndarray:
    seen = np.lib.stride_tricks.sliding_window_view(x, size, axis)
    return np.moveaxis(
        np.take(seen, range(0, seen.shape[axis % 3], stride), axis % 3), -1, axis % 3 + 1
    )


def depth_to_space(x: np.ndarray, block: int) -> np.ndarray:
    n, c, h, w = x.shape
    y = np.zeros((n, c // block**2, h * block, w * block))
    for i, j in np.ndindex(block, block):
        y[:, :, i::block, j::block] = x[
            :, (i * block + j) * (c // block**2) : (i * block + j + 1) * (c // block**2)
        ]
    return y


def space_to_batch(x: np.ndarray, block: list[int], paddings: list) -> np.ndarray:
    x = np.pad(x, [(0, 0), (0, 0), *paddings])
    return np.concatenate([x[:, :, i :: block[0], j :: block[1]] for i, j in np.ndindex(*block)], 0)


def batch_to_space(x: np.ndarray, block: list[int], crops: list) -> np.ndarray:
    n, c, h, w = x.shape
    y = np.zeros((n // 6, c, h * 2, w * 3))
    for i, j in np.ndindex(2, 3):
        y[:, :, i::2, j::3] = x[(i * 3 + j) * (n // 6) : (i * 3 + j + 1) * (n // 6)]
    return y[:, :, 1:, 0 : w * 3 - 2]


SHAPES = {
    (-1,): (60,),
    (0, -1, 0): (3, 4, 5),
    (5, -1): (5, 12),
    (3, 1, 4, 5): (3, 1, 4, 5),
    (0, 0, 0): (3, 4, 5),
    (4, 3, 0): (4, 3, 5),
}
LIKE = {"begins": [0, 1], "ends": [1, 0], "end_masks": [False, True]}
CASES: dict[str, list[Case]] = {
    "reshape": [
        Case({"x": tensor(3, 4, 5)}, lambda x, _, to=to: x.reshape(to), attrs={"shape": list(s)})
        for s, to in SHAPES.items()
    ],
    "reshape_like": [
        Case(
            {"x": tensor(12, 5), "ref_tensors": [tensor(3, 9), tensor(2, 4, 5)]},
            lambda x, *_: x.reshape(3, 4, 5),
            attrs=LIKE,
            folds=False,
        )
    ],
    "flatten2d": [  # value inference fails on axis 0
        *calls(
            lambda x, axis: x.reshape(int(np.prod(x.shape[:axis])), -1),
            tensor(2, 3, 4),
            {"axis": 0},
            folds=False,
        ),
        *calls(
            lambda x, axis: x.reshape(int(np.prod(x.shape[:axis])), -1),
            tensor(2, 3, 4),
            {"axis": 1},
            {"axis": 2},
        ),
    ],
    "expand_dims": calls(
        lambda x, axes: np.expand_dims(x, tuple(axes)),
        tensor(2, 3),
        *({"axes": axes} for axes in ([0], [-1], [0, 2], [1, -1])),
    ),
    "squeeze": calls(
        lambda x, axes: np.squeeze(x, tuple(axes)),
        tensor(3, 1, 4, 1),
        {"axes": [1]},
        {"axes": [-1]},
        {"axes": [1, 3]},
    ),
    "transpose": [
        *calls(np.transpose, tensor(2, 3, 4, 5), {"perm": [3, 0, 2, 1]}, {"perm": [-1, 1, -4, 2]}),
        *calls(np.transpose, tensor(2, 3), {"perm": [1, 0]}),
        *calls(np.transpose, tensor(2, 3, 1, 2, 4), {"perm": [4, 2, 0, 3, 1]}),
    ],
    "concat": [concat(axis, interleave) for axis in (0, 1, -1) for interleave in (False, True)],
    "stack": [  # value inference takes negative axes for another place
        Case(
            {"values": [tensor(2, 3), tensor(2, 3) + 1, tensor(2, 3) * 2]},
            np.stack,
            attrs={"axis": axis},
            folds=False,
        )
        for axis in (0, 1, 2, -1, -3)
    ],
    "split": [
        split([2] * 3, num_splits=3, axis=1),
        split([1, 3, 2], split_sizes=[1, 3, 2], axis=1),
        split([2] * 2, num_splits=2, axis=-1),
    ],
    "tile": calls(np.tile, tensor(2, 3, 1), {"reps": [1, 2, 3]}, {"reps": [3, 1, 1]}),
    "pad": [
        pad(mode, pairs)
        for mode in ("constant", "reflect", "replicate")
        for pairs in (
            [(1, 2)],
            [(0, 2), (1, 0)],
            [(2, 0), (1, 1), (0, 2)],
            [(1, 0), (0, 1), (2, 1), (1, 2)],
        )
    ],
    "reverse": calls(
        lambda x, axes: np.flip(x, tuple(axes)),
        tensor(3, 2, 4),
        {"axes": [0]},
        {"axes": [-1]},
        {"axes": [0, 2]},
    ),
    "reverse_sequence": [reverse_sequence(seq, batch) for seq, batch in ((0, 1), (2, 0), (1, 2))],
    "sliding_windows": calls(
        windows,
        tensor(5, 6, 4),
        *(
            {"axis": axis, "size": size, "stride": stride}
            for axis, size, stride in ((0, 1, 2), (1, 3, 1), (-1, 2, 2), (-3, 3, 2))
        ),
    ),
    "depth_to_space": calls(depth_to_space, tensor(2, 12, 3, 2), {"block_size": 2}),
    "space_to_depth": calls(
        lambda x, b: np.concatenate([x[:, :, i::b, j::b] for i, j in np.ndindex(b, b)], 1),
        tensor(2, 3, 4, 6),
        {"block_size": 2},
    ),
    "pixel_shuffle": calls(
        lambda x, f: torch.nn.PixelShuffle(f)(torch.from_numpy(x)).numpy(),
        tensor(2, 18, 2, 3),
        {"upscale_factor": 3},
    ),
    "pixel_unshuffle": calls(
        lambda x, f: torch.nn.PixelUnshuffle(f)(torch.from_numpy(x)).numpy(),
        tensor(2, 2, 6, 9),
        {"downscale_factor": np.uint32(3)},
    ),
    "space_to_batch": calls(
        space_to_batch,
        tensor(2, 3, 4, 6),
        {"block_shape": [2, 3], "paddings": [[1, 1], [0, 3]]},
        folds=False,
    ),
    "batch_to_space": calls(
        batch_to_space,
        tensor(12, 2, 3, 2),
        {"block_shape": [2, 3], "crops": [[1, 0], [0, 2]]},
        folds=False,
    ),
    "crop": calls(
        lambda x, h, w: x[:, :, 1:4, 3:7],
        tensor(2, 3, 6, 7),
        {"crop_height": [1, 2], "crop_width": [3, 0]},
    ),
}


Rng = np.random.Generator


def slice_arguments(rng: Rng, shape: tuple[int, ...]) -> tuple[dict, tuple]:
    """Random begin, end, stride and masks that leave something on every axis, and the NumPy index
    they mean.
    """
    begin, end, stride, begin_mask, end_mask, squeeze_mask, index = [], [], [], [], [], [], []
    for n in shape:
        step = int(rng.choice([1, 1, 2, -1, -2]))
        low, high = sorted(int(i) for i in rng.choice(n + 1, 2, replace=False))
        first, last = (low, high) if step > 0 else (high - 1, low - 1)
        squeezed, open_begin, open_end = (
            bool(rng.random() < 0.15),
            bool(rng.random() < 0.3),
            bool(rng.random() < 0.3 or last < 0),
        )
        negative = rng.random() < 0.3
        begin.append(first - n if negative else first)
        end.append(last - n if negative and 0 <= last < n else last)
        stride.append(1 if squeezed else step)
        begin_mask.append(open_begin and not squeezed)
        end_mask.append(open_end)
        squeeze_mask.append(squeezed)
        index.append(
            first
            if squeezed
            else slice(None if open_begin else first, None if open_end else last, step)
        )
    if all(squeeze_mask):  # keep a tensor
        squeeze_mask[0], index[0] = False, slice(None)
        begin_mask[0] = end_mask[0] = True
    arguments = {
        "begin": begin,
        "end": end,
        "stride": stride,
        "begin_mask": begin_mask,
        "end_mask": end_mask,
        "squeeze_mask": squeeze_mask,
    }
    return arguments, tuple(index)


def slice_by_index(rng: Rng) -> Case:
    shape = tuple(int(n) for n in rng.integers(2, 6, rng.integers(1, 4)))
    arguments, index = slice_arguments(rng, shape)
    return Case({"x": tensor(*shape)}, lambda x, *_: x[index], attrs=arguments)


def slice_update(rng: Rng) -> Case:
    shape = tuple(int(n) for n in rng.integers(2, 6, rng.integers(1, 4)))
    arguments, index = slice_arguments(rng, shape)
    arguments["squeeze_mask"] = [False] * len(shape)
    index = tuple(slice(i, None if i == -1 else i + 1) if isinstance(i, int) else i for i in index)
    for axis, part in enumerate(index):  # what was squeezed is a slice of one now
        if part.step is None:
            arguments["begin"][axis], arguments["end"][axis], arguments["stride"][axis] = (
                part.start or 0,
                part.stop or 0,
                1,
            )
            arguments["begin_mask"][axis] = part.start is None
            arguments["end_mask"][axis] = part.stop is None
    update = rng.normal(size=np.zeros(shape)[index].shape)

    def reference(x, update, *_):
        y = x.copy()
        y[index] = update
        return y

    return Case({"x": tensor(*shape), "update": update}, reference, attrs=arguments)


def slice_by_size(begin: list[int], size: list[int]) -> Case:
    index = tuple(
        slice(b % n, n if s == -1 else b % n + s)
        for b, s, n in zip(begin, size, (4, 3, 5), strict=True)
    )
    return Case(
        {"x": tensor(4, 3, 5)}, lambda x, *_: x[index], attrs={"begin": begin, "size": size}
    )


DRAWN = np.random.default_rng(0)
MATRIX, CUBE = tensor(4, 5), tensor(3, 4, 5)


def indices(high: int, *shape: int) -> np.ndarray:
    return DRAWN.integers(0, high, shape).astype(np.int32)


def gather_along_axis(axis: int) -> Case:
    shape = [3, 4, 5]
    shape[axis] = 6
    return Case(
        {"x": CUBE, "indices": indices(CUBE.shape[axis], *shape)},
        np.take_along_axis,
        attrs={"axis": axis},
    )


def gather_nd(depth: int, batch: int) -> Case:
    def reference(x, indices, batch_dims):
        if not batch_dims:
            return x[tuple(np.moveaxis(indices, -1, 0))]
        return np.stack(
            [one[tuple(np.moveaxis(i, -1, 0))] for one, i in zip(x, indices, strict=True)]
        )

    return Case(
        {"x": CUBE, "indices": indices(3, 3 if batch else 2, 2, depth)},
        reference,
        attrs={"batch_dims": batch},
    )


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


def scattered(
    reference: Callable,
    data: np.ndarray,
    places: Any,
    shape: tuple[int, ...],
    folds: bool = True,
    **attrs: Any,
) -> Case:
    inputs = {
        "data": data,
        "indices": np.array(places, np.int32),
        "updates": DRAWN.uniform(0.5, 2, shape),
    }
    return Case(inputs, reference, attrs=attrs, folds=folds, ulps=2)


def scatter(mode: str, axis: int) -> Case:
    def reference(data, places, updates, axis, mode):
        return np.moveaxis(
            combined(np.moveaxis(data, axis, 0), list(places), np.moveaxis(updates, axis, 0), mode),
            0,
            axis,
        )

    shape = [3, 4, 5]
    shape[axis] = 2 if mode == "update" else 4
    return scattered(
        reference,
        CUBE,
        [2, 0] if mode == "update" else [1, 2, 1, 0],
        tuple(shape),
        axis=axis,
        mode=mode,
    )


def scatter_along_axis(mode: str) -> Case:
    def reference(data, places, updates, axis, mode):
        return combined(
            data,
            [(i, int(k)) for i, row in enumerate(places) for k in row],
            updates.flatten(),
            mode,
        )

    rows = [[0, 3, 2], [4, 1, 0], [2, 3, 4], [1, 0, 2]] if mode == "update" else indices(5, 4, 3)
    # value inference ignores the mode
    return scattered(reference, MATRIX, rows, (4, 3), mode == "update", axis=1, mode=mode)


def scatter_nd(mode: str) -> Case:
    last = [0, 2] if mode == "update" else [0, 1]
    return scattered(
        lambda data, places, updates, mode: combined(
            data, [tuple(i) for i in places], updates, mode
        ),
        tensor(3, 4, 2),
        [[0, 1], [2, 3], last],
        (3, 2),
        mode=mode,
    )


def order(x: np.ndarray, axis: int, ascending: bool) -> np.ndarray:
    return np.argsort(x if ascending else -x, axis, kind="stable")


def topk(x: np.ndarray, k: int, axis: int, ascending: bool) -> tuple[np.ndarray, np.ndarray]:
    places = np.take(order(x, axis, ascending), range(k), axis)
    return np.take_along_axis(x, places, axis), places


def one_hot(axis: int) -> Case:
    def reference(places, size, axis, on, off):
        return np.moveaxis(np.where(places[..., None] == np.arange(size), on, off), -1, axis)

    places = np.array([[-1, 0], [3, 4], [2, 1]], np.int32)
    return Case(
        {"indices": places},
        reference,
        attrs={"one_hot_vector_size": 4, "axis": axis, "on_value": 1.5, "off_value": -0.5},
    )


def band(x: np.ndarray, lower: int, upper: int) -> np.ndarray:
    y = x if lower < 0 else np.triu(x, -lower)
    return y if upper < 0 else np.tril(y, upper)


CASES |= makers(globals()) | {
    "slice_by_size": [slice_by_size([1, 0, 2], [2, -1, 2]), slice_by_size([0, -2, -3], [-1, 1, 2])],
    "gather": [
        *(
            Case({"x": CUBE, "indices": indices(3, 2)}, np.take, attrs={"axis": axis})
            for axis in (0, 1, -1)
        ),
        Case({"x": CUBE, "indices": indices(4, 2, 3)}, np.take, attrs={"axis": -2}),
        Case(
            {"x": CUBE, "indices": indices(5, 3, 4, 2)},
            lambda x, i, *_: np.take_along_axis(x, i, 2),
            attrs={"axis": 2, "batch_dims": 2},
        ),
    ],
    "gather_along_axis": [gather_along_axis(axis) for axis in (0, 1, -1)],
    "gather_nd": [gather_nd(depth, batch) for depth in (1, 2) for batch in (0, 1)],
    "scatter": [scatter(mode, k % 3) for k, mode in enumerate(UPDATES)],
    "scatter_along_axis": [scatter_along_axis(mode) for mode in UPDATES],
    "scatter_nd": [scatter_nd(mode) for mode in UPDATES],
    "argsort": calls(
        order,
        MATRIX,
        *({"axis": axis, "ascending": up} for axis in (0, -1) for up in (False, True)),
    ),
    "topk": calls(
        topk,
        MATRIX,
        *(
            {"k": k, "axis": axis, "ascending": up}
            for k, axis, up in ((1, 0, True), (3, -1, False), (2, 1, True))
        ),
    ),
    "non_zero": calls(np.argwhere, np.array([[0, 1, 0, 1], [0, 0, 0, 0], [1, 1, 0, 1]]) / 2.0, {}),
    "one_hot": [one_hot(axis) for axis in (-1, 0, 1)],
    "shape": [
        Case({"x": tensor(*size)}, lambda x: np.array(x.shape))
        for size in ((3,), (2, 3, 4), (1, 2, 3, 1, 2))
    ],
    "range_1d": [
        Case({}, lambda end, start, step: np.arange(start, end, step), attrs=bounds)
        for bounds in (
            {"end": 17, "start": 2, "step": 4},
            {"end": -3.0, "start": 4.0, "step": -1.5},
        )
    ],
    "fill": [
        Case({"shape": np.array([2, 1, 3], np.int32)}, np.full, attrs={"value": 2.5}, folds=False)
    ],
    "fill_like": [
        Case({"ref_tensor": tensor(2, 3)}, np.full_like, attrs={"value": 2.5}, folds=False)
    ],
    "band_part": calls(
        band,
        tensor(2, 4, 5),
        *({"lower": low, "upper": up} for low, up in ((-1, 0), (0, -1), (1, 2), (2, 0), (-1, -1))),
    ),
}

test_operation = test_of(CASES, {"slice_update": ct.target.iOS18})


def test_gather_of_one_from_a_vector_has_no_axis() -> None:
    picked = executed_gather(torch.arange(4.0), torch.tensor(2))
    assert picked.shape == ()
    assert picked == 2.0
