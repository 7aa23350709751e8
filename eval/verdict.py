"""Figures held against the gates: SHIP, REJECT, or UNDECIDED when the clips cannot tell.

    decision = decide(gates_for("w8"), clips, seed_floor)
    decision.verdict, decision.broken

A mean is an estimate: its gate holds, or is broken, only when the whole 95 % bootstrap interval over clips (seeded) lies on one side of
the limit. A worst clip is a fact: it breaks its gate by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eval.gates import FEWEST_CLIPS, WORST, Gate
from eval.metrics.registry import METRICS

SHIP, REJECT, UNDECIDED = "SHIP", "REJECT", "UNDECIDED"
HOLDS, BROKEN, STRADDLES, MISSING = "holds", "broken", "straddles", "missing"
RESAMPLES, CONFIDENCE, BOOTSTRAP_SEED = 2000, 0.95, 0
Figures = Sequence[Mapping[str, float]]  # one mapping of metric to value per clip


@dataclass(frozen=True)
class Check:
    """A gate held against a figure. `low`, `high`: the interval of a mean. `value` is None when the metric was not measured."""

    gate: Gate
    value: float | None
    limit: float
    state: str
    low: float | None = None
    high: float | None = None

    @property
    def passed(self) -> bool:
        """Only a gate that certainly holds; a missing figure never does."""
        return self.state == HOLDS

    def complaint(self) -> str:
        """What was missed or could not be told, by how much, and why that matters."""
        if self.state == MISSING:
            return f"{self.gate.name} was not measured"
        span = "" if self.low is None or self.low == self.high else f" ({self.low:.4g} to {self.high:.4g})"
        told = ", too near to tell with these clips" if self.state == STRADDLES else ""
        return f"{self.gate.name} is {self.value:.4g}{span}, limit {self.gate.rule(self.limit)}{told}: {self.gate.reason}"


@dataclass(frozen=True)
class Decision:
    """SHIP, REJECT or UNDECIDED, with every check and the reasons in words."""

    verdict: str
    checks: tuple[Check, ...]
    reasons: tuple[str, ...]

    @property
    def broken(self) -> tuple[str, ...]:
        """Names of the gates that were measured and missed."""
        return tuple(check.gate.name for check in self.checks if check.state == BROKEN)


def statistic(metric: str, kind: str, clips: Figures) -> float | None:
    """Mean or worst of a metric over the clips' figures; None when a clip lacks it or there is no clip."""
    values = [clip[metric] for clip in clips if metric in clip]
    if not values or len(values) != len(clips):
        return None
    return float(METRICS[metric].worst(values)) if kind == WORST else float(sum(values) / len(values))


def interval(values: Sequence[float], seed: int = BOOTSTRAP_SEED) -> tuple[float, float]:
    """95 % percentile bootstrap interval of the mean (Efron 1979): the same seed gives the same interval."""
    sample = np.asarray(values, dtype=np.float64)
    if np.ptp(sample) == 0:
        return float(sample[0]), float(sample[0])
    drawn = np.random.default_rng(seed).integers(0, len(sample), (RESAMPLES, len(sample)))
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(sample[drawn].mean(axis=1), (tail, 100 - tail))
    return float(low), float(high)


def decide(gates: Sequence[Gate], clips: Figures, seed_floor: Figures, defects: Sequence[str] = (), doubts: Sequence[str] = ()) -> Decision:
    """Hold the clips' figures against the gates.

    `seed_floor`: the same clips' figures for another seed. `defects`: clips that gave no audio. `doubts`: what else forbids a SHIP. Few
    clips decide nothing; a broken gate or a defect gives REJECT; a missing figure, a mean too near its limit or a doubt gives UNDECIDED.
    """
    checks = tuple(check(gate, clips, seed_floor) for gate in gates)
    broken = tuple(c.complaint() for c in checks if c.state == BROKEN)
    untold = tuple(c.complaint() for c in checks if c.state in (MISSING, STRADDLES)) + tuple(doubts)
    heard = len(clips) + len(defects)
    if heard < FEWEST_CLIPS:
        return Decision(UNDECIDED, checks, (f"clips judged: {heard}, needed: at least {FEWEST_CLIPS}", *defects, *broken))
    if defects or broken:
        return Decision(REJECT, checks, (*defects, *broken))
    return Decision(UNDECIDED, checks, untold) if untold else Decision(SHIP, checks, ("every gate holds",))


def check(gate: Gate, clips: Figures, seed_floor: Figures) -> Check:
    """One gate. A limit in seed floors is resampled together with the seed floor of the same clips."""
    value = statistic(gate.metric, gate.statistic, clips)
    scale = statistic(gate.metric, gate.statistic, seed_floor) if gate.in_seed_floors else 1.0
    limit = gate.limit * (scale or 0.0)
    if value is None or scale is None or (gate.in_seed_floors and len(seed_floor) != len(clips)):
        return Check(gate, None, limit, MISSING)
    if gate.statistic == WORST:
        return Check(gate, value, limit, HOLDS if gate.keeps(value, limit) else BROKEN)
    own = [clip[gate.metric] for clip in clips]
    limits = [gate.limit * clip[gate.metric] for clip in seed_floor] if gate.in_seed_floors else [limit] * len(own)
    least, most = interval([gate.margin(mine, allowed) for mine, allowed in zip(own, limits, strict=True)])
    state = HOLDS if least >= 0 else BROKEN if most < 0 else STRADDLES
    return Check(gate, value, limit, state, *interval(own))
