"""The human table of a judgement.

print_judgement(level)
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from kokoro_ane.core.commands import print_table
from kokoro_ane.core.config import not_releasable
from kokoro_ane.core.contract import BOTH
from kokoro_ane.core.errors import InputError
from kokoro_ane.eval.decision import Choice, whole
from kokoro_ane.eval.gates import MEAN, WORST
from kokoro_ane.eval.judge import Judgement
from kokoro_ane.eval.levels import JudgedLevel
from kokoro_ane.eval.metrics.catalog import METRICS
from kokoro_ane.eval.renditions import COMPARISONS
from kokoro_ane.eval.report_figures import figure, interval_of, tightest, used
from kokoro_ane.eval.verdict import BROKEN, HOLDS, MISSING, SHIP, STRADDLES, Check

WIDTH = 118  # when stdout is not a terminal
RELEASE_WIDTH = 150
PARTS = ("text", "encoder", "vocoder", "voice")  # of a product
STATES = {HOLDS: "green", BROKEN: "bold red", STRADDLES: "yellow", MISSING: "yellow"}
PASSED = {
    HOLDS: "[green]yes[/]",
    STRADDLES: "[yellow]open[/]",
    MISSING: "[yellow]open[/]",
    BROKEN: "[bold red]NO[/]",
}
COLOURS = {"SHIP": "green", "REJECT": "red", "UNDECIDED": "yellow"}


def console_of(width: int) -> Console:
    """Return a console for stdout; it has that width where stdout is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=width)


def print_judgement(level: JudgedLevel) -> None:
    """The verdict, the gate nearest to its limit and the reasons, then the table of metrics."""
    judgement, manifest, record = level.judgement, level.manifest, level.record
    if judgement is None or manifest is None:
        raise InputError(f"{level.method} was not judged: {level.failed}")
    console, source = console_of(WIDTH), record["provenance"]
    verdict, nearest = judgement.decision.verdict, tightest(record)
    subject = f"{judgement.method}, clips: {len(judgement.clips)}"
    console.print(f"[bold {COLOURS[verdict]}]{verdict}[/]  {subject}")
    if not record["releasable"]:
        shipped = "the gates hold, but not releasable: " if verdict == SHIP else ""
        why = record["withheld"] or not_releasable(manifest.checkpoint["name"])
        console.print(f"[yellow]{shipped}{why}[/]", highlight=False, soft_wrap=True)
    if nearest:
        share = 100 * (used(nearest) or 0)
        figure = f"{nearest['gate']} is {nearest['value']:.4g}, limit {nearest['rule']}"
        line = f"tightest gate: {figure}, {share:.0f} % used"
        console.print(line, highlight=False, soft_wrap=True)
    for reason in judgement.decision.reasons:
        console.print(f"  - {reason}", highlight=False)
    near = any(check.state == STRADDLES for check in judgement.decision.checks)
    if source["set"] != BOTH and near:
        console.print(f"  - `--set {BOTH}` judges twice as many clips", highlight=False)
    megabytes = source["package_bytes"] / 1e6
    how = f"{source['precision']} precision, features by {source['features']}"
    title = f"{', '.join(source['packages'])}  {megabytes:.2f} MB, {how}"
    console.print(metric_table(judgement, title, COMPARISONS[record["stage"]].scale))


