"""The vocoder's .onnx file at a level, `w8` or `w8a8`: a conversion of the same integers that the
packages have.

    # pipeline.apply --method w8 --runtime onnx
    parent, manifest = build_file(METHODS["w8"], checkpoint, Path("build"))

A weight is int8, DequantizeLinear and, where the graph has folded Snake's 1 / alpha into its input
channels (vocoder/eager.py), a multiplication that puts it back. ONNX Runtime folds both when it
opens the file. conv_post and the inverse STFT stay in float.
"""

from collections.abc import Collection
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from kokoro_ane.core.builder import all_held
from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import Check, snr_db
from kokoro_ane.core.contract import STREAMED, WAVEFORM
from kokoro_ane.core.errors import CheckFailed, InputError
from kokoro_ane.core.layers import Conv, replace_module
from kokoro_ane.core.manifest import (
    MANIFEST_FILE,
    PACKAGE_FILE,
    Manifest,
    describe_package,
    package_of_ours,
    tool_versions,
)
from kokoro_ane.core.staging import staged_together
from kokoro_ane.quantize.compress import level_for
from kokoro_ane.quantize.level import Level
from kokoro_ane.quantize.locator import Request
from kokoro_ane.quantize.methods import IntegerWeights, Method
from kokoro_ane.quantize.speech import check_speech
from kokoro_ane.quantize.stored_forms import Integers
from kokoro_ane.quantize.streaming_level import attach_level
from kokoro_ane.runtimes.exported import PortableVocoder, exported
from kokoro_ane.runtimes.files import render
from kokoro_ane.runtimes.onnx.eager_level import attach_to_eager
from kokoro_ane.runtimes.onnx.integer_conv import IntegerConv, in_blocks
from kokoro_ane.runtimes.onnx.onnx_file import (
    NAME,
    SUFFIX,
    TOOLS,
    OnnxProgram,
    counted,
    files_in,
    function_file,
    int8_macs_share,
    marked,
    save_together,
    write,
)
from kokoro_ane.runtimes.onnx.onnx_streaming import OnnxStreamingStage, any_length
from kokoro_ane.runtimes.portable import PRECISION
from kokoro_ane.runtimes.registry import check_names
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.eager import Place, places
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.scaled_conv import FACTORS, TimeVaryingScale
from kokoro_ane.vocoder.streaming.streaming_layers import PhaseConv
from kokoro_ane.vocoder.streaming.streaming_package import StreamingChain
from kokoro_ane.vocoder.streaming.streaming_stage import CHECK_FRAMES as LONG_FRAMES
from kokoro_ane.vocoder.streaming.streaming_stage import SIGNATURES

if TYPE_CHECKING:
    import onnx


def integer_functions(stage: OnnxStreamingStage, level: Level) -> OnnxStreamingStage:
    """The streaming layout's functions with the level's integers; convolutions with int8 inputs are
    products of integers.
    """
    for module in stage.twin.modules.values():
        for name, conv in list(module.named_modules()):
            path = name.removeprefix("vocoder.").removesuffix(".conv")
            # the decoder holds the whole vocoder, whose generator does not run in it, and the first
            # stage's source convolution reads columns as rows there
            if name.startswith("vocoder.generator.") or isinstance(conv, PhaseConv):
                continue
            if path in level.ranges and isinstance(conv, Conv):
                replace_module(module, name, integer_conv(conv, level, Place(path)))
    attach_level(stage.twin, level, inputs=False)
    return stage


def integer_conv(conv: Conv, level: Level, place: Place) -> IntegerConv:
    """A convolution with the level's integers and range."""
    form = level.forms[place.path]
    assert isinstance(form, Integers)  # build_file has asked
    return IntegerConv(conv, form, level.range_of(place.path), place)


def with_integers(prepared: Vocoder, level: Level, hidden_dim: int) -> PortableVocoder:
    """The prepared vocoder's graph with the level's integers; convolutions with int8 inputs are
    products of integers.
    """
    portable = PortableVocoder(prepared, hidden_dim)
    for name, place in places(portable.eager).items():
        if place.path in level.ranges:
            conv = prepared.get_submodule(place.path)
            assert isinstance(conv, Conv), place.path
            replace_module(portable.eager, name, integer_conv(conv, level, place))
    attach_to_eager(portable.eager, prepared, level)
    return portable


def long_convolutions(vocoder: PortableVocoder) -> list[str]:
    """Those of the last stage, whose inputs leave the cache (runtimes/onnx/integer_conv.py), by
    path.
    """
    return [
        name
        for name, module in vocoder.named_modules()
        if isinstance(module, IntegerConv)
        and isinstance(module.envelope, TimeVaryingScale)
        and module.envelope.columns == max(FACTORS)
    ]


