"""PyTorch module to .onnx of any length, and ONNX Runtime to run it. Writing needs torch and onnx, running onnxruntime alone.

    function = PortableFunction(...)                # core/portable.py
    write(function, Path("aside.onnx"))
    waveform = OnnxProgram(Path("x.onnx"), ("waveform",))({"features": features, "style": style})["waveform"]

A program takes and gives NumPy arrays by name, at any length: no buckets, no padding, no mask of 0.
The exporter is torch.onnx's own of TorchScript: the newer one needs onnxscript and bakes the export length into every LSTM.
"""

import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from core.errors import InputError
from core.integer_probe import require_exact_integers
from core.portable import PortableFunction

if TYPE_CHECKING:
    from core.facts import ProgramFacts

NAME, SUFFIX = "onnx", ".onnx"
OPSET = 17
TARGET = f"ONNX opset {OPSET}"
TOOLS: tuple[str, ...] = ("torch", "onnx", "onnxruntime", "numpy")
INTEGERS = "integer products"  # metadata of a file that has them
THREADS = "OMP_NUM_THREADS"  # ONNX Runtime does not read it; here it counts for every runtime alike


def write(function: PortableFunction, path: Path) -> None:
    """Export `function` as `path` in float32."""
    import torch

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of tracing: lengths that a size is compared with, and of the exporter's age
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


class OnnxProgram:
    """One function: an .onnx file in ONNX Runtime's CPU kernels, in as many threads as OMP_NUM_THREADS says.

    Raises InputError for a file that ONNX Runtime does not read, or that lacks an output.
    """

    def __init__(self, path: Path, outputs: Iterable[str]) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get(THREADS) or 0)
        options.log_severity_level = 3
        options.add_session_config_entry("session.disable_quant_qdq", "1")  # weights stored as int8 are unpacked once, when it opens
        failed = onnxruntime.capi.onnxruntime_pybind11_state
        try:
            self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except (failed.Fail, failed.InvalidGraph, failed.InvalidProtobuf, failed.NotImplemented, failed.InvalidArgument) as problem:
            reason = str(problem).splitlines()[0][:160]
            raise InputError(f"{path} is not read by ONNX Runtime {onnxruntime.__version__}: {reason}") from None
        self.path, self.names = path, tuple(outputs)
        missing = set(self.names) - {found.name for found in self.session.get_outputs()}
        if missing:
            raise InputError(f"{path} has no output {sorted(missing)[0]!r}")
        if INTEGERS in self.session.get_modelmeta().custom_metadata_map:
            require_exact_integers(path)

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Named inputs to named outputs."""
        found = self.session.run(list(self.names), {name: np.ascontiguousarray(value) for name, value in inputs.items()})
        return dict(zip(self.names, found, strict=True))


def facts(program: OnnxProgram) -> "ProgramFacts":
    """Operations that compute; constants left out."""
    import onnx

    from core.facts import ProgramFacts
    from core.onnx_graph import operations

    return ProgramFacts(operations(onnx.load(program.path)), {}, enumerated_shapes=0, fp16_operations=0, int8_weights=0)
