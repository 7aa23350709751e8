"""Operations that only move values: reshape, transpose, join, split, pad, block and pixel
rearrangements.

    LAYOUT["reshape"].run(x, shape=[0, -1])

Definitions: coremltools 9.0, mil/ops/defs/iOS15/tensor_transformation.py and tensor_operation.py,
and their later versions.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from mlprogram.ops.conv import order_pads
from mlprogram.ops.kernel import Scalars, Tensors, kernel


def reshape(x: Tensor, shape: list[int]) -> Tensor:
    """x in another shape; one -1 takes what is left, 0 copies the size of the axis at the same
    place counted from the end (iOS 17 rule).
    """
    sizes = [
        # Counted from the end, so 0 copies from the same distance to the last axis; 1 where x has
        # none.
        n if n else (x.shape[i - len(shape)] if len(shape) - i <= x.dim() else 1)
        for i, n in enumerate(shape)
    ]
    return x.reshape(sizes)


def reshape_like(
    x: Tensor, ref_tensors: Tensors, begins: Scalars, ends: Scalars, end_masks: Scalars
) -> Tensor:
    """x in the shape joined from slices of the reference tensors' shapes."""
    pieces = zip(ref_tensors, begins, ends, end_masks, strict=True)
    return x.reshape(
        [
            n
            for ref, begin, end, open_end in pieces
            # An open end takes the shape to its last axis.
            for n in ref.shape[begin : None if open_end else end]
        ]
    )


def flatten2d(x: Tensor, axis: int = 1) -> Tensor:
    """[product of the axes before `axis`, product of the rest]."""
    return x.reshape(x.shape[:axis].numel(), x.shape[axis:].numel())


def expand_dims(x: Tensor, axes: list[int]) -> Tensor:
    """Axes of size 1 at these places of the result."""
    # In ascending order each new axis lands at its final place.
    for axis in sorted(a % (x.dim() + len(axes)) for a in axes):
        x = x.unsqueeze(axis)
    return x


def squeeze(x: Tensor, axes: list[int] | None = None) -> Tensor:
    """Without the axes of size 1 (all of them by default); a named axis of another size stays."""
    return x.squeeze() if axes is None else x.squeeze(tuple(axes))


def transpose(x: Tensor, perm: list[int]) -> Tensor:
    """Axes in the order `perm`."""
    return x.permute(perm)


def concat(values: Tensors, axis: int, interleave: bool = False) -> Tensor:
    """Tensors one after the other along `axis`, or element by element in turn; scalars count as
    tensors of one element.
    """
    values = [v.reshape(1) if v.dim() == 0 else v for v in values]
    if not interleave:
        return torch.cat(values, axis)
    axis %= values[0].dim()
    # [..., n, k, ...] for k tensors -> [..., n k, ...]: element by element in turn
    return torch.stack(values, axis + 1).flatten(axis, axis + 1)


def stack(values: Tensors, axis: int) -> Tensor:
    """Tensors along a new axis."""
    return torch.stack(values, axis)


