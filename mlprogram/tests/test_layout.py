"""Operations that move values around, against NumPy: a table of operation -> calls."""

from __future__ import annotations

import numpy as np
import torch

from mlprogram.tests.built import Case, test_of


def tensor(*shape: int) -> np.ndarray:
    """Distinct values, so that a misplaced one is seen."""
    return (np.random.default_rng(sum(shape)).permutation(int(np.prod(shape))).reshape(shape) - 7) / 4.0


def calls(function, x: np.ndarray, *attrs: dict, **more) -> list[Case]:
    """One call on x for each set of attributes."""
    return [Case({"x": x}, function, attrs=given, **more) for given in attrs]


def concatenated(values: list[np.ndarray], axis: int, interleave: bool) -> np.ndarray:
    joined = np.concatenate(values, axis)
    return np.take(joined, np.arange(joined.shape[axis]).reshape(len(values), -1).T.flatten(), axis) if interleave else joined


def concat(axis: int, interleave: bool) -> Case:
    others = [[2, 3, 4], [2, 3, 4], [2, 3, 4]]
    others[1][axis] += 0 if interleave else 2
    values = [tensor(*shape) for shape in others]
    return Case({"values": values}, concatenated, attrs={"axis": axis, "interleave": interleave}, folds=not interleave)


def split(parts: list[int], **attrs) -> Case:
    return Case({"x": tensor(3, 6, 4)}, lambda x, *_: tuple(np.split(x, np.cumsum(parts)[:-1], attrs["axis"])), attrs=attrs)


def pad(mode: str, pairs: list[tuple[int, int]]) -> Case:
    def reference(x, pad, mode, constant):
        whole = [(0, 0)] * (x.ndim - len(pairs)) + pairs
        return np.pad(x, whole, constant_values=constant) if mode == "constant" else np.pad(x, whole, {"replicate": "edge"}.get(mode, mode))

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
    return Case({"x": x, "lengths": lengths}, reference, attrs={"seq_axis": seq, "batch_axis": batch}, folds=False)


def windows(x: np.ndarray, axis: int, size: int, stride: int) -> np.ndarray:
    seen = np.lib.stride_tricks.sliding_window_view(x, size, axis)
    return np.moveaxis(np.take(seen, range(0, seen.shape[axis % 3], stride), axis % 3), -1, axis % 3 + 1)


