"""BUILD/release/decision.json, read: by the report and by the bundle.

decision = read_decision(Path("build/release/decision.json"))
"""

from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

from core.errors import InputError
from core.schema import conform
from core.sealed import read_sealed

FORMAT = 2  # 2: sealed; facts read off the package; the limits that judged
ABOUT = {"file": "release decision"}
AGAIN = "; run `python -m eval.release` again"


Figures = dict[str, float | None]


class Check(TypedDict):
    """A gate of a level."""

    gate: str
    rule: str
    state: str
    value: float | None
    low: float | None
    high: float | None
    passed: bool | None


class Clip(TypedDict, total=False):
    """A sentence of a level."""

    id: str
    voice: str
    text: str
    seconds: float
    figures: Figures
    seed_floor: Figures
    defect: str | None


class Facts(TypedDict):
    """What was read off a package."""

    bytes: int
    int8_macs_share: float | None
    minimum_ios: str
    operations: dict[str, int]
    stored_bytes: dict[str, int]
    forecast: dict[str, Figures]


class LevelSource(TypedDict):
    """What a level was judged from."""

    package_sha256: str
    precision: NotRequired[str]


class Level(TypedDict):
    """One level; what was measured is missing where there was no package."""

    method: str
    verdict: str
    bytes: int
    title: NotRequired[str]
    unfit_for_engine: NotRequired[str | None]
    facts: NotRequired[Facts | None]
    failed: NotRequired[str | None]
    reasons: NotRequired[list[str]]
    broken: NotRequired[list[str]]
    checks: NotRequired[list[Check]]
    clips: NotRequired[list[Clip]]
    summary: NotRequired[dict[str, Figures] | None]
    provenance: NotRequired[LevelSource | None]


class Limits(TypedDict):
    """The commit of the gates."""

    commit: str


class DecisionSource(TypedDict):
    """What was judged, by what."""

    checkpoint: str
    checkpoint_sha256: str
    commit: str
    date: str
    limits: list[Limits]
    seed: int
    seed_floor_seed: int
    precision: str
    features: str
    set: str
    clips: list[str]
    libraries: dict[str, str]


class Best(TypedDict):
    """The level that is best by one measure."""

    by: str
    level: str | None
    figure: str
    costs: str | None


class Decision(TypedDict):
    """What eval.decision.decision_record writes, as far as the bundle reads it."""

    format: int
    verdict: str
    level: str | None
    levels: list[Level]
    provenance: dict[str, Any]


class Reported(TypedDict):
    """And as far as the report does."""

    format: int
    verdict: str
    level: str | None
    reason: str
    costs: str | None
    releasable: bool
    bests: list[Best]
    notes: list[str]
    objective: str
    chip: str
    claim: str
    levels: list[Level]
    spread: dict[str, Figures]
    provenance: DecisionSource


def read_decision(path: Path) -> Decision:
    """The decision; InputError when there is none, it is not one, or it was edited."""
    record = read_sealed(path, ABOUT, "nothing was decided; `python -m eval.release` decides", AGAIN)
    if record.get("format") != FORMAT or "levels" not in record:
        raise InputError(f"{path} is no decision of format {FORMAT}: run `python -m eval.release` again")
    conform(record, Decision, str(path))
    return cast(Decision, record)  # conform has seen every field


def read_reported(path: Path) -> Reported:
    """As read_decision, with all that the report reads."""
    record = read_decision(path)
    conform(record, Reported, str(path))
    return cast(Reported, record)
