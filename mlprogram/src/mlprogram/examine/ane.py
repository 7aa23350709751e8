"""Forecast what the Neural Engine of a chip takes of a program: `python -m mlprogram ane PKG --chip
m1`.

Placement is a forecast from the rules in data/ane_rules.json, in two readings
(placement.py); operations, multiply-accumulates, bytes and segments are counts. On a Mac the
device's own answer and times stand beside them; elsewhere those columns say that they were not
measured.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from mlprogram.errors import EXIT_GOOD, EXIT_MISSED, ProgramError, conclude
from mlprogram.examine.describe import mega, new_table, percent, shape_text, show
from mlprogram.examine.device import NOT_MEASURED, Facts, load_core_ml, measure
from mlprogram.examine.placement import MEASURES, Forecast, Reading, forecast_placement
from mlprogram.examine.profile import OpenProgram, Profile, open_program, profile_program
from mlprogram.examine.rules import Rules, load_rules
from mlprogram.files import aside, check_target

LABEL = "forecast, not a measurement"
_COLOURS = {True: "#2a7f62", False: "#c8553d"}  # of segments on the engine, and elsewhere
_LANES = {True: 0.25, False: -0.25}
_FORMATS = (".png", ".svg", ".pdf")
STDOUT = Path("-")  # of --json: the summary on stdout, on a terminal too
Row = tuple[Forecast, "Facts | None"]


def run(arguments: argparse.Namespace) -> int:
    """The command: tables, files asked for, then the conclusion."""
    for target in filter(None, (_file(arguments), arguments.plot)):
        check_target(target, arguments.package, arguments.rules)
    if arguments.plot:
        check_format(arguments.plot)  # before the other file is written
    rules = load_rules(arguments.rules)
    chips = [c.lower() for c in arguments.chip] or list(rules.chips)
    for chip in chips:
        rules.chip(chip)
    if arguments.all_shapes and arguments.shape:
        raise ProgramError(
            "--all-shapes and --shape exclude each other: the one takes every enumerated shape, the"
            " other names one"
        )
    program = open_program(arguments.package, arguments.function)
    choices = (
        program.all_shapes() if arguments.all_shapes else [program.shapes(dict(arguments.shape))]
    )
    rows = [
        row
        for shapes in choices
        for row in _rows(program, shapes, chips, rules, arguments.no_device)
    ]
    show(
        f"{program.package.path}  function {program.function.name}: {LABEL}; rules reviewed"
        f" {rules.reviewed}",
        share_table(rows),
        rule_table(rows, rules),
        _device_table(rows),
    )
    if arguments.per_op:
        show(*(per_op_table(forecast, facts) for forecast, facts in rows))
    _write_files(arguments, rows, rules)
    lowest, at_least = 100 * min(row.lowest_share("macs") for row, _ in rows), arguments.at_least
    meaning, code = f"{lowest:.0f} % of the MACs at least are forecast on the engine", EXIT_GOOD
    if at_least is not None and lowest < at_least:
        meaning, code = f"{meaning}, {at_least:g} % were asked", EXIT_MISSED
    summary = report(program, rows, rules, per_op=False)
    return conclude(summary, code, meaning, arguments.json == STDOUT)


def _file(arguments: argparse.Namespace) -> Path | None:
    """The file that everything is written to."""
    return None if arguments.json == STDOUT else arguments.json


def _rows(
    program: OpenProgram,
    shapes: dict[str, tuple[int, ...]],
    chips: list[str],
    rules: Rules,
    no_device: bool,
) -> list[Row]:
    profile = profile_program(program, shapes)
    core_ml = None if no_device else load_core_ml()
    facts = None if core_ml is None else measure(core_ml, program, shapes)
    return [(forecast_placement(profile, rules, chip), facts) for chip in chips]


def _write_files(arguments: argparse.Namespace, rows: list[Row], rules: Rules) -> None:
    file = _file(arguments)
    if file:
        content = report(rows[0][0].profile.program, rows, rules, per_op=True)
        with aside(file) as path:
            path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    if arguments.plot:
        first = rows[0][0].profile
        plot_segments(
            [forecast for forecast, _ in rows if forecast.profile is first],
            rules,
            arguments.plot,
        )


def inputs_text(profile: Profile) -> str:
    """The shapes of inputs that can vary, or of all if none can."""
    flexible = [
        t
        for t in profile.inputs
        if t.name in profile.program.inputs
        and (
            len(profile.program.inputs[t.name].shapes) > 1 or profile.program.inputs[t.name].ranges
        )
    ]
    return ", ".join(f"{t.name} {shape_text(t.shape)}" for t in flexible or profile.inputs)


def share_table(rows: list[Row]) -> Any:
    """Shares on the engine as optimistic / pessimistic, segments and crossings, one row for each
    shape and chip.
    """
    table = new_table(
        f"{LABEL}: share on the engine, optimistic / pessimistic reading",
        "shape",
        "chip",
        "% ops",
        "% MACs",
        "% bytes",
        "segments",
        "crossings",
        "whole graph may stay off",
    )
    for forecast, _ in rows:
        both = (forecast.optimistic, forecast.pessimistic)
        table.add_row(
            inputs_text(forecast.profile),
            forecast.chip,
            *(" / ".join(percent(r.share(m)) for r in both) for m in MEASURES),
            " / ".join(str(r.cut.engine_segments) for r in both),
            " / ".join(str(r.cut.crossings) for r in both),
            ", ".join(f.rule.id for f in forecast.graph_findings),
        )
    return table


def rule_table(rows: list[Row], rules: Rules) -> Any:
    """Every rule that concerns an operation here, but for mere notes: what it says, how many
    operations, which chips.
    """
    table = new_table(
        f"{LABEL}: the rules behind it",
        "rule",
        "says",
        "effect",
        "operations",
        "chips",
        "source",
        "confidence",
        text=7,
    )
    for rule in rules.rules:
        hits = [
            (forecast.chip, f.effect, f.detail)
            for forecast, _ in rows
            for findings in (*(op.findings for op in forecast.ops), forecast.graph_findings)
            for f in findings
            if f.rule.id == rule.id
        ]
        if hits and rule.effect != "note":
            most = max(
                Counter(
                    (id(forecast), f.rule.id)
                    for forecast, _ in rows
                    for op in forecast.ops
                    for f in op.findings
                    if f.rule.id == rule.id
                ).values(),
                default=0,
            )
            table.add_row(
                rule.id,
                rule.says,
                " or ".join(dict.fromkeys(h[1] for h in hits)),
                f"up to {most}" if most else "whole graph",
                " ".join(dict.fromkeys(h[0] for h in hits)),
                " ".join(rule.sources),
                rule.confidence,
            )
    return table


def _device_table(rows: list[Row]) -> Any:
    """Fact beside forecast, one row for each shape."""
    table = new_table(
        "measured on this machine",
        "shape",
        "chip",
        "% ops on the engine",
        "load ms",
        "prediction ms (median)",
    )
    profiles = {id(forecast.profile): (forecast.profile, facts) for forecast, facts in rows}
    for profile, facts in profiles.values():
        if facts is None:
            table.add_row(inputs_text(profile), *[NOT_MEASURED] * 4)
            continue
        for unit, timing in facts.timings.items():
            share = percent(facts.share_on_engine()) if unit == "CPU_AND_NE" else ""
            table.add_row(
                inputs_text(profile),
                f"{facts.chip} {unit}",
                share,
                f"{timing.load_ms:.0f}",
                f"{timing.median_ms:.2f}",
            )
    return table


def per_op_table(forecast: Forecast, facts: Facts | None) -> Any:
    """Every operation of one forecast: verdict, rules with what is over their limit, and the
    device's answer.
    """
    table = new_table(
        f"{LABEL}: {forecast.chip}, {inputs_text(forecast.profile)}",
        "type",
        "name",
        "verdict",
        "rules",
        "MMAC",
        "MB",
        "device",
        text=4,
    )
    for op in forecast.ops:
        rules = "; ".join(
            f"{f.rule.id} ({f.effect}): {f.detail}" for f in op.findings if f.effect != "note"
        )
        device = (
            NOT_MEASURED
            if facts is None
            else facts.placement.get(op.profile.name, "not in the plan")
        )
        table.add_row(
            op.profile.op_type,
            op.profile.name,
            op.verdict,
            rules,
            mega(op.profile.macs),
            mega(op.profile.bytes_moved),
            device,
        )
    return table


def report(program: OpenProgram, rows: list[Row], rules: Rules, per_op: bool) -> dict[str, Any]:
    """Everything for JSON."""
    return {
        "package": str(program.package.path),
        "function": program.function.name,
        "label": LABEL,
        "rules": rules.path,
        "rules_reviewed": rules.reviewed,
        "forecasts": [_forecast(*row, per_op) for row in rows],
    }


def _forecast(forecast: Forecast, facts: Facts | None, per_op: bool) -> dict[str, Any]:
    result = {
        "chip": forecast.chip,
        "inputs": {t.name: list(t.shape) for t in forecast.profile.inputs},
        **{
            name: _reading(getattr(forecast, name))
            for name in ("optimistic", "pessimistic", "cpu_fallback")
        },
        "rules": forecast.rule_counts(("leaves", "may_leave", "graph_may_fail", "cost")),
        "whole_graph": [{"rule": f.rule.id, "detail": f.detail} for f in forecast.graph_findings],
        "device": _facts(facts),
    }
    if per_op:
        result["ops"] = [
            {
                "name": op.profile.name,
                "op_type": op.profile.op_type,
                "verdict": op.verdict,
                "macs": op.profile.macs,
                "bytes_moved": op.profile.bytes_moved,
                "findings": [
                    {
                        "rule": f.rule.id,
                        "effect": f.effect,
                        "detail": f.detail,
                        "sources": list(f.rule.sources),
                    }
                    for f in op.findings
                ],
            }
            for op in forecast.ops
        ]
    return result


def _reading(reading: Reading | None) -> dict[str, Any] | None:
    if reading is None:
        return None
    return {
        "share": dict(reading.shares),
        "segments": reading.cut.engine_segments,
        "crossings": reading.cut.crossings,
        "crossing_bytes": reading.cut.crossing_bytes,
    }


def _facts(facts: Facts | None) -> Any:
    if facts is None:
        return NOT_MEASURED
    return {
        "chip": facts.chip,
        "share_of_ops": facts.share_on_engine(),
        "placement": dict(facts.placement),
        "timings": {
            unit: {"load_ms": t.load_ms, "predict_ms": list(t.predict_ms)}
            for unit, t in facts.timings.items()
        },
    }


def check_format(path: Path) -> None:
    """ProgramError unless the name ends as a picture's."""
    if path.suffix.lower() not in _FORMATS:
        raise ProgramError(f"--plot {path}: the name must end in one of {', '.join(_FORMATS)}")


