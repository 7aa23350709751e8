"""Build packages from options: a stage as the converter makes it, or a compressed level of it.

manifests = build_stage(BuildOptions("vocoder", checkpoint="kokoro-int8", layout="padded"))
((parent, manifest),) = quantize_stage(QuantizeOptions("w8a8", checkpoint="kokoro-int8"))
ensure_vocoder(request, build_package)  # quantize.locator: only what is not there
"""

import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kokoro_ane.core import (
    CORE_ML,
    DEFAULT_BUCKETS,
    ENCODER_NAME,
    G2P_NAME,
    LAYOUTS,
    PADDED,
    PADDED_BUCKETS,
    PADDED_TARGET,
    STREAMED,
    TOKEN_BUCKETS,
    VOCODER_NAME,
    BuildOptions,
    InputError,
    QuantizeOptions,
)
from kokoro_ane.quantize import default_layout
from kokoro_ane.runtimes import RUNTIMES, check_runtime, module_of, require_writable

if TYPE_CHECKING:
    from kokoro_ane.core import Checkpoint, Kind, Manifest, Stage
    from kokoro_ane.vocoder import PaddedLayout, VocoderStage

# options that do not say what is built
WHERE = ("out", "checkpoint", "weights", "again", "json")
Opened = Callable[[], "Checkpoint"]
STAGES = ("g2p", "encoder", "vocoder")
PRECISIONS = ("fp16", "fp32")


def build_package(options: BuildOptions | QuantizeOptions) -> None:
    """Call `build` or `quantize`, depending on the options."""
    if isinstance(options, BuildOptions):
        build_stage(options)
    else:
        quantize_stage(options)


def build_stage(options: BuildOptions) -> "tuple[Manifest, ...]":
    """Write a stage's packages into `options.out`; each is executed and compared with PyTorch
    before it gets its name. Packages that are there and that the same options, checkpoint, sources
    and libraries made are not built anew, unless `options.again`.

    Raises InputError: an unknown name, a checkpoint or folder that cannot be used; CheckFailed: a
    package missed a limit, nothing was kept.
    """
    from kokoro_ane.core import check_output

    check_output(options.out / "x.json")  # before a checkpoint is opened
    if options.stage not in STAGES:
        raise InputError(f"there is no stage {options.stage!r}: give one of {', '.join(STAGES)}")
    if options.layout not in ("", *LAYOUTS):
        raise InputError(f"unknown layout {options.layout!r}; there are: {', '.join(LAYOUTS)}")
    if options.precision not in PRECISIONS:
        raise InputError(f"precision {options.precision!r}: give {' or '.join(PRECISIONS)}")
    if options.stage != "g2p" and options.runtime != CORE_ML:
        # refuse a flag that only packages have, or a library that is not installed, before seconds
        # go into opening a checkpoint
        check_runtime(options.runtime, "fp32", layout=options.layout)
        require_writable(options.runtime)
    from kokoro_ane.core import open_checkpoint

    # opened once, and not before what costs less was checked
    opened = cache(lambda: open_checkpoint(options.checkpoint))
    if options.stage == "vocoder":
        # iOS 17 knows no functions, which leaves the padded layout.
        one_function = options.target == PADDED_TARGET
        layouts = (PADDED,) if one_function else RUNTIMES[options.runtime].layouts
        options = replace(options, layout=options.layout or default_layout(opened(), layouts))
    # The key opens the checkpoint: an empty folder needs none.
    if not options.again and any(options.out.glob("*.json")):
        from kokoro_ane.core import current

        manifests = current(*_identify(options, opened))
        if manifests:
            names = ", ".join(manifest.package for manifest in manifests)
            print(f"{names}: built before, and current (--again builds anew)", file=sys.stderr)
            return manifests
    kind = None
    if options.stage == "g2p":
        stage = _make_g2p_stage(options)
    elif options.runtime != CORE_ML:
        stage, kind = _make_portable_stage(options, opened)
    elif options.stage == "encoder":
        stage = _make_encoder_stage(options, opened)
    elif options.layout in STREAMED:
        stage = _make_streaming_stage(options, opened)
    else:
        from kokoro_ane.vocoder import PaddedLayout

        stage = make_vocoder_stage(
            opened(),
            PaddedLayout(),
            options.buckets or PADDED_BUCKETS,
            options.precision,
            options.target or PADDED_TARGET,
        )
    from kokoro_ane.core import build_packages

    # The key goes into the manifests, for the next build to compare.
    return build_packages(stage, options.out, kind, _identify(options, opened)[1])


