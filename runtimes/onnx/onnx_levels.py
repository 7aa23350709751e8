"""The vocoder's .onnx file or folder at a level, `w8` or `w8a8`: a conversion of the same integers
that the packages have.

    # pipeline.apply --method w8 --runtime onnx
    parent, manifest = build_file(METHODS["w8"], checkpoint, Path("build"), PADDED)

A weight is int8, DequantizeLinear and, where the graph has folded Snake's 1 / alpha into its input
channels (vocoder/eager.py), a multiplication that puts it back. ONNX Runtime folds both when it
opens the file. conv_post and the inverse STFT stay in float.
"""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from kokoro_ane.core import (
    DECODER,
    MANIFEST_FILE,
    PACKAGE_FILE,
    STATISTICS,
    STREAMED,
    WAVEFORM,
    Check,
    CheckFailed,
    Checkpoint,
    Conv,
    InputError,
    Manifest,
    all_held,
    describe_package,
    package_of_ours,
    replace_module,
    snr_db,
    staged_together,
    tool_versions,
)
from kokoro_ane.quantize import (
    CompressionLevel,
    Integers,
    IntegerWeights,
    Method,
    PackageRequest,
    StoredWeight,
    attach_level,
    load_or_make_level,
    quantize_rows,
    store,
)
from kokoro_ane.runtimes.exported import export_network, replace_norms
from kokoro_ane.runtimes.files import render
from kokoro_ane.runtimes.onnx.integer_conv import IntegerConv
from kokoro_ane.runtimes.onnx.onnx_file import (
    NAME,
    SUFFIX,
    TOOLS,
    OnnxProgram,
    count_operations,
    name_function_file,
    write,
    write_together,
)
from kokoro_ane.runtimes.onnx.onnx_streaming import OnnxStreamingStage, allow_any_length
from kokoro_ane.runtimes.portable import PRECISION
from kokoro_ane.runtimes.registry import check_names
from kokoro_ane.speech import check_speech
from kokoro_ane.vocoder import CHECK_FRAMES as LONG_FRAMES
from kokoro_ane.vocoder import (
    SIGNATURES,
    EagerVocoder,
    Norm,
    PhaseConv,
    Place,
    StreamingChain,
    Vocoder,
    VocoderInputs,
    find_places,
)


def make_integer_functions(
    stage: OnnxStreamingStage, level: CompressionLevel
) -> OnnxStreamingStage:
    """The streaming layout's functions with the level's integers; convolutions with int8 inputs are
    products of integers.
    """
    # The modules are changed in place, so their names are listed before.
    for module in stage.twin.modules.values():
        for name, conv in list(module.named_modules()):
            # The path in the vocoder, by which levels name their layers.
            path = name.removeprefix("vocoder.").removesuffix(".conv")
            # the decoder holds the whole vocoder, whose generator does not run in it, and the first
            # stage's source convolution reads columns as rows there
            if name.startswith("vocoder.generator.") or isinstance(conv, PhaseConv):
                continue
            if path in level.ranges and isinstance(conv, Conv):
                replace_module(module, name, make_integer_conv(conv, level, Place(path)))
    attach_level(stage.twin, level, inputs=False)
    return stage


def make_integer_conv(conv: Conv, level: CompressionLevel, place: Place) -> IntegerConv:
    """A convolution with the level's integers and range."""
    form = level.forms[place.path]
    assert isinstance(form, Integers)  # build_file takes levels of integers only
    return IntegerConv(conv, form, level.get_range(place.path), place)


def use_integers(prepared: Vocoder, level: CompressionLevel) -> EagerVocoder:
    """The prepared vocoder's eager network with the level's integers; convolutions with int8 inputs
    are products of integers.
    """
    # The norms come first: find_places looks at the network that will be exported.
    eager = replace_norms(prepared)
    for name, place in find_places(eager).items():
        if place.path in level.ranges:
            conv = prepared.get_submodule(place.path)
            assert isinstance(conv, Conv), place.path
            replace_module(eager, name, make_integer_conv(conv, level, place))
    attach_to_eager(eager, prepared, level)
    return eager


class Divided(StoredWeight):
    """A stored weight whose input channels are divided by the factors of the layer before. Integers
    of the quotient would have channels of very different sizes in one row (16.6 dB on real Kokoro).
    """

    inverse: Tensor

    def __init__(self, form: StoredWeight, divisor: Tensor) -> None:
        super().__init__(form.label, half=False)
        self.form = form
        # [in] -> [1, in, 1, 1], along the weight's input channels
        self.register_buffer("inverse", (1 / divisor.double()).float().view(1, -1, 1, 1))

    def forward(self, _: Tensor | None = None) -> Tensor:
        weight: Tensor = self.form() * self.inverse
        return weight


