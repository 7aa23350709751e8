"""What compressed weights and int8 tensors mean, in plain PyTorch: the definitions that Apple's operators are put in place of.

plain = PlainKernels()
plain.quantize(x, scale, None, axis=1)  # int8 codes

The runner gives Bridge an object with the same four methods whose answers are Core AI operators, so that Apple's runtime decompresses and
rounds by itself (bench/coreai/runner.py).
"""

from typing import Protocol

import torch
from torch import Tensor


class Kernels(Protocol):
    """The operations that differ between PyTorch and Apple's runtime. Shapes broadcast: a scale has the rank of what it scales."""

    def blocks(self, data: Tensor, scale: Tensor, offset: Tensor | None) -> Tensor:
        """(data - offset) * scale; every axis of the scale divides that of the data."""

    def palette(self, indices: Tensor, lut: Tensor) -> Tensor:
        """Entries of `lut` [1 or blocks..., entries, 1] in place of `indices`."""

    def quantize(self, x: Tensor, scale: Tensor, offset: Tensor | None, dtype: torch.dtype, axis: int) -> Tensor:
        """clip(round(x / scale) + offset), the quotient in fp32, half to even."""

    def dequantize(self, codes: Tensor, scale: Tensor, offset: Tensor | None, axis: int) -> Tensor:
        """(codes - offset) * scale, in the scale's type."""


class PlainKernels:
    """In fp32, rounded once to the type that is stored."""

    def blocks(self, data: Tensor, scale: Tensor, offset: Tensor | None) -> Tensor:
        """See Kernels."""
        shift = 0.0 if offset is None else spread(offset.float(), data.shape)
        return ((data.float() - shift) * spread(scale.float(), data.shape)).to(scale.dtype)

    def palette(self, indices: Tensor, lut: Tensor) -> Tensor:
        """See Kernels."""
        blocks, entries = lut.shape[:-2], lut.shape[-2]
        which = spread(torch.arange(blocks.numel()).reshape(blocks), indices.shape)
        return lut.reshape(-1, entries)[which, indices.long()]

    def quantize(self, x: Tensor, scale: Tensor, offset: Tensor | None, dtype: torch.dtype, axis: int) -> Tensor:
        """See Kernels."""
        codes = torch.round(x.float() / along(scale.float(), axis, x.dim()))
        shifted = codes if offset is None else codes + along(offset.float(), axis, x.dim())
        limits = torch.iinfo(dtype)
        return shifted.clamp(limits.min, limits.max).to(dtype)

    def dequantize(self, codes: Tensor, scale: Tensor, offset: Tensor | None, axis: int) -> Tensor:
        """See Kernels."""
        shift = 0.0 if offset is None else along(offset.float(), axis, codes.dim())
        return ((codes.float() - shift) * along(scale.float(), axis, codes.dim())).to(scale.dtype)


def along(vector: Tensor, axis: int, rank: int) -> Tensor:
    """A scalar as it is; [n] -> [1, ..., n, ..., 1] with n at `axis`."""
    return vector if vector.dim() == 0 else vector.reshape([-1 if i == axis % rank else 1 for i in range(rank)])


def spread(blocks: Tensor, shape: torch.Size) -> Tensor:
    """Repeat each entry over its block until the tensor has `shape`."""
    for axis, size in enumerate(shape):
        blocks = blocks.repeat_interleave(size // blocks.shape[axis], dim=axis)
    return blocks
