"""k-means in one dimension: the palette of a tensor, by Lloyd's iteration on sorted weights. No random number, no threads.

    table, index = palette(weight, bits=4)  # weight is close to table[index]

coremltools' own k-means (scikit-learn, seeded) took two minutes for the demo vocoder at 8 bits, this takes seconds: in one dimension a
cluster is an interval, so sums come from running totals and borders from a binary search.
"""

from dataclasses import dataclass

import numpy as np

ROUNDS = 60  # of Lloyd's iteration between two moves
_BINS = 1024
_TINY = 1e-9  # of a mean weight: less is an empty cell


@dataclass(frozen=True, eq=False)
class Sorted:
    """Weights in rising order, the importance of each, and running totals: sums over an interval are two look-ups."""

    values: np.ndarray
    importance: np.ndarray
    masses: np.ndarray
    sums: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, weight: np.ndarray, importance: np.ndarray | None = None) -> "Sorted":
        """Sort in float64. `importance` of the weight's shape, 0 or more; None: all alike."""
        values = weight.reshape(-1).astype(np.float64)
        order = np.argsort(values, kind="stable")
        counted = np.ones(values.size) if importance is None else importance.reshape(-1)[order] / max(float(importance.mean()), _TINY)
        values = values[order]
        totals = (np.concatenate([[0.0], np.cumsum(counted * term)]) for term in (1.0, values, values**2))
        return cls(values, counted, *totals)

    def cells(self, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mass, mean (the centre itself where empty) and summed squared error about the mean of each centre's interval."""
        borders = np.searchsorted(self.values, (centres[1:] + centres[:-1]) / 2)
        edges = np.concatenate([[0], borders, [self.values.size]])
        masses = np.diff(self.masses[edges])
        means = np.where(masses > _TINY, np.diff(self.sums[edges]) / np.maximum(masses, _TINY), centres)
        return masses, means, np.maximum(np.diff(self.squares[edges]) - masses * means**2, 0.0)


def palette(weight: np.ndarray, bits: int, importance: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """2^bits values of the weight's type, rising, and for every weight (flattened) the index of the nearest, uint8.

    `importance` [weight's shape]: how much the squared error of each weight counts.
    """
    data, count = Sorted.of(weight, importance), 2**bits
    centres, error = _settled(data, _first_guess(data, count))
    moves = count // 4
    while moves:
        trial, trial_error = _settled(data, _moved(data, centres, moves))
        if trial_error < error * (1 - 1e-4):
            centres, error = trial, trial_error
        else:
            moves //= 2
    table = np.sort(centres).astype(weight.dtype)
    middle = (table[1:].astype(np.float64) + table[:-1]) / 2
    return table, np.searchsorted(middle, weight.reshape(-1).astype(np.float64)).astype(np.uint8)


def _first_guess(data: Sorted, count: int) -> np.ndarray:
    """Values as dense as the cube root of the weights' density: least squared error for many values (Panter and Dite 1951)."""
    heights, edges = np.histogram(data.values, bins=_BINS, weights=data.importance)
    mass = np.cumsum(np.cbrt(heights.astype(np.float64)))
    wanted = (np.arange(count) + 0.5) / count * mass[-1]
    return np.interp(wanted, np.concatenate([[0.0], mass]), edges)


def _settled(data: Sorted, centres: np.ndarray) -> tuple[np.ndarray, float]:
    """Lloyd's iteration until nothing moves or ROUNDS are over; centres and the whole squared error."""
    for _ in range(ROUNDS):
        _, means, _ = data.cells(centres)
        if np.array_equal(means, centres):
            break
        centres = np.sort(means)
    return centres, float(data.cells(centres)[2].sum())


def _moved(data: Sorted, centres: np.ndarray, moves: int) -> np.ndarray:
    """The `moves` centres that are missed least, put beside the centres of the worst cells."""
    masses, means, errors = data.cells(centres)
    gaps = np.diff(means)
    merged = masses[1:] * masses[:-1] / np.maximum(masses[1:] + masses[:-1], _TINY) * gaps**2  # error that joining two neighbours adds
    leave = np.argsort(merged, kind="stable")[:moves] + 1
    worst = np.argsort(-errors, kind="stable")[:moves]
    spread = np.sqrt(errors[worst] / np.maximum(masses[worst], _TINY))
    return np.sort(np.concatenate([np.delete(means, leave), (means[worst] + spread)]))