def metric_table(judgement: Judgement, title: str, scale: str) -> Table:
    """One row a metric: the subject's mean and worst, the natural variation's, the limits. `scale`:
    what that variation is, in words.
    """
    table = Table(
        title=title,
        title_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("metric")
    for heading in ("mean", "worst", "variation\nmean", "variation\nworst"):
        style = "dim" if heading.startswith("variation") else ""
        table.add_column(heading, justify="right", style=style)
    table.add_column("pass")
    table.add_column("limit")
    for name, row in judgement.summary().items():
        checks = {
            check.gate.statistic: check
            for check in judgement.decision.checks
            if check.gate.metric == name
        }
        cells = [_cell(row[kind], checks.get(kind)) for kind in (MEAN, WORST)]
        cells += [_cell(row[f"variation_{kind}"], None) for kind in (MEAN, WORST)]
        # A star stands at a limit that moves with the natural variation.
        limits = ", ".join(
            f"{kind} {check.gate.rule(check.limit)}" + (" *" if check.gate.multiple else "")
            for kind, check in sorted(checks.items())
        )
        state = max(
            (check.state for check in checks.values()),
            key=(HOLDS, STRADDLES, MISSING, BROKEN).index,
            default="",
        )
        table.add_row(
            f"{METRICS[name].title} [dim]{METRICS[name].unit}[/]",
            *cells,
            PASSED.get(state, ""),
            limits,
        )
    table.caption = f"variation: {scale}, for scale; * the limit is its mean"
    table.caption_justify = "left"
    return table


def _cell(value: float | None, check: Check | None) -> str:
    text = figure(value, 3)
    return f"[{STATES[check.state]}]{text}[/]" if check else text


def cells(level: JudgedLevel, whole_bytes: int) -> tuple[str, ...]:
    """One level's row: size, int8 share, PESQ, MCD (95 % intervals below) and MCD in seeds,
    verdict, what is wrong.
    """
    if level.failed:
        return (level.method, *["-"] * 6, "not built", level.failed)
    summary = level.record["summary"]
    pesq, mcd = summary["pesq"], summary["mcd_db"]
    share = level.facts.int8_macs_share if level.facts else None
    seeds = None
    if mcd["mean"] is not None and mcd["variation_mean"]:
        seeds = mcd["mean"] / mcd["variation_mean"]
    return (
        f"{level.method}\n[dim]{level.title}[/]",
        f"{level.bytes / 1e6:.2f}",
        f"{level.bytes / whole_bytes:.3f}" if whole_bytes else "-",
        f"{share:.1%}" if share is not None else "-",
        f"{figure(pesq['mean'])} / {figure(pesq['worst'])}" + _span(level, "pesq"),
        figure(mcd["mean"]) + _span(level, "mcd_db"),
        figure(seeds),
        level.verdict,
        level.problem or "-",
    )


def print_release(levels: Sequence[JudgedLevel], choice: Choice, record: Mapping[str, Any]) -> None:
    """Print decision, notes and the table of levels."""
    console = console_of(RELEASE_WIDTH)
    table = Table(
        title="compression levels against fp32, same features, same noise",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("level")
    for heading in ("MB", "of fp16", "int8 MACs", "PESQ mean / worst", "MCD dB", "of seeds"):
        table.add_column(heading, justify="right")
    table.add_column("verdict")
    table.add_column("broken or open")
    for level in levels:
        base = whole(level, levels)
        *plain, verdict, wrong = cells(level, base.bytes if base else 0)
        table.add_row(*plain, f"[{COLOURS.get(verdict, 'dim')}]{verdict}[/]", wrong)
    table.add_section()
    for name, row in record["spread"].items():
        pesq = f"{figure(row['pesq'])} / {figure(row['pesq_worst'])}"
        table.add_row(f"[dim]{name}", "", "", "", pesq, figure(row["mcd_db"]))
    table.caption = "of seeds: MCD in units of what another noise seed does"
    table.caption_justify = "left"
    console.print(
        f"[bold {COLOURS[choice.verdict]}]{choice.verdict}[/]  {choice.reason}", highlight=False
    )
    for note in choice.notes:
        console.print(f"  - {note}", highlight=False)
    console.print(table)


def _span(level: JudgedLevel, metric: str) -> str:
    """Write the mean's 95 % interval on a line of its own."""
    interval = interval_of(level.record, metric)
    return f"\n[dim]{figure(interval[0])}-{figure(interval[1])}[/]" if interval else ""


def print_products(products: Sequence[JudgedLevel], choice: Choice, _: Mapping[str, Any]) -> None:
    """Print decision, notes, the table of products, and what is wrong with each."""
    print("\n  - ".join((f"{choice.verdict}  {choice.reason}", *choice.notes)))
    rows = []
    for one in products:
        sizes = [f"{one.record['parts'][part] / 1e6:.2f}" if one.record else "-" for part in PARTS]
        mcd = one.record.get("summary", {}).get("mcd_db")
        near = f"{mcd['mean']:.2f} ({mcd['variation_mean']:.2f})" if mcd else "-"
        rows.append((one.method, *sizes, f"{one.bytes / 1e6:.2f}", near, one.verdict))
    print_table(
        "MB of each part; MCD, dB (of a neighbouring row)",
        ("product", *PARTS, "all", "MCD", ""),
        rows,
    )
    for one in products:
        if one.verdict != SHIP:
            print(f"{one.method}: {one.failed or '; '.join(one.record['reasons'])}")
