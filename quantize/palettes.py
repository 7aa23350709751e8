"""The palette of a tensor: by k-means in one dimension, or fitted to what the layer reads (GPTQ,
arXiv 2210.17323), as integers may be too. Neither draws a random number.

    # weight is close to table[index]
    table, index = find_palette(weight, bits=4)
    # four rows share a table
    form = find_row_palettes(weight, PaletteWeights(4, rows=4))
    # the layer's product is close to the uncompressed one
    form = Fit(Unfolded.from_layer(layer), moments)(weight, PaletteWeights(4))

In one dimension a cluster is an interval, so sums come from running totals and borders from a
binary search. That takes seconds where coremltools' own k-means (scikit-learn, seeded) took two
minutes for a small vocoder at 8 bits. A fit rounds one input's weights after the other and carries
each error to the inputs that are not yet rounded, by the second moments of what the layer reads.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core import Checkpoint, Conv, ConvTranspose
from kokoro_ane.quantize.methods import PaletteWeights
from kokoro_ane.quantize.stored_forms import Integers, Palette

ROUNDS = 60  # of Lloyd's iteration between two moves
_BINS = 1024  # of the histogram that the first guess is made from
_TINY = 1e-9  # of a mean weight: a cell with less mass is empty
# This share of the mean power is added to every input's. With 0.01 the tuning sentences fit better
# and others worse, with 1 both fit worse.
DAMPING = 0.1
MOST_COLUMNS = 1500  # of a sentence, evenly spaced
INT8 = 127
STEP = 128  # columns that are rounded before their errors reach those beyond
ROWS_AT_ONCE = 32  # outputs that are rounded before their errors reach the others


@dataclass(frozen=True, eq=False)
class Sorted:
    """Weights in rising order, the importance of each, and running totals, so that a sum over an
    interval takes two look-ups.
    """

    values: np.ndarray
    importance: np.ndarray
    masses: np.ndarray
    sums: np.ndarray
    squares: np.ndarray

    @classmethod
    def from_weight(cls, weight: np.ndarray, importance: np.ndarray | None = None) -> "Sorted":
        """Sort in float64. `importance` has the weight's shape and values of 0 or more; None means
        that all weights count alike.
        """
        importance = np.ones(weight.shape) if importance is None else importance
        values = weight.reshape(-1).astype(np.float64)
        order = np.argsort(values, kind="stable")
        counted = importance.reshape(-1)[order] / max(float(importance.mean()), _TINY)
        values = values[order]
        # A zero goes first: the sum over [a, b) is then totals[b] - totals[a].
        totals = (
            np.concatenate([[0.0], np.cumsum(counted * term)]) for term in (1.0, values, values**2)
        )
        return cls(values, counted, *totals)

    def compute_cells(self, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mass, mean and summed squared error about the mean of each centre's interval. The mean of
        an empty one is the centre.
        """
        # A value belongs to the nearest centre, so cells end half-way between two.
        borders = np.searchsorted(self.values, (centres[1:] + centres[:-1]) / 2)
        edges = np.concatenate([[0], borders, [self.values.size]])
        masses = np.diff(self.masses[edges])
        means = np.where(
            masses > _TINY, np.diff(self.sums[edges]) / np.maximum(masses, _TINY), centres
        )
        # Rounding may leave the difference a little below zero.
        return masses, means, np.maximum(np.diff(self.squares[edges]) - masses * means**2, 0.0)


