"""Models of others' arithmetic: kernels that replace the ordinary ones.

    # the Neural Engine, pessimistically
    Program("Model.mlpackage", precision="ane_numerics")(inputs)

ane_numerics: fp32 operations do not run on the engine. Two sources disagree about its accumulator:
ane-guide measured a wide one behind fp16 ports (M1), LAI reports losses that look like fp16
accumulation. A verdict should be the worst of `declared` (wide) and this (narrow). Nothing here was
measured by this project; every constant names its source. Not modelled: NaN turned into infinity at
the input and indeterminate forms flushed to zero (a NaN stays visible here), denormals flushed in
sums, activation tables (ane-guide: within 0.006, about half a unit in the last place), the seams of
atan (their place is not published). Sources: ane-guide = sbryngelson/ane-guide,
part-1-machine/03-numerics.md (arXiv 2606.22283); LAI = laishere/kokoro-coreml.

declared64 takes sums of products in fp64. Both replace operations whose result is fp16.

device computes in every type what Core ML's runtime was reported to compute where that is not its
own definition (the table in CHOICES.md has the reports).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from mlprogram.ops.conv import CONV, avg_pool, conv, conv_transpose, with_bias
from mlprogram.ops.elementwise import power
from mlprogram.ops.kernel import Kernel, Tensors, kernel
from mlprogram.ops.layout import slice_by_index
from mlprogram.ops.linear import LINEAR


@dataclass(frozen=True)
class AneModel:
    """The constants of the model."""

    # input channels (or terms of a dot product) between roundings to fp16; LAI gives no number,
    # chosen here
    block: int = 32
    # A sum of two or more products this large leaves the array as infinity: 2^15 on M1 and A14
    # (ane-guide); 32,752 for matmul on M1 to M5, by a publication whose address is not known
    sum_limit: float = 2.0**15
    exp_limit: float = 11.094  # ln 65504: exp gives infinity from here (ane-guide)
    log_of_zero: float = -45440.0  # what log gives at zero (ane-guide)
    # worst error of sin and cos at the seams of their argument reduction, 0.04 to 0.12 (ane-guide)
    seam_error: float = 0.12
    # how far from an odd multiple of pi: one of the table's 32 segments over [-pi, pi] (chosen
    # here)
    seam_reach: float = math.pi / 16
    # a slice that starts inside the last axis is multiplied and divided by this (ane-guide, M1 and
    # A14)
    slice_gain: float = 16.0
    fp16_max: float = 65504.0


ANE = AneModel()


def _accumulate(parts: Iterator[Tensor], terms: int) -> Tensor:
    """Sum of partial sums in fp16, infinite from `sum_limit` on; the sum of one product is
    exempt.
    """
    total: Tensor | None = None
    for part in parts:
        # Each addition is one fp32 sum of two halves, rounded to fp16, as a narrow accumulator does
        # it.
        total = part.half() if total is None else (total.float() + part.half().float()).half()
        if terms > 1:
            # The limit holds for every running sum, not only for the last one.
            total = torch.where(total.abs() >= ANE.sum_limit, total.sign() * math.inf, total)
    assert total is not None  # every sum has a first block
    return total.float()


def _split_blocks(size: int) -> list[slice]:
    return [slice(start, start + ANE.block) for start in range(0, size, ANE.block)]


def ane_conv(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, groups: int = 1, **how: Any
) -> Tensor:
    """conv, accumulated over blocks of input channels."""
    # The groups' sums are apart, so a block takes the same channels of each of them.
    grouped = x.unflatten(1, (groups, -1))  # [N, groups, C_in / groups, *D]
    parts = (
        # [N, groups, block, *D] -> [N, groups * block, *D], the order that a grouped conv expects
        conv(grouped[:, :, b].flatten(1, 2), weight[:, b], groups=groups, **how)
        for b in _split_blocks(weight.shape[1])
    )
    # The bias joins in fp32, after the last rounding; the executor rounds once more.
    return with_bias(_accumulate(parts, weight[0].numel()), bias)


def ane_conv_transpose(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, groups: int = 1, **how: Any
) -> Tensor:
    """conv_transpose, accumulated over blocks of input channels."""
    # [N, groups, C_in / groups, *D] and [groups, C_in / groups, C_out / groups, *K]
    grouped, kernels = x.unflatten(1, (groups, -1)), weight.unflatten(0, (groups, -1))
    parts = (
        conv_transpose(
            grouped[:, :, b].flatten(1, 2), kernels[:, b].flatten(0, 1), groups=groups, **how
        )
        for b in _split_blocks(kernels.shape[1])
    )
    # The number of terms only tells a sum from a single product.
    return with_bias(_accumulate(parts, weight[:, 0].numel() // groups), bias)


def ane_matmul(
    x: Tensor, y: Tensor, transpose_x: bool = False, transpose_y: bool = False
) -> Tensor:
    """matmul, accumulated over blocks of the inner axis."""
    x, y = x.mT if transpose_x else x, y.mT if transpose_y else y
    inner = x.shape[-1]
    # A vector y has its inner axis first, a matrix last but one.
    rows = -2 if y.dim() > 1 else 0
    parts = (
        # [..., M, block] x [..., block, N] -> [..., M, N]
        torch.matmul(x[..., b], y.narrow(rows, b.start, min(ANE.block, inner - b.start)))
        for b in _split_blocks(inner)
    )
    return _accumulate(parts, inner)


def ane_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """linear, accumulated over blocks of input features."""
    # [D_out, D_in] -> [D_in, D_out]
    y = ane_matmul(x, weight.T)
    return y if bias is None else y + bias


def ane_einsum(values: Tensors, equation: str) -> Tensor:
    """einsum with one rounding of the sum, infinite from `sum_limit` on."""
    # An equation has no one axis to cut into blocks, so only the limit is modelled.
    return _accumulate(iter([torch.einsum(equation, *values)]), 2)


def ane_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None
) -> Tensor:
    """Attention as two engine matmuls around a softmax in fp32."""
    # [..., L, E] x [..., E, S] -> [..., L, S]
    scores = ane_matmul(query, key, transpose_y=True) / query.shape[-1] ** 0.5
    if attn_mask is not None:
        scores = (
            scores.masked_fill(~attn_mask, -math.inf)
            if attn_mask.dtype == torch.bool
            else scores + attn_mask
        )
    # The weights pass through fp16 between the softmax and the second product.
    return ane_matmul(torch.softmax(scores, -1).half().float(), value)


def ane_exp(x: Tensor) -> Tensor:
    """exp, infinite from `exp_limit` on."""
    return torch.where(x >= ANE.exp_limit, math.inf, torch.exp(x))


def ane_log(x: Tensor, epsilon: float = 1e-45) -> Tensor:
    """log, a finite number at zero."""
    y = torch.log(x + epsilon)
    # What counts as zero is decided in fp16, where the default epsilon vanishes.
    return torch.where((x + epsilon).half() == 0, ANE.log_of_zero, y)


def ane_sin(x: Tensor) -> Tensor:
    """sin with the table's error near odd multiples of pi."""
    return (torch.sin(x) + _compute_seam(x)).clamp(-1, 1)


