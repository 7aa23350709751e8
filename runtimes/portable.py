"""What a stage says of a function that is to run outside Core ML: PyTorch module, example, names,
axes that grow with the utterance.

    function = PortableFunction(module, example, inputs=("features", "style"), outputs=("waveform",), dynamic={"features": {3: "columns"}},
                                longest={"columns": 1201})
    # runtimes/onnx/onnx_file.py; runtimes/executorch/pte_file.py for ExecuTorch
    onnx_file.write(function, path)

Every program made of it takes and gives NumPy arrays by name, at any length: no buckets, no
padding, no mask of 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor, nn

PRECISION = "fp32"  # of what is exported


@dataclass(frozen=True, eq=False)
class PortableFunction:
    """What is exported. `dynamic`: of every input and output that grows, axis -> name of the
    length; equal names are equal lengths.

    `longest`: of the inputs' lengths, for runtimes that plan their memory.
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
