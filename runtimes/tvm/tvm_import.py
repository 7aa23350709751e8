"""torch.export's graph to TVM's Relax, with kernels of this project where TVM's importer or its
default schedules will not do.

    # runtimes.portable.PortableFunction -> tvm.IRModule of any length
    module = imported(function, tile=(32, 8))

Converted here: slices (TVM bounds each length again, and shapes no longer meet), nearest repetition
(its size must be a number), and what takes time, by a kernel: convolutions, products with a weight
as convolutions with one tap, instance norm, Snake, LSTM loops. Everything else is TVM's.
"""

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch.fx import Node
from tvm import relax

from kokoro_ane.runtimes.portable import PortableFunction, export_program, order_by_name
from kokoro_ane.runtimes.tvm import tvm_kernels as kernels

# torch.export writes an open end as the largest int64.
FAR = 1 << 31


def imported(function: PortableFunction, tile: tuple[int, int]) -> Any:
    """An IRModule whose `main` takes the inputs in the order of their names. `tile`: values of
    time and outputs that a convolution holds in registers.
    """
    from tvm.relax.frontend.torch import from_exported_program

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        # An empty table of decompositions keeps operations such as instance_norm whole.
        program = export_program(order_by_name(function)).run_decompositions({})
    return from_exported_program(
        program,
        custom_convert_map=Converters(program, tile).by_operation(),
        run_ep_decomposition=False,
    )


