"""A release decision as far as the report shows it: read, and held to what eval.decision writes,
whoever wrote its checksum.

    # InputError names the first thing that is not so
    record = read_reported(Path("build/release/decision.json"))

Kinds are checked first (`Reported`), then words that are one of a few, then what one part says of
another.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict, cast

from kokoro_ane.core.commands import MAX_SEED
from kokoro_ane.core.contract import BOTH, CLAIMS, JUDGED, SECOND
from kokoro_ane.core.data_files import conform
from kokoro_ane.core.errors import InputError
from kokoro_ane.eval.gates import MEAN, WORST
from kokoro_ane.eval.metrics.catalog import METRICS
from kokoro_ane.eval.report_figures import shown
from kokoro_ane.eval.session import PRECISIONS
from kokoro_ane.eval.verdict import BROKEN, HOLDS, MISSING, SHIP, STRADDLES, UNDECIDED, VERDICTS
from kokoro_ane.pipeline.decision_file import AGAIN, read_decision
from kokoro_ane.quantize.locator import parse_level
from mlprogram.examine.rules import load_rules

LARGEST = 1e12  # of any number but a seed
RULE = re.compile(r"(>=|<=|within) -?\d{1,9}(\.\d{1,9})?(e[+-]\d\d)?")
SYSTEM = re.compile(r"(iOS|specification )\d{1,3}")


class Source(TypedDict):
    package_sha256: str  # what a level was judged from


class Limits(TypedDict):
    commit: str  # the commit of the gates


class Check(TypedDict):
    """A gate of a level."""

    gate: str
    rule: str
    state: str
    reason: str
    value: float | None
    low: float | None
    high: float | None


class Clip(TypedDict):
    """A sentence of a level."""

    id: str
    voice: str
    figures: dict[str, float]
    seed_variation: dict[str, float]


class Row(TypedDict):
    """A metric of a level."""

    mean: float | None
    worst: float | None
    seed_variation_mean: float | None
    seed_variation_worst: float | None


class Band(TypedDict):
    """A forecast: lowest and highest share on the engine."""

    engine_low: float
    engine_high: float


class Facts(TypedDict):
    """What was read off a package."""

    int8_macs_share: float
    minimum_ios: str
    stored_bytes: dict[str, int]
    forecast: dict[str, Band]


class Level(TypedDict):
    """What every level has."""

    method: str
    title: str
    verdict: str
    bytes: int


class Failed(Level):
    """A level without a package."""

    failed: str


class Judged(Level):
    """A level that was measured."""

    failed: None
    unfit_for_engine: str | None
    facts: Facts
    reasons: list[str]
    broken: list[str]
    checks: list[Check]
    clips: list[Clip]
    summary: dict[str, Row]
    provenance: Source


class DecisionSource(TypedDict):
    """What was judged, by what."""

    checkpoint: str
    checkpoint_sha256: str
    commit: str
    date: str
    limits: list[Limits]
    seed: int
    seed_variation_seed: int
    precision: str
    features: str
    set: str
    clips: list[str]
    libraries: dict[str, str]


class Best(TypedDict):
    """The level that is best by one measure."""

    by: str
    level: str
    figure: str
    costs: str


class Reported(TypedDict):
    """All of it."""

    format: int
    verdict: str
    level: str | None
    reason: str
    costs: str
    releasable: bool
    may_be_released: bool
    bests: list[Best]
    notes: list[str]
    chip: str
    claim: str
    levels: list[Judged | Failed]
    spread: dict[str, dict[str, float | None]]
    provenance: DecisionSource


def read_reported(path: Path) -> Reported:
    """The decision; InputError when there is none, it was edited, or it says what no decision
    says.
    """
    record = read_decision(path)
    conform(record, Reported, str(path))
    for problem in _problems(record):
        raise InputError(f"{path}: {problem}{AGAIN}")
    return cast(Reported, record)  # conform has seen every field


def _problems(record: Any) -> Iterator[str]:
    """Everything that no decision of ours says."""
    levels, made = record["levels"], record["provenance"]
    judged = {level["method"]: level for level in levels if level["failed"] is None}
    for level in levels:
        parse_level(level["method"])
    yield from _leaves(record | {"provenance": made | {"seed": 0, "seed_variation_seed": 0}})
    yield from (
        f"{what} {value!r:.60} is not one of {', '.join(known):.1000}"
        for what, value, known in _words(record)
        if value not in known
    )
    if len({level["method"] for level in levels}) < len(levels) or not judged:
        yield "levels: at least one that was judged, and none twice"
    if (
        not all(0 <= made[name] <= MAX_SEED + 1 for name in ("seed", "seed_variation_seed"))
        or not made["limits"]
    ):
        yield f"provenance: seeds from 0 to {MAX_SEED}, and limits"
    named = [record["level"]] * (record["level"] is not None) + [
        best["level"] for best in record["bests"]
    ]
    if any(name not in judged or judged[name]["verdict"] != SHIP for name in named):
        yield "a level is named that was not judged or does not ship"
    ships = record["verdict"] == SHIP
    if ships != (record["level"] is not None) or record["may_be_released"] != (
        ships and record["releasable"]
    ):
        yield "verdict, level and may_be_released contradict each other"
    for name, level in judged.items():
        yield from (f"{name}: {problem}" for problem in _of_level(level))


def _words(record: Any) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """What each is, what it says, what it may say."""
    made = record["provenance"]
    gates = tuple(f"{name} {kind}" for name in METRICS for kind in (MEAN, WORST))
    yield "verdict", record["verdict"], VERDICTS
    yield "chip", record["chip"], tuple(load_rules().chips)
    yield "claim", record["claim"], CLAIMS
    yield "set", made["set"], (JUDGED, SECOND, BOTH)
    yield "precision", made["precision"], PRECISIONS
    for level in record["levels"]:
        yield "verdict", level["verdict"], VERDICTS if level["failed"] is None else (UNDECIDED,)
        for check in level.get("checks", ()):
            yield "state", check["state"], (HOLDS, BROKEN, STRADDLES, MISSING)
            yield "gate", check["gate"], gates
        for metric in level.get("summary", ()):
            yield "metric", metric, tuple(METRICS)


def _of_level(level: Any) -> Iterator[str]:
    facts, rows = level["facts"], level["summary"]
    if not level["clips"] or level["bytes"] <= 0:
        yield "it has neither clips nor bytes"
    if not SYSTEM.fullmatch(facts["minimum_ios"]):
        yield f"minimum_ios {facts['minimum_ios']!r:.60} is no system"
    missing = next((name for name in shown() if name not in rows), None)
    if missing or any((row["mean"] is None) != (row["worst"] is None) for row in rows.values()):
        yield f"summary: {missing or 'a metric'} is not there, or only half"
    for check in level["checks"]:
        if not RULE.fullmatch(check["rule"]) or abs(float(check["rule"].split()[-1])) > LARGEST:
            yield f"rule {check['rule']!r:.60} is none such as '>= 4.0'"
        if (check["low"] is None) != (check["high"] is None) or (check["value"] is None) != (
            check["state"] == MISSING
        ):
            yield f"{check['gate']}: half an interval, or no value"


def _leaves(value: Any) -> Iterator[str]:
    """Numbers that no figure has, and texts that no file can hold."""
    for item in (
        (*value.keys(), *value.values())
        if isinstance(value, dict)
        else value
        if isinstance(value, list)
        else ()
    ):
        yield from _leaves(item)
    if isinstance(value, (int, float)) and abs(value) > LARGEST:
        yield "a number in it is beyond 1e12"
    if (
        isinstance(value, str)
        and not value.isascii()
        and value.encode(errors="replace").decode() != value
    ):
        yield f"{value!r:.60} holds half a character"
