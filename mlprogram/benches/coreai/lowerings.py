"""Every bridged operation of MIL in PyTorch: elementwise and reductions, what moves values, layers.

ELEMENTWISE["mul"](call), LAYOUT["concat"](call), LAYERS["conv"](call)

Operations that are one in MIL and several in PyTorch (a root of a sum, a norm) are computed in fp32
and rounded once.
"""

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops import while_loop
from torch.nn import functional as F

from mlprogram.benches.coreai.bridge import Call, Lowering

DTYPES = MappingProxyType(
    {
        f"{kind}{bits}": getattr(torch, f"{kind}{bits}")
        for kind in ("int", "uint")
        for bits in (8, 16, 32)
    }
    | {"fp16": torch.float16, "fp32": torch.float32, "bool": torch.bool}
)
GELU = MappingProxyType({"EXACT": "none", "TANH_APPROXIMATION": "tanh"})
ROOT_EPSILON, LOG_EPSILON = 1e-12, 1e-45  # MIL's defaults
ENDS = ("", "_back")  # of the names of a bidirectional layer's parameters


def of_two(compute: Callable[[Any, Any], Tensor]) -> Lowering:
    """x and y, either of which may be a number."""
    return lambda call: compute(call.operand("x"), call.operand("y"))


def of_one(compute: Callable[[Tensor], Tensor]) -> Lowering:
    """x alone."""
    return lambda call: compute(call.tensor("x"))


def reduced(compute: Callable[..., Tensor]) -> Lowering:
    """compute(x, axes, keep_dims), all axes where none is given."""

    def lowered(call: Call) -> Tensor:
        x = call.tensor("x")
        return compute(
            x,
            call.attribute("axes", list(range(x.dim()))),
            bool(call.attribute("keep_dims", False)),
        )

    return lowered


def real_div(call: Call) -> Tensor:
    """Of floats; integers divide otherwise."""
    x, y = call.operand("x"), call.operand("y")
    if not any(isinstance(v, Tensor) and v.is_floating_point() for v in (x, y)):
        raise call.refuse("a quotient of integers")
    return x / y  # type: ignore[return-value]  # one of them is a tensor


def rsqrt(call: Call) -> Tensor:
    """1 / sqrt(x + epsilon)."""
    x = call.tensor("x")
    return torch.rsqrt(x.float() + call.attribute("epsilon", ROOT_EPSILON)).to(x.dtype)


def log(call: Call) -> Tensor:
    """ln(x + epsilon)."""
    x = call.tensor("x")
    return torch.log(x.float() + call.attribute("epsilon", LOG_EPSILON)).to(x.dtype)


