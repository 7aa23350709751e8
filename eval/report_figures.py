"""Figures of a release decision as its page and the terminal show them: digits, limits, intervals,
how much of a limit is used, and where the marks of the page's two plots stand.

    format_figure(4.6351)                   # "4.64"
    check = find_tightest(level)            # the gate that is nearest to its limit, or beyond it
    compute_used_share(check)               # 0.8: four fifths of what the limit allows
    plot_size(record)                       # size against PESQ, each level's own gate
    plot_search(record["search"])           # size against the nearest limit, every choice tried
    plot_strip(record, "mcd_db")            # every sentence of every level, with that level's gates

eval/page/report.html.jinja draws the plots as SVG. Places across are percentages of the width, so
that a plot fits a phone and a screen; heights, and what stands at a point, are in pixels.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kokoro_ane.eval.gates import MEAN
from kokoro_ane.eval.metrics.catalog import HIGHER, METRICS, ZERO

DIGITS = 2
# Metrics with a column in every table of levels.
SHOWN = ("pesq", "mcd_db", "word_errors_added", "local_spectrum_db", "speaker_distance")
HEIGHT_PX, TOP_PX, BOTTOM_PX = 340, 26, 300  # of the size plot, and of the part that holds points
PHONE_PX, LETTER_PX, LINE_PX = 330, 7.5, 16  # labels are placed so that they do not meet on a phone
CROWDED = 8  # levels; where there are more, a label is the level's name alone
LEFT, RIGHT = 9.0, 97.0  # percent of the width

Record = Mapping[str, Any]  # a part of a decision, as JSON has it
Box = tuple[float, float, float, float]  # left, top, right, bottom in px


def format_figure(value: float | None, digits: int = DIGITS) -> str:
    """Write a figure with so many decimals and no negative zero; a dash for None."""
    # Adding 0.0 turns a negative zero into a plain one.
    return "–" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"


def choose_digits(metric: str) -> int:
    """Decimals that a metric deserves: none where it counts, more where a limit is small."""
    return {"samples": 0, "%": 2, "0..1": 3, "cents": 1}.get(METRICS[metric].unit, DIGITS)


def parse_metric(check: Record) -> str:
    """Return the metric of a check: "pesq mean" -> "pesq"."""
    return str(check["gate"].split()[0])


def parse_statistic(check: Record) -> str:
    """Return the statistic of a check: "pesq mean" -> "mean"."""
    return str(check["gate"].split()[1])


def parse_limit(check: Record) -> float:
    """Return the limit of a check: ">= 4" -> 4, "within 0.5" -> 0.5."""
    return float(check["rule"].split()[-1])


def find_interval(level: Record, metric: str) -> tuple[float, float] | None:
    """The 95 % interval of a metric's mean, where a gate holds that mean and the figures differ at
    all.
    """
    for check in level["checks"]:
        # An interval of one point is no interval: all clips have the same figure.
        if check["gate"] == f"{metric} mean" and check["low"] not in (None, check["high"]):
            return float(check["low"]), float(check["high"])
    return None


def compute_used_share(check: Record) -> float | None:
    """How much of what its limit allows a figure uses: above 1 the gate is broken. None where there
    is no measure of that.
    """
    value = check["value"]
    limit = parse_limit(check)
    metric = METRICS[parse_metric(check)]
    if value is None:
        return None
    # Higher is better: room is what lies between the limit and a perfect score.
    if metric.best == HIGHER:
        room, spent = metric.perfect - limit, metric.perfect - value
    else:
        room = limit
        spent = abs(value)
    return spent / room if room > 0 else None


def find_tightest(level: Record) -> Record | None:
    """Return the check that is nearest to its limit, or furthest beyond."""
    measured = [check for check in level["checks"] if compute_used_share(check) is not None]
    return max(measured, key=lambda check: compute_used_share(check) or 0.0, default=None)


def name_uncompressed(level: str) -> str:
    """The uncompressed level of the same layout: "padded-w8" -> "padded-fp16"."""
    layout, dash, _ = level.rpartition("-")
    return f"{layout}{dash}fp16"


def list_judged_levels(record: Record) -> list[Record]:
    """List the levels that were measured."""
    return [level for level in record["levels"] if level.get("clips")]


def list_all_clips(record: Record) -> list[Record]:
    """The clips of the level that was measured on most: others may have been rejected earlier."""
    return max((level["clips"] for level in list_judged_levels(record)), key=len, default=[])


def list_gated_metrics(record: Record) -> list[str]:
    """List every metric that has a gate, in the order of the gates."""
    checks = [check for level in list_judged_levels(record) for check in level["checks"]]
    return list(dict.fromkeys(parse_metric(check) for check in checks))


def plot_strip(record: Record, metric: str) -> dict[str, Any] | None:
    """A row for the other seed and for each level: a dot a sentence, a bar at the mean, this
    level's gates. None where nothing was measured.
    """
    digits = choose_digits(metric)
    both = METRICS[metric].best == ZERO

    def make_row(name: str, clips: Sequence[Record], checks: Sequence[Record]) -> dict[str, Any]:
        values = [value for clip in clips if (value := clip.get(metric)) is not None]
        mean = sum(values) / len(values) if values else None
        checks = [check for check in checks if parse_metric(check) == metric]
        label = f"{name}: {len(values)} sentences, mean {format_figure(mean, digits)}"
        limits = [f"{parse_statistic(check)} {check['rule']}" for check in checks]
        return {
            "name": name,
            "label": ", ".join([label, *limits]),
            "dots": values,
            "mean": mean,
            "value": format_figure(mean, digits),
            # where a gate lies on the metric's axis: one place, or two around zero
            "gates": [
                {"check": check, "at": sign * parse_limit(check)}
                for check in checks
                for sign in ((-1, 1) if both else (1,))
            ],
        }

    # Natural variation stands first, without gates: the scale for all other rows.
    rows = [make_row("another seed", [clip["variation"] for clip in list_all_clips(record)], [])]
    for level in list_judged_levels(record):
        figures = [clip["figures"] for clip in level["clips"]]
        rows.append(make_row(level["method"], figures, level["checks"]))
    marks = [value for one in rows for value in one["dots"]]
    marks += [gate["at"] for one in rows for gate in one["gates"]]
    if not marks:
        return None
    # All rows share one axis, so that levels are compared by eye.
    low, high = _compute_range(marks)
    return {
        "metric": METRICS[metric],
        "rows": rows,
        "x": lambda value: f"{100 * (value - low) / (high - low):.1f}",
        "low": format_figure(low, digits),
        "high": format_figure(high, digits),
    }


def plot_size(record: Record, metric: str = "pesq") -> dict[str, Any]:
    """Size on disk against the mean, a whisker down to the worst sentence, a tick at the level's
    own gate for the mean.
    """
    levels = [
        level
        for level in list_judged_levels(record)
        if level["summary"][metric]["mean"] is not None
    ]
    gates = {
        level["method"]: [
            parse_limit(check) for check in level["checks"] if check["gate"] == f"{metric} {MEAN}"
        ]
        for level in levels
    }
    heights = [level["summary"][metric][key] for level in levels for key in ("mean", "worst")]
    low, high = _compute_range(
        [*heights, *(limit for limits in gates.values() for limit in limits)]
    )
    # A little more than the largest level needs, so that its point stands clear of the edge.
    most_mb = max(level["bytes"] for level in levels) / 1e6 * 1.08
    x, y = _make_axes(most_mb, low, high)
    # Boxes that no label may cover: first those of the points, then those of the labels so far.
    boxes: list[Box] = []
    for level in levels:
        across = _px(x(level["bytes"] / 1e6))
        down = y(level["summary"][metric]["mean"])
        boxes.append((across - 6, down - 6, across + 6, down + 6))
    points = []
    for level in sorted(levels, key=lambda level: level["bytes"]):
        row = level["summary"][metric]
        name = level["method"]
        across = x(level["bytes"] / 1e6)
        down = y(row["mean"])
        label = name if len(levels) > CROWDED else f"{name} {format_figure(row['mean'])}"
        dx, dy, anchor = _find_free_place(_px(across), down, len(label) * LETTER_PX, boxes)
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
    title = f"{METRICS[metric].title}, {METRICS[metric].unit}"
    return _plot(title, most_mb, low, high, points)


def plot_search(search: Record) -> dict[str, Any]:
    """Size of every choice that a search tried against how much of the nearest limit it used on the
    tuning set; what of it holds, what does not, what was taken; a line at the room.
    """
    trials = search["trials"]
    most_mb = max(trial["bytes"] for trial in trials) / 1e6 * 1.08
    # One trial far beyond its limit must not flatten all others.
    high = min(200.0, 1.08 * max(100 * trial["share"] for trial in trials))
    x, y = _make_axes(most_mb, 0.0, high)
    kinds = {True: "ship", False: "reject"}
    points: list[Record] = [
        {
            "x": x(trial["bytes"] / 1e6),
            "y": y(min(100 * trial["share"], high)),
            "worst": "0",
            "gates": [],
            "kind": kinds[trial["share"] <= search["room"]],
            "label": "taken" if trial == search["taken"] else "",
            "dx": 10,
            "dy": 0,
            "anchor": "start",
            "leader": "",
        }
        for trial in trials
    ]
    title = "used of the nearest limit, %"
    return _plot(title, most_mb, 0.0, high, points) | {"line": y(100 * search["room"])}


def _make_axes(
    most_mb: float, low: float, high: float
) -> tuple[Callable[[float], float], Callable[[float], float]]:
    """Megabytes to a place across, and a value to a height."""
    span = BOTTOM_PX - TOP_PX
    return (
        lambda megabytes: round(LEFT + (RIGHT - LEFT) * megabytes / most_mb, 2),
        lambda value: round(BOTTOM_PX - span * (value - low) / (high - low), 1),
    )


def _plot(
    title: str, most_mb: float, low: float, high: float, points: Sequence[Record]
) -> dict[str, Any]:
    x, y = _make_axes(most_mb, low, high)
    return {
        "title": title,
        "grid": [(f"{value:g}", y(value)) for value in _choose_ticks(low, high)],
        "ticks": [(f"{value:g}", x(value)) for value in _choose_ticks(0.0, most_mb)],
        "points": points,
        "left": LEFT,
        "right": RIGHT,
        "bottom": BOTTOM_PX,
        "height": HEIGHT_PX,
        "line": None,
    }


def _compute_range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    # Equal values get a span too: an axis of no length divides by zero.
    margin = 0.04 * (high - low) or max(abs(high), 1.0) * 0.1
    return low - margin, high + margin


def _px(percent: float) -> float:
    return percent / 100 * PHONE_PX


def _find_free_place(
    x: float, y: float, width: float, boxes: list[Box]
) -> tuple[float, float, str]:
    """Offset and anchor of a label that covers none of `boxes`, within the plot; its own box is
    added to them.
    """
    for dx, dy, anchor in _list_places():
        left = x + dx if anchor == "start" else x + dx - width
        top = y + dy - LINE_PX / 2
        right, bottom = left + width, top + LINE_PX
        # A label may not leave the plot on a phone, the narrowest screen.
        inside = left >= _px(LEFT) and right <= PHONE_PX
        inside = inside and top >= TOP_PX - 8 and bottom <= BOTTOM_PX
        if inside and not any(
            left < box[2] and box[0] < right and top < box[3] and box[1] < bottom for box in boxes
        ):
            boxes.append((left, top, right, bottom))
            return dx, dy, anchor
    # Where nothing is free the label covers something, on the side with more room.
    return (-10.0, 0.0, "end") if x > PHONE_PX / 2 else (10.0, 0.0, "start")


def _list_places() -> Iterator[tuple[float, float, str]]:
    """Offsets to try, the nearest first: right, left, then a line further down and up."""
    for step in range(12):
        # Step 0 has one height only; all others are tried below and above.
        for sign in (1, -1) if step else (1,):
            yield 10.0, sign * step * LINE_PX, "start"
            yield -10.0, sign * step * LINE_PX, "end"


def _choose_ticks(low: float, high: float) -> list[float]:
    """Return three to seven round numbers between the two."""
    # Steps of 1, 2 or 5 times a power of ten, the first that leaves at most six spans.
    span = high - low
    step = next(s * 10**e for e in range(-4, 13) for s in (1, 2, 5) if span / (s * 10**e) <= 6)
    first = int(low / step) + (1 if low > 0 and low % step else 0)
    return [round(step * i, 6) for i in range(first, int(high / step) + 1)]
