"""The human table of a judgement.

print_judgement(level)
"""

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from core.config import not_releasable
from core.contract import BOTH
from core.errors import InputError
from eval.gates import MEAN, WORST
from eval.judge import Judgement
from eval.levels import JudgedLevel
from eval.metrics.registry import METRICS
from eval.verdict import BROKEN, HOLDS, MISSING, SHIP, STRADDLES, Check

WIDTH = 118  # when stdout is not a terminal
STATES = {HOLDS: "green", BROKEN: "bold red", STRADDLES: "yellow", MISSING: "yellow"}
COLOURS = {"SHIP": "green", "REJECT": "red", "UNDECIDED": "yellow"}


def print_judgement(level: JudgedLevel) -> None:
    """Table of metrics, then the verdict and its reasons."""
    judgement, manifest = level.judgement, level.manifest
    if judgement is None or manifest is None:
        raise InputError(f"{level.method} was not judged: {level.failed}")
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    made = level.record["provenance"]
    console.print(
        metric_table(
            judgement, f"{manifest.package}  {level.bytes / 1e6:.2f} MB, {made['precision']} precision, features by {made['features']}"
        )
    )
    verdict = judgement.decision.verdict
    console.print(f"[bold {COLOURS[verdict]}]{verdict}[/]  {judgement.method}, clips: {len(judgement.clips)}")
    for reason in judgement.decision.reasons:
        console.print(f"  - {reason}", highlight=False)
    if made["set"] != BOTH and any(check.state == STRADDLES for check in judgement.decision.checks):
        console.print(f"  - `--set {BOTH}` judges twice as many clips", highlight=False)
    if not level.record["releasable"]:
        shipped = "the gates hold, but " if verdict == SHIP else ""
        console.print(f"[yellow]{shipped}{not_releasable(manifest.checkpoint['name'])}[/]")


def metric_table(judgement: Judgement, title: str) -> Table:
    """One row a metric: the package's mean and worst, the other seed's, the limits."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("metric")
    for heading in ("mean", "worst", "seed floor\nmean", "seed floor\nworst"):
        table.add_column(heading, justify="right", style="dim" if heading.startswith("seed floor") else "")
    table.add_column("limit")
    for name, row in judgement.summary().items():
        checks = {check.gate.statistic: check for check in judgement.decision.checks if check.gate.metric == name}
        cells = (_cell(row[kind], checks.get(kind)) for kind in (MEAN, WORST))
        other_seed = (_cell(row[f"seed_floor_{kind}"], None) for kind in (MEAN, WORST))
        limits = ", ".join(f"{kind} {_rule(check)}" for kind, check in sorted(checks.items()))
        table.add_row(f"{METRICS[name].title} [dim]{METRICS[name].unit}[/]", *cells, *other_seed, limits)
    table.caption = "seed floor: fp32 with another noise seed, for scale; * the limit is its mean"
    table.caption_justify = "left"
    return table


def _cell(value: float | None, check: Check | None) -> str:
    if value is None:
        return "-"
    text = f"{value + 0.0:.3f}"
    return text if check is None else f"[{STATES[check.state]}]{text}[/]"


def _rule(check: Check) -> str:
    return check.gate.rule(check.limit) + (" *" if check.gate.in_seed_floors else "")
