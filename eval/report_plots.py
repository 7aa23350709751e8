"""Where the marks of the report's two plots stand; eval/page/report.html.jinja draws them as SVG.

    size_plot(record)            # size against PESQ, every point labelled, each level's own gate
    strip_plot(record, "mcd_db") # every sentence of every level, with the gates of that level

Places across are percentages of the width, so that a plot fits a phone and a screen; heights, and
what stands at a point, are in pixels.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from kokoro_ane.eval.gates import MEAN
from kokoro_ane.eval.metrics.catalog import METRICS
from kokoro_ane.eval.report_figures import (
    Record,
    all_clips,
    digits_of,
    figure,
    judged_levels,
    limit_of,
    limits_of,
    metric_of,
    statistic_of,
)

HEIGHT_PX, TOP_PX, BOTTOM_PX = 340, 26, 300  # of the size plot, and of the part that holds points
PHONE_PX, LETTER_PX, LINE_PX = 330, 7.5, 16  # labels are placed so that they do not meet on a phone
CROWDED = 8  # levels; where there are more, a label is the level's name alone
LEFT, RIGHT = 9.0, 97.0  # percent of the width
Box = tuple[float, float, float, float]  # left, top, right, bottom in px


def strip_plot(record: Record, metric: str) -> dict[str, Any] | None:
    """A row for the other seed and for each level: a dot a sentence, a bar at the mean, this
    level's gates. None where nothing was measured.
    """
    levels, digits = judged_levels(record), digits_of(metric)
    # Natural variation stands first, without gates: the scale for all other rows.
    rows: list[tuple[str, list[Record], list[Record]]] = []
    rows.append(("another seed", [clip["variation"] for clip in all_clips(record)], []))
    for level in levels:
        gates = [check for check in level["checks"] if metric_of(check) == metric]
        rows.append((level["method"], [clip["figures"] for clip in level["clips"]], gates))
    measured = [
        (name, [value for clip in clips if (value := clip.get(metric)) is not None], gates)
        for name, clips, gates in rows
    ]
    marks = [value for _, values, _ in measured for value in values]
    marks += [place for _, _, gates in measured for gate in gates for place in limits_of(gate)]
    if not marks:
        return None
    low, high = _range(marks)

    def x(value: float) -> str:
        return f"{100 * (value - low) / (high - low):.1f}"

    strips = []
    for name, values, gates in measured:
        mean = sum(values) / len(values) if values else None
        limits = [f"{statistic_of(gate)} {gate['rule']}" for gate in gates]
        label = f"{name}: {len(values)} sentences, mean {figure(mean, digits)}"
        strips.append(
            {
                "name": name,
                "label": ", ".join([label, *limits]),
                "seed": name == "another seed",
                "dots": [x(value) for value in values],
                "mean": None if mean is None else x(mean),
                "value": figure(mean, digits),
                "gates": [
                    {
                        "x": x(place),
                        "of_mean": statistic_of(gate) == MEAN,
                        "title": f"{gate['gate']} {gate['rule']}",
                    }
                    for gate in gates
                    for place in limits_of(gate)
                ],
            }
        )
    described = METRICS[metric]
    ends = {"low": figure(low, digits), "high": figure(high, digits)}
    titles = {"title": described.title, "unit": described.unit, "best": described.best}
    return ends | titles | {"rows": strips}


def size_plot(record: Record, metric: str = "pesq") -> dict[str, Any]:
    """Size on disk against the mean, a whisker down to the worst sentence, a tick at the level's
    own gate for the mean.
    """
    levels = [
        level for level in judged_levels(record) if level["summary"][metric]["mean"] is not None
    ]
    gates = {
        level["method"]: [
            limit_of(check) for check in level["checks"] if check["gate"] == f"{metric} {MEAN}"
        ]
        for level in levels
    }
    heights = [level["summary"][metric][key] for level in levels for key in ("mean", "worst")]
    low, high = _range([*heights, *(limit for limits in gates.values() for limit in limits)])
    most_mb = max(level["bytes"] for level in levels) / 1e6 * 1.08

    def x(megabytes: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * megabytes / most_mb, 2)

    def y(value: float) -> float:
        return round(BOTTOM_PX - (BOTTOM_PX - TOP_PX) * (value - low) / (high - low), 1)

    # Boxes that no label may cover: first those of the points, then those of the labels so far.
    boxes: list[Box] = []
    for level in levels:
        across, down = _px(x(level["bytes"] / 1e6)), y(level["summary"][metric]["mean"])
        boxes.append((across - 6, down - 6, across + 6, down + 6))
    points = []
    for level in sorted(levels, key=lambda level: level["bytes"]):
        row, name = level["summary"][metric], level["method"]
        across, down = x(level["bytes"] / 1e6), y(row["mean"])
        label = name if len(levels) > CROWDED else f"{name} {figure(row['mean'])}"
        dx, dy, anchor = _free_place(_px(across), down, len(label) * LETTER_PX, boxes)
        points.append(
            {
                "x": across,
                "y": down,
                "worst": f"{y(row['worst']) - down:.1f}",
                "gates": [f"{y(limit) - down:.1f}" for limit in gates[name]],
                "kind": level["verdict"].lower(),
                "label": label,
                "dx": dx,
                "dy": dy,
                "anchor": anchor,
                # A label that had to move away has a line to its point.
                "leader": f"{dx * 0.8:.1f}" if abs(dy) > LINE_PX / 2 else "",
            }
        )
    return {
        "title": METRICS[metric].title,
        "unit": METRICS[metric].unit,
        "grid": [{"y": y(value), "label": f"{value:g}"} for value in _ticks(low, high)],
        "ticks": [{"x": x(value), "label": f"{value:g}"} for value in _ticks(0.0, most_mb)],
        "points": points,
        "left": LEFT,
        "right": RIGHT,
        "bottom": BOTTOM_PX,
        "height": HEIGHT_PX,
    }


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    margin = 0.04 * (high - low) or max(abs(high), 1.0) * 0.1
    return low - margin, high + margin


def _px(percent: float) -> float:
    return percent / 100 * PHONE_PX


def _free_place(x: float, y: float, width: float, boxes: list[Box]) -> tuple[float, float, str]:
    """Offset and anchor of a label that covers none of `boxes`, within the plot; its own box is
    added to them.
    """
    for dx, dy, anchor in _places():
        left = x + dx if anchor == "start" else x + dx - width
        box = (left, y + dy - LINE_PX / 2, left + width, y + dy + LINE_PX / 2)
        across = box[0] >= _px(LEFT) and box[2] <= PHONE_PX
        down = box[1] >= TOP_PX - 8 and box[3] <= BOTTOM_PX
        if across and down and not any(_overlap(box, other) for other in boxes):
            boxes.append(box)
            return dx, dy, anchor
    return (-10.0, 0.0, "end") if x > PHONE_PX / 2 else (10.0, 0.0, "start")


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _places() -> Iterator[tuple[float, float, str]]:
    """Offsets to try, the nearest first: right, left, then a line further down and up."""
    for step in range(12):
        for sign in (1, -1) if step else (1,):
            yield 10.0, sign * step * LINE_PX, "start"
            yield -10.0, sign * step * LINE_PX, "end"


def _ticks(low: float, high: float) -> list[float]:
    """Return three to seven round numbers between the two."""
    # Steps of 1, 2 or 5 times a power of ten, the first that leaves at most six spans.
    span = high - low
    step = next(s * 10**e for e in range(-4, 13) for s in (1, 2, 5) if span / (s * 10**e) <= 6)
    first = int(low / step) + (1 if low > 0 and low % step else 0)
    return [round(step * i, 6) for i in range(first, int(high / step) + 1)]
