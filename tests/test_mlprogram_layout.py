"""Operations that move values around, against NumPy.

python -m pytest tests/test_mlprogram_layout.py -q
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
import torch

from tests.mlprogram_build import Case, check

Rng = np.random.Generator


def tensor(rng: Rng, *shape: int) -> np.ndarray:
    """Distinct values, so that a misplaced one is seen."""
    return (rng.permutation(int(np.prod(shape))).reshape(shape) - 7) / 4.0


def sizes(rng: Rng, low: int, high: int) -> tuple[int, ...]:
    """A random shape of rank low to high."""
    return tuple(int(n) for n in rng.integers(1, 6, rng.integers(low, high + 1)))


def some_axis(rng: Rng, rank: int) -> int:
    return int(rng.integers(-rank, rank))


def reshape(rng: Rng) -> Case:
    a, b, c = sizes(rng, 3, 3)
    target, want = [
        ([-1], (a * b * c,)),
        ([0, -1, 0], (a, b, c)),
        ([c, -1], (c, a * b)),
        ([a, 1, b, c], (a, 1, b, c)),
        ([0, 0, 0], (a, b, c)),
        ([b, a, 0], (b, a, c)),
    ][rng.integers(6)]
    return Case({"x": tensor(rng, a, b, c)}, lambda x, shape: x.reshape(want), attrs={"shape": target})


def reshape_like(rng: Rng) -> Case:
    a, b, c = sizes(rng, 3, 3)
    other = tensor(rng, 2, b, c)
    attrs = {"begins": [0, 1], "ends": [1, 0], "end_masks": [False, True]}
    return Case(
        {"x": tensor(rng, a * b, c), "ref_tensors": [tensor(rng, a, 9), other]},
        lambda x, refs, *_: x.reshape(a, b, c),
        attrs=attrs,
        folds=False,
    )


def flatten2d(rng: Rng) -> Case:
    x = tensor(rng, *sizes(rng, 2, 4))
    axis = int(rng.integers(0, x.ndim))
    return Case({"x": x}, lambda x, axis: x.reshape(int(np.prod(x.shape[:axis])), -1), attrs={"axis": axis}, folds=axis > 0)


def expand_dims(rng: Rng) -> Case:
    x = tensor(rng, *sizes(rng, 1, 3))
    axes = [[0], [-1], [0, 2], [1, -1]][rng.integers(4)]
    return Case({"x": x}, lambda x, axes: np.expand_dims(x, tuple(axes)), attrs={"axes": axes})


def squeeze(rng: Rng) -> Case:
    axes = [[1], [-1], [1, 3]][rng.integers(3)]
    return Case({"x": tensor(rng, 3, 1, 4, 1)}, lambda x, axes: np.squeeze(x, tuple(axes)), attrs={"axes": axes})


def transpose(rng: Rng) -> Case:
    x = tensor(rng, *sizes(rng, 2, 5))
    perm = [int(p) - x.ndim if rng.random() < 0.3 else int(p) for p in rng.permutation(x.ndim)]
    return Case({"x": x}, lambda x, perm: np.transpose(x, perm), attrs={"perm": perm})


def concat(rng: Rng) -> Case:
    shape = list(sizes(rng, 2, 4))
    axis, interleave = some_axis(rng, len(shape)), bool(rng.random() < 0.4)
    values = []
    for _ in range(3):
        shape[axis] = shape[axis] if interleave else int(rng.integers(1, 5))
        values.append(tensor(rng, *shape))

    def reference(values, axis, interleave):
        joined = np.concatenate(values, axis)
        if not interleave:
            return joined
        return np.take(joined, np.arange(joined.shape[axis]).reshape(len(values), -1).T.flatten(), axis)

    return Case({"values": values}, reference, attrs={"axis": axis, "interleave": interleave}, folds=not interleave)


def stack(rng: Rng) -> Case:
    shape = sizes(rng, 1, 3)
    return Case(
        {"values": [tensor(rng, *shape) for _ in range(3)]},
        lambda values, axis: np.stack(values, axis),
        attrs={"axis": some_axis(rng, len(shape) + 1)},
        folds=False,
    )  # value inference takes negative axes for another place


def split(rng: Rng) -> Case:
    x = tensor(rng, 3, 6, 4)
    attrs = [{"num_splits": 3, "axis": 1}, {"split_sizes": [1, 3, 2], "axis": 1}, {"num_splits": 2, "axis": -1}][rng.integers(3)]
    parts = attrs.get("split_sizes", [x.shape[attrs["axis"]] // attrs.get("num_splits", 1)] * attrs.get("num_splits", 1))
    return Case({"x": x}, lambda x, *_: tuple(np.split(x, np.cumsum(parts)[:-1], attrs["axis"])), attrs=attrs)


def tile(rng: Rng) -> Case:
    x = tensor(rng, *sizes(rng, 1, 3))
    return Case({"x": x}, np.tile, attrs={"reps": [int(n) for n in rng.integers(1, 4, x.ndim)]})


def pad(rng: Rng) -> Case:
    x = tensor(rng, *(int(n) for n in rng.integers(3, 6, rng.integers(1, 5))))
    mode = str(rng.choice(["constant", "reflect", "replicate"]))
    axes = int(rng.integers(1, x.ndim + 1))
    amounts = [int(n) for n in rng.integers(0, 3, 2 * axes)]
    pairs = [(0, 0)] * (x.ndim - axes) + list(zip(amounts[::2], amounts[1::2], strict=True))

    def reference(x, pad, mode, constant_val):
        return (
            np.pad(x, pairs, constant_values=constant_val)
            if mode == "constant"
            else np.pad(x, pairs, {"replicate": "edge"}.get(mode, mode))
        )

    return Case({"x": x}, reference, attrs={"pad": np.array(amounts, np.int32), "mode": mode, "constant_val": 1.25})


def reverse(rng: Rng) -> Case:
    axes = [[0], [-1], [0, 2]][rng.integers(3)]
    return Case({"x": tensor(rng, 3, 2, 4)}, lambda x, axes: np.flip(x, tuple(axes)), attrs={"axes": axes})


def reverse_sequence(rng: Rng) -> Case:
    x, (seq, batch) = tensor(rng, 4, 3, 5), [(0, 1), (2, 0), (1, 2)][rng.integers(3)]
    lengths = rng.integers(0, x.shape[seq] + 1, x.shape[batch]).astype(np.int32)

    def reference(x, lengths, seq_axis, batch_axis):
        y = np.moveaxis(x, (batch_axis, seq_axis), (0, 1)).copy()
        for row, n in zip(y, lengths, strict=True):
            row[:n] = row[:n][::-1].copy()
        return np.moveaxis(y, (0, 1), (batch_axis, seq_axis))

    return Case({"x": x, "lengths": lengths}, reference, attrs={"seq_axis": seq, "batch_axis": batch}, folds=False)


def sliding_windows(rng: Rng) -> Case:
    axis, size, stride = some_axis(rng, 3), int(rng.integers(1, 4)), int(rng.integers(1, 3))

    def reference(x, axis, size, stride):
        windows = np.lib.stride_tricks.sliding_window_view(x, size, axis)
        return np.moveaxis(np.take(windows, range(0, windows.shape[axis % 3], stride), axis % 3), -1, axis % 3 + 1)

    return Case({"x": tensor(rng, 5, 6, 4)}, reference, attrs={"axis": axis, "size": size, "stride": stride})


def depth_to_space(rng: Rng) -> Case:
    def reference(x, b):
        n, c, h, w = x.shape
        y = np.zeros((n, c // b**2, h * b, w * b))
        for i in range(b):
            for j in range(b):
                y[:, :, i::b, j::b] = x[:, (i * b + j) * (c // b**2) : (i * b + j + 1) * (c // b**2)]
        return y

    return Case({"x": tensor(rng, 2, 12, 3, 2)}, reference, attrs={"block_size": 2})


def space_to_depth(rng: Rng) -> Case:
    return Case(
        {"x": tensor(rng, 2, 3, 4, 6)},
        lambda x, b: np.concatenate([x[:, :, i::b, j::b] for i in range(b) for j in range(b)], 1),
        attrs={"block_size": 2},
    )


def pixel_shuffle(rng: Rng) -> Case:
    return Case(
        {"x": tensor(rng, 2, 18, 2, 3)}, lambda x, f: torch.nn.PixelShuffle(f)(torch.from_numpy(x)).numpy(), attrs={"upscale_factor": 3}
    )


def pixel_unshuffle(rng: Rng) -> Case:
    return Case(
        {"x": tensor(rng, 2, 2, 6, 9)},
        lambda x, f: torch.nn.PixelUnshuffle(f)(torch.from_numpy(x)).numpy(),
        attrs={"downscale_factor": np.uint32(3)},
    )


def space_to_batch(rng: Rng) -> Case:
    def reference(x, block, paddings):
        x = np.pad(x, [(0, 0), (0, 0), *paddings])
        return np.concatenate([x[:, :, i :: block[0], j :: block[1]] for i in range(block[0]) for j in range(block[1])], 0)

    return Case({"x": tensor(rng, 2, 3, 4, 6)}, reference, attrs={"block_shape": [2, 3], "paddings": [[1, 1], [0, 3]]}, folds=False)


def batch_to_space(rng: Rng) -> Case:
    def reference(x, block, crops):
        n, c, h, w = x.shape
        y = np.zeros((n // 6, c, h * 2, w * 3))
        for i in range(2):
            for j in range(3):
                y[:, :, i::2, j::3] = x[(i * 3 + j) * (n // 6) : (i * 3 + j + 1) * (n // 6)]
        return y[:, :, 1:, 0 : w * 3 - 2]

    return Case({"x": tensor(rng, 12, 2, 3, 2)}, reference, attrs={"block_shape": [2, 3], "crops": [[1, 0], [0, 2]]}, folds=False)


def crop(rng: Rng) -> Case:
    return Case({"x": tensor(rng, 2, 3, 6, 7)}, lambda x, h, w: x[:, :, 1:4, 3:7], attrs={"crop_height": [1, 2], "crop_width": [3, 0]})


CASES: dict[str, Callable[[Rng], Case]] = {
    f.__name__: f
    for f in (
        reshape,
        reshape_like,
        flatten2d,
        expand_dims,
        squeeze,
        transpose,
        concat,
        stack,
        split,
        tile,
        pad,
        reverse,
        reverse_sequence,
        sliding_windows,
        depth_to_space,
        space_to_depth,
        pixel_shuffle,
        pixel_unshuffle,
        space_to_batch,
        batch_to_space,
        crop,
    )
}


@pytest.mark.parametrize("op", sorted(CASES))
def test_operation(op: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(sum(map(ord, op)))
    check(op, [CASES[op](rng) for _ in range(6)], tmp_path, ct.target.iOS17)
