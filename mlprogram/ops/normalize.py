"""Normalizations.

    NORMALIZE["instance_norm"].run(x, gamma=g, beta=b, epsilon=1e-5)

Definitions: coremltools 9.0, mil/ops/defs/iOS15/normalization.py.
"""

from __future__ import annotations

from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional as F

from mlprogram.ops.kernel import kernel


def batch_norm(
    x: Tensor, mean: Tensor, variance: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None, epsilon: float = 1e-5
) -> Tensor:
    """gamma (x - mean) / sqrt(variance + epsilon) + beta per channel (axis 1)."""
    return F.batch_norm(x, mean, variance, gamma, beta, training=False, eps=epsilon)


def instance_norm(x: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None, epsilon: float = 1e-5) -> Tensor:
    """batch_norm with the mean and (biased) variance of each sample and channel."""
    if x[0, 0].numel() > 1:
        return F.instance_norm(x, weight=gamma, bias=beta, eps=epsilon)
    y = torch.zeros_like(x)  # one value is its own mean; PyTorch refuses it
    return y if beta is None else y + beta.reshape(-1, *[1] * (x.dim() - 2))


def layer_norm(
    x: Tensor, axes: list[int] | None = None, gamma: Tensor | None = None, beta: Tensor | None = None, epsilon: float = 1e-5
) -> Tensor:
    """gamma (x - mean) / sqrt(variance + epsilon) + beta over `axes`; gamma and beta have the shape of those axes, in their order in x."""
    axes = sorted(a % x.dim() for a in axes) if axes is not None else list(range(x.dim()))
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


def local_response_norm(x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
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
