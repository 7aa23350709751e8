"""The picture of a search: what each layer loses alone, and the trade-off curve with the recipe on it.

plot_search(found, "int8_macs", Path("build/sensitivity/demo-int8_macs.png"))
"""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import InputError
from core.staging import staged
from quantize.search import INT8_MACS, LEVELS_FOR, STARTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from quantize.budget import Found

MOST = 24  # layers shown


def require_matplotlib() -> None:
    """Raise InputError before any work is done when the plot could not be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise InputError("the plot needs matplotlib: install the extra `plot`")


def plot_search(found: "Found", kind: str, path: Path) -> None:
    """Two panels in one PNG, written by rename."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
    _bars(left, found, kind)
    _curve(right, found, kind)
    with staged(path) as aside:
        figure.savefig(aside, dpi=110, format="png")


def _bars(axes: "Axes", found: "Found", kind: str) -> None:
    levels = [level for level in LEVELS_FOR[kind] if level != "fp16"]
    table: dict[str, dict[str, float]] = {}
    for entry in found.entries:
        table.setdefault(entry.layer, {})[entry.level] = max(entry.damage_db2, 0.0) ** 0.5
    layers = sorted(table, key=lambda layer: -max(table[layer].values()))[:MOST][::-1]
    height = 0.8 / len(levels)
    for row, level in enumerate(levels):
        places = [index + (row - (len(levels) - 1) / 2) * height for index in range(len(layers))]
        axes.barh(places, [table[layer].get(level, 0.0) for layer in layers], height, label=level)
    axes.set_yticks(range(len(layers)), [f"{layer}  ({found.recipe.levels[layer]})" for layer in layers], fontsize=8)
    axes.set_xlabel("log-spectral distance with this layer alone changed, dB")
    axes.set_title(f"the {len(layers)} layers that lose most (their level in the recipe)", fontsize=10)
    axes.legend(title="level")


def _curve(axes: "Axes", found: "Found", kind: str) -> None:
    of_macs = kind == INT8_MACS
    along = [point.gain if of_macs else 1.0 - point.gain for point in found.curve]
    axes.plot(along, [point.damage_db2**0.5 for point in found.curve], color="0.4", linewidth=1.2, label="forecast, best steps first")
    chosen = found.recipe.forecast["int8_macs" if of_macs else "size"]
    axes.plot(chosen, found.recipe.forecast["damage_db2"] ** 0.5, "o", label="recipe, forecast")
    axes.plot(chosen, found.together_db2**0.5, "s", label="recipe, all layers together")
    axes.axvline(next(iter(found.recipe.budget.values())), color="0.7", linestyle="--", linewidth=1, label="budget")
    axes.set_xlabel("share of multiply-accumulates in int8" if of_macs else "size, share of the fp16 package")
    axes.set_ylabel("log-spectral distance, dB")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.set_title(f"trade-off curve from {STARTS[kind]} everywhere", fontsize=10)
    axes.legend()
