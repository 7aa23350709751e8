"""PyTorch module to .pte for ExecuTorch's XNNPACK kernels in float32, any length up to a longest one, and its Python runtime.

    write(function, Path("aside.pte"))
    waveform = open_program(Path("x.pte"), ("waveform",))({"features": features, "style": style})["waveform"]

Written by the vocoder alone: torch.export unrolls an LSTM to one length, so the encoder stays with PyTorch (docs/runtimes.md).
"""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from core.errors import InputError

if TYPE_CHECKING:
    from core.facts import ProgramFacts
    from core.portable import Arrays, PortableFunction

NAME, SUFFIX = "executorch", ".pte"
TARGET = "ExecuTorch 1.5, XNNPACK"
TOOLS: tuple[str, ...] = ("torch", "executorch", "numpy")
FUSED_NORMS = False  # its passes stop at the channels-last layout of vocoder/eager.py
METHOD, SHORTEST = "forward", 4


def write(function: "PortableFunction", path: Path) -> None:
    """Export, hand everything that it takes to XNNPACK, save. Memory is planned for the longest utterance."""
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower
    from executorch.exir.passes.sym_shape_eval_pass import ConstraintBasedSymShapeEvalPass

    axes = {name: torch.export.Dim(name, min=SHORTEST, max=longest) for name, longest in function.longest.items()}
    shapes = tuple({axis: axes[length] for axis, length in function.dynamic.get(name, {}).items()} for name in function.inputs)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        exported = torch.export.export(function.module.eval(), function.example, dynamic_shapes=shapes, strict=False)
        config = EdgeCompileConfig(_check_ir_validity=False)
        edge = to_edge_transform_and_lower({METHOD: exported}, partitioner=[XnnpackPartitioner()], compile_config=config)
        # by the ranges: by the example's size a longer utterance would be refused
        plan = ExecutorchBackendConfig(sym_shape_eval_pass=ConstraintBasedSymShapeEvalPass())
        path.write_bytes(edge.to_executorch(plan).buffer)


class PteProgram:
    """One .pte file. The runtime, the program and its method live as long as this object."""

    def __init__(self, path: Path, outputs: tuple[str, ...]) -> None:
        from executorch.runtime import Runtime

        self.path, self.names = path, outputs
        self.bytes = path.read_bytes()  # the program reads its weights from here
        try:
            self.program = Runtime.get().load_program(self.bytes)
            self.method = self.program.load_method(METHOD)
        except (RuntimeError, ValueError) as problem:
            raise InputError(f"{path} is not read by {TARGET}: {str(problem).splitlines()[0][:160]}") from None
        if self.method is None:
            raise InputError(f"{path} has no method {METHOD!r}")

    def __call__(self, inputs: "Arrays") -> dict[str, np.ndarray]:
        """Inputs by position; the outputs are copied, since the next call writes over them."""
        import torch

        tensors = [torch.empty(value.shape, dtype=torch.float32).copy_(torch.from_numpy(value)) for value in inputs.values()]
        found: Any = self.method.execute(tensors)
        return {name: value.numpy().copy() for name, value in zip(self.names, found, strict=True)}


def open_program(path: Path, outputs: tuple[str, ...]) -> PteProgram:
    """See core.portable.PortableFormat."""
    return PteProgram(path, outputs)


def facts(program: PteProgram) -> "ProgramFacts":
    """Its methods: what XNNPACK was handed is bytes of its own."""
    from core.facts import ProgramFacts

    return ProgramFacts(dict.fromkeys(sorted(program.program.method_names), 1), {}, 0, 0, 0)
