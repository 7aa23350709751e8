"""Operations that move values: reshapes, slices, gathers, scatters. Where no reference is written,
coremltools' value inference is the reference.
"""

import numpy as np
import torch
from torch.nn import functional as F

from built import IOS18
from operation_cases import Case, table, test_of

Tensor = torch.Tensor


def tensor(*shape):
    values = np.random.default_rng(sum(shape)).permutation(int(np.prod(shape)))
    return (values.reshape(shape) - 7) / 4.0


def concatenated(values, axis, interleave=False):
    y = torch.cat(values, axis)
    if not interleave:
        return y
    for i, value in enumerate(values):
        y.movedim(axis, 0)[i :: len(values)] = value.movedim(axis, 0)
    return y


def sequence_reversed(x, lengths, seq, batch):
    y = x.clone()
    for sample, n in enumerate(lengths.tolist()):
        row = y.select(batch, sample).movedim(seq - (seq > batch), 0)
        row[:n] = row[:n].flip(0)
    return y


def blocks(x, h, w, axis):
    """The pixels of every place in a block of h x w, one place after the other along `axis`."""
    return torch.cat([x[:, :, i::h, j::w] for i, j in np.ndindex(h, w)], axis)


def unblocked(x, h, w, axis):
    """The inverse of blocks."""
    parts = x.chunk(h * w, axis)
    n, c, height, width = parts[0].shape
    y = torch.zeros(n, c, height * h, width * w)
    for (i, j), part in zip(np.ndindex(h, w), parts, strict=True):
        y[:, :, i::h, j::w] = part
    return y


def slice_arguments(rng, squeezes):
    """A shape, and random begin, end, stride and masks that leave something on every axis."""
    shape = tuple(rng.integers(2, 6, rng.integers(1, 4)).tolist())
    rows, whole = [], rng.integers(len(shape))
    for axis, n in enumerate(shape):
        low, high = sorted(rng.choice(n + 1, 2, replace=False).tolist())
        step = int(rng.choice([1, 1, 2, -1, -2]))
        first, last = (low, high) if step > 0 else (high - 1, low - 1)
        # counted from the end of the axis; an end of -1 would mean its last place
        if rng.random() < 0.3:
            first, last = first - n, last - n if 0 <= last < n else last
        squeezed = bool(axis != whole and rng.random() < squeezes)
        opened = bool(rng.random() < 0.3), bool(rng.random() < 0.3 or last == -1)
        rows.append(
            (first, last, 1 if squeezed else step, opened[0] and not squeezed, opened[1], squeezed)
        )
    names = ("begin", "end", "stride", "begin_mask", "end_mask", "squeeze_mask")
    return shape, dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def slice_by_index(rng):
    shape, arguments = slice_arguments(rng, 0.3)
    return Case(x=tensor(*shape), **arguments)


def slice_update(rng):
    shape, arguments = slice_arguments(rng, 0)
    part = [
        len(range(n)[None if from_first else begin : None if to_last else end : step])
        for n, begin, end, step, from_first, to_last, _ in zip(
            shape, *arguments.values(), strict=True
        )
    ]
    update = rng.normal(size=part)
    return Case(x=tensor(*shape), update=update, **arguments, target=IOS18)


DRAWN = np.random.default_rng(0)
MATRIX, CUBE = tensor(4, 5), tensor(3, 4, 5)


def gather_nd(x, places, batch_dims):
    if not batch_dims:
        return x[tuple(places.long().movedim(-1, 0))]
    return torch.stack([gather_nd(*pair, 0) for pair in zip(x, places, strict=True)])


UPDATES = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "max": torch.maximum,
    "min": torch.minimum,
    "update": lambda old, new: new,
}


def numbered(data):
    return np.arange(data.size).reshape(data.shape)