def _identify(options: BuildOptions, opened: Opened) -> tuple[tuple[Path, ...], str]:
    """Return the paths of a build's manifests, and a hash of all that determines their content."""
    from kokoro_ane.core import (
        PACKAGE_TOOLS,
        sha256_of,
        sha256_of_json,
        source_sha256,
        tool_versions,
    )
    from kokoro_ane.quantize import PackageRequest

    rooms = ["core", options.stage, "quantize"]
    tools = tuple[str, ...](PACKAGE_TOOLS)
    paths: tuple[Path, ...]
    if options.stage == "g2p":
        from kokoro_g2p import WEIGHTS

        level = "" if options.method == "w8" else f"-{options.method}"
        paths = (options.out / f"{G2P_NAME}{level}.json",)
        weights = options.weights or WEIGHTS
        # A missing file is refused later, in words of its own.
        made_from = sha256_of(weights) if weights.is_file() else ""
    else:
        if options.runtime != CORE_ML:
            from kokoro_ane.runtimes import make_kind

            rooms = [*rooms, "runtimes"]
            tools = make_kind(module_of(options.runtime)).tools
        checkpoint = opened()
        files = "" if options.runtime == CORE_ML else options.runtime
        request = PackageRequest(checkpoint, options.out, options.precision, options.layout, files)
        paths = request.encoders if options.stage == "encoder" else (request.vocoder,)
        made_from = checkpoint.network_sha256
    # As text, because JSON has no paths.
    what = {name: str(value) for name, value in asdict(options).items() if name not in WHERE}
    key = [what, made_from, source_sha256(*rooms), tool_versions(tools)]
    return paths, sha256_of_json(key)


def _make_g2p_stage(options: BuildOptions) -> "Stage":
    if options.weights is not None and options.weights.suffix != ".npz":
        raise InputError(
            f"--weights {options.weights}: a .npz of `python -m kokoro_g2p.training.g2p_network`"
        )
    from kokoro_ane.pipeline.g2p_stage import G2PStage
    from kokoro_g2p import WEIGHTS

    return G2PStage(options.weights or WEIGHTS, options.method, options.target or "iOS17")


def _make_encoder_stage(options: BuildOptions, opened: Opened) -> "Stage":
    from kokoro_ane.core import quiet_coremltools

    with quiet_coremltools():
        from kokoro_ane.encoder import Buckets, EncoderStage
    # lengths are checked before seconds go into opening the checkpoint
    buckets = Buckets(options.token_buckets or TOKEN_BUCKETS, options.buckets or DEFAULT_BUCKETS)
    return EncoderStage(opened(), buckets, options.precision, options.target or "iOS18")


def make_vocoder_stage(
    checkpoint: "Checkpoint",
    layout: "PaddedLayout",
    buckets: tuple[int, ...],
    precision: str = "fp16",
    target: str = "iOS17",
) -> "VocoderStage":
    """Return the stage of the vocoder, which is checked with a second of a calibration sentence in
    this checkpoint's voice. Raises InputError.
    """
    from kokoro_ane.speech import check_speech
    from kokoro_ane.vocoder import VocoderStage

    speech = check_speech(checkpoint, layout.check_frames(buckets))
    return VocoderStage(checkpoint, layout, buckets, precision, target, speech)


