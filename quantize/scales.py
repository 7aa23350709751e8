"""Balanced channels for nothing: the multiplication before a quantized convolution goes into the scales of its `quantize`.

passes = [*input_pass(plan, peaks), ScalesIntoQuantize(), *weight_passes]

quantize(x * m, scale=s) = quantize(x, scale=s / m) along the channels. The engine variant's Snakes are followed by such a multiplication
where inputs are to be int8 (vocoder/windowed/layers.py, SnakeConv). `dequantize` keeps its one scale, which an integer convolution takes.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil.passes.graph_pass import AbstractGraphPass
from coremltools.converters.mil.mil.passes.helper import block_context_manager

if TYPE_CHECKING:
    from coremltools.converters.mil.mil import Operation, Program

CHANNELS = 1  # axis


class ScalesIntoQuantize(AbstractGraphPass):
    """Every quantize that reads the product of a tensor and a constant [1, C, 1, 1], read by nothing else."""

    def apply(self, prog: "Program") -> None:
        """Change the program in place."""
        for function in prog.functions.values():
            _in_block(function)


@block_context_manager
def _in_block(block: Any) -> None:
    for op in list(block.operations):
        product = op.input.op if op.op_type == "quantize" else None
        if product is None or product.op_type != "mul" or len(op.input.child_ops) != 1:
            continue
        x, factor = (product.x, product.y) if product.y.val is not None else (product.y, product.x)
        if factor.val is None or factor.val.ndim != 4 or factor.val.size != factor.val.shape[CHANNELS]:
            continue
        _replaced(block, op, product, x, factor.val.flatten())


def _replaced(block: Any, op: "Operation", product: "Operation", x: Any, factor: np.ndarray) -> None:
    scale = (np.float64(op.scale.val) / factor.astype(np.float64)).astype(op.scale.val.dtype)  # [C]
    settled = mb.quantize(input=x, scale=scale, axis=np.int32(CHANNELS), output_dtype="int8", before_op=op, name=op.name)
    block.replace_uses_of_var_after_op(anchor_op=op, old_var=op.outputs[0], new_var=settled)
    block.remove_ops([op, product])