def l2_norm(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    """sqrt(sum(x^2))."""
    return x.float().square().sum(axes, keepdim=keep).sqrt().to(x.dtype)


def maximum(x: Any, y: Any) -> Tensor:
    """The larger of two, a number among them or not."""
    numbers = [v for v in (x, y) if not isinstance(v, Tensor)]
    return (
        torch.maximum(x, y)
        if not numbers
        else (x if isinstance(x, Tensor) else y).clamp(min=numbers[0])
    )


def cast(call: Call) -> Tensor:
    """Floats to integers: towards zero."""
    dtype = DTYPES[call.attribute("dtype")]
    return call.tensor("x").to(call.half if dtype == torch.float16 else dtype)


def gelu(call: Call) -> Tensor:
    """Exact, or by a hyperbolic tangent."""
    mode = call.attribute("mode", "EXACT")
    if mode not in GELU:
        raise call.refuse(f"mode {mode}")
    return F.gelu(call.tensor("x"), approximate=GELU[mode])


def cumsum(call: Call) -> Tensor:
    """From the first on, itself included."""
    if call.attribute("exclusive", False) or call.attribute("reverse", False):
        raise call.refuse("exclusive or reverse")
    x = call.tensor("x")
    return torch.cumsum(x, call.attribute("axis", 0), dtype=x.dtype)


ELEMENTWISE: Mapping[str, Lowering] = MappingProxyType(
    {
        "add": of_two(operator.add),
        "sub": of_two(operator.sub),
        "mul": of_two(operator.mul),
        "real_div": real_div,
        "maximum": of_two(maximum),
        "greater": of_two(operator.gt),
        "greater_equal": of_two(operator.ge),
        "not_equal": of_two(operator.ne),
        "select": lambda call: torch.where(
            call.tensor("cond"), call.operand("a"), call.operand("b")
        ),
        "sin": of_one(torch.sin),
        "cos": of_one(torch.cos),
        "exp": of_one(torch.exp),
        "log": log,
        "rsqrt": rsqrt,
        "relu": of_one(torch.relu),
        "sigmoid": of_one(torch.sigmoid),
        "tanh": of_one(torch.tanh),
        "gelu": gelu,
        "leaky_relu": lambda call: F.leaky_relu(call.tensor("x"), call.attribute("alpha", 0.01)),
        "clip": lambda call: call.tensor("x").clamp(
            call.attribute("alpha"), call.attribute("beta")
        ),
        "softmax": lambda call: F.softmax(call.tensor("x"), call.attribute("axis", -1)),
        "cumsum": cumsum,
        "cast": cast,
        "reduce_mean": reduced(lambda x, axes, keep: x.mean(axes, keepdim=keep)),
        "reduce_sum": reduced(lambda x, axes, keep: x.sum(axes, keepdim=keep, dtype=x.dtype)),
        "reduce_max": reduced(lambda x, axes, keep: torch.amax(x, axes, keepdim=keep)),
        "reduce_min": reduced(lambda x, axes, keep: torch.amin(x, axes, keepdim=keep)),
        "reduce_l2_norm": reduced(l2_norm),
    }
)


def concat(call: Call) -> Tensor:
    """Along one axis, one after the other."""
    if call.attribute("interleave", False):
        raise call.refuse("interleave")
    return torch.cat(call.tensors("values"), dim=call.attribute("axis"))


def expand_dims(call: Call) -> Tensor:
    """New axes of length 1, counted in the result."""
    x = call.tensor("x")
    axes = call.attribute("axes")
    for axis in sorted(a % (x.dim() + len(axes)) for a in axes):
        x = x.unsqueeze(axis)
    return x


def squeeze(call: Call) -> Tensor:
    """Without the axes of length 1, all of them where none is named."""
    x = call.tensor("x")
    axes = {
        a % x.dim() for a in call.attribute("axes", [i for i, n in enumerate(x.shape) if n == 1])
    }
    return x.reshape([n for i, n in enumerate(x.shape) if i not in axes])


def reshape(call: Call) -> Tensor:
    """0 keeps the length of that axis, -1 takes the rest."""
    x = call.tensor("x")
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(call.attribute("shape"))])


def split(call: Call) -> tuple[Tensor, ...]:
    """Into parts of given lengths, or into so many equal ones."""
    x, axis = call.tensor("x"), call.attribute("axis")
    if call.has("split_sizes"):
        return torch.split(x, call.attribute("split_sizes"), axis)
    return torch.chunk(x, call.attribute("num_splits"), axis)


def slice_by_index(call: Call) -> Tensor:
    """begin to end by stride; a mask says that an end of the axis is meant, a squeezed axis keeps
    the value at begin.
    """
    x = call.tensor("x")
    rank = x.dim()
    begin, end, stride = (
        call.attribute("begin"),
        call.attribute("end"),
        call.attribute("stride", [1] * rank),
    )
    from_first, to_last, squeezed = (
        call.attribute(f"{name}_mask", [False] * rank) for name in ("begin", "end", "squeeze")
    )
    if min(stride) < 1:
        raise call.refuse("a backward stride")
    spans = []
    for i in range(rank):
        first = None if from_first[i] else begin[i]
        spans.append(
            begin[i] if squeezed[i] else slice(first, None if to_last[i] else end[i], stride[i])
        )
    return x[tuple(spans)]


def gather(call: Call) -> Tensor:
    """x[..., indices, ...] along one axis; the indices are not negative."""
    if call.attribute("batch_dims", 0):
        raise call.refuse("batch_dims")
    x, indices = call.tensor("x"), call.tensor("indices")
    axis = call.attribute("axis", 0) % x.dim()
    return x.index_select(axis, indices.flatten().int()).reshape(
        *x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]
    )


def pad(call: Call) -> Tensor:
    """A constant around the last axes; MIL names them from the first on, PyTorch from the last."""
    mode, widths = call.attribute("mode", "constant"), call.attribute("pad")
    if mode != "constant":
        raise call.refuse(f"mode {mode}")
    pairs = [widths[i : i + 2] for i in range(0, len(widths), 2)]
    return F.pad(
        call.tensor("x"),
        [n for pair in reversed(pairs) for n in pair],
        value=call.attribute("constant_val", 0.0),
    )


