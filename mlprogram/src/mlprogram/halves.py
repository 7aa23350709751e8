"""Functions of one fp16 tensor as tables: what each of the 65,536 halves becomes, computed in
float64 and rounded once.

    table = tabulate(torch.sin)  # fp16 [65536], in the order of the halves' bits
    look_up(x, table)  # x fp16 [...] -> fp16 [...]

PyTorch and the libraries behind it choose their kernels by the processor, and these differ in the
last bits of fp32: of all halves, gelu has 403 other values where oneDNN computes it. A kernel of
float64 errs by 2^-50 of a value, and no half lies so near to where the rounding turns, so a table
is the same on every processor (mlprogram/tests/test_processors.py). A look-up takes one to two
times as long as PyTorch's kernel of fp16, and less than fp32 with its copies.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

# 2^15 indices of 32 bits are 128 KiB.
_PART = 2**15  # values


def list_halves() -> Tensor:
    """All 65,536 values of fp16, infinities and NaN included, in the order of their bits."""
    # The bits are counted up and then read as halves: row i of a table belongs to bit pattern i.
    return torch.arange(2**16, dtype=torch.int32).to(torch.uint16).view(torch.float16)


def tabulate(function: Callable[[Tensor], Tensor]) -> Tensor:
    """The table of a function that computes each value by itself."""
    values = function(list_halves().double()).numpy()
    # PyTorch rounds float64 to fp32 on the way to fp16, NumPy at once
    with np.errstate(over="ignore"):
        return torch.from_numpy(values.astype(np.float16))


def look_up(x: Tensor, table: Tensor) -> Tensor:
    """The table's value for each value of an fp16 tensor, stored in the order of x."""
    if x.numel() <= _PART:
        bits = x.view(torch.uint16).int()
        # bits has no gaps: one row of memory, whatever the order of its axes
        row = table.index_select(0, bits.as_strided((bits.numel(),), (1,)))
        return row.as_strided(bits.shape, bits.stride())
    # In parts, so that the indices, which are of 32 bits, stay in the cache: a whole tensor of them
    # is fresh memory in every call, whose first touch takes longer than the look-up.
    # empty_like drops the gaps of x but keeps the order of its axes.
    y = torch.empty_like(x)
    # a tensor with gaps in memory is looked up in its place in the result
    source = x if x.stride() == y.stride() else y.copy_(x)
    # Both views run over memory, not over axes, so that value i of x meets place i of y.
    bits, row = (t.as_strided((t.numel(),), (1,)) for t in (source.view(torch.uint16), y))
    for part, values in zip(bits.split(_PART), row.split(_PART), strict=True):
        # The look-up writes straight into the result, with no tensor between them.
        torch.index_select(table, 0, part.int(), out=values)
    return y
