"""Convolutions: conv (1-D to 3-D, grouped, dilated, strided) and conv_transpose.

    CONV["conv"].run(x, weight, strides=[1, 2], pad_type="same")

x [N, C_in, *D], weight [C_out, C_in / groups, *K] (conv) or [C_in, C_out / groups, *K]
(conv_transpose), bias [C_out]. Definitions: coremltools 9.0, mil/ops/defs/iOS15/conv.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional as F

from mlprogram.errors import ProgramError
from mlprogram.fourier import can_convolve_row, convolve_row
from mlprogram.ops.kernel import kernel


def compute_padding(
    pad_type: str,
    pad: Sequence[int] | None,
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
) -> list[tuple[int, int]]:
    """(before, after) for every spatial axis; `kernel` is the effective one, dilation included.

    `same` puts the odd element after, `same_lower` before. Raises ProgramError for another pad type
    than valid, custom, same, same_lower.
    """
    if pad_type == "valid":
        return [(0, 0)] * len(size)
    if pad_type == "custom":
        pad = pad or [0] * 2 * len(size)
        return [(pad[2 * i], pad[2 * i + 1]) for i in range(len(size))]
    if pad_type not in ("same", "same_lower"):
        raise ProgramError(
            f"pad type '{pad_type}' is unknown; one of valid, custom, same, same_lower"
        )
    # The rule of TensorFlow: ceil(n / s) windows, and padding for what they lack.
    totals = [
        max(0, s * -(-n // s) - n + k - s) for n, k, s in zip(size, kernel, strides, strict=True)
    ]
    if pad_type == "same":
        return [(t // 2, t - t // 2) for t in totals]
    return [(t - t // 2, t // 2) for t in totals]


def order_pads(pairs: Sequence[tuple[int, int]]) -> list[int]:
    """The pairs in the order torch.nn.functional.pad wants: last axis first."""
    return [n for pair in reversed(pairs) for n in pair]


_CONV = (torch.conv1d, torch.conv2d, torch.conv3d)
_FEW = 16  # channels; below, the channels-last kernels gain nothing
_LONG = 7  # places of a row's kernel, from which they pay for the copies
_CONV_TRANSPOSE = (torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d)


def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    strides: list[int] | None = None,
    pad_type: str = "valid",
    pad: list[int] | None = None,
    dilations: list[int] | None = None,
    groups: int = 1,
) -> Tensor:
    """[N, C_out, *D_out]. Symmetric padding is left to the convolution, the rest is added before
    it.
    """
    rank = x.dim() - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    # The effective kernel counts the gaps of the dilation: (k - 1) d + 1.
    kernel_size = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
    pads = compute_padding(pad_type, pad, x.shape[2:], kernel_size, strides)
    if any(before != after for before, after in pads):
        x = F.pad(x, order_pads(pads))
        pads = [(0, 0)] * rank
    padding = [before for before, _ in pads]
    channels_last = rank == 2 and is_channels_last(weight.shape, x.shape[2], groups)
    # (B, C, 1, S): the 1-D kernels are faster
    is_row = rank == 2 and x.shape[2] == 1 and weight.shape[2] == 1 and padding[0] == 0
    if is_row or rank == 1:
        # [N, C, S] -> [N, C, 1, S], and the weights likewise
        row, taps = (t.unsqueeze(2) if rank == 1 else t for t in (x, weight))
        if can_convolve_row(row, taps, strides[-1], groups):
            y = convolve_row(row, taps, bias, padding[-1], dilations[-1])
            return y.squeeze(2) if rank == 1 else y
    if is_row and not channels_last:
        # [N, C, 1, S] -> [N, C, S], and weights [C_out, C_in, 1, K] -> [C_out, C_in, K]
        y = torch.conv1d(
            x[:, :, 0], weight[:, :, 0], bias, strides[1:], padding[1:], dilations[1:], groups
        )
        return y.unsqueeze(2)  # [N, C_out, 1, S_out]
    # these kernels are faster for several rows and long kernels, more so where C is no multiple of
    # 16
    if channels_last:
        x, weight = (t.to(memory_format=torch.channels_last) for t in (x, weight))
    return _CONV[rank - 1](x, weight, bias, strides, padding, dilations, groups)


def with_bias(y: Tensor, bias: Tensor | None) -> Tensor:
    """y [N, C, *D] and a bias [C], if there is one."""
    # [C] -> [C, 1, ...], which lines up with axis 1 of y
    return y if bias is None else y + bias.reshape(-1, *[1] * (y.dim() - 2))


def is_channels_last(weight_shape: Sequence[int], height: int | None, groups: int) -> bool:
    """Whether a two-dimensional convolution runs on tensors stored with their channels last: the
    planner stores such weights so at load.
    """
    if groups > 1 or min(weight_shape[:2]) < _FEW:
        return False
    # A short kernel of one row goes to the 1-D kernels and needs no other order.
    several = weight_shape[2] > 1 or (height is not None and height > 1)
    # A kernel of one place gains nothing by it, and small networks would pay for the copies.
    return max(weight_shape[2:]) > 1 if several else weight_shape[3] >= _LONG


def conv_transpose(
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
    """[N, C_out, *D_out]: the full transposed convolution, cropped (or grown at the end) to the
    size the parameters ask for.
    """
    rank = x.dim() - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    kernel_size = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
    # Samples lie s apart, and each spreads over k places.
    full = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], strides, kernel_size, strict=True)]
    same = (
        [n * s for n, s in zip(x.shape[2:], strides, strict=True)] if pad_type == "same" else None
    )
    # output_shape counts batch and channels too.
    sizes = output_shape[2:] if output_shape else same
    crops = _compute_crops(pad_type, pad, full, sizes)
    # PyTorch cuts the same number at both ends; what is left to cut, or to grow, is done behind it.
    # A negative crop means growth, of which PyTorch's padding knows nothing.
    padding = [min(pair) if min(pair) >= 0 else 0 for pair in crops]
    rest = [(before - p, after - p) for (before, after), p in zip(crops, padding, strict=True)]
    y = _CONV_TRANSPOSE[rank - 1](x, weight, bias, strides, padding, 0, groups, dilations)
    if not any(n for pair in rest for n in pair):
        return y
    if all(n >= 0 for pair in rest for n in pair) or bias is None:
        # F.pad with negative numbers crops.
        return F.pad(y, [-n for n in order_pads(rest)])
    # past the last input sample there is only the bias
    # The bias is taken off before the zeros are added, so that the new places hold it alone.
    grown = F.pad(y - bias.reshape(-1, *[1] * rank), [-n for n in order_pads(rest)])
    return grown + bias.reshape(-1, *[1] * rank)


def _compute_crops(
    pad_type: str, pad: list[int] | None, full: list[int], sizes: list[int] | None
) -> list[tuple[int, int]]:
    """(before, after) to cut from the full output; negative where it must grow."""
    rank = len(full)
    if pad_type == "custom":
        pad = pad or [0] * 2 * rank
        # The padding before is fixed; with a size given, what is left over is cut behind.
        return [
            (pad[2 * i], full[i] - pad[2 * i] - sizes[i] if sizes else pad[2 * i + 1])
            for i in range(rank)
        ]
    if sizes is None:
        return [(0, 0)] * rank
    totals = [f - w for f, w in zip(full, sizes, strict=True)]
    # `same` cuts half at either end, the odd sample behind; any growth is behind.
    return [(max(t, 0) // 2, t - max(t, 0) // 2) if pad_type == "same" else (0, t) for t in totals]


CONV = MappingProxyType({"conv": kernel(conv), "conv_transpose": kernel(conv_transpose)})


_AVG = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)
_MAX = (F.max_pool1d, F.max_pool2d, F.max_pool3d)


def avg_pool(
    x: Tensor,
    kernel_sizes: list[int],
    pad_type: str,
    strides: list[int] | None = None,
    pad: list[int] | None = None,
    exclude_padding_from_average: bool = False,
    ceil_mode: bool = False,
    beyond: float = 0.0,
) -> Tensor:
    """Mean over each window; the divisor counts padding unless it is excluded. What ceil_mode needs
    beyond it counts by the definition not at all; no file sets `beyond`.
    """
    pads, extra, strides = plan_windows(x.shape, kernel_sizes, pad_type, strides, pad, ceil_mode)
    # [1, 1, *D] ones stand for the real values, so that one pooling counts each window.
    inside = torch.ones(1, 1, *x.shape[2:], dtype=x.dtype)
    padding = 0.0 if exclude_padding_from_average else 1.0
    counted = F.pad(F.pad(inside, order_pads(pads), value=padding), extra, value=padding * beyond)
    # Both means divide by the full window, which cancels in the quotient.
    total = _AVG[x.dim() - 3](F.pad(F.pad(x, order_pads(pads)), extra), kernel_sizes, strides)
    return total / _AVG[x.dim() - 3](counted, kernel_sizes, strides)


def l2_pool(
    x: Tensor,
    kernel_sizes: list[int],
    pad_type: str,
    strides: list[int] | None = None,
    pad: list[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Square root of the sum of squares over each window."""
    pads, extra, strides = plan_windows(x.shape, kernel_sizes, pad_type, strides, pad, ceil_mode)
    mean = _AVG[x.dim() - 3](
        F.pad(F.pad(x.square(), order_pads(pads)), extra), kernel_sizes, strides
    )
    # The mean times the size of the window is the sum.
    return (mean * math.prod(kernel_sizes)).sqrt()