class Converters:
    """A function for each operation that TVM's importer does not convert well enough: (node,
    importer) -> the value in Relax.
    """

    def __init__(self, program: torch.export.ExportedProgram, tile: tuple[int, int]) -> None:
        self.tile = tile
        signature = program.graph_signature
        values = {**program.state_dict, **program.constants}
        names = (
            signature.inputs_to_parameters
            | signature.inputs_to_buffers
            | signature.inputs_to_lifted_tensor_constants
        )
        self.weights = {node: values[name].detach() for node, name in names.items()}

    def by_operation(self) -> dict[str, Callable[[Any, Any], Any]]:
        """By the name of the operation."""
        return {
            "slice.Tensor": self.slice,
            "upsample_nearest2d.vec": self.repeat,
            "conv2d.default": self.conv,
            "conv_transpose2d.input": self.conv_transpose,
            "instance_norm.default": self.instance_norm,
            "addcmul.default": self.addcmul,
            "clamp.default": self.clamp,
            "linear.default": self.linear,
            "matmul.default": self.matmul,
            "lstm_steps.default": self.lstm_steps,
            # the importer has both under another name
            "layer_norm.default": lambda node, importer: importer._native_layer_norm(node),
            "_unsafe_view.default": lambda node, importer: importer._reshape(node),
        }

    def slice(self, node: Any, importer: Any) -> Any:
        """x[begin:end] along one axis. The graph's author keeps it inside the tensor."""
        x, axis, *ends = importer.retrieve_args(node)
        size = importer.shape_of(x)[axis]
        for place, at in enumerate(ends):
            if isinstance(at, int):
                # a negative number counts from the end, and one beyond the tensor is the end
                ends[place] = size + at if at < 0 else size if at >= FAR else at
        return importer.block_builder.emit(cut(x, axis, *ends))

    def repeat(self, node: Any, importer: Any) -> Any:
        """Every value of the last axis twice."""
        # Its place in the graph is the doubling of a rate, whose size TVM wants as a number.
        return importer.block_builder.emit(relax.op.repeat(importer.env[node.args[0]], 2, 3))

    def conv(self, node: Any, importer: Any) -> Any:
        """A convolution along the last axis. One with a stride is computed at every step, and every
        stride-th value is taken: strides are rare and their convolutions small.
        """
        x, weight, bias, stride, padding, dilation = with_defaults(
            node, None, [1, 1], [0, 0], [1, 1]
        )
        values = self.weights[weight.name][:, :, 0]  # [out, inner, taps]
        y = self.convolved(importer, importer.env[x], values, bias, dilation[1], padding[1])
        if stride[1] == 1:
            return y
        # [1, out, 1, S] -> every stride-th column
        return importer.block_builder.emit(cut(y, 3, 0, importer.shape_of(y)[3], stride[1]))

    def convolved(
        self,
        importer: Any,
        x: Any,
        values: torch.Tensor,
        bias: Node | None,
        dilation: int = 1,
        padding: int = 0,
    ) -> Any:
        """x [1, inner, 1, S] and values [out, inner, taps] -> [1, out, 1, steps]."""
        out, inner, taps = values.shape
        rows = self.tile[1]
        # outputs are filled up to whole groups; what is computed of the rest is not stored
        groups = -(-out // rows)
        # F.pad counts from the last axis: taps, inner, then rows behind the last output.
        padded = F.pad(values, (0, 0, 0, 0, 0, groups * rows - out))
        # [groups, inner, taps, rows]
        packed = padded.view(groups, rows, inner, taps).permute(0, 2, 3, 1)
        # The length grows by the padding on both sides and loses the kernel's reach.
        steps = importer.shape_of(x)[3] + (2 * padding - (taps - 1) * dilation)
        kernel = kernels.convolution(inner, out, taps, dilation, padding, self.tile)
        return call(
            importer, kernel, [x, constant(packed), self.bias(bias, out)], [1, out, 1, steps]
        )

    def bias(self, node: Node | None, out: int) -> Any:
        """The bias [out], zeros where there is none."""
        return constant(torch.zeros(out) if node is None else self.weights[node.name])

    def conv_transpose(self, node: Any, importer: Any) -> Any:
        """A transposed convolution: its phases as outputs of a convolution, interleaved."""
        x, weight, bias, stride, padding, more, groups = with_defaults(
            node, None, [1, 1], [0, 0], [0, 0], 1
        )
        if groups != 1:
            return importer._conv_transpose2d(node)
        values = self.weights[weight.name][:, :, 0]  # [inner, out, taps]
        inner, out, taps = values.shape
        by = stride[1]
        trim = padding[1]
        wide = -(-taps // by)
        # every phase is a convolution of `wide` taps over the same input: [inner, out, wide, by]
        # [inner, out, taps] filled up to wide * by, a row of taps for each phase; flip makes it a
        # correlation.
        phases = F.pad(values, (0, wide * by - taps)).view(inner, out, wide, by).flip(2)
        # [inner, out, wide, by] -> [out, by, inner, wide] -> [out * by, inner, wide]
        phases = phases.permute(1, 3, 0, 2).reshape(out * by, inner, wide)
        source = importer.env[x]
        # Full padding, so that every phase sees each input with each of its taps.
        y = self.convolved(importer, source, phases, None, padding=wide - 1)
        samples = (importer.shape_of(source)[3] - 1) * by + (taps - 2 * trim + more[1])
        return importer.block_builder.emit_te(
            kernels.interleaved, y, self.bias(bias, out), by, trim, samples
        )

    def instance_norm(self, node: Any, importer: Any) -> Any:
        """With a gain and a shift that the style gives."""
        x, gain, shift = (importer.env[value] for value in node.args[:3])
        shape = list(importer.shape_of(x))
        # aten::instance_norm has its epsilon in this place
        epsilon = node.args[7]
        return call(importer, kernels.norm(shape[1], epsilon), [x, gain, shift], shape)

    def addcmul(self, node: Any, importer: Any) -> Any:
        """x + y z, which is Snake where y and z are sin(x)."""
        x, y, z = node.args
        u = importer.env[x]
        if y is z and y.target is torch.ops.aten.sin.default and y.args[0] is x:
            return importer.block_builder.emit_te(kernels.snake, u)
        product = relax.op.multiply(importer.env[y], importer.env[z])
        return importer.block_builder.emit(relax.op.add(u, product))

    def clamp(self, node: Any, importer: Any) -> Any:
        """Not below a number. TVM's importer makes the missing upper limit infinite, which no
        integer is.
        """
        value, low = node.args
        x = importer.env[value]
        return importer.block_builder.emit(relax.op.maximum(x, relax.const(low, x.ty.dtype)))

    def linear(self, node: Any, importer: Any) -> Any:
        """A product with a weight of the checkpoint [out, inner]."""
        x, weight, bias = with_defaults(node, None)
        return self.multiplied(importer, importer.env[x], self.weights[weight.name], bias)

    def matmul(self, node: Any, importer: Any) -> Any:
        """The same with a buffer [inner, out]; of two values that grow it is TVM's."""
        x, weight = node.args
        if weight.name not in self.weights:
            return importer._binary_op(relax.op.matmul, operator.matmul)(node)
        return self.multiplied(importer, importer.env[x], self.weights[weight.name].t(), None)

    def multiplied(self, importer: Any, x: Any, weight: torch.Tensor, bias: Node | None) -> Any:
        """x [..., inner] times weight [out, inner]: a convolution with one tap over the rows."""
        out, inner = weight.shape
        shape = list(importer.shape_of(x))
        rows = shape[-2] if len(shape) > 1 else 1
        # [1, inner, 1, rows]
        # [..., rows, inner] -> [inner, rows]: the inner axis becomes the channels
        columns = relax.op.permute_dims(relax.op.reshape(x, [rows, inner]))
        columns = importer.block_builder.emit(relax.op.reshape(columns, [1, inner, 1, rows]))
        y = self.convolved(importer, columns, weight[:, :, None], bias)
        y = relax.op.permute_dims(relax.op.reshape(y, [out, rows]))
        return importer.block_builder.emit(relax.op.reshape(y, [*shape[:-1], out]))

    def lstm_steps(self, node: Any, importer: Any) -> Any:
        """The loop of an LSTM in one direction."""
        sums, onward = (importer.env[value] for value in node.args)
        hidden = self.weights[node.args[1].name].shape[0]
        shape = [importer.shape_of(sums)[0], hidden]
        return call(importer, kernels.recurrence(hidden), [sums, onward], shape)


def call(importer: Any, kernel: Any, inputs: list[Any], shape: list[Any]) -> Any:
    """A call of a kernel; equal kernels are one function of the module."""
    name = kernel.attrs["global_symbol"]
    # The module gives the name itself, and a kernel of equal text is then the same function.
    kernel = kernel.without_attr("global_symbol")
    function = importer.block_builder.add_func(kernel, name)
    return importer.block_builder.emit(
        relax.call_tir(function, inputs, relax.TensorType(shape, "float32"))
    )


def cut(x: Any, axis: int, begin: Any, end: Any, stride: int = 1) -> Any:
    """x[begin:end:stride] along one axis, inside the tensor."""
    return relax.op.strided_slice(x, [axis], [begin], [end], [stride], assume_inbound=True)


def with_defaults(node: Any, *defaults: Any) -> list[Any]:
    """The arguments of a product with a weight, bias and all."""
    # Two arguments are always there, x and the weight; of the rest the missing ones are filled.
    return [*node.args, *defaults[len(node.args) - 2 :]]


def constant(values: torch.Tensor) -> Any:
    """A weight in Relax."""
    return relax.const(np.ascontiguousarray(values.to(torch.float32).numpy()))
