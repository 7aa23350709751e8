"""Integer convolutions of an .onnx graph in blocks of time: ONNX Runtime lays out every column's kernel before it multiplies, and that
of a whole sentence (k times its bytes) leaves the cache.

    in_blocks(model, "eager.generator.stages.1.0.first.0.conv")

ConvInteger, DequantizeLinear, the product with the envelope and the sum with the bias become a Loop over BLOCK columns. Same bits.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from core.errors import CheckFailed

if TYPE_CHECKING:
    import onnx

BLOCK = 512  # columns: of 128 channels and a kernel of 11 they take 0.7 MB
AXIS = 3
CHAIN = ["ConvInteger", "DequantizeLinear", "Mul", "Add"]  # the last where there is a bias


def in_blocks(model: "onnx.ModelProto", module: str) -> None:
    """Change the model in place. `module`: the IntegerConv's path, of stride 1 and with an envelope; CheckFailed if it is not there."""
    chain, graph, name = _chain(model, module), model.graph, module.replace(".", "_")
    first, product, last = chain[0], chain[2], chain[-1]
    (pads,) = (entry for entry in first.attribute if entry.name == "pads")
    reach, at = list(pads.ints)[-1], list(graph.node).index(first)
    graph.initializer.extend(_constants(name, reach))
    outside = [*_before(name, first.input[0], first.input[2]), _loop(name, product.input[1], chain)]
    outside.append(_node("ConcatFromSequence", [f"{name}_blocks"], [last.output[0]], axis=AXIS))
    for node in chain:
        graph.node.remove(node)
    for node in reversed(outside):
        graph.node.insert(at, node)


def _chain(model: "onnx.ModelProto", module: str) -> "list[onnx.NodeProto]":
    """ConvInteger, DequantizeLinear, Mul and, where there is a bias, Add."""
    wanted = f"{module}.ConvInteger"
    found = [node for node in model.graph.node if node.op_type == "ConvInteger" and node.name.replace("/", ".").strip(".") == wanted]
    while found and found[-1].op_type != "Add":
        readers = [node for node in model.graph.node if found[-1].output[0] in node.input]
        if len(readers) != 1 or not readers[0].name.replace("/", ".").strip(".").startswith(f"{module}."):
            break
        found.append(readers[0])
    if [node.op_type for node in found] not in (CHAIN, CHAIN[:-1]):
        raise CheckFailed(
            f"{module} is no convolution of integers with an envelope: {', '.join(node.op_type for node in found) or 'nothing'}"
        )
    return found


def _before(name: str, source: str, zero: str) -> "list[onnx.NodeProto]":
    """The input with what the kernel reaches beyond it, and how many blocks there are."""
    return [
        _node("Pad", [source, f"{name}_pads", zero], [f"{name}_wide"]),
        _node("Shape", [source], [f"{name}_shape"], start=AXIS),
        _node("Squeeze", [f"{name}_shape"], [f"{name}_columns"]),
        _node("Add", [f"{name}_columns", f"{name}_rest"], [f"{name}_more"]),
        _node("Div", [f"{name}_more", f"{name}_size"], [f"{name}_count"]),
        _node("SequenceEmpty", [], [f"{name}_none"], dtype=1),  # of float32
    ]


def _loop(name: str, level: str, chain: "list[onnx.NodeProto]") -> "onnx.NodeProto":
    """Over blocks: its columns of the input and of the envelope, the chain, the result behind those of the blocks before."""
    from onnx import TensorProto, helper

    inner = [type(node)() for node in chain]
    for new, node in zip(inner, chain, strict=True):
        new.CopyFrom(node)
    inner[0].attribute.remove(next(entry for entry in inner[0].attribute if entry.name == "pads"))
    inner[0].input[0], inner[2].input[1], inner[-1].output[0] = f"{name}_given", f"{name}_level", f"{name}_result"
    nodes = [
        _node("Mul", [f"{name}_index", f"{name}_size"], [f"{name}_at"]),
        _node("Reshape", [f"{name}_at", f"{name}_one_axis"], [f"{name}_begin"]),
        _node("Add", [f"{name}_begin", f"{name}_block"], [f"{name}_end"]),
        _node("Add", [f"{name}_begin", f"{name}_window"], [f"{name}_behind"]),
        _node("Slice", [f"{name}_wide", f"{name}_begin", f"{name}_behind", f"{name}_axis"], [f"{name}_given"]),
        _node("Slice", [level, f"{name}_begin", f"{name}_end", f"{name}_axis"], [f"{name}_level"]),
        *inner,
        _node("SequenceInsert", [f"{name}_kept", f"{name}_result"], [f"{name}_more_kept"]),
        _node("Identity", [f"{name}_goes_on"], [f"{name}_still"]),
    ]
    index = helper.make_tensor_value_info(f"{name}_index", TensorProto.INT64, [])
    going = [helper.make_tensor_value_info(f"{name}_{key}", TensorProto.BOOL, []) for key in ("goes_on", "still")]
    kept = [helper.make_tensor_sequence_value_info(f"{name}_{key}", TensorProto.FLOAT, None) for key in ("kept", "more_kept")]
    body = helper.make_graph(nodes, name, [index, going[0], kept[0]], [going[1], kept[1]])
    return _node("Loop", [f"{name}_count", f"{name}_start", f"{name}_none"], [f"{name}_blocks"], body=body)


def _constants(name: str, reach: int) -> "list[onnx.TensorProto]":
    """Integers of the slices; `reach`: columns that the kernel reads on either side."""
    from onnx import numpy_helper

    lists = {"pads": [0, 0, 0, reach] * 2, "axis": [AXIS], "block": [BLOCK], "window": [BLOCK + 2 * reach], "one_axis": [-1]}
    stored = {key: np.array(value) for key, value in (lists | {"size": BLOCK, "rest": BLOCK - 1, "start": True}).items()}
    return [numpy_helper.from_array(value, f"{name}_{key}") for key, value in stored.items()]


def _node(kind: str, given: list[str], found: list[str], **attributes: Any) -> "onnx.NodeProto":
    from onnx import helper

    return helper.make_node(kind, given, found, f"{found[0]}_{kind}", **attributes)
