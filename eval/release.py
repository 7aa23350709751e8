"""Choose the compression level to release: judge every level on the same clips, print one table,
name one level and say why.

    kokoro-ane release [--checkpoint FOLDER|kokoro-int8|hexgrad/Kokoro-82M] [--build build]
    # a level a stage, judged together: docs/release.md
    kokoro-ane release --product [--encoders w8g] [--methods p6]

Packages that are missing are built first. What was measured before is read from
BUILD/release/cache: an interrupted run goes on where it stopped. Exit 0: the named level may be
released. Exit 1: no level ships. Exit 2: bad input. Exit 3: undecided, or not releasable
(kokoro-int8 is judged like the hub's weights and never released). The last line of stdout is one
JSON object; all of it is in BUILD/release/decision.json (with --product, product.json).
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core.commands import options_of
from kokoro_ane.core.errors import InputError, Parser, command, exit_of
from kokoro_ane.eval.session import PYTORCH, SessionOptions, session, session_arguments
from kokoro_ane.quantize.methods import METHODS, method_named
from mlprogram.examine.rules import load_rules

ENCODERS = "mixed,w8g,lossless"

if TYPE_CHECKING:
    from kokoro_ane.eval.decision import Choice
    from kokoro_ane.eval.levels import JudgedLevel
    from kokoro_ane.eval.session import JudgeContext
    from kokoro_ane.quantize.methods import Method


@dataclass(frozen=True)
class ReleaseOptions(SessionOptions):
    """What is chosen among; methods, encoders: names with commas, methods None for all
    of the layout. out: a folder, None for BUILD/release.
    """

    methods: str | None = None
    product: bool = False
    encoders: str = ENCODERS
    chip: str = "m4"
    no_build: bool = False
    out: Path | None = None


@dataclass(frozen=True)
class Released:
    """choice: the level that was named, and why. levels: all that were judged. spread: of the seed
    variations. file: the decision.
    """

    choice: "Choice"
    levels: "list[Any]"
    spread: "dict[str, Any]"
    file: Path


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = Parser("kokoro-ane release", __doc__)
    parser.add_argument(
        "--methods",
        help=(
            "levels to judge, with commas: w8,streaming-w8 (default: all of --layout:"
            f" {','.join(METHODS)})"
        ),
    )
    parser.add_argument(
        "--product",
        action="store_true",
        help="combine levels of encoder and vocoder that ship, judge what is heard",
    )
    parser.add_argument(
        "--encoders",
        default=ENCODERS,
        help="with --product: levels of the encoder, with commas (default: %(default)s)",
    )
    session_arguments(parser)
    chips = tuple(load_rules().chips)
    parser.add_argument(
        "--chip",
        choices=chips,
        default="m4",
        help="chip of the Neural Engine column (default: %(default)s)",
    )
    parser.add_argument(
        "--no-build", action="store_true", help="judge only the packages that are there"
    )
    parser.add_argument(
        "--out", type=Path, help="folder for decision, report and cache (default: BUILD/release)"
    )
    return parser.parse_args(argv)


def judged(context: "JudgeContext", asked: "list[tuple[Method, str]]") -> "list[JudgedLevel]":
    """Every level; one line on stderr as each is done."""
    from kokoro_ane.eval.execution import in_words
    from kokoro_ane.eval.levels import judged_level

    levels = []
    for method, layout in asked:
        start = time.monotonic()
        levels.append(judged_level(method, layout, context))
        said, took = levels[-1].failed or levels[-1].verdict, in_words(time.monotonic() - start)
        print(
            f"{levels[-1].method}: {said} ({took}; {len(levels)} of {len(asked)} levels)",
            file=sys.stderr,
        )
    return levels


def release(options: ReleaseOptions) -> Released:
    """Judge every level, or every product, and choose.

    Raises InputError: an unknown name, no level that could be judged.
    """
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.core.staging import check_implied, json_of
    from kokoro_ane.quantize.locator import parse_level

    product, named = options.product, options.methods.split(",") if options.methods else None
    levels_asked = [parse_level(name, options.layout) for name in named or METHODS]
    encoders = [method_named(name, "encoder").name for name in options.encoders.split(",")]
    if product and options.features != PYTORCH:
        raise InputError("--features belongs to levels: a product's are its own encoder's")
    ours, folder = json_of("verdict", "provenance"), options.out or options.build / "release"
    out = folder / ("product.json" if product else "decision.json")
    check_implied(out, ours)
    checkpoint = open_checkpoint(options.checkpoint, thorough=True)
    from kokoro_ane.core.export import quiet_coremltools
    from kokoro_ane.core.staging import write_json

    with quiet_coremltools():  # after the cheap checks: this takes seconds
        from kokoro_ane.eval.decision import choose, decision_record, seed_variations
        from kokoro_ane.eval.product import (
            judged_products,
            product_record,
            shipping_vocoders,
        )
        from kokoro_ane.eval.provenance import withheld
    vocoders = (named or shipping_vocoders(options.build, options.layout)) if product else ()
    count = len(encoders) * len(vocoders) if product else len(levels_asked)
    with session(options, checkpoint, count, folder / "cache", not options.no_build) as context:
        levels = (
            judged_products(context, encoders, vocoders)
            if product
            else judged(context, levels_asked)
        )
        if all(level.failed for level in levels):
            raise InputError(f"no level could be judged; {levels[0].method}: {levels[0].failed}")
        choice = choose(levels, withheld(checkpoint))
        spread = {} if product else seed_variations(context)
        record = (
            product_record(levels, choice, context)
            if product
            else decision_record(levels, choice, context, spread, options.chip)
        )
    write_json(out, record, ours)
    return Released(choice, levels, spread, out)


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = options_of(ReleaseOptions, parse_arguments(argv))
    released = release(options)
    from kokoro_ane.eval.product import print_products
    from kokoro_ane.eval.terminal import print_release

    choice, levels = released.choice, released.levels
    if options.product:
        print_products(levels, choice)
    else:
        print_release(levels, choice, released.spread)
    short = {
        "verdict": choice.verdict,
        "level": choice.level,
        "releasable": choice.releasable,
        "reason": choice.reason,
        "levels": {level.method: level.verdict for level in levels},
        "file": str(released.file),
    }
    print(json.dumps(short, allow_nan=False))
    return exit_of(choice.verdict, choice.releasable)


if __name__ == "__main__":
    raise SystemExit(main())
