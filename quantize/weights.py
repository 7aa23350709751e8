"""Weight compression of a saved package by coremltools, and the count that proves that no layer was skipped.

    model = compressed(Path("build/KokoroVocoder-demo-fp16.mlpackage"), LinearWeights(bits=8))
    coverage = Coverage.of(Program(parent), Program(child), keep_up_to=2048)
"""

import math
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlprogram import Program
from pipeline.errors import CheckFailed
from pipeline.export import quiet_coremltools
from quantize.methods import LinearWeights

if TYPE_CHECKING:
    import coremltools as ct

CONVOLUTIONS = ("conv", "conv_transpose", "linear", "matmul")


def compressed(package: Path, weights: LinearWeights) -> "ct.models.MLModel":
    """The model of `package` with symmetric int8 weights, one scale per output channel. Nothing is loaded for prediction."""
    with quiet_coremltools():
        import coremltools as ct
        from coremltools.optimize.coreml import OpLinearQuantizerConfig, OptimizationConfig, linear_quantize_weights

        config = OpLinearQuantizerConfig(
            mode="linear_symmetric", dtype=f"int{weights.bits}", granularity="per_channel", weight_threshold=weights.keep_up_to
        )
        with tempfile.TemporaryDirectory() as folder:  # MLModel(path) writes the Manifest.json of the package it opens anew
            copy = shutil.copytree(package, Path(folder) / package.name)
            model = ct.models.MLModel(str(copy), skip_model_load=True)
            return linear_quantize_weights(model, OptimizationConfig(global_config=config))


@dataclass(frozen=True)
class Coverage:
    """Responsibilities: 1. count what was compressed; 2. refuse a package in which a layer that should be compressed is not."""

    compressed_ops: int
    kept_small_ops: int
    skipped: tuple[str, ...]  # convolution weights above the size limit that stayed in float

    @classmethod
    def of(cls, parent: Program, child: Program, keep_up_to: int) -> "Coverage":
        """Compare the weights of the parent's convolutions with what feeds the same convolutions in the child."""
        sizes = {name: math.prod(shape) for name, shape in _weights(parent).items()}
        stored = {op.outputs[0].name: op.op_type for op in child.operations if op.outputs}
        large = [name for name, size in sizes.items() if size > keep_up_to]
        skipped = tuple(name for name in large if _storage(child, name, stored) == "const")
        count = sum(op.op_type.startswith("constexpr_") for op in child.operations)
        return cls(count, len(sizes) - len(large), skipped)

    def require(self) -> None:
        """Raise CheckFailed when a layer was skipped or nothing was compressed."""
        if self.skipped:
            first = f"{len(self.skipped)} convolutions kept their float weights, the first is {self.skipped[0]}"
            raise CheckFailed(f"{first}; the package was not kept")
        if not self.compressed_ops:
            raise CheckFailed("no weight was compressed; the package was not kept")


def _weights(program: Program) -> dict[str, tuple[int, ...]]:
    """Name of each convolution and the shape of its constant weight."""
    shapes = {op.outputs[0].name: op.outputs[0].shape for op in program.operations if op.op_type == "const"}
    convolutions = (op for op in program.operations if op.op_type in CONVOLUTIONS)
    return {op.name: shapes[op.inputs["weight"][0]] for op in convolutions if op.inputs["weight"][0] in shapes}


def _storage(child: Program, convolution: str, stored: dict[str, str]) -> str:
    """The kind of operation that holds a convolution's weight."""
    found = [op for op in child.operations if op.name == convolution]
    if not found:
        raise CheckFailed(f"convolution {convolution} is not in the compressed package; the package was not kept")
    return stored[found[0].inputs["weight"][0]]
