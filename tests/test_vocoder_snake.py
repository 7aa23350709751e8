"""Snake without sine: its error in exact and in fp16 arithmetic, its constants, and what it converts to."""

import math
from collections import Counter

import numpy as np
import torch

from core.export import TensorType, convert
from vocoder.windowed.layers import POLYNOMIAL, PolynomialSnake


def test_error_in_exact_arithmetic_is_below_fp16s_own() -> None:
    u = torch.linspace(-13, 13, 40_001, dtype=torch.float64).view(1, 1, 1, -1)  # the demo voice reaches 12.4
    exact = u + torch.sin(math.pi * u) ** 2 / math.pi
    assert (PolynomialSnake()(u) - exact).abs().max() < 4e-5
    assert all(float(np.float16(value)) == value for value in POLYNOMIAL)


def test_error_with_every_step_in_fp16() -> None:
    """Each tensor of fp16 tensors is rounded: no worse than the cosine form, 2.0e-4 (docs/neural-engine.md)."""
    u = torch.linspace(-1, 1, 20_001, dtype=torch.float64).half().view(1, 1, 1, -1)
    exact = u.double() + torch.sin(math.pi * u.double()) ** 2 / math.pi
    error = PolynomialSnake()(u).double() - exact
    assert error.square().mean().sqrt() < 2.2e-4


def test_it_converts_to_nine_operations() -> None:
    class Between(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.form, self.second = torch.nn.Conv2d(4, 4, 1), PolynomialSnake(), torch.nn.Conv2d(4, 4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.form(self.first(x)))

    sides = {"inputs": [TensorType("x", np.float32, shapes=((1, 4, 2, 8), (1, 4, 3, 8)))], "outputs": [TensorType("y", np.float32)]}
    model = convert(Between(), (torch.randn(1, 4, 2, 8),), **sides, precision="fp16", keep_fp32=(), target="iOS17")
    found = Counter(op.op_type for op in model._mil_program.functions["main"].operations)
    own = {name: count for name, count in found.items() if name not in ("const", "cast", "conv")}
    assert own == {"round": 1, "sub": 1, "mul": 4, "batch_norm": 2, "add": 1}
