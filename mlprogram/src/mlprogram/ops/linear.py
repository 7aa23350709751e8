"""Products of matrices: linear, matmul, einsum, attention.

    LINEAR["matmul"].run(x, y, transpose_y=True)

Definitions: coremltools 9.0, mil/ops/defs/iOS15/linear.py and iOS18/transformers.py.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional as F

from mlprogram.ops.kernel import Kernel, Tensors, kernel


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [..., D_in], weight [D_out, D_in], bias [D_out] -> [..., D_out]; integers beside floats
    become floats.
    """
    if x.dtype != weight.dtype or (bias is not None and bias.dtype != x.dtype):
        x, weight = _as_one_type(x, weight)
        bias = bias if bias is None else bias.to(x.dtype)
    return F.linear(x, weight, bias)


def matmul(x: Tensor, y: Tensor, transpose_x: bool = False, transpose_y: bool = False) -> Tensor:
    """x [..., M, K], y [..., K, N] -> [..., M, N]; a flag swaps the last two axes first; integers
    beside floats become floats.
    """
    x, y = _as_one_type(x, y)
    return torch.matmul(x.mT if transpose_x else x, y.mT if transpose_y else y)


def _as_one_type(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the type that holds both."""
    if x.dtype == y.dtype:
        return x, y
    wide = torch.result_type(x, y)
    return x.to(wide), y.to(wide)


def einsum(values: Tensors, equation: str) -> Tensor:
    """Einstein summation of two tensors; axes of size 1 broadcast."""
    return torch.einsum(equation, *values)


def attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None) -> Tensor:
    """softmax(query key^T / sqrt(E) + mask) value; query [B..., L, E], key [B..., S, E], value
    [B..., S, V].

    A bool mask is true where to look, a float mask is added.
    """
    scores = torch.matmul(query, key.mT) / query.shape[-1] ** 0.5  # [B..., L, S]
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        # exp(-infinity) is 0, so a masked place gets no weight at all.
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


def batch_norm(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """gamma (x - mean) / sqrt(variance + epsilon) + beta per channel (axis 1)."""
    return F.batch_norm(x, mean, variance, gamma, beta, training=False, eps=epsilon)


def instance_norm(
    x: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None, epsilon: float = 1e-5
) -> Tensor:
    """batch_norm with the mean and (biased) variance of each sample and channel."""
    if x[0, 0].numel() > 1:
        return F.instance_norm(x, weight=gamma, bias=beta, eps=epsilon)
    y = torch.zeros_like(x)  # one value is its own mean; PyTorch refuses it
    return y if beta is None else y + beta.reshape(-1, *[1] * (x.dim() - 2))


def layer_norm(
    x: Tensor,
    axes: list[int] | None = None,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """gamma (x - mean) / sqrt(variance + epsilon) + beta over `axes`; gamma and beta have the shape
    of those axes, in their order in x.
    """
    axes = sorted(a % x.dim() for a in axes) if axes is not None else list(range(x.dim()))
    # PyTorch's kernel knows the last axes alone.
    if axes == list(range(x.dim() - len(axes), x.dim())):
        return F.layer_norm(x, [x.shape[a] for a in axes], gamma, beta, epsilon)
    shape = [n if i in axes else 1 for i, n in enumerate(x.shape)]
    centered = x - x.mean(axes, keepdim=True)
    y = centered / (centered.square().mean(axes, keepdim=True) + epsilon).sqrt()
    y = y if gamma is None else y * gamma.reshape(shape)
    return y if beta is None else y + beta.reshape(shape)


def l2_norm(x: Tensor, epsilon: float = 1e-6) -> Tensor:
    """x / sqrt(sum x^2 + epsilon) over the last three axes."""
    return x / (x.square().sum((-3, -2, -1), keepdim=True) + epsilon).sqrt()


def local_response_norm(
    x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha / size sum of x^2 over `size` neighbouring channels)^beta."""
    return F.local_response_norm(x, size, alpha, beta, k)


NORMALIZE = MappingProxyType(
    {
        "batch_norm": kernel(batch_norm),
        "instance_norm": kernel(instance_norm),
        "l2_norm": kernel(l2_norm),
        "layer_norm": kernel(layer_norm),
        "local_response_norm": kernel(local_response_norm),
    }
)


def move_channels_last(x: Tensor, axes: list[int]) -> tuple[Tensor, list[int], bool]:
    """x and axes, or what they are with the channels last where they are stored so: PyTorch sums
    [N, H, W, C] ten times as fast.
    """
    # A tensor that is contiguous both ways gains nothing by the detour.
    if x.dim() != 4 or x.is_contiguous() or not x.is_contiguous(memory_format=torch.channels_last):
        return x, axes, False
    # Axis 1 of [N, C, H, W] is axis 3 of [N, H, W, C], and so on.
    return x.permute(0, 2, 3, 1), [(0, 3, 1, 2)[axis % 4] for axis in axes], True


def _make_reduction(function: Callable[[Tensor, list[int], bool], Tensor], meaning: str) -> Kernel:
    def run(x: Tensor, axes: list[int] | None = None, keep_dims: bool = False) -> Tensor:
        axes = list(range(x.dim())) if axes is None else axes
        # Without the summed axes the result would come out in another order of axes.
        if not keep_dims:
            return function(x, axes, False)
        x, axes, moved = move_channels_last(x, axes)
        result = function(x, axes, True)
        return result.permute(0, 3, 1, 2) if moved else result

    run.__doc__ = f"{meaning} over `axes`."
    return kernel(run)


def _prod(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    # From the last axis on, so that one that vanishes moves none that is still to come.
    for axis in sorted((a % x.dim() for a in axes), reverse=True):
        x = x.prod(axis, keepdim=keep)
    return x


def _mean(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return (
        # PyTorch has no mean of integers; the executor truncates the quotient.
        x.mean(axes, keepdim=keep) if x.is_floating_point() else x.double().mean(axes, keepdim=keep)
    )


def argmax(
    x: Tensor, axis: int = -1, keep_dims: bool = False, output_dtype: str = "int32"
) -> Tensor:
    """Place of the largest value along `axis`."""
    return x.argmax(axis, keepdim=keep_dims)


def argmin(
    x: Tensor, axis: int = -1, keep_dims: bool = False, output_dtype: str = "int32"
) -> Tensor:
    """Place of the smallest value along `axis`."""
    return x.argmin(axis, keepdim=keep_dims)


def cumsum(x: Tensor, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Running sum along `axis`; `exclusive` leaves the element itself out, `reverse` runs from the
    end.
    """
    ordered = x.flip(axis) if reverse else x
    total = ordered.cumsum(axis)
    # What is left after taking the element off is the sum of those before it.
    total = total - ordered if exclusive else total
    return total.flip(axis) if reverse else total


REDUCTION = MappingProxyType(
    {
        "cumsum": kernel(cumsum),
        "reduce_argmax": kernel(argmax, half=True),
        "reduce_argmin": kernel(argmin, half=True),
        "reduce_l1_norm": _make_reduction(
            lambda x, axes, keep: x.abs().sum(axes, keepdim=keep), "Sum of absolute values"
        ),
        "reduce_l2_norm": _make_reduction(
            lambda x, axes, keep: (x * x).sum(axes, keepdim=keep).sqrt(),
            "Square root of the sum of squares",
        ),
        "reduce_log_sum": _make_reduction(
            lambda x, axes, keep: x.sum(axes, keepdim=keep).log(), "Logarithm of the sum"
        ),
        "reduce_log_sum_exp": _make_reduction(
            lambda x, axes, keep: torch.logsumexp(x, axes, keepdim=keep),
            "Logarithm of the sum of exponentials",
        ),
        "reduce_max": _make_reduction(
            lambda x, axes, keep: torch.amax(x, axes, keepdim=keep), "Maximum"
        ),
        "reduce_mean": _make_reduction(_mean, "Mean"),
        "reduce_min": _make_reduction(
            lambda x, axes, keep: torch.amin(x, axes, keepdim=keep), "Minimum"
        ),
        "reduce_prod": _make_reduction(_prod, "Product"),
        "reduce_sum": _make_reduction(lambda x, axes, keep: x.sum(axes, keepdim=keep), "Sum"),
        "reduce_sum_square": _make_reduction(
            lambda x, axes, keep: (x * x).sum(axes, keepdim=keep), "Sum of squares"
        ),
    }
)
