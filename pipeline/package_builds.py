"""Packages from options: a stage as the converter makes it, a compressed level, and whichever of
the two a missing package needs.

    manifests = build(BuildOptions("vocoder", checkpoint="kokoro-int8", layout="streaming"))
    ((parent, manifest),) = quantize(QuantizeOptions("w8a8", checkpoint="kokoro-int8"))
    built(request, build_package)  # quantize.locator: only what is not there
"""

from typing import TYPE_CHECKING

from kokoro_ane.core.commands import CORE_ML, BuildOptions, QuantizeOptions
from kokoro_ane.core.contract import (
    DEFAULT_BUCKETS,
    PADDED,
    PADDED_BUCKETS,
    STREAMED,
    TOKEN_BUCKETS,
)
from kokoro_ane.core.errors import InputError

if TYPE_CHECKING:
    from kokoro_ane.core.builder import Kind, Stage
    from kokoro_ane.core.checkpoint import Checkpoint
    from kokoro_ane.core.manifest import Manifest
    from kokoro_ane.vocoder.layouts import PaddedLayout
    from kokoro_ane.vocoder.vocoder_stage import VocoderStage

STAGES, PRECISIONS = ("g2p", "encoder", "vocoder"), ("fp16", "fp32")


def build_package(options: BuildOptions | QuantizeOptions) -> None:
    """Build or quantize, whichever the options are of."""
    if isinstance(options, BuildOptions):
        build(options)
    else:
        quantize(options)


def build(options: BuildOptions) -> "tuple[Manifest, ...]":
    """Write a stage's packages into `options.out`; each was executed and compared with PyTorch
    before it got its name.

    Raises InputError: an unknown name, a checkpoint or folder that cannot be used; CheckFailed: a
    package missed a limit, nothing was kept.
    """
    from kokoro_ane.core.staging import check_output

    check_output(options.out / "x.json")  # before a checkpoint is opened
    if options.stage not in STAGES:
        raise InputError(f"there is no stage {options.stage!r}: give one of {', '.join(STAGES)}")
    if options.precision not in PRECISIONS:
        raise InputError(f"precision {options.precision!r}: give {' or '.join(PRECISIONS)}")
    kind = None
    if options.stage == "g2p":
        stage = _g2p_stage(options)
    elif options.runtime != CORE_ML:
        stage, kind = _portable_stage(options)
    elif options.stage == "encoder":
        stage = _encoder_stage(options)
    elif options.layout in STREAMED:
        stage = _streaming_stage(options)
    else:
        from kokoro_ane.core.checkpoint import open_checkpoint
        from kokoro_ane.vocoder.layouts import layout_named

        stage = vocoder_stage(
            open_checkpoint(options.checkpoint),
            layout_named(options.layout),
            options.buckets or PADDED_BUCKETS,
            options.precision,
            options.target or "iOS17",
        )
    from kokoro_ane.core import builder

    return builder.build(stage, options.out, kind)


def _g2p_stage(options: BuildOptions) -> "Stage":
    if options.weights is not None and options.weights.suffix != ".npz":
        raise InputError(
            f"--weights {options.weights}: a .npz file that `python -m training.g2p_network` wrote"
        )
    from kokoro_ane.g2p.g2p_stage import G2PStage
    from kokoro_ane.g2p.neural import WEIGHTS

    return G2PStage(options.weights or WEIGHTS, options.method, options.target or "iOS17")


def _encoder_stage(options: BuildOptions) -> "Stage":
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.core.export import quiet_coremltools

    with quiet_coremltools():
        from kokoro_ane.encoder.encoder_stage import EncoderStage
        from kokoro_ane.encoder.encoder_steps import Buckets
    # lengths are checked before seconds go into opening the checkpoint
    buckets = Buckets(options.token_buckets or TOKEN_BUCKETS, options.buckets or DEFAULT_BUCKETS)
    checkpoint = open_checkpoint(options.checkpoint)
    return EncoderStage(checkpoint, buckets, options.precision, options.target or "iOS18")


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

    speech = check_speech(checkpoint, layout.check_frames(buckets))
    return VocoderStage(checkpoint, layout, buckets, precision, target, speech)


