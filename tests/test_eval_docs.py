"""docs/metrics.md says what the code does: every metric, gate and control, word for word."""

from pathlib import Path

import pytest

from eval.gates import COMMON, EXTRA
from eval.known_bad import CONTROLS
from eval.metrics.registry import METRICS

TEXT = (Path(__file__).resolve().parents[1] / "docs" / "metrics.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", METRICS)
def test_metric_row(name: str) -> None:
    metric = METRICS[name]
    cells = (f"`{name}`", metric.unit, metric.best, metric.formula, metric.silence, metric.source, metric.limits)
    assert f"| {' | '.join(cells)} |" in TEXT


def test_gate_rows() -> None:
    rows = [(gate, "all") for gate in COMMON] + [(gate, method) for method, gates in EXTRA.items() for gate in gates]
    for gate, methods in rows:
        limit = gate.rule(gate.limit) + (" seed floor" if gate.in_seed_floors else "")
        assert f"| `{gate.name}` | {limit} | {methods} | {gate.reason} |" in TEXT


def test_control_rows() -> None:
    for control in CONTROLS.values():
        assert f"| {control.name} | `{control.metric}` | {control.seen} |" in TEXT
