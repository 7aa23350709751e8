"""Sums of products in float64, rounded where they were: the kernels under precision="declared64" and "core_ai64".

    Program("KokoroVocoder.mlpackage", precision="declared64")(inputs)

`declared` and `core_ai` round at the same places but sum in float32, in PyTorch's order. What parts two is the order of additions alone,
so their agreement is the most that a package lets two correct fp16 executions agree by (50 dB of real Kokoro's vocoder, docs/mlprogram.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from mlprogram.core_ai_numerics import CORE_AI_KERNELS
from mlprogram.ops.conv import CONV
from mlprogram.ops.kernel import Kernel
from mlprogram.ops.linear import LINEAR


def in_float64(run: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function on float64 copies of its tensors."""

    def wide(**given: Any) -> Tensor:
        return run(**{name: value.double() if torch.is_tensor(value) else value for name, value in given.items()})

    return wide


def widened(kernels: Mapping[str, Kernel]) -> Mapping[str, Kernel]:
    """The same kernels with sums in float64."""
    return MappingProxyType({name: replace(own, run=in_float64(own.run)) for name, own in kernels.items()})


PRODUCTS = {name: LINEAR[name] for name in ("linear", "matmul")}
WIDE_SUMS = widened({**CONV, **PRODUCTS})
CORE_AI_WIDE_SUMS = widened({**PRODUCTS, **CORE_AI_KERNELS})
