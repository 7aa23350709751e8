"""A long row's convolution in a third of the products: the row in blocks, their Fourier transforms,
one matrix product for each coefficient, and back.

    convolve_row(x, weight, bias, padding=5, dilation=1)

A block of N places holds N - K + 1 results of a kernel of K (overlap-save). A product of complex
coefficients is three real ones (Gauss), so every step is a product of real matrices. In float32 the
result is as near to the exact one as that of a direct sum.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

_LONG = 7  # places of a kernel; from here on the transforms cost less than they save
_MANY = 64  # channels, likewise
_WORK = 1 << 27  # products of the direct sum, three milliseconds, likewise
_BLOCKS = 128  # that are transformed at once: their coefficients stay in the processor's cache


class Transforms(NamedTuple):
    """Matrices of a block length N and a kernel of K places: of a block [m, N] and of the kernel
    [m, K] to m coefficients, and from these to the results [N - K + 1, m]. The first coefficient is
    the sum.
    """

    block: Tensor
    kernel: Tensor
    results: Tensor


@cache
def compute_transforms(kernel: int) -> Transforms:
    """The transforms of about three kernels' length, which need the fewest products."""
    length = -(-(3 * kernel - 1) // 4) * 4
    places, taps = np.arange(length), np.arange(kernel)
    block, weights, results = [], [], []
    for number in range(length // 2 + 1):
        angle = 2 * np.pi * number / length
        real, imaginary = np.cos(angle * places), -np.sin(angle * places)
        # A layer's convolution is a correlation: its kernel enters conjugated.
        weight_real, weight_imaginary = np.cos(angle * taps), np.sin(angle * taps)
        inside = places[: length - kernel + 1]
        back_real, back_imaginary = np.cos(angle * inside), -np.sin(angle * inside)
        if number in (0, length // 2):
            block.append(real)
            weights.append(weight_real)
            results.append(back_real)
            continue
        # (a + bi)(c + di): with p = c (a + b), q = a (d - c), r = b (c + d) it is
        # (p - r) + (p + q)i. Each of the other half of the coefficients is the conjugate of one.
        block += [real + imaginary, real, imaginary]
        weights += [weight_real, weight_imaginary - weight_real, weight_real + weight_imaginary]
        results += [2 * (back_real + back_imaginary), 2 * back_imaginary, -2 * back_real]
    matrices = np.stack(block), np.stack(weights), np.stack(results, axis=1) / length
    return Transforms(*(torch.from_numpy(matrix).float() for matrix in matrices))


def can_convolve_row(x: Tensor, weight: Tensor, stride: int, groups: int) -> bool:
    """Whether `convolve_row` takes this convolution of two dimensions, and gains by it. A graph
    that is written down, and gradients, are of the direct sum.
    """
    # Asked first: a graph that is written down would hold the shapes that are read here.
    if torch.jit.is_tracing() or torch.compiler.is_compiling():
        return False
    return (
        x.dtype == weight.dtype == torch.float32
        and x.shape[0] == x.shape[2] == weight.shape[2] == groups == stride == 1
        and weight.shape[3] >= _LONG
        and min(weight.shape[:2]) >= _MANY
        and weight.numel() * x.shape[3] >= _WORK
        and not (torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad))
    )


def convolve_row(
    x: Tensor, weight: Tensor, bias: Tensor | None, padding: int, dilation: int
) -> Tensor:
    """x [1, C, 1, S], weight [O, C, 1, K], bias [O] -> [1, O, 1, S + 2 padding - (K - 1) dilation],
    float32 with the channels last. Where it is not finite it is PyTorch's direct sum: a block would
    spread one NaN or infinity over all of its results.
    """
    out, channels, _, kernel = weight.shape
    steps = x.shape[3] + 2 * padding - (kernel - 1) * dilation
    to_block, to_kernel, to_results = compute_transforms(kernel)
    length, inside = to_block.shape[1], len(to_results)
    # [O, m, C] as [m, C, O], and the bias in the first coefficient, which every result holds
    weights = torch.matmul(to_kernel, weight[:, :, 0].permute(0, 2, 1)).permute(1, 2, 0)
    total = None if bias is None else bias * length
    rows = x[0, :, 0].T.contiguous()  # [S, C]; free where the channels are last
    # A dilated kernel reads every `dilation`-th row, from each of as many beginnings.
    shift = inside * dilation  # rows from one block to the next
    count = -(-steps // shift)
    y = x.new_empty(count, inside, dilation, out)
    for begin in range(0, count, _BLOCKS):
        end = min(begin + _BLOCKS, count)
        first = begin * shift - padding
        last = first + (end - begin - 1) * shift + length * dilation
        read = rows[max(first, 0) : last]
        if first < 0 or last > len(rows):
            # zeros before the row and behind it
            read = F.pad(read, (0, 0, max(-first, 0), max(last - max(first, 0) - len(read), 0)))
        for phase in range(dilation):
            # [n, N, C], where blocks overlap
            blocks = read.as_strided(
                (end - begin, length, channels),
                (shift * channels, dilation * channels, 1),
                read.storage_offset() + phase * channels,
            )
            coefficients = torch.matmul(to_block, blocks).transpose(0, 1)  # [m, n, C]
            products = torch.bmm(coefficients, weights)  # [m, n, O]
            if total is not None:
                products[0] += total
            if not products[0].sum().isfinite():
                # the sum over a block holds every NaN and infinity of it
                return torch.conv2d(x, weight, bias, 1, (0, padding), (1, dilation))
            y[begin:end, :, phase] = torch.matmul(to_results, products.transpose(0, 1))
    # [n, N - K + 1, d, O] -> [1, O, 1, S']
    return y.view(1, 1, -1, out)[:, :, :steps].permute(0, 3, 1, 2)
