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
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kokoro_ane.core import InputError
from kokoro_ane.runtimes.portable import PortableFunction

if TYPE_CHECKING:
    from torch import nn

    from kokoro_ane.vocoder import Vocoder

PROBE = "data/integer_probe.onnx"
# 64 products of the largest values: where pairs are added in 16 bits, they saturate.
CHANNELS = 64
# as runtimes/onnx/integer_conv.py stores them
LARGEST_WEIGHT = 255
MIDDLE = 128
LARGEST_INPUT = -128


def compute_sums() -> np.ndarray:
    """The sums that this processor computes for the probe, int32 [1, 64, 1, 1]."""
    import onnxruntime

    probe = resources.files("kokoro_ane.runtimes.onnx").joinpath(PROBE).read_bytes()
    session = onnxruntime.InferenceSession(probe, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": np.full((1, CHANNELS, 1, 1), LARGEST_INPUT, np.int8)})
    return np.asarray(result)


@cache
def has_exact_sums() -> bool:
    """Whether this processor computes every sum of the probe exactly."""
    return bool((compute_sums() == CHANNELS * (LARGEST_WEIGHT - MIDDLE) * LARGEST_INPUT).all())


NAME, SUFFIX = "onnx", ".onnx"
OPSET = 17
TARGET = f"ONNX opset {OPSET}"
TOOLS: tuple[str, ...] = ("torch", "onnx", "onnxruntime", "numpy")
# the file with the weights of a folder's functions; weights below SMALL_BYTES stay in the function
WEIGHTS = "weights.bin"
SMALL_BYTES = 1024
ALIGNED_BYTES = 4096
# metadata of a file with integer products, and their operation
INTEGERS, INTEGER_PRODUCT = "integer products", "ConvInteger"
# ONNX Runtime does not read it by itself; here it sets the threads of every runtime
THREADS = "OMP_NUM_THREADS"


def write(function: PortableFunction, path: Path) -> None:
    """Export `function` as `path` in float32. Metadata mark a file with products of integers: not
    every processor may open it.
    """
    import onnx
    import torch

    from kokoro_ane.quantize import register_with_onnx

    # The exporter has to know the operations of stored weights before it meets them.
    register_with_onnx(OPSET)
    with warnings.catch_warnings(), torch.no_grad():
        # warnings of tracing (sizes compared with lengths) and of the exporter's age
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
    products = count_operations(path).get(INTEGER_PRODUCT, 0)
    if products:
        model = onnx.load(path)
        model.metadata_props.add(key=INTEGERS, value=str(products))
        onnx.save(model, path)


def name_function_file(folder: Path, name: str) -> Path:
    """The file of a function in a folder."""
    return folder / f"{name}{SUFFIX}"


def files_in(path: Path) -> list[Path]:
    """The .onnx files of a folder, or the file itself."""
    return sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]


def write_together(functions: Mapping[str, PortableFunction], folder: Path) -> None:
    """Export functions into a new folder, where equal weights stand once."""
    import onnx
    from onnx import numpy_helper
    from onnx.external_data_helper import set_external_data

    folder.mkdir()
    # SHA-256 of a weight's bytes -> where it begins in the weights' file
    places: dict[str, int] = {}
    with (folder / WEIGHTS).open("wb") as stream:
        for name, function in functions.items():
            file = name_function_file(folder, name)
            write(function, file)
            model = onnx.load(file)
            # Large weights leave the function's file; equal ones of other functions share a place.
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
            # Deterministic, so that the same build has the same hash.
            file.write_bytes(model.SerializeToString(deterministic=True))


class OnnxProgram:
    """One function: an .onnx file in ONNX Runtime's CPU kernels, in as many threads as
    OMP_NUM_THREADS says.

    Raises InputError for a file that ONNX Runtime does not read, or that lacks an output.
    """

    def __init__(self, path: Path, outputs: Iterable[str]) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        # 0 leaves the number to ONNX Runtime.
        options.intra_op_num_threads = int(os.environ.get(THREADS) or 0)
        # 3 stands for errors: its warnings would mix with the command's own lines.
        options.log_severity_level = 3
        # else a memory plan is kept for every length, and memory grows with the text
        options.enable_mem_pattern = False
        # weights stored as int8 are unpacked once, when the session opens
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
        self.path = path
        self.names = tuple(outputs)
        # Asked now, because a run would name it only after the work.
        missing = set(self.names) - {output.name for output in self.session.get_outputs()}
        if missing:
            raise InputError(f"{path} has no output {sorted(missing)[0]!r}")
        if INTEGERS in self.session.get_modelmeta().custom_metadata_map and not has_exact_sums():
            raise InputError(
                f"{path} multiplies 8-bit integers, and ONNX Runtime loses bits of their sums on"
                " this processor: use w8 or fp32"
            )

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Named inputs to named outputs."""
        outputs = self.session.run(
            list(self.names), {name: np.ascontiguousarray(value) for name, value in inputs.items()}
        )
        return dict(zip(self.names, outputs, strict=True))


def open_file(path: Path, inputs: Iterable[str], outputs: Iterable[str]) -> OnnxProgram:
    """Open a file. A graph knows its inputs by name."""
    return OnnxProgram(path, outputs)


def open_function(folder: Path, name: str, outputs: Iterable[str]) -> OnnxProgram:
    """Open a function of a folder."""
    return OnnxProgram(name_function_file(folder, name), outputs)


def encoder_graph(function: "nn.Module") -> "nn.Module":
    """The function itself: the exporter has every operation of it."""
    return function


def vocoder_network(vocoder: "Vocoder") -> "nn.Module":
    """The eager vocoder with norms that the exporter has."""
    from kokoro_ane.runtimes.exported import replace_norms

    return replace_norms(vocoder)


def count_operations(path: Path) -> dict[str, int]:
    """The operations of a file, or of all functions in a folder, without constants."""
    import onnx

    counts = Counter(
        node.op_type
        for file in files_in(path)
        for node in onnx.load(file, load_external_data=False).graph.node
        if node.op_type != "Constant"
    )
    return dict(sorted(counts.items()))


def counts_of(program: OnnxProgram) -> dict[str, int]:
    """The operations of the program's file, without constants."""
    return count_operations(program.path)
