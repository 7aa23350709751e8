"""The words and numbers of the report: plain names of levels, figures with the digits that matter, limits of a check.

plain_name(level["facts"]), figure(4.6391, "MOS-LQO"), limit_of(check)
"""

from collections.abc import Mapping
from typing import Any

from eval.metrics.registry import HIGHER, METRICS, ZERO

WORDS = {"fp16": "16-bit floats", "fp32": "32-bit floats", "linear int8": "8-bit weights", "linear int4": "4-bit weights"}
LEAST_SHARE = 0.02  # of the stored bytes: what counts as a kind of weights of this package
DIGITS = 2


def plain_name(facts: Mapping[str, Any]) -> str:
    """What a level is, from the weights that its package holds: "6-bit palette", "8-bit weights and activations"."""
    total = sum(facts["stored_bytes"].values())
    kinds = [kind for kind, stored in facts["stored_bytes"].items() if stored >= LEAST_SHARE * total]
    name = " + ".join(_kind(kind) for kind in kinds)
    share = facts["int8_macs_share"]
    if not share:
        return name
    if kinds == ["linear int8"]:
        return "8-bit weights and activations"
    return f"{name}, {share:.0%} of the arithmetic in int8".replace("%", " %")


def _kind(kind: str) -> str:
    if kind.startswith("palette "):
        return f"{kind.removeprefix('palette ')} palette"
    if kind.startswith("linear per block int"):
        return f"{kind.removeprefix('linear per block int')}-bit weights in blocks"
    return WORDS.get(kind, kind)


def figure(value: float | None, digits: int = DIGITS) -> str:
    """So many decimals, no negative zero, or a dash for what was not measured."""
    return "–" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"


def short(value: float) -> str:
    """Two digits that count, and never a power of ten: 0.26, 2.9, 102."""
    return f"{value:.2g}" if value < 99.5 else f"{value:.0f}"


def digits_of(metric: str) -> int:
    """Decimals that a metric deserves: none where it counts, more where a limit is small."""
    return {"samples": 0, "%": 2, "0..1": 3, "cents": 1}.get(METRICS[metric].unit, DIGITS)


def limit_of(check: Mapping[str, Any]) -> float:
    """The limit of a check: ">= 4" -> 4, "within 0.5" -> 0.5."""
    return float(check["rule"].split()[-1])


def limits_of(check: Mapping[str, Any]) -> tuple[float, ...]:
    """Where its gate lies on the metric's axis: one place, or two around zero."""
    limit = limit_of(check)
    return (-limit, limit) if METRICS[metric_of(check)].best == ZERO else (limit,)


def metric_of(check: Mapping[str, Any]) -> str:
    """The metric of a check whose gate is called "pesq mean"."""
    return str(check["gate"].split()[0])


def interval_of(level: Mapping[str, Any], metric: str) -> tuple[float, float] | None:
    """The 95 % interval of a metric's mean, where a gate holds that mean and the figures differ at all."""
    found = next((check for check in level["checks"] if check["gate"] == f"{metric} mean"), None)
    if found is None or found["low"] is None or found["low"] == found["high"]:
        return None
    return float(found["low"]), float(found["high"])


def used(check: Mapping[str, Any]) -> float | None:
    """How much of what its limit allows a figure uses: above 1 the gate is broken. None where there is no measure of that."""
    value, limit, metric = check["value"], limit_of(check), METRICS[metric_of(check)]
    if value is None:
        return None
    room, spent = (metric.perfect - limit, metric.perfect - value) if metric.best == HIGHER else (limit, abs(value))
    return spent / room if room > 0 else None


def tightest(level: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The check that is nearest to its limit, or furthest beyond."""
    measured = [check for check in level["checks"] if used(check) is not None]
    return max(measured, key=lambda check: used(check) or 0.0, default=None)
