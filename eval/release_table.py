"""The release table on a terminal: every level on identical inputs, and the model's own spread beside them.

print_release(levels, choice, seed_floors, chip="m4")
"""

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from eval.choose import NAMED, Choice, whole
from eval.levels import JudgedLevel
from eval.report_words import interval_of, short
from eval.verdict import UNDECIDED

WIDTH = 150  # when stdout is not a terminal
COLOURS = {"SHIP": "green", "REJECT": "red", "UNDECIDED": "yellow"}


def vetoes(level: JudgedLevel) -> str:
    """The first broken gates and how many more there are; without any, what is open."""
    if level.failed:
        return level.failed
    broken = level.record["broken"]
    more = f" and {len(broken) - NAMED} more" if len(broken) > NAMED else ""
    return ", ".join(broken[:NAMED]) + more or ("-" if level.verdict != UNDECIDED else level.record["reasons"][0])


def cells(level: JudgedLevel, whole_bytes: int, chip: str) -> tuple[str, ...]:
    """One level's row: size, compression, int8 share, PESQ, MCD (95 % intervals below), seed floors, latency, verdict, what is wrong."""
    if level.failed:
        return (level.method, *["-"] * 7, "not built", level.failed)
    summary, band = level.record["summary"], level.forecast.get(chip)
    pesq, mcd = summary["pesq"], summary["mcd_db"]
    share = level.facts.int8_macs_share if level.facts else None
    return (
        level.method, f"{level.bytes / 1e6:.2f}", f"{level.bytes / whole_bytes:.3f}" if whole_bytes else "-",
        f"{share:.1%}" if share is not None else "-",
        _pair(pesq["mean"], pesq["worst"]) + _span(level, "pesq"), _number(mcd["mean"]) + _span(level, "mcd_db"),
        _number(_ratio(mcd["mean"], mcd["seed_floor_mean"])), f"{short(band['low_ms'])}-{short(band['high_ms'])}" if band else "-",
        level.verdict, vetoes(level),
    )  # fmt: skip


def headings(chip: str) -> tuple[str, ...]:
    """Column headings."""
    return ("level", "MB", "of fp16", "int8 MACs", "PESQ mean / worst", "MCD dB", "floors", f"ms/s {chip}", "verdict", "broken or open")


def print_release(levels: Sequence[JudgedLevel], choice: Choice, seed_floors: Mapping[str, Mapping[str, float | None]], chip: str) -> None:
    """Table, decision, notes."""
    console = Console()
    console = console if console.is_terminal else Console(width=WIDTH)
    table = Table(title="compression levels against fp32, same features, same noise", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for heading in headings(chip):
        table.add_column(heading, justify="left" if heading in ("level", "verdict", "broken or open") else "right")
    for level in levels:
        base = whole(level, levels)
        *plain, verdict, wrong = cells(level, base.bytes if base else 0, chip)
        table.add_row(*plain, f"[{COLOURS.get(verdict, 'dim')}]{verdict}[/]", wrong)
    table.add_section()
    for name, row in seed_floors.items():
        table.add_row(f"[dim]{name}", "", "", "", _pair(row["pesq"], row["pesq_worst"]), _number(row["mcd_db"]), "", "", "", "")
    table.caption = (
        f"seed floors: MCD in units of what another noise seed does. ms/s {chip}: forecast band per second of audio, not a measurement"
    )
    table.caption_justify = "left"
    console.print(table)
    console.print(f"[bold {COLOURS[choice.verdict]}]{choice.verdict}[/]  {choice.reason}", highlight=False)
    for note in choice.notes:
        console.print(f"  - {note}", highlight=False)


def _pair(mean: float | None, worst: float | None) -> str:
    return f"{_number(mean)} / {_number(worst)}"


def _span(level: JudgedLevel, metric: str) -> str:
    """The mean's 95 % interval on a line of its own."""
    found = interval_of(level.record, metric)
    return f"\n[dim]{_number(found[0])}-{_number(found[1])}[/]" if found else ""


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _ratio(value: float | None, scale: float | None) -> float | None:
    return value / scale if value is not None and scale else None
