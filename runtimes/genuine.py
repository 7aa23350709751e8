"""Whether a vocoder is what its name says: the stored kinds of its weights and inputs, compared
with those that its method makes. What judges or ships a package asks this first.

    require_genuine(manifest, "streaming-w8a8")  # InputError: fp16 under that name
"""

from dataclasses import dataclass
from pathlib import Path

from kokoro_ane.core.checks import open_functions
from kokoro_ane.core.commands import BuildOptions, QuantizeOptions
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.quantize.methods import (
    CONVERTED,
    METHODS,
    SCHEMES,
    IntegerWeights,
    PaletteWeights,
    Weights,
)
from mlprogram.dtypes import BY_NAME

CONVOLUTIONS = ("conv", "conv_transpose")
INTEGERS = "linear int8"
# a file of ONNX Runtime; the operation that multiplies integers, by its name there
ONNX, INTEGER_PRODUCT = ".onnx", b"ConvInteger"


@dataclass(frozen=True)
class Kinds:
    """How weights are stored, by the names of mlprogram.examine.storage, and whether any
    convolution reads integers.
    """

    weights: frozenset[str]
    int8_inputs: bool

    @classmethod
    def read(cls, path: Path) -> "Kinds | None":
        """The kinds in a package or an .onnx file. None for a compiled file, which does not show
        them and has one level only.
        """
        if path.suffix == ONNX:
            return cls._of_onnx(path)
        if path.suffix != ".mlpackage":
            return None
        kinds, read = set(), set()
        for program in open_functions(path):
            operations = list(program.function.body.walk())
            makers = {value.name: op.op_type for op in operations for value in op.outputs}
            read |= {
                makers.get(op.inputs["x"][0]) for op in operations if op.op_type in CONVOLUTIONS
            }
            kinds |= {stored.kind for stored in program.storage.weights.values()}
        return cls(frozenset(kinds), "dequantize" in read)

    @classmethod
    def _of_onnx(cls, path: Path) -> "Kinds":
        import onnx

        files = sorted(path.glob(f"*{ONNX}")) if path.is_dir() else [path]
        stored = {
            tensor.data_type
            for file in files
            for tensor in onnx.load(file, load_external_data=False).graph.initializer
        }
        integers = bool(stored & {onnx.TensorProto.INT8, onnx.TensorProto.UINT8})
        products = any(INTEGER_PRODUCT in file.read_bytes() for file in files)
        return cls(frozenset({"fp32", INTEGERS} if integers else {"fp32"}), products)

    def are_of(self, level: str) -> bool:
        """Whether a package of that method has these kinds."""
        method, kinds = METHODS.get(level), self.weights - set(BY_NAME)
        # converted, not compressed
        if method is None or method.parent is None:
            return (
                not kinds and not self.int8_inputs and (level != "fp32") == ("fp16" in self.weights)
            )
        if method.by_recipe:
            return bool(kinds) and kinds <= set().union(
                *(kinds_of(scheme.weights) for scheme in SCHEMES.values())
            )
        expected = kinds_of(method.weights)
        # small layers may have other kinds, but the kind that most weights get has to be there
        return (
            bool(kinds & set(expected[:1]))
            and kinds <= set(expected)
            and self.int8_inputs == (method.activations is not None)
        )


def kinds_of(weights: Weights | None) -> tuple[str, ...]:
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


def require_genuine(manifest: Manifest, level: str) -> None:
    """Raise InputError where the manifest says another level, or where weights or inputs are stored
    otherwise than the method stores them.
    """
    method, layout = manifest.method, manifest.layout
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
    kinds = Kinds.read(manifest.package_path)
    if kinds is not None and not kinds.are_of(method):
        stored = (
            f"{', '.join(sorted(kinds.weights))} with {'int8' if kinds.int8_inputs else 'float'}"
            " inputs"
        )
        raise InputError(
            f"{manifest.package_path} stores {stored}, which is not {level}: renamed, or its"
            f" manifest was edited; {again}"
        )
