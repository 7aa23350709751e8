"""Where Apple's Core AI runtime rounds on a CPU: the kernels that replace the ordinary ones under precision="core_ai".

    Program("KokoroVocoder.mlpackage", precision="core_ai")(inputs)

It holds for operations whose result is fp16. Measured with coreai-core 1.0.0b3 on Linux, each operation of real Kokoro on Core AI's own
inputs (docs/mlprogram.md#a-second-opinion-apples-core-ai-runtime): with these three rules every operation gives the same fp16 values, but
for sums taken in another order (0.2 % of a convolution's values, one unit) and the columns where tiles of a transposed convolution meet.
It says how that runtime rounds, and nothing of Core ML or of the Neural Engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from types import MappingProxyType

import torch
from torch import Tensor

from mlprogram.ops.conv import conv, conv_transpose
from mlprogram.ops.kernel import kernel


def core_ai_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    strides: list[int] | None = None,
    pad_type: str = "valid",
    pad: list[int] | None = None,
    dilations: list[int] | None = None,
    groups: int = 1,
) -> Tensor:
    """conv whose sum is rounded to fp16 before the bias is added."""
    return _with_bias(conv(x, weight, None, strides, pad_type, pad, dilations, groups).half(), bias)


def core_ai_conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    pad: list[int] | None = None,
    output_shape: list[int] | None = None,
    pad_type: str = "valid",
    strides: list[int] | None = None,
    dilations: list[int] | None = None,
    groups: int = 1,
) -> Tensor:
    """conv_transpose with sums in fp16: one product after the other, channel by channel, tap by tap; then the bias."""
    ones = [1] * (x.dim() - 2)
    grouped, kernels = x.unflatten(1, (groups, -1)), weight.unflatten(0, (groups, -1))  # [N, G, C / G, *D], [G, C / G, O / G, *K]
    total: Tensor | None = None
    for channel in range(kernels.shape[1]):
        for taps in _apart(weight.shape[2:], strides or ones, dilations or ones):
            own, whole = torch.zeros_like(kernels[:, channel]), kernels[:, channel]  # [G, O / G, *K]
            own[:, :, *taps] = whole[:, :, *taps]
            part = conv_transpose(grouped[:, :, channel], own, None, pad, output_shape, pad_type, strides, dilations, groups)
            total = part.half() if total is None else (total.float() + part).half()
    assert total is not None  # there is a channel and a tap
    return _with_bias(total, bias)


def _apart(kernel_size: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    """Taps in their order, by sets of which no two reach one output: a stride's length of each axis, one where it is dilated."""
    lengths = [stride if dilation == 1 else 1 for stride, dilation in zip(strides, dilations, strict=True)]
    starts = [range(0, size, length) for size, length in zip(kernel_size, lengths, strict=True)]
    for first in product(*starts):
        yield tuple(slice(start, start + length) for start, length in zip(first, lengths, strict=True))


def _with_bias(y: Tensor, bias: Tensor | None) -> Tensor:
    return y.float() if bias is None else y.float() + bias.reshape(-1, *[1] * (y.dim() - 2))


def core_ai_leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """leaky_relu whose alpha is an fp16 number."""
    return torch.where(x >= 0, x, x * torch.tensor(alpha).half().item())


CORE_AI_KERNELS = MappingProxyType(
    {"conv": kernel(core_ai_conv), "conv_transpose": kernel(core_ai_conv_transpose), "leaky_relu": kernel(core_ai_leaky_relu)}
)
