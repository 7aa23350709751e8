"""A function that is to run outside Core ML: PyTorch module, example, names, and the axes that grow
with the utterance.

    function = PortableFunction(
        module, example, inputs=("features", "style"), outputs=("waveform",),
        dynamic={"features": {3: "columns"}}, longest={"columns": 1201},
    )
    # runtimes/onnx/onnx_file.py; runtimes/executorch/pte_file.py for ExecuTorch
    onnx_file.write(function, path)

Every program that is written from it takes and returns NumPy arrays by name, at any length: no
buckets, no padding, no mask of 0.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor, nn

PRECISION = "fp32"  # of every exported function
# the least value of a length that grows
SHORTEST = 3
# the name of an argument of order_by_name's module in a graph, before its number
ARGUMENT = "arguments_"


@dataclass(frozen=True, eq=False)
class PortableFunction:
    """A module and what an exporter has to know of it.

    dynamic: of every input and output that grows, axis -> name of the length; equal names are equal
        lengths.
    longest: the largest value of each length, for runtimes that plan their memory.
    """

    module: "nn.Module"
    example: "tuple[Tensor, ...]"
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dynamic: Mapping[str, Mapping[int, str]]
    longest: Mapping[str, int]


class PortableProgram(Protocol):
    """One function, opened."""

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Named inputs to named outputs."""


def order_by_name(function: PortableFunction) -> PortableFunction:
    """The same function with inputs and outputs in the order of their names, for files that know
    positions only.
    """
    from torch import Tensor, nn

    class ByName(nn.Module):
        """Sorted names in, sorted names out."""

        def __init__(self) -> None:
            super().__init__()
            self.module = function.module

        def forward(self, *arguments: Tensor) -> tuple[Tensor, ...]:
            """Values of sorted(inputs) to values of sorted(outputs)."""
            # `inputs` and `outputs` are set below, before anything calls this.
            tensors = dict(zip(inputs, arguments, strict=True))
            values = self.module(*(tensors[name] for name in function.inputs))
            values = values if isinstance(values, tuple) else (values,)
            tensors = dict(zip(function.outputs, values, strict=True))
            return tuple(tensors[name] for name in outputs)

    example = dict(zip(function.inputs, function.example, strict=True))
    inputs, outputs = tuple(sorted(function.inputs)), tuple(sorted(function.outputs))
    return replace(
        function,
        module=ByName(),
        example=tuple(example[name] for name in inputs),
        inputs=inputs,
        outputs=outputs,
    )


def export_program(function: PortableFunction) -> Any:
    """The function as a program of torch.export, for any length up to its longest."""
    import torch

    axes = {
        name: torch.export.Dim(name, min=SHORTEST, max=longest)
        for name, longest in function.longest.items()
    }
    # A tuple within a tuple: the module takes *arguments, which count as one parameter.
    shapes = (
        tuple(
            {axis: axes[length] for axis, length in function.dynamic.get(name, {}).items()}
            for name in function.inputs
        ),
    )
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        # strict=False traces by running, which takes modules as they are.
        return torch.export.export(
            function.module.eval(), function.example, dynamic_shapes=shapes, strict=False
        )
