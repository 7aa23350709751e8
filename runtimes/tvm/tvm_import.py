"""torch.export's graph to TVM's Relax, with kernels of ours where TVM's importer or its default
schedules will not do.

    # runtimes.portable.PortableFunction -> tvm.IRModule of any length
    module = imported(function)

What is ours: slices (TVM bounds each length again, and shapes no longer meet), nearest repetition
(its size must be a number), convolutions with what stands before them (norm, Snake or leaky ReLU),
transposed convolutions as convolutions whose outputs are woven, products with a weight, LSTM loops.
Everything else is TVM's.
"""

import operator
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.fx import Node
from tvm import relax, tirx

from kokoro_ane.runtimes.portable import PortableFunction, by_name, exported_program
from kokoro_ane.runtimes.tvm import tvm_kernels as kernels

FAR, EPSILON = 1 << 31, 1e-5


def imported(function: PortableFunction, tile: int, rows: int) -> Any:
    """An IRModule whose `main` takes the inputs in the order of their names. `tile`: values of
    time, `rows`: outputs that a convolution holds in registers.
    """
    from tvm.relax.frontend.torch import from_exported_program

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = exported_program(by_name(function)).run_decompositions({})
    return from_exported_program(
        program,
        custom_convert_map=Importer(program, tile, rows).converters(),
        run_ep_decomposition=False,
    )


