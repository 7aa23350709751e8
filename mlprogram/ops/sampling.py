"""Sampling of an image [B, C, H, W] at computed places: resample, affine, crop_resize.

    SAMPLING["resample"].run(x, coordinates, sampling_mode="bilinear", padding_mode="border", padding_value=0.0,
                             coordinates_mode="unnormalized", align_corners=True)

Definitions: coremltools 9.0, mil/ops/defs/iOS15/image_resizing.py and later versions.
"""

from __future__ import annotations

from types import MappingProxyType

import torch
from torch import Tensor

from mlprogram.ops.kernel import kernel
from mlprogram.ops.resize import grid


def resample(
    x: Tensor, coordinates: Tensor, sampling_mode: str, padding_mode: str, padding_value: float, coordinates_mode: str, align_corners: bool
) -> Tensor:
    """x at (x, y) places [B, H', W', 2] -> [B, C, H', W']."""
    places = coordinates.to(torch.float64)
    column = _pixels(places[..., 0], x.shape[3], coordinates_mode, align_corners)
    row = _pixels(places[..., 1], x.shape[2], coordinates_mode, align_corners)
    if sampling_mode == "nearest":
        return _pixel(x, (row + 0.5).floor(), (column + 0.5).floor(), padding_mode, padding_value)  # halves up
    return _bilinear(x, row, column, padding_mode, padding_value)


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
    """x seen through x' = a0 x + a1 y + a2, y' = b0 x + b1 y + b2; matrix [B or 1, 6] -> [B, C, H', W']."""
    rows = torch.linspace(-1, 1, output_height, dtype=torch.float64) if output_height > 1 else torch.zeros(1, dtype=torch.float64)
    columns = torch.linspace(-1, 1, output_width, dtype=torch.float64) if output_width > 1 else torch.zeros(1, dtype=torch.float64)
    v, u = torch.meshgrid(rows, columns, indexing="ij")
    a = transform_matrix.to(torch.float64).expand(x.shape[0], 6)[:, :, None, None]
    places = torch.stack([a[:, 0] * u + a[:, 1] * v + a[:, 2], a[:, 3] * u + a[:, 4] * v + a[:, 5]], -1)  # [B, H', W', 2]
    return resample(x, places, sampling_mode, padding_mode, padding_value, coordinates_mode, align_corners)


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
    """Each box cut out and resized bilinearly; a sample outside the image is pad_value whole, a box may run backwards.

    iOS 17: boxes [N, 4], box_indices [N] -> [N, C, H', W']. Before: roi [N, 1, 4, 1, 1] (every image) -> [N, B, C, H', W'], or
    [N, 1, 5, 1, 1] (image index first) -> [N, 1, C, H', W'].
    """
    modes = (target_height, target_width, normalized_coordinates, spatial_scale, box_coordinate_mode, sampling_mode, pad_value)
    if boxes is not None:
        images = range(len(boxes)) if box_indices is None else box_indices.tolist()
        return torch.cat([_crop(x[i : i + 1], box, *modes) for i, box in zip(images, boxes, strict=True)])
    if roi is None:
        raise ValueError("crop_resize needs boxes or roi")
    rows = roi.flatten(1)  # [N, 4 or 5]
    if rows.shape[1] == 4:
        return torch.stack([_crop(x, box, *modes) for box in rows])
    return torch.stack([_crop(x[int(row[0]) : int(row[0]) + 1], row[1:], *modes) for row in rows])


def _crop(
    x: Tensor, box: Tensor, height: int, width: int, normalized: bool, scale: float, convention: str, sampling: str, pad: float
) -> Tensor:
    a, b, c, d = (box.to(torch.float64) * scale).tolist()
    if convention.endswith("WIDTH_FIRST"):
        a, b, c, d = b, a, d, c  # height before width
    top, left, bottom, right = (a - c / 2, b - d / 2, a + c / 2, b + d / 2) if convention.startswith("CENTER") else (a, b, c, d)
    if normalized:
        top, bottom, left, right = top * (x.shape[2] - 1), bottom * (x.shape[2] - 1), left * (x.shape[3] - 1), right * (x.shape[3] - 1)
    rows = _box_grid(top, bottom, height, sampling, x.shape[2])
    columns = _box_grid(left, right, width, sampling, x.shape[3])
    row, column = (places.expand(len(x), -1, -1) for places in torch.meshgrid(rows, columns, indexing="ij"))  # [B, H', W']
    inside = (row >= 0) & (row <= x.shape[2] - 1) & (column >= 0) & (column <= x.shape[3] - 1)
    return torch.where(inside.unsqueeze(1), _bilinear(x, row, column, "border", pad), torch.tensor(pad, dtype=x.dtype))


def _box_grid(first: float, last: float, count: int, mode: str, size: int) -> Tensor:
    """The grid of a sampling mode, for the interval [first, last] in place of [0, size - 1].

    The modes that align corners walk an inverted interval backwards. The others divide its length; where it has none the whole axis
    stands in for it, which is what the one case of coremltools' tests expects.
    """
    if mode.endswith("ALIGN_CORNERS") and mode != "UNALIGN_CORNERS":
        if count == 1:
            return torch.tensor([(first + last) / 2 if mode == "ALIGN_CORNERS" else first], dtype=torch.float64)
        return first + torch.arange(count, dtype=torch.float64) * (last - first) / (count - 1)
    length = last - first + 1
    return first + grid(length, count, mode) if length > 0 else grid(size, count, mode)


def _pixels(places: Tensor, size: int, mode: str, align_corners: bool) -> Tensor:
    """Coordinates in pixels, the centre of the first pixel at 0."""
    if mode == "unnormalized":
        return places
    share = (places + 1) / 2 if mode == "normalized_minus_one_to_one" else places
    return share * (size - 1) if align_corners else share * size - 0.5


def _bilinear(x: Tensor, row: Tensor, column: Tensor, mode: str, value: float) -> Tensor:
    top, left = row.floor(), column.floor()
    down, right = (row - top).to(x.dtype).unsqueeze(1), (column - left).to(x.dtype).unsqueeze(1)
    upper = _pixel(x, top, left, mode, value) * (1 - right) + _pixel(x, top, left + 1, mode, value) * right
    lower = _pixel(x, top + 1, left, mode, value) * (1 - right) + _pixel(x, top + 1, left + 1, mode, value) * right
    return upper * (1 - down) + lower * down


def _pixel(x: Tensor, row: Tensor, column: Tensor, mode: str, value: float) -> Tensor:
    """x[b, :, row[b], column[b]] with the padding mode outside: [B, C, H', W']."""
    height, width = x.shape[2:]
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    batch = torch.arange(len(x)).reshape(-1, 1, 1)
    y = x[batch, :, _folded(row, height, mode), _folded(column, width, mode)].movedim(-1, 1)
    return torch.where(inside.unsqueeze(1), y, torch.tensor(value, dtype=x.dtype)) if mode == "constant" else y


def _folded(place: Tensor, size: int, mode: str) -> Tensor:
    place = place.long()
    if mode in ("constant", "border"):
        return place.clamp(0, size - 1)
    if mode == "reflection":
        place = place.remainder(max(2 * (size - 1), 1))
        return torch.where(place < size, place, 2 * (size - 1) - place)
    if mode == "symmetric":
        place = place.remainder(2 * size)
        return torch.where(place < size, place, 2 * size - 1 - place)
    raise ValueError(f"padding mode '{mode}' is unknown; one of constant, border, reflection, symmetric")


SAMPLING = MappingProxyType({"affine": kernel(affine), "crop_resize": kernel(crop_resize), "resample": kernel(resample)})
