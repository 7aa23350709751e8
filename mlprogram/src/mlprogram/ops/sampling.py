"""Sampling of an image [B, C, H, W] at computed places: resample, affine, crop_resize.

    SAMPLING["resample"].run(
        x, coordinates, sampling_mode="bilinear", padding_mode="border", padding_value=0.0,
        coordinates_mode="unnormalized", align_corners=True
    )

Definitions: coremltools 9.0, mil/ops/defs/iOS15/image_resizing.py and later versions.
"""

from __future__ import annotations

import math
from types import MappingProxyType

import torch
from torch import Tensor

from mlprogram.ops.kernel import kernel

SAMPLING_MODES = (
    "STRICT_ALIGN_CORNERS",
    "ALIGN_CORNERS",
    "DEFAULT",
    "OFFSET_CORNERS",
    "UNALIGN_CORNERS",
)


def compute_grid(size: float, count: int, mode: str) -> Tensor:
    """Places in [0, size - 1] that `count` samples are taken at, float64 [count], for a sampling
    mode of resize_bilinear.
    """
    i = torch.arange(count, dtype=torch.float64)
    if mode in ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS"):
        # One sample has no distance between samples to divide by.
        if count == 1:
            return torch.full(
                (1,), (size - 1) / 2 if mode == "ALIGN_CORNERS" else 0.0, dtype=torch.float64
            )
        # The first and the last sample fall on the first and the last pixel.
        places = i * (size - 1) / (count - 1)
    elif mode == "DEFAULT":
        # No half pixel is added, so the first sample falls on the first pixel.
        places = i * size / count
    elif mode == "OFFSET_CORNERS":
        places = (i + 0.5) * max(1, size - 1) / count
    elif mode == "UNALIGN_CORNERS":
        # Half a pixel makes the centres of both grids line up.
        places = (i + 0.5) * size / count - 0.5
    else:
        raise ValueError(f"sampling mode '{mode}' is unknown; one of {', '.join(SAMPLING_MODES)}")
    return places.clamp(0, size - 1)


def sample_linear(x: Tensor, axis: int, places: Tensor) -> Tensor:
    """Linear interpolation of one axis at fractional places."""
    low = places.floor().long()
    # The last place has no right neighbour, and needs none: its share is 0.
    high = (low + 1).clamp(max=x.shape[axis] - 1)
    shape = [1] * x.dim()
    shape[axis] = -1
    share = (places - low).to(x.dtype).reshape(shape)
    left, right = x.index_select(axis, low), x.index_select(axis, high)
    # One product in place of two; at share 0 it gives `left` exactly.
    return left + (right - left) * share


