"""What a program costs on a chip's Neural Engine: milliseconds, an 80 % interval, and whether two
forecasts can be told apart.

    times = times_of(forecast, rules.chips["m4"], load_costs())
    times.optimistic.ms, times.optimistic.low_ms, times.optimistic.high_ms
    # "faster", "slower" or UNDECIDED
    compared(times.optimistic, other.optimistic, load_costs(), "levels").verdict

An engine step is an operation with the elementwise ones that follow it alone. It takes the longest
of its arithmetic, the bytes that pass through the engine's memory, and those of the chip's memory:
weights, and tensors over the working set. A pair of int8 multiplies faster and moves one byte a
value; a dequantize whose reader cannot take int8 costs a pass. The numbers
(mlprogram/data/ane_cost.json) were fitted to published times by `python -m bench.ane_times --fit`;
intervals are the errors on networks whose whole family was left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.resources import files
from math import exp, prod
from typing import Any

import numpy as np

from mlprogram.errors import ProgramError
from mlprogram.examine.forecast import Forecast, Reading
from mlprogram.examine.profile import ELEMENTWISE, PARTIAL_READS, VIEWS, OpProfile, Profile
from mlprogram.examine.rules import Chip
from mlprogram.files import parse_json
from mlprogram.ops import FAMILIES

UNDECIDED = "UNDECIDED"
PARTS = ("arithmetic", "engine memory", "chip memory", "starts", "crossings", "CPU")
_CONVOLUTIONS = frozenset({"conv", "conv_transpose"})
_PRODUCTS = _CONVOLUTIONS | set(FAMILIES["matrix products"])
_FUSED = ELEMENTWISE | {"quantize", "dequantize", "batch_norm"}
_PASSES = frozenset({*FAMILIES["normalizations"], *FAMILIES["reductions"], "softmax"}) - {
    "batch_norm"
}


@dataclass(frozen=True)
class Costs:
    """The fitted numbers, and errors as (10th, 90th) percentiles of the natural logarithm of
    forecast over published.

    `efficiency` of the published rate; `narrow`, input channels at which a filter runs at half of
    it; `memory_share` of the chip's bandwidth; `passes` that a norm takes. `largest`: the worst of
    a single row, and of a ratio of two levels and of two graphs.
    """

    efficiency: float
    narrow: float
    engine_gb_s_per_tflops: float
    memory_share: float
    passes: float
    int8_gain: float
    segment_ms: float
    step_us: float
    single: tuple[float, float]
    levels: tuple[float, float]
    graphs: tuple[float, float]
    largest: Mapping[str, float]

    def errors(self, kind: str, fitted: bool) -> tuple[float, float]:
        """Of a kind (single, levels, graphs); for a kind of network that no fitted row has, the
        largest error seen, either way.
        """
        return getattr(self, kind) if fitted else (-self.largest[kind], self.largest[kind])


def load_costs() -> Costs:
    """The packaged numbers. Raises ProgramError for a file with other keys."""
    content = parse_json(
        (files("mlprogram") / "data" / "ane_cost.json").read_text(encoding="utf-8"),
        "mlprogram/data/ane_cost.json",
    )
    try:
        given: dict[str, Any] = {
            f.name: tuple(v) if isinstance(v := content[f.name], list) else v for f in fields(Costs)
        }
        return Costs(**given)
    except KeyError as error:
        raise ProgramError(f"mlprogram/data/ane_cost.json: {error} is missing") from None


@dataclass(frozen=True)
class Steps:
    """Fused steps of the engine, as arrays of one length; `tensors` has a row of bytes for each.
    `lines`: share of MACs along one axis.
    """

    flops: np.ndarray
    channels: np.ndarray
    int8: np.ndarray
    weight_bytes: np.ndarray
    passes: np.ndarray
    tensors: np.ndarray
    lines: float


def steps_of(profile: Profile, off: frozenset[int] = frozenset()) -> Steps:
    """The steps of the operations that are not `off` the engine."""
    graph = _Graph(profile, off)
    steps = [graph.step(members) for members in graph.steps()]
    widest = max((len(sizes) for *_, sizes in steps), default=0)
    tensors = np.array([[*sizes, *[0.0] * (widest - len(sizes))] for *_, sizes in steps]).reshape(
        len(steps), widest
    )
    columns = np.array([step[:-1] for step in steps], float).reshape(len(steps), 5).T
    flops, channels, int8, weight_bytes, passes = columns
    return Steps(flops, channels, int8, weight_bytes, passes, tensors, _lines(profile.ops))


def _lines(ops: tuple[OpProfile, ...]) -> float:
    """Share of multiply-accumulates in filters along one axis only: no fitted network has them."""
    along = sum(
        op.macs
        for op in ops
        if op.op_type in _CONVOLUTIONS
        and (kernel := op.shapes["weight"][2:])[-1] > 1 == prod(kernel[:-1])
    )
    return along / (sum(op.macs for op in ops) or 1)


class _Graph:
    """Responsibilities: 1. which values are one (views, and dequantized ones whose readers take
    int8); 2. which operations are one step.
    """

    def __init__(self, profile: Profile, off: frozenset[int]) -> None:
        self.ops, self.off = profile.ops, off
        self.same: dict[str, str] = {}
        self.results = {t.name for t in profile.outputs}
        tensors = (*profile.inputs, *(t for op in self.ops for t in (*op.activations, *op.outputs)))
        self.bytes = {t.name: t.bytes for t in tensors}
        self.whole8 = {t.name for t in tensors if t.bits == 8}
        self.maker = {t.name: i for i, op in enumerate(self.ops) for t in op.outputs}
        self._unite(lambda op: op.op_type in VIEWS)
        read_as_int8 = self._readers()
        takes = _PRODUCTS | _FUSED
        self._unite(
            lambda op: (
                op.op_type == "dequantize"
                and all(
                    self.ops[r].op_type in takes for r in read_as_int8.get(op.outputs[0].name, ())
                )
            )
        )
        self.readers = self._readers()

    def _unite(self, chosen: Any) -> None:
        self.same |= {
            op.outputs[0].name: op.activations[0].name
            for op in self.ops
            if op.activations and chosen(op)
        }

    def root(self, name: str) -> str:
        """The value that a name stands for."""
        while name in self.same:
            name = self.same[name]
        return name

    def _readers(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for i, op in enumerate(self.ops):
            if not (op.outputs and op.outputs[0].name in self.same):
                for tensor in op.activations:
                    found.setdefault(self.root(tensor.name), []).append(i)
        return found

    def steps(self) -> list[list[int]]:
        """Operations of each step: an elementwise one joins the maker of its latest operand if
        nothing else reads that.
        """
        first: dict[int, int] = {}
        members: dict[int, list[int]] = {}
        for i, op in enumerate(self.ops):
            if i in self.off or (op.outputs and op.outputs[0].name in self.same):
                continue
            joins = i
            for name in sorted(
                {self.root(t.name) for t in op.activations}, key=lambda n: -self.maker.get(n, -1)
            ):
                maker = self.maker.get(name)
                if (
                    op.op_type in _FUSED
                    and maker in first
                    and self.readers[name] == [i]
                    and name not in self.results
                ):
                    joins = first[maker]
                    break
            first[i] = joins
            members.setdefault(joins, []).append(i)
        return list(members.values())

    def step(self, members: list[int]) -> tuple[Any, ...]:
        """FLOPs of products, input channels of a filter, int8, weight bytes, passes, bytes of each
        tensor read or written.
        """
        ops = [self.ops[i] for i in members]
        made = {t.name for op in ops for t in op.outputs}
        read: dict[str, float] = {}
        for op in ops:
            for name in {self.root(t.name) for t in op.activations} - made:
                size = (
                    sum(t.bytes for t in op.outputs)
                    if op.op_type in PARTIAL_READS
                    else self.bytes.get(name, 0)
                )
                read[name] = max(read.get(name, 0), size)
        written = [
            self.bytes[n]
            for n in made
            if n in self.results or set(self.readers.get(n, ())) - set(members)
        ]
        head = ops[0]
        channels = (
            head.shapes["weight"][head.op_type == "conv"]
            if head.op_type in _CONVOLUTIONS
            else np.inf
        )
        narrow = any(kind in w.kind for w in head.weights for kind in ("int8", "int4", "palette"))
        int8 = (
            head.op_type in _PRODUCTS
            and narrow
            and any(self.root(t.name) in self.whole8 for t in head.activations)
        )
        flops = sum(op.flops for op in ops if op.op_type in _PRODUCTS)
        return (
            flops,
            channels,
            int8,
            sum(op.weight_bytes for op in ops),
            any(op.op_type in _PASSES for op in ops),
            [*read.values(), *written],
        )


def engine_parts(steps: Steps, chip: Chip, costs: Costs) -> tuple[float, dict[str, float]]:
    """Milliseconds of all steps, and what each resource would take alone."""
    arithmetic = (
        steps.flops
        * (1 + costs.narrow / steps.channels)
        / (chip.fp16_tflops * costs.efficiency * 1e9)
    )
    arithmetic = np.where(steps.int8 > 0, arithmetic / costs.int8_gain, arithmetic)
    passes = np.where(steps.passes > 0, costs.passes, 1.0)
    large = np.where(steps.tensors > chip.on_chip_mib * 2**20, steps.tensors, 0).sum(1)
    engine = passes * steps.tensors.sum(1) / (chip.fp16_tflops * costs.engine_gb_s_per_tflops * 1e6)
    memory = (passes * large + steps.weight_bytes) / (chip.memory_gb_s * costs.memory_share * 1e6)
    started = len(steps.flops) * costs.step_us / 1e3
    parts = {
        "arithmetic": arithmetic.sum(),
        "engine memory": engine.sum(),
        "chip memory": memory.sum(),
        "starts": started,
    }
    return float(np.maximum(np.maximum(arithmetic, engine), memory).sum()) + started, {
        k: float(v) for k, v in parts.items()
    }


@dataclass(frozen=True)
class Time:
    """A forecast of one placement with its 80 % interval. `fitted`: the numbers were fitted to
    networks of this kind.
    """

    ms: float
    low_ms: float
    high_ms: float
    fitted: bool
    parts: Mapping[str, float]


@dataclass(frozen=True)
class Times:
    """Of each reading; `cpu_fallback` only where the whole graph may stay off the engine."""

    optimistic: Time
    pessimistic: Time
    cpu_fallback: Time | None


def times_of(forecast: Forecast, chip: Chip, costs: Costs) -> Times:
    """The times of a forecast."""
    rest = (
        _time(forecast.profile, forecast.cpu_fallback, chip, costs)
        if forecast.cpu_fallback
        else None
    )
    low, high = (
        _time(forecast.profile, r, chip, costs) for r in (forecast.optimistic, forecast.pessimistic)
    )
    return Times(low, high, rest)


def _time(profile: Profile, reading: Reading, chip: Chip, costs: Costs) -> Time:
    steps = steps_of(profile, reading.off)
    engine, parts = engine_parts(steps, chip, costs)
    parts["starts"] += reading.cut.engine_segments * costs.segment_ms
    # the program's own are in every row
    parts["crossings"] = _ms(reading.cut.crossing_bytes, chip.memory_gb_s) if reading.off else 0.0
    engine += reading.cut.engine_segments * costs.segment_ms + parts["crossings"]
    off = [profile.ops[i] for i in reading.off]
    slow, fast = (
        sum(
            max(_ms(op.flops, chip.cpu_gflops[k]), _ms(op.bytes_moved, chip.cpu_gb_s[k]))
            for op in off
        )
        for k in (0, 1)
    )
    parts["CPU"] = (slow * fast) ** 0.5  # assumed rates, unchecked: the interval takes both ends
    fitted = steps.lines < 0.5
    low, high = costs.errors("single", fitted)
    return Time(
        engine + parts["CPU"], engine / exp(high) + fast, engine / exp(low) + slow, fitted, parts
    )


def _ms(amount: float, giga_per_second: float) -> float:
    return amount / (giga_per_second * 1e6)


@dataclass(frozen=True)
class Ratio:
    """One time over another with its 80 % interval: errors that both share cancel."""

    value: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """faster or slower where the whole interval says so, else UNDECIDED."""
        return "faster" if self.high < 1 else "slower" if self.low > 1 else UNDECIDED


def compared(ms: float, other_ms: float, costs: Costs, kind: str, fitted: bool) -> Ratio:
    """Forecast over forecast. `kind`: "levels" of one network, or "graphs" of one family."""
    low, high = costs.errors(kind, fitted)
    return Ratio(ms / other_ms, ms / other_ms / exp(high), ms / other_ms / exp(low))