CHECK_FRAMES = 40


def build_file(
    method: Method, checkpoint: Checkpoint, build: Path, layout: str
) -> tuple[Manifest, Manifest]:
    """Export the level's file or folder aside, run it, rename, write the manifest last: the
    parent's manifest and the new one.

    Raises InputError for a method that this runtime has not, or a missing parent; CheckFailed where
    the SNR limit is missed.
    """
    if method.weights != IntegerWeights():
        raise InputError(
            f"--runtime {NAME} has no {method.name}: there are w8 and w8a8"
            " (docs/speaking.md#onnx-runtime)"
        )
    check_names(NAME, method.name, layout)
    request = Request(checkpoint, build, PRECISION, layout, files=NAME)
    parent, path = request.manifest(request.vocoder), replace(request, method=method.name).vocoder
    parent.verify()
    # functions that belong together are a folder
    ours = package_of_ours if layout in STREAMED else PACKAGE_FILE
    with staged_together((path.with_suffix(SUFFIX), ours), (path, MANIFEST_FILE)) as (
        aside,
        described,
    ):
        level = level_for(method, checkpoint, build)
        write_into = written_folder if layout in STREAMED else written_file
        compression = write_into(level, checkpoint, aside)
        figure = checked(method, checkpoint, parent, aside)
        child = _manifest(parent, method, aside, compression, figure).save(described)
    return parent, replace(child, path=path)


def written_file(level: Level, checkpoint: Checkpoint, path: Path) -> dict[str, Any]:
    """Export the level's file; what was done, for the manifest."""
    import onnx

    prepared = level.prepared(Vocoder.of(checkpoint))
    vocoder = with_integers(prepared, level, checkpoint.config.hidden_dim)
    write(exported(vocoder, checkpoint.config), path)
    model = onnx.load(path)
    for name in long_convolutions(vocoder):
        in_blocks(model, name)
    done = _done(level, vocoder, [model])
    onnx.save(model, path)
    return done


def written_folder(level: Level, checkpoint: Checkpoint, path: Path) -> dict[str, Any]:
    """The same of the streaming layout's functions."""
    import onnx

    path.mkdir()
    prepared = level.prepared(Vocoder.of(checkpoint))
    stage = integer_functions(OnnxStreamingStage.of(checkpoint, prepared), level)
    for name in SIGNATURES:
        write(stage.function(name), function_file(path, name))
    models = {file.stem: onnx.load(file) for file in files_in(path)}
    done = _done(level, nn.ModuleList(stage.modules.values()), models.values())
    # takes the weights out of the models
    save_together(models, path)
    return done


def _done(
    level: Level, modules: nn.Module, models: "Collection[onnx.ModelProto]"
) -> dict[str, Any]:
    """For the manifest; models with products of integers are marked."""
    integers = sum(map(marked, models))
    forms = sum(isinstance(module, Integers) for module in modules.modules())
    return level.as_dict() | {
        "compressed_ops": forms + integers,
        "int8_inputs": integers,
        "int8_macs_share": int8_macs_share(models),
    }


def _rendered(manifest: Manifest, path: Path, speech: VocoderInputs) -> np.ndarray:
    """[600F]; in the streaming layout in windows."""
    if manifest.layout in STREAMED:
        programs = {
            name: OnnxProgram(function_file(path, name), manifest.outputs[name])
            for name in manifest.functions
        }
        return StreamingChain(programs, any_length().in_windows()).render(speech)
    return render(OnnxProgram(path, (WAVEFORM,)), speech)


def checked(method: Method, checkpoint: Checkpoint, parent: Manifest, path: Path) -> Check:
    """SNR of a calibration sentence against the parent's. Raises CheckFailed below the method's
    limit.
    """
    speech = check_speech(checkpoint, LONG_FRAMES if parent.layout in STREAMED else CHECK_FRAMES)
    value = snr_db(*(_rendered(parent, where, speech) for where in (parent.package_path, path)))
    if not np.isfinite(value):
        raise CheckFailed(
            f"{path.name} gives what its parent gives, or nothing: no weight was compressed"
        )
    name = f"SNR against fp32, {speech.frames} frames of a calibration sentence"
    return all_held([Check(name, value, method.check_snr_db, at_least=True)])[0]


def _manifest(
    parent: Manifest, method: Method, path: Path, compression: dict[str, Any], figure: Check
) -> Manifest:
    """The parent's contract with this method's provenance, counts and figures."""
    return replace(
        parent,
        method=method.name,
        parent_sha256=parent.package_sha256,
        tools=tool_versions(TOOLS),
        checks={"figures": [asdict(figure)]},
        operations=counted(path),
        compression=compression,
        **describe_package(path),
    )
