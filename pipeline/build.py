"""Build the packages of a stage: checkpoint to .mlpackage, executed and compared before it gets its
name.

    kokoro-ane build vocoder [--checkpoint FOLDER|kokoro-int8|hexgrad/Kokoro-82M] \\
        [--layout padded] [--out build]
    # iOS 17: two packages, because functions came with iOS 18
    kokoro-ane build encoder [--target iOS17]
    # files for another runtime, float32, any length; vocoder likewise
    kokoro-ane build encoder --runtime onnx
    kokoro-ane build g2p [--method fp16]

What is there already, made by the same options, checkpoint, sources and libraries, is not built
again without --again. Exit 0: built and checked. Exit 1: built, missed a limit, thrown away. Exit
2: bad input. A pipe's last line is one JSON object.
"""

import argparse
from pathlib import Path

from kokoro_ane.core.commands import (
    CORE_ML,
    BuildOptions,
    build_argument,
    checkpoint_argument,
    conclude,
    layout_argument,
    options_of,
)
from kokoro_ane.core.contract import MAX_PHONEMES, check_buckets
from kokoro_ane.core.errors import EXIT_GOOD, InputError, Parser, command
from kokoro_ane.pipeline.package_builds import PRECISIONS, build

OTHERS = ("onnx", "executorch", "tvm")  # who runs what is built, beside Core ML


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = Parser("kokoro-ane build", __doc__)
    stages = parser.add_subparsers(
        dest="stage", required=True, metavar="STAGE", help="g2p, encoder or vocoder"
    )
    _vocoder_flags(stages.add_parser("vocoder", help="features to waveform, for the Neural Engine"))
    _encoder_flags(stages.add_parser("encoder", help="phonemes to features, for CPU and GPU"))
    _g2p_flags(stages.add_parser("g2p", help="words outside the lexicon to phonemes, for the CPU"))
    return parser.parse_args(argv)


def _model_flags(parser: argparse.ArgumentParser, fp16: str) -> None:
    """Of encoder and vocoder; `fp16`: what that precision is."""
    checkpoint_argument(parser)
    parser.add_argument(
        "--runtime",
        choices=(CORE_ML, *OTHERS),
        default=CORE_ML,
        help="who will run it (default: %(default)s)",
    )
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="fp16",
        help=f"fp16: {fp16}; fp32: a reference package",
    )
    parser.add_argument(
        "--buckets", type=buckets_argument, help="enumerated lengths in frames, 40 a second, rising"
    )


def _package_flags(parser: argparse.ArgumentParser, target: str) -> None:
    parser.add_argument(
        "--target",
        choices=("iOS17", "iOS18"),
        help=f"minimum deployment target (default: {target})",
    )
    build_argument(parser, "folder for packages and manifests", "--out")
    parser.add_argument("--again", action="store_true", help="build anew what is there and current")


def _vocoder_flags(parser: argparse.ArgumentParser) -> None:
    _model_flags(parser, "fp16 trunk and fp32 tail")
    layout_argument(parser)
    _package_flags(parser, "iOS18; iOS17 of --layout padded")


def _encoder_flags(parser: argparse.ArgumentParser) -> None:
    _model_flags(parser, "fp32 wherever a duration needs it")
    parser.add_argument(
        "--token-buckets",
        type=token_buckets,
        help="enumerated lengths in tokens (phonemes + 2)",
    )
    _package_flags(parser, "iOS18")


def _g2p_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--method",
        choices=("w8", "fp16"),
        default="w8",
        help="w8: 8-bit weights in float32 arithmetic; fp16: all 16 bits",
    )
    parser.add_argument(
        "--weights",
        type=Path,
        help="a .npz of training.g2p_network with its .json; default: the bundled one",
    )
    _package_flags(parser, "iOS17")


def buckets_argument(text: str) -> tuple[int, ...]:
    """'20,40' -> (20, 40), for argparse; an ArgumentTypeError says what is wrong with the list."""
    try:
        return check_buckets(tuple(int(part) for part in text.split(",") if part.strip()))
    except InputError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of whole numbers such as 20,40,80"
        ) from None


def token_buckets(text: str) -> tuple[int, ...]:
    """Lengths within ALBERT's positions: 3 to 512."""
    buckets = buckets_argument(text)
    if buckets[0] < 3 or buckets[-1] > MAX_PHONEMES + 2:
        raise argparse.ArgumentTypeError(
            f"token buckets {text!r} are not within 3..{MAX_PHONEMES + 2} (phonemes + 2)"
        )
    return buckets


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    manifests = build(options_of(BuildOptions, arguments), arguments.again)
    from kokoro_ane.core.builder import print_report

    meaning = "built, and every check holds; `kokoro-ane speak` and `kokoro-ane quality` execute it"
    return conclude(arguments, print_report(manifests), EXIT_GOOD, meaning)


if __name__ == "__main__":
    raise SystemExit(main())
