"""docs/metrics.md contradicts no gate: the limits it states are the limits in the code, and it names what catches each control."""

import re
from pathlib import Path

from eval.gates import COMMON, FP16_ONLY, Gate
from eval.known_bad import CONTROLS

TEXT = (Path(__file__).resolve().parents[1] / "docs" / "metrics.md").read_text(encoding="utf-8")
ROWS = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in TEXT.splitlines() if line.startswith("| ")]


def limit_of(gate: Gate) -> str:
    return gate.rule(gate.limit) + (f", <= {gate.floors:g} seed floor" if gate.floors is not None else "")


def test_stated_limits_are_the_gates_of_the_code() -> None:
    code = {re.sub(r"band_.*_khz", "band_..._khz", gate.name): limit_of(gate) for gate in COMMON}
    code |= {f"{gate.name} (fp16)": limit_of(gate) for gate in FP16_ONLY}
    stated = {row[0].replace("`", "").split(",")[0]: row[1] for row in ROWS if re.match(r"(>=|<=|within) ", row[1])}
    assert len(stated) > 10
    assert stated.items() <= code.items()


def test_every_control_s_metric_is_named() -> None:
    section = TEXT.split("## Known-bad controls")[1]
    assert {control.metric for control in CONTROLS.values()} <= set(re.findall(r"`(\w+)`:", section))
