"""quantize and dequantize of activations.

    QUANTIZATION["quantize"].run(x, scale=s, output_dtype="int8")

Definition: coremltools 9.0, mil/ops/defs/iOS17/quantization_ops.py: round half to even, add the zero point, clip. Scale and zero point are
scalars, or vectors along `axis`.
"""

from __future__ import annotations

from types import MappingProxyType

from torch import Tensor

from mlprogram.ops.kernel import kernel

_RANGE = MappingProxyType({"int8": (-128, 127), "uint8": (0, 255), "int4": (-8, 7), "uint4": (0, 15)})


def quantize(
    input: Tensor,  # noqa: A002  MIL's name
    scale: Tensor,
    output_dtype: str,
    zero_point: Tensor | None = None,
    axis: int | None = None,
) -> Tensor:
    """clip(round(input / scale) + zero_point)."""
    low, high = _RANGE[output_dtype]
    x = (input / _along(scale, input, axis)).round_()  # one new tensor: the steps after the division work in its place
    x = x if zero_point is None else x.add_(_along(zero_point, input, axis))
    return x.clamp_(low, high)


def dequantize(
    input: Tensor,  # noqa: A002  MIL's name
    scale: Tensor,
    zero_point: Tensor | None = None,
    axis: int | None = None,
) -> Tensor:
    """(input - zero_point) * scale. In fp16 the difference is exact and the product is rounded once."""
    x = input.to(scale.dtype)  # a new tensor: integers become floats
    x = x if zero_point is None else x.sub_(_along(zero_point, input, axis).to(scale.dtype))
    return x.mul_(_along(scale, input, axis))


def _along(parameter: Tensor, x: Tensor, axis: int | None) -> Tensor:
    if parameter.dim() == 0:
        return parameter
    if axis is None:
        raise ValueError("a scale or zero point for each channel needs an axis")
    shape = [1] * x.dim()
    shape[axis] = -1
    return parameter.reshape(shape)


QUANTIZATION = MappingProxyType({"dequantize": kernel(dequantize, half=True), "quantize": kernel(quantize)})
