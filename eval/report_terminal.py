"""The human table of a judgement.

    print_judgement(judgement, manifest, precision="declared")
"""

from rich.console import Console
from rich.table import Table

from eval.gates import MEAN, SHIP, WORST, Check
from eval.judge import Judgement
from eval.metrics.registry import METRICS
from pipeline.manifest import Manifest

WIDTH = 118  # when stdout is not a terminal
COLOURS = {"SHIP": "green", "REJECT": "red", "UNDECIDED": "yellow"}


def print_judgement(judgement: Judgement, manifest: Manifest, precision: str) -> None:
    """Table of metrics, then the verdict and its reasons."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    console.print(metric_table(judgement, manifest, precision))
    verdict = judgement.decision.verdict
    console.print(f"[bold {COLOURS[verdict]}]{verdict}[/]  {judgement.method}, {len(judgement.clips)} clips")
    for reason in judgement.decision.reasons:
        console.print(f"  - {reason}", highlight=False)
    if not manifest.releasable:
        shipped = "the gates hold, but " if verdict == SHIP else ""
        console.print(f"[yellow]{shipped}this is the {manifest.checkpoint['name']} voice: it is never releasable[/]")


def metric_table(judgement: Judgement, manifest: Manifest, precision: str) -> Table:
    """One row a metric: the package's mean and worst, the redraw's, the limits."""
    megabytes = manifest.package_bytes / 1e6
    table = Table(title=f"{manifest.package}  {megabytes:.2f} MB, executed as {precision}, against the fp32 model", title_justify="left")
    table.add_column("metric")
    table.add_column("unit", style="dim")
    for heading in ("mean", "worst", "redraw mean", "redraw worst"):
        table.add_column(heading, justify="right", style="dim" if heading.startswith("redraw") else "")
    table.add_column("limit")
    for name, row in judgement.summary().items():
        checks = {check.gate.statistic: check for check in judgement.decision.checks if check.gate.metric == name}
        cells = (_cell(row[kind], checks.get(kind)) for kind in (MEAN, WORST))
        redraw = (_cell(row[f"redraw_{kind}"], None) for kind in (MEAN, WORST))
        limits = ", ".join(f"{kind} {_rule(check)}" for kind, check in sorted(checks.items()))
        table.add_row(METRICS[name].title, METRICS[name].unit, *cells, *redraw, limits)
    table.caption = "redraw: the fp32 model with another noise seed, for scale; limits marked * are the redraw's own mean"
    table.caption_justify = "left"
    return table


def _cell(value: float | None, check: Check | None) -> str:
    if value is None:
        return "-"
    text = f"{value + 0.0:.3f}"
    return text if check is None else f"[green]{text}[/]" if check.passed else f"[bold red]{text}[/]"


def _rule(check: Check) -> str:
    return check.gate.rule(check.limit) + (" *" if check.gate.in_redraws else "")