def sample_nearest(x: Tensor, axis: int, count: int) -> Tensor:
    """Nearest neighbour below: place floor(i size / count)."""
    size = x.shape[axis]
    if count == size:
        return x
    if count % size == 0:
        # The same places as below, for a whole factor, without a tensor of indices.
        return x.repeat_interleave(count // size, axis)
    return x.index_select(axis, torch.arange(count) * size // count)


def upsample_nearest_neighbor(
    x: Tensor, scale_factor_height: float = 1, scale_factor_width: float = 1
) -> Tensor:
    """[..., floor(H fh), floor(W fw)]."""
    x = sample_nearest(x, -2, math.floor(x.shape[-2] * scale_factor_height))
    return sample_nearest(x, -1, math.floor(x.shape[-1] * scale_factor_width))


def resize_nearest_neighbor(x: Tensor, target_size_height: int, target_size_width: int) -> Tensor:
    """[..., H', W']."""
    return sample_nearest(sample_nearest(x, -2, target_size_height), -1, target_size_width)


def upsample_bilinear(
    x: Tensor,
    scale_factor_height: float = 1,
    scale_factor_width: float = 1,
    align_corners: bool = True,
    half_pixel_centers: bool | None = None,
) -> Tensor:
    """[..., floor(H fh), floor(W fw)]; half_pixel_centers defaults to the opposite of
    align_corners.
    """
    centers = not align_corners if half_pixel_centers is None else half_pixel_centers
    mode = "STRICT_ALIGN_CORNERS" if align_corners else "UNALIGN_CORNERS" if centers else "DEFAULT"
    return resize_bilinear(
        x,
        math.floor(x.shape[-2] * scale_factor_height),
        math.floor(x.shape[-1] * scale_factor_width),
        mode,
    )


def resize_bilinear(
    x: Tensor,
    target_size_height: int = 1,
    target_size_width: int = 1,
    sampling_mode: str = "DEFAULT",
) -> Tensor:
    """[..., H', W']."""
    x = sample_linear(x, x.dim() - 2, compute_grid(x.shape[-2], target_size_height, sampling_mode))
    return sample_linear(
        x, x.dim() - 1, compute_grid(x.shape[-1], target_size_width, sampling_mode)
    )


def resize(
    x: Tensor,
    shape: list[int],
    resized_dims: int,
    interpolation_mode: str = "LINEAR",
    sampling_mode: str = "DEFAULT",
) -> Tensor:
    """The last `resized_dims` axes get the last sizes of `shape`, 0 for no change; nearest takes
    the grid rounded, halves down.
    """
    for axis, count in zip(
        range(x.dim() - resized_dims, x.dim()), shape[len(shape) - resized_dims :], strict=True
    ):
        count = count or x.shape[axis]
        if interpolation_mode == "NEAREST_NEIGHBOR":
            # ceil(p - 1/2) takes a place between two pixels down.
            x = x.index_select(
                axis, (compute_grid(x.shape[axis], count, sampling_mode) - 0.5).ceil().long()
            )
        else:
            x = sample_linear(x, axis, compute_grid(x.shape[axis], count, sampling_mode))
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


def resample(
    x: Tensor,
    coordinates: Tensor,
    sampling_mode: str,
    padding_mode: str,
    padding_value: float,
    coordinates_mode: str,
    align_corners: bool,
) -> Tensor:
    """x at (x, y) places [B, H', W', 2] -> [B, C, H', W']."""
    # An fp16 coordinate can tell no more than 2,048 pixels apart, so the rest runs in float64.
    places = coordinates.to(torch.float64)
    column = _convert_places(places[..., 0], x.shape[3], coordinates_mode, align_corners)
    row = _convert_places(places[..., 1], x.shape[2], coordinates_mode, align_corners)
    if sampling_mode == "nearest":
        # halves up
        return _read_pixel(
            x, (row + 0.5).floor(), (column + 0.5).floor(), padding_mode, padding_value
        )
    return _sample_bilinear(x, row, column, padding_mode, padding_value)


def affine(
    x: Tensor,
    transform_matrix: Tensor,
    output_height: int,
    output_width: int,
    sampling_mode: str,
    padding_mode: str,
    padding_value: float,
    coordinates_mode: str,
    align_corners: bool,
) -> Tensor:
    """x seen through x' = a0 x + a1 y + a2, y' = b0 x + b1 y + b2; matrix [B or 1, 6] -> [B, C, H',
    W'].
    """
    # linspace of one step would give -1; a single sample belongs in the middle.
    rows = (
        torch.linspace(-1, 1, output_height, dtype=torch.float64)
        if output_height > 1
        else torch.zeros(1, dtype=torch.float64)
    )
    columns = (
        torch.linspace(-1, 1, output_width, dtype=torch.float64)
        if output_width > 1
        else torch.zeros(1, dtype=torch.float64)
    )
    v, u = torch.meshgrid(rows, columns, indexing="ij")
    # [B or 1, 6] -> [B, 6, 1, 1]
    a = transform_matrix.to(torch.float64).expand(x.shape[0], 6)[:, :, None, None]
    # [B, H', W', 2]
    places = torch.stack(
        [a[:, 0] * u + a[:, 1] * v + a[:, 2], a[:, 3] * u + a[:, 4] * v + a[:, 5]], -1
    )
    return resample(
        x, places, sampling_mode, padding_mode, padding_value, coordinates_mode, align_corners
    )


def crop_resize(
    x: Tensor,
    roi: Tensor | None = None,
    boxes: Tensor | None = None,
    box_indices: Tensor | None = None,
    target_height: int = 1,
    target_width: int = 1,
    normalized_coordinates: bool = False,
    spatial_scale: float = 1.0,
    box_coordinate_mode: str = "CORNERS_HEIGHT_FIRST",
    sampling_mode: str = "DEFAULT",
    pad_value: float = 0.0,
) -> Tensor:
    """Each box cut out and resized bilinearly; a sample outside the image is pad_value whole, a box
    may run backwards.

    iOS 17: boxes [N, 4], box_indices [N] -> [N, C, H', W']. Before: roi [N, 1, 4, 1, 1] (every
    image) -> [N, B, C, H', W'], or [N, 1, 5, 1, 1] (image index first) -> [N, 1, C, H', W'].
    """
    modes = (
        target_height,
        target_width,
        normalized_coordinates,
        spatial_scale,
        box_coordinate_mode,
        sampling_mode,
        pad_value,
    )
    if boxes is not None:
        images = range(len(boxes)) if box_indices is None else box_indices.tolist()
        return torch.cat(
            [_cut_box(x[i : i + 1], box, *modes) for i, box in zip(images, boxes, strict=True)]
        )
    if roi is None:
        raise ValueError("crop_resize needs boxes or roi")
    rows = roi.flatten(1)  # [N, 4 or 5]
    if rows.shape[1] == 4:
        # Each box cuts all images: N of [B, C, H', W'] are stacked.
        return torch.stack([_cut_box(x, box, *modes) for box in rows])
    return torch.stack(
        [_cut_box(x[int(row[0]) : int(row[0]) + 1], row[1:], *modes) for row in rows]
    )


def _cut_box(
    x: Tensor,
    box: Tensor,
    height: int,
    width: int,
    normalized: bool,
    scale: float,
    convention: str,
    sampling: str,
    pad: float,
) -> Tensor:
    # float64, because fp16 corners would move by pixels once they are scaled.
    a, b, c, d = (box.to(torch.float64) * scale).tolist()
    if convention.endswith("WIDTH_FIRST"):
        a, b, c, d = b, a, d, c  # height before width
    top, left, bottom, right = (
        (a - c / 2, b - d / 2, a + c / 2, b + d / 2)
        if convention.startswith("CENTER")
        else (a, b, c, d)
    )
    if normalized:
        # 1 means the centre of the last pixel, not its far edge.
        top, bottom, left, right = (
            top * (x.shape[2] - 1),
            bottom * (x.shape[2] - 1),
            left * (x.shape[3] - 1),
            right * (x.shape[3] - 1),
        )
    rows = _compute_box_grid(top, bottom, height, sampling, x.shape[2])
    columns = _compute_box_grid(left, right, width, sampling, x.shape[3])
    # [B, H', W']
    row, column = (
        places.expand(len(x), -1, -1) for places in torch.meshgrid(rows, columns, indexing="ij")
    )
    # One coordinate outside is enough to make the whole sample pad_value.
    inside = (row >= 0) & (row <= x.shape[2] - 1) & (column >= 0) & (column <= x.shape[3] - 1)
    return torch.where(
        inside.unsqueeze(1),
        # The border mode only serves neighbours with no weight; samples outside are replaced.
        _sample_bilinear(x, row, column, "border", pad),
        torch.tensor(pad, dtype=x.dtype),
    )


def _compute_box_grid(first: float, last: float, count: int, mode: str, size: int) -> Tensor:
    """The grid of a sampling mode, for the interval [first, last] in place of [0, size - 1].

    The modes that align corners walk an inverted interval backwards. The others divide its length;
    where it has none the whole axis stands in for it, which is what the one case of coremltools'
    tests expects.
    """
    if mode.endswith("ALIGN_CORNERS") and mode != "UNALIGN_CORNERS":
        if count == 1:
            return torch.tensor(
                [(first + last) / 2 if mode == "ALIGN_CORNERS" else first], dtype=torch.float64
            )
        return first + torch.arange(count, dtype=torch.float64) * (last - first) / (count - 1)
    # Pixels counted, both ends included.
    length = last - first + 1
    return (
        first + compute_grid(length, count, mode) if length > 0 else compute_grid(size, count, mode)
    )


def _convert_places(places: Tensor, size: int, mode: str, align_corners: bool) -> Tensor:
    """Coordinates in pixels, the centre of the first pixel at 0."""
    if mode == "unnormalized":
        return places
    share = (places + 1) / 2 if mode == "normalized_minus_one_to_one" else places
    # With aligned corners 0 and 1 are centres of pixels, else outer edges.
    return share * (size - 1) if align_corners else share * size - 0.5


def _sample_bilinear(x: Tensor, row: Tensor, column: Tensor, mode: str, value: float) -> Tensor:
    top, left = row.floor(), column.floor()
    # [B, H', W'] -> [B, 1, H', W'], one share for all channels
    down, right = (row - top).to(x.dtype).unsqueeze(1), (column - left).to(x.dtype).unsqueeze(1)
    upper = (
        _read_pixel(x, top, left, mode, value) * (1 - right)
        + _read_pixel(x, top, left + 1, mode, value) * right
    )
    lower = (
        _read_pixel(x, top + 1, left, mode, value) * (1 - right)
        + _read_pixel(x, top + 1, left + 1, mode, value) * right
    )
    return upper * (1 - down) + lower * down


def _read_pixel(x: Tensor, row: Tensor, column: Tensor, mode: str, value: float) -> Tensor:
    """x[b, :, row[b], column[b]] with the padding mode outside: [B, C, H', W']."""
    height, width = x.shape[2:]
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    batch = torch.arange(len(x)).reshape(-1, 1, 1)
    # Index arrays with a slice between them put their axes first: [B, H', W', C].
    y = x[batch, :, _fold_places(row, height, mode), _fold_places(column, width, mode)].movedim(
        -1, 1
    )
    return (
        torch.where(inside.unsqueeze(1), y, torch.tensor(value, dtype=x.dtype))
        if mode == "constant"
        else y
    )


def _fold_places(place: Tensor, size: int, mode: str) -> Tensor:
    place = place.long()
    if mode in ("constant", "border"):
        return place.clamp(0, size - 1)
    # `reflection` mirrors at the centre of the edge pixel, `symmetric` repeats that pixel
    if mode == "reflection":
        # A walk there and back over the axis has 2 (size - 1) steps.
        place = place.remainder(max(2 * (size - 1), 1))
        return torch.where(place < size, place, 2 * (size - 1) - place)
    if mode == "symmetric":
        place = place.remainder(2 * size)
        return torch.where(place < size, place, 2 * size - 1 - place)
    raise ValueError(
        f"padding mode '{mode}' is unknown; one of constant, border, reflection, symmetric"
    )


SAMPLING = MappingProxyType(
    {"affine": kernel(affine), "crop_resize": kernel(crop_resize), "resample": kernel(resample)}
)