def _make_streaming_stage(options: BuildOptions, opened: Opened) -> "Stage":
    """Return the stage of the vocoder in three functions, checked with four and a half seconds."""
    if options.target == PADDED_TARGET:
        raise InputError("--target iOS17 is for --layout padded: three functions need iOS 18")
    from kokoro_ane.speech import check_speech
    from kokoro_ane.vocoder import BUCKETS, CHECK_FRAMES, Lengths, StreamingStage, require_predictor

    # likewise before the checkpoint is opened
    lengths = Lengths.from_buckets(options.buckets or BUCKETS)
    checkpoint = opened()
    speech = check_speech(checkpoint, min(CHECK_FRAMES, lengths.decoder[-1]))
    predictor = require_predictor(checkpoint)
    return StreamingStage(
        checkpoint, predictor, lengths, options.precision, speech, layout=options.layout
    )


def _make_portable_stage(options: BuildOptions, opened: Opened) -> "tuple[Stage, Kind]":
    """Return the stage of an encoder or vocoder for another runtime; the vocoder is checked with a
    calibration sentence, as packages are.
    """
    checkpoint = opened()
    runtime = module_of(options.runtime)
    from kokoro_ane.runtimes import (
        CHECKED_FRAMES,
        PortableEncoderStage,
        PortableVocoderStage,
        make_kind,
    )
    from kokoro_ane.speech import check_speech
    from kokoro_ane.vocoder import cut_excerpt

    if options.stage == "encoder":
        return PortableEncoderStage(checkpoint, runtime), make_kind(runtime)
    if options.layout in STREAMED:
        from kokoro_ane.runtimes import FOLDER, OnnxStreamingStage

        return OnnxStreamingStage.from_checkpoint(checkpoint), FOLDER
    speech = check_speech(checkpoint, max(CHECKED_FRAMES))
    # an exported file takes any length: three lengths are executed
    excerpts = tuple(cut_excerpt(speech, 0, frames) for frames in CHECKED_FRAMES)
    return PortableVocoderStage(checkpoint, runtime, excerpts), make_kind(runtime)


def quantize_stage(options: QuantizeOptions) -> "list[tuple[Manifest, Manifest]]":
    """Compress a built package; return pairs of the parent's manifest and the new one, two for an
    encoder of iOS 17.

    Raises InputError: an unknown name, a parent that is not built; CheckFailed: a package missed a
    limit, nothing was kept.
    """
    from kokoro_ane.core import check_output
    from kokoro_ane.quantize import find_method, with_settings

    check_output(options.build / "x.json")
    method = with_settings(find_method(options.method, options.stage), list(options.settings))
    from kokoro_ane.core import open_checkpoint, quiet_coremltools

    if options.stage != "vocoder":
        for name, usual in (("layout", ""), ("runtime", CORE_ML), ("recipe", None)):
            # Another value than the usual one was given by the user.
            if getattr(options, name) != usual:
                raise InputError(
                    f"--{name} belongs to the vocoder: the {options.stage} has one layout and"
                    " packages only"
                )
    if options.runtime != CORE_ML:
        check_runtime(options.runtime)
        require_writable(options.runtime)
    from kokoro_ane.quantize import choose_recipe

    checkpoint = open_checkpoint(options.checkpoint)
    recipe = choose_recipe(method, checkpoint, options.build, options.recipe)
    layout = options.layout or default_layout(checkpoint)
    if options.runtime != CORE_ML:
        from kokoro_ane.runtimes import build_file

        return [build_file(method, checkpoint, options.build, layout)]
    with quiet_coremltools():  # after the cheap checks: this takes seconds
        from kokoro_ane.quantize import build_compressed
    stage = VOCODER_NAME if options.stage == "vocoder" else ENCODER_NAME
    # Where no layout is named the level is made anew; a named one takes its file.
    anew = not options.layout
    return build_compressed(method, checkpoint, options.build, recipe, layout, anew, stage)
