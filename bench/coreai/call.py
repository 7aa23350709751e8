"""What a lowering is given of one operation: its tensors, its attributes as Python values, and the kernels.

def leaky_relu(call: Call) -> Tensor:
    return F.leaky_relu(call.tensor("x"), call.number("alpha"))
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.coreai.graph import Operation
from bench.coreai.kernels import Kernels


@dataclass(frozen=True, eq=False)
class Call:
    """One operation in a run. `values`: computed so far; `constants`: by name; `dense`: a constant or a compressed weight as a tensor."""

    op: Operation
    values: Mapping[str, Tensor]
    constants: Mapping[str, Any]
    dense: Callable[[str], Tensor]
    kernels: Kernels
    half: torch.dtype = torch.float16  # what the program's fp16 is computed in

    def has(self, name: str) -> bool:
        """Whether the parameter is given."""
        return name in self.op.inputs

    def tensor(self, name: str) -> Tensor:
        """A parameter that must be a tensor."""
        source = self.op.inputs[name]
        assert isinstance(source, str)  # only `values` of concat and the like takes several
        return self._tensor(source)

    def optional(self, name: str) -> Tensor | None:
        """The same, None where it is not given."""
        return self.tensor(name) if self.has(name) else None

    def tensors(self, name: str) -> list[Tensor]:
        """A parameter of several tensors."""
        return [self._tensor(source) for source in self.op.inputs[name]]

    def operand(self, name: str) -> Tensor | float | int | bool:
        """A tensor, or a number where the program has a constant of rank 0: it takes the type of what it meets."""
        source = self.op.inputs[name]
        if isinstance(source, str) and source in self.constants and np.ndim(self.constants[source]) == 0:
            return np.asarray(self.constants[source]).item()
        return self.tensor(name)

    def attribute(self, name: str, default: Any = None) -> Any:
        """A constant as a Python value: number, string, bool, or a list of them."""
        if not self.has(name):
            return default
        value = self.constants[self.op.inputs[name]]  # type: ignore[index]  # a str: what takes several is never an attribute
        return value if isinstance(value, str) else np.asarray(value).tolist()

    def refuse(self, why: str) -> NotImplementedError:
        """To raise: what of this operation is not bridged."""
        return NotImplementedError(f"{self.op.op_type} '{self.op.name}': {why} is not bridged")

    def _tensor(self, source: str) -> Tensor:
        return self.values[source] if source in self.values else self.dense(source)


Lowering = Callable[[Call], "Tensor | tuple[Tensor, ...]"]
