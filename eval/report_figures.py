"""Figures of a release decision as its page and the terminal show them: digits, limits, intervals,
and how much of a limit is used.

    figure(4.6351)                          # "4.64"
    check = tightest(level)                 # the gate that is nearest to its limit, or beyond it
    used(check)                             # 0.8: four fifths of what the limit allows
"""

from collections.abc import Mapping
from typing import Any

from kokoro_ane.eval.metrics.catalog import HIGHER, METRICS, ZERO

DIGITS = 2
# Metrics with a column in every table of levels; the second group only where the catalogue has it.
SHOWN = ("pesq", "mcd_db")
SHOWN_IF_MEASURED = ("word_errors_added", "local_spectrum_db", "speaker_distance")

Record = Mapping[str, Any]  # a part of a decision, as JSON has it


def figure(value: float | None, digits: int = DIGITS) -> str:
    """Write a figure with so many decimals and no negative zero; a dash for None."""
    return "–" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"


def digits_of(metric: str) -> int:
    """Decimals that a metric deserves: none where it counts, more where a limit is small."""
    return {"samples": 0, "%": 2, "0..1": 3, "cents": 1}.get(METRICS[metric].unit, DIGITS)


def metric_of(check: Record) -> str:
    """Return the metric of a check: "pesq mean" -> "pesq"."""
    return str(check["gate"].split()[0])


def statistic_of(check: Record) -> str:
    """Return the statistic of a check: "pesq mean" -> "mean"."""
    return str(check["gate"].split()[1])


def limit_of(check: Record) -> float:
    """Return the limit of a check: ">= 4" -> 4, "within 0.5" -> 0.5."""
    return float(check["rule"].split()[-1])


def limits_of(check: Record) -> tuple[float, ...]:
    """Return where a gate lies on the metric's axis: one place, or two around zero."""
    limit = limit_of(check)
    return (-limit, limit) if METRICS[metric_of(check)].best == ZERO else (limit,)


def interval_of(level: Record, metric: str) -> tuple[float, float] | None:
    """The 95 % interval of a metric's mean, where a gate holds that mean and the figures differ at
    all.
    """
    for check in level["checks"]:
        if check["gate"] == f"{metric} mean" and check["low"] not in (None, check["high"]):
            return float(check["low"]), float(check["high"])
    return None


def used(check: Record) -> float | None:
    """How much of what its limit allows a figure uses: above 1 the gate is broken. None where there
    is no measure of that.
    """
    value, limit, metric = check["value"], limit_of(check), METRICS[metric_of(check)]
    if value is None:
        return None
    if metric.best == HIGHER:
        room, spent = metric.perfect - limit, metric.perfect - value
    else:
        room, spent = limit, abs(value)
    return spent / room if room > 0 else None


def tightest(level: Record) -> Record | None:
    """Return the check that is nearest to its limit, or furthest beyond."""
    measured = [check for check in level["checks"] if used(check) is not None]
    return max(measured, key=lambda check: used(check) or 0.0, default=None)


def whole_of(level: str) -> str:
    """The uncompressed level of the same layout: "padded-w8" -> "padded-fp16"."""
    layout, dash, _ = level.rpartition("-")
    return f"{layout}{dash}fp16"


def shown() -> tuple[str, ...]:
    """List the metrics that have a column."""
    return SHOWN + tuple(name for name in SHOWN_IF_MEASURED if name in METRICS)


def judged_levels(record: Record) -> list[Record]:
    """List the levels that were measured."""
    return [level for level in record["levels"] if level.get("clips")]


def all_clips(record: Record) -> list[Record]:
    """The clips of the level that was measured on most: others may have been rejected earlier."""
    return max((level["clips"] for level in judged_levels(record)), key=len, default=[])


def gated(record: Record) -> list[str]:
    """List every metric that has a gate, in the order of the gates."""
    checks = [check for level in judged_levels(record) for check in level["checks"]]
    return list(dict.fromkeys(metric_of(check) for check in checks))