def split(
    x: Tensor, axis: int, num_splits: int | None = None, split_sizes: list[int] | None = None
) -> tuple[Tensor, ...]:
    """Equal parts, or parts of these sizes, along `axis`."""
    if split_sizes is None:
        if num_splits is None:
            raise ValueError("split needs num_splits or split_sizes")
        split_sizes = [x.shape[axis] // num_splits] * num_splits
    return torch.split(x, split_sizes, axis)


def tile(x: Tensor, reps: list[int]) -> Tensor:
    """x repeated reps[i] times along axis i."""
    return x.repeat(reps)


def pad(x: Tensor, pad: list[int], mode: str = "constant", constant_val: float = 0.0) -> Tensor:
    """Padding (before, after) for the last len(pad) / 2 axes: constant, reflect (edge not repeated)
    or replicate, on any axis.
    """
    # [before, after, before, after, ...] -> pairs, first padded axis first
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    if mode == "constant":
        return F.pad(x, order_pads(pairs), value=constant_val)
    # PyTorch reflects certain ranks only, so each axis gathers its own places.
    for axis, (before, after) in zip(range(x.dim() - len(pairs), x.dim()), pairs, strict=True):
        if before or after:
            x = x.index_select(axis, _find_sources(x.shape[axis], before, after, mode))
    return x


def _find_sources(size: int, before: int, after: int, mode: str) -> Tensor:
    """Which place of the axis each place of the padded axis copies."""
    # Places before the axis are negative, those behind it are size and more.
    places = torch.arange(-before, size + after)
    if mode == "replicate":
        return places.clamp(0, size - 1)
    if mode != "reflect":
        raise ValueError(f"pad mode '{mode}' is unknown; one of constant, reflect, replicate")
    # Reflection repeats after a walk there and back; an axis of one place has period 1.
    period = max(2 * (size - 1), 1)
    places = places.remainder(period)
    return torch.where(places < size, places, period - places)


def reverse(x: Tensor, axes: list[int] | None = None) -> Tensor:
    """x backwards along these axes (all by default)."""
    return x.flip(list(range(x.dim())) if axes is None else axes)


def reverse_sequence(x: Tensor, lengths: Tensor, seq_axis: int = 0, batch_axis: int = 0) -> Tensor:
    """For each sample of `batch_axis`, the first lengths[i] elements of `seq_axis` backwards and
    the rest as it is.
    """
    steps = torch.arange(x.shape[seq_axis])
    lengths = lengths.long().unsqueeze(1)
    places = torch.where(steps < lengths, lengths - 1 - steps, steps)  # [batch, steps]
    # laid along their two axes of x, in whichever order these come
    shape = [1] * x.dim()
    shape[batch_axis], shape[seq_axis] = places.shape
    # Its rows go along the batch axis; where that comes second they become columns.
    places = places if batch_axis % x.dim() < seq_axis % x.dim() else places.T
    return torch.take_along_dim(x, places.reshape(shape).expand(x.shape), seq_axis)


def sliding_windows(x: Tensor, axis: int, size: int, stride: int = 1) -> Tensor:
    """Windows along `axis`: [..., windows, size, ...], the new axis right after it."""
    axis %= x.dim()
    # unfold puts the window last; it belongs right behind the axis of windows.
    return x.unfold(axis, size, stride).movedim(-1, axis + 1)


def depth_to_space(x: Tensor, block_size: int) -> Tensor:
    """[N, C b^2, H, W] -> [N, C, H b, W b], block position before channel in the depth axis (as
    TensorFlow).
    """
    n, c, h, w = x.shape
    # [N, C b^2, H, W] -> [N, b, b, C, H, W]
    x = x.reshape(n, block_size, block_size, c // block_size**2, h, w)
    # [N, C, H, b, W, b]: each position of the block beside its own axis
    return x.permute(0, 3, 4, 1, 5, 2).reshape(
        n, c // block_size**2, h * block_size, w * block_size
    )


def space_to_depth(x: Tensor, block_size: int) -> Tensor:
    """[N, C, H, W] -> [N, C b^2, H / b, W / b], the inverse of depth_to_space."""
    n, c, h, w = x.shape
    # [N, C, H / b, b, W / b, b]
    x = x.reshape(n, c, h // block_size, block_size, w // block_size, block_size)
    # [N, b, b, C, H / b, W / b]: the block in front of the channels
    return x.permute(0, 3, 5, 1, 2, 4).reshape(
        n, c * block_size**2, h // block_size, w // block_size
    )


def pixel_shuffle(x: Tensor, upscale_factor: int) -> Tensor:
    """[N, C f^2, H, W] -> [N, C, H f, W f], channel before block position (as
    torch.nn.PixelShuffle).
    """
    return F.pixel_shuffle(x, upscale_factor)


def pixel_unshuffle(x: Tensor, downscale_factor: int) -> Tensor:
    """[N, C, H, W] -> [N, C f^2, H / f, W / f], the inverse of pixel_shuffle."""
    return F.pixel_unshuffle(x, downscale_factor)


def space_to_batch(x: Tensor, block_shape: list[int], paddings: list[list[int]]) -> Tensor:
    """[N, C, H, W], zero-padded -> [N bh bw, C, H' / bh, W' / bw], block position before sample."""
    x = F.pad(x, order_pads([(before, after) for before, after in paddings]))
    n, c, h, w = x.shape
    bh, bw = block_shape
    # [N, C, H' / bh, bh, W' / bw, bw]
    x = x.reshape(n, c, h // bh, bh, w // bw, bw)
    # [bh, bw, N, C, H' / bh, W' / bw], and the first three become the batch
    return x.permute(3, 5, 0, 1, 2, 4).reshape(n * bh * bw, c, h // bh, w // bw)


def batch_to_space(x: Tensor, block_shape: list[int], crops: list[list[int]]) -> Tensor:
    """[N bh bw, C, H, W] -> [N, C, H bh, W bw], cropped; the inverse of space_to_batch."""
    n, c, h, w = x.shape
    bh, bw = block_shape
    x = (
        # [bh, bw, N, C, H, W] -> [N, C, H, bh, W, bw]
        x.reshape(bh, bw, n // (bh * bw), c, h, w)
        .permute(2, 3, 4, 0, 5, 1)
        .reshape(n // (bh * bw), c, h * bh, w * bw)
    )
    return F.pad(x, [-k for k in order_pads([(before, after) for before, after in crops])])


def crop(x: Tensor, crop_height: list[int], crop_width: list[int]) -> Tensor:
    """Without the first and last rows and columns named."""
    # F.pad counts from the last axis, so the width comes first.
    return F.pad(x, [-k for k in (*crop_width, *crop_height)])


LAYOUT = MappingProxyType(
    {
        "batch_to_space": kernel(batch_to_space, half=True),
        "concat": kernel(concat, half=True),
        "crop": kernel(crop, half=True),
        "depth_to_space": kernel(depth_to_space, half=True),
        "expand_dims": kernel(expand_dims, half=True),
        "flatten2d": kernel(flatten2d, half=True),
        "pad": kernel(pad, half=True),
        "pixel_shuffle": kernel(pixel_shuffle, half=True),
        "pixel_unshuffle": kernel(pixel_unshuffle, half=True),
        "reshape": kernel(reshape, half=True),
        "reshape_like": kernel(reshape_like, half=True),
        "reverse": kernel(reverse, half=True),
        "reverse_sequence": kernel(reverse_sequence, half=True),
        "sliding_windows": kernel(sliding_windows, half=True),
        "space_to_batch": kernel(space_to_batch, half=True),
        "space_to_depth": kernel(space_to_depth, half=True),
        "split": kernel(split, half=True),
        "squeeze": kernel(squeeze, half=True),
        "stack": kernel(stack, half=True),
        "tile": kernel(tile, half=True),
        "transpose": kernel(transpose, half=True),
    }
)


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
    index, reversals = _make_index(x.shape, begin, end, stride, begin_mask, end_mask, squeeze_mask)
    y = x[index]
    return y.flip(reversals) if reversals else y


def _make_index(
    shape: torch.Size, begin: list[int], end: list[int], *options: Any
) -> tuple[tuple[int | slice, ...], list[int]]:
    """An index of positive strides, and the axes of its result that run backwards. `options`: the
    stride, then the three masks.
    """
    usual = ([1] * len(shape), *[[False] * len(shape)] * 3)
    plan: Any = zip(
        begin,
        end,
        # An option that is missing or empty has its usual value on every axis.
        *(option or plain for option, plain in zip(options, usual, strict=True)),
        strict=True,
    )
    index: list[int | slice] = []
    reversals = []
    for axis, (first, last, step, open_begin, open_end, squeezed) in enumerate(plan):
        # An integer takes one place and drops the axis; `end` means nothing there.
        if squeezed:
            index.append(0 if open_begin else first)
            continue
        # slice.indices clamps the ends to the axis, as the definition does.
        places = range(
            *slice(None if open_begin else first, None if open_end else last, step).indices(
                shape[axis]
            )
        )
        # PyTorch knows no negative stride: the same places are read forwards, and flipped later
        if step < 0:
            # Squeezed axes are gone from the result, so only slices before this one count.
            reversals.append(sum(not isinstance(i, int) for i in index))
            places = places[::-1]
        # An empty range may have ends that a slice would read otherwise, hence slice(0, 0).
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
    index, reversals = _make_index(x.shape, begin, end, stride, begin_mask, end_mask, squeeze_mask)
    y = x.clone()
    target = y[index]  # a view
    # The update may still have the axes that squeeze_mask drops.
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
