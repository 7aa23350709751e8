"""A function of an ML program as a PyTorch module, operation by operation, to be run as it is or exported for Core AI.

    bridge = Bridge(read_graph(package, "main"), PlainKernels())
    waveform = bridge(features, style)[0]
    bridge = Bridge(graph, kernels, watched=("input_91_cast_fp16",))   # that value comes behind the outputs

A constant of rank 0 is a number in the graph, every other one a buffer.
"""

from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn

from bench.coreai.call import Call, Lowering
from bench.coreai.graph import Graph
from bench.coreai.kernels import Kernels
from bench.coreai.operations_elementwise import ELEMENTWISE
from bench.coreai.operations_layers import LAYERS
from bench.coreai.operations_layout import LAYOUT
from bench.coreai.weights import compressed, tensor_of

LOWERINGS: Mapping[str, Lowering] = MappingProxyType({**ELEMENTWISE, **LAYOUT, **LAYERS})


class Bridge(nn.Module):
    """Responsibilities: 1. hold the program's constants; 2. run its operations in order.

    Raises NotImplementedError for an operation that is not bridged, before anything runs.
    """

    def __init__(
        self,
        graph: Graph,
        kernels: Kernels,
        watched: tuple[str, ...] = (),
        lowerings: Mapping[str, Lowering] = LOWERINGS,
        half: torch.dtype = torch.float16,
    ) -> None:
        """`half`: what the program's fp16 values are computed in; constants are decompressed in fp16 first."""
        super().__init__()
        self.graph, self.kernels, self.lowerings, self.half = graph, kernels, lowerings, half
        self.wanted = (*graph.outputs, *watched)
        self.weights = nn.ModuleDict()
        self._weight_of: dict[str, str] = {}
        self._buffer_of: dict[str, str] = {}
        for op in graph.operations:
            weight = compressed(op, graph.constants)
            if weight is not None:
                self._weight_of[op.outputs[0]] = f"weight_{len(self._weight_of)}"
                self.weights[self._weight_of[op.outputs[0]]] = weight
            elif op.op_type not in lowerings:
                raise NotImplementedError(f"{op.op_type} '{op.name}' is not bridged; bridged: {', '.join(sorted(lowerings))}")
        self._keep_constants()

    def _keep_constants(self) -> None:
        read = {name for op in self.graph.operations if not op.op_type.startswith("constexpr_") for name in _sources(op.inputs.values())}
        for name, value in self.graph.constants.items():
            if name in read and not isinstance(value, str):
                self._buffer_of[name] = f"constant_{len(self._buffer_of)}"
                self.register_buffer(self._buffer_of[name], tensor_of(value))

    def dense(self, name: str) -> Tensor:
        """A constant by the program's name for it, decompressed."""
        if name in self._weight_of:
            value = self.weights[self._weight_of[name]](self.kernels)
        else:
            value = self.get_buffer(self._buffer_of[name])
        return value.to(self.half) if value.dtype == torch.float16 else value

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The function's outputs, then what is watched, in the program's types."""
        values = dict(zip(self.graph.inputs, inputs, strict=True))
        for op in self.graph.operations:
            if op.outputs[0] in self._weight_of:
                continue
            result = self.lowerings[op.op_type](Call(op, values, self.graph.constants, self.dense, self.kernels, self.half))
            results = (result,) if isinstance(result, torch.Tensor) else result
            values.update(zip(op.outputs, results, strict=False))  # an output nobody reads may have no name
        return tuple(values[name] for name in self.wanted)


def _sources(inputs: object) -> set[str]:
    return {name for given in inputs for name in ((given,) if isinstance(given, str) else given)}  # type: ignore[attr-defined]