def max_pool(
    x: Tensor,
    kernel_sizes: list[int],
    pad_type: str,
    strides: list[int] | None = None,
    pad: list[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Maximum over each window."""
    pads, extra, strides = plan_windows(x.shape, kernel_sizes, pad_type, strides, pad, ceil_mode)
    return _MAX[x.dim() - 3](
        # Minus infinity never wins, so padding leaves the maximum alone.
        F.pad(F.pad(x, order_pads(pads), value=-math.inf), extra, value=-math.inf),
        kernel_sizes,
        strides,
    )


def plan_windows(
    shape: Sequence[int],
    kernel_sizes: list[int],
    pad_type: str,
    strides: list[int] | None = None,
    pad: list[int] | None = None,
    ceil_mode: bool = False,
) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Padding of the definition, the further padding ceil_mode needs (in the order of F.pad), and
    the strides.
    """
    strides = strides or [1] * len(kernel_sizes)
    pads = compute_padding(pad_type, pad, shape[2:], kernel_sizes, strides)
    extra = []
    for size, (before, after), k, s in zip(shape[2:], pads, kernel_sizes, strides, strict=True):
        padded = size + before + after
        # ceil_mode adds a last window that is filled only in part.
        count = (padded - k + (s - 1 if ceil_mode else 0)) // s + 1
        # as in PyTorch, no window begins in the padding behind the values
        if ceil_mode and (count - 1) * s >= size + before and before + after > 0:
            count -= 1
        extra.append((0, max(0, (count - 1) * s + k - padded)))
    return pads, order_pads(extra), strides


POOL = MappingProxyType(
    {"avg_pool": kernel(avg_pool), "l2_pool": kernel(l2_pool), "max_pool": kernel(max_pool)}
)
