"""PyTorch module to .pte for ExecuTorch's XNNPACK kernels in float32, any length up to a longest
one, and its Python runtime.

    write(function, Path("aside.pte"))
    program = PteProgram(Path("x.pte"), inputs, outputs)
    waveform = program({"features": features, "style": style})["waveform"]

A module must avoid what made a file fail: torch.instance_norm (NaN where its
input is constant, 71 dB on real Kokoro: plain_graph.py), nn.LSTM (torch.export unrolls it
to one length: encoder/lstm.py), and channels-last memory. Memory is planned for the longest
utterance: planned by the example, a longer one is refused.
"""

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_ane.core import InputError
from kokoro_ane.runtimes.portable import (
    ARGUMENT,
    SHORTEST,
    PortableFunction,
    export_program,
    order_by_name,
)

if TYPE_CHECKING:
    from torch import nn

    from kokoro_ane.vocoder import Vocoder

NAME, SUFFIX = "executorch", ".pte"
TARGET = "ExecuTorch 1.5, XNNPACK"
TOOLS: tuple[str, ...] = ("torch", "executorch", "numpy")
METHOD = "forward"


def write(function: PortableFunction, path: Path) -> None:
    """Export, lower to XNNPACK whatever it takes, save."""
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import (
        EdgeCompileConfig,
        ExecutorchBackendConfig,
        to_edge_transform_and_lower,
    )

    function = order_by_name(function)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        config = EdgeCompileConfig(_check_ir_validity=False)
        edge = to_edge_transform_and_lower(
            {METHOD: export_program(function)},
            partitioner=[XnnpackPartitioner()],
            compile_config=config,
        )
        path.write_bytes(
            edge.to_executorch(
                ExecutorchBackendConfig(sym_shape_eval_pass=plan_memory(function))
            ).buffer
        )


def plan_memory(function: PortableFunction) -> Any:
    """ExecuTorch's pass that plans memory by the ranges of lengths. The ranges are set again,
    because lowering an encoder loses them.
    """
    from executorch.exir.passes.sym_shape_eval_pass import ConstraintBasedSymShapeEvalPass
    from sympy import Symbol
    from torch.utils._sympy.value_ranges import ValueRanges

    class Planned(ConstraintBasedSymShapeEvalPass):
        """The pass with the ranges of the inputs' lengths."""

        def call(self, graph_module: Any) -> Any:
            """The pass."""
            for node in graph_module.graph.nodes:
                # arguments stand in the graph as arguments_0, arguments_1, ...
                place = node.name.removeprefix(ARGUMENT) if node.op == "placeholder" else ""
                name = function.inputs[int(place)] if place.isdigit() else ""
                for axis, length in function.dynamic.get(name, {}).items():
                    size = node.meta["val"].shape[axis]
                    # A size that is an int or an expression of another has no range of its own.
                    if not isinstance(size, int) and isinstance(size.node.expr, Symbol):
                        size.node.shape_env.var_to_range[size.node.expr] = ValueRanges(
                            SHORTEST, function.longest[length]
                        )
            return super().call(graph_module)

    return Planned()


class PteProgram:
    """One .pte file. The runtime, the program and its method live as long as this object.

    Raises InputError for a file that ExecuTorch does not read.
    """

    def __init__(self, path: Path, inputs: Iterable[str], outputs: Iterable[str]) -> None:
        from executorch.runtime import Runtime

        self.path = path
        self.inputs = tuple(sorted(inputs))
        self.names = tuple(sorted(outputs))
        # the program reads its weights from here
        self.bytes = path.read_bytes()
        try:
            self.program = Runtime.get().load_program(self.bytes)
            self.method = self.program.load_method(METHOD)
        except (RuntimeError, ValueError) as problem:
            raise InputError(
                f"{path} is not read by {TARGET}: {str(problem).splitlines()[0][:160]}"
            ) from None
        if self.method is None:
            raise InputError(f"{path} has no method {METHOD!r}")

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Named inputs to named outputs, which are copied: the next call writes over them.
        RuntimeError beyond the longest utterance.
        """
        import torch

        outputs: Any = self.method.execute(
            # A copy in C order, the one memory order that a file takes.
            [torch.from_numpy(np.array(inputs[name], order="C")) for name in self.inputs]
        )
        return {name: value.numpy().copy() for name, value in zip(self.names, outputs, strict=True)}


open_file = PteProgram


def counts_of(program: PteProgram) -> dict[str, int]:
    """The methods of the file: what XNNPACK computes is stored as its own bytes."""
    return dict.fromkeys(sorted(program.program.method_names), 1)


def encoder_graph(function: "nn.Module") -> "nn.Module":
    """The function with LSTMs as loops and GELU written out."""
    from kokoro_ane.runtimes.executorch.plain_graph import make_plain

    return make_plain(function)


def vocoder_network(vocoder: "Vocoder") -> "nn.Module":
    """The vocoder with norms and long sums written out."""
    from kokoro_ane.runtimes.executorch.plain_graph import make_plain_vocoder
    from kokoro_ane.runtimes.exported import bake_taps

    return make_plain_vocoder(bake_taps(vocoder))
