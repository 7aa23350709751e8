"""What a metric is: its function, and in words what it measures and what it cannot tell.

Metric("level_db", "level", "dB", ZERO, 0.0, formula=..., function=level_db)
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from eval.metrics.trial import Trial

HIGHER, LOWER, ZERO = "higher", "lower", "nearest 0"


@dataclass(frozen=True)
class Metric:
    """One metric. `best` says which way is better, `perfect` is what equal signals score, `limits` what it cannot tell."""

    name: str
    title: str
    unit: str
    best: str
    perfect: float
    formula: str
    silence: str
    source: str
    limits: str
    function: Callable[[Trial], float]
    needs_other_seed: bool = False
    needs_tone: bool = False
    needs_text: bool = False

    def fits(self, trial: Trial) -> bool:
        """Whether the trial has what this metric needs."""
        has = (bool(trial.other_seeds), trial.tone is not None, trial.text is not None)
        needed = (self.needs_other_seed, self.needs_tone, self.needs_text)
        return all(there or not wanted for there, wanted in zip(has, needed, strict=True))

    def worst(self, values: Iterable[float]) -> float:
        """The value of the worst clip."""
        chosen: dict[str, Callable[[Iterable[float]], float]] = {HIGHER: min, LOWER: max, ZERO: lambda values: max(values, key=abs)}
        return chosen[self.best](values)
