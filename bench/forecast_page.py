"""Rows of bench.forecast_table as Markdown: a summary, what the forms cost, then one table for each form.

print(render(rows, load_rules()))
"""

from collections.abc import Iterable

from bench.forecast_table import Row
from mlprogram.examine.report import percent, span
from mlprogram.examine.rules import Rules

AT_RISK = " *"  # a rule says that the whole graph may stay off
HEADINGS = (
    "chip", "s", "% ops", "% MACs", "% trunk MACs", "% bytes", "segments", "crossings", "MB crossing", "optimistic ms", "pessimistic ms",
)


def markdown(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table as text."""
    headings = tuple(headings)
    lines = (headings, tuple("---" for _ in headings), *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def render(rows: list[Row], rules: Rules) -> str:
    """The whole generated part."""
    forms = list(dict.fromkeys(row.form for row in rows))
    parts = [
        f"Rules reviewed {rules.reviewed}.",
        "### Share of the trunk's MACs on the engine, %, and in how many segments: optimistic / pessimistic",
        summary(rows, rules),
        "### What each form is made of",
        costs(rows, rules),
    ]
    for form in forms:
        parts += [f"### {form}", form_table([row for row in rows if row.form == form], rules)]
    return "\n\n".join(parts)


def summary(rows: list[Row], rules: Rules) -> str:
    """Chips with the same cells at every length share their lines."""
    forms, lengths = list(dict.fromkeys(row.form for row in rows)), sorted({row.seconds for row in rows})
    cells = {(row.form, row.chip, row.seconds): _trunk(row) for row in rows}
    groups: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for chip in dict.fromkeys(row.chip for row in rows):
        block = tuple(tuple(cells.get((form, chip, seconds), "") for form in forms) for seconds in lengths)
        groups.setdefault(block, []).append(rules.chips[chip].name)
    lines = [(", ".join(names), str(s), *line) for block, names in groups.items() for s, line in zip(lengths, block, strict=True)]
    return markdown(("chips", "s", *forms), lines)


def _trunk(row: Row) -> str:
    cells = (f"{percent(reading.trunk_macs)} in {reading.segments}" for reading in (row.optimistic, row.pessimistic))
    return f"{' / '.join(cells)}{AT_RISK if row.risks else ''}"


def costs(rows: list[Row], rules: Rules) -> str:
    """Length held, operations, arithmetic and bytes; a form with builds for some chips has a line for each build."""
    found: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        each = (f"{row.gmac / row.held_s:.1f}", f"{row.moved_mb:,.0f}", f"{row.moved_mb / row.held_s:,.0f}")
        key = (row.form, str(row.seconds), f"{row.held_s:g}", str(row.operations), *each)
        found.setdefault(key, []).append(rules.chips[row.chip].name)
    every = len({row.chip for row in rows})
    lines = [(form, "all" if len(chips) == every else ", ".join(chips), *cells) for (form, *cells), chips in found.items()]
    return markdown(("form", "chips", "s asked", "s held", "operations", "GMAC / s held", "MB moved", "MB / s held"), lines)


def form_table(rows: list[Row], rules: Rules) -> str:
    """A line for each chip and length."""
    return markdown((*HEADINGS, "or all off, ms"), (_line(row, rules) for row in rows))


def _line(row: Row, rules: Rules) -> tuple[str, ...]:
    both = (row.optimistic, row.pessimistic)
    shares = (" / ".join(percent(getattr(r, name)) for r in both) for name in ("ops", "macs", "trunk_macs", "moved"))
    counts = (" / ".join(str(getattr(r, name)) for r in both) for name in ("segments", "crossings"))
    crossing = " / ".join(f"{r.crossing_mb:,.1f}" for r in both)
    times = (span(r.low_ms, r.high_ms) for r in both)
    cpu_fallback = "" if row.cpu_fallback_ms is None else f"{', '.join(row.risks)}: {span(*row.cpu_fallback_ms)}"
    return (rules.chips[row.chip].name, str(row.seconds), *shares, *counts, crossing, *times, cpu_fallback)
