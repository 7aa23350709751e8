"""Find out what each layer loses at each level, and the recipe that loses least under a budget.

    kokoro-ane sensitivity --int8-macs 0.9 \
        [--checkpoint FOLDER|kokoro-int8|hexgrad/Kokoro-82M] [--build build]
    kokoro-ane sensitivity --size 0.45 --recipe my_recipe.json
    # for `mixed18`: tables for groups of rows, down to 3 bits
    kokoro-ane sensitivity --size18 0.25

--int8-macs: at least this share of multiply-accumulates in int8, all weights int8. --size,
--size18: at most this share of the fp16 package, float activations. An interrupted run goes on
where it stopped. Exit 0: recipe and plot written. Exit 2: bad input. A pipe's last line is one JSON
object.
"""

import argparse
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core.commands import checkpoint_argument, conclude, print_table
from kokoro_ane.core.errors import EXIT_GOOD, InputError, Parser, command
from kokoro_ane.core.staging import bytes_of, staged
from kokoro_ane.quantize.methods import (
    INT8_MACS,
    LEVELS_FOR,
    METHODS,
    RECIPES_OF,
    SIZE,
    SIZE_18,
    STARTS,
    method_named,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kokoro_ane.quantize.measure import Entry, LayerTrials
    from kokoro_ane.quantize.search import SearchResult


DEFAULT_INT8_MACS = 0.9
MOST_SENSITIVE = 8  # rows of the table
MOST_SHOWN = 24  # layers in the plot
MARK = b"kokoro-ane"  # in pictures of this command, which it may overwrite


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """The flags of this command."""
    parser = Parser("kokoro-ane sensitivity", __doc__)
    checkpoint_argument(parser)
    parser.add_argument(
        "--build",
        type=Path,
        default=Path("build"),
        help="folder with the fp16 package (default: %(default)s)",
    )
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument(
        "--int8-macs",
        type=share,
        help=f"least share of MACs in int8 (default: {DEFAULT_INT8_MACS})",
    )
    budget.add_argument("--size", type=share, help="largest size as a share of the fp16 package")
    budget.add_argument("--size18", type=share, help="the same of mixed18, which needs iOS 18")
    parser.add_argument(
        "--clips",
        type=int,
        default=3,
        help="tuning sentences to measure on, 2 s each (default: %(default)s)",
    )
    parser.add_argument(
        "--recipe",
        type=Path,
        help="file to write (default: the checkpoint's own in quantize/recipes)",
    )
    parser.add_argument(
        "--log",
        type=Path,
        help="file of measurements (default: BUILD/sensitivity/NAME-BUDGET.jsonl)",
    )
    return parser.parse_args(argv)


def share(text: str) -> float:
    """A number above 0 and up to 1."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0.0 < value <= 1.0:
        raise argparse.ArgumentTypeError(f"{text} is not a share: above 0, up to 1")
    return value


def measure_all(trials: "LayerTrials", log: Path, levels: tuple[str, ...]) -> "list[Entry]":
    """Every measurement, with a progress bar on stderr."""
    from rich.console import Console
    from rich.progress import Progress

    from kokoro_ane.quantize.measure import measured

    entries = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("layer by layer", total=len(trials.tasks(levels)))
        for entry in measured(trials, log, levels):
            entries.append(entry)
            progress.update(
                task,
                completed=sum(e.level in levels for e in entries),
                description=f"{entry.layer} {entry.level}",
            )
    return entries


def require_matplotlib() -> None:
    """Raise InputError before any work when the plot could not be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise InputError("the plot needs matplotlib: install the extra `plot`")


def plot_search(result: "SearchResult", kind: str, path: Path) -> None:
    """Draw two panels into one PNG, written aside and renamed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
    _bars(left, result, kind)
    _curve(right, result, kind)
    with staged(path, bytes_of(MARK)) as aside:
        figure.savefig(aside, dpi=110, format="png", metadata={"Software": MARK.decode()})


def _bars(axes: "Axes", result: "SearchResult", kind: str) -> None:
    levels = [level for level in LEVELS_FOR[kind] if level != "fp16"]
    table: dict[str, dict[str, float]] = {}
    for entry in result.entries:
        table.setdefault(entry.layer, {})[entry.level] = max(entry.distance_db2, 0.0) ** 0.5
    layers = sorted(table, key=lambda layer: -max(table[layer].values()))[:MOST_SHOWN][::-1]
    height = 0.8 / len(levels)
    for row, level in enumerate(levels):
        places = [index + (row - (len(levels) - 1) / 2) * height for index in range(len(layers))]
        axes.barh(places, [table[layer].get(level, 0.0) for layer in layers], height, label=level)
    axes.set_yticks(
        range(len(layers)),
        [f"{layer}  ({result.recipe.levels[layer]})" for layer in layers],
        fontsize=8,
    )
    axes.set_xlabel("log-spectral distance with this layer alone changed, dB")
    axes.set_title(
        f"the {len(layers)} layers that lose most (their level in the recipe)", fontsize=10
    )
    axes.legend(title="level")


def _curve(axes: "Axes", result: "SearchResult", kind: str) -> None:
    of_macs = kind == INT8_MACS
    along = [point.gain if of_macs else 1.0 - point.gain for point in result.curve]
    axes.plot(
        along,
        [point.distance_db2**0.5 for point in result.curve],
        color="0.4",
        linewidth=1.2,
        label="forecast, best steps first",
    )
    chosen = result.recipe.forecast["int8_macs" if of_macs else "size"]
    axes.plot(
        chosen,
        result.recipe.forecast["spectral_distance_db2"] ** 0.5,
        "o",
        label="recipe, forecast",
    )
    axes.plot(chosen, result.together_db2**0.5, "s", label="recipe, all layers together")
    axes.axvline(
        next(iter(result.recipe.budget.values())),
        color="0.7",
        linestyle="--",
        linewidth=1,
        label="budget",
    )
    axes.set_xlabel(
        "share of multiply-accumulates in int8" if of_macs else "size, share of the fp16 package"
    )
    axes.set_ylabel("log-spectral distance, dB")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.set_title(f"trade-off curve from {STARTS[kind]} everywhere", fontsize=10)
    axes.legend()


def print_report(result: "SearchResult", recipe_file: Path, plot_file: Path) -> dict[str, Any]:
    """Print the most sensitive layers as a table; returns the report."""
    rows = [
        (
            entry.layer,
            entry.level,
            f"{entry.distance_db2**0.5:.3f}",
            f"{result.macs_share[entry.layer]:.2%}",
            result.recipe.levels[entry.layer],
        )
        for entry in sorted(result.entries, key=lambda e: -e.distance_db2)[:MOST_SENSITIVE]
    ]
    print_table(
        "layers that lose most: log-spectral distance with one alone changed",
        ("layer", "level", "alone, dB", "MACs", "recipe"),
        rows,
    )
    forecast = result.recipe.forecast
    print(f"recipe: {recipe_file}, plot: {plot_file}")
    print(
        f"int8 MACs {forecast['int8_macs']:.1%}, size {forecast['size']:.3f} of fp16, log-spectral"
        f" distance {forecast['spectral_distance_db2'] ** 0.5:.3f} dB forecast,"
        f" {result.together_db2**0.5:.3f} dB with all layers together; another noise seed, nothing"
        f" compressed: {result.seed_db2**0.5:.3f} dB"
    )
    return {
        "recipe": str(recipe_file),
        "plot": str(plot_file),
        "budget": dict(result.recipe.budget),
        "forecast": dict(forecast),
        "spectral_distance_together_db2": result.together_db2,
        "spectral_distance_of_a_seed_db2": result.seed_db2,
    }


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    if arguments.clips < 1:
        raise InputError(f"--clips {arguments.clips}: at least 1 is needed")
    sizes = {SIZE: arguments.size, SIZE_18: arguments.size18}
    kind, budget = next(
        ((name, size) for name, size in sizes.items() if size),
        (INT8_MACS, arguments.int8_macs or DEFAULT_INT8_MACS),
    )
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.core.export import quiet_coremltools
    from kokoro_ane.core.staging import check_implied, check_output
    from kokoro_ane.quantize.locator import default_layout, find_package
    from kokoro_ane.quantize.recipe import OURS, recipe_path

    if arguments.recipe:
        arguments.recipe = check_output(arguments.recipe, OURS, (".json",), arguments)
    if arguments.log:
        arguments.log = check_output(arguments.log, None, (".jsonl",), arguments)
        check_implied(arguments.log.with_suffix(".png"), bytes_of(MARK))
    check_implied(arguments.build / "sensitivity" / "x.jsonl")
    checkpoint = open_checkpoint(arguments.checkpoint)
    parent = find_package(arguments.build, checkpoint, METHODS["fp16"], default_layout(checkpoint))
    # after the cheap checks, because these imports take seconds
    with quiet_coremltools():
        from kokoro_ane.quantize.measure import LayerTrials
        from kokoro_ane.quantize.plan import vocoder_layers
        from kokoro_ane.quantize.search import find_recipe
        from kokoro_ane.vocoder.decoder import Vocoder

    require_matplotlib()
    layers = vocoder_layers(Vocoder.of(checkpoint))
    settings = method_named("mixed").activations if kind == INT8_MACS else None
    trials = LayerTrials.of(
        checkpoint,
        tuple(layer for layer in layers if not layer.is_tail),
        settings,
        arguments.clips,
        LEVELS_FOR[kind],
    )
    log = arguments.log or arguments.build / "sensitivity" / f"{parent.path.stem}-{kind}.jsonl"
    entries = measure_all(trials, log, LEVELS_FOR[kind])
    result = find_recipe(trials, layers, entries, parent.package_bytes, kind, budget)
    recipe_file, plot_file = (
        arguments.recipe or recipe_path(checkpoint, RECIPES_OF[kind]),
        log.with_suffix(".png"),
    )
    result.recipe.save(recipe_file)
    plot_search(result, kind, plot_file)
    report = print_report(result, recipe_file, plot_file)
    meaning = f"{recipe_file} written; `kokoro-ane quantize --method mixed` applies it"
    return conclude(arguments, report, EXIT_GOOD, meaning)


if __name__ == "__main__":
    raise SystemExit(main())