def _streaming_stage(options: BuildOptions) -> "Stage":
    """The vocoder in three functions, checked with four and a half seconds."""
    if options.target == "iOS17":
        raise InputError(
            f"--target iOS17 is not for --layout {options.layout}: its three functions need iOS 18"
        )
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.quantize.speech import check_speech
    from kokoro_ane.vocoder.streaming.norm_statistics import predictor_of
    from kokoro_ane.vocoder.streaming.streaming_package import Lengths
    from kokoro_ane.vocoder.streaming.streaming_stage import BUCKETS, CHECK_FRAMES, StreamingStage

    # likewise before the checkpoint is opened
    lengths = Lengths.of(options.buckets or BUCKETS)
    checkpoint = open_checkpoint(options.checkpoint)
    speech = check_speech(checkpoint, min(CHECK_FRAMES, lengths.decoder[-1]))
    predictor = predictor_of(checkpoint)
    return StreamingStage(
        checkpoint, predictor, lengths, options.precision, speech, layout=options.layout
    )


def _portable_stage(options: BuildOptions) -> "tuple[Stage, Kind]":
    """Encoder or vocoder for another runtime; the vocoder is checked with a calibration sentence,
    as packages are.
    """
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.runtimes.registry import check_runtime, module_of

    # InputError for a flag that only packages have, before seconds go into a checkpoint
    check_runtime(options.runtime, "fp32", layout=options.layout)
    checkpoint, runtime = open_checkpoint(options.checkpoint), module_of(options.runtime)
    from kokoro_ane.quantize.speech import check_speech
    from kokoro_ane.runtimes.exported import (
        CHECKED_FRAMES,
        PortableEncoderStage,
        PortableVocoderStage,
        kind_of,
    )
    from kokoro_ane.vocoder.packing import excerpt

    if options.stage == "encoder":
        return PortableEncoderStage(checkpoint, runtime), kind_of(runtime)
    if options.layout in STREAMED:
        from kokoro_ane.runtimes.onnx.onnx_streaming import FOLDER, OnnxStreamingStage

        return OnnxStreamingStage.of(checkpoint), FOLDER
    speech = check_speech(checkpoint, max(CHECKED_FRAMES))
    # an exported file takes any length: three lengths are executed
    excerpts = tuple(excerpt(speech, 0, frames) for frames in CHECKED_FRAMES)
    return PortableVocoderStage(checkpoint, runtime, excerpts), kind_of(runtime)


def quantize(options: QuantizeOptions) -> "list[tuple[Manifest, Manifest]]":
    """Compress a built package: pairs of the parent's manifest and the new one; two pairs of an
    encoder of iOS 17.

    Raises InputError: an unknown name, a parent that is not built; CheckFailed: a package missed a
    limit, nothing was kept.
    """
    from kokoro_ane.core.staging import check_output
    from kokoro_ane.quantize.methods import method_named, with_settings

    check_output(options.build / "x.json")
    method = with_settings(method_named(options.method, options.stage), list(options.settings))
    from kokoro_ane.core.checkpoint import open_checkpoint

    if options.stage != "vocoder":
        for name, usual in (("layout", PADDED), ("runtime", CORE_ML), ("recipe", None)):
            if getattr(options, name) != usual:
                raise InputError(
                    f"--{name} belongs to the vocoder: the {options.stage} has one layout and"
                    " packages only"
                )
        from kokoro_ane.quantize.stage_levels import build_level

        pairs = build_level(method, open_checkpoint(options.checkpoint), options.build)
        return list(zip(*pairs, strict=True))
    from kokoro_ane.quantize.recipe import recipe_for

    checkpoint = open_checkpoint(options.checkpoint)
    recipe = recipe_for(method, checkpoint, options.recipe)
    if options.runtime != CORE_ML:
        from kokoro_ane.runtimes.onnx.onnx_levels import build_file

        return [build_file(method, checkpoint, options.build, options.layout)]
    from kokoro_ane.core.export import quiet_coremltools

    with quiet_coremltools():  # after the cheap checks: this takes seconds
        from kokoro_ane.quantize.compress import build_compressed
    return [build_compressed(method, checkpoint, options.build, recipe, options.layout)]
