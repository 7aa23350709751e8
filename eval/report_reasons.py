"""Why levels do not ship, in words and each reason once, with the levels it concerns; and every figure of a level.

html = reasons(record)
"""

from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Any

from eval.metrics.registry import METRICS
from eval.report_words import digits_of, figure, limit_of, metric_of
from eval.verdict import HOLDS, MISSING, STRADDLES

Case = tuple[Mapping[str, Any], Mapping[str, Any]]  # a level and one of its checks


def reasons(record: Mapping[str, Any]) -> str:
    """One paragraph a reason that some level does not satisfy; then what else was said of levels; first who keeps every gate."""
    judged = [level for level in record["levels"] if level.get("clips")]
    found: dict[str, dict[str, list[Case]]] = {}  # by reason, by gate
    for level in judged:
        for check in level["checks"]:
            if check["state"] != HOLDS:
                found.setdefault(check["reason"], {}).setdefault(check["gate"], []).append((level, check))
    ordered = sorted(found.items(), key=lambda item: -max(len(cases) for cases in item[1].values()))
    said = "".join(_reason(reason, gates) for reason, gates in ordered)
    keeping = [level["method"] for level in judged if all(check["state"] == HOLDS for check in level["checks"])]
    kept = f"<p>Every gate holds for {escape(', '.join(keeping))}.</p>" if keeping else "<p>No level keeps every gate.</p>"
    return kept + said + _others(judged, {gate for gates in found.values() for gate in gates})


def _reason(reason: str, gates: Mapping[str, list[Case]]) -> str:
    """Why a limit is there, once, below every gate that has this reason."""
    lines = "".join(f"<p>{_gate(gate, cases)}.</p>" for gate, cases in gates.items())
    return f'<div class="reason">{lines}<p class="pale">{escape(reason)}</p></div>'


def _gate(gate: str, cases: Sequence[Case]) -> str:
    metric, kind = gate.split()[:2]
    told = "; ".join(_case(level, check) for level, check in cases)
    return f"<b>{escape(METRICS[metric].title)}</b>, {'worst sentence' if kind == 'worst' else kind}: {told}"


def _case(level: Mapping[str, Any], check: Mapping[str, Any]) -> str:
    digits, unit = digits_of(metric_of(check)), METRICS[metric_of(check)].unit
    if check["state"] == MISSING:
        return f"{escape(level['method'])} not measured"
    low, high = check["low"], check["high"]
    span = f" ({figure(low, digits)} to {figure(high, digits)})" if low is not None and low != high else ""
    doubt = " – too near to tell" if check["state"] == STRADDLES else ""
    told = f"{figure(check['value'], digits)} {unit}{span}, limit {figure(limit_of(check), digits)}"
    return f"{escape(level['method'])} {escape(told)}{doubt}"


def _others(judged: list[Mapping[str, Any]], found: Collection[str]) -> str:
    """Defects, too few clips, doubts: reasons that no gate gave, each once."""
    said: dict[str, list[str]] = {}
    for level in judged:
        for reason in level["reasons"]:
            if reason != "every gate holds" and not any(reason.startswith(gate) for gate in found):
                said.setdefault(reason, []).append(level["method"])
    return "".join(f'<div class="reason"><p>{escape(reason)}: {escape(", ".join(names))}.</p></div>' for reason, names in said.items())


def every_figure(level: Mapping[str, Any]) -> str:
    """Every metric of a level beside its seed floor, with its gates."""
    columns = ("mean", "worst", "seed_floor_mean", "seed_floor_worst")
    names = ("mean", "worst", "another seed, mean", "another seed, worst")
    rows = ""
    for metric, line in level["summary"].items():
        cells = "".join(
            f'<td data-label="{name}">{figure(line[column], digits_of(metric))}</td>' for name, column in zip(names, columns, strict=True)
        )
        gates = ", ".join(f"{c['gate'].split()[1]} {c['rule']}: {c['state']}" for c in level["checks"] if metric_of(c) == metric)
        title = f"{escape(METRICS[metric].title)} <small>{escape(METRICS[metric].unit)}</small>"
        rows += f'<tr><td>{title}</td>{cells}<td class="left wide">{escape(gates)}</td></tr>'
    head = "".join(f"<th>{name}</th>" for name in ("metric", *names, "gate"))
    table = f'<table class="stack"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f"<details><summary>{escape(level['method'])}</summary>{table}</details>"
