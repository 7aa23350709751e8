"""Decide whether a compression level is good enough to release: the executed package against the fp32 model, sentence by sentence.

    python eval/quality.py --method w8 [--checkpoint demo] [--clips 6] [--precision ane_numerics] [--form windowed]

A package that is not built yet is built first. Exit 0: SHIP. Exit 1: REJECT. Exit 2: bad input. Exit 3: UNDECIDED. The last
line of stdout is one JSON object; every clip's figures are in build/quality/NAME.json. docs/metrics.md says what is measured and why.
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not eval/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from core.arguments import checkpoint_argument, form_argument, seed_argument
from core.contract import JUDGED, SECOND
from core.errors import EXIT_GOOD, EXIT_REJECTED, EXIT_UNDECIDED, run_cli
from eval.claims import CLAIMS, NUMERIC
from quantize.methods import METHODS, method_named

if TYPE_CHECKING:
    from core.checkpoint import Checkpoint
    from eval.judge import Judgement
    from vocoder.package import VocoderPackage

PRECISIONS = ("declared", "ane_numerics")  # of mlprogram: Core ML's storage types; a model of the Neural Engine's arithmetic


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="eval.quality", description=__doc__.splitlines()[0])
    parser.add_argument("--method", required=True, choices=tuple(METHODS), help="compression method to judge")
    checkpoint_argument(parser)
    form_argument(parser)
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with the packages (default: %(default)s)")
    parser.add_argument("--clips", type=int, help="how many clips (default: all 24; a verdict needs 24)")
    parser.add_argument("--set", choices=(JUDGED, SECOND), default=JUDGED, help="the texts and voices to judge on (default: %(default)s)")
    parser.add_argument("--seed", type=seed_argument, default=0, help="of the noise; the seed floor takes seed + 1 (default: %(default)s)")
    parser.add_argument("--precision", choices=PRECISIONS, default="declared", help="how the package is executed (default: %(default)s)")
    parser.add_argument("--claim", choices=CLAIMS, default=NUMERIC, help="a device claim stays UNDECIDED here (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="file for the clips' figures (default: BUILD/quality/NAME.json)")
    return parser.parse_args(argv)


def judged(arguments: argparse.Namespace, checkpoint: "Checkpoint", package: "VocoderPackage") -> "Judgement":
    """Judge under a progress bar on stderr."""
    from rich.console import Console
    from rich.progress import track

    from eval.corpus import Truth, judged_clips
    from eval.judge import judge

    chosen = judged_clips(checkpoint, arguments.set, arguments.clips)
    shown = track(chosen, f"{arguments.method}: clips", console=Console(stderr=True), transient=True)
    return judge(Truth(checkpoint, arguments.seed), package, shown, arguments.method, arguments.claim)


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from core.checkpoint import open_checkpoint
    from core.output import check_output

    check_output(arguments.out or arguments.build / "quality" / "x.json", suffixes=(".json",))
    checkpoint = open_checkpoint(arguments.checkpoint)
    from core.export import quiet_coremltools
    from core.staging import write_json

    with quiet_coremltools():  # after the cheap checks: this takes seconds
        from eval.packages import built_package
        from eval.record import full_record, short_record
        from eval.report_terminal import print_judgement
        from vocoder.package import VocoderPackage

    method = method_named(arguments.method)
    manifest = built_package(method, arguments.form, checkpoint, arguments.checkpoint, arguments.build)
    judgement = judged(arguments, checkpoint, VocoderPackage(manifest.path, arguments.precision))
    stem = manifest.path.stem if arguments.precision == "declared" else f"{manifest.path.stem}-{arguments.precision}"
    out = arguments.out or arguments.build / "quality" / f"{stem}.json"
    record = full_record(judgement, manifest, arguments.seed, arguments.precision)
    write_json(out, record)
    print_judgement(judgement, manifest, arguments.precision)
    print(json.dumps(short_record(record, out), allow_nan=False))
    return {"SHIP": EXIT_GOOD, "REJECT": EXIT_REJECTED}.get(judgement.decision.verdict, EXIT_UNDECIDED)


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from eval.quality import main  # one module identity, however it was started

    raise SystemExit(main())
