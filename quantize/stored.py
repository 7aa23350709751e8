"""One weight as a package stores it: integers with scales, or indices into tables. OwnGrid is the
form that loses nothing, where a weight has one.

    stored = stored_as(weight, BlockWeights(bits=8, block=32))
    stored.decoded()                    # what the package computes with
    stored_as(weight, OwnGrid())        # None where the weight stands on no grid of 8 bits

Axis 0 of a weight is its output channel, called a row. A convolution's weight is [O, I, 1, k], a
linear layer's or an LSTM's [O, I].
"""

from dataclasses import dataclass, replace

import numpy as np

from kokoro_ane.quantize.methods import (
    BlockWeights,
    LinearWeights,
    OwnGrid,
    PaletteWeights,
    Weights,
)
from kokoro_ane.quantize.palettes import Fit, row_palettes

LEVELS = 256
INT8 = 127
# How far a value may be off its grid, as a share of the row's largest weight: as much as float32
# rounds a product and a norm. A step of the grid is 4e-3 of it.
_NEAR = 1e-6
_TRIES = 4  # scales that are tried on either side, each one float32 further
_BITS = (4, 6, 8)  # of an index


@dataclass(frozen=True, eq=False)
class Integers:
    """w = scale (values - offset). `values` are [O, I, ...] int8, or uint8 where there is an
    offset; `scale` and `offset` are [O, I / block, 1 ...].
    """

    values: np.ndarray
    scale: np.ndarray
    offset: np.ndarray | None = None

    def decoded(self) -> np.ndarray:
        """The weight [O, I, ...] in the scale's type."""
        block = [
            size // count for size, count in zip(self.values.shape, self.scale.shape, strict=True)
        ]
        whole = self.values.astype(np.int32) - (
            0 if self.offset is None else _spread(self.offset.astype(np.int32), block)
        )
        return whole.astype(self.scale.dtype) * _spread(self.scale, block)


@dataclass(frozen=True, eq=False)
class Table:
    """w = table[group][index]. `index` is [O, I, ...] uint8, `table` is [groups, 2^bits]; a group
    is O / groups rows along `axis`.
    """

    index: np.ndarray
    table: np.ndarray
    axis: int = 0  # of the output channels: 1 of a transposed convolution's [I, O, 1, k]

    def decoded(self) -> np.ndarray:
        """The weight in the shape of the index and the table's type."""
        first = self.index.swapaxes(0, self.axis)  # [O, ...]
        rows = first.reshape(len(self.table), -1)  # [groups, O ... / groups]
        return (
            np.take_along_axis(self.table, rows.astype(np.int64), axis=1)
            .reshape(first.shape)
            .swapaxes(0, self.axis)
        )


def palette_table(
    weight: np.ndarray, how: PaletteWeights, transposed: bool = False, fit: Fit | None = None
) -> Table:
    """The table of a convolution's weight [O, I, 1, k], or [I, O, 1, k] of a transposed one. With
    how.gptq the indices are fitted to the layer's inputs; otherwise each is the nearest one.
    """
    if how.gptq:
        if fit is None:
            raise TypeError(f"{how} needs what the layer reads")
        tables, index = fit(weight, how)
        return Table(index, tables, int(transposed))
    tables, index = row_palettes(weight.swapaxes(0, int(transposed)), how)
    return Table(index.swapaxes(0, int(transposed)), tables, int(transposed))


Stored = Integers | Table


def stored_as(weight: np.ndarray, how: Weights, fit: Fit | None = None) -> Stored | None:
    """The weight by that scheme; None where OwnGrid finds no grid. A palette that should be fitted
    is fitted only where there is a `fit`.
    """
    match how:
        case LinearWeights():
            return _blocks(weight, weight.shape[1])
        case BlockWeights():
            return _blocks(weight, how.block_of(weight.shape[1]) or weight.shape[1])
        case PaletteWeights():
            return palette_table(weight, replace(how, gptq=how.gptq and fit is not None), fit=fit)
        case OwnGrid():
            return own_values(weight) or own_rows(weight)


