"""The data file of the Neural Engine rules is complete, and strict against damage."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlprogram.errors import ProgramError
from mlprogram.examine.rules import CONFIDENCES, EFFECTS, load_rules, parse_rules

RULES = load_rules()


def content() -> dict[str, Any]:
    """The data file as parsed JSON."""
    place = Path(__file__).resolve().parents[1] / "mlprogram" / "data" / "ane_rules.json"
    return json.loads(place.read_text(encoding="utf-8"))


def test_data_file_is_complete() -> None:
    used = {s for entry in (*RULES.rules, *RULES.chips.values(), *RULES.numerics) for s in entry.sources}
    assert used == set(RULES.sources)
    for entry in (*RULES.rules, *RULES.chips.values(), *RULES.numerics):
        assert entry.sources and entry.confidence in CONFIDENCES
    assert {rule.effect for rule in RULES.rules} == set(EFFECTS)
    assert set(RULES.chips) == {"m1", "m2", "m3", "m4", "m5", "a14", "a15", "a16", "a17", "a18"}


def test_the_model_of_the_arithmetic_holds_what_was_published() -> None:
    from mlprogram.ane_numerics import ANE

    limit = next(numeric for numeric in RULES.numerics if numeric.id == "sum-limit")
    assert limit.low <= ANE.sum_limit <= limit.high


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["rules"][0].pop("sources"), "'sources' is missing"),
        (lambda c: c["rules"][0].update(sources=[]), "at least one source"),
        (lambda c: c["rules"][0].update(sources=["hearsay"]), "source 'hearsay' is unknown"),
        (lambda c: c["rules"][0].update(confidence="sure"), "one of high, medium, low"),
        (lambda c: c["rules"][0].update(color="red"), "unknown key 'color'"),
        (lambda c: c["rules"][0].update(chips=["m1", "m99"]), "chip 'm99' is unknown"),
        (lambda c: c["rules"][0].update(kind="taste"), "kind 'taste' is unknown"),
        (lambda c: c["rules"][0].update(effect="explodes"), "effect 'explodes' is unknown"),
        (lambda c: c["rules"][0]["params"].update(limit=3), "unknown key 'limit'"),
        (lambda c: c["rules"].append(copy.deepcopy(c["rules"][0])), "stands there twice"),
        (lambda c: c["chips"]["m1"].update(fp16_tflops=[5, 3]), "two positive numbers"),
        (lambda c: c["chips"]["m1"].pop("confidence"), "'confidence' is missing"),
        (lambda c: c.update(extra=1), "unknown key 'extra'"),
        (lambda c: c["numerics"][0].update(low=9e9), "low and high must be numbers in this order"),
        (lambda c: c["numerics"][0].update(sources=["hearsay"]), "source 'hearsay' is unknown"),
        (lambda c: c["numerics"].append(copy.deepcopy(c["numerics"][0])), "stands there twice"),
    ],
)
def test_damaged_data_is_refused(change: Callable[[dict[str, Any]], Any], message: str) -> None:
    damaged = content()
    change(damaged)
    with pytest.raises(ProgramError, match=message):
        parse_rules(damaged, "rules.json")


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text("{", encoding="utf-8")
    with pytest.raises(ProgramError, match="not JSON"):
        load_rules(tmp_path / "rules.json")
    with pytest.raises(ProgramError, match="no such file"):
        load_rules(tmp_path / "none.json")
