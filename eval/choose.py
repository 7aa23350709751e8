"""Which level to release: the smallest, or the fastest by forecast, of those that ship.

choice = choose(levels, "smallest", chip="m4", withheld="the demo voice is never released")
choice.verdict, choice.level, choice.reason
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.checkpoint import DEMO_NAME, KOKORO_INT8, Checkpoint
from core.config import not_releasable
from eval.levels import JudgedLevel
from eval.verdict import REJECT, SHIP, UNDECIDED

SMALLEST = "smallest"
NAMED = 3  # broken gates that a note names


@dataclass(frozen=True)
class Choice:
    """The decision: SHIP with a level, REJECT when every level is rejected, UNDECIDED otherwise. `releasable`: false for a demo voice."""

    verdict: str
    level: str | None
    reason: str
    releasable: bool
    notes: tuple[str, ...]

    @property
    def may_be_released(self) -> bool:
        """A level ships and its checkpoint is one that may go out."""
        return self.verdict == SHIP and self.releasable


def choose(levels: Sequence[JudgedLevel], objective: str, chip: str, withheld: str | None) -> Choice:
    """The best level by the objective that ships and is meant for the Neural Engine. `withheld`: why nothing may be released, if so."""
    releasable = withheld is None
    rank, measure = _ranking(objective, chip)
    keeping = sorted((level for level in levels if level.verdict == SHIP), key=rank)
    shipping = [level for level in keeping if not level.unfit]
    notes = [f"{level.method} keeps every gate but is not chosen: {level.unfit}" for level in keeping if level.unfit]
    notes += [] if withheld is None else [withheld]
    if not shipping:
        return _nothing(levels, releasable, notes)
    best = shipping[0]
    better = [level for level in levels if level.record and level.verdict != SHIP and rank(level) < rank(best)]
    notes += [f"{level.method} would be {measure(level)}: {level.verdict}, {_why(level)}" for level in sorted(better, key=rank)]
    beside = f"the next is {shipping[1].method} with {measure(shipping[1])}" if shipping[1:] else "the only one"
    reason = f"{best.method} is the {objective} level that keeps every gate: {measure(best)}, {beside}"
    return Choice(SHIP, best.method, reason, releasable, tuple(notes))


def withheld(checkpoint: Checkpoint) -> str | None:
    """Why nothing of the checkpoint may be released, in words; None where it may."""
    if checkpoint.withheld is None or checkpoint.name in (DEMO_NAME, KOKORO_INT8):
        return checkpoint.withheld and not_releasable(checkpoint.name)
    return f"{checkpoint.name} is not releasable: {checkpoint.withheld}"


def _nothing(levels: Sequence[JudgedLevel], releasable: bool, notes: list[str]) -> Choice:
    """No level ships: rejected, or not told yet."""
    untold = [level.method for level in levels if level.verdict == UNDECIDED and not level.failed]
    if untold:
        return Choice(UNDECIDED, None, f"no level ships, and the clips cannot tell about {', '.join(untold)}", releasable, tuple(notes))
    return Choice(REJECT, None, "no level ships", releasable, tuple(notes))


def _ranking(objective: str, chip: str) -> tuple[Callable[[JudgedLevel], tuple[float, ...]], Callable[[JudgedLevel], str]]:
    """A sort key and a figure in words."""
    if objective == SMALLEST:
        return lambda level: (level.bytes,), lambda level: f"{level.bytes / 1e6:.2f} MB"

    def middle_ms(level: JudgedLevel) -> float:
        band = level.forecast[chip]
        return (band["low_ms"] * band["high_ms"]) ** 0.5

    def words(level: JudgedLevel) -> str:
        return f"{middle_ms(level):.2g} ms per second of audio, forecast for {chip}"

    return lambda level: (round(middle_ms(level), 3), level.bytes), words


def _why(level: JudgedLevel) -> str:
    broken = level.record["broken"]
    if not broken:
        return level.record["reasons"][0]
    more = f" and {len(broken) - NAMED} more gates" if len(broken) > NAMED else ""
    return ", ".join(broken[:NAMED]) + more
