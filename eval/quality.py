"""Decide whether a compression level is good enough to release: the executed package against the
fp32 model, sentence by sentence.

    python eval/quality.py --method w8 [--checkpoint FOLDER] [--clips 6] [--precision ane_numerics] [--layout streaming] [--features package]
    # durations, F0, energy, text features: docs/encoder.md
    python eval/quality.py --method w8g --stage encoder
    # the whole chain, from text to sound: docs/release.md
    python eval/quality.py --method p6+w8g --stage product
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
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kokoro_ane.core.contract import PADDED
from kokoro_ane.core.errors import InputError, Parser, command, exit_of
from kokoro_ane.eval import ENCODER, PRODUCT, STAGES, VOCODER
from kokoro_ane.eval.session import PYTORCH, session, session_arguments
from kokoro_ane.quantize.methods import LEVELS, STAGE_METHODS, method_named
from kokoro_ane.runtimes.registry import DEFAULT_RUNTIME, RUNTIMES

if TYPE_CHECKING:
    from kokoro_ane.core.checkpoint import Checkpoint
    from kokoro_ane.eval.levels import JudgedLevel
    from kokoro_ane.eval.session import JudgeContext

# flags that are the vocoder's alone, each with what it is elsewhere
OF_THE_VOCODER = {
    "layout": PADDED,
    "runtime": DEFAULT_RUNTIME,
    "features": PYTORCH,
    "precision": "declared",
}


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = Parser("kokoro-ane quality", __doc__)
    names = ", ".join(dict.fromkeys((*LEVELS, *STAGE_METHODS["encoder"])))
    parser.add_argument(
        "--method",
        required=True,
        help=f"level to judge: {names}; of a product VOCODER+ENCODER, such as p6+w8g",
    )
    parser.add_argument(
        "--stage", choices=STAGES, default=VOCODER, help="whose level (default: %(default)s)"
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


def check_level(arguments: argparse.Namespace) -> None:
    """Raise InputError for a level that the stage does not have, or a flag that is the vocoder's
    alone.
    """
    stage, name = arguments.stage, arguments.method
    vocoder, plus, encoder = name.partition("+")
    if stage == VOCODER:
        if name not in LEVELS:
            other = ENCODER if name in STAGE_METHODS[ENCODER] else PRODUCT if plus else ""
            hint = f"is of the {other}: give --stage {other}" if other else "is no level"
            raise InputError(f"--method {name} {hint}; there are: {', '.join(LEVELS)}")
        return
    for flag, default in OF_THE_VOCODER.items():
        if getattr(arguments, flag) != default:
            raise InputError(f"--{flag} belongs to the vocoder's levels")
    if stage == PRODUCT and not (vocoder and encoder):
        raise InputError(f"--method {name}: a product is VOCODER+ENCODER, such as p6+w8g")
    method_named(encoder if plus else name, ENCODER)


def prepared(
    arguments: argparse.Namespace, checkpoint: "Checkpoint"
) -> "tuple[str, Callable[[JudgeContext], JudgedLevel]]":
    """The stem of the file of figures, and what judges the level; packages are built here or by
    that.
    """
    from kokoro_ane.eval.levels import judged_encoder, judged_package
    from kokoro_ane.eval.product import judged_product
    from kokoro_ane.quantize.locator import built_encoder, built_package, parse_level
    from kokoro_ane.runtimes.registry import judged_manifest

    name, source, build = arguments.method, arguments.checkpoint, arguments.build
    if arguments.stage == ENCODER:
        return f"encoder-{name}", partial(judged_encoder, name)
    if arguments.stage == PRODUCT:
        vocoder, _, encoder = name.partition("+")
        built_package(*parse_level(vocoder), checkpoint, source, build)
        built_encoder(checkpoint, source, build, True, encoder)
        return f"product-{name}", partial(judged_product, vocoder=vocoder, encoder=encoder)
    runtime = arguments.runtime
    method, manifest = judged_manifest(runtime, name, arguments.layout, checkpoint, source, build)
    stem = manifest.path.stem
    flags = (arguments.precision, arguments.features, runtime)
    plain = (*OF_THE_VOCODER.values(), *stem.split("-"))
    return (
        "-".join((stem, *(flag for flag in flags if flag not in plain))),
        partial(judged_package, method, manifest),
    )


def judged(arguments: argparse.Namespace) -> "tuple[JudgedLevel, Path]":
    """The level that the flags name, built where it is missing, and the file that holds every
    clip's figures.
    """
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.core.staging import check_implied, check_output, json_of

    check_level(arguments)
    ours, folder, out = json_of("clips", "provenance"), arguments.build / "quality", arguments.out
    if out:
        out = check_output(out, ours, (".json",), arguments)
    check_implied(folder / "x.json")
    checkpoint = open_checkpoint(arguments.checkpoint, thorough=True)
    from kokoro_ane.core.export import quiet_coremltools
    from kokoro_ane.core.staging import write_json

    with quiet_coremltools():  # after the cheap checks: this takes seconds
        from kokoro_ane.eval import product  # noqa: F401
    stem, judge = prepared(arguments, checkpoint)
    out = out or folder / f"{stem}.json"
    check_implied(out, ours)
    cache = arguments.build / "release" / "cache"
    with session(arguments, checkpoint, 1, cache, may_build=True) as context:
        level = judge(context)
    write_json(out, level.record, ours)
    return level, out


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    level, out = judged(parse_arguments(argv))
    from kokoro_ane.eval.levels import short_record
    from kokoro_ane.eval.terminal import print_judgement

    print_judgement(level)
    print(json.dumps(short_record(level.record, out), allow_nan=False))
    return exit_of(level.verdict, level.record["releasable"])


if __name__ == "__main__":
    raise SystemExit(main())
