"""Draw a forecast: for each chip and reading, the segments in order, engine against the rest, as wide as the bytes they move.

plot_segments([forecast_residency(profile, rules, "m1")], rules, Path("segments.png"))
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mlprogram.errors import ProgramError
from mlprogram.examine.forecast import Forecast, Reading
from mlprogram.examine.report import percent
from mlprogram.examine.rules import Rules
from mlprogram.files import aside

_COLOURS = {True: "#2a7f62", False: "#c8553d"}
_LANES = {True: 0.25, False: -0.25}
_FORMATS = (".png", ".svg", ".pdf")


def check_format(path: Path) -> None:
    """ProgramError unless the name ends as a picture's."""
    if path.suffix.lower() not in _FORMATS:
        raise ProgramError(f"--plot {path}: the name must end in one of {', '.join(_FORMATS)}")


def plot_segments(forecasts: list[Forecast], rules: Rules, path: Path) -> None:
    """Write the figure. Raises ProgramError for another file type or if matplotlib is not there."""
    check_format(path)
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ProgramError("--plot needs matplotlib: pip install 'kokoro-ane[plot]'") from error
    rows = [(forecast, name) for forecast in forecasts for name in ("optimistic", "pessimistic")]
    figure = Figure(figsize=(11, 1.4 + 0.55 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    for place, (forecast, name) in enumerate(reversed(rows)):
        _draw_row(axes, place, forecast, getattr(forecast, name))
    axes.set_yticks(range(len(rows)), [f"{rules.chips[f.chip].name} {name}" for f, name in reversed(rows)])
    axes.set_xlabel("MB moved by the segments in the order they run, every operand of every operation counted")
    axes.set_title(f"{forecasts[0].profile.program.package.path.name}: forecast, not a measurement", loc="left")
    handles = [axes.barh([0], [0], color=_COLOURS[on], label=label) for on, label in ((True, "Neural Engine"), (False, "elsewhere"))]
    figure.legend(handles=handles, loc="outside lower right", ncols=2, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    with aside(path) as unfinished:
        figure.savefig(unfinished, dpi=120)


def _draw_row(axes: Any, place: int, forecast: Forecast, reading: Reading) -> None:
    left = 0.0
    for segment in reading.cut.segments:
        width = sum(forecast.profile.ops[i].bytes_moved for i in segment.ops) / 1e6
        axes.barh(
            place + _LANES[segment.on_engine],
            width,
            left=left,
            height=0.42,
            color=_COLOURS[segment.on_engine],
            edgecolor="white",
            linewidth=0.3,
        )
        left += width
    cut = reading.cut
    text = f" {percent(reading.share('macs'))} % of MACs, {cut.engine_segments} engine segments, {cut.crossings} crossings"
    axes.text(left, place, text, va="center", fontsize=8)
    axes.set_xlim(right=max(axes.get_xlim()[1], left * 1.5))
