"""Learn what a compression level rounds: weights, palettes, biases and ranges, block by block and then end to end.

    python -m quantize.reconstruct --method w8a8 [--checkpoint FOLDER|demo|hexgrad/Kokoro-82M] [--out build/reconstruction/NAME-w8a8]
    python -m quantize.apply --method w8a8 --reconstruction build/reconstruction/NAME-w8a8

Teacher and data are the checkpoint's own: its vocoder in float and its speech of the tuning set. Every finished phase is kept, and an
interrupted run goes on behind it. Sentences of the tuning set that took no part decide what is kept. Exit 0: something is nearer than what
the level does without. Exit 1: nothing is. Exit 2: bad input. The last line of stdout is one JSON object.
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not quantize/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from core.arguments import checkpoint_argument, form_argument, seed_argument, settings_argument
from core.contract import LITERAL
from core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, run_cli
from quantize.methods import method_named, with_settings
from quantize.phases import FEWEST_CLIPS, MOST_STEPS, LearningPlan

if TYPE_CHECKING:
    from quantize.learner import Outcome

LEARNABLE = ("w8a8", "mixed")


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    plan = LearningPlan()
    parser = argparse.ArgumentParser(prog="quantize.reconstruct", description=__doc__.splitlines()[0])
    parser.add_argument("--method", required=True, choices=LEARNABLE, help="level to learn")
    checkpoint_argument(parser)
    form_argument(parser)
    parser.add_argument("--recipe", type=Path, help="for method mixed (default: the bundled recipe of the checkpoint)")
    parser.add_argument("--out", type=Path, help="folder of what is learned (default: build/reconstruction/NAME-METHOD)")
    settings_argument(parser)
    parser.add_argument("--clips", type=int, help="sentences of the tuning set to learn from and to decide on (default: all)")
    parser.add_argument("--block-steps", type=int, default=plan.block_steps, help="of each block, 0: none (default: %(default)s)")
    parser.add_argument("--whole-steps", type=int, default=plan.whole_steps, help="end to end, 0: none (default: %(default)s)")
    parser.add_argument("--block-rate", type=float, default=plan.block_rate, help="in steps of a grid (default: %(default)s)")
    parser.add_argument("--whole-rate", type=float, default=plan.whole_rate, help="the same, end to end (default: %(default)s)")
    parser.add_argument("--seed", type=seed_argument, default=plan.seed, help="of excerpts and their order (default: %(default)s)")
    return parser.parse_args(argv)


def plan_of(arguments: argparse.Namespace) -> LearningPlan:
    """How long and how fast. InputError for what cannot be."""
    for name in ("block_steps", "whole_steps"):
        if not 0 <= getattr(arguments, name) <= MOST_STEPS:
            raise InputError(f"--{name.replace('_', '-')} {getattr(arguments, name)}: give 0 to {MOST_STEPS}")
    for name in ("block_rate", "whole_rate"):
        if not 0.0 < getattr(arguments, name) <= 1.0:
            raise InputError(f"--{name.replace('_', '-')} {getattr(arguments, name)}: above 0, up to 1 step of a grid")
    if arguments.clips is not None and arguments.clips < FEWEST_CLIPS:
        raise InputError(f"--clips {arguments.clips}: give {FEWEST_CLIPS} or more, some to learn from and some to decide on")
    rates = {"block_rate": arguments.block_rate, "whole_rate": arguments.whole_rate}
    steps = {"block_steps": arguments.block_steps, "whole_steps": arguments.whole_steps}
    return LearningPlan(**steps, **rates, clips=arguments.clips, seed=arguments.seed)


def print_report(outcome: "Outcome", folder: Path) -> None:
    """Human table, then one JSON line."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="reconstruction: loss of each phase; sound of tuning sentences that took no part", title_justify="left")
    for heading in ("phase", "loss before", "after", "log-spectral distance, dB", "SNR, dB"):
        table.add_column(heading)
    for phase in outcome.phases:
        losses = ("", "") if phase.before is None else (f"{phase.before:.3g}", f"{phase.after:.3g}")
        table.add_row(phase.name, *losses, f"{phase.damage_db2**0.5:.4f}", f"{phase.snr_db:.2f}")
    Console().print(table)
    better = outcome.chosen is not outcome.phases[0]
    print(f"kept: {outcome.chosen.name}, in {folder}" if better else "no phase is nearer than rounding to the nearest: nothing is kept")
    figures = {phase.name: {"damage_db2": phase.damage_db2, "snr_db": phase.snr_db} for phase in outcome.phases}
    print(json.dumps({"kept": outcome.chosen.name if better else None, "folder": str(folder), "phases": figures}))


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    plan = plan_of(arguments)
    from core.checkpoint import open_checkpoint
    from core.output import check_output
    from quantize.recipe import recipe_for

    method = with_settings(method_named(arguments.method), arguments.settings).in_form(arguments.form)
    checkpoint = open_checkpoint(arguments.checkpoint)
    level = "-".join((checkpoint.name, *(() if arguments.form == LITERAL else (arguments.form,)), method.name))
    folder = arguments.out or Path("build") / "reconstruction" / level
    check_output(folder / "x.npz")
    recipe = recipe_for(method, checkpoint, arguments.recipe)
    if recipe is not None:
        recipe.require_fits(checkpoint)
    from quantize.learned_folder import Kept, identity_of
    from quantize.learner import Learner

    kept = Kept(folder, identity_of(checkpoint, method, recipe), plan.as_dict())
    outcome = Learner.of(checkpoint, method, recipe, plan).learned(kept)
    print_report(outcome, folder)
    return EXIT_GOOD if outcome.chosen is not outcome.phases[0] else EXIT_REJECTED


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from quantize.reconstruct import main  # one module identity, however it was started

    raise SystemExit(main())
