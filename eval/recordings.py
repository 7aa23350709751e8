"""The guide's "MCD + 0.5 dB" as it is written: MCD of a level against recordings, less MCD of the fp32 model against the same recordings.

    python -m eval.recordings --method p4 --checkpoint demo [--clips 6]

Only the demo voice has recordings of its speakers (flite's, core/data/heldout), with their own durations, F0 and energy; no time-warping. A
level far from the fp32 model can pass: it is as near to the recording as before, elsewhere. Hence the gates of docs/metrics.md. Exit 1
when the increase is not certainly below 0.5 dB. The last line of stdout is one JSON object.
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not eval/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from core.arguments import checkpoint_argument, form_argument
from core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, run_cli
from quantize.methods import METHODS, method_named

if TYPE_CHECKING:
    import numpy as np

    from core.corpus import Utterance
    from eval.corpus import Subject, Truth

LIMIT_DB = 0.5
MEASURED = ("mcd_db", "mcd13_db", "mcd24_db")


def increase(truth: "Truth", subject: "Subject", utterance: "Utterance") -> dict[str, float]:
    """Each MCD of one clip: recording to the subject, less recording to the fp32 model, dB. InputError for a clip without recording."""
    from eval.metrics.registry import measure
    from eval.metrics.trial import Trial
    from vocoder.package import render_reference

    inputs, recording = truth.inputs(utterance), recording_of(utterance)
    ours, theirs = (
        measure(Trial(recording, signal.astype("float64")), MEASURED)
        for signal in (subject.render(inputs), render_reference(truth.vocoder, inputs))
    )
    return {name: ours[name] - theirs[name] for name in MEASURED} | {f"{name} fp32": theirs[name] for name in MEASURED}


def recording_of(utterance: "Utterance") -> "np.ndarray":
    """The clip's recording [600F] at 24 kHz."""
    from scipy.signal import resample_poly

    if utterance.recording is None:
        raise InputError(f"{utterance.id} has no recording: only core/data/heldout has them")
    return resample_poly(utterance.recording.astype("float64"), 3, 2)


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="eval.recordings", description=__doc__.splitlines()[0])
    parser.add_argument("--method", required=True, choices=tuple(METHODS), help="compression method")
    checkpoint_argument(parser)
    form_argument(parser)
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with the packages (default: %(default)s)")
    parser.add_argument("--clips", type=int, help="how many recordings (default: all 24)")
    return parser.parse_args(argv)


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from core.checkpoint import open_checkpoint
    from core.corpus import VOICES, heldout

    checkpoint = open_checkpoint(arguments.checkpoint)
    if not set(VOICES) <= set(checkpoint.voices):
        raise InputError(f"{checkpoint.name} has no recordings of its voices: only the demo voice has, --checkpoint demo")
    from rich.console import Console
    from rich.progress import track

    from eval.corpus import Truth, clips
    from eval.verdict import interval
    from quantize.packages import find_package
    from vocoder.package import VocoderPackage

    package = VocoderPackage(find_package(arguments.build, checkpoint, method_named(arguments.method), arguments.form).path)
    truth, shown = Truth(checkpoint, 0), track(clips(heldout(), arguments.clips), arguments.method, console=Console(stderr=True))
    found = [increase(truth, package, utterance) for utterance in shown]
    figures = {name: sum(row[name] for row in found) / len(found) for name in found[0]}
    low, high = interval([row["mcd_db"] for row in found])
    for name in MEASURED:
        print(f"{name}: fp32 {figures[f'{name} fp32']:.2f} dB from the recordings, {arguments.method} {figures[name]:+.2f} dB")
    passed = high < LIMIT_DB
    print(f"MCD + {figures['mcd_db']:.2f} dB ({low:.2f} to {high:.2f}): {'below' if passed else 'not below'} the guide's {LIMIT_DB} dB")
    kept = {"method": arguments.method, "clips": len(found), "passed": passed, "low": round(low, 4), "high": round(high, 4)}
    print(json.dumps(kept | {name: round(value, 4) for name, value in figures.items()}))
    return EXIT_GOOD if passed else EXIT_REJECTED


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from eval.recordings import main  # one module identity, however it was started

    raise SystemExit(main())
