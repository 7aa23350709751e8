"""Choose the compression level to release: judge every level on the same clips, print one table, name one level and say why.

    python -m eval.release [--objective smallest|fastest] [--checkpoint FOLDER|demo|hexgrad/Kokoro-82M] [--build build]

Packages that are missing are built first. What was measured before is read from BUILD/release/cache: an interrupted run goes on where it
stopped. Exit 0: the named level may be released. Exit 1: no level ships. Exit 2: bad input. Exit 3: undecided, or not releasable (a demo
voice is judged like any other and never released). The last line of stdout is one JSON object; all of it is in BUILD/release/decision.json.
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not eval/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import EXIT_GOOD, EXIT_REJECTED, EXIT_UNDECIDED, InputError, run_cli
from eval.session import session, session_arguments
from mlprogram.examine.rules import load_rules
from quantize.methods import METHODS

if TYPE_CHECKING:
    from eval.context import JudgeContext
    from eval.levels import JudgedLevel
    from quantize.methods import Method

OBJECTIVES = ("smallest", "fastest")


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="eval.release", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--objective", choices=OBJECTIVES, default="smallest", help="what to choose by among levels that ship (default: %(default)s)"
    )
    parser.add_argument("--methods", help=f"levels to judge, with commas: w8,windowed-w8 (default: all of --form: {','.join(METHODS)})")
    session_arguments(parser)
    chips = tuple(load_rules().chips)
    parser.add_argument("--chip", choices=chips, default="m4", help="chip of the latency column and of fastest (default: %(default)s)")
    parser.add_argument("--no-build", action="store_true", help="judge only the packages that are there")
    parser.add_argument("--out", type=Path, help="folder for decision, report and cache (default: BUILD/release)")
    return parser.parse_args(argv)


def folder(arguments: argparse.Namespace) -> Path:
    """Where the results go."""
    return arguments.out or arguments.build / "release"


def judged(context: "JudgeContext", asked: "list[tuple[Method, str]]") -> "list[JudgedLevel]":
    """Every level; one line on stderr as each is done."""
    from eval.levels import judged_level
    from eval.progress import in_words

    levels = []
    for method, form in asked:
        start = time.monotonic()
        levels.append(judged_level(method, form, context))
        said, left = levels[-1].failed or levels[-1].verdict, context.progress.left
        took = f"{in_words(time.monotonic() - start)}{f'; {left}' if left else ''}"
        print(f"{levels[-1].method}: {said} ({took})", file=sys.stderr)
    return levels


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from core.checkpoint import open_checkpoint
    from core.output import check_output
    from quantize.packages import parse_level

    levels_asked = [parse_level(name, arguments.form) for name in (arguments.methods.split(",") if arguments.methods else METHODS)]
    check_output(folder(arguments) / "decision.json")
    checkpoint = open_checkpoint(arguments.checkpoint)
    from core.export import quiet_coremltools
    from core.sealed import sealed
    from core.staging import write_json
    from pipeline.decision_file import ABOUT

    with quiet_coremltools():  # after the cheap checks: this takes seconds
        from eval.choose import choose, withheld
        from eval.decision import decision_record, seed_floors
        from eval.release_table import print_release
    out = folder(arguments) / "decision.json"
    with session(arguments, checkpoint, len(levels_asked), folder(arguments) / "cache", not arguments.no_build) as context:
        levels = judged(context, levels_asked)
        if all(level.failed for level in levels):
            raise InputError(f"no level could be judged; {levels[0].method}: {levels[0].failed}")
        choice = choose(levels, arguments.objective, arguments.chip, withheld(checkpoint))
        spread = seed_floors(context)
        record = decision_record(levels, choice, context, spread, arguments.objective, arguments.chip)
    write_json(out, sealed(record, ABOUT))
    print_release(levels, choice, spread, arguments.chip)
    short = {"verdict": choice.verdict, "level": choice.level, "releasable": choice.releasable, "reason": choice.reason}
    print(json.dumps(short | {"levels": {level.method: level.verdict for level in levels}, "file": str(out)}, allow_nan=False))
    if choice.may_be_released:
        return EXIT_GOOD
    return EXIT_REJECTED if choice.verdict == "REJECT" else EXIT_UNDECIDED


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from eval.release import main  # one module identity, however it was started

    raise SystemExit(main())
