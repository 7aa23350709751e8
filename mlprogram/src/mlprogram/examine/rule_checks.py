"""One function for each kind of rule: does this operation break it, and if so, what exactly is over
the limit?

    # "width 24001 of 'x'", or None when the rule is kept
    CHECKS["axis_limit"](op, {"spatial": 16384, "channel": 65536})

A check knows nothing of chips: limits come from data/ane_rules.json (`on_chip_mib` from
its chip table). Rules about a whole graph or a run of operations (graph_after, flexible_input,
small_segment) are in placement.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from mlprogram.examine.profile import OpProfile, Tensor

Params = Mapping[str, Any]
Check = Callable[[OpProfile, Params], str | None]


def _list_tensors(op: OpProfile) -> Iterator[Tensor]:
    yield from op.activations
    yield from op.outputs


def op_types(op: OpProfile, params: Params) -> str | None:
    """The type itself is the reason."""
    return op.op_type if op.op_type in params["ops"] else None


def name_axes(rank: int) -> tuple[str, ...]:
    """What Core ML takes each axis for: (N, W), (N, C, W), (N, C, H, W); axes between N and C of
    rank 5 count as height.
    """
    # From rank 4 on only the number of heights differs.
    return {0: (), 1: ("width",), 2: ("batch", "width"), 3: ("batch", "channels", "width")}.get(
        rank, ("batch", "channels", *["height"] * (rank - 3), "width")
    )


def axis_limit(op: OpProfile, params: Params) -> str | None:
    """An axis of an operand or result longer than the limit of its kind."""
    limits = {
        "width": params["spatial"],
        "height": params["spatial"],
        "channels": params["channel"],
        "batch": params["channel"],
    }
    # Weights are left out: the limits are those of what flows.
    for tensor in _list_tensors(op):
        for axis, size in zip(name_axes(len(tensor.shape)), tensor.shape, strict=True):
            if size > limits[axis]:
                return f"{axis} {size} of '{tensor.name}' > {limits[axis]}"
    return None


def rank_limit(op: OpProfile, params: Params) -> str | None:
    """More axes than allowed."""
    return next(
        (
            f"rank {len(t.shape)} of '{t.name}' > {params['max']}"
            for t in _list_tensors(op)
            if len(t.shape) > params["max"]
        ),
        None,
    )


def rank_other(op: OpProfile, params: Params) -> str | None:
    """A rank that is allowed but not the preferred one."""
    return next(
        (
            f"rank {len(t.shape)} of '{t.name}'"
            for t in _list_tensors(op)
            if len(t.shape) != params["prefer"]
        ),
        None,
    )


def op_rank(op: OpProfile, params: Params) -> str | None:
    """Too many axes for these operations."""
    return rank_limit(op, params) if op.op_type in params["ops"] else None


def _read_kernel(op: OpProfile) -> tuple[int, ...]:
    return op.shapes["weight"][2:] if "weight" in op.shapes else ()


def conv_rank(op: OpProfile, params: Params) -> str | None:
    """A convolution over more axes than allowed."""
    # [C_out, C_in, *K]: one spatial axis for each size of the kernel
    axes = len(_read_kernel(op)) if op.op_type in params["ops"] else 0
    return (
        f"{axes} spatial axes > {params['max_spatial']}" if axes > params["max_spatial"] else None
    )


def kernel_size(op: OpProfile, params: Params) -> str | None:
    """A kernel wider or higher than allowed."""
    kernel = _read_kernel(op) if op.op_type in params["ops"] else ()
    # A kernel is [..., height, width].
    if kernel and kernel[-1] > params["width"]:
        return f"kernel width {kernel[-1]} > {params['width']}"
    return (
        f"kernel height {kernel[-2]} > {params['height']}"
        if len(kernel) > 1 and kernel[-2] > params["height"]
        else None
    )


def stride_factors(op: OpProfile, params: Params) -> str | None:
    """A stride that is not native, or not beside another one."""
    strides = op.attributes.get("strides") or [] if op.op_type in params["ops"] else []
    # Unequal strides have a list of their own, shorter than that of equal ones.
    native = params["native"] if len(set(strides)) == 1 else params["unequal"]
    return f"stride {strides}" if any(s not in native for s in strides) else None


def constant_operand(op: OpProfile, params: Params) -> str | None:
    """A parameter of an operation that is this constant."""
    name, value = params["parameter"], params["value"]
    breaks = op.op_type == params["op"] and op.attributes.get(name) == value
    return f"{name} = {value}" if breaks else None


def palette_stride(op: OpProfile, params: Params) -> str | None:
    """A palette as the weights of a layer with too long a stride."""
    strides = op.attributes.get("strides") or [] if op.op_type in params["ops"] else []
    # No strides in the file mean strides of 1.
    if max(strides, default=1) <= params["max"]:
        return None
    kind = next((w.kind for w in op.weights if "palette" in w.kind), None)
    return f"{kind} with stride {strides}" if kind else None


def dilation_factors(op: OpProfile, params: Params) -> str | None:
    """A dilation that is not native."""
    dilations = op.attributes.get("dilations") or [] if op.op_type in params["ops"] else []
    return next((f"dilation {d}" for d in dilations if d not in params["native"]), None)


def _read_dilation(op: OpProfile) -> int:
    # The last axis is the width, along which the networks of speech dilate.
    return (op.attributes.get("dilations") or [1])[-1] if op.op_type == "conv" else 1


def dilated_taps(op: OpProfile, params: Params) -> str | None:
    """A dilated convolution with many taps."""
    # A dilation other than 1 implies a convolution, so there is a kernel to read.
    if _read_dilation(op) == 1 or _read_kernel(op)[-1] < params["min_kernel"]:
        return None
    return f"kernel {_read_kernel(op)[-1]} with dilation {_read_dilation(op)}"


def dilated_width(op: OpProfile, params: Params) -> str | None:
    """A dilated convolution whose lowered width, a few columns more than its own, is over the
    limit.
    """
    lowered = op.outputs[0].shape[-1] + params["extra"] if _read_dilation(op) > 1 else 0
    return f"lowered width {lowered} > {params['limit']}" if lowered > params["limit"] else None


def dtype(op: OpProfile, params: Params) -> str | None:
    """An operand or result of one of these types."""
    return next(
        (f"{t.dtype} '{t.name}'" for t in _list_tensors(op) if t.dtype in params["any_of"]), None
    )


def dtype_out(op: OpProfile, params: Params) -> str | None:
    """A result of one of these types."""
    return next((f"{t.dtype} '{t.name}'" for t in op.outputs if t.dtype in params["any_of"]), None)


def pad_mode(op: OpProfile, params: Params) -> str | None:
    """A padding mode of the list."""
    mode = op.attributes.get("mode", "constant") if op.op_type == "pad" else None
    return f"{mode} padding" if mode in params["modes"] else None


def pad_axes(op: OpProfile, params: Params) -> str | None:
    """Padding on an axis before the last ones."""
    amounts = op.attributes.get("pad") or [] if op.op_type == "pad" else []
    # `pad` has two numbers for each axis, so the last axes own its tail.
    before = amounts[: -2 * params["last"]] if len(amounts) > 2 * params["last"] else []
    return (
        f"padding {amounts} touches an axis before the last {params['last']}"
        if any(before)
        else None
    )


def reduced_axis(op: OpProfile, params: Params) -> str | None:
    """A reduction over too many elements."""
    if op.op_type not in params["ops"]:
        return None
    size = op.activations[0].shape[op.attributes.get("axis", -1)]
    return f"reduces {size} > {params['max']} elements" if size > params["max"] else None


def slice_offset(op: OpProfile, params: Params) -> str | None:
    """A slice that does not start at the first column."""
    begin = op.attributes.get("begin") if op.op_type in params["ops"] else None
    # begin_mask makes the start of the axis of whatever `begin` says.
    masked = bool(begin) and (op.attributes.get("begin_mask") or [False])[-1]
    return f"starts at column {begin[-1]}" if begin and begin[-1] != 0 and not masked else None


def last_axis(op: OpProfile, params: Params) -> str | None:
    """A last axis that is padded to twice its size or more."""
    # Every row of the last axis starts at a whole step.
    for tensor in _list_tensors(op):
        padded = count_padded_bytes(tensor, params["bytes"])
        # Values below a byte are weights and masks, for which the rule says nothing.
        if tensor.shape and tensor.bits >= 8 and padded >= 2 * tensor.bytes > 0:
            return (
                f"last axis {tensor.shape[-1]} of '{tensor.name}' is stored in {padded} bytes, not"
                f" {tensor.bytes}"
            )
    return None


def count_padded_bytes(tensor: Tensor, step: int) -> int:
    """Bytes of a tensor when each row of its last axis takes whole steps."""
    if not tensor.shape or not tensor.shape[-1]:
        return tensor.bytes
    row = (tensor.shape[-1] * tensor.bits + 7) // 8
    # Number of rows, times the bytes of a row rounded up to whole steps.
    return tensor.bytes // row * (-(-row // step) * step)


def working_set(op: OpProfile, params: Params) -> str | None:
    """A tensor that does not fit on the chip; its size is the chip's, not the rule's."""
    largest = max(_list_tensors(op), key=lambda t: t.bytes, default=None)
    if largest is None or largest.bytes <= params["on_chip_mib"] * 2**20:
        return None
    return f"'{largest.name}' has {largest.bytes / 2**20:.1f} MiB > {params['on_chip_mib']:g} MiB"


def weight_kind(op: OpProfile, params: Params) -> str | None:
    """A weight stored in one of these ways."""
    return next(
        (w.kind for w in op.weights if any(w.kind.startswith(s) for s in params["starts_with"])),
        None,
    )


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        # A function's name is its kind in the data file, so a new check needs this line alone.
        f.__name__: f
        for f in (
            op_types,
            axis_limit,
            rank_limit,
            rank_other,
            op_rank,
            conv_rank,
            kernel_size,
            stride_factors,
            palette_stride,
            constant_operand,
            dilation_factors,
            dilated_taps,
            dilated_width,
            dtype,
            dtype_out,
            pad_mode,
            pad_axes,
            reduced_axis,
            slice_offset,
            last_axis,
            working_set,
            weight_kind,
        )
    }
)
