"""Plots of the report, each a self-contained image for the page.

svg = clip_plot(record, "pesq", gate=4.0)
png = spectrogram_pair(reference, test, "w8")
"""

import base64
import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from core.contract import SAMPLE_RATE_HZ
from core.errors import InputError
from eval.metrics.framing import power_spectrum
from eval.metrics.registry import METRICS, ZERO

INK, PALE = "#1b2430", "#8a94a3"
PALETTE = ("#0b6e99", "#c2410c", "#15803d", "#7c3aed", "#b91c1c", "#a16207", "#0f766e", "#be185d")
DYNAMIC_RANGE_DB = 70


def figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure of so many inches, without pyplot's global state. InputError when matplotlib is missing."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("the report needs matplotlib: pip install 'matplotlib>=3.9'") from None
    canvas = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(canvas)
    return canvas, canvas.add_subplot()


def as_image(canvas: Any, kind: str = "svg", dpi: int = 110) -> str:
    """A data: address."""
    stream = io.BytesIO()
    canvas.savefig(stream, format=kind, dpi=dpi, metadata={"Date": None} if kind == "svg" else None)
    return f"data:image/{'svg+xml' if kind == 'svg' else kind};base64,{base64.b64encode(stream.getvalue()).decode()}"


def clip_plot(record: Mapping[str, Any], metric: str) -> str:
    """A dot for each sentence of each level, and for the other seed; the mean gate or worst gate as a line."""
    levels = [level for level in record["levels"] if level.get("clips")]
    canvas, axes = figure(8, 0.42 * (len(levels) + 1) + 1.1)
    seed_floor = [clip["seed_floor"][metric] for clip in levels[0]["clips"] if metric in clip["seed_floor"]]
    rows = [("another seed", seed_floor, PALE)] if seed_floor else []
    figures = {level["method"]: [clip["figures"][metric] for clip in level["clips"] if metric in clip["figures"]] for level in levels}
    rows += [(name, values, PALETTE[i % len(PALETTE)]) for i, (name, values) in enumerate(figures.items())]
    for place, (_, values, colour) in enumerate(rows):
        axes.scatter(values, np.full(len(values), place), s=16, color=colour, alpha=0.7, linewidths=0)
        axes.plot([np.mean(values)] * 2 if values else [], [place - 0.3, place + 0.3] if values else [], color=colour, linewidth=2)
    for limit in sorted({limit for level in levels for check in level["checks"] for limit in _limits(check, metric)}):
        axes.axvline(limit, color="#b91c1c", linewidth=1, linestyle=":")
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axes.invert_yaxis()
    axes.set_xlabel(f"{METRICS[metric].title} ({METRICS[metric].unit}, {METRICS[metric].best} is better); bar = mean, dotted = gate")
    return _finished(canvas, axes)


def _limits(check: Mapping[str, Any], metric: str) -> tuple[float, ...]:
    """Where a gate of the metric lies: ">= 4" -> 4, "within 0.5" -> -0.5 and 0.5; none for another metric's gate."""
    if check["gate"].split()[0] != metric:
        return ()
    limit = float(check["rule"].split()[-1])
    return (-limit, limit) if METRICS[metric].best == ZERO else (limit,)


def trade_off(record: Mapping[str, Any]) -> str:
    """Size on disk against PESQ, mean and worst."""
    canvas, axes = figure(8, 3.4)
    levels = [level for level in record["levels"] if level.get("clips") and level["summary"]["pesq"]["mean"] is not None]
    for i, level in enumerate(levels):
        megabytes, pesq = level["bytes"] / 1e6, level["summary"]["pesq"]
        style = {"color": PALETTE[i % len(PALETTE)], "marker": "o", "markersize": 5, "alpha": 0.85}
        axes.plot([megabytes] * 2, [pesq["worst"], pesq["mean"]], label=f"{level['method']}  {level['verdict']}", **style)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9)
    axes.margins(x=0.06, y=0.1)
    axes.set_xlabel("MB on disk")
    axes.set_ylabel("PESQ, mean above worst")
    return _finished(canvas, axes)


def spectrogram_pair(reference: np.ndarray, test: np.ndarray, name: str) -> str:
    """Reference, level, and the difference of their levels, on one scale."""
    canvas, first = figure(8, 5.2)
    first.remove()
    levels = [10 * np.log10(power_spectrum(signal.astype(np.float64)) + 1e-9).T for signal in (reference, test)]  # [513, frames]
    top = levels[0].max()
    extent = (0, len(reference) / SAMPLE_RATE_HZ, 0, SAMPLE_RATE_HZ / 2000)
    panels = [
        (levels[0], "fp32 reference", "magma", (top - DYNAMIC_RANGE_DB, top)),
        (levels[1], name, "magma", (top - DYNAMIC_RANGE_DB, top)),
    ]
    audible = np.maximum(levels, top - DYNAMIC_RANGE_DB)
    panels.append((audible[1] - audible[0], f"{name} less reference, -12 to 12 dB", "RdBu_r", (-12, 12)))
    for place, (image, title, colours, (low, high)) in enumerate(panels):
        axes = canvas.add_subplot(3, 1, place + 1)
        axes.imshow(image, origin="lower", aspect="auto", extent=extent, cmap=colours, vmin=low, vmax=high)
        axes.set_title(title, fontsize=9, loc="left", color=INK)
        axes.set_ylabel("kHz", fontsize=8)
        axes.tick_params(labelsize=8)
    return as_image(canvas, "png", dpi=80)


def _finished(canvas: Any, axes: Any) -> str:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", color="#e3e7ec", linewidth=0.8)
    axes.set_axisbelow(True)
    return as_image(canvas)
