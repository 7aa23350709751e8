"""Forecast what the Neural Engine of a chip takes of a package, in every function and for every
enumerated shape: `python -m mlprogram ane PKG --chip m1`.

Placement is a forecast from the rules in data/ane_rules.json, in two readings
(placement.py); operations, multiply-accumulates, bytes and segments are counts. On a Mac the
device's own answer and times stand beside them; elsewhere those columns say that they were not
measured.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

from mlprogram.errors import EXIT_GOOD, EXIT_MISSED, ProgramError, conclude
from mlprogram.examine.describe import format_mega, format_percent, format_shape, make_table, show
from mlprogram.examine.device import NOT_MEASURED, Facts, load_core_ml, measure
from mlprogram.examine.placement import MEASURES, Forecast, Placement, forecast_placement
from mlprogram.examine.profile import Profile, open_program, profile_program
from mlprogram.examine.rules import Rules, load_rules
from mlprogram.files import check_target, open_aside
from mlprogram.package import open_package

LABEL = "forecast, not a measurement"
_COLOURS = {True: "#2a7f62", False: "#c8553d"}  # of segments on the engine, and elsewhere
_LANES = {True: 0.25, False: -0.25}
_FORMATS = (".png", ".svg", ".pdf")
STDOUT = Path("-")  # of --json: the summary on stdout, on a terminal too
Row = tuple[Forecast, "Facts | None"]


def run(arguments: argparse.Namespace) -> int:
    """The command: tables, files asked for, then the conclusion."""
    for target in filter(None, (_choose_file(arguments), arguments.plot)):
        check_target(target, arguments.package, arguments.rules)
    if arguments.plot:
        check_format(arguments.plot)  # before the other file is written
    rules = load_rules(arguments.rules)
    # Checked before any package is profiled, which takes long.
    chips = [c.lower() for c in arguments.chip] or list(rules.chips)
    for chip in chips:
        rules.find_chip(chip)
    package = open_package(arguments.package)
    functions = [arguments.function] if arguments.function else package.function_names()
    if arguments.shape and len(functions) > 1:
        raise ProgramError(
            f"--shape is of one function; name it by --function: {', '.join(functions)}"
        )
    core_ml = None if arguments.no_device else load_core_ml()
    rows = []
    for name in functions:
        program = open_program(package, name)
        asked = program.shapes(dict(arguments.shape))
        for shapes in [asked] if arguments.shape else program.all_shapes():
            profile = profile_program(program, shapes)
            # A device takes seconds for each shape, so it is asked for the default one alone.
            timed = core_ml if shapes == asked else None
            facts = None if timed is None else measure(timed, program, shapes)
            rows += [(forecast_placement(profile, rules, chip), facts) for chip in chips]
    show(
        f"{package.path}: {LABEL}; rules reviewed {rules.reviewed}",
        make_share_table(rows),
        make_rule_table(rows, rules),
        _make_device_table(rows),
    )
    if arguments.per_op:
        show(*(make_op_table(forecast, facts) for forecast, facts in rows))
    _write_files(arguments, rows, rules)
    # A gate asks of the worst function, shape and chip.
    lowest = min((forecast for forecast, _ in rows), key=lambda row: row.lowest_share("macs"))
    share = 100 * lowest.lowest_share("macs")
    at_least = arguments.at_least
    meaning = (
        f"{share:.0f} % of the MACs at least are forecast on the engine"
        f" ({describe_place(lowest.profile)}, {lowest.chip})"
    )
    missed = at_least is not None and share < at_least
    summary = report(rows, rules, per_op=False)
    return conclude(
        summary,
        EXIT_MISSED if missed else EXIT_GOOD,
        f"{meaning}, {at_least:g} % were asked" if missed else meaning,
        arguments.json == STDOUT,
    )


def _choose_file(arguments: argparse.Namespace) -> Path | None:
    """The file that everything is written to."""
    return None if arguments.json == STDOUT else arguments.json


def _write_files(arguments: argparse.Namespace, rows: list[Row], rules: Rules) -> None:
    file = _choose_file(arguments)
    if file:
        content = report(rows, rules, per_op=True)
        with open_aside(file) as path:
            path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    if arguments.plot:
        first = rows[0][0].profile
        plot_segments(
            [forecast for forecast, _ in rows if forecast.profile is first],
            rules,
            arguments.plot,
        )


def describe_inputs(profile: Profile) -> str:
    """The shapes of inputs that can vary, or of all if none can."""
    flexible = [
        t
        for t in profile.inputs
        if t.name in profile.program.inputs
        and (
            len(profile.program.inputs[t.name].shapes) > 1 or profile.program.inputs[t.name].ranges
        )
    ]
    return ", ".join(f"{t.name} {format_shape(t.shape)}" for t in flexible or profile.inputs)


def describe_place(profile: Profile) -> str:
    """The function and its shapes."""
    return f"{profile.program.function.name}, {describe_inputs(profile)}"


def make_share_table(rows: list[Row]) -> Any:
    """The share of the arithmetic on the engine, optimistic / lowest of all readings: a column for
    each chip, a row for each function and shape; shapes that follow each other with the same shares
    have one.
    """
    shares: dict[str, list[str]] = {}
    for forecast, _ in rows:
        both = forecast.optimistic.share("macs"), forecast.lowest_share("macs")
        cells = shares.setdefault(describe_place(forecast.profile), [])
        # int rounds down, so 100 stands for all of the MACs and nothing less.
        cells.append("/".join(f"{int(100 * share)}" for share in both))
    chips = dict.fromkeys(forecast.chip for forecast, _ in rows)
    table = make_table(f"{LABEL}: % of MACs on the engine, optimistic/lowest", "function", *chips)

    def split_place(item: tuple[str, list[str]]) -> tuple[str, list[str]]:
        return item[0].partition(",")[0], item[1]

    # Neighbours with the same function and the same shares become one row.
    for (_, cells), group in groupby(shares.items(), split_place):
        first, *others = (place for place, _ in group)
        last = f" to {others[-1].rpartition(' ')[2]}" if others else ""
        table.add_row(first + last, *cells)
    return table


def make_rule_table(rows: list[Row], rules: Rules) -> Any:
    """Every rule that concerns an operation here, but for mere notes: what it says, how many
    operations, in which functions from which shape on, which chips.
    """
    table = make_table(
        f"{LABEL}: the rules behind it",
        "rule",
        "says",
        "effect",
        "operations",
        "where, from its first shape on",
        "chips",
        "source",
        "confidence",
        text=8,
    )
    for rule in rules.rules:
        hits = [
            (forecast, finding)
            for forecast, _ in rows
            for findings in (*(op.findings for op in forecast.ops), forecast.graph_findings)
            for finding in findings
            if finding.rule.id == rule.id
        ]
        if not hits or rule.effect == "note":
            continue
        # The most hits in any one forecast, because chips and shapes repeat the operations.
        count = max(Counter(id(forecast) for forecast, _ in hits).values())
        # Read backwards, so that the first hit of a function is written last and stays.
        first = {h[0].profile.program.function.name: h[0].profile for h in reversed(hits)}
        table.add_row(
            rule.id,
            rule.says,
            " or ".join(dict.fromkeys(finding.effect for _, finding in hits)),
            "whole graph" if any(h[1] in h[0].graph_findings for h in hits) else f"up to {count}",
            "; ".join(describe_place(profile) for profile in reversed(first.values())),
            " ".join(dict.fromkeys(forecast.chip for forecast, _ in hits)),
            " ".join(rule.sources),
            rule.confidence,
        )
    return table


def _make_device_table(rows: list[Row]) -> Any:
    """Fact beside forecast, one row for each function; a line where there is no fact."""
    table = make_table(
        "measured on this machine",
        "function",
        "chip",
        "% ops on the engine",
        "load ms",
        "prediction ms (median)",
    )
    # The rows of all chips share one measurement, which is shown once.
    timed = {id(facts): (forecast.profile, facts) for forecast, facts in rows if facts is not None}
    for profile, facts in timed.values():
        for unit, timing in facts.timings.items():
            share = format_percent(facts.share_on_engine()) if unit == "CPU_AND_NE" else ""
            table.add_row(
                describe_place(profile),
                f"{facts.chip} {unit}",
                share,
                f"{timing.load_ms:.0f}",
                f"{timing.median_ms:.2f}",
            )
    return table if timed else f"placement and times: {NOT_MEASURED}"


def make_op_table(forecast: Forecast, facts: Facts | None) -> Any:
    """Every operation of one forecast: verdict, rules with what is over their limit, and the
    device's answer. Shares, segments and crossings stand above, optimistic / pessimistic.
    """
    both = (forecast.optimistic, forecast.pessimistic)
    shares = [" / ".join(format_percent(r.share(measure)) for r in both) for measure in MEASURES]
    segments = " / ".join(str(r.cut.engine_segments) for r in both)
    crossings = " / ".join(str(r.cut.crossings) for r in both)
    table = make_table(
        f"{LABEL}: {forecast.chip}, {describe_place(forecast.profile)}: % of operations"
        f" {shares[0]}, of MACs {shares[1]}, of bytes {shares[2]}; segments {segments}, crossings"
        f" {crossings}",
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
            format_mega(op.profile.macs),
            format_mega(op.profile.bytes_moved),
            device,
        )
    return table


def report(rows: list[Row], rules: Rules, per_op: bool) -> dict[str, Any]:
    """Everything for JSON."""
    return {
        "package": str(rows[0][0].profile.program.package.path),
        "label": LABEL,
        "rules": rules.path,
        "rules_reviewed": rules.reviewed,
        "forecasts": [_describe_forecast(*row, per_op) for row in rows],
    }


def _describe_forecast(forecast: Forecast, facts: Facts | None, per_op: bool) -> dict[str, Any]:
    result = {
        "chip": forecast.chip,
        "function": forecast.profile.program.function.name,
        "inputs": {t.name: list(t.shape) for t in forecast.profile.inputs},
        **{
            name: _describe_reading(getattr(forecast, name))
            for name in ("optimistic", "pessimistic", "cpu_fallback")
        },
        "rules": forecast.count_rules(("leaves", "may_leave", "graph_may_fail", "cost")),
        "whole_graph": [{"rule": f.rule.id, "detail": f.detail} for f in forecast.graph_findings],
        "device": _describe_facts(facts),
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


def _describe_reading(reading: Placement | None) -> dict[str, Any] | None:
    if reading is None:
        return None
    return {
        "share": dict(reading.shares),
        "segments": reading.cut.engine_segments,
        "crossings": reading.cut.crossings,
        "crossing_bytes": reading.cut.crossing_bytes,
    }


def _describe_facts(facts: Facts | None) -> Any:
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
    # Bars grow upwards, so the last row is drawn first.
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
    with open_aside(path) as unfinished:
        figure.savefig(unfinished, dpi=120)


def _draw_row(axes: Any, place: int, forecast: Forecast, reading: Placement) -> None:
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
        f" {format_percent(reading.share('macs'))} % of MACs, {cut.engine_segments} engine"
        f" segments, {cut.crossings} crossings"
    )
    axes.text(left, place, text, va="center", fontsize=8)
    axes.set_xlim(right=max(axes.get_xlim()[1], left * 1.5))