def find_palette(
    weight: np.ndarray, bits: int, importance: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The table, 2^bits rising values of the weight's type, and the index of the nearest one for
    every weight, uint8 and flattened.

    `importance`, of the weight's shape, says how much the squared error of each weight counts.
    """
    data = Sorted.from_weight(weight, importance)
    count = 2**bits
    centres, error = _settle(data, _make_first_guess(data, count))
    # Lloyd's iteration ends in a local optimum. Moving a few centres at once to where the error is
    # leaves it; where that no longer helps, fewer are moved.
    moves = count // 4
    while moves:
        trial, trial_error = _settle(data, _move(data, centres, moves))
        # A gain below a ten-thousandth does not pay for the next move.
        if trial_error < error * (1 - 1e-4):
            centres, error = trial, trial_error
        else:
            moves //= 2
    table = np.sort(centres).astype(weight.dtype)
    return table, find_nearest(table, weight)


def find_row_palettes(
    weight: np.ndarray, how: PaletteWeights, importance: np.ndarray | None = None
) -> Palette:
    """Tables for groups of rows, which are axis 0, and the index of every weight in its group's
    table.
    """
    groups = len(weight) // how.choose_rows(len(weight), weight[0].size, weight.itemsize)
    importance = np.ones(weight.shape) if importance is None else importance
    parts, counted = np.split(weight, groups), np.split(importance, groups)
    # Each group of rows has a k-means of its own.
    made = [find_palette(part, how.bits, some) for part, some in zip(parts, counted, strict=True)]
    tables = np.stack([table for table, _ in made])
    if not how.int8_entries:
        return Palette(np.concatenate([index for _, index in made]).reshape(weight.shape), tables)
    peaks = np.abs(tables.astype(np.float64)).max(axis=1, keepdims=True)
    scale = np.where(peaks > 0, peaks / INT8, 1.0).astype(weight.dtype)  # [groups, 1]
    entries = np.rint(tables / scale.astype(np.float64)).astype(np.int8)
    # the nearest of the rounded entries may be another one
    indices = [
        find_nearest((row * step).astype(weight.dtype), part)
        for row, step, part in zip(entries, scale, parts, strict=True)
    ]
    return Palette(np.concatenate(indices).reshape(weight.shape), entries, scale=scale)


def find_nearest(table: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The index of the nearest value of a rising table for every weight, uint8 and flattened."""
    # In float64, because the middle of two fp16 values need not be one.
    middle = (table[1:].astype(np.float64) + table[:-1]) / 2
    return np.searchsorted(middle, weight.reshape(-1).astype(np.float64)).astype(np.uint8)


def _make_first_guess(data: Sorted, count: int) -> np.ndarray:
    """Values as dense as the cube root of the weights' density, which gives the least squared error
    when there are many values (Panter and Dite 1951).
    """
    heights, edges = np.histogram(data.values, bins=_BINS, weights=data.importance)
    mass = np.cumsum(np.cbrt(heights.astype(np.float64)))
    # the middle of each of `count` equal shares of the mass
    quantiles = (np.arange(count) + 0.5) / count * mass[-1]
    return np.interp(quantiles, np.concatenate([[0.0], mass]), edges)


def _settle(data: Sorted, centres: np.ndarray) -> tuple[np.ndarray, float]:
    """The centres and their squared error after Lloyd's iteration, which ends when nothing moves or
    after ROUNDS.
    """
    for _ in range(ROUNDS):
        _, means, _ = data.compute_cells(centres)
        if np.array_equal(means, centres):
            break
        # Cells are in order, and their means are too, but for rounding.
        centres = np.sort(means)
    return centres, float(data.compute_cells(centres)[2].sum())


def _move(data: Sorted, centres: np.ndarray, moves: int) -> np.ndarray:
    """The centres after the `moves` least useful ones were put beside those of the worst cells."""
    masses, means, errors = data.compute_cells(centres)
    gaps = np.diff(means)
    # the error that joining two neighbouring cells adds
    merged = masses[1:] * masses[:-1] / np.maximum(masses[1:] + masses[:-1], _TINY) * gaps**2
    # The right one of a pair leaves, and its cell falls to the left one.
    leave = np.argsort(merged, kind="stable")[:moves] + 1
    worst = np.argsort(-errors, kind="stable")[:moves]
    # One deviation beside its mean, a new centre splits the worst cell.
    spread = np.sqrt(errors[worst] / np.maximum(masses[worst], _TINY))
    return np.sort(np.concatenate([np.delete(means, leave), (means[worst] + spread)]))


@dataclass(frozen=True)
class Unfolded:
    """A convolution as one matrix product. A transposed one makes `stride` outputs from the same
    inputs, and each of them is a row of the matrix.
    """

    kernel: int
    stride: int
    dilation: int
    padding: int
    transposed: bool

    @classmethod
    def from_layer(cls, layer: nn.Module) -> "Unfolded":
        """The form of an ungrouped Conv or ConvTranspose; all else is one product."""
        if not isinstance(layer, Conv | ConvTranspose):
            return cls(kernel=1, stride=1, dilation=1, padding=0, transposed=False)
        assert layer.groups == 1
        kernel = layer.kernel_size[1]
        stride = layer.stride[1]
        dilation = layer.dilation[1]
        return cls(
            kernel, stride, dilation, int(layer.padding[1]), isinstance(layer, ConvTranspose)
        )

    @property
    def taps(self) -> int:
        """How many columns of x make one output."""
        return -(-self.kernel // self.stride) if self.transposed else self.kernel

    def gather_inputs(self, x: Tensor) -> Tensor:
        """x [1, I, 1, S] -> [n, I taps]: the inputs of n evenly spaced outputs, at most
        MOST_COLUMNS.
        """
        # The first outputs of a transposed kernel read columns that lie before x.
        margin = self.taps - 1 if self.transposed else self.padding
        padded = F.pad(x[0, :, 0], (margin, margin))  # [I, S']
        # a transposed kernel's taps run backwards over the inputs
        step, hop = (-1, 1) if self.transposed else (self.dilation, self.stride)
        reach = (self.taps - 1) * abs(step)
        count = (padded.shape[1] - reach - 1) // hop + 1
        starts = torch.linspace(0, count - 1, min(count, MOST_COLUMNS)).long() * hop + (
            reach if self.transposed else 0
        )
        # [n, I taps]
        return (
            torch.stack([padded[:, starts + tap * step] for tap in range(self.taps)], dim=1)
            .flatten(0, 1)
            .T
        )

    def matrix(self, weight: Tensor) -> Tensor:
        """Weight [O, I, 1, k] -> [O, I taps]; of a transposed one [I, O, 1, k] -> [O stride, I
        taps].
        """
        if not self.transposed:
            return weight.flatten(1)  # [O, I k]
        inner, out = weight.shape[:2]
        # [I, O, taps stride]
        whole = F.pad(weight[:, :, 0], (0, self.taps * self.stride - self.kernel))
        # [I, O, taps, stride], then [O stride, I taps]
        return (
            whole.view(inner, out, self.taps, self.stride)
            .permute(1, 3, 0, 2)
            .reshape(out * self.stride, -1)
        )

    def weight(self, matrix: Tensor, like: Tensor) -> Tensor:
        """The inverse of `matrix`, in the shape of `like`."""
        if not self.transposed:
            return matrix.view_as(like)
        inner, out = like.shape[:2]
        # [I, O, taps, stride]
        whole = matrix.view(out, self.stride, inner, self.taps).permute(2, 0, 3, 1)
        # The taps that were padded on are cut off.
        return whole.reshape(inner, out, -1)[..., : self.kernel].unsqueeze(2)


@torch.no_grad()
def round_matrix(
    matrix: Tensor, values: Tensor, moments: Tensor, outputs: Tensor | None = None
) -> Tensor:
    """The index into a row's values [O, 2^bits] for every weight of `matrix` [O, I], such that the
    product with inputs of these moments [I, I] changes little; with `outputs` [O, O], the moments
    of the outputs' slopes, such that what is made of the product changes little (two-sided, as in
    arXiv 2505.22988).
    """
    order, carry = _factor_moments(moments)
    if outputs is None:
        index = _round_columns(matrix[:, order], values, carry)
    else:
        rows, spread = _factor_moments(outputs)
        left, tables = matrix[rows][:, order], values[rows]
        index = torch.zeros(left.shape, dtype=torch.long)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            block = slice(start, min(start + ROWS_AT_ONCE, len(rows)))
            index[block] = _round_columns(left[block], tables[block], carry)
            errors = left[block] - tables[block].gather(1, index[block])
            # The outputs that are not yet rounded take over what they can offset of the errors.
            shares = torch.linalg.solve_triangular(spread[block, block].T, errors, upper=False)
            left[block.stop :] -= spread[block, block.stop :].T @ shares
        index = index[torch.argsort(rows)]
    # Back from the order of strength to the layer's own.
    return index[:, torch.argsort(order)]


def _factor_moments(moments: Tensor) -> tuple[Tensor, Tensor]:
    """The order of strength, and the upper Cholesky factor of the inverse in that order: how the
    error of one input, or output, spreads to those after it.
    """
    # strong ones first: the errors of weak ones, which nothing can correct, cost least
    order = torch.argsort(moments.diagonal(), descending=True, stable=True)
    ordered = moments[order][:, order]
    # damping: an input that is always zero has that alone
    power = ordered.diagonal().mean().clamp(min=1e-12)
    inverse = torch.cholesky_inverse(
        torch.linalg.cholesky(ordered + torch.eye(len(order)) * DAMPING * power)
    )
    return order, torch.linalg.cholesky(inverse, upper=True)


def _round_columns(matrix: Tensor, values: Tensor, carry: Tensor) -> Tensor:
    """The indices [O, I] of rows whose columns are rounded one after the other. NumPy, because a
    call for a column of 32 weights takes PyTorch three times as long.
    """
    left = matrix.clone()
    tables, spread = values.numpy(), carry.numpy()
    # [O, 2^bits - 1], half-way between the values of a row's table
    borders = (tables[:, 1:] + tables[:, :-1]) / 2
    index = np.zeros(left.shape, np.int64)
    rows = np.arange(len(left))
    for start in range(0, left.shape[1], STEP):
        stop = min(start + STEP, left.shape[1])
        # columns as rows, which lie in one piece: [STEP, O]
        strip = left[:, start:stop].T.contiguous().numpy()
        shares = np.ascontiguousarray(spread[start:stop, start:stop])
        errors = np.empty_like(strip)
        for place, column in enumerate(strip):
            nearest = (borders < column[:, None]).sum(axis=1)
            index[:, start + place] = nearest
            errors[place] = (column - tables[rows, nearest]) / shares[place, place]
            # The inputs of this strip that are not yet rounded take the error over.
            strip[place:] -= shares[place, place:, None] * errors[place]
        # All later inputs take the strip's errors in one product.
        left[:, stop:] -= torch.from_numpy(errors).T @ carry[start:stop, stop:]
    return torch.from_numpy(index)


@dataclass(frozen=True, eq=False)
class Fit:
    """A convolution, the moments [I taps, I taps] of its inputs, and those of its outputs' slopes
    [O, O], where they are known.
    """

    unfolded: Unfolded
    moments: Tensor
    outputs: Tensor | None = None

    def __call__(self, weight: np.ndarray, how: PaletteWeights) -> Palette:
        """Tables and indices as of find_row_palettes, fitted to the moments. The rows of a
        transposed convolution are axis 1.
        """
        unfolded = self.unfolded
        exact = torch.from_numpy(weight.astype(np.float32))
        matrix = unfolded.matrix(exact)
        # the power of the input that each weight multiplies: how much the weight's error counts
        power = unfolded.weight(self.moments.diagonal().expand_as(matrix), exact).numpy()
        rows, importance = (
            array.swapaxes(0, 1) if unfolded.transposed else array for array in (weight, power)
        )
        # K-means makes the tables; the moments choose among their values.
        chosen = find_row_palettes(rows, how, importance)
        index = self._round(exact, chosen.unpack_entries())
        return chosen.with_index(index.to(torch.uint8), axis=int(unfolded.transposed))

    def round_integers(self, nearest: Integers, weight: np.ndarray) -> Integers:
        """Integers of the same scales, one for each output channel, fitted to the moments."""
        scale = nearest.scale
        most = 2 ** (nearest.bits - 1) - 1
        # every value that a row may have, as a package unpacks it: [O, 2 most + 1]
        whole = torch.arange(-most, most + 1)
        values = (scale.float().flatten()[:, None] * whole).to(scale.dtype).float()
        index = self._round(torch.from_numpy(weight.astype(np.float32)), values)
        chosen = (index - most).to(torch.int8)
        return Integers(chosen.numpy(), scale.numpy(), nearest.label, nearest.bits)

    def _round(self, weight: Tensor, tables: Tensor) -> Tensor:
        """The index into its row's table, in the weight's shape. tables [groups, n]: each serves as
        many rows as another.
        """
        matrix = self.unfolded.matrix(weight)
        values = tables.repeat_interleave(len(matrix) // len(tables), dim=0)  # [O, n]
        rounded = round_matrix(matrix, values, self.moments, self.outputs)
        return self.unfolded.weight(rounded, weight)


def compute_style_moments(checkpoint: Checkpoint) -> Tensor:
    """The mean of s s^T, [128, 128], over the vocoder's half of every row of every voice."""
    # [rows of all voices, 128]
    rows = torch.cat(
        [
            checkpoint.blend(voice)[:, 0, : checkpoint.config.style_dim]
            for voice in checkpoint.voices
        ]
    )
    return rows.T @ rows / len(rows)
