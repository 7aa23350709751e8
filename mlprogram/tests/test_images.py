"""Resizing and sampling against interpolation matrices and PyTorch's interpolate and grid_sample."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import torch
from torch.nn import functional as F

from mlprogram.tests.built import Case, check, makers, run_all, test_of

Rng = np.random.Generator
IMAGE, WIDER = (np.random.default_rng(0).normal(size=(2, 3, 4, width)) for width in (5, 6))


def interpolated(size: list[int], **more: Any) -> Callable[..., np.ndarray]:
    return lambda x, *_: F.interpolate(torch.from_numpy(x), size=size, **more).numpy()


def upsample_bilinear(fh: int, fw: int, align: bool) -> Case:
    attrs = {"scale_factor_height": fh, "scale_factor_width": fw, "align_corners": align}
    return Case({"x": IMAGE}, interpolated([4 * fh, 5 * fw], mode="bilinear", align_corners=align), attrs=attrs, ulps=2)


def upsample_nearest_neighbor(fh: float, fw: float) -> Case:
    attrs = {"scale_factor_height": fh, "scale_factor_width": fw}
    return Case({"x": WIDER}, interpolated([int(4 * fh), int(6 * fw)], mode="nearest"), attrs=attrs, fp16=False)


def resize_nearest_neighbor(h: int, w: int) -> Case:
    return Case({"x": WIDER}, interpolated([h, w], mode="nearest"), attrs={"target_size_height": h, "target_size_width": w})


def tent(size: int, places: np.ndarray) -> np.ndarray:
    """Interpolation as a matrix [count, size] of tent functions."""
    return np.clip(1 - np.abs(places[:, None] - np.arange(size)), 0, None)


def places_of(size: int, count: int, mode: str) -> np.ndarray:
    """Sampling places as coremltools' notes write them."""
    i = np.arange(count)
    if mode == "STRICT_ALIGN_CORNERS" or (mode == "ALIGN_CORNERS" and count > 1):
        p = i * ((size - 1) / max(count - 1, 1))
    elif mode == "ALIGN_CORNERS":
        p = np.array([(size - 1) / 2])
    elif mode == "DEFAULT":
        p = i * ((size - size / count) / max(count - 1, 1))
    elif mode == "OFFSET_CORNERS":
        p = 0.5 * max(1, size - 1) / count + i * max(1, size - 1) / count
    else:
        p = i * size / count + 0.5 * size / count - 0.5
    return np.clip(p, 0, size - 1)


MODES = ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS", "UNALIGN_CORNERS")


def resize_bilinear(h: int, w: int, mode: str) -> Case:
    def reference(x, *_):
        return np.einsum("nchw,ah,bw->ncab", x, tent(4, places_of(4, h, mode)), tent(5, places_of(5, w, mode)))

    return Case({"x": IMAGE}, reference, attrs={"target_size_height": h, "target_size_width": w, "sampling_mode": mode}, ulps=2)


def resize(height: int, interpolation: str, mode: str) -> Case:
    def reference(x, *_):
        if interpolation == "NEAREST_NEIGHBOR":
            return x[:, :, np.ceil(np.arange(height) * 4 / height - 0.5).astype(int)]
        return np.einsum("nchw,ah,bw->ncab", x, tent(4, places_of(4, height, mode)), tent(5, places_of(5, 5, mode)))

    attrs = {"shape": np.array([7, height, 0], np.int32), "resized_dims": np.uint32(2)}
    return Case({"x": IMAGE}, reference, attrs=attrs | {"interpolation_mode": interpolation, "sampling_mode": mode}, ulps=2)


def resample(rng: Rng) -> Case:
    sampling, align = str(rng.choice(["bilinear", "nearest"])), bool(rng.random() < 0.5)
    padding = str(rng.choice(["constant", "border", "reflection", "symmetric"]))
    align = align or padding != "constant" and padding != "border"  # grid_sample reflects about edges when corners are not aligned
    torch_padding = {"constant": "zeros", "border": "border", "reflection": "reflection", "symmetric": "reflection"}[padding]
    padding = "reflection" if torch_padding == "reflection" else padding

    def reference(x, c, *_):
        return F.grid_sample(torch.from_numpy(x), torch.from_numpy(c), sampling, torch_padding, align).numpy()

    attrs = {
        "sampling_mode": sampling,
        "padding_mode": padding,
        "padding_value": 0.0,
        "coordinates_mode": "normalized_minus_one_to_one",
        "align_corners": align,
    }
    return Case({"x": rng.normal(size=(2, 3, 4, 5)), "coordinates": rng.uniform(-1.5, 1.5, (2, 3, 2, 2))}, reference, attrs=attrs, ulps=2)