def _blocks(weight: np.ndarray, block: int) -> Integers:
    """Symmetric int8 with one scale for each `block` inputs of a row."""
    split = weight.reshape(len(weight), weight.shape[1] // block, -1)  # [O, blocks, block k]
    peaks = np.abs(split).max(axis=2).astype(np.float64)
    scale = np.where(peaks > 0, peaks / INT8, 1.0).astype(weight.dtype)  # [O, blocks]
    values = np.clip(np.rint(split / scale[:, :, None].astype(np.float64)), -INT8, INT8).astype(
        np.int8
    )
    return Integers(
        values.reshape(weight.shape), scale.reshape(*scale.shape, *[1] * (weight.ndim - 2))
    )


def own_values(weight: np.ndarray) -> Table | None:
    """The weight's own values as its table, equal to the bit; None where there are more than 256 of
    them.
    """
    values, index = np.unique(weight, return_inverse=True)
    bits = next((bits for bits in _BITS if len(values) <= 2**bits), None)
    if bits is None:
        return None
    # copies of the last value fill the table up to 2^bits
    table = np.concatenate([values, np.full(2**bits - len(values), values[-1])])  # [2^bits]
    return Table(index.reshape(weight.shape).astype(np.uint8), table[None])


def own_rows(weight: np.ndarray) -> Integers | None:
    """An 8-bit grid for every row, equal within float32's rounding; None where a row has none, and
    for fp16, which cannot hold the scale.
    """
    if weight.dtype != np.float32:
        return None
    grids = [_own_row(row) for row in weight.reshape(len(weight), -1)]
    rows = [row for row in grids if row is not None]
    if len(rows) < len(grids):
        return None
    tail = [1] * (weight.ndim - 1)
    scale, offset = (
        np.array(part).reshape(-1, *tail)
        for part in zip(*((scale, offset) for _, scale, offset in rows), strict=True)
    )
    return Integers(
        np.stack([values for values, _, _ in rows]).reshape(weight.shape), scale, offset
    )


def _own_row(row: np.ndarray) -> tuple[np.ndarray, np.float32, np.uint8] | None:
    """The values uint8 [n], scale and offset of one row [n]; None where it has no grid."""
    levels = np.unique(row)
    near = _NEAR * float(np.abs(levels).max())
    gaps = np.diff(levels.astype(np.float64))
    steps = gaps[gaps > 4 * near]
    # no gap: all weights are alike, and one level suffices
    if not len(steps):
        level = row[0] if len(levels) and levels[0] else np.float32(1)
        return np.rint(row / level).astype(np.uint8), np.float32(level), np.uint8(0)
    scale = float(steps.min())
    # the smallest gap gives the step roughly, a fit through all values gives it exactly
    for _ in range(3):
        whole = np.rint(levels / scale)
        scale = float((whole * levels).sum() / (whole**2).sum())
    whole = np.rint(levels / scale)
    low = min(int(whole.min()), 0)
    if max(int(whole.max()), 0) - low >= LEVELS or np.abs(whole * scale - levels).max() > near:
        return None
    # of the neighbouring float32 scales, the one by which most weights are equal to the bit
    nearest = np.float32(scale) + np.arange(-_TRIES, _TRIES + 1) * np.spacing(np.float32(scale))
    equal = [
        int((whole.astype(np.float32) * np.float32(trial) == levels).sum()) for trial in nearest
    ]
    best = np.float32(nearest[int(np.argmax(equal))])
    return (np.rint(row / scale) - low).astype(np.uint8), best, np.uint8(-low)


def _spread(values: np.ndarray, block: list[int]) -> np.ndarray:
    """Each value repeated `block` times along each axis."""
    for axis, count in enumerate(block):
        values = np.repeat(values, count, axis=axis)
    return values
