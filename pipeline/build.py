"""Build the packages of a stage: checkpoint to .mlpackage, executed and compared before it gets its
name.

    kokoro-ane build vocoder [--checkpoint FOLDER|kokoro-int8|hexgrad/Kokoro-82M] [--layout streaming] [--out build]
    # iOS 17: two packages, because functions came with iOS 18
    kokoro-ane build encoder [--target iOS17]
    # files for another runtime, float32, any length; vocoder likewise
    kokoro-ane build encoder --runtime onnx
    kokoro-ane build g2p [--method fp16]

Exit 0: built and checked. Exit 1: built, missed a limit, thrown away. Exit 2: bad input. The last
line of stdout is one JSON object.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kokoro_ane.core.commands import checkpoint_argument, layout_argument
from kokoro_ane.core.contract import (
    DEFAULT_BUCKETS,
    MAX_PHONEMES,
    PADDED,
    STREAMED,
    TOKEN_BUCKETS,
    check_buckets,
)
from kokoro_ane.core.errors import EXIT_GOOD, InputError, Parser, command

if TYPE_CHECKING:
    from kokoro_ane.core.builder import Kind, Stage
    from kokoro_ane.core.checkpoint import Checkpoint
    from kokoro_ane.vocoder.layouts import PaddedLayout
    from kokoro_ane.vocoder.vocoder_stage import VocoderStage

CORE_ML, OTHERS = "coreml", ("onnx", "executorch", "tvm")  # who runs what is built


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


def _runtime_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runtime",
        choices=(CORE_ML, *OTHERS),
        default=CORE_ML,
        help="who will run it (default: %(default)s)",
    )


def _shared_flags(parser: argparse.ArgumentParser, target: str | None) -> None:
    told = "iOS17; iOS18 of the streaming layouts" if target is None else target
    parser.add_argument(
        "--target",
        choices=("iOS17", "iOS18"),
        default=target,
        help=f"minimum deployment target (default: {told})",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("build"),
        help="folder for packages and manifests (default: %(default)s)",
    )


def _vocoder_flags(parser: argparse.ArgumentParser) -> None:
    checkpoint_argument(parser)
    _runtime_flag(parser)
    parser.add_argument(
        "--precision",
        choices=("fp16", "fp32"),
        default="fp16",
        help="fp16: fp16 trunk and fp32 tail; fp32: a reference package",
    )
    layout_argument(parser)
    parser.add_argument(
        "--buckets", type=buckets_argument, help="enumerated lengths in frames, 40 a second, rising"
    )
    _shared_flags(parser, None)


def _encoder_flags(parser: argparse.ArgumentParser) -> None:
    checkpoint_argument(parser)
    _runtime_flag(parser)
    parser.add_argument(
        "--precision",
        choices=("fp16", "fp32"),
        default="fp16",
        help="fp16: fp32 wherever a duration needs it; fp32: a reference package",
    )
    parser.add_argument(
        "--buckets",
        type=buckets_argument,
        default=DEFAULT_BUCKETS,
        help="enumerated lengths in frames, rising",
    )
    parser.add_argument(
        "--token-buckets",
        type=token_buckets,
        default=TOKEN_BUCKETS,
        help="enumerated lengths in tokens (phonemes + 2)",
    )
    _shared_flags(parser, "iOS18")


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
    _shared_flags(parser, "iOS17")


def check_portable(arguments: argparse.Namespace) -> None:
    """InputError for a flag that only packages have. Before seconds go into a checkpoint."""
    from kokoro_ane.runtimes.registry import check_runtime

    check_runtime(arguments.runtime, "fp32", layout=getattr(arguments, "layout", PADDED))


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


def stage_of(arguments: argparse.Namespace) -> "Stage":
    """The stage that the flags describe. Raises InputError."""
    if arguments.stage == "g2p":
        return _g2p_stage(arguments)
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.core.export import quiet_coremltools

    if arguments.runtime != CORE_ML:
        check_portable(arguments)
        return portable_stage(arguments, open_checkpoint(arguments.checkpoint))
    if arguments.stage == "vocoder":
        if arguments.layout in STREAMED:
            return streaming_stage(arguments)
        from kokoro_ane.vocoder.layouts import layout_named

        checkpoint, layout, target = (
            open_checkpoint(arguments.checkpoint),
            layout_named(arguments.layout),
            arguments.target or "iOS17",
        )
        return vocoder_stage(
            checkpoint, layout, arguments.buckets or DEFAULT_BUCKETS, arguments.precision, target
        )
    with quiet_coremltools():
        from kokoro_ane.encoder.encoder_stage import EncoderStage
        from kokoro_ane.encoder.encoder_steps import Buckets
    buckets = Buckets(arguments.token_buckets, arguments.buckets)
    return EncoderStage(
        open_checkpoint(arguments.checkpoint), buckets, arguments.precision, arguments.target
    )


def portable_stage(arguments: argparse.Namespace, checkpoint: "Checkpoint") -> "Stage":
    """Encoder or vocoder for another runtime; the vocoder is checked with a calibration sentence,
    as packages are.
    """
    from kokoro_ane.quantize.speech import check_speech
    from kokoro_ane.runtimes.exported import (
        CHECKED_FRAMES,
        PortableEncoderStage,
        PortableVocoderStage,
    )
    from kokoro_ane.runtimes.registry import module_of
    from kokoro_ane.vocoder.packing import excerpt

    runtime = module_of(arguments.runtime)
    if arguments.stage == "encoder":
        return PortableEncoderStage(checkpoint, runtime)
    if arguments.layout in STREAMED:
        from kokoro_ane.runtimes.exported_streaming import PortableStreamingStage

        return PortableStreamingStage.of(checkpoint, runtime)
    speech = check_speech(checkpoint, max(CHECKED_FRAMES))
    return PortableVocoderStage(
        checkpoint, runtime, tuple(excerpt(speech, 0, frames) for frames in CHECKED_FRAMES)
    )


def _kind(arguments: argparse.Namespace) -> "Kind | None":
    if getattr(arguments, "runtime", CORE_ML) == CORE_ML:
        return None
    from kokoro_ane.runtimes.exported import kind_of
    from kokoro_ane.runtimes.registry import module_of

    if getattr(arguments, "layout", PADDED) in STREAMED:
        from kokoro_ane.runtimes.exported_streaming import folder_kind

        return folder_kind(module_of(arguments.runtime))
    return kind_of(module_of(arguments.runtime))


def vocoder_stage(
    checkpoint: "Checkpoint",
    layout: "PaddedLayout",
    buckets: tuple[int, ...],
    precision: str = "fp16",
    target: str = "iOS17",
) -> "VocoderStage":
    """The vocoder, checked with a second of a calibration sentence in this checkpoint's voice.
    Raises InputError.
    """
    from kokoro_ane.quantize.speech import check_speech
    from kokoro_ane.vocoder.vocoder_stage import VocoderStage

    return VocoderStage(
        checkpoint,
        layout,
        buckets,
        precision,
        target,
        check_speech(checkpoint, layout.check_frames(buckets)),
    )


def streaming_stage(arguments: argparse.Namespace) -> "Stage":
    """The vocoder in three functions, checked with four and a half seconds. Raises InputError."""
    if arguments.target == "iOS17":
        raise InputError(
            f"--target iOS17 is not for --layout {arguments.layout}: its three functions need"
            " iOS 18"
        )
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.quantize.speech import check_speech
    from kokoro_ane.vocoder.streaming.norm_statistics import predictor_of
    from kokoro_ane.vocoder.streaming.streaming_package import Lengths
    from kokoro_ane.vocoder.streaming.streaming_stage import BUCKETS, CHECK_FRAMES, StreamingStage

    lengths, checkpoint = (
        Lengths.of(arguments.buckets or BUCKETS),
        open_checkpoint(arguments.checkpoint),
    )
    speech = check_speech(checkpoint, min(CHECK_FRAMES, lengths.decoder[-1]))
    return StreamingStage(
        checkpoint,
        predictor_of(checkpoint),
        lengths,
        arguments.precision,
        speech,
        layout=arguments.layout,
    )


def _g2p_stage(arguments: argparse.Namespace) -> "Stage":
    if arguments.weights is not None and arguments.weights.suffix != ".npz":
        raise InputError(
            f"--weights {arguments.weights}: a .npz file that `python -m training.g2p_network`"
            " wrote"
        )
    from kokoro_ane.g2p.g2p_stage import G2PStage
    from kokoro_ane.g2p.neural import WEIGHTS

    return G2PStage(arguments.weights or WEIGHTS, arguments.method, arguments.target)


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from kokoro_ane.core.staging import check_output

    check_output(arguments.out / "x.json")  # before a checkpoint is opened
    stage = stage_of(arguments)
    from kokoro_ane.core.builder import build, print_report

    print_report(build(stage, arguments.out, _kind(arguments)))
    return EXIT_GOOD


if __name__ == "__main__":
    raise SystemExit(main())
