"""Latency bands from a roofline: arithmetic against the peak, bytes against the memory, and a price for each segment. Low to high.

    bands = latency_bands(forecast, rules.chips["m4"])
    bands.optimistic.low_ms, bands.optimistic.high_ms, bands.pessimistic.low_ms

One band for each reading of the placement (forecast.py). Within a band
low: arithmetic and memory overlap fully; the highest published rates; elementwise neighbours are fused and tensors that fit on the chip
are not moved; the lowest price for a segment.
high: each operation waits for the slower of the two; the lowest published rates; every operand is moved, rows padded; decomposed
operations cost their assumed factor; the highest price for a segment.
What leaves the engine is priced on the CPU. Static estimates of this kind were within 31 % (median) on 68 graphs in ane-guide, chapter
18: a tool to order variants, not to time them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mlprogram.examine.forecast import Forecast, OpForecast, Reading
from mlprogram.examine.profile import ELEMENTWISE, VIEWS, OpProfile, Profile
from mlprogram.examine.rule_checks import padded_bytes
from mlprogram.examine.rules import Chip

_LOW, _HIGH = 0, 1
_ROW_BYTES = 64  # step of the last axis where no rule of the chip says otherwise
_MIB = 2**20
PARTS = ("engine arithmetic", "engine memory", "segments", "crossings", "CPU arithmetic", "CPU memory")


@dataclass(frozen=True)
class Band:
    """A forecast latency for one placement. `parts` maps a share of it to (low, high) milliseconds; at the low end arithmetic and memory
    of one unit overlap, so only the larger of the two counts."""

    low_ms: float
    high_ms: float
    parts: Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Bands:
    """The band of each reading; `cpu_fallback` only where the whole graph may stay off the engine."""

    optimistic: Band
    pessimistic: Band
    cpu_fallback: Band | None


def latency_bands(forecast: Forecast, chip: Chip) -> Bands:
    """The bands of a forecast."""
    moved = fused_bytes(forecast.profile, chip.on_chip_mib[_HIGH] * _MIB)
    optimistic, pessimistic = (_band(forecast, reading, chip, moved) for reading in (forecast.optimistic, forecast.pessimistic))
    return Bands(optimistic, pessimistic, _band(forecast, forecast.cpu_fallback, chip, moved) if forecast.cpu_fallback else None)


def _band(forecast: Forecast, reading: Reading, chip: Chip, moved: list[float]) -> Band:
    low = _low_parts(forecast.profile, reading, chip, moved)
    low_ms = (
        max(low["engine arithmetic"], low["engine memory"])
        + low["segments"]
        + low["crossings"]
        + max(low["CPU arithmetic"], low["CPU memory"])
    )
    high_ms, high = _high_parts(forecast, reading, chip)
    return Band(low_ms, max(low_ms, high_ms), {name: (low[name], high[name]) for name in PARTS})


def _low_parts(profile: Profile, reading: Reading, chip: Chip, moved: list[float]) -> dict[str, float]:
    engine = [i for i in range(len(profile.ops)) if i not in reading.off]
    return {
        "engine arithmetic": _ms(sum(profile.ops[i].flops for i in engine), chip.fp16_tflops[_HIGH] * 1e12),
        "engine memory": _ms(sum(moved[i] for i in engine), chip.bandwidth_gb_s[_HIGH] * 1e9),
        "segments": reading.cut.engine_segments * chip.segment_ms[_LOW],
        "crossings": _ms(reading.cut.crossing_bytes, chip.bandwidth_gb_s[_HIGH] * 1e9),
        "CPU arithmetic": _ms(sum(profile.ops[i].flops for i in reading.off), chip.cpu_gflops[_HIGH] * 1e9),
        "CPU memory": _ms(sum(moved[i] for i in reading.off), chip.cpu_gb_s[_HIGH] * 1e9),
    }


def _high_parts(forecast: Forecast, reading: Reading, chip: Chip) -> tuple[float, dict[str, float]]:
    parts = dict.fromkeys(PARTS, 0.0)
    total = 0.0
    for i, op in enumerate(forecast.ops):
        unit, arithmetic, memory = ("CPU", *_cpu_high(op, chip)) if i in reading.off else ("engine", *_engine_high(op, chip))
        parts[f"{unit} arithmetic"] += arithmetic
        parts[f"{unit} memory"] += memory
        total += max(arithmetic, memory)
    parts["segments"] = reading.cut.engine_segments * chip.segment_ms[_HIGH]
    parts["crossings"] = _ms(reading.cut.crossing_bytes, chip.bandwidth_gb_s[_LOW] * 1e9)
    return total + parts["segments"] + parts["crossings"], parts


def _engine_high(op: OpForecast, chip: Chip) -> tuple[float, float]:
    arithmetic = _ms(op.profile.flops * _slower(op), chip.fp16_tflops[_LOW] * 1e12)
    return arithmetic, _ms(_padded(op), chip.bandwidth_gb_s[_LOW] * 1e9)


def _cpu_high(op: OpForecast, chip: Chip) -> tuple[float, float]:
    return _ms(op.profile.flops, chip.cpu_gflops[_LOW] * 1e9), _ms(op.profile.bytes_moved, chip.cpu_gb_s[_LOW] * 1e9)


def _ms(amount: float, per_second: float) -> float:
    return 1e3 * amount / per_second


def _slower(op: OpForecast) -> float:
    """The largest assumed factor of the decompositions this operation needs."""
    return max((f.rule.params.get("slower_up_to", 1.0) for f in op.findings if f.effect == "cost"), default=1.0)


def _padded(op: OpForecast) -> float:
    """Bytes moved with padded rows, weights as stored."""
    step = next((f.rule.params["bytes"] for f in op.findings if f.rule.kind == "last_axis"), _ROW_BYTES)
    profile = op.profile
    if profile.op_type in VIEWS:
        return 0.0
    exact = sum(t.bytes for t in (*profile.activations, *profile.outputs))
    padded = sum(padded_bytes(t, step) for t in (*profile.activations, *profile.outputs))
    return profile.activation_bytes * (padded / exact if exact else 1.0) + profile.weight_bytes


def fused_bytes(profile: Profile, on_chip_bytes: float) -> list[float]:
    """Bytes each operation moves when elementwise neighbours are fused and what fits on the chip stays there.

    A tensor made inside the program is free if it fits on the chip, or if its one reader or its maker is elementwise (the pair runs in
    one pass). Weights, inputs and outputs of the program are always moved, once for each operation that takes them.
    """
    readers: dict[str, list[int]] = {}
    for i, op in enumerate(profile.ops):
        for tensor in op.activations:
            readers.setdefault(tensor.name, []).append(i)
    made_by = {t.name: op for op in profile.ops for t in op.outputs}
    results = {t.name for t in profile.outputs}
    free = {name for name, op in made_by.items() if name not in results and _is_free(name, op, readers, profile, on_chip_bytes)}
    return [_moved(op, free) for op in profile.ops]


def _is_free(name: str, maker: OpProfile, readers: dict[str, list[int]], profile: Profile, on_chip_bytes: float) -> bool:
    size = next(t.bytes for t in maker.outputs if t.name == name)
    taken = [profile.ops[i] for i in readers.get(name, [])]
    fused = len(taken) == 1 and (taken[0].op_type in ELEMENTWISE or maker.op_type in ELEMENTWISE)
    return size <= on_chip_bytes or fused


def _moved(op: OpProfile, free: set[str]) -> float:
    if op.op_type in VIEWS:
        return 0.0
    tensors = [t for t in (*op.activations, *op.outputs) if t.name not in free]
    share = sum(t.bytes for t in tensors) / (sum(t.bytes for t in (*op.activations, *op.outputs)) or 1)
    return op.activation_bytes * share + op.weight_bytes