def depth_to_space(x: np.ndarray, block: int) -> np.ndarray:
    n, c, h, w = x.shape
    y = np.zeros((n, c // block**2, h * block, w * block))
    for i, j in np.ndindex(block, block):
        y[:, :, i::block, j::block] = x[:, (i * block + j) * (c // block**2) : (i * block + j + 1) * (c // block**2)]
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


SHAPES = {(-1,): (60,), (0, -1, 0): (3, 4, 5), (5, -1): (5, 12), (3, 1, 4, 5): (3, 1, 4, 5), (0, 0, 0): (3, 4, 5), (4, 3, 0): (4, 3, 5)}
LIKE = {"begins": [0, 1], "ends": [1, 0], "end_masks": [False, True]}
CASES: dict[str, list[Case]] = {
    "reshape": [Case({"x": tensor(3, 4, 5)}, lambda x, _, to=to: x.reshape(to), attrs={"shape": list(s)}) for s, to in SHAPES.items()],
    "reshape_like": [
        Case(
            {"x": tensor(12, 5), "ref_tensors": [tensor(3, 9), tensor(2, 4, 5)]}, lambda x, *_: x.reshape(3, 4, 5), attrs=LIKE, folds=False
        )
    ],
    "flatten2d": [  # value inference fails on axis 0
        *calls(lambda x, axis: x.reshape(int(np.prod(x.shape[:axis])), -1), tensor(2, 3, 4), {"axis": 0}, folds=False),
        *calls(lambda x, axis: x.reshape(int(np.prod(x.shape[:axis])), -1), tensor(2, 3, 4), {"axis": 1}, {"axis": 2}),
    ],
    "expand_dims": calls(
        lambda x, axes: np.expand_dims(x, tuple(axes)), tensor(2, 3), *({"axes": axes} for axes in ([0], [-1], [0, 2], [1, -1]))
    ),
    "squeeze": calls(lambda x, axes: np.squeeze(x, tuple(axes)), tensor(3, 1, 4, 1), {"axes": [1]}, {"axes": [-1]}, {"axes": [1, 3]}),
    "transpose": [
        *calls(np.transpose, tensor(2, 3, 4, 5), {"perm": [3, 0, 2, 1]}, {"perm": [-1, 1, -4, 2]}),
        *calls(np.transpose, tensor(2, 3), {"perm": [1, 0]}),
        *calls(np.transpose, tensor(2, 3, 1, 2, 4), {"perm": [4, 2, 0, 3, 1]}),
    ],
    "concat": [concat(axis, interleave) for axis in (0, 1, -1) for interleave in (False, True)],
    "stack": [  # value inference takes negative axes for another place
        Case({"values": [tensor(2, 3), tensor(2, 3) + 1, tensor(2, 3) * 2]}, np.stack, attrs={"axis": axis}, folds=False)
        for axis in (0, 1, 2, -1, -3)
    ],
    "split": [split([2] * 3, num_splits=3, axis=1), split([1, 3, 2], split_sizes=[1, 3, 2], axis=1), split([2] * 2, num_splits=2, axis=-1)],
    "tile": calls(np.tile, tensor(2, 3, 1), {"reps": [1, 2, 3]}, {"reps": [3, 1, 1]}),
    "pad": [
        pad(mode, pairs)
        for mode in ("constant", "reflect", "replicate")
        for pairs in ([(1, 2)], [(0, 2), (1, 0)], [(2, 0), (1, 1), (0, 2)], [(1, 0), (0, 1), (2, 1), (1, 2)])
    ],
    "reverse": calls(lambda x, axes: np.flip(x, tuple(axes)), tensor(3, 2, 4), {"axes": [0]}, {"axes": [-1]}, {"axes": [0, 2]}),
    "reverse_sequence": [reverse_sequence(seq, batch) for seq, batch in ((0, 1), (2, 0), (1, 2))],
    "sliding_windows": calls(
        windows,
        tensor(5, 6, 4),
        *({"axis": axis, "size": size, "stride": stride} for axis, size, stride in ((0, 1, 2), (1, 3, 1), (-1, 2, 2), (-3, 3, 2))),
    ),
    "depth_to_space": calls(depth_to_space, tensor(2, 12, 3, 2), {"block_size": 2}),
    "space_to_depth": calls(
        lambda x, b: np.concatenate([x[:, :, i::b, j::b] for i, j in np.ndindex(b, b)], 1), tensor(2, 3, 4, 6), {"block_size": 2}
    ),
    "pixel_shuffle": calls(lambda x, f: torch.nn.PixelShuffle(f)(torch.from_numpy(x)).numpy(), tensor(2, 18, 2, 3), {"upscale_factor": 3}),
    "pixel_unshuffle": calls(
        lambda x, f: torch.nn.PixelUnshuffle(f)(torch.from_numpy(x)).numpy(), tensor(2, 2, 6, 9), {"downscale_factor": np.uint32(3)}
    ),
    "space_to_batch": calls(space_to_batch, tensor(2, 3, 4, 6), {"block_shape": [2, 3], "paddings": [[1, 1], [0, 3]]}, folds=False),
    "batch_to_space": calls(batch_to_space, tensor(12, 2, 3, 2), {"block_shape": [2, 3], "crops": [[1, 0], [0, 2]]}, folds=False),
    "crop": calls(lambda x, h, w: x[:, :, 1:4, 3:7], tensor(2, 3, 6, 7), {"crop_height": [1, 2], "crop_width": [3, 0]}),
}


test_operation = test_of(CASES)
