"""Which operations the Neural Engine of a chip would take: a forecast from the rules, in two
readings, never a measurement.

    forecast = forecast_placement(profile, rules, "m1")
    forecast.optimistic.share("macs"), forecast.pessimistic.share("macs"), forecast.ops[12].findings

Two readings, because published observations disagree. In the optimistic one an operation leaves the
engine only by a rule whose effect is `leaves`. In the pessimistic one it also leaves by
`may_leave`. The truth for one device and system version should lie between them. When a
`graph_may_fail` rule applies, there is a third possibility: the compiler gives up and nothing is on
the engine (`cpu_fallback`). Only a device decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from mlprogram.examine.profile import OpProfile, Profile
from mlprogram.examine.rule_checks import CHECKS
from mlprogram.examine.rules import Rule, Rules


@dataclass(frozen=True)
class Segment:
    """Operations that run one after another on one unit, as indices into the profile."""

    level: int
    on_engine: bool
    ops: tuple[int, ...]


@dataclass(frozen=True)
class Cut:
    """Segments in the order they can run, and what passes between the engine and the rest, inputs
    and outputs of the program included.
    """

    segments: tuple[Segment, ...]
    crossings: int
    crossing_bytes: int

    @property
    def engine_segments(self) -> int:
        """Segments on the engine."""
        return sum(s.on_engine for s in self.segments)


def cut_segments(profile: Profile, off: frozenset[int]) -> Cut:
    """Segments when the operations with these indices are off the engine and all others on it.
    Inputs and outputs are off it.
    """
    made_by = {t.name: i for i, op in enumerate(profile.ops) for t in op.outputs}
    levels: list[int] = []
    for i, op in enumerate(profile.ops):
        levels.append(_find_level(i, op, off, made_by, levels))
    groups: dict[tuple[int, bool], list[int]] = {}
    for i, level in enumerate(levels):
        groups.setdefault((level, i not in off), []).append(i)
    crossing = _find_crossings(profile, off, made_by)
    segments = tuple(Segment(level, on, tuple(ops)) for (level, on), ops in sorted(groups.items()))
    return Cut(segments, len(crossing), sum(crossing.values()))


def _find_level(
    i: int, op: OpProfile, off: frozenset[int], made_by: dict[str, int], levels: list[int]
) -> int:
    """Even levels are off the engine, odd ones on it; a value of the other unit costs a step up."""
    # The inputs are off the engine (level 0), so its own first operations are on level 1.
    level = int(i not in off)
    for tensor in op.activations:
        producer = made_by.get(tensor.name)
        # In a loop a value may be made by a later operation; it sets no level.
        if producer is not None and producer < i:
            level = max(level, levels[producer] + ((producer in off) != (i in off)))
    return level


def _find_crossings(
    profile: Profile, off: frozenset[int], made_by: dict[str, int]
) -> dict[str, int]:
    """{tensor: bytes} of every value that is made on one side and read on the other."""
    crossing = {}
    for i, op in enumerate(profile.ops):
        for tensor in op.activations:
            # what no operation makes is an input, which the CPU hands over
            made_off = tensor.name not in made_by or made_by[tensor.name] in off
            if made_off != (i in off):
                # A value crosses once, however many operations read it on the other side.
                crossing[tensor.name] = tensor.bytes
    # The caller reads outputs off the engine.
    for tensor in profile.outputs:
        if tensor.name in made_by and made_by[tensor.name] not in off:
            crossing[tensor.name] = tensor.bytes
    return crossing


MEASURES = ("ops", "macs", "bytes")


@dataclass(frozen=True)
class Finding:
    """A rule that an operation (or the graph) breaks, its effect on this chip, and what exactly is
    over the limit.
    """

    rule: Rule = field(repr=False)
    effect: str
    detail: str


@dataclass(frozen=True)
class OpForecast:
    """One operation: what was found, and where each reading puts it."""

    profile: OpProfile = field(repr=False)
    findings: tuple[Finding, ...]
    optimistic_on: bool
    pessimistic_on: bool

    @property
    def verdict(self) -> str:
        """engine, may leave, or leaves."""
        return "engine" if self.pessimistic_on else "may leave" if self.optimistic_on else "leaves"


@dataclass(frozen=True)
class Placement:
    """One reading of the rules: which operations are off the engine, the segments that follow, and
    shares on the engine.
    """

    off: frozenset[int]
    cut: Cut = field(repr=False)
    shares: Mapping[str, float]

    def share(self, measure: str) -> float:
        """Share on the engine, 0 to 1, of "ops", "macs" or "bytes"; 0 where the program has none of
        them at all.
        """
        return self.shares[measure]


@dataclass(frozen=True)
class Forecast:
    """A chip's forecast for one profile. `cpu_fallback` is the reading with nothing on the engine,
    if a rule says that this may happen.
    """

    chip: str
    profile: Profile = field(repr=False)
    ops: tuple[OpForecast, ...] = field(repr=False)
    graph_findings: tuple[Finding, ...]
    optimistic: Placement
    pessimistic: Placement
    cpu_fallback: Placement | None

    def lowest_share(self, measure: str) -> float:
        """The lowest share that any reading gives."""
        return 0.0 if self.cpu_fallback else self.pessimistic.share(measure)

    def count_rules(
        self, effects: tuple[str, ...] = ("leaves", "may_leave", "graph_may_fail")
    ) -> dict[str, int]:
        """How many operations each rule with one of these effects concerns, graph rules included
        once.
        """
        findings = [f for op in self.ops for f in op.findings] + list(self.graph_findings)
        return dict(Counter(f.rule.id for f in findings if f.effect in effects).most_common())


def forecast_placement(profile: Profile, rules: Rules, chip: str) -> Forecast:
    """Apply every rule of the chip. Raises ProgramError for a chip that is not in the file."""
    # First, because this refuses a chip that is not in the file.
    on_chip_mib = rules.find_chip(chip).on_chip_mib
    chip = chip.lower()
    held = rules.list_rules(chip)
    findings = [_check_operation(op, held, on_chip_mib) for op in profile.ops]
    graph = (*_check_graph(findings, held), *_check_inputs(profile, held))
    # Some rules only say that an operation may leave; here the certain ones count.
    off = frozenset(
        i for i, matches in enumerate(findings) if any(f.effect == "leaves" for f in matches)
    )
    optimistic = _make_placement(profile, off)
    # Noted on the operations before the pessimistic reading asks for all findings.
    _add_small_segments(profile, optimistic.cut, held, findings)
    perhaps = frozenset(
        i
        for i, matches in enumerate(findings)
        if any(f.effect in ("leaves", "may_leave") for f in matches)
    )
    pessimistic = _settle(profile, perhaps, held, findings)
    # If the compiler may give up, this reading has every operation off the engine.
    cpu_fallback = _make_placement(profile, frozenset(range(len(profile.ops)))) if graph else None
    ops = tuple(
        OpForecast(op, tuple(matches), i not in off, i not in pessimistic.off)
        for i, (op, matches) in enumerate(zip(profile.ops, findings, strict=True))
    )
    return Forecast(chip, profile, ops, graph, optimistic, pessimistic, cpu_fallback)


def _check_operation(
    op: OpProfile, held: tuple[tuple[Rule, str], ...], on_chip_mib: float
) -> list[Finding]:
    details = (
        # Every check sees the chip's memory beside the rule's own numbers.
        (rule, effect, CHECKS[rule.kind](op, {**rule.params, "on_chip_mib": on_chip_mib}))
        for rule, effect in held
        if rule.kind in CHECKS
    )
    return [Finding(rule, effect, detail) for rule, effect, detail in details if detail is not None]


def _check_graph(
    findings: list[list[Finding]], held: tuple[tuple[Rule, str], ...]
) -> list[Finding]:
    """Rules that give up the whole graph once operations break others. Those that leave for another
    reason never reach the compiler.
    """
    result = []
    for rule, effect in held:
        # an operation that another rule has taken off the engine never reaches its compiler
        named = rule.params["rules"] if rule.kind == "graph_after" else ()
        broken = Counter(
            f.rule.id
            for matches in findings
            # An operation counts if nothing but the named rules takes it off.
            if all(f.rule.id in named for f in matches if f.effect == "leaves")
            for f in matches
            if f.rule.id in named
        )
        if broken:
            result.append(
                Finding(
                    rule, effect, "; ".join(f"{count} by {name}" for name, count in broken.items())
                )
            )
    return result


def _check_inputs(profile: Profile, held: tuple[tuple[Rule, str], ...]) -> list[Finding]:
    specs = profile.program.inputs.values()
    flexible = {
        "ranged": [s.name for s in specs if any(low != high for low, high in s.ranges)],
        "enumerated": [s.name for s in specs if len(s.shapes) > 1],
        "enumerated first axis": [s.name for s in specs if len({n[:1] for n in s.shapes}) > 1],
    }
    result = []
    for rule, effect in held:
        names = flexible[rule.params["flexibility"]] if rule.kind == "flexible_input" else []
        if names and len(names) >= rule.params["min_inputs"]:
            result.append(
                Finding(rule, effect, f"{rule.params['flexibility']}: {', '.join(names)}")
            )
    return result


def _make_placement(profile: Profile, off: frozenset[int]) -> Placement:
    totals: Counter[str] = Counter()
    on: Counter[str] = Counter()
    for i, op in enumerate(profile.ops):
        for measure, value in zip(MEASURES, (1, op.macs, op.bytes_moved), strict=True):
            totals[measure] += value
            on[measure] += value * (i not in off)
    return Placement(
        off,
        cut_segments(profile, off),
        {m: on[m] / totals[m] if totals[m] else 0.0 for m in MEASURES},
    )


def _add_small_segments(
    profile: Profile, cut: Cut, held: tuple[tuple[Rule, str], ...], findings: list[list[Finding]]
) -> bool:
    """Note small segments of a cut on their operations; whether any was new."""
    added = False
    for rule, effect in held:
        if rule.kind != "small_segment":
            continue
        for segment in cut.segments:
            # of 10^6 bytes
            megabytes = sum(profile.ops[i].weight_bytes for i in segment.ops) / 1e6
            if (
                not segment.on_engine
                or len(segment.ops) > rule.params["max_ops"]
                or megabytes > rule.params["max_weight_mb"]
            ):
                continue
            for i in segment.ops:
                # Once for an operation, or the loop in _settle would never end.
                if all(f.rule.id != rule.id for f in findings[i]):
                    findings[i].append(
                        Finding(
                            rule,
                            effect,
                            f"segment of {len(segment.ops)} operations, {megabytes:.1f} MB of"
                            " weights",
                        )
                    )
                    added = True
    return added


def _settle(
    profile: Profile,
    off: frozenset[int],
    held: tuple[tuple[Rule, str], ...],
    findings: list[list[Finding]],
) -> Placement:
    """The pessimistic placement: small segments leave, which may leave others small, until nothing
    changes.
    """
    while True:
        # Findings are only ever added, so `off` grows and the loop ends.
        reading = _make_placement(profile, off)
        if not _add_small_segments(profile, reading.cut, held, findings):
            return reading
        off = frozenset(
            i
            for i, matches in enumerate(findings)
            if any(f.effect in ("leaves", "may_leave") for f in matches)
        )