def attach_to_eager(eager: EagerVocoder, vocoder: Vocoder, level: CompressionLevel) -> None:
    """Give the layers of `eager`, which was made from `vocoder`, the level's forms. Those with int8
    inputs are left to the caller.
    """
    for name, place in find_places(eager).items():
        form = level.forms.get(place.path)
        if form is None or place.path in level.ranges:
            continue
        form = form.scale_by(place.outer)
        alpha = place.alpha
        # One alpha for all channels goes into the steps; others need a product in the graph.
        if alpha is not None and bool((alpha == alpha[0]).all()):
            form = form.scale_by(1 / float(alpha[0]))
            alpha = None
        store(eager.get_submodule(name), form if alpha is None else Divided(form, alpha))
    _attach_styles(eager, vocoder, level)


def _attach_styles(eager: EagerVocoder, vocoder: Vocoder, level: CompressionLevel) -> None:
    """The one product of all styles: the affines' rows, times what Snake multiplies."""
    rows: list[Integers] = []
    factors: list[Tensor] = []
    for norm, path in _list_norms(eager):
        form = level.forms.get(f"{path}.fc") or quantize_rows(vocoder.get_submodule(f"{path}.fc"))
        assert isinstance(form, Integers)  # this runtime has levels of integers only
        rows.append(form)
        factors.append(norm.scale)
    # A norm has C rows of gains, then C of shifts, both times the C factors.
    every = torch.cat([factor.repeat(2) for factor in factors])[:, None]  # [rows, 1]
    values = torch.cat([form.values.flatten(1) for form in rows])  # [rows, style_dim]
    scale = torch.cat([form.scale.flatten(1) for form in rows]).double() * every
    store(eager, Integers(values.numpy(), scale.float().numpy(), "style_weight"), "style_weight")


def _list_norms(eager: EagerVocoder) -> list[tuple[Norm, str]]:
    """Norms in the order of their rows, each with its path in the vocoder."""
    norms = [
        # The eager norm stands inside the convolution that reads it: convs1.0.norm was adain1.0.
        (module, name.replace(".convs", ".adain").removesuffix(".norm"))
        for name, module in eager.named_modules()
        if isinstance(module, Norm)
    ]
    return sorted(norms, key=lambda entry: entry[0].begin)


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
    request = PackageRequest(checkpoint, build, PRECISION, layout, files=NAME)
    parent = request.load_manifest(request.vocoder)
    path = replace(request, method=method.name).vocoder
    parent.verify()
    # functions that belong together are a folder
    ours = package_of_ours if layout in STREAMED else PACKAGE_FILE
    with staged_together((path.with_suffix(SUFFIX), ours), (path, MANIFEST_FILE)) as (
        aside,
        described,
    ):
        level = load_or_make_level(method, checkpoint, build)
        write_level(level, checkpoint, layout, aside)
        # Before the block ends, so that a level that misses its limit gets no name.
        figure = check_snr(method, checkpoint, parent, aside)
        child = replace(
            parent,
            method=method.name,
            parent_sha256=parent.package_sha256,
            tools=tool_versions(TOOLS),
            checks={"figures": [asdict(figure)]},
            operations=count_operations(aside),
            compression=level.as_dict(),
            **describe_package(aside),
        ).save(described)
    return parent, replace(child, path=path)


def write_level(level: CompressionLevel, checkpoint: Checkpoint, layout: str, path: Path) -> None:
    """Export the level's file; in the streaming layout a folder of functions."""
    prepared = level.prepare(Vocoder.from_checkpoint(checkpoint))
    if layout in STREAMED:
        stage = make_integer_functions(
            OnnxStreamingStage.from_checkpoint(checkpoint, prepared), level
        )
        write_together({name: stage.make_function(name) for name in SIGNATURES}, path)
    else:
        write(export_network(use_integers(prepared, level), checkpoint.config), path)


def _render(manifest: Manifest, path: Path, speech: VocoderInputs) -> np.ndarray:
    """[600F]; in the streaming layout in windows."""
    if manifest.layout in STREAMED:
        programs = {
            name: OnnxProgram(name_function_file(path, name), manifest.outputs[name])
            for name in manifest.functions
        }
        rows = manifest.inputs[DECODER][STATISTICS]["shape"][1]
        return StreamingChain(programs, allow_any_length().in_windows(), rows).render(speech)
    return render(OnnxProgram(path, (WAVEFORM,)), speech)


def check_snr(method: Method, checkpoint: Checkpoint, parent: Manifest, path: Path) -> Check:
    """SNR of a calibration sentence against the parent's. Raises CheckFailed below the method's
    limit.
    """
    speech = check_speech(checkpoint, LONG_FRAMES if parent.layout in STREAMED else CHECK_FRAMES)
    value = snr_db(*(_render(parent, where, speech) for where in (parent.package_path, path)))
    # An infinite SNR means that no sample differs.
    if not np.isfinite(value):
        raise CheckFailed(
            f"{path.name} gives what its parent gives, or nothing: no weight was compressed"
        )
    name = f"SNR against fp32, {speech.frames} frames of a calibration sentence"
    return all_held([Check(name, value, method.check_snr_db, at_least=True)])[0]
