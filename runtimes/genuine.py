"""Whether a vocoder is what its name says: the stored kinds of its weights and inputs, compared
with those that its method makes. What judges or ships a package asks this first.

    require_genuine(manifest, "streaming-w8a8")  # InputError: fp16 under that name
"""

from pathlib import Path

from kokoro_ane.core import BuildOptions, InputError, Manifest, QuantizeOptions, open_functions
from kokoro_ane.quantize import CONVERTED, METHODS, SCHEMES, IntegerWeights, PaletteWeights, Weights
from kokoro_ane.runtimes.registry import PACKAGE, RUNTIMES
from mlprogram import BY_NAME

CONVOLUTIONS = ("conv", "conv_transpose")
INTEGERS = "linear int8"


def require_genuine(manifest: Manifest, level: str) -> None:
    """Raise InputError where the manifest says another level, or where weights or inputs are stored
    otherwise than the method stores them.
    """
    method = manifest.method
    layout = manifest.layout
    options = (
        BuildOptions("vocoder", layout=layout, precision=method)
        if method in CONVERTED
        else QuantizeOptions(method, layout=layout)
    )
    again = f"run `{options.command}` again"
    if manifest.level != level:
        raise InputError(
            f"{manifest.path} says method {manifest.level!r}, expected {level!r}: {again}"
        )
    path = manifest.package_path
    if path.suffix == RUNTIMES["onnx"].files:
        kinds, int8_inputs = find_kinds_in_onnx(path)
    elif path.suffix == PACKAGE:
        kinds, int8_inputs = find_kinds_in_package(path)
    else:
        # a compiled file does not show how it stores weights, and has one level only
        return
    if not is_of_method(method, kinds, int8_inputs):
        stored = f"{', '.join(sorted(kinds))} with {'int8' if int8_inputs else 'float'} inputs"
        raise InputError(
            f"{path} stores {stored}, which is not {level}: renamed, or its manifest was edited;"
            f" {again}"
        )


def find_kinds_in_package(path: Path) -> tuple[set[str], bool]:
    """How weights are stored, by the names of mlprogram.examine.storage, and whether any
    convolution reads integers.
    """
    kinds, read = set(), set()
    for program in open_functions(path):
        operations = list(program.function.body.walk())
        makers = {value.name: op.op_type for op in operations for value in op.outputs}
        # A convolution on integers reads the result of a dequantize.
        read |= {makers.get(op.inputs["x"][0]) for op in operations if op.op_type in CONVOLUTIONS}
        kinds |= {stored.kind for stored in program.storage.weights.values()}
    return kinds, "dequantize" in read


def find_kinds_in_onnx(path: Path) -> tuple[set[str], bool]:
    """The same of an .onnx file, or of the functions in a folder."""
    import onnx

    from kokoro_ane.runtimes.onnx.onnx_file import INTEGER_PRODUCT, count_operations, files_in

    stored = {
        tensor.data_type
        for file in files_in(path)
        for tensor in onnx.load(file, load_external_data=False).graph.initializer
    }
    # Biases and norms stay in float at every level.
    kinds = {"fp32"}
    if stored & {onnx.TensorProto.INT8, onnx.TensorProto.UINT8}:
        kinds.add(INTEGERS)
    return kinds, INTEGER_PRODUCT in count_operations(path)


def is_of_method(level: str, stored: set[str], int8_inputs: bool) -> bool:
    """Whether a package of that method has these kinds."""
    method = METHODS.get(level)
    # Plain element types say nothing of compression, which is what is asked.
    kinds = stored - set(BY_NAME)
    # converted, not compressed
    if method is None or method.parent is None:
        # An fp32 package holds no fp16 at all, and any other holds some.
        return not kinds and not int8_inputs and (level != "fp32") == ("fp16" in stored)
    if method.by_recipe:
        possible = set().union(*(rank_kinds(scheme.weights) for scheme in SCHEMES.values()))
        # A recipe mixes schemes layer by layer, so any of their kinds may occur, and no other.
        return bool(kinds) and kinds <= possible
    expected = rank_kinds(method.weights)
    # small layers may have other kinds, but the kind that most weights get has to be there
    return (
        bool(kinds & set(expected[:1]))
        and kinds <= set(expected)
        and int8_inputs == (method.activations is not None)
    )


def rank_kinds(weights: Weights | None) -> tuple[str, ...]:
    """The kinds of a package with such weights; the one that most weights have stands first."""
    match weights:
        case IntegerWeights(block=0):
            return (INTEGERS,)
        case IntegerWeights():
            # a layer without a block has one scale per channel
            return ("linear per block int4", "linear int4")
        case PaletteWeights():
            bits = f"palette {weights.bits}-bit"
            bits = f"{bits} + {INTEGERS}" if weights.int8_entries else bits
            # strided and depthwise layers, and the streaming layouts' product for all styles, have
            # integers
            return (bits, INTEGERS)
    return ()
