"""Values as coremltools' MLModel takes and gives them: arrays of numbers, PIL images, labels.

array = convert_input(feature, spec, image)     # what the program takes
image = convert_output(feature, tensor)          # what the caller gets
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from mlprogram.dtypes import BY_NAME, FeatureTypes_pb2
from mlprogram.errors import ProgramError
from mlprogram.interface import TensorSpec

_IMAGE, _ARRAY = FeatureTypes_pb2.ImageFeatureType, FeatureTypes_pb2.ArrayFeatureType
_COLOURS = (_IMAGE.RGB, _IMAGE.BGR)
_MODES = MappingProxyType(
    {_IMAGE.RGB: "RGB", _IMAGE.BGR: "RGB", _IMAGE.GRAYSCALE: "L", _IMAGE.GRAYSCALE_FLOAT16: "F"}
)
_ARRAY_TYPES = MappingProxyType(
    {
        _ARRAY.FLOAT16: np.float32,
        _ARRAY.FLOAT32: np.float32,
        _ARRAY.DOUBLE: np.float64,
        _ARRAY.INT32: np.int32,
    }
)  # float16: coremltools hands it over as float32


def convert_input(
    feature: FeatureTypes_pb2.FeatureType, spec: TensorSpec, value: Any
) -> np.ndarray:
    """The array a program takes for an input. Raises TypeError for a wrong image, as coremltools
    does, ProgramError for no number.
    """
    if feature.type.WhichOneof("Type") == "imageType":
        array = _from_image(spec.name, feature.type.imageType, value)
        # An image has no batch axis, and a grey one no channel axis: ones stand in for both.
        lead = (1,) * (len(spec.shape) - array.ndim)
        return array.reshape(*lead, *array.shape).astype(
            _choose_numpy_type(spec)
        )  # [1, 3 or 1, H, W]
    # A tensor that needs gradients or lives on a GPU has no NumPy view until both are taken off.
    array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise ProgramError(f"input '{spec.name}' holds {array.dtype}; give numbers")
    if array.size == 1 and len(spec.shape) + array.ndim == 1:  # Core ML knows no arrays of rank 0
        array = array.reshape((1,) * len(spec.shape))
    return _convert_array(array, spec)


def _choose_numpy_type(spec: TensorSpec) -> np.dtype:
    """What an input may arrive in: floats as they are declared, integers and booleans as the
    program checks them.
    """
    return np.dtype(BY_NAME[spec.dtype].numpy)


def _convert_array(array: np.ndarray, spec: TensorSpec) -> np.ndarray:
    kind = BY_NAME[spec.dtype].kind
    if kind == "float":
        # A value beyond fp16 becomes infinity, which the program then counts and reports.
        with np.errstate(over="ignore"):
            return array.astype(_choose_numpy_type(spec))
    if kind == "bool":
        return array.astype(np.bool_)
    if array.dtype.kind != "f":
        # Integers keep their width, so that the range check sees the true values.
        return array.astype(np.int32) if array.dtype.kind == "b" else array
    if not np.isfinite(array).all():
        raise ProgramError(f"input '{spec.name}' is {spec.dtype} and was given NaN or infinity")
    return np.trunc(array).astype(np.int64)  # the program holds it against the range of its type


def _from_image(name: str, image: FeatureTypes_pb2.ImageFeatureType, value: Any) -> np.ndarray:
    """[3, H, W] or [H, W] from a PIL image of the mode the color layout wants."""
    mode = _MODES.get(image.colorSpace, "RGB")
    layout = _IMAGE.ColorSpace.Name(image.colorSpace)
    color_mode = getattr(value, "mode", None)
    if color_mode is None or not hasattr(value, "getpixel"):
        raise TypeError(f"Image input, '{name}' must be of type PIL.Image.Image in the input dict")
    if color_mode != mode:
        layouts = "RGB/BGR" if mode == "RGB" else layout
        raise TypeError(
            f"{layouts} image input, '{name}', must be of type PIL.Image.Image with mode=='{mode}'"
        )
    # [H, W, 3] of a colour image, [H, W] of a grey one
    pixels = np.asarray(value)
    if mode != "RGB":
        return pixels
    pixels = pixels.transpose(2, 0, 1)  # [H, W, 3] -> [3, H, W]
    # PIL knows no BGR, so the order of the channels is turned around here.
    return pixels[::-1] if image.colorSpace == _IMAGE.BGR else pixels


def convert_output(feature: FeatureTypes_pb2.FeatureType, value: Any) -> Any:
    """What the caller gets for an output."""
    kind = feature.type.WhichOneof("Type")
    if not isinstance(value, torch.Tensor):
        return value  # a class label, or the probabilities by label
    array = value.numpy()
    if kind == "imageType":
        return _to_image(feature.type.imageType, array)
    if kind in ("int64Type", "doubleType"):
        return array.item()
    array = array.reshape(1) if array.ndim == 0 else array
    declared = (
        _ARRAY_TYPES.get(feature.type.multiArrayType.dataType) if kind == "multiArrayType" else None
    )
    numpy_type = declared or (np.float32 if array.dtype == np.float16 else array.dtype)
    return array.astype(numpy_type, copy=False)


def _to_image(image: FeatureTypes_pb2.ImageFeatureType, array: np.ndarray) -> Any:
    """A PIL image from [..., 3 or 1, H, W]: values rounded and held to 0..255 but for mode F."""
    from PIL import Image

    if image.colorSpace not in _COLOURS:
        plane = array.reshape(array.shape[-2:])  # [H, W]
        if image.colorSpace == _IMAGE.GRAYSCALE_FLOAT16:
            # PIL has no mode of 16-bit floats: the values are rounded to halves and kept in mode F.
            return Image.fromarray(plane.astype(np.float16).astype(np.float32))
        return Image.fromarray(_as_bytes(plane))
    planes = array.reshape(array.shape[-3:])  # [3, H, W]
    planes = planes[::-1] if image.colorSpace == _IMAGE.BGR else planes
    # Core ML's images have four channels, the last of them opaque
    opaque = np.full((1, *planes.shape[1:]), 255, np.uint8)
    pixels = np.concatenate([_as_bytes(planes), opaque]).transpose(
        1, 2, 0
    )  # [4, H, W] -> [H, W, 4]
    return Image.fromarray(np.ascontiguousarray(pixels), "RGBA")


def _as_bytes(plane: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(plane.astype(np.float32)), 0, 255).astype(np.uint8)
