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


class Level(TypedDict):
    """One level; what was measured is missing where there was no package."""

    method: str
    verdict: str
    bytes: int
    failed: NotRequired[str | None]
    reasons: NotRequired[list[str]]
    broken: NotRequired[list[str]]
    clips: NotRequired[list[dict[str, Any]]]
    summary: NotRequired[dict[str, dict[str, Any]] | None]
    provenance: NotRequired[dict[str, Any] | None]


class Decision(TypedDict):
    """What eval.decision.decision_record writes, as far as it is read again."""

    format: int
    verdict: str
    level: str | None
    levels: list[Level]
    provenance: dict[str, Any]


def read_decision(path: Path) -> Decision:
    """The decision; InputError when there is none, it is not one, or it was edited."""
    record = read_sealed(path, ABOUT, "nothing was decided; `python -m eval.release` decides", AGAIN)
    if record.get("format") != FORMAT or "levels" not in record:
        raise InputError(f"{path} is no decision of format {FORMAT}: run `python -m eval.release` again")
    conform(record, Decision, str(path))
    return cast(Decision, record)  # conform has seen every field