def ane_cos(x: Tensor) -> Tensor:
    """cos with the table's error near odd multiples of pi."""
    return (torch.cos(x) + _compute_seam(x)).clamp(-1, 1)


def _compute_seam(x: Tensor) -> Tensor:
    """A triangle of height seam_error over each seam: the worst published error, always of one
    sign.
    """
    # The remainder lies in [0, 2 pi), where pi is the one odd multiple.
    distance = (x.remainder(2 * math.pi) - math.pi).abs()
    return ANE.seam_error * (1 - distance / ANE.seam_reach).clamp(min=0)


def ane_slice_by_index(
    x: Tensor, begin: list[int], begin_mask: list[bool] | None = None, **how: Any
) -> Tensor:
    """slice_by_index; one that starts inside the last axis overflows above fp16_max /
    slice_gain.
    """
    y = slice_by_index(x, begin, begin_mask=begin_mask, **how)
    # A slice from the start of the last axis is not multiplied, and integers cannot overflow so.
    if begin[-1] == 0 or (begin_mask and begin_mask[-1]) or not y.is_floating_point():
        return y
    # 65504 / 16 = 4094 is the largest value that survives the gain.
    return torch.where(y.abs() * ANE.slice_gain > ANE.fp16_max, y.sign() * math.inf, y)


ANE_KERNELS = MappingProxyType(
    {
        "conv": kernel(ane_conv, like=conv),
        "conv_transpose": kernel(ane_conv_transpose, like=conv_transpose),
        # A pointwise kernel becomes a table of all halves, so its model costs a run nothing.
        "cos": kernel(ane_cos, pointwise=True),
        "einsum": kernel(ane_einsum),
        "exp": kernel(ane_exp, pointwise=True),
        "linear": kernel(ane_linear),
        "log": kernel(ane_log, pointwise=True),
        "matmul": kernel(ane_matmul),
        "scaled_dot_product_attention": kernel(ane_attention),
        "sin": kernel(ane_sin, pointwise=True),
        "slice_by_index": kernel(ane_slice_by_index, like=slice_by_index),
    }
)


def run_in_float64(run: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function on float64 copies of its tensors."""

    def run_wide(**arguments: Any) -> Tensor:
        return run(
            **{
                name: value.double() if torch.is_tensor(value) else value
                for name, value in arguments.items()
            }
        )

    return run_wide


def widen_sums(kernels: Mapping[str, Kernel]) -> Mapping[str, Kernel]:
    """The same kernels with sums in float64."""
    return MappingProxyType(
        {name: replace(narrow, run=run_in_float64(narrow.run)) for name, narrow in kernels.items()}
    )


# einsum, attention and the recurrent layers keep fp32 sums.
PRODUCTS = {name: LINEAR[name] for name in ("linear", "matmul")}
WIDE_SUMS = widen_sums({**CONV, **PRODUCTS})


def device_mod(x: Tensor, y: Tensor) -> Tensor:
    """The remainder of a truncated quotient."""
    return torch.fmod(x, y)


def device_pow(x: Tensor, y: Tensor) -> Tensor:
    """y * y where the base is the one number 2."""
    # A tensor of twos that has axes takes the ordinary way.
    return y * y if x.dim() == 0 and x == 2 else power(x, y)


DEVICE_KERNELS = MappingProxyType(
    {
        # what a window has beyond the padding counts in its divisor
        "avg_pool": kernel(partial(avg_pool, beyond=1.0), like=avg_pool),
        "mod": kernel(device_mod),
        "pow": kernel(device_pow),
    }
)
