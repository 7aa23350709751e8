"""A prepared convolution whose product is of integers, in operations that ONNX has: QuantizeLinear,
ConvInteger, DequantizeLinear.

    conv = IntegerConv(prepared, form, size=1.0, place=place)
    replace_module(portable.eager, "generator.resblocks.3.convs1.0.conv", conv)

It renders what vocoder/scaled_conv.py's convolution renders of rounded values: inputs divided by
their envelope, of one int8 step a channel (balance, Snake's alpha and the range in one number);
int8 weights of one step an output channel. Weights are stored as uint8 around 128: ONNX Runtime's
fast kernel wants unsigned weights and signed inputs (signed weights: ten times slower).
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core.errors import CheckFailed
from kokoro_ane.core.layers import Conv
from kokoro_ane.quantize.stored_forms import Integers
from kokoro_ane.vocoder.eager import Place
from kokoro_ane.vocoder.scaled_conv import ColumnScale, ScaledConv, TimeVaryingScale

if TYPE_CHECKING:
    import onnx


# the largest integer; what uint8 adds to it
INT8, HALF = 127.0, 128


class Rounded(torch.autograd.Function):
    """x [1, C, 1, S] in steps [C] -> int8, half to even, saturating."""

    @staticmethod
    def forward(_: Any, x: Tensor, steps: Tensor, zeros: Tensor) -> Tensor:
        """In PyTorch. `zeros` [C]: the zero points."""
        whole = torch.round(x / steps.view(1, -1, 1, 1)) + zeros.view(1, -1, 1, 1)
        return whole.clamp(-INT8 - 1, INT8).to(torch.int8)

    @staticmethod
    def symbolic(g: Any, x: Any, steps: Any, zeros: Any) -> Any:
        """In ONNX."""
        return g.op("QuantizeLinear", x, steps, zeros, axis_i=1).setType(
            x.type().with_dtype(torch.int8)
        )


class Product(torch.autograd.Function):
    """int8 [1, in, 1, S] and uint8 weights around 128 [out, in, 1, k] -> the sums times `steps`
    [out], float32 [1, out, 1, S / stride].
    """

    @staticmethod
    def forward(
        _: Any,
        x: Tensor,
        weight: Tensor,
        middle: Tensor,
        steps: Tensor,
        stride: int,
        padding: int,
        dilation: int,
    ) -> Tensor:
        """In PyTorch; exact: float64 holds every sum."""
        # float64 holds every sum of int8 products exactly
        whole = F.conv2d(
            x.double(), weight.double() - middle, None, (1, stride), (0, padding), (1, dilation)
        )
        return whole.float() * steps.view(1, -1, 1, 1)

    @staticmethod
    def symbolic(
        g: Any,
        x: Any,
        weight: Any,
        middle: Any,
        steps: Any,
        stride: int,
        padding: int,
        dilation: int,
    ) -> Any:
        """In ONNX."""
        zero = g.op("Constant", value_t=torch.zeros((), dtype=torch.int8))
        places = {
            "pads_i": [0, padding, 0, padding],
            "strides_i": [1, stride],
            "dilations_i": [1, dilation],
        }
        whole = g.op("ConvInteger", x, weight, zero, middle, **places)
        outputs = weight.type().sizes()[0]
        return g.op("DequantizeLinear", whole, steps, axis_i=1).setType(
            steps.type().with_sizes([1, outputs, 1, None])
        )


class IntegerConv(nn.Module):
    """`conv` on the integers of `form`. `size`: the range of what it reads, prepared; `place`: what
    the graph around it has folded.
    """

    weight: Tensor
    middle: Tensor
    input_steps: Tensor
    input_zeros: Tensor
    output_steps: Tensor
    reciprocal: Tensor
    bias: Tensor | None

    def __init__(self, conv: Conv, form: Integers, size: float, place: Place) -> None:
        super().__init__()
        step, steps = size / INT8, form.scale.double().flatten()  # [out], of the weights
        self.register_buffer("weight", (form.values.short() + HALF).to(torch.uint8))
        self.register_buffer("middle", torch.tensor(HALF, dtype=torch.uint8))
        self.register_buffer("output_steps", (steps * step * place.outer).float())
        prepared = conv if isinstance(conv, ScaledConv) else None
        self.envelope, self.taps = (prepared.envelope, prepared.taps) if prepared else (None, None)
        # what the channels are multiplied by before they are rounded
        channels = torch.ones(form.values.shape[1], dtype=torch.float64)
        if prepared is not None and prepared.reciprocal is not None:
            channels = prepared.reciprocal.double().flatten()
        if place.alpha is not None:
            channels = channels / place.alpha.double()
        self.register_buffer("reciprocal", channels.float().view(1, -1, 1, 1))
        self.register_buffer("input_steps", (step / channels).float())
        self.register_buffer("input_zeros", torch.zeros(len(channels), dtype=torch.int8))
        self.register_buffer(
            "bias", None if conv.bias is None or place.centred else conv.bias.detach() * place.outer
        )
        self.stride, self.padding, self.dilation = (
            int(conv.stride[1]),
            int(conv.padding[1]),
            int(conv.dilation[1]),
        )

    def forward(self, x: Tensor) -> Tensor:
        """[1, in, 1, S] -> [1, out, 1, S / stride]."""
        level = self.level(x)
        x = x if level is None else x * (1 / level)
        whole = Rounded.apply(x, self.input_steps, self.input_zeros)
        y = Product.apply(
            whole,
            self.weight,
            self.middle,
            self.output_steps,
            self.stride,
            self.padding,
            self.dilation,
        )
        y = y if level is None else y * level
        if self.taps is not None:
            return self.taps.summed(y, self.bias)
        return y if self.bias is None else y + self.bias.view(1, -1, 1, 1)

    def level(self, x: Tensor) -> Tensor | None:
        """The envelope of what is prepared of x, [1, 1, 1, S]: maxima over time first, so that
        channels are multiplied once a frame.
        """
        if isinstance(self.envelope, ColumnScale):
            return (
                (x.abs() * self.reciprocal).amax(dim=1, keepdim=True).clamp(min=self.envelope.floor)
            )
        if not isinstance(self.envelope, TimeVaryingScale):
            return None
        columns = self.envelope.columns
        # [1, in, 1, n]
        frames = F.max_pool2d(x.abs(), (1, columns), (1, columns), ceil_mode=True) * self.reciprocal
        # the envelope is smoothed over frames, then read column by column
        smooth = self.envelope.smoothed(frames.amax(dim=1, keepdim=True))
        return torch.exp(smooth[..., columns : columns + x.shape[3]])


# columns: of 128 channels and a kernel of 11 they take 0.7 MB
BLOCK = 512
AXIS = 3
# the last where there is a bias
CHAIN = ["ConvInteger", "DequantizeLinear", "Mul", "Add"]


def in_blocks(model: "onnx.ModelProto", module: str) -> None:
    """Change the model in place. `module`: the IntegerConv's path, of stride 1 and with an
    envelope; CheckFailed if it is not there.
    """
    chain, graph, name = _chain(model, module), model.graph, module.replace(".", "_")
    first, product, last = chain[0], chain[2], chain[-1]
    (pads,) = (entry for entry in first.attribute if entry.name == "pads")
    reach, at = list(pads.ints)[-1], list(graph.node).index(first)
    graph.initializer.extend(_constants(name, reach))
    source, _, zero = list(first.input)[:3]
    outside = [
        # the input with what the kernel reaches beyond it
        _node("Pad", [source, f"{name}_pads", zero], [f"{name}_wide"]),
        # how many blocks there are
        _node("Shape", [source], [f"{name}_shape"], start=AXIS),
        _node("Squeeze", [f"{name}_shape"], [f"{name}_columns"]),
        _node("Add", [f"{name}_columns", f"{name}_rest"], [f"{name}_more"]),
        _node("Div", [f"{name}_more", f"{name}_size"], [f"{name}_count"]),
        # of float32
        _node("SequenceEmpty", [], [f"{name}_none"], dtype=1),
        _loop(name, product.input[1], chain),
        _node("ConcatFromSequence", [f"{name}_blocks"], [last.output[0]], axis=AXIS),
    ]
    for node in chain:
        graph.node.remove(node)
    for node in reversed(outside):
        graph.node.insert(at, node)


def _chain(model: "onnx.ModelProto", module: str) -> "list[onnx.NodeProto]":
    """ConvInteger, DequantizeLinear, Mul and, where there is a bias, Add."""
    # the exporter names a node by its module: /eager/stages.1/conv/ConvInteger
    paths = {node.name: node.name.replace("/", ".").strip(".") for node in model.graph.node}
    chain = [node for node in model.graph.node if paths[node.name] == f"{module}.ConvInteger"]
    while chain and chain[-1].op_type != "Add":
        readers = [node for node in model.graph.node if chain[-1].output[0] in node.input]
        if len(readers) != 1 or not paths[readers[0].name].startswith(f"{module}."):
            break
        chain += readers
    kinds = [node.op_type for node in chain]
    if kinds not in (CHAIN, CHAIN[:-1]):
        raise CheckFailed(
            f"{module} is no convolution of integers with an envelope:"
            f" {', '.join(kinds) or 'nothing'}"
        )
    return chain


def _loop(name: str, level: str, chain: "list[onnx.NodeProto]") -> "onnx.NodeProto":
    """Over blocks: its columns of the input and of the envelope, the chain, the result behind those
    of the blocks before.
    """
    from onnx import TensorProto, helper

    inner = [type(node)() for node in chain]
    for new, node in zip(inner, chain, strict=True):
        new.CopyFrom(node)
    # the input is padded before the loop, so the inner product pads nothing
    inner[0].attribute.remove(next(entry for entry in inner[0].attribute if entry.name == "pads"))
    inner[0].input[0], inner[2].input[1], inner[-1].output[0] = (
        f"{name}_given",
        f"{name}_level",
        f"{name}_result",
    )
    nodes = [
        _node("Mul", [f"{name}_index", f"{name}_size"], [f"{name}_at"]),
        _node("Reshape", [f"{name}_at", f"{name}_one_axis"], [f"{name}_begin"]),
        _node("Add", [f"{name}_begin", f"{name}_block"], [f"{name}_end"]),
        _node("Add", [f"{name}_begin", f"{name}_window"], [f"{name}_behind"]),
        _node(
            "Slice",
            [f"{name}_wide", f"{name}_begin", f"{name}_behind", f"{name}_axis"],
            [f"{name}_given"],
        ),
        _node("Slice", [level, f"{name}_begin", f"{name}_end", f"{name}_axis"], [f"{name}_level"]),
        *inner,
        _node("SequenceInsert", [f"{name}_kept", f"{name}_result"], [f"{name}_more_kept"]),
        _node("Identity", [f"{name}_goes_on"], [f"{name}_still"]),
    ]
    index = helper.make_tensor_value_info(f"{name}_index", TensorProto.INT64, [])
    # what one turn hands to the next: whether to go on, and the blocks so far
    before, after = (
        [
            helper.make_tensor_value_info(f"{name}_{goes}", TensorProto.BOOL, []),
            helper.make_tensor_sequence_value_info(f"{name}_{blocks}", TensorProto.FLOAT, None),
        ]
        for goes, blocks in (("goes_on", "kept"), ("still", "more_kept"))
    )
    body = helper.make_graph(nodes, name, [index, *before], after)
    return _node(
        "Loop", [f"{name}_count", f"{name}_start", f"{name}_none"], [f"{name}_blocks"], body=body
    )


def _constants(name: str, reach: int) -> "list[onnx.TensorProto]":
    """Integers of the slices; `reach`: columns that the kernel reads on either side."""
    from onnx import numpy_helper

    lists = {
        "pads": [0, 0, 0, reach] * 2,
        "axis": [AXIS],
        "block": [BLOCK],
        "window": [BLOCK + 2 * reach],
        "one_axis": [-1],
    }
    stored = {
        key: np.array(value)
        for key, value in (lists | {"size": BLOCK, "rest": BLOCK - 1, "start": True}).items()
    }
    return [numpy_helper.from_array(value, f"{name}_{key}") for key, value in stored.items()]


def _node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> "onnx.NodeProto":
    from onnx import helper

    return helper.make_node(kind, inputs, outputs, f"{outputs[0]}_{kind}", **attributes)
