"""Resizing of the last axes: nearest and linear, by factor or to a size.

    RESIZE["resize_bilinear"].run(x, target_size_height=5, target_size_width=7, sampling_mode="UNALIGN_CORNERS")

Definitions: coremltools 9.0, mil/ops/defs/iOS15/image_resizing.py (whose notes give the grid of each sampling mode) and later versions.
Each axis is interpolated on its own; grids are computed in float64.
"""

from __future__ import annotations

import math
from types import MappingProxyType

import torch
from torch import Tensor

from mlprogram.ops.kernel import kernel

SAMPLING_MODES = ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS", "UNALIGN_CORNERS")


def grid(size: float, count: int, mode: str) -> Tensor:
    """Places in [0, size - 1] that `count` samples are taken at, float64 [count], for a sampling mode of resize_bilinear."""
    i = torch.arange(count, dtype=torch.float64)
    if mode in ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS"):
        if count == 1:
            return torch.full((1,), (size - 1) / 2 if mode == "ALIGN_CORNERS" else 0.0, dtype=torch.float64)
        places = i * (size - 1) / (count - 1)
    elif mode == "DEFAULT":
        places = i * size / count
    elif mode == "OFFSET_CORNERS":
        places = (i + 0.5) * max(1, size - 1) / count
    elif mode == "UNALIGN_CORNERS":
        places = (i + 0.5) * size / count - 0.5
    else:
        raise ValueError(f"sampling mode '{mode}' is unknown; one of {', '.join(SAMPLING_MODES)}")
    return places.clamp(0, size - 1)


def linear_along(x: Tensor, axis: int, places: Tensor) -> Tensor:
    """Linear interpolation of one axis at fractional places."""
    low = places.floor().long()
    high = (low + 1).clamp(max=x.shape[axis] - 1)
    shape = [1] * x.dim()
    shape[axis] = -1
    share = (places - low).to(x.dtype).reshape(shape)
    left, right = x.index_select(axis, low), x.index_select(axis, high)
    return left + (right - left) * share


def nearest_along(x: Tensor, axis: int, count: int) -> Tensor:
    """Nearest neighbour below: place floor(i size / count)."""
    size = x.shape[axis]
    if count == size:
        return x
    if count % size == 0:
        return x.repeat_interleave(count // size, axis)
    return x.index_select(axis, torch.arange(count) * size // count)


def upsample_nearest_neighbor(x: Tensor, scale_factor_height: float = 1, scale_factor_width: float = 1) -> Tensor:
    """[..., floor(H fh), floor(W fw)]."""
    x = nearest_along(x, -2, math.floor(x.shape[-2] * scale_factor_height))
    return nearest_along(x, -1, math.floor(x.shape[-1] * scale_factor_width))


def resize_nearest_neighbor(x: Tensor, target_size_height: int, target_size_width: int) -> Tensor:
    """[..., H', W']."""
    return nearest_along(nearest_along(x, -2, target_size_height), -1, target_size_width)


def upsample_bilinear(
    x: Tensor,
    scale_factor_height: float = 1,
    scale_factor_width: float = 1,
    align_corners: bool = True,
    half_pixel_centers: bool | None = None,
) -> Tensor:
    """[..., floor(H fh), floor(W fw)]; half_pixel_centers defaults to the opposite of align_corners."""
    centers = not align_corners if half_pixel_centers is None else half_pixel_centers
    mode = "STRICT_ALIGN_CORNERS" if align_corners else "UNALIGN_CORNERS" if centers else "DEFAULT"
    return resize_bilinear(x, math.floor(x.shape[-2] * scale_factor_height), math.floor(x.shape[-1] * scale_factor_width), mode)


def resize_bilinear(x: Tensor, target_size_height: int = 1, target_size_width: int = 1, sampling_mode: str = "DEFAULT") -> Tensor:
    """[..., H', W']."""
    x = linear_along(x, x.dim() - 2, grid(x.shape[-2], target_size_height, sampling_mode))
    return linear_along(x, x.dim() - 1, grid(x.shape[-1], target_size_width, sampling_mode))


def resize(x: Tensor, shape: list[int], resized_dims: int, interpolation_mode: str = "LINEAR", sampling_mode: str = "DEFAULT") -> Tensor:
    """The last `resized_dims` axes get the last sizes of `shape`, 0 for no change; nearest takes the grid rounded, halves down."""
    for axis, count in zip(range(x.dim() - resized_dims, x.dim()), shape[len(shape) - resized_dims :], strict=True):
        count = count or x.shape[axis]
        if interpolation_mode == "NEAREST_NEIGHBOR":
            x = x.index_select(axis, (grid(x.shape[axis], count, sampling_mode) - 0.5).ceil().long())
        else:
            x = linear_along(x, axis, grid(x.shape[axis], count, sampling_mode))
    return x


RESIZE = MappingProxyType(
    {
        "resize": kernel(resize),
        "resize_bilinear": kernel(resize_bilinear),
        "resize_nearest_neighbor": kernel(resize_nearest_neighbor, half=True),
        "upsample_bilinear": kernel(upsample_bilinear),
        "upsample_nearest_neighbor": kernel(upsample_nearest_neighbor, half=True),
    }
)
