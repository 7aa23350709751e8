"""Compressed weights and rounded inputs as modules that hold their integers. PyTorch computes with
them, and the one conversion (core/export.py) writes Core ML's own stored operations.

    form = Integers(values, scale, "generator_ups_0_weight")
    store(conv, form)                       # conv.weight is form() from now on
    conv.rounding = RoundedInput(step, scale)

Each operator has its PyTorch body, its rule for shapes and its converters beside one another. A
form's numbers have the type that a package stores them in, float16 or float32, and `form()` is what
a package unpacks, to the bit. Converters are registered when a module that needs them is converted:
importing this file imports no coremltools.
"""

import copy
from collections.abc import Callable
from functools import cache
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from kokoro_ane.core import InputError


def _round_to(weight: Tensor, half: bool) -> Tensor:
    """The weight in float32 as a package that stores halves unpacks it."""
    return weight.half().float() if half else weight


# -- int8 rows and blocks --------------------------------------------------------------------------


@torch.library.custom_op("kokoro_ane::integers", mutates_args=())
def integers(values: Tensor, scale: Tensor, bits: int, half: bool, label: str) -> Tensor:
    """scale values -> float32. `values` [O, I, ...] int8; `scale` has its rank and a divisor of its
    size along each axis.
    """
    scale = scale.float()
    for axis, count in enumerate(scale.shape):
        scale = scale.repeat_interleave(values.shape[axis] // count, axis)
    return _round_to(values.float() * scale, half)


integers.register_fake(lambda values, *_: values.new_empty(values.shape, dtype=torch.float32))


def convert_integers(context: Any, node: Any) -> None:
    """Before iOS 18 an affine dequantization along one axis, from then on blocks along any."""
    mb, (values, scale, bits, _, label) = _read_arguments(context, node)
    scale = scale.astype(np.float32)  # the converter's pass makes halves of it, as of every weight
    if _from_ios18():
        values = values.astype(_find_integer_type(f"int{bits}"))
        unpacked = mb.constexpr_blockwise_shift_scale(data=values, scale=scale, name=label)
    else:
        if sum(size > 1 for size in scale.shape) > 1:
            raise InputError(f"{label} has scales for blocks of a row, which needs iOS 18")
        unpacked = mb.constexpr_affine_dequantize(
            quantized_data=values.astype(np.int8),
            scale=scale.reshape(-1) if scale.size > 1 else scale.reshape(()),
            zero_point=np.int8(0),
            axis=np.int32(np.argmax(scale.shape)),
            name=label,
        )
    context.add(unpacked, node.name)


def convert_to_onnx(g: Any, values: Any, scale: Any, bits: Any, half: Any, label: Any) -> Any:
    """DequantizeLinear along the one axis that has several scales."""
    sizes = scale.type().sizes()
    axis = max(range(len(sizes)), key=sizes.__getitem__)
    if any(size > 1 for place, size in enumerate(sizes) if place != axis):
        name = label.node().s("value")
        raise InputError(f"{name} has scales for blocks of a row, which ONNX does not unpack")
    flat = g.op("Constant", value_t=torch.tensor([-1]))
    scale = g.op("Cast", g.op("Reshape", scale, flat), to_i=1)
    zeros = g.op("Constant", value_t=torch.zeros(sizes[axis], dtype=torch.int8))
    unpacked = g.op("DequantizeLinear", values, scale, zeros, axis_i=axis)
    return unpacked.setType(values.type().with_dtype(torch.float32))


# -- tables ----------------------------------------------------------------------------------------


@torch.library.custom_op("kokoro_ane::table", mutates_args=())
def table(
    index: Tensor, entries: Tensor, scale: Tensor | None, axis: int, half: bool, label: str
) -> Tensor:
    """entries[group][index] -> float32. `index` of any shape, uint8; `entries` [groups, 2^bits],
    one table for each group of rows of `axis`: floats, or int8 with a scale [groups, 1].
    """
    rows = index.movedim(axis, 0).reshape(len(entries), -1)
    weight = torch.gather(unpack_entries(entries, scale, half), 1, rows.long())
    return weight.reshape(index.movedim(axis, 0).shape).movedim(0, axis).contiguous()


def unpack_entries(entries: Tensor, scale: Tensor | None, half: bool) -> Tensor:
    """The tables [groups, 2^bits] in float32."""
    values = entries.float() if scale is None else entries.float() * scale.float()
    return _round_to(values, half)


table.register_fake(lambda index, *_: index.new_empty(index.shape, dtype=torch.float32))


def convert_table(context: Any, node: Any) -> None:
    """Before iOS 18 one table and packed indices, from then on a table for each group."""
    mb, (index, entries, scale, axis, _, label) = _read_arguments(context, node)
    groups, count = entries.shape
    bits = count.bit_length() - 1
    if not _from_ios18():
        if groups > 1 or scale is not None:
            raise InputError(f"{label} has tables for groups of rows, which needs iOS 18")
        # each index from its lowest bit on
        spread = (index.astype(np.uint8).reshape(-1, 1) >> np.arange(bits, dtype=np.uint8)) & 1
        unpacked = mb.constexpr_lut_to_dense(
            indices=np.packbits(spread.reshape(-1), bitorder="little"),
            lut=entries.astype(np.float32).reshape(-1),
            shape=np.uint32(index.shape),
            name=label,
        )
    else:
        shape = [1] * (index.ndim + 2)
        shape[int(axis)], shape[-2] = groups, count
        if scale is None:
            lut: Any = entries.astype(np.float32).reshape(shape)
        else:
            lut = mb.constexpr_blockwise_shift_scale(
                data=entries.astype(np.int8).reshape(shape),
                scale=scale.astype(np.float32).reshape([*shape[:-2], 1, 1]),
                name=f"{label}_table",
            )
        unpacked = mb.constexpr_lut_to_dense(
            indices=index.astype(_find_integer_type(f"uint{bits}")), lut=lut, name=label
        )
    context.add(unpacked, node.name)


# -- int8 inputs -----------------------------------------------------------------------------------


@torch.library.custom_op("kokoro_ane::rounded", mutates_args=())
def rounded(x: Tensor, step: Tensor, scale: Tensor) -> Tensor:
    """x [1, C, R, S] in steps [C] or [1], to int8 and saturating, times `scale` [1]."""
    shape = (1, -1, 1, 1)
    whole = torch.round(x / step.to(x.dtype).view(shape)).clamp(-128, 127)
    return whole * scale.to(x.dtype).view(shape)


rounded.register_fake(lambda x, *_: x.new_empty(x.shape))


def convert_rounded(context: Any, node: Any) -> None:
    """A `quantize`, of each channel where there are several steps, and a `dequantize`."""
    mb, (x, step, scale) = _read_arguments(context, node)
    steps = step.astype(np.float32)
    worth = scale.astype(np.float32).reshape(())
    how = {"scale": steps, "axis": np.int32(1)} if steps.size > 1 else {"scale": steps.reshape(())}
    whole = mb.quantize(input=x, output_dtype="int8", **how)
    context.add(mb.dequantize(input=whole, scale=worth, name=node.name), node.name)


# -- a two-way LSTM whose weights can be stored ----------------------------------------------------


@torch.library.custom_op("kokoro_ane::ordered_lstm", mutates_args=())
def ordered_lstm(x: Tensor, forward: list[Tensor], backward: list[Tensor]) -> Tensor:
    """x [T, B, I] -> [T, B, 2 H]. Of each direction the weights [4 H, I] and [4 H, H] and the bias
    [4 H], gates in Core ML's order.
    """
    hidden = forward[1].shape[1]
    weights: list[Tensor] = []
    for inward, onward, bias in (forward, backward):
        weights += [output_and_cell_swapped(part) for part in (inward, onward, bias)]
        weights.append(torch.zeros_like(bias))
    state = x.new_zeros(2, x.shape[1], hidden)
    return torch.lstm(x, (state, state), weights, True, 1, 0.0, False, True, False)[0].clone()


ordered_lstm.register_fake(lambda x, forward, _: x.new_empty(*x.shape[:2], 2 * forward[1].shape[1]))


def convert_ordered_lstm(context: Any, node: Any) -> None:
    """One `lstm`. nn.LSTM's own converter joins and sorts weights, behind which they are stored
    constants no more.
    """
    mb, (x, forward, backward) = _read_arguments(context, node)
    names = ("weight_ih", "weight_hh", "bias")
    weights = dict(zip(names, forward, strict=True))
    weights |= {f"{name}_back": value for name, value in zip(names, backward, strict=True)}
    state = np.zeros((x.shape[1], 2 * forward[1].shape[1]), np.float32)
    outputs = mb.lstm(
        x=x,
        initial_h=state,
        initial_c=state,
        direction="bidirectional",
        output_sequence=True,
        name=node.name,
        **weights,
    )
    context.add(outputs[0], node.name)


def output_and_cell_swapped(rows: Tensor) -> Tensor:
    """Rows of PyTorch's gates input, forget, cell, output -> Core ML's input, forget, output, cell;
    and back.
    """
    first, forget, third, fourth = rows.chunk(4)
    return torch.cat([first, forget, fourth, third])


# -- registration with the two converters ----------------------------------------------------------

CONVERTERS: tuple[tuple[str, Callable[..., None]], ...] = (
    ("integers", convert_integers),
    ("table", convert_table),
    ("rounded", convert_rounded),
    ("ordered_lstm", convert_ordered_lstm),
)


@cache
def register_with_coremltools() -> None:
    """Make the converters known to coremltools, once a process."""
    from coremltools.converters.mil.frontend.torch.torch_op_registry import register_torch_op

    for name, converter in CONVERTERS:
        register_torch_op(_func=converter, torch_alias=[f"kokoro_ane::{name}"])


@cache
def register_with_onnx(opset: int) -> None:
    """Make the ONNX form of integers known to PyTorch's exporter, once a process.

    ONNX has no packed indices, so that a table would be as large as rows; rounded inputs are
    products of integers there (runtimes/onnx/integer_conv.py).
    """
    from torch.onnx import register_custom_op_symbolic

    register_custom_op_symbolic("kokoro_ane::integers", convert_to_onnx, opset)


def _read_arguments(context: Any, node: Any) -> tuple[Any, list[Any]]:
    """coremltools' builder, and an operator's arguments: values of constants, None for an absent
    one.
    """
    from coremltools.converters.mil import Builder
    from coremltools.converters.mil.frontend.torch.ops import _get_inputs

    inputs = _get_inputs(context, node)
    return Builder, [
        value if getattr(value, "val", None) is None else value.val for value in inputs
    ]


def _from_ios18() -> bool:
    """Whether the program that is being converted is for iOS 18 or newer."""
    from coremltools import target
    from coremltools.converters.mil.mil.block import is_current_opset_version_compatible_with

    return bool(is_current_opset_version_compatible_with(target.iOS18))


def _find_integer_type(name: str) -> Any:
    from coremltools.converters.mil.mil import types

    return types.nptype_from_builtin(types.string_to_builtin(name))


# -- modules ---------------------------------------------------------------------------------------


class Converted(nn.Module):
    """A module whose operators have converters of their own."""

    @staticmethod
    def register_converters() -> None:
        """Called by core.export.convert before anything is converted."""
        register_with_coremltools()

    def hold(self, **arrays: np.ndarray | None) -> None:
        """Register buffers; an absent one is None."""
        for name, array in arrays.items():
            tensor = None if array is None else torch.from_numpy(np.ascontiguousarray(array))
            self.register_buffer(name, tensor)


PACKED = ("values", "index")


class StoredWeight(Converted):
    """Stands in a layer's weight. `label` names the constant in a package, `half` says whether the
    package computes with it in float16.
    """

    scale: Tensor | None
    setting = ""  # what its constructor takes beside arrays and label
    bits: int  # of each value of PACKED in a package

    def __init__(self, label: str, half: bool) -> None:
        super().__init__()
        self.label, self.half_stored = label, half

    @property
    def settings(self) -> dict[str, Any]:
        """What makes it again, with its arrays."""
        more = {self.setting: getattr(self, self.setting)}
        return {"kind": type(self).__name__, "label": self.label, **more}

    def count_bytes(self) -> int:
        """What its numbers take in a package: indices or integers of so many bits, and floats."""
        return sum(
            part.numel() * self.bits // 8 if name in PACKED else part.nbytes
            for name, part in self.named_buffers()
        )

    def right_inverse(self, weight: Tensor) -> Tensor:
        """Called by `parametrize`: nothing is left of the weight that stood there."""
        return weight.new_empty(0)

    def scale_by(self, factor: float) -> Self:
        """A form with the same integers whose weight is `factor` times this one's."""
        form = copy.deepcopy(self)
        part = "entries" if self.scale is None else "scale"
        values = self.get_buffer(part)
        # rounded once, to the type of the stored numbers
        setattr(form, part, (values.double() * factor).to(values.dtype))
        return form

    def to_array(self) -> np.ndarray:
        """The weight as a package unpacks it, in the type that the package computes in."""
        with torch.no_grad():
            weight = self().numpy()
        return weight.astype(np.float16 if self.half_stored else np.float32)


class Integers(StoredWeight):
    """w = scale values. `values` are [O, I, ...] int8, of which `bits` are used; `scale` is
    [O, I / block, 1 ...], or has its rows on axis 1.
    """

    values: Tensor
    scale: Tensor
    setting = "bits"

    def __init__(
        self, values: np.ndarray, scale: np.ndarray, label: str = "", bits: int = 8
    ) -> None:
        super().__init__(label, scale.dtype == np.float16)
        self.bits = bits
        self.hold(values=values, scale=scale)

    def forward(self, _: Tensor | None = None) -> Tensor:
        return integers(self.values, self.scale, self.bits, self.half_stored, self.label)


class Palette(StoredWeight):
    """w = entries[group][index]. `index` is uint8 in the weight's shape, `entries` [groups, 2^bits]
    floats, or int8 with a `scale` [groups, 1]; a group is as many rows of `axis` as share a table.
    """

    index: Tensor
    entries: Tensor
    scale: Tensor | None
    setting = "axis"

    def __init__(
        self,
        index: np.ndarray,
        entries: np.ndarray,
        axis: int = 0,
        label: str = "",
        scale: np.ndarray | None = None,
    ) -> None:
        super().__init__(label, (entries if scale is None else scale).dtype == np.float16)
        self.axis = axis
        self.bits = entries.shape[1].bit_length() - 1
        self.hold(index=index, entries=entries, scale=scale)

    def forward(self, _: Tensor | None = None) -> Tensor:
        return table(self.index, self.entries, self.scale, self.axis, self.half_stored, self.label)

    def unpack_entries(self) -> Tensor:
        """The tables' values [groups, 2^bits] in float32."""
        return unpack_entries(self.entries, self.scale, self.half_stored)

    def with_index(self, index: Tensor, axis: int) -> Self:
        """The same tables with other indices."""
        form = copy.copy(self)
        form._buffers = self._buffers | {"index": index.contiguous()}
        form.axis = axis
        return form


class RoundedInput(Converted):
    """What a layer reads, rounded to int8: x in steps [C] or [1], times `scale` [1]. A constant
    factor of each channel is in the steps; one that varies over time stands outside
    (vocoder/scaled_conv.py).
    """

    step: Tensor
    scale: Tensor

    def __init__(self, step: np.ndarray, scale: np.ndarray) -> None:
        super().__init__()
        self.hold(step=step, scale=scale)

    def forward(self, x: Tensor) -> Tensor:
        return rounded(x, self.step, self.scale)


class LSTMWeight(nn.Module):
    """One of a layer's weights [4 H, I] or biases [4 H], with a name of its own."""

    weight: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)


class OrderedLSTM(Converted):
    """A two-way LSTM over x [T, B, I] whose weights stand as Core ML reads them, so that forms can
    be stored in them. `weights`: PyTorch's list of both directions.
    """

    NAMES = ("weight_ih", "weight_hh", "bias")

    def __init__(self, weights: list[Tensor]) -> None:
        super().__init__()
        for end, (inward, onward, bias, other) in zip(
            ("", "_back"), (weights[:4], weights[4:]), strict=True
        ):
            parts = zip(self.NAMES, (inward, onward, bias + other), strict=True)
            for name, part in parts:
                setattr(self, name + end, LSTMWeight(output_and_cell_swapped(part.detach())))

    def forward(self, x: Tensor) -> Tensor:
        forward, backward = (
            [getattr(self, name + end).weight for name in self.NAMES] for end in ("", "_back")
        )
        return ordered_lstm(x, forward, backward)


def store(layer: nn.Module, form: StoredWeight, name: str = "weight") -> None:
    """Let `form` stand in the layer's parameter or buffer of that name."""
    parametrize.register_parametrization(layer, name, form, unsafe=True)
