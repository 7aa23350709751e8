"""Weights to stored forms: integers with scales, or indices into tables. These functions draw no
random number and know nothing of layers.

    form = make_form(weight, IntegerWeights(bits=8, block=32))
    form.to_array()                     # what a package computes with
    make_form(weight, OwnGrid())          # None where the weight stands on no grid of 8 bits

A weight has the type that a package computes in, float16 or float32. Its rows, the output channels,
are `axis` 0, and 1 of a transposed convolution's [I, O, 1, k].
"""

import numpy as np
from torch import Tensor, nn

from kokoro_ane.quantize.methods import (
    IntegerWeights,
    OwnGrid,
    PaletteWeights,
    Weights,
)
from kokoro_ane.quantize.palettes import Fit, find_row_palettes
from kokoro_ane.quantize.stored_forms import Integers, Palette, StoredWeight

MOST = 127
# How far a value may be off its grid, as a share of the row's largest weight: as much as float32
# rounds a product and a norm. A step of the grid is 4e-3 of it.
_NEAR = 1e-6
_TRIES = 4  # scales that are tried on either side, each one float32 further
_BITS = (4, 6, 8)  # of an index


def make_form(
    weight: np.ndarray, how: Weights, fit: Fit | None = None, axis: int = 0, label: str = ""
) -> StoredWeight | None:
    """The weight by that scheme; None where OwnGrid finds no grid. What should be fitted is fitted
    only where there is a `fit`.
    """
    width = weight.shape[1 - axis]
    form: StoredWeight | None
    match how:
        case IntegerWeights():
            nearest = quantize_symmetric(weight, how.bits, how.choose_block(width), axis)
            form = fit.round_integers(nearest, weight) if how.gptq and fit else nearest
        case PaletteWeights() if fit is not None:
            form = fit(weight, how)
        case PaletteWeights():
            # Tables are made for rows on axis 0; the indices go back to the weight's axes.
            rows = find_row_palettes(weight.swapaxes(0, axis), how)
            form = rows.with_index(rows.index.swapaxes(0, axis), axis)
        case OwnGrid():
            # Few different values make a table, many may still lie on a grid.
            form = find_own_values(weight) or find_own_rows(weight)
    if form is not None:
        form.label = label
    return form


def quantize_rows(layer: nn.Module, label: str = "") -> Integers:
    """int8 rows of a layer's weight, in float16. The rows of a transposed convolution are axis
    1.
    """
    weight = layer.weight
    assert isinstance(weight, Tensor)
    axis = int(getattr(layer, "transposed", False))
    form = quantize_symmetric(weight.detach().half().numpy(), 8, weight.shape[1 - axis], axis)
    form.label = label
    return form


def quantize_symmetric(weight: np.ndarray, bits: int, block: int, axis: int = 0) -> Integers:
    """Integers around 0 with one scale for each `block` inputs of a row: |q| <= 2^(bits - 1) - 1.
    The scale is rounded to the weight's type first, the quotient once.
    """
    rows = weight.swapaxes(0, axis)  # [O, I, ...]
    most = 2 ** (bits - 1) - 1
    # [O, blocks, block taps]
    split = rows.reshape(len(rows), rows.shape[1] // block, -1).astype(np.float64)
    peaks = np.abs(split).max(axis=2)
    scale = np.where(peaks > 0, peaks / most, 1.0).astype(weight.dtype)  # [O, blocks]
    # Clipped, because a scale that was rounded down would let the peak pass the most.
    whole = np.clip(np.rint(split / scale[:, :, None].astype(np.float64)), -most, most)
    values = whole.astype(np.int8).reshape(rows.shape).swapaxes(0, axis)
    # [O, blocks, 1, ...], with the axes of the weight
    scale = scale.reshape(*scale.shape, *[1] * (weight.ndim - 2)).swapaxes(0, axis)
    return Integers(values, scale, bits=bits)


def quantize_in_parts(weight: np.ndarray) -> Integers:
    """16 bits as twice 8: int8 rows [O, I, ...], and below them int8 rows of what they leave. Who
    multiplies by [2 O, I, ...] adds the two halves of the result.
    """
    first = quantize_symmetric(weight, 8, weight.shape[1])
    rest = quantize_symmetric(weight - first().numpy(), 8, weight.shape[1])
    values, scale = (
        np.concatenate([part.get_buffer(name).numpy() for part in (first, rest)])
        for name in ("values", "scale")
    )
    return Integers(values, scale)


def find_own_values(weight: np.ndarray) -> Palette | None:
    """The weight's own values as its table, equal to the bit; None where there are more than 256 of
    them.
    """
    values, index = np.unique(weight, return_inverse=True)
    bits = next((bits for bits in _BITS if len(values) <= 2**bits), None)
    if bits is None:
        return None
    # copies of the last value fill the table up to 2^bits
    table = np.concatenate([values, np.full(2**bits - len(values), values[-1])])  # [2^bits]
    return Palette(index.reshape(weight.shape).astype(np.uint8), table[None])


def find_own_rows(weight: np.ndarray) -> Integers | None:
    """An 8-bit grid for every row, equal within float32's rounding; None where a row has none, and
    for fp16, which cannot hold the scale.
    """
    if weight.dtype != np.float32:
        return None
    grids = [_find_own_row(row) for row in weight.reshape(len(weight), -1)]
    rows = [row for row in grids if row is not None]
    if len(rows) < len(grids):
        return None
    values, scale = (np.stack(part) for part in zip(*rows, strict=True))
    return Integers(values.reshape(weight.shape), scale.reshape(-1, *[1] * (weight.ndim - 1)))


def _find_own_row(row: np.ndarray) -> tuple[np.ndarray, np.float32] | None:
    """The values int8 [n] and the scale of one row [n]; None where it has no grid around 0."""
    levels = np.unique(row)
    near = _NEAR * float(np.abs(levels).max())
    gaps = np.diff(levels.astype(np.float64))
    # A smaller gap lies between two roundings of one value.
    steps = gaps[gaps > 4 * near]
    # no gap: all weights are alike, and one level suffices
    if not len(steps):
        level = row[0] if len(levels) and levels[0] else np.float32(1)
        return np.rint(row / level).astype(np.int8), np.float32(level)
    scale = float(steps.min())
    # the smallest gap gives the step roughly, a fit through all values gives it exactly
    for _ in range(3):
        whole = np.rint(levels / scale)
        scale = float((whole * levels).sum() / (whole**2).sum())
    whole = np.rint(levels / scale)
    if np.abs(whole).max() > MOST or np.abs(whole * scale - levels).max() > near:
        return None
    # of the neighbouring float32 scales, the one by which most weights are equal to the bit
    nearest = np.float32(scale) + np.arange(-_TRIES, _TRIES + 1) * np.spacing(np.float32(scale))
    equal = [
        int((whole.astype(np.float32) * np.float32(trial) == levels).sum()) for trial in nearest
    ]
    best = np.float32(nearest[int(np.argmax(equal))])
    # A neighbour of the scale is too near to move any integer.
    return np.rint(row / scale).astype(np.int8), best