def plot_segments(forecasts: list[Forecast], rules: Rules, path: Path) -> None:
    """Write the figure. Raises ProgramError for another file type or if matplotlib is not there."""
    check_format(path)
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ProgramError(
            "--plot needs matplotlib: pip install 'coreml-mlprogram[plot]'"
        ) from error
    rows = [(forecast, name) for forecast in forecasts for name in ("optimistic", "pessimistic")]
    figure = Figure(figsize=(11, 1.4 + 0.55 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    for place, (forecast, name) in enumerate(reversed(rows)):
        _draw_row(axes, place, forecast, getattr(forecast, name))
    axes.set_yticks(
        range(len(rows)), [f"{rules.chips[f.chip].name} {name}" for f, name in reversed(rows)]
    )
    axes.set_xlabel(
        "MB moved by the segments in the order they run, every operand of every operation counted"
    )
    axes.set_title(
        f"{forecasts[0].profile.program.package.path.name}: forecast, not a measurement", loc="left"
    )
    handles = [
        axes.barh([0], [0], color=_COLOURS[on], label=label)
        for on, label in ((True, "Neural Engine"), (False, "elsewhere"))
    ]
    figure.legend(handles=handles, loc="outside lower right", ncols=2, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    with aside(path) as unfinished:
        figure.savefig(unfinished, dpi=120)


def _draw_row(axes: Any, place: int, forecast: Forecast, reading: Reading) -> None:
    left = 0.0
    for segment in reading.cut.segments:
        width = sum(forecast.profile.ops[i].bytes_moved for i in segment.ops) / 1e6
        axes.barh(
            place + _LANES[segment.on_engine],
            width,
            left=left,
            height=0.42,
            color=_COLOURS[segment.on_engine],
            edgecolor="white",
            linewidth=0.3,
        )
        left += width
    cut = reading.cut
    text = (
        f" {percent(reading.share('macs'))} % of MACs, {cut.engine_segments} engine segments,"
        f" {cut.crossings} crossings"
    )
    axes.text(left, place, text, va="center", fontsize=8)
    axes.set_xlim(right=max(axes.get_xlim()[1], left * 1.5))
