"""What a person sees of a judgement: on a terminal at most a screen, elsewhere every metric.

    print_judgement(level, file)
    print_release(decision)

A screen holds the verdict, the reasons and the metrics nearest to their limits, as many as its
height has room for; the rest stands in the file of figures.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from kokoro_ane.core import BOTH, CORPUS, not_releasable, print_table
from kokoro_ane.eval.comparisons import COMPARISONS
from kokoro_ane.eval.gates import MEAN, WORST
from kokoro_ane.eval.judge import BROKEN, HOLDS, MISSING, REJECT, SHIP, STRADDLES
from kokoro_ane.eval.levels import LevelRecord, describe_problem
from kokoro_ane.eval.metrics.catalog import METRICS
from kokoro_ane.eval.report_figures import (
    Record,
    compute_used_share,
    find_interval,
    find_tightest,
    format_figure,
    parse_metric,
    parse_statistic,
)

WIDTH = 118  # when stdout is not a terminal
RELEASE_WIDTH = 150
# Lines of a screen around a table: title, headings and rule, notes, exit, the next prompt.
AROUND_TABLE = 9
FEW = 3  # the most reasons and the fewest rows of a screen
PARTS = ("text", "encoder", "vocoder", "voice")  # of a product
# the better states first
STATES = {HOLDS: "green", STRADDLES: "yellow", MISSING: "yellow", BROKEN: "bold red"}
PASSED = {HOLDS: "yes", STRADDLES: "open", MISSING: "open", BROKEN: "NO"}
COLOURS = {"SHIP": "green", "REJECT": "red", "UNDECIDED": "yellow"}


def open_console(width: int) -> Console:
    """Return a console for stdout; it has that width where stdout is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=width)


def explain_exit(level: Record) -> str:
    """What the exit code of `quality` says about a level, and what to do next."""
    name = level["method"]
    return {
        SHIP: f"{name} ships; `kokoro-ane release` says whether it may be released",
        REJECT: f"{name} may not ship; `kokoro-ane release` names the level that does",
    }.get(level["verdict"], f"{name} is undecided: the lines above say what is open")


def print_judgement(level: Record, file: Path) -> None:
    """The verdict, the gate nearest to its limit and the reasons, then the table of metrics.
    `file`: where every figure stands.
    """
    console = open_console(WIDTH)
    source = level["provenance"]
    head = Group(*_list_verdict_lines(level, console.is_terminal))
    console.print(head, soft_wrap=not console.is_terminal)
    how = f"{source['precision']} precision, features by {source['features']}"
    title = f"{', '.join(source['packages'])}  {source['package_bytes'] / 1e6:.2f} MB, {how}"
    names = shown = list(level["summary"])
    if console.is_terminal:
        # Metrics without a gate decide nothing, and those far from their limits little.
        room = console.height - len(console.render_lines(head)) - AROUND_TABLE
        shown = order_by_urgency(level, names)[: max(room, FEW)]
    # On a narrow console the columns of the natural variation are left out.
    console.print(build_metric_table(level, shown, title, console.width))
    if len(shown) < len(names):
        print(f"{len(names) - len(shown)} more metrics: {file}")
    if level["groups"]:
        console.print(build_group_table(level))


def build_group_table(level: Record) -> Table:
    """A corpus by voice and by length: clips, those that break a gate by themselves, and mean and
    worst of the two metrics that tell most.
    """
    names = COMPARISONS[level["stage"]].shown
    table = make_compact_table("by voice and by length; variation: the mean, as above")
    table.add_column("group", no_wrap=True)
    for heading in ("clips", "broken"):
        table.add_column(heading, justify="right")
    for name in names:
        for kind in (MEAN, WORST, "variation"):
            table.add_column(f"{METRICS[name].title}\n{kind}", justify="right")
    kinds = (MEAN, WORST, f"variation_{MEAN}")
    # The row that follows tells where one kind of group ends and a rule is drawn.
    for row, following in pairwise((*level["groups"], {"by": ""})):
        # a group without sound has no figures
        summary = [row["summary"].get(name, {}) for name in names]
        figures = [format_figure(values.get(kind)) for values in summary for kind in kinds]
        counts = (str(row["clips"]), str(row["broken"] or "-"))
        ends = row["by"] != following["by"]
        table.add_row(row["name"], *counts, *figures, end_section=ends)
    return table


