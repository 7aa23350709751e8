"""Decide whether a compression level is good enough to release: the executed package against the
fp32 model, sentence by sentence.

    python eval/quality.py --method w8 [--checkpoint FOLDER] [--clips 6] [--precision ane_numerics] [--layout streaming] [--features package]
    # durations, F0, energy, text features: docs/encoder.md
    python eval/quality.py --method w8g --stage encoder
    # what ONNX Runtime makes of its own file, by the same gates
    python eval/quality.py --method fp32 --runtime onnx

A package that is not built yet is built first, another runtime's file is named with its command;
clips that were measured before are read from BUILD/release/cache, and an interrupted run goes on
where it stopped. Exit 0: SHIP, and it may be released. Exit 1: REJECT. Exit 2: bad input. Exit 3:
UNDECIDED, or SHIP of what may not be released. The last line of stdout is one JSON object; every
clip's figures are in build/quality/NAME.json. docs/metrics.md says what is measured and why.
"""

# run as a file: put the repository root, not eval/, first on sys.path
if __package__ in (None, ""):
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kokoro_ane.core.commands import options_of
from kokoro_ane.core.contract import PADDED
from kokoro_ane.core.errors import InputError, Parser, command, exit_of
from kokoro_ane.eval.session import PYTORCH, SessionOptions, session, session_arguments
from kokoro_ane.quantize.methods import LEVELS, STAGE_METHODS, method_named
from kokoro_ane.runtimes.registry import DEFAULT_RUNTIME, RUNTIMES

if TYPE_CHECKING:
    from kokoro_ane.eval.levels import JudgedLevel


@dataclass(frozen=True)
class QualityOptions(SessionOptions):
    """What is judged: a level of a stage, rendered by a runtime. out: None for
    BUILD/quality/NAME.json.
    """

    method: str = "fp16"
    stage: str = "vocoder"
    runtime: str = DEFAULT_RUNTIME
    out: Path | None = None


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = Parser("kokoro-ane quality", __doc__)
    levels = tuple(dict.fromkeys((*LEVELS, *STAGE_METHODS["encoder"])))
    parser.add_argument("--method", required=True, choices=levels, help="level to judge")
    parser.add_argument(
        "--stage",
        choices=("vocoder", "encoder"),
        default="vocoder",
        help="whose level (default: %(default)s)",
    )
    parser.add_argument(
        "--runtime",
        default=DEFAULT_RUNTIME,
        help=f"who renders it: {', '.join(RUNTIMES)} (default: %(default)s)",
    )
    session_arguments(parser)
    parser.add_argument(
        "--out", type=Path, help="file for the clips' figures (default: BUILD/quality/NAME.json)"
    )
    return parser.parse_args(argv)


def judge_level(options: QualityOptions) -> "tuple[JudgedLevel, Path]":
    """The level of the vocoder that the options name, built where it is missing, and the file that
    holds every clip's figures.

    Raises InputError: an unknown level, layout or runtime, packages of another checkpoint;
    CheckFailed: a package that cannot be built.
    """
    if options.method not in LEVELS:
        raise InputError(
            f"there is no level {options.method!r} of the vocoder: give one of {', '.join(LEVELS)}"
        )
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.core.staging import check_implied, check_output, json_of

    ours = json_of("clips", "provenance")
    out = options.out
    if out:
        out = check_output(out, ours, (".json",), options)
    check_implied(options.build / "quality" / "x.json")
    checkpoint = open_checkpoint(options.checkpoint, thorough=True)
    from kokoro_ane.core.export import quiet_coremltools
    from kokoro_ane.core.staging import write_json

    with quiet_coremltools():  # after the cheap checks: this takes seconds
        from kokoro_ane.eval.levels import judged_package
        from kokoro_ane.pipeline.package_builds import build_package
        from kokoro_ane.quantize.locator import Request
        from kokoro_ane.runtimes.registry import judged_manifest

    method, manifest = judged_manifest(
        options.runtime,
        Request(
            checkpoint,
            options.build,
            options.method,
            options.layout,
            source=options.checkpoint,
        ),
        build_package,
    )
    flags = (options.precision, options.features, options.runtime)
    named = (
        flag
        for flag in flags
        if flag not in ("declared", PYTORCH, DEFAULT_RUNTIME, *manifest.path.stem.split("-"))
    )
    out = out or options.build / "quality" / f"{'-'.join((manifest.path.stem, *named))}.json"
    check_implied(out, ours)
    with session(
        options, checkpoint, 1, options.build / "release" / "cache", may_build=True
    ) as context:
        level = judged_package(method, manifest, context)
    write_json(out, level.record, ours)
    return level, out


def judge_encoder(arguments: QualityOptions) -> int:
    """The same of the encoder's level, on both judged sets."""
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.core.export import quiet_coremltools
    from kokoro_ane.core.staging import check_implied, json_of, write_json

    method_named(arguments.method, "encoder")
    own = {
        "layout": PADDED,
        "runtime": DEFAULT_RUNTIME,
        "features": PYTORCH,
        "precision": "declared",
    }
    for flag, default in own.items():
        if getattr(arguments, flag) != default:
            raise InputError(f"--{flag} belongs to the vocoder's levels")
    ours, out = (
        json_of("clips", "provenance"),
        arguments.out or arguments.build / "quality" / f"encoder-{arguments.method}.json",
    )
    check_implied(out, ours)
    checkpoint = open_checkpoint(arguments.checkpoint, thorough=True)
    with quiet_coremltools():
        from kokoro_ane.eval.prosody_quality import judged_encoder, print_prosody, prosody_bench

    with prosody_bench(
        checkpoint, arguments.seed, arguments.build / "release" / "cache", arguments.clips
    ) as (bench, store):
        record = judged_encoder(
            bench, store, arguments.method, arguments.checkpoint, arguments.build
        )
    write_json(out, record, ours)
    print_prosody(record)
    short = {
        key: record[key]
        for key in ("stage", "method", "verdict", "releasable", "broken", "reasons", "summary")
    }
    print(json.dumps(short | {"clips": len(record["clips"]), "file": str(out)}, allow_nan=False))
    return exit_of(record["verdict"], record["releasable"])


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = options_of(QualityOptions, parse_arguments(argv))
    if options.stage == "encoder":
        return judge_encoder(options)
    if options.method not in LEVELS:
        raise InputError(f"--method {options.method} is of the encoder: give --stage encoder")
    level, out = judge_level(options)
    from kokoro_ane.eval.levels import short_record
    from kokoro_ane.eval.terminal import print_judgement

    print_judgement(level)
    print(json.dumps(short_record(level.record, out), allow_nan=False))
    return exit_of(level.verdict, level.record["releasable"])


if __name__ == "__main__":
    raise SystemExit(main())
