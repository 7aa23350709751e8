"""PyTorch module to .onnx of any length, and ONNX Runtime to run it. Writing needs torch and onnx,
running onnxruntime alone.

Functions that belong together are a folder of that suffix: NAME.onnx of each, and weights.bin,
which holds what several have once.

    function = PortableFunction(...)                # runtimes/portable.py
    write(function, Path("aside.onnx"))
    program = OnnxProgram(Path("x.onnx"), ("waveform",))
    waveform = program({"features": features, "style": style})["waveform"]

A program takes and gives NumPy arrays by name, at any length: no buckets, no padding, no mask of 0.
The exporter is torch.onnx's own of TorchScript: the newer one needs onnxscript and bakes the export
length into every LSTM.
"""

import hashlib
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kokoro_ane.core.errors import InputError
from kokoro_ane.runtimes.portable import PortableFunction

if TYPE_CHECKING:
    import onnx


PROBE = "data/integer_probe.onnx"
CHANNELS = 64
# as runtimes/onnx/integer_conv.py stores them
LARGEST_WEIGHT, MIDDLE, LARGEST_INPUT = 255, 128, -128


def sums() -> np.ndarray:
    """What this processor makes of the probe: int32 [1, 64, 1, 1]."""
    import onnxruntime

    probe = resources.files("kokoro_ane.runtimes.onnx").joinpath(PROBE).read_bytes()
    session = onnxruntime.InferenceSession(probe, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": np.full((1, CHANNELS, 1, 1), LARGEST_INPUT, np.int8)})
    return np.asarray(result)


@cache
def are_exact() -> bool:
    """Whether every sum is right."""
    return bool((sums() == CHANNELS * (LARGEST_WEIGHT - MIDDLE) * LARGEST_INPUT).all())


def require_exact_integers(path: Path) -> None:
    """InputError where a file with integer products would be computed wrongly."""
    if not are_exact():
        raise InputError(
            f"{path} multiplies 8-bit integers, and ONNX Runtime loses bits of their sums on this"
            " processor: use w8 or fp32"
        )


NAME, SUFFIX = "onnx", ".onnx"
OPSET = 17
TARGET = f"ONNX opset {OPSET}"
TOOLS: tuple[str, ...] = ("torch", "onnx", "onnxruntime", "numpy")
# beside the functions of a folder; less than a page stays inside
WEIGHTS, SMALL_BYTES, ALIGNED_BYTES = "weights.bin", 1024, 4096
# metadata of a file that has them
INTEGERS = "integer products"
# ONNX Runtime does not read it; here it counts for every runtime alike
THREADS = "OMP_NUM_THREADS"


def write(function: PortableFunction, path: Path) -> None:
    """Export `function` as `path` in float32."""
    import torch

    from kokoro_ane.quantize.stored_forms import register_with_onnx

    register_with_onnx(OPSET)
    with warnings.catch_warnings(), torch.no_grad():
        # of tracing: lengths that a size is compared with, and of the exporter's age
        warnings.simplefilter("ignore")
        torch.onnx.export(
            function.module.eval(),
            function.example,
            str(path),
            dynamo=False,
            opset_version=OPSET,
            input_names=list(function.inputs),
            output_names=list(function.outputs),
            dynamic_axes={name: dict(axes) for name, axes in function.dynamic.items()},
        )


def function_file(folder: Path, name: str) -> Path:
    """A function of a folder."""
    return folder / f"{name}{SUFFIX}"


def files_in(path: Path) -> list[Path]:
    """The .onnx files of a folder, or the file itself."""
    return sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]


def save_together(models: "Mapping[str, onnx.ModelProto]", folder: Path) -> None:
    """Write a folder of functions; equal weights stand once."""
    from onnx import numpy_helper
    from onnx.external_data_helper import set_external_data

    places: dict[str, int] = {}
    with (folder / WEIGHTS).open("wb") as stream:
        for name, model in models.items():
            for tensor in model.graph.initializer:
                values = numpy_helper.to_array(tensor).tobytes()
                # small values are not worth a page
                if len(values) < SMALL_BYTES:
                    continue
                digest = hashlib.sha256(values).hexdigest()
                if digest not in places:
                    # every weight begins on a page, as a mapped file wants it
                    stream.write(bytes(-stream.tell() % ALIGNED_BYTES))
                    places[digest] = stream.tell()
                    stream.write(values)
                # set_external_data takes only a tensor that has raw data
                tensor.raw_data = b"outside"
                set_external_data(tensor, WEIGHTS, places[digest], len(values))
                tensor.ClearField("raw_data")
            function_file(folder, name).write_bytes(model.SerializeToString(deterministic=True))


