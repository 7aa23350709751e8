"""Muon for convolution kernels: momentum, made orthogonal, so that every direction of a layer learns at the same pace.

    optimizer = Muon(kernels, lr=3e-3)

Source: Jordan et al., "Muon" (2024); scaled as in Liu et al., arXiv 2502.16982, so a step has the size of one of Adam's. A kernel
[out, in, 1, k] is the matrix [out, in k]. On two cores it needs fewer steps than Adam for the same loss (docs/demo-voice.md).
"""

from collections.abc import Iterable

import torch
from torch import Tensor

COEFFICIENTS, ITERATIONS = (3.4445, -4.7750, 2.0315), 5
ADAM_LIKE = 0.2  # Adam's usual root mean square of one step, in learning rates


class Muon(torch.optim.Optimizer):
    """Momentum with Nesterov's look-ahead, then Newton-Schulz; for tensors of two or more axes."""

    def __init__(self, parameters: Iterable[Tensor], lr: float, momentum: float = 0.95) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # no closure: nothing evaluates the loss again
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                mean = state.setdefault("momentum", torch.zeros_like(parameter))
                mean.lerp_(parameter.grad, 1 - group["momentum"])
                ahead = parameter.grad.lerp(mean, group["momentum"]).flatten(1)  # [out, in k]
                change = orthogonalized(ahead)
                scale = ADAM_LIKE * max(change.shape) ** 0.5
                parameter.add_(change.view_as(parameter), alpha=-group["lr"] * scale)


def orthogonalized(matrix: Tensor) -> Tensor:
    """Singular values brought near 1 by Newton-Schulz steps in bfloat16."""
    a, b, c = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if tall else matrix).bfloat16()
    x = x / (x.norm() + 1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.T if tall else x).to(matrix.dtype)
