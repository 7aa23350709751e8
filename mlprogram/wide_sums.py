"""Sums of products in float64, rounded once to the declared fp16: the kernels under precision="declared64".

    Program("KokoroVocoder.mlpackage", precision="declared64")(inputs)

`declared` rounds at the same places but sums in float32, in PyTorch's order. What parts the two is the order of additions alone, so their
agreement is the most that a package lets two correct fp16 executions agree by (50 dB of real Kokoro's vocoder, docs/mlprogram.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from mlprogram.ops.conv import CONV
from mlprogram.ops.kernel import Kernel
from mlprogram.ops.linear import LINEAR

SUMS = {**CONV, **{name: LINEAR[name] for name in ("linear", "matmul")}}


def in_float64(run: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function on float64 copies of its tensors."""

    def wide(**given: Any) -> Tensor:
        return run(**{name: value.double() if torch.is_tensor(value) else value for name, value in given.items()})

    return wide


WIDE_SUMS: MappingProxyType[str, Kernel] = MappingProxyType({name: replace(own, run=in_float64(own.run)) for name, own in SUMS.items()})
