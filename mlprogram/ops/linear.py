"""Products of matrices: linear, matmul, einsum, attention.

    LINEAR["matmul"].run(x, y, transpose_y=True)

Definitions: coremltools 9.0, mil/ops/defs/iOS15/linear.py and iOS18/transformers.py.
"""

from __future__ import annotations

from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional as F

from mlprogram.ops.kernel import Tensors, kernel


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [..., D_in], weight [D_out, D_in], bias [D_out] -> [..., D_out]; integers beside floats become floats."""
    if x.dtype != weight.dtype or (bias is not None and bias.dtype != x.dtype):
        x, weight = _alike(x, weight)
        bias = bias if bias is None else bias.to(x.dtype)
    return F.linear(x, weight, bias)


def matmul(x: Tensor, y: Tensor, transpose_x: bool = False, transpose_y: bool = False) -> Tensor:
    """x [..., M, K], y [..., K, N] -> [..., M, N]; a flag swaps the last two axes first; integers beside floats become floats."""
    x, y = _alike(x, y)
    return torch.matmul(x.mT if transpose_x else x, y.mT if transpose_y else y)


def _alike(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the type that holds both."""
    if x.dtype == y.dtype:
        return x, y
    wide = torch.result_type(x, y)
    return x.to(wide), y.to(wide)


def einsum(values: Tensors, equation: str) -> Tensor:
    """Einstein summation of two tensors; axes of size 1 broadcast."""
    return torch.einsum(equation, *values)


def attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None) -> Tensor:
    """softmax(query key^T / sqrt(E) + mask) value; query [B..., L, E], key [B..., S, E], value [B..., S, V].

    A bool mask is true where to look, a float mask is added.
    """
    scores = torch.matmul(query, key.mT) / query.shape[-1] ** 0.5  # [B..., L, S]
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, float("-inf"))
    elif attn_mask is not None:
        scores = scores + attn_mask
    return torch.matmul(torch.softmax(scores, -1), value)


LINEAR = MappingProxyType(
    {
        "einsum": kernel(einsum),
        "linear": kernel(linear),
        "matmul": kernel(matmul),
        "scaled_dot_product_attention": kernel(attention),
    }
)
