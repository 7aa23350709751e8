"""Operations of MIL that move values and compute nothing, in PyTorch.

LAYOUT["slice_by_index"](call)
"""

from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional as F

from bench.coreai.call import Call, Lowering


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
    axes = {a % x.dim() for a in call.attribute("axes", [i for i, n in enumerate(x.shape) if n == 1])}
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
    """begin to end by stride; a mask says that an end of the axis is meant, a squeezed axis keeps the value at begin."""
    x = call.tensor("x")
    rank = x.dim()
    begin, end, stride = call.attribute("begin"), call.attribute("end"), call.attribute("stride", [1] * rank)
    from_first, to_last, squeezed = (call.attribute(f"{name}_mask", [False] * rank) for name in ("begin", "end", "squeeze"))
    if min(stride) < 1:
        raise call.refuse("a backward stride")
    spans = []
    for i in range(rank):
        first = None if from_first[i] else begin[i]
        spans.append(begin[i] if squeezed[i] else slice(first, None if to_last[i] else end[i], stride[i]))
    return x[tuple(spans)]


def gather(call: Call) -> Tensor:
    """x[..., indices, ...] along one axis; the indices are not negative."""
    if call.attribute("batch_dims", 0):
        raise call.refuse("batch_dims")
    x, indices = call.tensor("x"), call.tensor("indices")
    axis = call.attribute("axis", 0) % x.dim()
    return x.index_select(axis, indices.flatten().int()).reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def pad(call: Call) -> Tensor:
    """A constant around the last axes; MIL names them from the first on, PyTorch from the last."""
    mode, widths = call.attribute("mode", "constant"), call.attribute("pad")
    if mode != "constant":
        raise call.refuse(f"mode {mode}")
    pairs = [widths[i : i + 2] for i in range(0, len(widths), 2)]
    return F.pad(call.tensor("x"), [n for pair in reversed(pairs) for n in pair], value=call.attribute("constant_val", 0.0))


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
