"""The proof that a package is what its plan says: every weight's storage and every convolution's input, read off the saved package.

coverage = Coverage.of(plan, layers, Program(package))
coverage.require()
"""

from dataclasses import asdict, dataclass
from typing import Any

from core.errors import CheckFailed
from mlprogram import Program
from quantize.layers import CONVOLUTIONS, Layer
from quantize.methods import BlockWeights, LinearWeights, PaletteWeights
from quantize.plan import LayerPlan, int8_share

_INTEGERS = ("constexpr_affine_dequantize", "constexpr_blockwise_shift_scale")  # before iOS 18, from iOS 18 on
STORAGE = {type(None): ("const",), LinearWeights: _INTEGERS, BlockWeights: _INTEGERS[1:], PaletteWeights: ("constexpr_lut_to_dense",)}


@dataclass(frozen=True)
class Coverage:
    """Responsibilities: 1. count what was compressed; 2. refuse a package that differs from its plan anywhere."""

    compressed_ops: int
    kept_ops: int  # convolutions whose weights stay in float by plan
    int8_inputs: int
    int8_macs_share: float
    skipped: tuple[str, ...]  # layers whose weights are stored otherwise than planned
    misplaced: tuple[str, ...]  # layers whose input is quantized against the plan, or not quantized though planned

    @classmethod
    def of(cls, plan: tuple[LayerPlan, ...], layers: tuple[Layer, ...], child: Program) -> "Coverage":
        """Hold the package against the plan."""
        convolutions = {op.name: op for op in child.operations if op.op_type in CONVOLUTIONS}
        kinds = {value.name: op.op_type for op in child.operations for value in op.outputs}
        lost = [entry.layer.name for entry in plan if entry.layer.op_name not in convolutions]
        if lost:
            raise CheckFailed(f"convolution {lost[0]} is not in the compressed package; the package was not kept")
        stored = {entry.layer.name: kinds.get(convolutions[entry.layer.op_name].inputs["weight"][0], "const") for entry in plan}
        read = {entry.layer.name: kinds.get(convolutions[entry.layer.op_name].inputs["x"][0], "input") for entry in plan}
        return cls(
            compressed_ops=sum(kind.startswith("constexpr_") for kind in stored.values()),
            kept_ops=sum(entry.weights is None for entry in plan),
            int8_inputs=sum(kind == "dequantize" for kind in read.values()),
            int8_macs_share=round(int8_share(plan, layers), 5),
            skipped=tuple(e.layer.name for e in plan if stored[e.layer.name] not in STORAGE[type(e.weights)]),
            misplaced=tuple(e.layer.name for e in plan if (read[e.layer.name] == "dequantize") != e.int8_input),
        )

    def require(self) -> None:
        """Raise CheckFailed when the package differs from the plan or nothing was compressed."""
        for names, what in ((self.skipped, "weights are not stored as planned"), (self.misplaced, "inputs are not as planned")):
            if names:
                raise CheckFailed(f"{len(names)} convolutions: {what}, the first is {names[0]}; the package was not kept")
        if not self.compressed_ops:
            raise CheckFailed("no weight was compressed; the package was not kept")

    def as_dict(self) -> dict[str, Any]:
        """For the manifest."""
        return asdict(self)
