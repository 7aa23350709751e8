"""A measured figure against its limit, and the signal-to-noise ratio that most of them are.

Figure("F0 against PyTorch", snr_db(reference, other), limit=100.0, at_least=True, unit="dB").holds
"""

from dataclasses import dataclass

import numpy as np


def snr_db(reference: np.ndarray, other: np.ndarray) -> float:
    """10 log10(|reference|^2 / |reference - other|^2) in float64; infinite where they are equal."""
    reference, other = np.asarray(reference, np.float64), np.asarray(other, np.float64)
    noise = np.square(reference - other).sum()
    return float(10 * np.log10(np.square(reference).sum() / noise)) if noise else float("inf")


def rmse(reference: np.ndarray, other: np.ndarray) -> float:
    """Root of the mean squared difference, in the unit of both."""
    return float(np.sqrt(np.square(np.asarray(reference, np.float64) - np.asarray(other, np.float64)).mean()))


@dataclass(frozen=True)
class Figure:
    """One measured figure against its limit."""

    name: str
    value: float
    limit: float
    at_least: bool
    unit: str = "dB"

    @property
    def holds(self) -> bool:
        """NaN never holds."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def text(self) -> tuple[str, str]:
        """The figure and its limit, in words."""
        return f"{self.value:.3g} {self.unit}", f"{'>=' if self.at_least else '<='} {self.limit:g} {self.unit}"
