"""What an .onnx graph is made of, its loops' bodies included: operations, and the share of multiply-accumulates done on integers.

model = onnx.load("build/KokoroVocoder-kokoro-int8-onnx-w8a8.onnx")
operations(model)["ConvInteger"], int8_macs_share(model)
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import onnx

INTEGER = ("ConvInteger",)
PRODUCTS = ("Conv", "ConvTranspose", *INTEGER)
UNPACKING = ("DequantizeLinear", "Mul")  # between a stored weight and its product
COLUMNS, DIGITS = 41, 5  # a second of features: the share is the same at any length, but for single columns


def operations(model: "onnx.ModelProto") -> dict[str, int]:
    """How often each stands there; constants left out."""
    counts = Counter(node.op_type for graph in (model.graph, *_bodies(model.graph)) for node in graph.node if node.op_type != "Constant")
    return dict(sorted(counts.items()))


def _bodies(graph: "onnx.GraphProto") -> "Iterator[onnx.GraphProto]":
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield attribute.g
                yield from _bodies(attribute.g)


def int8_macs_share(model: "onnx.ModelProto") -> float:
    """Of the convolutions', transposed ones included. Inputs are float32; a length that is open is COLUMNS."""
    weights = {tensor.name: int(np.prod(tensor.dims)) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type in UNPACKING and node.input[0] in weights:
            weights[node.output[0]] = weights[node.input[0]]
    total = whole = 0
    for node, columns in _columns(model):
        macs = weights.get(node.input[1], 0) * columns
        total, whole = total + macs, whole + macs * (node.op_type in INTEGER)
    return round(whole / max(total, 1), DIGITS)


def _columns(model: "onnx.ModelProto") -> "list[tuple[onnx.NodeProto, int]]":
    """How often each product's weights are multiplied: by columns of its result, a transposed one's by those of its input."""
    import onnx
    import onnxruntime

    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    products = list(_products(copied.graph))
    del copied.graph.output[:]
    copied.graph.output.extend(onnx.helper.make_empty_tensor_value_info(result) for _, result in products)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # of outputs without a shape
    session = onnxruntime.InferenceSession(copied.SerializeToString(), options, providers=["CPUExecutionProvider"])
    shapes = {entry.name: [size if isinstance(size, int) else COLUMNS for size in entry.shape] for entry in session.get_inputs()}
    found = session.run(None, {name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    return [(node, result.shape[-1] // _stride(node)) for (node, _), result in zip(products, found, strict=True)]


def _products(graph: "onnx.GraphProto") -> "Iterator[tuple[onnx.NodeProto, str]]":
    """Each with the name of a value as long as its result: in a loop over blocks, of the blocks joined."""
    joined = {node.input[0]: node.output[0] for node in graph.node if node.op_type == "ConcatFromSequence"}
    for node in graph.node:
        if node.op_type in PRODUCTS:
            yield node, node.output[0]
        bodies = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
        yield from ((inner, joined[node.output[0]]) for body in bodies for inner in body.node if inner.op_type in PRODUCTS)


def _stride(node: "onnx.NodeProto") -> int:
    """Of a transposed convolution; 1 for others."""
    found = [list(entry.ints)[-1] for entry in node.attribute if entry.name == "strides"]
    return int(found[0]) if found and node.op_type == "ConvTranspose" else 1
