"""Find out what each layer loses at each level, and the recipe that loses least under a budget.

    kokoro-ane sensitivity --int8-macs 0.9 \
        [--checkpoint FOLDER|kokoro-int8|hexgrad/Kokoro-82M] [--build build]
    kokoro-ane sensitivity --size 0.45 --recipe my_recipe.json
    # for `mixed18`: tables for groups of rows, down to 3 bits
    kokoro-ane sensitivity --size18 0.25

--int8-macs: at least this share of multiply-accumulates in int8, all weights int8. --size,
--size18: at most this share of the fp16 package, float activations. An interrupted run goes on
where it stopped. Exit 0: recipe written. Exit 2: bad input. A pipe's last line is one JSON object.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

from kokoro_ane.core import (
    EXIT_GOOD,
    CommandOptions,
    InputError,
    build_option,
    checkpoint_option,
    command,
    conclude,
    option,
    parse,
    print_table,
)
from kokoro_ane.quantize.methods import INT8_MACS, LEVELS_FOR, RECIPES_OF, SIZE, STARTS

DEFAULT_INT8_MACS = 0.9
MOST_SENSITIVE = 8  # rows of the table
SHOWN_POINTS = 8  # of the trade-off, evenly spaced


def share(text: str) -> float:
    """A number above 0 and up to 1."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0.0 < value <= 1.0:
        raise argparse.ArgumentTypeError(f"{text} is not a share: above 0, up to 1")
    return value


@dataclass(frozen=True)
class SensitivityOptions(CommandOptions):
    """Which budget the recipe keeps, and where it goes."""

    checkpoint: str | None = checkpoint_option()
    build: Path = build_option("folder with the fp16 package")
    int8_macs: float | None = option(
        f"least share of MACs in int8 (default: {DEFAULT_INT8_MACS})",
        type=share,
        exclusive="budget",
    )
    size: float | None = option(
        "largest size as a share of the fp16 package", type=share, exclusive="budget"
    )
    size18: float | None = option(
        "the same of mixed18, which needs iOS 18", type=share, exclusive="budget"
    )
    clips: int = option("tuning sentences to measure on, 2 s each", 3)
    recipe: Path | None = option(
        "file to write (default: the checkpoint's own in quantize/recipes)"
    )


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    arguments = parse(SensitivityOptions, "kokoro-ane sensitivity", __doc__, argv)
    if arguments.clips < 1:
        raise InputError(f"--clips {arguments.clips}: at least 1 is needed")
    budgets = {kind: value for kind in LEVELS_FOR if (value := getattr(arguments, kind))}
    kind, budget = next(iter(budgets.items()), (INT8_MACS, DEFAULT_INT8_MACS))
    from kokoro_ane.core import check_implied, check_output, open_checkpoint, quiet_coremltools
    from kokoro_ane.quantize.locator import HALF, Request, default_layout
    from kokoro_ane.quantize.recipe import OURS, Recipe, recipe_path

    recipe_file = arguments.recipe
    if recipe_file:
        recipe_file = check_output(recipe_file, OURS, (".json",), arguments)
    folder = arguments.build / "sensitivity"
    check_implied(folder / "x.jsonl")
    checkpoint = open_checkpoint(arguments.checkpoint)
    request = Request(checkpoint, arguments.build, HALF, default_layout(checkpoint))
    parent = request.verified()
    # after the cheap checks, because these imports take seconds
    with quiet_coremltools():
        from kokoro_ane.quantize.measure import LayerTrials, measured
        from kokoro_ane.quantize.plan import vocoder_layers
        from kokoro_ane.quantize.search import first_within, forecast, options, trade_off
        from kokoro_ane.vocoder import Vocoder

    every = vocoder_layers(Vocoder.from_checkpoint(checkpoint))
    layers = {layer.name: layer for layer in every if not layer.is_tail}
    trials = LayerTrials.from_checkpoint(checkpoint, layers, arguments.clips, LEVELS_FOR[kind])
    entries = list(measured(trials, LEVELS_FOR[kind], folder))
    wholes = {INT8_MACS: sum(layer.macs for layer in every), SIZE: parent.package_bytes}
    of_macs = kind == INT8_MACS
    choices = options(layers, entries, kind, wholes[INT8_MACS if of_macs else SIZE])
    curve = trade_off(choices, STARTS[kind])
    point = first_within(curve, kind, budget)
    recipe = Recipe(
        checkpoint.name,
        checkpoint.sha256,
        budget={kind: budget},
        forecast=forecast(point, layers, wholes),
        levels=dict(sorted(point.levels.items())),
    )
    recipe_file = recipe_file or recipe_path(checkpoint, RECIPES_OF[kind])
    recipe.save(recipe_file)
    print_table(
        "layers that lose most: log-spectral distance with one alone changed",
        ("layer", "level", "alone, dB", "MACs", "recipe"),
        [
            (
                entry.layer,
                entry.level,
                f"{max(entry.distance_db2, 0.0) ** 0.5:.3f}",
                f"{layers[entry.layer].macs / wholes[INT8_MACS]:.2%}",
                recipe.levels[entry.layer],
            )
            for entry in sorted(entries, key=lambda e: -e.distance_db2)[:MOST_SENSITIVE]
        ],
    )
    print_table(
        f"the trade-off from {STARTS[kind]} everywhere, forecast",
        ("MACs in int8" if of_macs else "size", "log-spectral distance, dB"),
        [
            (f"{one.gain if of_macs else 1.0 - one.gain:.3f}", f"{one.distance_db2**0.5:.3f}")
            for one in curve[:: -(-len(curve) // SHOWN_POINTS)]
        ],
        right=True,
    )
    together_db2, seed_db2 = trials.distance_db2(point.levels), trials.seed_distance_db2()
    print(
        f"int8 MACs {recipe.forecast['int8_macs']:.1%}, size {recipe.forecast['size']:.3f} of fp16,"
        f" log-spectral distance {point.distance_db2**0.5:.3f} dB forecast,"
        f" {together_db2**0.5:.3f} dB with all layers together; another noise seed, nothing"
        f" compressed: {seed_db2**0.5:.3f} dB"
    )
    report = {
        "recipe": str(recipe_file),
        "budget": dict(recipe.budget),
        "forecast": dict(recipe.forecast),
        "spectral_distance_together_db2": together_db2,
        "spectral_distance_of_a_seed_db2": seed_db2,
    }
    meaning = f"{recipe_file} written; `kokoro-ane quantize --method {RECIPES_OF[kind]}` applies it"
    return conclude(arguments, report, EXIT_GOOD, meaning)


if __name__ == "__main__":
    raise SystemExit(main())
