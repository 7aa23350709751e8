"""Prove that the gates reject and pass: models with a known error, and harmless changes, judged as
if each were a compression level.

    kokoro-ane controls [--checkpoint FOLDER|kokoro-int8|hexgrad/Kokoro-82M] [--clips 6] [--only "level sways,hum"]
    # of the whole chain, on the tuning set: docs/release.md
    kokoro-ane controls --stage product
    # a dropped block, tokens swapped, another style row, speed, embeddings: docs/encoder.md
    kokoro-ane controls --stage encoder

Exit 0: all errors rejected, all that is harmless passed. Exit 1: not so. Exit 2: bad input. The
last line of stdout is one JSON object.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core.commands import checkpoint_argument
from kokoro_ane.core.commands import print_table as print_rows
from kokoro_ane.core.contract import BOTH, TUNING
from kokoro_ane.core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, Parser, command

if TYPE_CHECKING:
    from kokoro_ane.eval.faults import Caught, Control, Harmless


CLIPS = 6


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = Parser("kokoro-ane controls", __doc__)
    checkpoint_argument(parser)
    stages = ("vocoder", "encoder", "product")
    parser.add_argument(
        "--stage", choices=stages, default="vocoder", help="whose gates (default: %(default)s)"
    )
    parser.add_argument(
        "--clips",
        type=int,
        help=f"how many clips each is judged on (default: {CLIPS}; of the encoder all 48)",
    )
    parser.add_argument(
        "--build",
        type=Path,
        default=Path("build"),
        help="folder with a product's packages (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="of the noise; the seed variation takes seed + 1 (default: %(default)s)",
    )
    parser.add_argument("--only", help="these controls, by name, with commas (default: all)")
    parser.add_argument(
        "--renders",
        type=Path,
        help="folder that keeps the fp32 renders (default: they are made anew)",
    )
    return parser.parse_args(argv)


def print_table(title: str, found: "Sequence[Caught]", good: bool) -> None:
    """One row a control: rejected or not, and by which gates. `good`: whether it should pass."""
    from rich.table import Table

    from kokoro_ane.eval.terminal import WIDTH, console_of

    table = Table(title=title, title_justify="left")
    for heading in ("control", "", "PESQ", "MCD dB", "broken gates"):
        table.add_column(heading)
    for caught in found:
        told = "rejected" if caught.rejected else "passed"
        verdict = f"[green]{told}[/]" if caught.rejected != good else f"[bold red]{told.upper()}[/]"
        table.add_row(
            caught.name,
            verdict,
            f"{caught.pesq:.2f}",
            f"{caught.mcd_db:.2f}",
            ", ".join(caught.broken) or "-",
        )
    console_of(WIDTH).print(table)


def controls_of(names: str | None) -> "tuple[list[Control], list[Harmless]]":
    """Errors and harmless changes of these names, by comma, or all. InputError for one that is
    neither.
    """
    from kokoro_ane.eval.negative_controls import CONTROLS, HARMLESS

    asked = set(names.split(",")) if names else {*CONTROLS, *(change.name for change in HARMLESS)}
    bad = [control for name, control in CONTROLS.items() if name in asked]
    harmless = [change for change in HARMLESS if change.name in asked]
    unknown = sorted(asked - {c.name for c in bad} - {c.name for c in harmless})
    if unknown:
        raise InputError(
            f"--only {', '.join(unknown)}: no control is called so; there are {', '.join(CONTROLS)}"
        )
    return bad, harmless


def encoder_controls(arguments: argparse.Namespace) -> int:
    """The controls of the encoder's gates."""
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.eval.prosody_controls import controls, harmless
    from kokoro_ane.eval.prosody_judge import ProsodyBench
    from kokoro_ane.eval.reference import judged_clips
    from kokoro_ane.eval.verdict import REJECT, SHIP

    checkpoint = open_checkpoint(arguments.checkpoint)
    bench = ProsodyBench(checkpoint, judged_clips(checkpoint, BOTH, arguments.clips))
    rows = []
    for verdict, makers in ((REJECT, controls(bench)), (SHIP, harmless(bench))):
        for name, say in makers.items():
            made = bench.judged(name, say).decision
            print(f"{name}: {made.verdict}", file=sys.stderr)
            rows.append(
                {
                    "name": name,
                    "right": made.verdict == verdict,
                    "verdict": made.verdict,
                    "broken": list(made.broken),
                }
            )
    return told_as_wanted(arguments.stage, rows)


