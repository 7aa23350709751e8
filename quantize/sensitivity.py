"""Find out what each layer loses at each level, and the recipe that loses least under a budget.

    python -m quantize.sensitivity --int8-macs 0.9 [--checkpoint FOLDER|demo|hexgrad/Kokoro-82M] [--build build]
    python -m quantize.sensitivity --size 0.45 --recipe my_recipe.json

--int8-macs: at least this share of multiply-accumulates in int8, all weights int8. --size: at most this share of the fp16 package, float
activations. An interrupted run goes on where it stopped. Exit 0: recipe and plot written. Exit 2: bad input. The last line of stdout is
one JSON object.
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not quantize/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from core.arguments import checkpoint_argument
from core.errors import EXIT_GOOD, InputError, run_cli
from quantize.methods import METHODS, method_named
from quantize.search import INT8_MACS, LEVELS_FOR, SIZE

if TYPE_CHECKING:
    from quantize.budget import Found
    from quantize.measure import Entry, LayerTrials

DEFAULT_INT8_MACS = 0.9
MOST_SENSITIVE = 8  # rows of the table


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="quantize.sensitivity", description=__doc__.splitlines()[0])
    checkpoint_argument(parser)
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with the fp16 package (default: %(default)s)")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--int8-macs", type=share, help=f"least share of MACs in int8 (default: {DEFAULT_INT8_MACS})")
    budget.add_argument("--size", type=share, help="largest size as a share of the fp16 package")
    parser.add_argument("--clips", type=int, default=3, help="tuning sentences to measure on, 2 s each (default: %(default)s)")
    parser.add_argument("--recipe", type=Path, help="file to write (default: the checkpoint's own in quantize/recipes)")
    parser.add_argument("--log", type=Path, help="file of measurements (default: BUILD/sensitivity/NAME-BUDGET.jsonl)")
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
    """Every measurement under a progress bar on stderr."""
    from rich.console import Console
    from rich.progress import Progress

    from quantize.measure import measured

    entries = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("layer by layer", total=len(trials.tasks(levels)))
        for entry in measured(trials, log, levels):
            entries.append(entry)
            progress.update(task, completed=sum(e.level in levels for e in entries), description=f"{entry.layer} {entry.level}")
    return entries


def print_report(found: "Found", recipe_file: Path, plot_file: Path) -> None:
    """Human table, then one JSON line."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="layers that lose most: log-spectral distance with one alone changed", title_justify="left")
    for heading in ("layer", "level", "alone, dB", "MACs", "recipe"):
        table.add_column(heading)
    for entry in sorted(found.entries, key=lambda e: -e.damage_db2)[:MOST_SENSITIVE]:
        cells = (f"{entry.damage_db2**0.5:.3f}", f"{found.macs_share[entry.layer]:.2%}", found.recipe.levels[entry.layer])
        table.add_row(entry.layer, entry.level, *cells)
    Console().print(table)
    forecast = found.recipe.forecast
    print(f"recipe: {recipe_file}, plot: {plot_file}")
    print(
        f"int8 MACs {forecast['int8_macs']:.1%}, size {forecast['size']:.3f} of fp16, log-spectral distance "
        f"{forecast['damage_db2'] ** 0.5:.3f} dB forecast, {found.together_db2**0.5:.3f} dB with all layers together; another noise seed, "
        f"nothing compressed: {found.seed_db2**0.5:.3f} dB"
    )
    fields = {"recipe": str(recipe_file), "plot": str(plot_file), "budget": dict(found.recipe.budget), "forecast": dict(forecast)}
    print(json.dumps(fields | {"damage_together_db2": found.together_db2, "damage_of_a_seed_db2": found.seed_db2}))


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    if arguments.clips < 1:
        raise InputError(f"--clips {arguments.clips}: at least 1 is needed")
    kind, wanted = (SIZE, arguments.size) if arguments.size else (INT8_MACS, arguments.int8_macs or DEFAULT_INT8_MACS)
    from core.checkpoint import open_checkpoint
    from core.export import quiet_coremltools
    from core.output import check_output
    from quantize.packages import find_package
    from quantize.recipe import recipe_path

    if arguments.recipe:
        check_output(arguments.recipe, suffixes=(".json",))
    check_output(arguments.log or arguments.build / "sensitivity" / "x.jsonl")
    checkpoint = open_checkpoint(arguments.checkpoint)
    parent = find_package(arguments.build, checkpoint, METHODS["fp16"])
    with quiet_coremltools():  # after the cheap checks: this takes seconds
        from mlprogram import Program
        from quantize.budget import find_recipe
        from quantize.layers import program_layers
        from quantize.measure import LayerTrials
        from quantize.plot import plot_search, require_matplotlib
        from vocoder.decoder import Vocoder

    require_matplotlib()
    layers = program_layers(Program(parent.package_path), Vocoder.of(checkpoint))
    settings = method_named("mixed").activations if kind == INT8_MACS else None
    trials = LayerTrials.of(checkpoint, tuple(layer for layer in layers if not layer.is_tail), settings, arguments.clips, kind == SIZE)
    log = arguments.log or arguments.build / "sensitivity" / f"{parent.path.stem}-{kind}.jsonl"
    entries = measure_all(trials, log, LEVELS_FOR[kind])
    found = find_recipe(trials, layers, entries, parent.package_bytes, kind, wanted)
    recipe_file, plot_file = arguments.recipe or recipe_path(checkpoint), log.with_suffix(".png")
    found.recipe.save(recipe_file)
    plot_search(found, kind, plot_file)
    print_report(found, recipe_file, plot_file)
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from quantize.sensitivity import main  # one module identity, however it was started

    raise SystemExit(main())
