"""What a person sees of a judgement: on a terminal at most a screen, elsewhere every metric.

    print_judgement(level, file)
    print_release(levels, choice, record)

A screen holds the verdict, the reasons and the metrics nearest to their limits, as many as its
height has room for; the rest stands in the file of figures.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from kokoro_ane.core.commands import print_table
from kokoro_ane.core.config import not_releasable
from kokoro_ane.core.contract import BOTH
from kokoro_ane.core.errors import InputError
from kokoro_ane.eval.gates import MEAN, WORST
from kokoro_ane.eval.judge import BROKEN, HOLDS, MISSING, REJECT, SHIP, STRADDLES, Check, Judgement
from kokoro_ane.eval.levels import JudgedLevel
from kokoro_ane.eval.metrics.catalog import METRICS
from kokoro_ane.eval.renditions import COMPARISONS
from kokoro_ane.eval.report_figures import figure, interval_of, metric_of, tightest, used

if TYPE_CHECKING:
    from kokoro_ane.eval.decision import Choice

WIDTH = 118  # when stdout is not a terminal
RELEASE_WIDTH = 150
# Lines of a screen around a table: title, headings and rule, notes, exit, the next prompt.
AROUND_TABLE = 9
FEW = 3  # the most reasons and the fewest rows of a screen
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


def meaning_of(level: JudgedLevel) -> str:
    """What the exit code of `quality` says about a level, and what to do next."""
    return {
        SHIP: f"{level.method} ships; `kokoro-ane release` says whether it may be released",
        REJECT: f"{level.method} may not ship; `kokoro-ane release` names the level that does",
    }.get(level.verdict, f"{level.method} is undecided: the lines above say what is open")


def print_judgement(level: JudgedLevel, file: Path) -> None:
    """The verdict, the gate nearest to its limit and the reasons, then the table of metrics.
    `file`: where every figure stands.
    """
    judgement, record = level.judgement, level.record
    if judgement is None:
        raise InputError(f"{level.method} was not judged: {level.failed}")
    console, source = console_of(WIDTH), record["provenance"]
    head = Group(*_verdict_lines(level, judgement, console.is_terminal))
    console.print(head, soft_wrap=not console.is_terminal)
    megabytes = source["package_bytes"] / 1e6
    how = f"{source['precision']} precision, features by {source['features']}"
    title = f"{', '.join(source['packages'])}  {megabytes:.2f} MB, {how}"
    names = shown = list(judgement.summary())
    if console.is_terminal:
        # Metrics without a gate decide nothing, and those far from their limits little.
        room = console.height - len(console.render_lines(head)) - AROUND_TABLE
        shown = by_urgency(record, names)[: max(room, FEW)]
    scale = COMPARISONS[record["stage"]].scale
    console.print(metric_table(judgement, shown, title, scale, console.width))
    if len(shown) < len(names):
        print(f"{len(names) - len(shown)} more metrics: {file}")


def _verdict_lines(level: JudgedLevel, judgement: Judgement, short: bool) -> list[Text]:
    """The verdict, why it may not be released, the tightest gate, the reasons; `short`: the first
    reasons.
    """
    record, decision = level.record, judgement.decision
    verdict, nearest = decision.verdict, tightest(record)
    subject = f"  {judgement.method}, clips: {len(judgement.clips)}"
    lines = [Text.assemble((verdict, f"bold {COLOURS[verdict]}"), subject)]
    if not record["releasable"]:
        shipped = "the gates hold, but not releasable: " if verdict == SHIP else ""
        why = record["withheld"] or not_releasable(record["provenance"]["checkpoint"]["name"])
        lines.append(Text(shipped + why, "yellow"))
    if nearest:
        share = 100 * (used(nearest) or 0)
        limit = f"{nearest['gate']} is {nearest['value']:.4g}, limit {nearest['rule']}"
        lines.append(Text(f"tightest gate: {limit}, {share:.0f} % used"))
    reasons = decision.reasons[: FEW if short else None]
    lines += [Text(f"  - {reason}") for reason in reasons]
    if len(reasons) < len(decision.reasons):
        lines.append(Text(f"  - and {len(decision.reasons) - len(reasons)} more"))
    states = [check.state for check in decision.checks]
    if STRADDLES in states and record["provenance"]["set"] != BOTH:
        lines.append(Text(f"  - `--set {BOTH}` judges twice as many clips"))
    return lines


def by_urgency(record: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """The metrics, those furthest beyond or nearest to their limits first, those without a gate
    last.
    """
    urgency: dict[str, tuple[bool, float]] = {}
    for check in record["checks"]:
        name = metric_of(check)
        own = check["state"] == BROKEN, used(check) or 0.0
        urgency[name] = max(urgency.get(name, own), own)
    ungated = False, -1.0
    return sorted(names, key=lambda name: urgency.get(name, ungated), reverse=True)


def metric_table(
    judgement: Judgement, names: Sequence[str], title: str, scale: str, width: int
) -> Table:
    """One row a metric: the subject's mean and worst, the natural variation's where `width` has
    room for it, the limits. `scale`: what that variation is, in words.
    """
    table = Table(
        title=title,
        title_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    kinds = [MEAN, WORST]
    if width >= WIDTH:
        kinds += [f"variation_{MEAN}", f"variation_{WORST}"]
    table.add_column("metric", no_wrap=True)
    for kind in kinds:
        style = "" if kind in (MEAN, WORST) else "dim"
        table.add_column(kind.replace("_", "\n"), justify="right", style=style)
    table.add_column("pass")
    table.add_column("limit", no_wrap=True)
    summary = judgement.summary()
    for name in names:
        checks = {
            check.gate.statistic: check
            for check in judgement.decision.checks
            if check.gate.metric == name
        }
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
            *(_cell(summary[name][kind], checks.get(kind)) for kind in kinds),
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


HEADINGS = (
    "level",
    "MB",
    "of fp16",
    "int8 MACs",
    "PESQ mean / worst",
    "MCD dB",
    "of seeds",
    "verdict",
    "broken or open",
)
# On a screen a level has one line, without its title, intervals and shares.
ON_A_SCREEN = ("level", "MB", "PESQ mean / worst", "MCD dB", "verdict", "broken or open")


def print_release(
    levels: Sequence[JudgedLevel], choice: "Choice", record: Mapping[str, Any]
) -> None:
    """Print decision, notes and the table of levels."""
    from kokoro_ane.eval.decision import whole  # late: a verdict alone decides nothing

    console = console_of(RELEASE_WIDTH)
    narrow = console.is_terminal and console.width < RELEASE_WIDTH
    headings = ON_A_SCREEN if narrow else HEADINGS
    table = Table(
        title="compression levels against fp32, same features, same noise",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        show_edge=not narrow,
        padding=(0, 1, 0, 0) if narrow else (0, 1),
    )
    for heading in headings:
        is_text = heading in ("level", "verdict", "broken or open")
        table.add_column(heading, justify="left" if is_text else "right")

    rows = []
    for level in levels:
        base = whole(level, levels)
        *plain, verdict, wrong = cells(level, base.bytes if base else 0)
        rows.append((*plain, f"[{COLOURS.get(verdict, 'dim')}]{verdict}[/]", wrong))
    for name, row in record["spread"].items():
        pesq = f"{figure(row['pesq'])} / {figure(row['pesq_worst'])}"
        rows.append((f"[dim]{name}", "", "", "", pesq, figure(row["mcd_db"]), "", "", ""))
    for place, row in enumerate(rows):
        columns = dict(zip(HEADINGS, row, strict=True))
        shown = [columns[heading] for heading in headings]
        if narrow:  # the first line of a cell, the first broken gate
            shown = [cell.partition("\n")[0].partition(",")[0] for cell in shown]
        table.add_row(*shown, end_section=place == len(levels) - 1)
    if not narrow:
        table.caption = "of seeds: MCD in units of what another noise seed does"
        table.caption_justify = "left"
    console.print(
        f"[bold {COLOURS[choice.verdict]}]{choice.verdict}[/]  {choice.reason}", highlight=False
    )
    # The table says of each smaller level what it breaks; the first notes are the choice's own.
    notes = choice.notes[: FEW if narrow else None]
    for note in notes:
        console.print(f"  - {note}", highlight=False)
    console.print(table)


def _span(level: JudgedLevel, metric: str) -> str:
    """Write the mean's 95 % interval on a line of its own."""
    interval = interval_of(level.record, metric)
    return f"\n[dim]{figure(interval[0])}-{figure(interval[1])}[/]" if interval else ""


def print_products(products: Sequence[JudgedLevel], choice: "Choice", _: Mapping[str, Any]) -> None:
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
