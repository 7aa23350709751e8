"""Plots of the report as SVG that fits any width, takes the page's colours, light or dark, and
keeps its letters' size.

    # size against PESQ, every point labelled, each level's own gate beside it
    scatter(record)
    strips(record, "mcd_db")  # every sentence of every level, with the gates of that level

Places across are percentages; only what stands at a point is in pixels.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from kokoro_ane.eval.gates import MEAN
from kokoro_ane.eval.metrics.catalog import METRICS
from kokoro_ane.eval.report_table import digits_of, figure, limit_of, limits_of, metric_of

HEIGHT_PX, TOP_PX, BOTTOM_PX = 340, 26, 300  # of the scatter plot and of what it plots in
PHONE_PX, LETTER_PX, LINE_PX = 330, 7.5, 16  # labels are placed so that they do not meet on a phone
CROWDED = 8  # levels; more are labelled by name alone
LEFT, RIGHT = 9.0, 97.0  # percent of the width
Box = tuple[float, float, float, float]  # left, top, right, bottom in px


def judged_levels(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Levels that were measured."""
    return [level for level in record["levels"] if level.get("clips")]


def strips(record: Mapping[str, Any], metric: str) -> str:
    """A row for the other seed and for each level: a dot a sentence, a bar at the mean, this
    level's gates.
    """
    levels, digits = judged_levels(record), digits_of(metric)
    rows: list[tuple[str, list[float | None], list[Mapping[str, Any]]]] = []
    rows.append(
        ("another seed", [clip["seed_variation"].get(metric) for clip in levels[0]["clips"]], [])
    )
    for level in levels:
        rows.append(
            (
                level["method"],
                [clip["figures"].get(metric) for clip in level["clips"]],
                _gates(level, metric),
            )
        )
    measured = [
        (name, [value for value in values if value is not None], gates)
        for name, values, gates in rows
    ]
    places = [value for _, values, _ in measured for value in values]
    places += [place for _, _, gates in measured for check in gates for place in limits_of(check)]
    if not places:
        return ""
    low, high = _range(places)
    body = "".join(
        _strip(name, values, gates, low, high, digits) for name, values, gates in measured
    )
    unit, best = METRICS[metric].unit, METRICS[metric].best
    ends = f'<text class="axis" x="0" y="14">{figure(low, digits)}</text>'
    ends += (
        f'<text class="axis" x="100%" y="14" text-anchor="end">{figure(high, digits)}'
        f" {escape(unit)}</text>"
    )
    axis = (
        f'<div class="strip"><span></span><svg role="presentation">{ends}</svg><span class="value'
        ' pale">mean</span></div>'
    )
    head = (
        f'<h3>{escape(METRICS[metric].title)} <span class="pale">{escape(unit)}, {best} is'
        " better</span></h3>"
    )
    return f"{head}{body}{axis}"


def _strip(
    name: str,
    values: Sequence[float],
    gates: Sequence[Mapping[str, Any]],
    low: float,
    high: float,
    digits: int,
) -> str:
    def x(value: float) -> str:
        return f"{100 * (value - low) / (high - low):.1f}%"

    dots = "".join(f'<circle cx="{x(value)}" cy="12" r="3.5"/>' for value in values)
    mean = sum(values) / len(values) if values else None
    bar = (
        f'<line class="mean" x1="{x(mean)}" x2="{x(mean)}" y1="3" y2="21"/>'
        if mean is not None
        else ""
    )
    lines = "".join(_gate_line(check, x(place)) for check in gates for place in limits_of(check))
    rail = '<line class="rail" x1="0" x2="100%" y1="12" y2="12"/>'
    told = f"{name}: {len(values)} sentences, mean {figure(mean, digits)}" + "".join(
        f", {c['gate'].split()[1]} {c['rule']}" for c in gates
    )
    seed = ' class="seed"' if not gates and name == "another seed" else ""
    image = (
        f'<svg role="img" aria-label="{escape(told)}"{seed}>{rail}<g'
        f' class="dot">{dots}</g>{bar}{lines}</svg>'
    )
    return (
        f'<div class="strip"><span>{escape(name)}</span>{image}<span'
        f' class="value">{figure(mean, digits)}</span></div>'
    )


def _gates(level: Mapping[str, Any], metric: str) -> list[Mapping[str, Any]]:
    return [check for check in level["checks"] if metric_of(check) == metric]


def _gate_line(check: Mapping[str, Any], x: str) -> str:
    dashes = "" if check["gate"].split()[1] == MEAN else ' stroke-dasharray="3 3"'
    title = f"<title>{escape(check['gate'])} {escape(check['rule'])}</title>"
    return f'<line class="gate" x1="{x}" x2="{x}" y1="1" y2="23"{dashes}>{title}</line>'


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    margin = 0.04 * (high - low) or max(abs(high), 1.0) * 0.1
    return low - margin, high + margin


