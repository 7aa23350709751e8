"""Prove that the gates reject: judge thirteen models with a known error as if each were a compression level.

    python -m eval.controls [--checkpoint FOLDER|demo|hexgrad/Kokoro-82M] [--clips 6]

Exit 0: all rejected. Exit 1: one was not. Exit 2: bad input. The last line of stdout is one JSON object.
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not eval/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
from typing import TYPE_CHECKING

from core.arguments import checkpoint_argument
from core.errors import EXIT_GOOD, EXIT_REJECTED, run_cli

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eval.try_controls import Caught

WIDTH = 118  # when stdout is not a terminal


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="eval.controls", description=__doc__.splitlines()[0])
    checkpoint_argument(parser)
    parser.add_argument("--clips", type=int, default=6, help="how many clips each is judged on (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the noise; the seed floor takes seed + 1 (default: %(default)s)")
    return parser.parse_args(argv)


def print_table(found: "Sequence[Caught]") -> None:
    """One row a control: rejected or not, and by which gates."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console = console if console.is_terminal else Console(width=WIDTH)
    table = Table(title="known-bad controls", title_justify="left")
    for heading in ("control", "", "PESQ", "MCD dB", "broken gates"):
        table.add_column(heading)
    for caught in found:
        verdict = "[green]rejected[/]" if caught.rejected else "[bold red]NOT REJECTED[/]"
        table.add_row(caught.name, verdict, f"{caught.pesq:.2f}", f"{caught.mcd_db:.2f}", ", ".join(caught.broken) or "-")
    console.print(table)


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from core.checkpoint import open_checkpoint

    checkpoint = open_checkpoint(arguments.checkpoint)
    from rich.console import Console
    from rich.progress import track

    from eval.corpus import Truth, judged_clips
    from eval.known_bad import CONTROLS
    from eval.try_controls import ControlTrials

    lineup = ControlTrials(Truth(checkpoint, arguments.seed), judged_clips(checkpoint, count=arguments.clips))
    shown = track(CONTROLS.values(), "controls", console=Console(stderr=True), transient=True)
    found = [lineup.caught(control) for control in shown]
    print_table(found)
    rejected = sum(caught.rejected for caught in found)
    print(f"{rejected} of {len(found)} rejected on {arguments.clips} clips of {checkpoint.name}")
    rows = [{"name": caught.name, "rejected": caught.rejected, "broken": list(caught.broken)} for caught in found]
    print(json.dumps({"rejected": rejected, "controls": rows, "clips": arguments.clips, "seed": arguments.seed}))
    return EXIT_GOOD if rejected == len(found) else EXIT_REJECTED


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from eval.controls import main  # one module identity, however it was started

    raise SystemExit(main())
