"""How small a damage each gate still finds with 24 clips: one kind of damage a gate, the smallest of its steps that breaks the gate.

    python -m eval.power [--checkpoint kokoro-int8] [--clips 24] [--metrics local_level_db,jump_db]

Damage is done to the fp32 waveform, so only the gate's own metric is measured. Steps are searched by halving: more of a damage is taken to
be found where less is. The last line of stdout is one JSON object.
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not eval/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
import sys
from bisect import bisect_left
from pathlib import Path
from typing import TYPE_CHECKING

from core.arguments import checkpoint_argument
from core.errors import EXIT_GOOD, InputError, run_cli

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eval.corpus import Spoken
    from eval.dials import Dial
    from eval.gates import Gate
    from eval.verdict import Figures


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="eval.power", description=__doc__.splitlines()[0])
    checkpoint_argument(parser)
    parser.add_argument("--clips", type=int, help="how many clips (default: all 24)")
    parser.add_argument("--metrics", help="only gates of these metrics, by comma (default: all that have a dial)")
    parser.add_argument("--seed", type=int, default=0, help="of the noise (default: %(default)s)")
    parser.add_argument("--renders", type=Path, help="folder that keeps the fp32 renders (default: they are made anew)")
    return parser.parse_args(argv)


def smallest_found(dial: "Dial", spoken: "Sequence[Spoken]") -> float | None:
    """The first amount, from weak to strong, at which the dial's gate is broken for certain; None when none is."""
    from eval.gates import COMMON

    gate = next(gate for gate in COMMON if gate.name == dial.gate)
    floors = [said.seed_floor((gate.metric,)) for said in spoken] if gate.in_seed_floors else []
    found = bisect_left(dial.amounts, True, key=lambda amount: is_found(gate, dial, amount, spoken, floors))
    return dial.amounts[found] if found < len(dial.amounts) else None


def is_found(gate: "Gate", dial: "Dial", amount: float, spoken: "Sequence[Spoken]", floors: "Figures") -> bool:
    """Whether this amount breaks the gate. The clip that breaks a worst gate is the last one looked at."""
    from eval.metrics.registry import measure
    from eval.verdict import BROKEN, WORST, check

    figures = []
    for said in spoken:
        figures.append(measure(said.trial(dial.damage(said.reference, amount), dial.damage(said.vowel, amount)), (gate.metric,)))
        if gate.statistic == WORST and not gate.in_seed_floors and check(gate, figures, ()).state == BROKEN:
            return True
    return check(gate, figures, floors).state == BROKEN


def dials_of(metrics: str | None) -> "list[Dial]":
    """The dials of these metrics, by comma, or all. InputError for one that has none."""
    from eval.dials import DIALS

    known = dict.fromkeys(dial.gate.split()[0] for dial in DIALS)
    wanted = metrics.split(",") if metrics else list(known)
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        raise InputError(f"--metrics {', '.join(unknown)}: there are dials for {', '.join(known)}")
    return [dial for dial in DIALS if dial.gate.split()[0] in wanted]


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    dials = dials_of(arguments.metrics)
    from core.checkpoint import open_checkpoint

    checkpoint = open_checkpoint(arguments.checkpoint)
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    from eval.corpus import Truth, judged_clips

    truth = Truth(checkpoint, arguments.seed, arguments.renders)
    chosen, shown = judged_clips(checkpoint, count=arguments.clips), Console(stderr=True)
    spoken = [truth.of(clip) for clip in track(chosen, "fp32 renders", console=shown, transient=True)]
    table, found = (
        Table("gate", "damage", "found from", "tried", title=f"{len(spoken)} clips of {checkpoint.name}", title_justify="left"),
        {},
    )
    for dial in dials:
        found[dial.gate] = {"damage": dial.what, "unit": dial.unit, "smallest": smallest_found(dial, spoken)}
        smallest = found[dial.gate]["smallest"]
        tried = f"{dial.amounts[0]:g} to {dial.amounts[-1]:g}"
        print(f"{dial.gate}: {smallest} {dial.unit}", file=sys.stderr)
        table.add_row(dial.gate, dial.what, "not found" if smallest is None else f"{smallest:g} {dial.unit}", tried)
    Console(width=None if Console().is_terminal else 118).print(table)
    print(json.dumps({"checkpoint": checkpoint.name, "clips": len(spoken), "power": found}))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from eval.power import main  # one module identity, however it was started

    raise SystemExit(main())
