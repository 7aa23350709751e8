"""Two passes over a program before its weights are compressed: int8 inputs, and constant factors
that move into the scales of those inputs.

    passes = [*input_pass(plan, ranges), ScalesIntoQuantize()]

Importing this imports coremltools.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import Operation, Program
from coremltools.converters.mil.mil.passes.graph_pass import AbstractGraphPass
from coremltools.converters.mil.mil.passes.helper import block_context_manager
from coremltools.optimize.coreml import OpLinearQuantizerConfig, OptimizationConfig
from coremltools.optimize.coreml._quantization_passes import insert_prefix_quantize_dequantize_pair

from kokoro_ane.quantize.layer_plan import LayerPlan

CHANNELS = 1  # axis


class InputPass(insert_prefix_quantize_dequantize_pair):
    """coremltools' pass for transposed convolutions too. It works for them as it is; only the list
    of types leaves them out.
    """

    SUPPORTED_OP_TYPES = [
        *insert_prefix_quantize_dequantize_pair.SUPPORTED_OP_TYPES,
        "conv_transpose",
    ]


def input_pass(plan: tuple[LayerPlan, ...], ranges: Mapping[str, float]) -> list[Any]:
    """The pass that puts quantize and dequantize before each planned convolution; no pass where no
    input is int8.
    """
    chosen = {entry.layer.op_name for entry in plan if entry.int8_input}
    if not chosen:
        return []
    symmetric = OpLinearQuantizerConfig(mode="linear_symmetric", dtype="int8")
    prefix = InputPass(
        OptimizationConfig(global_config=None, op_name_configs=dict.fromkeys(chosen, symmetric))
    )
    prefix.activation_stats = {name: {"rmin": -size, "rmax": size} for name, size in ranges.items()}
    return [prefix]


class ScalesIntoQuantize(AbstractGraphPass):
    """A pass that removes the multiplication by a constant [1, C, 1, 1] before a quantize, where
    nothing else reads the product: the quantize gets a scale for each channel instead.
    """

    def apply(self, prog: Program) -> None:
        """Change the program in place."""
        for function in prog.functions.values():
            _in_block(function)


@block_context_manager
def _in_block(block: Any) -> None:
    for op in list(block.operations):
        product = op.input.op if op.op_type == "quantize" else None
        if product is None or product.op_type != "mul" or len(op.input.child_ops) != 1:
            continue
        # either argument of the product can be the constant
        x, factor = (product.x, product.y) if product.y.val is not None else (product.y, product.x)
        if (
            factor.val is None
            or factor.val.ndim != 4
            or factor.val.size != factor.val.shape[CHANNELS]
        ):
            continue
        _replaced(block, op, product, x, factor.val.flatten())


def _replaced(block: Any, op: Operation, product: Operation, x: Any, factor: np.ndarray) -> None:
    scale = (np.float64(op.scale.val) / factor.astype(np.float64)).astype(op.scale.val.dtype)  # [C]
    settled = mb.quantize(
        input=x,
        scale=scale,
        axis=np.int32(CHANNELS),
        output_dtype="int8",
        before_op=op,
        name=op.name,
    )
    block.replace_uses_of_var_after_op(anchor_op=op, old_var=op.outputs[0], new_var=settled)
    block.remove_ops([op, product])
