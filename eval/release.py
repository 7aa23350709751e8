"""Choose the compression level to release: judge every level on the same clips, print one table, name one level and say why.

    kokoro-ane release [--objective smallest|fastest] [--checkpoint FOLDER|demo|hexgrad/Kokoro-82M] [--build build]

Packages that are missing are built first. What was measured before is read from BUILD/release/cache: an interrupted run goes on where it
stopped. Exit 0: the named level may be released. Exit 1: no level ships. Exit 2: bad input. Exit 3: undecided, or not releasable (a demo
voice is judged like any other and never released). The last line of stdout is one JSON object; all of it is in BUILD/release/decision.json.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kokoro_ane.core.errors import InputError, Parser, exit_of, run_cli
from kokoro_ane.eval.session import OBJECTIVES, session, session_arguments
from kokoro_ane.quantize.methods import METHODS
from mlprogram.examine.rules import load_rules

if TYPE_CHECKING:
    from kokoro_ane.eval.levels import JudgedLevel
    from kokoro_ane.eval.session import JudgeContext
    from kokoro_ane.quantize.methods import Method


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = Parser("kokoro-ane release", __doc__)
    parser.add_argument(
        "--objective", choices=OBJECTIVES, default="smallest", help="what to choose by among levels that ship (default: %(default)s)"
    )
    parser.add_argument("--methods", help=f"levels to judge, with commas: w8,streaming-w8 (default: all of --layout: {','.join(METHODS)})")
    session_arguments(parser)
    chips = tuple(load_rules().chips)
    parser.add_argument("--chip", choices=chips, default="m4", help="chip of the latency column and of fastest (default: %(default)s)")
    parser.add_argument("--no-build", action="store_true", help="judge only the packages that are there")
    parser.add_argument("--out", type=Path, help="folder for decision, report and cache (default: BUILD/release)")
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
        print(f"{levels[-1].method}: {said} ({took}; {len(levels)} of {len(asked)} levels)", file=sys.stderr)
    return levels


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.core.checksummed import CHECKSUM, checksummed
    from kokoro_ane.core.staging import check_implied, json_of
    from kokoro_ane.quantize.locator import parse_level

    levels_asked = [parse_level(name, arguments.layout) for name in (arguments.methods.split(",") if arguments.methods else METHODS)]
    ours, folder = json_of(CHECKSUM), arguments.out or arguments.build / "release"
    out = folder / "decision.json"
    check_implied(out, ours)
    checkpoint = open_checkpoint(arguments.checkpoint, thorough=True)
    from kokoro_ane.core.export import quiet_coremltools
    from kokoro_ane.core.staging import write_json
    from kokoro_ane.pipeline.decision_file import ABOUT

    with quiet_coremltools():  # after the cheap checks: this takes seconds
        from kokoro_ane.eval.decision import choose, decision_record, seed_variations
        from kokoro_ane.eval.provenance import withheld
        from kokoro_ane.eval.terminal import print_release
    with session(arguments, checkpoint, len(levels_asked), folder / "cache", not arguments.no_build) as context:
        levels = judged(context, levels_asked)
        if all(level.failed for level in levels):
            raise InputError(f"no level could be judged; {levels[0].method}: {levels[0].failed}")
        choice = choose(levels, arguments.objective, arguments.chip, withheld(checkpoint))
        spread = seed_variations(context)
        record = decision_record(levels, choice, context, spread, arguments.objective, arguments.chip)
    write_json(out, checksummed(record, ABOUT), ours)
    print_release(levels, choice, spread, arguments.chip)
    short = {"verdict": choice.verdict, "level": choice.level, "releasable": choice.releasable, "reason": choice.reason}
    print(json.dumps(short | {"levels": {level.method: level.verdict for level in levels}, "file": str(out)}, allow_nan=False))
    return exit_of(choice.verdict, choice.releasable)


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
