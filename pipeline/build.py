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

from types import MappingProxyType

from kokoro_ane.core import (
    EXIT_GOOD,
    BuildOptions,
    Parser,
    add_options,
    collect_options,
    command,
    conclude,
)
from kokoro_ane.pipeline.package_builds import build_stage

# a stage's help and its options
_PACKAGE = ("target", "out", "again")
_MODEL = ("checkpoint", "runtime", "precision", "buckets", *_PACKAGE)
STAGES = MappingProxyType(
    {
        "vocoder": ("features to waveform, for the Neural Engine", ("layout", *_MODEL)),
        "encoder": ("phonemes to features, for CPU and GPU", ("token_buckets", *_MODEL)),
        "g2p": (
            "words outside the lexicon to phonemes, for the CPU",
            ("method", "weights", *_PACKAGE),
        ),
    }
)


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    parser = Parser("kokoro-ane build", __doc__)
    stages = parser.add_subparsers(
        dest="stage", required=True, metavar="STAGE", help="g2p, encoder or vocoder"
    )
    for stage, (about, names) in STAGES.items():
        add_options(stages.add_parser(stage, help=about), BuildOptions, names)
    options = collect_options(BuildOptions, parser.parse_args(argv))
    manifests = build_stage(options)
    from kokoro_ane.core import print_report

    meaning = "built, and every check holds; `kokoro-ane speak` and `kokoro-ane quality` execute it"
    return conclude(options, print_report(manifests), EXIT_GOOD, meaning)


if __name__ == "__main__":
    raise SystemExit(main())