LAYOUT: Mapping[str, Lowering] = MappingProxyType(
    {
        "concat": concat,
        "expand_dims": expand_dims,
        "squeeze": squeeze,
        "reshape": reshape,
        "transpose": lambda call: call.tensor("x").permute(call.attribute("perm")),
        "split": split,
        "slice_by_index": slice_by_index,
        "gather": gather,
        "pad": pad,
    }
)


def lstm(call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """x [T, B, I] -> output [T, B, H] or [T, B, 2 H], last h and c [B, H] or [B, 2 H]."""
    way = call.attribute("direction", "forward")
    usual = {"recurrent_activation": "sigmoid", "cell_activation": "tanh", "activation": "tanh"}
    if way not in ("forward", "bidirectional") or any(
        call.attribute(name, kind) != kind for name, kind in usual.items()
    ):
        raise call.refuse("this direction or activation")
    if call.has("clip") or call.has("peephole") or not call.attribute("output_sequence", False):
        raise call.refuse("clip, peephole or a single output")
    x, ends = call.tensor("x"), ENDS[: 1 + (way == "bidirectional")]
    first = [call.tensor(f"initial_{name}").chunk(len(ends), 1) for name in ("h", "c")]
    ways = [
        one_way(
            _gates(x, call.tensor(f"weight_ih{end}"), call.optional(f"bias{end}")),
            call.tensor(f"weight_hh{end}"),
            *(part[i] for part in first),
            backward=bool(end),
        )
        for i, end in enumerate(ends)
    ]
    output, h, c = (torch.cat(parts, -1) for parts in zip(*ways, strict=True))
    return output, h, c


def _gates(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """What the gates i, f, o, z sum up of the input: [T, B, 4 H]."""
    gates = x @ weight.t()
    return gates if bias is None else gates + bias


def one_way(
    gates: Tensor, weight: Tensor, h: Tensor, c: Tensor, *, backward: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """gates [T, B, 4 H], weight [4 H, H], first h and c [B, H] -> every h [T, B, H], the last h and
    c.
    """
    steps = torch.arange(gates.shape[0])
    count = gates.shape[0]

    def unfinished(n: Tensor, _h: Tensor, _c: Tensor, _all: Tensor) -> Tensor:
        return n < count

    def step(
        n: Tensor, h: Tensor, c: Tensor, every: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        at = (count - 1) - n if backward else n + 0
        row = gates.index_select(0, at.reshape(1))[0]  # [B, 4 H]
        i, f, o, z = (row + h @ weight.t()).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(z)
        h = torch.sigmoid(o) * torch.tanh(c)
        return n + 1, h, c, torch.where((steps == at)[:, None, None], h, every)

    blank = gates.new_zeros(*gates.shape[:2], h.shape[1])  # [T, B, H]
    first = torch.zeros((), dtype=torch.int64)
    repeat = while_loop if torch.compiler.is_exporting() else plain_loop
    _, h, c, every = repeat(unfinished, step, (first, contiguous(h), contiguous(c), blank))
    return every, h, c


def plain_loop(
    unfinished: Callable[..., Tensor],
    step: Callable[..., tuple[Tensor, ...]],
    state: tuple[Tensor, ...],
) -> tuple[Tensor, ...]:
    """What `while_loop` stands for. Outside of an export that compiles first, for a minute."""
    while unfinished(*state):
        state = step(*state)
    return state


def contiguous(state: Tensor) -> Tensor:
    """A copy of its own, laid out as the loop's results are."""
    return state.clone(memory_format=torch.contiguous_format)


def _widths(call: Call, axes: int) -> list[tuple[int, int]]:
    """(before, after) of each spatial axis."""
    kind = call.attribute("pad_type", "valid")
    if kind not in ("valid", "custom"):
        raise call.refuse(f"pad_type {kind}")
    flat = call.attribute("pad", [0] * 2 * axes) if kind == "custom" else [0] * 2 * axes
    return [(flat[2 * i], flat[2 * i + 1]) for i in range(axes)]


def conv(call: Call) -> Tensor:
    """One or two spatial axes."""
    x, weight = call.tensor("x"), call.tensor("weight")
    axes = weight.dim() - 2
    widths = _widths(call, axes)
    same = all(before == after for before, after in widths)
    if not same:
        x = F.pad(x, [n for pair in reversed(widths) for n in pair])
    ones, run = [1] * axes, {1: F.conv1d, 2: F.conv2d}[axes]
    padding = [before if same else 0 for before, _ in widths]
    strides, dilations = call.attribute("strides", ones), call.attribute("dilations", ones)
    return run(
        x, weight, call.optional("bias"), strides, padding, dilations, call.attribute("groups", 1)
    )


def conv_transpose(call: Call) -> Tensor:
    """Pad is what is cut off the full result."""
    if call.has("output_shape"):
        raise call.refuse("output_shape")
    x, weight = call.tensor("x"), call.tensor("weight")
    axes = weight.dim() - 2
    widths = _widths(call, axes)
    if any(before != after for before, after in widths):
        raise call.refuse("unequal padding")
    ones, run = [1] * axes, {1: F.conv_transpose1d, 2: F.conv_transpose2d}[axes]
    strides, dilations = call.attribute("strides", ones), call.attribute("dilations", ones)
    padding = [before for before, _ in widths]
    return run(
        x,
        weight,
        call.optional("bias"),
        strides,
        padding,
        0,
        call.attribute("groups", 1),
        dilations,
    )


def _pooled(call: Call) -> tuple[Tensor, list[int], list[int], list[int], bool]:
    kernel = call.attribute("kernel_sizes")
    if len(kernel) != 2:
        raise call.refuse(f"{len(kernel)} spatial axes")
    widths = _widths(call, 2)
    if any(before != after for before, after in widths):
        raise call.refuse("unequal padding")
    strides = call.attribute("strides", [1, 1])
    return (
        call.tensor("x"),
        kernel,
        strides,
        [before for before, _ in widths],
        bool(call.attribute("ceil_mode", False)),
    )


def max_pool(call: Call) -> Tensor:
    """Two spatial axes."""
    x, kernel, strides, padding, ceil = _pooled(call)
    return F.max_pool2d(x, kernel, strides, padding, ceil_mode=ceil)


def avg_pool(call: Call) -> Tensor:
    """Two spatial axes."""
    x, kernel, strides, padding, ceil = _pooled(call)
    return F.avg_pool2d(
        x, kernel, strides, padding, ceil, not call.attribute("exclude_padding_from_average", False)
    )


def matmul(call: Call) -> Tensor:
    """Of the last two axes, either turned first."""
    x, y = (
        call.tensor(name).transpose(-1, -2)
        if call.attribute(f"transpose_{name}", False)
        else call.tensor(name)
        for name in ("x", "y")
    )
    return torch.matmul(x, y)


def layer_norm(call: Call) -> Tensor:
    """Over the last axes."""
    x = call.tensor("x")
    axes = [a % x.dim() for a in call.attribute("axes", list(range(x.dim())))]
    if axes != list(range(x.dim() - len(axes), x.dim())):
        raise call.refuse(f"axes {axes}")
    shape = [x.shape[a] for a in axes]
    return F.layer_norm(
        x, shape, call.optional("gamma"), call.optional("beta"), call.attribute("epsilon", 1e-5)
    )


def upsample(call: Call) -> Tensor:
    """Whole factors: each value repeated."""
    factors = tuple(
        float(call.attribute(f"scale_factor_{axis}", 1)) for axis in ("height", "width")
    )
    return F.interpolate(call.tensor("x"), scale_factor=factors, mode="nearest")


def quantize(call: Call) -> Tensor:
    """Values to integers."""
    dtype = DTYPES[call.attribute("output_dtype")]
    return call.kernels.quantize(
        call.tensor("input"),
        call.tensor("scale"),
        call.optional("zero_point"),
        dtype,
        call.attribute("axis", 0),
    )


def dequantize(call: Call) -> Tensor:
    """And back."""
    return call.kernels.dequantize(
        call.tensor("input"),
        call.tensor("scale"),
        call.optional("zero_point"),
        call.attribute("axis", 0),
    )


LAYERS: Mapping[str, Lowering] = MappingProxyType(
    {
        "conv": conv,
        "conv_transpose": conv_transpose,
        "max_pool": max_pool,
        "avg_pool": avg_pool,
        "linear": lambda call: F.linear(
            call.tensor("x"), call.tensor("weight"), call.optional("bias")
        ),
        "matmul": matmul,
        "layer_norm": layer_norm,
        "upsample_nearest_neighbor": upsample,
        "lstm": lstm,
        "quantize": quantize,
        "dequantize": dequantize,
    }
)