def _list_verdict_lines(level: Record, short: bool) -> list[Text]:
    """The verdict, why it may not be released, the tightest gate, the reasons; `short`: the first
    reasons.
    """
    verdict = level["verdict"]
    nearest = find_tightest(level)
    subject = f"  {level['method']}, clips: {len(level['clips'])}"
    lines = [Text.assemble((verdict, f"bold {COLOURS[verdict]}"), subject)]
    # A verdict is about sound; whether the checkpoint may go out is another question.
    if not level["releasable"]:
        shipped = "the gates hold, but not releasable: " if verdict == SHIP else ""
        why = level["withheld"] or not_releasable(level["provenance"]["checkpoint"]["name"])
        lines.append(Text(shipped + why, "yellow"))
    if nearest:
        share = 100 * (compute_used_share(nearest) or 0)
        limit = f"{nearest['gate']} is {nearest['value']:.4g}, limit {nearest['rule']}"
        lines.append(Text(f"tightest gate: {limit}, {share:.0f} % used"))
    reasons = level["reasons"][: FEW if short else None]
    lines += [Text(f"  - {reason}") for reason in reasons]
    if len(reasons) < len(level["reasons"]):
        lines.append(Text(f"  - and {len(level['reasons']) - len(reasons)} more"))
    # An interval shrinks with more clips, unless all of them are judged already.
    straddles = any(check["state"] == STRADDLES for check in level["checks"])
    if straddles and level["provenance"]["set"] not in (BOTH, CORPUS):
        lines.append(Text(f"  - `--set {BOTH}` judges twice as many clips"))
    return lines


def order_by_urgency(level: Record, names: Sequence[str]) -> list[str]:
    """The metrics, those furthest beyond or nearest to their limits first, those without a gate
    last.
    """
    urgency: dict[str, tuple[bool, float]] = {}
    for check in level["checks"]:
        name = parse_metric(check)
        of_gate = check["state"] == BROKEN, compute_used_share(check) or 0.0
        # A broken gate goes before any that holds, then the share of the limit that is used.
        urgency[name] = max(urgency.get(name, of_gate), of_gate)
    ungated = False, -1.0
    return sorted(names, key=lambda name: urgency.get(name, ungated), reverse=True)


def make_compact_table(title: str) -> Table:
    """Return a table without a frame."""
    return Table(
        title=title,
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )


def build_metric_table(level: Record, names: Sequence[str], title: str, width: int) -> Table:
    """One row a metric: the subject's mean and worst, the natural variation's where `width` has
    room for it, the limits.
    """
    table = make_compact_table(title)
    kinds = [MEAN, WORST]
    if width >= WIDTH:
        kinds += [f"variation_{MEAN}", f"variation_{WORST}"]
    table.add_column("metric", no_wrap=True)
    for kind in kinds:
        style = "" if kind in (MEAN, WORST) else "dim"
        table.add_column(kind.replace("_", "\n"), justify="right", style=style)
    table.add_column("pass")
    table.add_column("limit", no_wrap=True)
    for name in names:
        row = level["summary"][name]
        metric = METRICS[name]
        checks = sorted(
            (check for check in level["checks"] if parse_metric(check) == name), key=parse_statistic
        )
        colours = {parse_statistic(check): STATES[check["state"]] for check in checks}
        cells = [
            f"[{colours[kind]}]{format_figure(row[kind], 3)}[/]"
            if kind in colours
            else format_figure(row[kind], 3)
            for kind in kinds
        ]
        # A star stands at a limit that moves with the natural variation.
        limits = ", ".join(
            f"{parse_statistic(check)} {check['rule']}" + (" *" if check["moves"] else "")
            for check in checks
        )
        # The worst state of the metric's gates, in the order of STATES.
        state = max((check["state"] for check in checks), key=list(STATES).index, default="")
        passed = f"[{STATES[state]}]{PASSED[state]}[/]" if state else ""
        table.add_row(f"{metric.title} [dim]{metric.unit}[/]", *cells, passed, limits)
    scale = COMPARISONS[level["stage"]].scale
    table.caption = f"variation: {scale}, for scale; * the limit is its mean"
    return table


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