def affine(rng: Rng) -> Case:
    def reference(x, matrix, *_):
        grid = F.affine_grid(torch.from_numpy(matrix).reshape(-1, 2, 3), [2, 3, 6, 7], align_corners=True)
        return F.grid_sample(torch.from_numpy(x), grid, align_corners=True).numpy()

    attrs = {
        "output_height": 6,
        "output_width": 7,
        "sampling_mode": "bilinear",
        "padding_mode": "constant",
        "padding_value": 0.0,
        "coordinates_mode": "normalized_minus_one_to_one",
        "align_corners": True,
    }
    return Case({"x": rng.normal(size=(2, 3, 4, 5)), "transform_matrix": rng.uniform(-1, 1, (2, 6))}, reference, attrs=attrs, ulps=2)


def crop_resize(rng: Rng) -> Case:
    top, left = rng.uniform(0, 2, 2), rng.uniform(0, 2, 2)
    boxes = np.stack([top, left, top + 3, left + 2.5], 1)
    width_first, normal = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
    scale = np.array([5.0, 6.0, 5.0, 6.0]) if normal else np.ones(4)
    given = (boxes / scale)[:, [1, 0, 3, 2]] if width_first else boxes / scale

    def reference(x, given, indices, *_):
        boxes = (given[:, [1, 0, 3, 2]] if width_first else given) * scale
        rows = [
            np.einsum("chw,ah,bw->cab", x[i], tent(6, np.linspace(b[0], b[2], 4)), tent(7, np.linspace(b[1], b[3], 3)))
            for i, b in zip(indices, boxes, strict=True)
        ]
        return np.stack(rows)

    attrs = {
        "target_height": 4,
        "target_width": 3,
        "normalized_coordinates": normal,
        "sampling_mode": "STRICT_ALIGN_CORNERS",
        "box_coordinate_mode": "CORNERS_WIDTH_FIRST" if width_first else "CORNERS_HEIGHT_FIRST",
    }
    return Case(
        {"x": rng.normal(size=(2, 3, 6, 7)), "boxes": given, "box_indices": np.array([1, 0], np.int32)}, reference, attrs=attrs, ulps=2
    )


CASES = makers(globals()) | {
    "upsample_bilinear": [upsample_bilinear(*given) for given in ((1, 2, True), (3, 1, False), (2, 3, True), (2, 2, False))],
    "upsample_nearest_neighbor": [upsample_nearest_neighbor(*given) for given in ((1.0, 1.5), (3.0, 2.0), (2.0, 3.0))],
    "resize_nearest_neighbor": [resize_nearest_neighbor(*size) for size in ((1, 11), (7, 3), (4, 6), (9, 1))],
    "resize_bilinear": [resize_bilinear(*size, mode) for mode in MODES for size in ((1, 7), (8, 1), (3, 5))],
    "resize": [
        *(resize(h, "LINEAR", mode) for mode in MODES for h in (1, 3, 8)),
        *(resize(h, "NEAREST_NEIGHBOR", "DEFAULT") for h in (2, 7)),
    ],
}


test_operation = test_of(CASES, {"affine": ct.target.iOS16})


def test_crop_resize_before_ios17(tmp_path: Path) -> None:
    """Boxes as [N, 1, 4, 1, 1], for every image, or [N, 1, 5, 1, 1], the image's index first (coremltools declares B crops, not 1)."""
    rng = np.random.default_rng(0)
    boxes = np.array([[0.0, 1.0, 3.0, 4.0], [1.5, 0.5, 4.0, 5.5]])
    attrs = {"target_height": 4, "target_width": 3, "sampling_mode": "STRICT_ALIGN_CORNERS"}

    def crops(x: np.ndarray, roi: np.ndarray, *_: object) -> np.ndarray:
        rows = []
        for row in roi.reshape(len(roi), -1):
            top, left, bottom, right = row[-4:]
            images = x if len(row) == 4 else x[int(row[0]) : int(row[0]) + 1]
            rows.append(np.einsum("nchw,ah,bw->ncab", images, tent(6, np.linspace(top, bottom, 4)), tent(7, np.linspace(left, right, 3))))
        return np.stack(rows)

    given = {2: boxes, 1: np.concatenate([np.zeros((2, 1)), boxes], 1)}
    cases = [
        Case({"x": rng.normal(size=(batch, 3, 6, 7)), "roi": roi[:, None, :, None, None]}, crops, attrs=attrs, ulps=2)
        for batch, roi in given.items()
    ]
    check("crop_resize", run_all({"crop_resize": cases}, tmp_path, ct.target.iOS16))