def product_controls(arguments: argparse.Namespace) -> int:
    """The controls of a product's gates, and each figure beside the neighbouring row's."""
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.core.export import quiet_coremltools

    with quiet_coremltools():
        from kokoro_ane.eval.product_controls import controls, judged
    from kokoro_ane.eval.reference import Reference
    from kokoro_ane.eval.verdict import REJECT
    from kokoro_ane.quantize.speech import own_speech

    checkpoint = open_checkpoint(arguments.checkpoint)
    reference = Reference(checkpoint, arguments.seed, arguments.renders)
    clips, known, rows = (
        own_speech(checkpoint, TUNING)[: arguments.clips or CLIPS],
        dict[str, dict[str, float]](),
        [],
    )
    for name, bad, make in controls(reference, arguments.build):
        made = judged(reference, clips, make, known)
        verdict, broken = made.decision.verdict, list(made.decision.broken)
        print(f"{name}: {verdict}", file=sys.stderr)
        figures = {metric: row for metric, row in made.summary().items() if row["mean"] is not None}
        right = (verdict == REJECT) == bad  # of fewer than 24 clips none ships
        rows.append(
            {"name": name, "right": right, "verdict": verdict, "broken": broken, "figures": figures}
        )
    return told_as_wanted(arguments.stage, rows)


def told_as_wanted(stage: str, rows: "list[dict[str, Any]]") -> int:
    """The table, then the exit code."""
    told = [
        (str(row["name"]), str(row["verdict"]), ", ".join(map(str, row["broken"])) or "-")
        for row in rows
    ]
    print_rows(f"controls of the {stage}'s gates", ("control", "", "broken gates"), told)
    right = sum(row["right"] for row in rows)
    print(f"{right} of {len(rows)} are judged as they should be")
    print(json.dumps({"right": right, "controls": rows}))
    return EXIT_GOOD if right == len(rows) else EXIT_REJECTED


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    if arguments.stage != "vocoder":
        if arguments.only:
            raise InputError(
                f"--only belongs to the vocoder's controls: the {arguments.stage}'s are judged"
                " together"
            )
        return (encoder_controls if arguments.stage == "encoder" else product_controls)(arguments)
    arguments.clips = CLIPS if arguments.clips is None else arguments.clips
    errors, changes = controls_of(arguments.only)
    from kokoro_ane.core.checkpoint import open_checkpoint

    checkpoint = open_checkpoint(arguments.checkpoint)
    from rich.console import Console
    from rich.progress import track

    from kokoro_ane.eval.faults import ControlTrials
    from kokoro_ane.eval.reference import Reference, judged_clips

    lineup = ControlTrials(
        Reference(checkpoint, arguments.seed, arguments.renders),
        judged_clips(checkpoint, count=arguments.clips),
    )
    everything: list[Control | Harmless] = [*errors, *changes]
    shown = track(everything, "controls", console=Console(stderr=True), transient=True)
    found = [lineup.caught(control) for control in shown]
    bad, harmless = found[: len(errors)], found[len(errors) :]
    print_table("negative controls", bad, good=False)
    print_table("harmless changes", harmless, good=True)
    rejected, passed = (
        sum(caught.rejected for caught in bad),
        sum(not caught.rejected for caught in harmless),
    )
    told = (
        f"{rejected} of {len(bad)} errors rejected, {passed} of {len(harmless)} harmless changes"
        " passed"
    )
    print(f"{told}, on {arguments.clips} clips of {checkpoint.name}")
    rows = {"controls": rows_of(bad), "harmless": rows_of(harmless)}
    print(
        json.dumps(
            {
                "rejected": rejected,
                "passed": passed,
                **rows,
                "clips": arguments.clips,
                "seed": arguments.seed,
            }
        )
    )
    return EXIT_GOOD if (rejected, passed) == (len(bad), len(harmless)) else EXIT_REJECTED


def rows_of(found: "Sequence[Caught]") -> list[dict[str, object]]:
    """As plain data."""
    return [
        {"name": caught.name, "rejected": caught.rejected, "broken": list(caught.broken)}
        for caught in found
    ]


if __name__ == "__main__":
    raise SystemExit(main())