def scattered(data, indices, targets, mode, **more):
    """Updates of the elements with these numbers, combined one after the other."""

    def reference(data, indices, updates, *_):
        y = data.flatten().clone()
        for target, new in zip(targets.flatten(), updates.flatten(), strict=True):
            y[target] = UPDATES[mode](y[target], new)
        return y.reshape(data.shape)

    updates = DRAWN.uniform(0.5, 2, targets.shape)
    return Case(reference, data=data, indices=indices, updates=updates, mode=mode, ulps=2, **more)


def scatter(mode, axis):
    places = np.array([2, 0] if mode == "update" else [1, 2, 1, 0], np.int32)
    return scattered(CUBE, places, np.take(numbered(CUBE), places, axis), mode, axis=axis)


def scatter_along_axis(mode):
    rows = np.array([[0, 3, 2], [4, 1, 0], [2, 3, 4], [1, 0, 2]], np.int32)
    rows = rows if mode == "update" else DRAWN.integers(0, 5, (4, 3)).astype(np.int32)
    targets = np.take_along_axis(numbered(MATRIX), rows, 1)
    # value inference ignores the mode
    return scattered(MATRIX, rows, targets, mode, axis=1, folds=mode == "update")


def scatter_nd(mode):
    x, places = tensor(3, 4, 2), np.array([[0, 1], [2, 3], [0, 2 - (mode != "update")]], np.int32)
    return scattered(x, places, numbered(x)[tuple(places.T)], mode)


def one_hot(places, size, axis, on, off):
    return torch.where(places[..., None] == torch.arange(size), on, off).movedim(-1, axis)