class OnnxProgram:
    """One function: an .onnx file in ONNX Runtime's CPU kernels, in as many threads as
    OMP_NUM_THREADS says.

    Raises InputError for a file that ONNX Runtime does not read, or that lacks an output.
    """

    def __init__(self, path: Path, outputs: Iterable[str]) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get(THREADS) or 0)
        options.log_severity_level = 3
        # a plan is kept for every length that was seen: memory grows with the text
        options.enable_mem_pattern = False
        # weights stored as int8 are unpacked once, when it opens
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        failed = onnxruntime.capi.onnxruntime_pybind11_state
        try:
            self.session = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except (
            failed.Fail,
            failed.InvalidGraph,
            failed.InvalidProtobuf,
            failed.NotImplemented,
            failed.InvalidArgument,
        ) as problem:
            reason = str(problem).splitlines()[0][:160]
            raise InputError(
                f"{path} is not read by ONNX Runtime {onnxruntime.__version__}: {reason}"
            ) from None
        self.path, self.names = path, tuple(outputs)
        missing = set(self.names) - {output.name for output in self.session.get_outputs()}
        if missing:
            raise InputError(f"{path} has no output {sorted(missing)[0]!r}")
        if INTEGERS in self.session.get_modelmeta().custom_metadata_map:
            require_exact_integers(path)

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Named inputs to named outputs."""
        outputs = self.session.run(
            list(self.names), {name: np.ascontiguousarray(value) for name, value in inputs.items()}
        )
        return dict(zip(self.names, outputs, strict=True))


def open_file(path: Path, inputs: Iterable[str], outputs: Iterable[str]) -> OnnxProgram:
    """As every kind of file; a graph knows its inputs."""
    return OnnxProgram(path, outputs)


def counts_of(program: OnnxProgram) -> dict[str, int]:
    """Operations that compute; constants left out."""
    import onnx

    return operations(onnx.load(program.path))


INTEGER = ("ConvInteger",)
PRODUCTS = ("Conv", "ConvTranspose", *INTEGER)
# between a stored weight and its product
UNPACKING = ("DequantizeLinear", "Mul")
# a second of features: the share is the same at any length, but for single columns
COLUMNS, DIGITS = 41, 5


def operations(model: "onnx.ModelProto") -> dict[str, int]:
    """How often each stands there; constants left out."""
    counts = Counter(
        node.op_type
        for graph in (model.graph, *_bodies(model.graph))
        for node in graph.node
        if node.op_type != "Constant"
    )
    return dict(sorted(counts.items()))


def counted(path: Path) -> dict[str, int]:
    """Operations of a file, or of all functions in a folder."""
    import onnx

    counts = Counter[str]()
    for file in files_in(path):
        counts.update(operations(onnx.load(file, load_external_data=False)))
    return dict(sorted(counts.items()))


def _bodies(graph: "onnx.GraphProto") -> "Iterator[onnx.GraphProto]":
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield attribute.g
                yield from _bodies(attribute.g)


def marked(model: "onnx.ModelProto") -> int:
    """How many products of integers the model has; where there are any, its metadata says so from
    now on.
    """
    count = sum(operations(model).get(kind, 0) for kind in INTEGER)
    if count:
        model.metadata_props.add(key=INTEGERS, value=str(count))
    return count


def int8_macs_share(models: "Iterable[onnx.ModelProto]") -> float:
    """Of the convolutions' of all functions, transposed ones included. Inputs are float32; a length
    that is open is COLUMNS.
    """
    macs = np.sum([_macs(model) for model in models], axis=0)
    return round(float(macs[0] / max(macs[1], 1)), DIGITS)


def _macs(model: "onnx.ModelProto") -> tuple[int, int]:
    """In integers, and all."""
    weights = {tensor.name: int(np.prod(tensor.dims)) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type in UNPACKING and node.input[0] in weights:
            weights[node.output[0]] = weights[node.input[0]]
    total = whole = 0
    for node, columns in _columns(model):
        macs = weights.get(node.input[1], 0) * columns
        total, whole = total + macs, whole + macs * (node.op_type in INTEGER)
    return whole, total


def _columns(model: "onnx.ModelProto") -> "list[tuple[onnx.NodeProto, int]]":
    """How often each product's weights are multiplied: by columns of its result, a transposed one's
    by those of its input.
    """
    import onnx
    import onnxruntime

    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    products = list(_products(copied.graph))
    del copied.graph.output[:]
    # every product's result becomes an output, so that one run shows all lengths
    copied.graph.output.extend(
        onnx.helper.make_empty_tensor_value_info(result) for _, result in products
    )
    options = onnxruntime.SessionOptions()
    # of outputs without a shape
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        copied.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    shapes = {
        entry.name: [size if isinstance(size, int) else COLUMNS for size in entry.shape]
        for entry in session.get_inputs()
    }
    results = session.run(
        None, {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    )
    return [
        (node, result.shape[-1] // _stride(node))
        for (node, _), result in zip(products, results, strict=True)
    ]


def _products(graph: "onnx.GraphProto") -> "Iterator[tuple[onnx.NodeProto, str]]":
    """Each with the name of a value as long as its result: in a loop over blocks, of the blocks
    joined.
    """
    joined = {
        node.input[0]: node.output[0] for node in graph.node if node.op_type == "ConcatFromSequence"
    }
    for node in graph.node:
        if node.op_type in PRODUCTS:
            yield node, node.output[0]
        bodies = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
        yield from (
            (inner, joined[node.output[0]])
            for body in bodies
            for inner in body.node
            if inner.op_type in PRODUCTS
        )


def _stride(node: "onnx.NodeProto") -> int:
    """Of a transposed convolution; 1 for others."""
    strides = [entry.ints[-1] for entry in node.attribute if entry.name == "strides"]
    return strides[0] if strides and node.op_type == "ConvTranspose" else 1
