"""Where Apple's Core AI runtime rounds on a CPU: the kernels that replace the ordinary ones under precision="core_ai".

    Program("KokoroVocoder.mlpackage", precision="core_ai")(inputs)

It holds for operations whose result is fp16. Measured with coreai-core 1.0.0b3 on Linux, each operation of real Kokoro on Core AI's own
inputs (docs/mlprogram.md#a-second-opinion-apples-core-ai-runtime): with these three rules every operation gives the same fp16 values, but
for a convolution's float32 sums, taken in another order (0.2 % of its values, by one unit).
It says how that runtime rounds, and nothing of Core ML or of the Neural Engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from types import MappingProxyType

import torch
from torch import Tensor

from mlprogram.ops.conv import conv, conv_transpose, with_bias
from mlprogram.ops.kernel import kernel

TILE = 8  # columns of the input that a transposed convolution takes together: measured on x86-64, strides 2, 6 and 10


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
    return with_bias(conv(x, weight, None, strides, pad_type, pad, dilations, groups).half().float(), bias)


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
    """conv_transpose with sums in fp16: one product after the other, channel by channel, tile by tile, tap by tap; then the bias."""
    ones = [1] * (x.dim() - 2)
    grouped, kernels = x.unflatten(1, (groups, -1)), weight.unflatten(0, (groups, -1))  # [N, G, C / G, *D], [G, C / G, O / G, *K]
    passes = _passes(x.shape[-1], weight.shape[2:], strides or ones, dilations or ones)
    total: Tensor | None = None
    for channel in range(kernels.shape[1]):
        for columns, taps in passes:
            own, whole = torch.zeros_like(kernels[:, channel]), kernels[:, channel]  # [G, O / G, *K]
            own[:, :, *taps] = whole[:, :, *taps]
            part = conv_transpose(grouped[:, :, channel] * columns, own, None, pad, output_shape, pad_type, strides, dilations, groups)
            total = part.half() if total is None else (total.float() + part).half()
    assert total is not None  # there is a channel and a tap
    return with_bias(total.float(), bias)


def _passes(
    width: int, kernel_size: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[tuple[Tensor, tuple[slice, ...]]]:
    """Columns of the input (1 and 0, [width]) and taps in their order, no two products of a pass for one output.

    Taps go by sets: a stride's of each axis, one where dilated. A column i and set j add to what column i + j and set 0 add to. In a tile
    sets come in their order; an earlier tile's come before.
    """
    lengths = [stride if dilation == 1 else 1 for stride, dilation in zip(strides, dilations, strict=True)]
    starts = [range(0, size, length) for size, length in zip(kernel_size, lengths, strict=True)]
    sets = [tuple(slice(start, start + length) for start, length in zip(first, lengths, strict=True)) for first in product(*starts)]
    column, before, within = torch.arange(width), [], []
    for taps in sets:
        index = taps[-1].start // lengths[-1] if dilations[-1] == 1 else 0
        earlier = column // TILE < (column + index) // TILE
        if index:
            before.append((earlier.float(), taps))
        within.append(((~earlier).float(), taps))
    return before + within


def core_ai_leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """leaky_relu whose alpha is an fp16 number."""
    return torch.where(x >= 0, x, x * torch.tensor(alpha).half().item())


CORE_AI_KERNELS = MappingProxyType(
    {"conv": kernel(core_ai_conv), "conv_transpose": kernel(core_ai_conv_transpose), "leaky_relu": kernel(core_ai_leaky_relu)}
)