def release_row(level: LevelRecord, levels: Sequence[LevelRecord]) -> dict[str, str]:
    """One level by heading: size, int8 share, PESQ, MCD (95 % intervals below) and MCD in seeds,
    verdict, what is wrong.
    """
    from kokoro_ane.eval.decision import find_uncompressed  # late: a verdict alone decides nothing

    # A level that was not built has a row too, without figures.
    if level["failed"]:
        row = {"level": level["method"], "verdict": "not built", "broken or open": level["failed"]}
        return dict.fromkeys(HEADINGS, "-") | row
    pesq, mcd = (level["summary"][metric] for metric in ("pesq", "mcd_db"))
    seeds = mcd["variation_mean"]
    base = find_uncompressed(level, levels)
    verdict = level["verdict"]
    return {
        "level": f"{level['method']}\n[dim]{level['title']}[/]",
        "MB": f"{level['bytes'] / 1e6:.2f}",
        "of fp16": f"{level['bytes'] / base['bytes']:.3f}" if base else "-",
        "int8 MACs": f"{level['facts']['int8_macs_share']:.1%}",
        "PESQ mean / worst": f"{format_figure(pesq['mean'])} / {format_figure(pesq['worst'])}"
        + _format_interval(level, "pesq"),
        "MCD dB": format_figure(mcd["mean"]) + _format_interval(level, "mcd_db"),
        # a level without a natural variation has no such figure
        "of seeds": format_figure(seeds and mcd["mean"] / seeds),
        "verdict": f"[{COLOURS[verdict]}]{verdict}[/]",
        "broken or open": describe_problem(level) or "-",
    }


def _format_interval(level: LevelRecord, metric: str) -> str:
    """Write the mean's 95 % interval on a line of its own."""
    interval = find_interval(level, metric)
    return (
        f"\n[dim]{format_figure(interval[0])}-{format_figure(interval[1])}[/]" if interval else ""
    )


def print_release(record: Record) -> None:
    """Print decision, notes and the table of levels."""
    console = open_console(RELEASE_WIDTH)
    narrow = console.is_terminal and console.width < RELEASE_WIDTH
    levels = record["levels"]
    verdict = record["verdict"]
    rows = [release_row(level, levels) for level in levels]
    for name, row in record["spread"].items():
        pesq = f"{format_figure(row['pesq'])} / {format_figure(row['pesq_worst'])}"
        cells = {
            "level": f"[dim]{name}",
            "PESQ mean / worst": pesq,
            "MCD dB": format_figure(row["mcd_db"]),
        }
        # The natural spread is no level: it stands below them in the same columns.
        rows.append(dict.fromkeys(HEADINGS, "") | cells)
    table = make_compact_table("compression levels against fp32, same features, same noise")
    headings = ON_A_SCREEN if narrow else HEADINGS
    for heading in headings:
        is_text = heading in ("level", "verdict", "broken or open")
        table.add_column(heading, justify="left" if is_text else "right")
    for place, row in enumerate(rows):
        shown = [row[heading] for heading in headings]
        if narrow:  # the first line of a cell, the first broken gate
            shown = [cell.partition("\n")[0].partition(",")[0] for cell in shown]
        table.add_row(*shown, end_section=place == len(levels) - 1)
    if not narrow:
        table.caption = "of seeds: MCD in units of what another noise seed does"
    console.print(f"[bold {COLOURS[verdict]}]{verdict}[/]  {record['reason']}", highlight=False)
    # The table says of each smaller level what it breaks; the first notes are the choice's own.
    for note in record["notes"][: FEW if narrow else None]:
        console.print(f"  - {note}", highlight=False)
    console.print(table)


def print_products(record: Record) -> None:
    """Print decision, notes, the table of products, and what is wrong with each."""
    print("\n  - ".join((f"{record['verdict']}  {record['reason']}", *record["notes"])))
    rows = []
    for one in record["products"]:
        # A product that was never measured has no sizes of its parts.
        sizes = [f"{one['parts'][part] / 1e6:.2f}" if "parts" in one else "-" for part in PARTS]
        mcd = one.get("summary", {}).get("mcd_db")
        near = f"{mcd['mean']:.2f} ({mcd['variation_mean']:.2f})" if mcd else "-"
        rows.append((one["method"], *sizes, f"{one['bytes'] / 1e6:.2f}", near, one["verdict"]))
    print_table(
        "MB of each part; MCD, dB (of a neighbouring row)",
        ("product", *PARTS, "all", "MCD", ""),
        rows,
    )
    for one in record["products"]:
        if one["verdict"] != SHIP:
            print(f"{one['method']}: {one['failed'] or '; '.join(one['reasons'])}")
