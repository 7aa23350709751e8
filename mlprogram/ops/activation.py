"""Activations and softmax.

    ACTIVATION["gelu"].run(x, mode="TANH_APPROXIMATION")

Definitions: coremltools 9.0, mil/ops/defs/iOS15/activation.py. Per-channel parameters have shape [C] and belong to axis 1.
"""

from __future__ import annotations

from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional as F

from mlprogram.ops.kernel import kernel


def clamped_relu(x: Tensor, alpha: float, beta: float) -> Tensor:
    """min(x, beta) where x >= 0, min(alpha x, beta) elsewhere."""
    return torch.where(x >= 0, x.clamp(max=beta), (alpha * x).clamp(max=beta))


def elu(x: Tensor, alpha: float) -> Tensor:
    """x where x > 0, alpha (exp(x) - 1) elsewhere."""
    return F.elu(x, alpha)


def gelu(x: Tensor, mode: str = "EXACT") -> Tensor:
    """x Phi(x): EXACT (erf), TANH_APPROXIMATION, or SIGMOID_APPROXIMATION (x sigmoid(1.702 x))."""
    if mode == "SIGMOID_APPROXIMATION":
        wide = x.float() if x.dtype == torch.float16 else x  # several operations: no rounding in between
        return wide * torch.sigmoid(1.702 * wide)
    return F.gelu(x, approximate={"EXACT": "none", "TANH_APPROXIMATION": "tanh"}[mode])


def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """x where x >= 0, alpha x elsewhere."""
    return F.leaky_relu(x, alpha)


def linear_activation(x: Tensor, alpha: float, beta: float) -> Tensor:
    """alpha x + beta."""
    return alpha * x + beta


def prelu(x: Tensor, alpha: Tensor) -> Tensor:
    """x where x >= 0, alpha[c] x elsewhere; alpha [C] for axis 1."""
    return torch.where(x >= 0, x, _per_channel(alpha, x) * x)


def relu(x: Tensor) -> Tensor:
    """max(x, 0)."""
    return torch.relu(x)


def relu6(x: Tensor) -> Tensor:
    """min(max(x, 0), 6)."""
    return x.clamp(0, 6)


def scaled_tanh(x: Tensor, alpha: float, beta: float) -> Tensor:
    """alpha tanh(beta x)."""
    return alpha * torch.tanh(beta * x)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return torch.sigmoid(x)


def sigmoid_hard(x: Tensor, alpha: float, beta: float) -> Tensor:
    """min(max(alpha x + beta, 0), 1)."""
    return (alpha * x + beta).clamp(0, 1)


def silu(x: Tensor) -> Tensor:
    """x sigmoid(x)."""
    return F.silu(x)


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x - max) / sum along `axis`."""
    if x.dtype == torch.float16 and axis not in (-1, x.dim() - 1):  # along another axis PyTorch's fp16 kernel rounds in between
        x = x.float()
    return torch.softmax(x, axis)


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), without overflow."""
    return torch.logaddexp(x, torch.zeros((), dtype=x.dtype))


def softplus_parametric(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """alpha[c] log(1 + exp(beta[c] x))."""
    return _per_channel(alpha, x) * softplus(_per_channel(beta, x) * x)


def softsign(x: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return x / (1 + x.abs())


def thresholded_relu(x: Tensor, alpha: float) -> Tensor:
    """x where x >= alpha, 0 elsewhere."""
    return torch.where(x >= alpha, x, torch.zeros((), dtype=x.dtype))


def _per_channel(parameter: Tensor, x: Tensor) -> Tensor:
    return parameter.reshape(-1, *[1] * (x.dim() - 2))  # [C, 1, ...] lines up with axis 1


ACTIVATION = MappingProxyType(
    {
        "clamped_relu": kernel(clamped_relu),
        "elu": kernel(elu),
        "gelu": kernel(gelu, half=True),
        "leaky_relu": kernel(leaky_relu, half=True),
        "linear_activation": kernel(linear_activation),
        "prelu": kernel(prelu),
        "relu": kernel(relu, half=True),
        "relu6": kernel(relu6, half=True),
        "scaled_tanh": kernel(scaled_tanh),
        "sigmoid": kernel(sigmoid, half=True),
        "sigmoid_hard": kernel(sigmoid_hard),
        "silu": kernel(silu, half=True),
        "softmax": kernel(softmax, half=True),
        "softplus": kernel(softplus),
        "softplus_parametric": kernel(softplus_parametric),
        "softsign": kernel(softsign),
        "thresholded_relu": kernel(thresholded_relu, half=True),
    }
)
