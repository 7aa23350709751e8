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

SMALLEST, FASTEST = "smallest", "fastest"
LEAST_PESQ = 0.005  # what two decimals do not show
NAMED = 3  # broken gates that a note names


@dataclass(frozen=True)
class Choice:
    """The decision: SHIP with a level, REJECT when every level is rejected, UNDECIDED otherwise. `releasable`: false for a demo voice.

    `bests`: what else one may choose by, with the level that is best by it and what it costs and saves.
    """

    verdict: str
    level: str | None
    reason: str
    releasable: bool
    notes: tuple[str, ...]
    costs: str = ""
    bests: tuple[dict[str, str], ...] = ()

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
    notes += [note for level in shipping if (note := _no_gain(level, levels, chip))]
    reason = f"{best.method} is the {objective} level that keeps every gate: {measure(best)}, {beside}"
    return Choice(SHIP, best.method, reason, releasable, tuple(notes), costs(best, levels), bests(shipping, levels, chip))


def bests(shipping: Sequence[JudgedLevel], levels: Sequence[JudgedLevel], chip: str) -> tuple[dict[str, str], ...]:
    """The best shipping level by size, by forecast time on the Neural Engine, and by nearness to fp32 (of those smaller than fp16)."""
    size, engine = (_ranking(objective, chip) for objective in (SMALLEST, FASTEST))
    smaller = [level for level in shipping if level is not whole(level, levels)] or list(shipping)
    nearest = min(smaller, key=lambda level: level.record["summary"]["mcd_db"]["mean"])
    found = (("size", min(shipping, key=size[0])), ("the Neural Engine", min(shipping, key=engine[0])), ("fidelity", nearest))
    told = {"size": size[1], "the Neural Engine": engine[1], "fidelity": _nearness}
    return tuple({"by": by, "level": level.method, "figure": told[by](level), "costs": costs(level, levels)} for by, level in found)


def whole(level: JudgedLevel, levels: Sequence[JudgedLevel]) -> JudgedLevel | None:
    """The uncompressed level of the same form."""
    form = level.method.rpartition("-")[0]
    return next((other for other in levels if other.facts and other.method == (f"{form}-fp16" if form else "fp16")), None)


def costs(level: JudgedLevel, levels: Sequence[JudgedLevel]) -> str:
    """What a level costs and saves against fp16 of its form: "62 % smaller than fp16, PESQ 0.01 lower"; "" where there is none."""
    base = whole(level, levels)
    if base is None or base is level:
        return "uncompressed" if base else ""
    saved, lost = 1 - level.bytes / base.bytes, _pesq(base) - _pesq(level)
    heard = "PESQ the same" if abs(lost) < LEAST_PESQ else f"PESQ {abs(lost):.2f} {'lower' if lost > 0 else 'higher'}"
    return f"{abs(saved):.0%} {'smaller' if saved > 0 else 'larger'} than {base.method}, {heard}".replace("%", " %")


def _pesq(level: JudgedLevel) -> float:
    return float(level.record["summary"]["pesq"]["mean"])


def _nearness(level: JudgedLevel) -> str:
    return f"MCD {level.record['summary']['mcd_db']['mean']:.2f} dB from fp32"


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


def _no_gain(level: JudgedLevel, levels: Sequence[JudgedLevel], chip: str) -> str:
    """That int8 arithmetic buys no time by the forecast, where that is so; else ""."""
    base, share = whole(level, levels), level.facts.int8_macs_share if level.facts else 0.0
    if base is None or not share or _middle_ms(level, chip) < _middle_ms(base, chip):
        return ""
    bands = [f"{band['low_ms']:.0f} to {band['high_ms']:.0f}" for band in (level.forecast[chip], base.forecast[chip])]
    told = f"{level.method} multiplies {share:.0%} of its arithmetic in int8 and is forecast no faster".replace("%", " %")
    return f"{told}: {bands[0]} ms per second of audio on {chip.upper()}, {base.method} {bands[1]}; what it saves is size"


def _middle_ms(level: JudgedLevel, chip: str) -> float:
    """Geometric middle of a level's forecast, in ms per second of audio."""
    band = level.forecast[chip]
    return float((band["low_ms"] * band["high_ms"]) ** 0.5)


def _ranking(objective: str, chip: str) -> tuple[Callable[[JudgedLevel], tuple[float, ...]], Callable[[JudgedLevel], str]]:
    """A sort key and a figure in words."""
    if objective == SMALLEST:
        return lambda level: (level.bytes,), lambda level: f"{level.bytes / 1e6:.2f} MB"

    def words(level: JudgedLevel) -> str:
        return f"{_middle_ms(level, chip):.2g} ms per second of audio, forecast for {chip.upper()}"

    return lambda level: (round(_middle_ms(level, chip), 3), level.bytes), words


def _why(level: JudgedLevel) -> str:
    broken = level.record["broken"]
    if not broken:
        return level.record["reasons"][0]
    more = f" and {len(broken) - NAMED} more gates" if len(broken) > NAMED else ""
    return ", ".join(broken[:NAMED]) + more
