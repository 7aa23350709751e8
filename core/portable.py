"""What a stage says of a function that is to run outside Core ML: PyTorch module, example, names, axes that grow with the utterance.

    function = PortableFunction(module, example, inputs=("features", "style"), outputs=("waveform",), dynamic={"features": {3: "columns"}})
    onnx_file.write(function, path)          # core/onnx_file.py

Every program made of it takes and gives NumPy arrays by name, at any length: no buckets, no padding, no mask of 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor, nn

    from core.facts import ProgramFacts

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class PortableFunction:
    """`dynamic`: of every input and output that grows, axis -> name of the length; equal names are equal lengths."""

    module: "nn.Module"
    example: "tuple[Tensor, ...]"
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dynamic: Mapping[str, Mapping[int, str]]


class PortableProgram(Protocol):
    """One function, opened."""

    def __call__(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Named inputs to named outputs."""


class PortableFormat(Protocol):
    """A kind of file. Each is a module of core with these; so far .onnx."""

    NAME: str  # as the runtime is called
    SUFFIX: str
    TARGET: str  # what the file asks of its reader; stands in the manifest
    TOOLS: tuple[str, ...]  # distributions that shape the bytes

    def write(self, function: PortableFunction, path: Any) -> None:
        """Export."""

    def open_program(self, path: Any, outputs: tuple[str, ...]) -> PortableProgram:
        """Open. Raises InputError for a file that the installed runtime does not read."""

    def facts(self, program: Any) -> "ProgramFacts":
        """Operations of the graph, counted."""
