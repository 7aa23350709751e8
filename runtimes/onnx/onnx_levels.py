"""The vocoder's .onnx file with int8 weights, one scale per output channel: `w8`, in float
arithmetic, and what `w8a8` leaves in float.

    # pipeline.apply --method w8 --runtime onnx
    parent, manifest = build_file(METHODS["w8"], checkpoint, Path("build"))

A weight becomes int8, DequantizeLinear and, where the graph has folded Snake's 1 / alpha into its
input channels (vocoder/eager.py), a multiplication that puts it back: quantized with it, a row
holds channels of very different sizes (16.6 dB on real Kokoro). ONNX Runtime folds both when it
opens the file. conv_post and the inverse STFT stay in float.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_ane.core.builder import all_held
from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import Check, snr_db
from kokoro_ane.core.contract import PADDED, STREAMED, WAVEFORM
from kokoro_ane.core.errors import CheckFailed, InputError
from kokoro_ane.core.layers import Conv, replace_module
from kokoro_ane.core.manifest import (
    MANIFEST_FILE,
    PACKAGE_FILE,
    Manifest,
    describe_package,
    folder_of_ours,
    tool_versions,
)
from kokoro_ane.core.staging import staged_together
from kokoro_ane.quantize.activations import calibration_inputs
from kokoro_ane.quantize.locator import Request
from kokoro_ane.quantize.measure import Int8Inputs
from kokoro_ane.quantize.methods import LinearWeights, Method
from kokoro_ane.quantize.speech import check_speech
from kokoro_ane.runtimes.exported import PortableVocoder, exported
from kokoro_ane.runtimes.files import render
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
from kokoro_ane.vocoder.streaming.streaming_layers import FoldedConv, PhaseConv
from kokoro_ane.vocoder.streaming.streaming_package import StreamingChain
from kokoro_ane.vocoder.streaming.streaming_stage import CHECK_FRAMES as LONG_FRAMES
from kokoro_ane.vocoder.streaming.streaming_stage import FUNCTIONS

if TYPE_CHECKING:
    import onnx


def integer_inputs(method: Method, checkpoint: Checkpoint) -> tuple[Vocoder, dict[str, float]]:
    """The prepared vocoder, and the range of what each of its convolutions on integers reads.
    InputError for float inputs.
    """
    plain, settings = Vocoder.of(checkpoint), method.int8_activations()
    ready = Int8Inputs.of(
        plain, list(calibration_inputs(checkpoint, plain, settings.clips)), settings
    )
    chosen = frozenset(place.path for place in places(plain).values() if settings.takes(place.path))
    return ready.vocoder(plain, chosen), {path: ready.ranges[path] for path in chosen}


def integer_functions(method: Method, checkpoint: Checkpoint) -> OnnxStreamingStage:
    """The streaming layout's functions, with the same convolutions on integers but the first
    stage's source convolution, which reads columns as rows here.
    """
    prepared, ranges = integer_inputs(method, checkpoint)
    stage = OnnxStreamingStage.of(checkpoint, prepared)
    for module in stage.modules.values():
        for name, conv in list(module.named_modules()):
            # the decoder holds the whole vocoder, whose generator does not run in it
            if name.startswith("vocoder.generator.") or isinstance(conv, PhaseConv):
                continue
            path = name.removeprefix("vocoder.").removesuffix(".conv")
            if path in ranges and isinstance(conv, Conv | FoldedConv):
                replace_module(module, name, IntegerConv(conv, ranges[path], Place(path)))
    return stage


def with_integers(
    prepared: Vocoder, ranges: Mapping[str, float], hidden_dim: int
) -> PortableVocoder:
    """The prepared vocoder's graph, the convolutions with `ranges` on integers."""
    portable = PortableVocoder(prepared, hidden_dim)
    for name, place in places(prepared).items():
        if place.path in ranges:
            conv = prepared.get_submodule(place.path)
            assert isinstance(conv, Conv), place.path
            replace_module(portable.eager, name, IntegerConv(conv, ranges[place.path], place))
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


# operation -> axis of the output channels in its weight
PRODUCTS = {"Conv": 0, "ConvTranspose": 1, "Gemm": 0}
# the tail, ones that move values, and what tells the streaming layout's statistics
KEPT = ("conv_post", "stft", ".taps.", "hidden")
LARGEST = 127.0
CHECK_FRAMES = 40


def weights_of(model: "onnx.ModelProto", method: LinearWeights) -> dict[str, int]:
    """Every float weight of a product outside the tail that is larger than the method keeps: the
    axis of its output channels by its name.
    """
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    axes = {}
    for node in (node for node in model.graph.node if node.op_type in PRODUCTS):
        tensor = stored.get(node.input[1])
        where = f"{node.name} {tensor.name}" if tensor is not None else ""
        if (
            tensor is not None
            and np.prod(tensor.dims) > method.keep_up_to
            and not any(part in where for part in KEPT)
        ):
            # a depthwise transposed convolution has its channels on axis 0: [C, 1, 1, k]
            depthwise = node.op_type == "ConvTranspose" and tensor.dims[1] == 1
            turned = node.op_type == "Gemm" and not any(
                entry.name == "transB" and entry.i for entry in node.attribute
            )
            axes[tensor.name] = 0 if depthwise else 1 if turned else PRODUCTS[node.op_type]
    return axes


def alphas(vocoder: Vocoder) -> dict[str, np.ndarray]:
    """What each convolution behind a Snake was divided by: [1, C, 1, 1] by the weight's name in the
    file.
    """
    return {
        f"eager.{name}.weight": place.alpha.view(1, -1, 1, 1).numpy()
        for name, place in places(vocoder).items()
        if place.alpha is not None
    }