def scatter(record: Mapping[str, Any], metric: str = "pesq") -> str:
    """Size on disk against the mean, a whisker down to the worst sentence, a red tick at the
    level's own gate for the mean.
    """
    levels = [
        level for level in judged_levels(record) if level["summary"][metric]["mean"] is not None
    ]
    if not levels:
        return ""
    gates = {
        level["method"]: [c for c in _gates(level, metric) if c["gate"].split()[1] == MEAN]
        for level in levels
    }
    heights = [level["summary"][metric][key] for level in levels for key in ("mean", "worst")]
    low, high = _range(
        [*heights, *(limit_of(check) for checks in gates.values() for check in checks)]
    )
    least, most = 0.0, max(level["bytes"] for level in levels) / 1e6 * 1.08

    def y(value: float) -> float:
        return round(BOTTOM_PX - (BOTTOM_PX - TOP_PX) * (value - low) / (high - low), 1)

    def x(megabytes: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * (megabytes - least) / (most - least), 2)

    grid = "".join(_grid_line(value, y(value)) for value in _ticks(low, high))
    ticks = "".join(_tick(value, x(value)) for value in _ticks(least, most))
    at = {
        level["method"]: (_px(x(level["bytes"] / 1e6)), y(level["summary"][metric]["mean"]))
        for level in levels
    }
    placed: list[Box] = [
        (across - 6, down - 6, across + 6, down + 6) for across, down in at.values()
    ]
    points = ""
    for level in sorted(levels, key=lambda level: level["bytes"]):
        line, ticked = (
            level["summary"][metric],
            [y(limit_of(check)) for check in gates[level["method"]]],
        )
        kind = escape(level["verdict"].lower())
        label = (
            level["method"]
            if len(levels) > CROWDED
            else f"{level['method']} {figure(line['mean'])}"
        )
        points += _point(
            x(level["bytes"] / 1e6), y(line["mean"]), y(line["worst"]), ticked, label, kind, placed
        )
    unit = f'<text class="axis" x="{LEFT}%" y="{HEIGHT_PX - 4}">vocoder on disk, MB</text>'
    unit += (
        f'<text class="axis" x="0" y="10">{escape(METRICS[metric].title)},'
        f" {escape(METRICS[metric].unit)}</text>"
    )
    said = f'role="img" aria-label="size on disk against {escape(METRICS[metric].title)}"'
    return f'<svg class="scatter" {said}>{grid}{ticks}{unit}{points}</svg>'


def _px(percent: float) -> float:
    return percent / 100 * PHONE_PX


def _point(
    x: float,
    y: float,
    worst: float,
    gates: Sequence[float],
    label: str,
    kind: str,
    placed: list[Box],
) -> str:
    """A point with its whisker, gate and label; the label goes where none is yet, with a line to
    its point.
    """
    dx, dy, anchor = _free_place(_px(x), y, len(label) * LETTER_PX, placed)
    ticks = "".join(
        f'<line class="gate" x1="-9" x2="9" y1="{gate - y:.1f}" y2="{gate - y:.1f}"/>'
        for gate in gates
    )
    leader = (
        f'<line class="rail" x1="0" y1="0" x2="{dx * 0.8:.1f}" y2="{dy:.1f}"/>'
        if abs(dy) > LINE_PX / 2
        else ""
    )
    text = f'<text x="{dx}" y="{dy + 4:.1f}" text-anchor="{anchor}">{escape(label)}</text>'
    whisker = f'<line class="whisker {kind}" x1="0" x2="0" y1="0" y2="{worst - y:.1f}"/>'
    return (
        f'<svg x="{x}%" y="{y}" overflow="visible">{leader}{whisker}{ticks}<circle class="{kind}"'
        f' r="5"/>{text}</svg>'
    )


def _free_place(x: float, y: float, width: float, placed: list[Box]) -> tuple[float, float, str]:
    """Offset and anchor of a label whose box meets no other, within the plot; remembered in
    `placed`.
    """
    for dx, dy, anchor in _places():
        left = x + dx if anchor == "start" else x + dx - width
        box = (left, y + dy - LINE_PX / 2, left + width, y + dy + LINE_PX / 2)
        inside = (
            box[0] >= _px(LEFT)
            and box[2] <= PHONE_PX
            and box[1] >= TOP_PX - 8
            and box[3] <= BOTTOM_PX
        )
        if inside and not any(
            box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in placed
        ):
            placed.append(box)
            return dx, dy, anchor
    return (-10.0, 0.0, "end") if x > PHONE_PX / 2 else (10.0, 0.0, "start")


def _places() -> Iterator[tuple[float, float, str]]:
    for step in range(12):
        for sign in (1, -1) if step else (1,):
            yield 10.0, sign * step * LINE_PX, "start"
            yield -10.0, sign * step * LINE_PX, "end"


def _ticks(low: float, high: float) -> list[float]:
    """Three to seven round numbers."""
    span = high - low
    step = next(s * 10**e for e in range(-4, 13) for s in (1, 2, 5) if span / (s * 10**e) <= 6)
    first = int(low / step) + (1 if low > 0 and low % step else 0)
    return [round(step * i, 6) for i in range(first, int(high / step) + 1)]


def _grid_line(value: float, y: float) -> str:
    return (
        f'<line class="grid" x1="{LEFT}%" x2="{RIGHT}%" y1="{y}" y2="{y}"/><text class="axis" x="0"'
        f' y="{y + 4}">{value:g}</text>'
    )


def _tick(value: float, x: float) -> str:
    return f'<text class="axis" x="{x}%" y="{BOTTOM_PX + 16}" text-anchor="middle">{value:g}</text>'
