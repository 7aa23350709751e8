"""What one operation costs: multiply-accumulates, floating-point operations, and the elements it must read.

    count_macs("conv", inputs={"x": (1, 8, 1, 100), "weight": (16, 8, 1, 3)}, outputs=((1, 16, 1, 98),), attributes={})

Multiply-accumulates (MACs) are counted for convolutions, matrix products, attention and recurrent layers. One MAC is two FLOPs; beside
them one FLOP for each output element of an elementwise operation or activation, one for each input element of a reduction, and five for
each element of a normalization or softmax. Moving data costs no FLOP. A transposed convolution counts its full output, before the crop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mlprogram.ops import FAMILIES

Shape = tuple[int, ...]
VIEWS = frozenset({"reshape", "expand_dims", "squeeze", "identity", "flatten2d", "reshape_like"})  # the same bytes under another shape
PARTIAL_READS = frozenset({*FAMILIES["slices"], *FAMILIES["indices"], "crop"})  # read what they write, not the whole input
ELEMENTWISE = frozenset({*FAMILIES["elementwise"], *FAMILIES["activations"]}) - {"softmax", "identity"}
_HEAVY = frozenset({*FAMILIES["normalizations"], "softmax"})
_REDUCTIONS = frozenset({*FAMILIES["reductions"], *FAMILIES["pooling"]})
_HEAVY_FLOPS = 5  # mean, difference, square, mean, scale


def count_macs(op_type: str, inputs: Mapping[str, Shape], outputs: tuple[Shape, ...], attributes: Mapping[str, Any]) -> int:
    """MACs of one execution; 0 for every operation that is not a product of tensors."""
    if op_type == "conv":
        return math.prod(outputs[0]) * math.prod(inputs["weight"][1:])
    if op_type == "conv_transpose":
        return math.prod(inputs["x"]) * math.prod(inputs["weight"][1:])
    if op_type == "linear":
        return math.prod(outputs[0]) * inputs["weight"][-1]
    if op_type == "matmul":
        rows = -2 if attributes.get("transpose_x") and len(inputs["x"]) > 1 else -1
        return math.prod(outputs[0]) * inputs["x"][rows]
    if op_type == "einsum":
        return _einsum_macs(attributes["equation"], [inputs[key] for key in sorted(inputs)])
    if op_type == "scaled_dot_product_attention":
        *batch, length, width = inputs["query"]
        keys, out_width = inputs["value"][-2:]
        return math.prod(batch) * length * keys * (width + out_width)
    if op_type in ("lstm", "gru", "rnn"):
        weights = sum(math.prod(shape) for name, shape in inputs.items() if name.startswith("weight"))
        return inputs["x"][0] * inputs["x"][1] * weights  # x [steps, batch, features]
    return 0


def _einsum_macs(equation: str, shapes: list[Shape]) -> int:
    sizes: dict[str, int] = {}
    for term, shape in zip(equation.replace(" ", "").split("->")[0].split(","), shapes, strict=True):
        for letter, size in zip(term, shape, strict=True):
            sizes[letter] = max(size, sizes.get(letter, 1))
    return math.prod(sizes.values())


def count_flops(op_type: str, macs: int, inputs: Mapping[str, Shape], outputs: tuple[Shape, ...]) -> int:
    """FLOPs of one execution, as the module says."""
    if macs:
        return 2 * macs
    written = sum(math.prod(shape) for shape in outputs)
    if op_type in _HEAVY:
        return _HEAVY_FLOPS * written
    if op_type in _REDUCTIONS:
        return max((math.prod(shape) for shape in inputs.values()), default=0)
    return written if op_type in ELEMENTWISE and op_type != "cast" else 0