def compress(
    model: "onnx.ModelProto", method: LinearWeights, folded: Mapping[str, np.ndarray]
) -> int:
    """Change the model in place; how many weights were compressed. `folded`: see alphas."""
    import onnx
    from onnx import helper, numpy_helper

    axes = weights_of(model, method)
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    for weight, axis in axes.items():
        tensor = stored[weight]
        values = numpy_helper.to_array(tensor).astype(np.float64) * folded.get(weight, 1.0)
        # one scale an output channel: the largest value over all other axes
        others = tuple(other for other in range(values.ndim) if other != axis)
        sizes = np.abs(values).max(axis=others, keepdims=True)
        scale = (np.where(sizes > 0, sizes, 1.0) / LARGEST).astype(np.float32)
        whole = np.clip(np.round(values / scale), -LARGEST, LARGEST).astype(np.int8)
        model.graph.initializer.remove(tensor)
        arrays: dict[str, np.ndarray] = {
            f"{weight}_int8": whole,
            f"{weight}_scale": scale.ravel(),
            f"{weight}_zero": np.zeros(scale.size, np.int8),
        }
        names, middle = list(arrays), weight
        # what the graph has divided the input channels by is put back behind the unpacked weight
        if weight in folded:
            inverse, middle = f"{weight}_inverse", f"{weight}_plain"
            arrays[inverse] = (1 / folded[weight].astype(np.float64)).astype(np.float32)
            node = helper.make_node("Mul", [middle, inverse], [weight], f"{weight}_mul")
            model.graph.node.insert(0, node)
        node = helper.make_node(
            "DequantizeLinear", names, [middle], f"{middle}_dequantize", axis=axis
        )
        model.graph.node.insert(0, node)
        model.graph.initializer.extend(
            numpy_helper.from_array(array, name) for name, array in arrays.items()
        )
    onnx.checker.check_model(model)
    return len(axes)


def build_file(
    method: Method, checkpoint: Checkpoint, build: Path, layout: str = PADDED
) -> tuple[Manifest, Manifest]:
    """Compress the exported file or folder aside, run it, rename, write the manifest last: the
    parent's manifest and the new one.

    Raises InputError for a method that this runtime has not, or a missing parent; CheckFailed where
    the SNR limit is missed.
    """
    if not isinstance(method.weights, LinearWeights):
        raise InputError(
            f"--runtime {NAME} has no {method.name}: there are w8 and w8a8 (docs/runtimes.md#onnx)"
        )
    check_names(NAME, method.name, layout)
    request = Request(checkpoint, build, PRECISION, layout, files=NAME)
    parent, path = request.manifest(request.vocoder), replace(request, method=method.name).vocoder
    parent.verify()
    # functions that belong together are a folder
    ours = folder_of_ours if layout in STREAMED else PACKAGE_FILE
    with staged_together((path.with_suffix(SUFFIX), ours), (path, MANIFEST_FILE)) as (
        aside,
        described,
    ):
        compress_into = compressed_folder if layout in STREAMED else compressed_file
        compression = compress_into(method, checkpoint, parent.package_path, aside)
        figure = checked(method, checkpoint, parent, aside)
        child = _manifest(parent, method, aside, compression, figure).save(described)
    return parent, replace(child, path=path)


def compressed_file(
    method: Method, checkpoint: Checkpoint, source: Path, aside: Path
) -> dict[str, Any]:
    """Write the level's file; what was done, for the manifest. `source`: the file in float."""
    import onnx

    assert isinstance(method.weights, LinearWeights)
    long: list[str] = []
    if method.activations is not None:
        vocoder = with_integers(*integer_inputs(method, checkpoint), checkpoint.config.hidden_dim)
        long = long_convolutions(vocoder)
        write(exported(vocoder, checkpoint.config), aside)
        source = aside
    model = onnx.load(source)
    compressed = compress(model, method.weights, alphas(Vocoder.of(checkpoint)))
    for name in long:
        in_blocks(model, name)
    done = _done(method, [model], compressed)
    onnx.save(model, aside)
    return done


def compressed_folder(
    method: Method, checkpoint: Checkpoint, source: Path, aside: Path
) -> dict[str, Any]:
    """The same of the streaming layout's functions. Where Snake's 1 / alpha spreads too far it
    stands before the product already.
    """
    import onnx

    assert isinstance(method.weights, LinearWeights)  # build_file has asked
    aside.mkdir()
    if method.activations is not None:
        stage, source = integer_functions(method, checkpoint), aside
        for name in FUNCTIONS:
            write(stage.function(name), function_file(aside, name))
    models = {path.stem: onnx.load(path) for path in files_in(source)}
    compressed = sum(compress(model, method.weights, {}) for model in models.values())
    done = _done(method, models.values(), compressed)
    # takes the weights out of the models
    save_together(models, aside)
    return done


def _done(method: Method, models: "Collection[onnx.ModelProto]", compressed: int) -> dict[str, Any]:
    """For the manifest; models with products of integers are marked."""
    integers = sum(map(marked, models))
    products = sum(node.op_type in PRODUCTS for model in models for node in model.graph.node)
    assert isinstance(method.weights, LinearWeights)  # build_file has asked
    return {
        "weights": asdict(method.weights),
        "activations": asdict(method.activations) if method.activations else None,
        "recipe": None,
        "unfit_for_engine": None,
        "compressed_ops": compressed + integers,
        "kept_ops": products - compressed,
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