class Importer:
    """Responsibilities: 1. a converter for every operation of ours; 2. weights in the order in
    which the kernels read them.
    """

    def __init__(self, program: torch.export.ExportedProgram, tile: int, rows: int) -> None:
        self.tile, self.rows_at_once = tile, rows
        # kernels, by name
        self.made: set[str] = set()
        signature, held = program.graph_signature, {**program.state_dict, **program.constants}
        names = (
            signature.inputs_to_parameters
            | signature.inputs_to_buffers
            | signature.inputs_to_lifted_tensor_constants
        )
        self.weights = {node: held[name].detach() for node, name in names.items()}

    def converters(self) -> dict[str, Callable[[Any, Any], Any]]:
        """By the name of the operation."""
        return {
            "slice.Tensor": self.cut,
            "upsample_nearest2d.vec": self.repeated,
            "conv2d.default": self.convolution,
            "conv_transpose2d.input": self.transposed,
            "layer_norm.default": self.layer_norm,
            "clamp.default": self.clamp,
            "linear.default": self.linear,
            "addcmul.default": self.added_product,
            "matmul.default": self.matmul,
            "_unsafe_view.default": lambda node, importer: importer._reshape(node),
            "lstm_steps.default": self.recurrence,
            "_assert_tensor_metadata.default": lambda node, importer: None,
        }

    def call(
        self,
        importer: Any,
        make: Callable[..., Any],
        sizes: tuple[Any, ...],
        inputs: list[Any],
        shape: list[Any],
    ) -> Any:
        """One call of a kernel, which is made once for its sizes."""
        name = re.sub(r"\W", "_", "_".join(str(part) for part in (make.__name__, *sizes)))
        if name not in self.made:
            self.made.add(name)
            importer.block_builder.add_func(make(*sizes).with_attr("global_symbol", name), name)
        return importer.block_builder.emit(
            relax.op.call_dps_packed(name, inputs, relax.TensorType(shape, "float32"))
        )

    def cut(self, node: Any, importer: Any) -> Any:
        """x[begin:end] along one axis, inside the tensor by its author's word."""
        x, axis, begin, end = (*importer.retrieve_args(node), *(0, 0, FAR)[len(node.args) - 1 :])[
            :4
        ]
        size = importer.shape_of(x)[axis]
        begin, end = (
            size + at if isinstance(at, int) and at < 0 else at for at in (begin or 0, end)
        )
        end = size if end is None or (isinstance(end, int) and end >= FAR) else end
        return importer.block_builder.emit(
            relax.op.strided_slice(x, [axis], [begin], [end], [1], assume_inbound=True)
        )

    def repeated(self, node: Any, importer: Any) -> Any:
        """Every value of the last axis twice."""
        if list(node.args[2]) != [1.0, 2.0]:
            raise NotImplementedError(f"upsample by {node.args[2]}")
        return importer.block_builder.emit(relax.op.repeat(importer.env[node.args[0]], 2, 3))

    def tiles(self, steps: Any) -> Any:
        """`steps` up to the end of the last tile."""
        return tirx.floordiv(steps + (self.tile - 1), self.tile) * self.tile

    def convolution(self, node: Any, importer: Any) -> Any:
        """A convolution of one group along the last axis, and what stands before it."""
        x, weight, bias, stride, padding, dilation, groups = with_defaults(
            node, None, [1, 1], [0, 0], [1, 1], 1
        )
        if groups != 1:
            return importer._conv2d(node)
        values = self.weights[weight.name][:, :, 0]  # [out, inner, taps]
        out, inner, taps = values.shape
        (by, left, apart) = stride[1], padding[1], dilation[1]
        source = importer.env[x]
        length = importer.shape_of(source)[3]
        if by > 1:
            # every stride-th value becomes a row of its own
            steps = tirx.floordiv(length + (2 * left - (taps - 1) * apart - 1), by) + 1
            wide = -(-taps // by)
            values = (
                torch.nn.functional.pad(values, (0, wide * by - taps))
                .view(out, inner, wide, by)
                .transpose(2, 3)
            )  # [out, inner, by, wide]
            values, taps = values.reshape(out, inner * by, wide), wide
            rows = self.call(
                importer,
                kernels.dealt_rows,
                (inner, left, by),
                [source],
                [inner * by, self.tiles(steps) + taps - 1],
            )
        else:
            steps = length + (2 * left - (taps - 1) * apart)
            rows = self.rows(x, importer, inner, left, self.tiles(steps) + (taps - 1) * apart)
        return self.convolved(
            importer, rows, values, None if bias is None else self.weights[bias.name], apart, steps
        )

    def convolved(
        self,
        importer: Any,
        rows: Any,
        values: torch.Tensor,
        bias: torch.Tensor | None,
        dilation: int,
        steps: Any,
    ) -> Any:
        """values [out, inner, taps] over rows [inner, N] -> [1, out, 1, steps]."""
        out, inner, taps = values.shape
        # outputs are filled up to whole groups; what is computed of the rest is not stored
        groups = -(-out // self.rows_at_once)
        padded = torch.nn.functional.pad(values, (0, 0, 0, 0, 0, groups * self.rows_at_once - out))
        # [groups, inner, taps, rows]
        packed = padded.view(groups, self.rows_at_once, inner, taps).permute(0, 2, 3, 1)
        return self.call(
            importer,
            kernels.convolution,
            (inner, out, taps, dilation, self.tile, self.rows_at_once),
            [rows, constant(packed), constant(torch.zeros(out) if bias is None else bias)],
            [1, out, 1, steps],
        )

    def rows(self, x: Any, importer: Any, channels: int, left: int, width: Any) -> Any:
        """What the convolution reads: [channels, width]. Looks back over an activation and a norm
        that only it needs.
        """
        kind, slope = kernels.PLAIN, 0.0
        inside = snake_of(x)
        # what stands before the convolution is computed while its rows are written
        if inside is not None:
            x, kind = inside, kernels.SNAKE
        elif name_of(x) == "leaky_relu.default":
            kind, slope = kernels.LEAKY, float(x.args[1]) if len(x.args) > 1 else 0.01
            x = x.args[0]
        make, inputs = kernels.rows_of, [x]
        if (
            kind != kernels.PLAIN
            and name_of(x) == "instance_norm.default"
            and all(isinstance(affine, Node) for affine in x.args[1:3])
        ):
            make, inputs = kernels.normed_rows, [without_clone(x.args[0]), *x.args[1:3]]
        return self.call(
            importer,
            make,
            (channels, left, kind, slope),
            [importer.env[node] for node in inputs],
            [channels, width],
        )

    def transposed(self, node: Any, importer: Any) -> Any:
        """A transposed convolution: its phases as outputs of a convolution, woven."""
        x, weight, bias, stride, padding, more, groups = with_defaults(
            node, None, [1, 1], [0, 0], [0, 0], 1
        )
        if groups != 1:
            return importer._conv_transpose2d(node)
        values = self.weights[weight.name][:, :, 0]  # [inner, out, taps]
        (inner, out, taps), by, trim = values.shape, stride[1], padding[1]
        length = importer.shape_of(importer.env[x])[3]
        wide = -(-taps // by)
        # [inner, out, wide, by]
        phases = (
            torch.nn.functional.pad(values, (0, wide * by - taps))
            .view(inner, out, wide, by)
            .flip(2)
        )
        phases = phases.permute(3, 1, 0, 2).reshape(by * out, inner, wide)
        # every phase is a convolution of `wide` taps over the same input
        steps = length + (wide - 1)
        rows = self.rows(x, importer, inner, wide - 1, self.tiles(steps) + wide - 1)
        convolved = self.convolved(importer, rows, phases, None, 1, steps)
        bias_value = torch.zeros(out) if bias is None else self.weights[bias.name]
        samples = (length - 1) * by + (taps - 2 * trim + more[1])
        return self.call(
            importer,
            kernels.interleaved,
            (out, by, trim),
            [convolved, constant(bias_value)],
            [1, out, 1, samples],
        )

    def linear(self, node: Any, importer: Any) -> Any:
        """A product with a weight of the checkpoint [out, inner]."""
        bias = (
            self.weights[node.args[2].name]
            if len(node.args) > 2 and node.args[2] is not None
            else None
        )
        return self.multiplied(
            importer, importer.env[node.args[0]], self.weights[node.args[1].name].t(), bias
        )

    def added_product(self, node: Any, importer: Any) -> Any:
        """x + y * z, which TVM's importer lacks."""
        x, y, z = (importer.env[value] for value in node.args)
        return importer.block_builder.emit(
            relax.op.add(x, importer.block_builder.emit(relax.op.multiply(y, z)))
        )

    def layer_norm(self, node: Any, importer: Any) -> Any:
        """Over the last axis; one without gain and shift, which TVM's importer does not read, gets
        ones and zeros.
        """
        x, (size,), gain, shift, epsilon = (
            *node.args,
            *(None, None, EPSILON)[len(node.args) - 2 :],
        )[:5]
        gain, shift = (
            constant(torch.full((size,), value)) if node is None else importer.env[node]
            for node, value in ((gain, 1.0), (shift, 0.0))
        )
        return importer.block_builder.emit(
            relax.op.nn.layer_norm(importer.env[x], gain, shift, axes=-1, epsilon=epsilon)
        )

    def clamp(self, node: Any, importer: Any) -> Any:
        """Between two numbers or one; TVM's importer makes the missing one infinite, which no
        integer is.
        """
        x, low, high = [*node.args, None, None][:3]
        value = importer.env[x]
        for limit, bound in ((low, relax.op.maximum), (high, relax.op.minimum)):
            if limit is not None:
                limited = bound(value, relax.const(limit, value.ty.dtype))
                value = importer.block_builder.emit(limited)
        return value

    def matmul(self, node: Any, importer: Any) -> Any:
        """The same with a buffer [inner, out]; of two values that grow it is TVM's."""
        if not isinstance(node.args[1], Node) or node.args[1].name not in self.weights:
            return importer._binary_op(relax.op.matmul, operator.matmul)(node)
        return self.multiplied(
            importer, importer.env[node.args[0]], self.weights[node.args[1].name], None
        )

    def multiplied(
        self, importer: Any, x: Any, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> Any:
        """x [..., inner] times [inner, out]."""
        (inner, out), shape = weight.shape, list(importer.shape_of(x))
        groups, tokens = -(-out // self.tile), shape[-2] if len(shape) > 1 else 1
        packed = (
            torch.nn.functional.pad(weight, (0, groups * self.tile - out))
            .view(inner, groups, self.tile)
            .transpose(0, 1)
        )  # [groups, inner, tile]
        rows = importer.block_builder.emit(relax.op.reshape(x, [tokens, inner]))
        inputs = [rows, constant(packed), constant(torch.zeros(out) if bias is None else bias)]
        sizes = (inner, out, self.tile)
        sums = self.call(importer, kernels.product, sizes, inputs, [tokens, out])
        return importer.block_builder.emit(relax.op.reshape(sums, [*shape[:-1], out]))

    def recurrence(self, node: Any, importer: Any) -> Any:
        """The loop of an LSTM in one direction."""
        sums, onward = (importer.env[value] for value in node.args)
        hidden = self.weights[node.args[1].name].shape[0]
        return self.call(
            importer,
            kernels.recurrence,
            (hidden,),
            [sums, onward],
            [importer.shape_of(sums)[0], hidden],
        )


def with_defaults(node: Any, *defaults: Any) -> list[Any]:
    """The arguments of a convolution, bias and all."""
    return [*node.args, *defaults[len(node.args) - 2 :]]


def name_of(node: Any) -> str:
    """What a node calls, "" for an input."""
    return (
        str(getattr(node.target, "__name__", ""))
        if isinstance(node, Node) and node.op == "call_function"
        else ""
    )


def without_clone(node: Any) -> Any:
    """The value itself: a copy in another storage order is the same value here."""
    while name_of(node) == "clone.default":
        node = node.args[0]
    return node


def snake_of(node: Any) -> Any:
    """u where the node is u + sin(u)^2."""
    if name_of(node) != "addcmul.default":
        return None
    u, wave, again = node.args[:3]
    return u if wave is again and name_of(wave) == "sin.default" and wave.args[0] is u else None


def constant(values: torch.Tensor) -> Any:
    """A weight in Relax."""
    return relax.const(np.ascontiguousarray(values.to(torch.float32).numpy()))