REFERENCES = {
    "reshape_like": lambda x, *_: x.reshape(3, 4, 5),
    "flatten2d": lambda x, axis: x.reshape(x.shape[:axis].numel(), -1),
    "concat": concatenated,
    "stack": torch.stack,
    "reverse_sequence": sequence_reversed,
    "sliding_windows": lambda x, a, size, by: x.unfold(a, size, by).movedim(-1, a % 3 + 1),
    "depth_to_space": lambda x, b: unblocked(x, b, b, 1),
    "space_to_depth": lambda x, b: blocks(x, b, b, 1),
    "pixel_shuffle": F.pixel_shuffle,
    "pixel_unshuffle": F.pixel_unshuffle,
    "space_to_batch": lambda x, *_: blocks(F.pad(x, (0, 3, 1, 1)), 2, 3, 0),
    "batch_to_space": lambda x, *_: unblocked(x, 2, 3, 0)[:, :, 1:, :-2],
    "crop": lambda x, *_: x[:, :, 1:4, 3:7],
    "gather_nd": gather_nd,
    "one_hot": one_hot,
    "fill": lambda shape, value: torch.full([*shape], value),
    "fill_like": torch.full_like,
}
# Without folds: value inference raises, or takes negative axes (stack) for another place
CASES = table(
    """
reshape x=(3,4,5) shape=[-1]|[0,-1,0]|[5,-1]|[3,1,4,5]|[0,0,0]|[4,3,0]
reshape_like x=(12,5) ref_tensors=[(3,9),(2,4,5)] begins=[0,1] ends=[1,0]
    end_masks=[False,True] folds=False
flatten2d x=(2,3,4) axis=1|2
flatten2d x=(2,3,4) axis=0 folds=False
expand_dims x=(2,3) axes=[0]|[-1]|[0,2]|[1,-1]
squeeze x=(3,1,4,1) axes=[1]|[-1]|[1,3]
transpose x=(2,3,4,5) perm=[3,0,2,1]|[-1,1,-4,2]
transpose x=(2,3) perm=[1,0]
transpose x=(2,3,1,2,4) perm=[4,2,0,3,1]
concat values=[(2,3,4),(2,5,4)] axis=1|-2
concat values=[(2,3,4),(1,3,4),(2,3,4)] axis=0
concat values=[(2,3,4),(2,3,4),(2,3,4)] axis=0|1|-1 interleave=True folds=False
stack values=[(2,3,4),(2,3,4),(2,3,4)] axis=0|1|2|-1|-3 folds=False
split x=(3,6,4) num_splits=3 axis=1
split x=(3,6,4) split_sizes=[1,3,2] axis=1
split x=(3,6,4) num_splits=2 axis=-1
tile x=(2,3,1) reps=[1,2,3]|[3,1,1]
pad x=(3,4,5,3) pad=[1,2]|[0,2,1,0]|[2,0,1,1,0,2]|[1,0,0,1,2,1,1,2]
    mode='constant'|'reflect'|'replicate' constant_val=1.25
reverse x=(3,2,4) axes=[0]|[-1]|[0,2]
reverse_sequence x=(4,3,5) lengths=int32[0,2,4] seq_axis=0 batch_axis=1 folds=False
reverse_sequence x=(4,3,5) lengths=int32[0,1,3,5] seq_axis=2 batch_axis=0 folds=False
reverse_sequence x=(4,3,5) lengths=int32[0,0,1,2,3] seq_axis=1 batch_axis=2 folds=False
sliding_windows x=(5,6,4) axis=0|1|-1|-3 size=1|3 stride=1|2
depth_to_space x=(2,12,3,2) block_size=2
space_to_depth x=(2,3,4,6) block_size=2
pixel_shuffle x=(2,18,2,3) upscale_factor=3
pixel_unshuffle x=(2,2,6,9) downscale_factor=uint32(3)
space_to_batch x=(2,3,4,6) block_shape=[2,3] paddings=[[1,1],[0,3]] folds=False
batch_to_space x=(12,2,3,2) block_shape=[2,3] crops=[[1,0],[0,2]] folds=False
crop x=(2,3,6,7) crop_height=[1,2] crop_width=[3,0]
slice_by_size x=(4,3,5) begin=[1,0,2] size=[2,-1,2]
slice_by_size x=(4,3,5) begin=[0,-2,-3] size=[-1,1,2]
gather x=(3,4,5) indices=int32(3,2)<3 axis=0|1|-1
gather x=(3,4,5) indices=int32(2,3)<4 axis=-2
gather x=(4,) const:indices=int32(2)
gather x=(3,4,5) indices=int32(3,4,2)<5 axis=2 batch_dims=1|2
gather_along_axis x=(3,4,5) indices=int32(6,4,5)<3 axis=0|-3
gather_along_axis x=(3,4,5) indices=int32(3,6,5)<4 axis=1
gather_along_axis x=(3,4,5) indices=int32(3,4,6)<5 axis=-1
gather_nd x=(3,4,5) indices=int32(2,2,1)<3|int32(2,2,2)<3 batch_dims=0
gather_nd x=(3,4,5) indices=int32(3,2,1)<3|int32(3,2,2)<3 batch_dims=1
argsort x=(4,5) axis=0|-1 ascending=False|True
topk x=(4,5) k=1|3 axis=0|-1 ascending=False|True
non_zero x=float64[[0,1,0,1],[0,0,0,0],[1,1,0,1]]
one_hot indices=int32[[-1,0],[3,4],[2,1]] one_hot_vector_size=4 axis=-1|0|1
    on_value=1.5 off_value=-0.5
shape x=(3,)|(2,3,4)|(1,2,3,1,2)
range_1d end=17 start=2 step=4
range_1d end=-3.0 start=4.0 step=-1.5
fill shape=int32[2,1,3] value=2.5 folds=False
fill_like ref_tensor=(2,3) value=2.5 folds=False
band_part x=(2,4,5) lower=-1|0|1|2 upper=-1|0|2
""",
    REFERENCES,
)
CASES |= {
    "slice_by_index": [slice_by_index(DRAWN) for _ in range(12)],
    "slice_update": [slice_update(DRAWN) for _ in range(12)],
    "scatter": [scatter(mode, k % 3) for k, mode in enumerate(UPDATES)],
    "scatter_along_axis": [scatter_along_axis(mode) for mode in UPDATES],
    "scatter_nd": [scatter_nd(mode) for mode in UPDATES],
}

test_operation = test_of(CASES)
