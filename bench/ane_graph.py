"""A network written down operation by operation, as the profile of an ML program: shapes,
arithmetic, bytes, with no weights to store.

    g = Graph("w8a8")
    x = g.conv(g.input(1, 3, 224, 224), 64, kernel=7, stride=2, act="relu")
    profile = g.profile()                    # what mlprogram.examine.cost reads
    save_program(profile, Path("net.mlpackage"))  # the same operations as a package, weights 0

A level changes how weights are stored (w8: one byte, pN: N bits) and, with a8, puts `quantize` and
`dequantize` behind every result, as coremltools' LinearQuantizer does. Profiles of two minutes'
worth of published networks are then there in a second.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlprogram.dtypes import BY_NAME
from mlprogram.examine.profile import OpProfile, Profile, Tensor, Weight, count_flops, count_macs
from mlprogram.graph import Operation, ValueType

Shape = tuple[int, ...]
# of a weight, by level
BITS = {"fp16": 16, "w8": 8, "w8a8": 8, "p8": 8, "p6": 6, "p4": 4, "p2": 2, "w4a8": 4, "p4a8": 4}
HEAVY = ("conv", "conv_transpose", "linear")


class Graph:
    """Responsibilities: 1. the shape of every result; 2. the operations in order, with the weights'
    stored bytes.
    """

    def __init__(self, level: str = "fp16") -> None:
        self.level, self.ops, self.inputs = level, [], []
        self.quantizes = level.endswith("a8")

    def input(self, *shape: int) -> Tensor:
        """An fp16 input."""
        self.inputs.append(Tensor(f"x{len(self.inputs)}", shape, "fp16", 16))
        return self.inputs[-1]

    def op(
        self,
        kind: str,
        size: Shape,
        operands: Mapping[str, Any],
        weights: Mapping[str, Shape] = MappingProxyType({}),
        /,
        **attributes: Any,
    ) -> Tensor:
        """One operation. `operands`: parameter to tensor or list of tensors; `weights`: parameter
        to shape.
        """
        dtype = "int8" if kind == "quantize" else "fp16"
        name = f"{kind}_{len(self.ops)}"
        result = Tensor(name, size, dtype, BY_NAME[dtype].bits)
        named = {
            key: list(value) if isinstance(value, list | tuple) else [value]
            for key, value in operands.items()
        }
        shapes = {
            key if len(v) == 1 else f"{key}[{i:03}]": t.shape
            for key, v in named.items()
            for i, t in enumerate(v)
        } | dict(weights)
        stored = tuple(
            self._weight(f"{name}#{key}", shape, kind, key) for key, shape in weights.items()
        )
        inputs = {key: tuple(t.name for t in v) for key, v in named.items()} | {
            key: (f"{name}#{key}",) for key in weights
        }
        operation = Operation(
            name,
            kind,
            inputs,
            (ValueType(name, BY_NAME[dtype], size),),
            (),
            "main",
            len(self.ops),
            {},
        )
        activations = tuple({t.name: t for v in named.values() for t in v}.values())
        macs = count_macs(kind, shapes, (size,), attributes)
        flops = count_flops(kind, macs, shapes, (size,))
        self.ops.append(
            OpProfile(operation, activations, stored, (result,), attributes, shapes, 1, macs, flops)
        )
        return result

    def _weight(self, name: str, shape: Shape, kind: str, key: str) -> Weight:
        small = key != "weight" or kind not in HEAVY
        bits = 16 if small else BITS[self.level]
        label = (
            "fp16"
            if bits == 16
            else f"palette {bits}-bit"
            if self.level.startswith("p")
            else f"linear int{bits}"
        )
        return Weight(Tensor(name, shape, "fp16", 16), label, math.prod(shape) * bits // 8)

    def done(self, x: Tensor) -> Tensor:
        """The result of a layer: through int8 and back where the level says so."""
        return (
            self.op("dequantize", x.shape, {"input": self.op("quantize", x.shape, {"input": x})})
            if self.quantizes
            else x
        )

    def conv(
        self,
        x: Tensor,
        channels: int,
        kernel: int | Shape = 1,
        stride: int = 1,
        groups: int = 1,
        act: str = "",
        dilation: int = 1,
    ) -> Tensor:
        """A convolution with bias and padding that keeps the size, then an activation."""
        sides = (kernel, kernel) if isinstance(kernel, int) else kernel
        pad = [
            p
            for k in sides
            for p in ((k - 1) * dilation // 2, (k - 1) * dilation - (k - 1) * dilation // 2)
        ]
        size = tuple(-(-n // stride) for n in x.shape[2:])
        y = self.op(
            "conv",
            (x.shape[0], channels, *size),
            {"x": x},
            {"weight": (channels, x.shape[1] // groups, *sides), "bias": (channels,)},
            strides=[stride] * 2,
            dilations=[dilation] * 2,
            groups=groups,
            pad_type="custom",
            pad=pad,
        )
        return self.done(self.act(y, act))

    def depthwise(self, x: Tensor, kernel: int, stride: int = 1, act: str = "") -> Tensor:
        """One filter a channel."""
        return self.conv(x, x.shape[1], kernel, stride, x.shape[1], act)

    def conv_transpose(
        self, x: Tensor, channels: int, kernel: int, stride: int, act: str = ""
    ) -> Tensor:
        """Upsampling by the stride."""
        pad = [(kernel - stride) // 2, kernel - stride - (kernel - stride) // 2] * 2
        y = self.op(
            "conv_transpose",
            (x.shape[0], channels, *(n * stride for n in x.shape[2:])),
            {"x": x},
            {"weight": (x.shape[1], channels, kernel, kernel), "bias": (channels,)},
            strides=[stride] * 2,
            pad_type="custom",
            pad=pad,
        )
        return self.done(self.act(y, act))

    def act(self, x: Tensor, kind: str) -> Tensor:
        """An activation by name; "" is none."""
        if kind == "hswish":
            return self.mul(x, self.act(x, "sigmoid_hard"))
        if kind == "sigmoid_hard":
            return self.op(kind, x.shape, {"x": x}, alpha=1 / 6, beta=0.5)
        return self.op(kind, x.shape, {"x": x}) if kind else x

    def norm_constant(self, x: Tensor) -> Tensor:
        """Batch norm that no convolution takes up: a factor and a shift a channel."""
        width = (x.shape[1],)
        return self.op(
            "batch_norm",
            x.shape,
            {"x": x},
            {"mean": width, "variance": width, "gamma": width, "beta": width},
            epsilon=1e-5,
        )

    def _binary(self, kind: str, x: Tensor, y: Tensor | None) -> Tensor:
        if y is None:  # with a constant a channel
            return self.op(
                kind, x.shape, {"x": x}, {"y": (1, x.shape[1], *([1] * (len(x.shape) - 2)))}
            )
        shape = tuple(max(a, b) for a, b in zip(x.shape, y.shape, strict=True))
        return self.op(kind, shape, {"x": x, "y": y})

    def add(self, x: Tensor, y: Tensor, act: str = "") -> Tensor:
        """A sum, such as a residual."""
        return self.done(self.act(self._binary("add", x, y), act))

    def mul(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """A product with a tensor, or with a constant a channel."""
        return self._binary("mul", x, y)

    def pool(self, x: Tensor, kernel: int, stride: int, kind: str = "max_pool") -> Tensor:
        """Pooling that keeps the size but for the stride."""
        size = tuple(-(-n // stride) for n in x.shape[2:])
        pad = [p for _ in size for p in ((kernel - 1) // 2, kernel - 1 - (kernel - 1) // 2)]
        return self.op(
            kind,
            (*x.shape[:2], *size),
            {"x": x},
            kernel_sizes=[kernel] * 2,
            strides=[stride] * 2,
            pad_type="custom",
            pad=pad,
        )

    def mean(self, x: Tensor) -> Tensor:
        """Over the whole image."""
        return self.op("reduce_mean", (*x.shape[:2], 1, 1), {"x": x}, axes=[2, 3], keep_dims=True)

    def squeeze_excite(self, x: Tensor, inner: int, gate: str = "sigmoid") -> Tensor:
        """A gate a channel from the channel means."""
        return self.mul(
            x, self.act(self.conv(self.conv(self.mean(x), inner, act="relu"), x.shape[1]), gate)
        )

    def linear(self, x: Tensor, width: int, act: str = "") -> Tensor:
        """Over the last axis."""
        y = self.op(
            "linear",
            (*x.shape[:-1], width),
            {"x": x},
            {"weight": (width, x.shape[-1]), "bias": (width,)},
        )
        return self.done(self.act(y, act))

    def head(self, x: Tensor, classes: int = 1000) -> Tensor:
        """Mean, then a classifier."""
        return self.linear(self.reshape(self.mean(x), (x.shape[0], x.shape[1])), classes)

    def matmul(self, x: Tensor, y: Tensor, transpose_y: bool = False) -> Tensor:
        """A product of two tensors."""
        width = y.shape[-2 if transpose_y else -1]
        return self.op(
            "matmul",
            (*x.shape[:-1], width),
            {"x": x, "y": y},
            transpose_x=False,
            transpose_y=transpose_y,
        )

    def softmax(self, x: Tensor) -> Tensor:
        """Over the last axis."""
        return self.op("softmax", x.shape, {"x": x}, axis=-1)

    def norm(self, x: Tensor, kind: str = "layer_norm") -> Tensor:
        """Layer norm over the last axis, or instance norm over the image."""
        width = (x.shape[-1] if kind == "layer_norm" else x.shape[1],)
        extra = {"axes": [-1]} if kind == "layer_norm" else {}
        return self.op(
            kind, x.shape, {"x": x}, {"gamma": width, "beta": width}, epsilon=1e-5, **extra
        )

    def reshape(self, x: Tensor, shape: Shape) -> Tensor:
        """The same bytes under another shape."""
        return self.op("reshape", shape, {"x": x}, shape=list(shape))

    def transpose(self, x: Tensor, *order: int) -> Tensor:
        """Axes in another order."""
        return self.op("transpose", tuple(x.shape[i] for i in order), {"x": x}, perm=list(order))

    def concat(self, *xs: Tensor) -> Tensor:
        """Along the channels."""
        shape = list(xs[0].shape)
        shape[1] = sum(x.shape[1] for x in xs)
        return self.op("concat", tuple(shape), {"values": list(xs)}, axis=1, interleave=False)

    def attention(
        self, x: Tensor, heads: int, head_width: int = 0, kv_heads: int = 0, value_width: int = 0
    ) -> Tensor:
        """Self-attention of [1, N, D] tokens with separate projections."""
        _, tokens, width = x.shape
        head_width, kv_heads = head_width or width // heads, kv_heads or heads
        value_width = value_width or head_width

        def split(count: int, size: int) -> Tensor:
            # [1, heads, N, size]
            return self.transpose(
                self.reshape(self.linear(x, count * size), (1, tokens, count, size)), 0, 2, 1, 3
            )

        q, k, v = (
            split(heads, head_width),
            split(kv_heads, head_width),
            split(kv_heads, value_width),
        )
        if kv_heads != heads:  # shared keys are repeated
            k, v = (
                self.op(
                    "tile", (1, heads, *t.shape[2:]), {"x": t}, reps=[1, heads // kv_heads, 1, 1]
                )
                for t in (k, v)
            )
        # [1, heads, N, value]
        mixed = self.matmul(self.softmax(self.matmul(self.mul(q, None), k, transpose_y=True)), v)
        return self.linear(
            self.reshape(self.transpose(mixed, 0, 2, 1, 3), (1, tokens, heads * value_width)), width
        )

    def profile(self, *outputs: Tensor) -> Profile:
        """The record; the last result is the output unless others are named."""
        return Profile(
            None,
            tuple(self.inputs),
            outputs or self.ops[-1].outputs,
            tuple(self.ops),
            "written down",
        )


def save_program(profile: Profile, path: Path) -> None:
    """The same fp16 operations, of one input, as a package with weights of 0, built by coremltools'
    own builder.
    """
    import coremltools as ct
    import numpy as np
    from coremltools.converters.mil.mil import Builder as mb

    # Program is what the decorator makes
    from coremltools.converters.mil.mil import Program, get_new_symbol, types  # noqa: F401

    @mb.program(
        input_specs=[mb.TensorSpec(shape=t.shape, dtype=types.fp16) for t in profile.inputs],
        opset_version=ct.target.iOS17,
    )
    def program(x: Any) -> Any:
        values = {profile.inputs[0].name: x}
        for op in profile.ops:
            weights = {
                key: np.zeros(op.shapes[key], np.float16)
                for key, names in op.op.inputs.items()
                if names[0] not in values
            }
            held = {
                key: [values[n] for n in names]
                for key, names in op.op.inputs.items()
                if key not in weights
            }
            operands = {key: v if key == "values" else v[0] for key, v in held.items()}
            extra = {
                k: np.float16(v) if isinstance(v, float) else v for k, v in op.attributes.items()
            }
            values[op.name] = getattr(mb, op.op_type)(**operands, **weights, **extra, name=op.name)
        return [values[t.name] for t in profile.outputs]

    model = ct.convert(
        program,
        convert_to="mlprogram",
        skip_model_load=True,
        minimum_deployment_target=ct.target.iOS17,
        compute_precision=ct.precision.FLOAT32,
        pass_pipeline=ct.PassPipeline.EMPTY,
    )
    model.save(str(path))
