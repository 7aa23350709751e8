"""Elementwise operations, activations, reductions, resizing and sampling against PyTorch."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from built import IOS16
from mlprogram.ops import KERNELS
from operation_cases import Case, flip, table, test_of

Tensor = torch.Tensor


def cumsum(x, axis, exclusive, reverse):
    y = x.flip(axis) if reverse else x
    total = y.cumsum(axis) - y * exclusive
    return total.flip(axis) if reverse else total


# place of sample i of `count` on an axis of n pixels
PLACES = {
    "STRICT_ALIGN_CORNERS": lambda i, n, count: i * (n - 1) / max(count - 1, 1),
    "ALIGN_CORNERS": lambda i, n, count: (
        i * (n - 1) / (count - 1) if count > 1 else i + (n - 1) / 2
    ),
    "DEFAULT": lambda i, n, count: i * n / count,
    "OFFSET_CORNERS": lambda i, n, count: (0.5 + i) * max(1, n - 1) / count,
    "UNALIGN_CORNERS": lambda i, n, count: (0.5 + i) * n / count - 0.5,
}


def tent(size, places):
    """Interpolation as a matrix [count, size] of tent functions."""
    distance = places[:, None].clamp(0, size - 1) - torch.arange(size)
    return (1 - distance.abs()).clamp(min=0)


def interpolated(x, rows, columns):
    """x at every crossing of these rows and columns."""
    matrices = tent(x.shape[-2], rows), tent(x.shape[-1], columns)
    return torch.einsum("nchw,ah,bw->ncab", x, *matrices)


def resized(x, h, w, mode):
    places = [
        PLACES[mode](torch.arange(c).double(), n, c)
        for c, n in zip((h, w), x.shape[2:], strict=True)
    ]
    return interpolated(x, *places)


def nearest(x, h, w):
    return F.interpolate(x, size=[int(h), int(w)], mode="nearest")


def resized_to(x, shape, *rest):
    """`resize` of rows alone: to shape[1] rows by the mode that comes last, or to the nearest."""
    if rest[1] == "LINEAR":
        return resized(x, shape[1], 5, rest[-1])
    return x[:, :, (torch.arange(shape[1]) * 4 / shape[1] - 0.5).ceil().long()]


# mlprogram's words for PyTorch's "reflection": about the centres of the last pixels, or their edges
PADDINGS = {"constant": "zeros", "border": "border"} | dict.fromkeys(
    ("reflection", "symmetric"), "reflection"
)


def affine(x, matrix, *_):
    grid = F.affine_grid(matrix.reshape(-1, 2, 3), [2, 3, 6, 7], align_corners=True)
    return F.grid_sample(x, grid, align_corners=True)


def softplus_parametric(x, *parameters):
    alpha, beta = (p.reshape(-1, 1, 1) for p in parameters)
    return alpha * torch.log1p(torch.exp(beta * x))


GELUS = {
    "EXACT": F.gelu,
    "TANH_APPROXIMATION": lambda x: F.gelu(x, approximate="tanh"),
    "SIGMOID_APPROXIMATION": lambda x: x * torch.sigmoid(1.702 * x),
}
TYPES = {"int32": torch.int32, "fp16": torch.float16, "fp32": torch.float32, "bool": torch.bool}
REFERENCES = {
    name: getattr(torch, name)
    for name in """
        abs acos add asin atan atanh ceil cos cosh erf exp exp2 floor greater greater_equal less
        less_equal logical_and logical_not logical_or logical_xor maximum minimum mul not_equal pow
        relu round sigmoid sign sin sinh softmax sqrt square sub tan tanh
    """.split()
} | {
    "affine": affine,
    "cast": lambda x, name: x.to(TYPES[name]),
    "clamped_relu": lambda x, a, b: F.leaky_relu(x, a).clamp(max=b),
    "clip": torch.clamp,
    "cumsum": cumsum,
    "elu": F.elu,
    "equal": torch.eq,
    "floor_div": torch.floor_divide,
    "gelu": lambda x, mode: GELUS[mode](x),
    "identity": lambda x: x,
    "inverse": lambda x, epsilon: 1 / (x + epsilon),
    "leaky_relu": F.leaky_relu,
    "linear_activation": lambda x, a, b: a * x + b,
    "log": lambda x, epsilon: torch.log(x + epsilon),
    "mod": torch.remainder,
    "prelu": torch.prelu,
    "real_div": torch.divide,
    "reduce_argmax": lambda x, axis, keep: np.argmax(x.numpy(), axis, keepdims=keep),
    "reduce_argmin": lambda x, axis, keep: np.argmin(x.numpy(), axis, keepdims=keep),
    "reduce_l1_norm": lambda x, a, keep: x.abs().sum(a, keep),
    "reduce_l2_norm": lambda x, a, keep: x.square().sum(a, keep).sqrt(),
    "reduce_log_sum": lambda x, a, keep: x.sum(a, keep).log(),
    "reduce_log_sum_exp": lambda x, a, keep: x.exp().sum(a, keep).log(),
    "reduce_max": torch.amax,
    "reduce_mean": torch.mean,
    "reduce_min": torch.amin,
    "reduce_prod": lambda x, a, keep: x.numpy().prod(tuple(a), keepdims=keep),
    "reduce_sum": torch.sum,
    "reduce_sum_square": lambda x, a, keep: x.square().sum(a, keep),
    "relu6": F.relu6,
    "resample": lambda x, places, mode, padding, *rest: F.grid_sample(
        x, places, mode, PADDINGS[padding], rest[-1]
    ),
    "resize": resized_to,
    "resize_bilinear": resized,
    "resize_nearest_neighbor": nearest,
    "rsqrt": lambda x, epsilon: 1 / torch.sqrt(x + epsilon),
    "scaled_tanh": lambda x, a, b: a * torch.tanh(b * x),
    "select": torch.where,
    "sigmoid_hard": lambda x, a, b: (a * x + b).clamp(0, 1),
    "silu": F.silu,
    "softplus": lambda x: F.softplus(x, threshold=60),
    "softplus_parametric": softplus_parametric,
    "softsign": F.softsign,
    "threshold": torch.clamp,
    "thresholded_relu": lambda x, a: F.threshold(x, a, 0),
    "upsample_bilinear": lambda x, h, w, align: F.interpolate(
        x, size=[4 * h, 5 * w], mode="bilinear", align_corners=align
    ),
    "upsample_nearest_neighbor": lambda x, h, w: nearest(x, 4 * h, 6 * w),
}
CASES = table(
    """
abs x=-3..3
acos x=-1..1
asin x=-1..1
atan x=-3..3
atanh x=-0.9..0.9
ceil x=-3..3
clip x=-3..3 alpha=-0.7 beta=1.3
cos x=-20..20
cosh x=-3..3
erf x=-3..3
exp x=-3..3
exp2 x=-3..3
floor x=-3..3
identity x=-3..3
inverse x=0.1..3 epsilon=1e-4
log x=0.01..9 epsilon=1e-3 ulps=2
logical_not x=bool(3,4)<2
round x=-9.5..9.5
rsqrt x=0.1..9 epsilon=1e-3
sign x=-3..3
sin x=-20..20
sinh x=-3..3
sqrt x=0..9
square x=-3..3
tan x=-1.2..1.2
tanh x=-3..3
threshold x=-3..3 alpha=0.4
cast x=-40..40|float64(3,4)<3 dtype='int32'|'bool'
cast x=-40..40 dtype='fp32' ulps=8192.0
cast x=-40..40 dtype='fp16' ulps=6.7e7

add x=-3..3 y=-3..3
sub x=-3..3 y=-3..3
mul x=-3..3 y=-3..3
maximum x=-3..3 y=-3..3
minimum x=-3..3 y=-3..3
pow x=0.1..3 y=0.1..3 ulps=2
real_div x=-3..3 y=0.1..3|-3..-0.1
floor_div x=int32[[-8,7,3],[5,-6,9]] y=int32[[3],[-4]] fp16=False
mod x=int32[[-8,7,3],[5,-6,9]] y=int32[[3],[-4]] fp16=False
equal x=float64(3,4)<3 y=float64(4,)<3
not_equal x=float64(3,4)<3 y=float64(4,)<3
greater x=float64(3,4)<3 y=float64(4,)<3
greater_equal x=float64(3,4)<3 y=float64(4,)<3
less x=float64(3,4)<3 y=float64(4,)<3
less_equal x=float64(3,4)<3 y=float64(4,)<3
logical_and x=bool(3,4)<2 y=bool(3,4)<2
logical_or x=bool(3,4)<2 y=bool(3,4)<2
logical_xor x=bool(3,4)<2 y=bool(3,4)<2
select cond=bool(3,4)<2 a=(3,4) b=(3,4)

clamped_relu x=-3..3 alpha=0.3 beta=1.2
elu x=-3..3 alpha=0.7
gelu x=-6..6 mode='EXACT'|'TANH_APPROXIMATION'|'SIGMOID_APPROXIMATION' ulps=4
leaky_relu x=-3..3 alpha=0.1
prelu x=(2,3,4,5)@-3..3 const:alpha=(3,)@0.2..1.5
linear_activation x=-3..3 alpha=0.7 beta=-0.2
relu x=-3..3
relu6 x=-3..9
scaled_tanh x=-3..3 alpha=1.7 beta=0.6
sigmoid x=-9..9
sigmoid_hard x=-3..3 alpha=0.3 beta=0.5
silu x=-3..3
softmax x=(2,3,4,3)@-6..6 axis=0|1|-1
softplus x=-30..30
softplus_parametric x=(2,3,4,5)@-3..3 const:alpha=(3,)@0.2..1.5 const:beta=(3,)@0.2..1.5
softsign x=-3..3
thresholded_relu x=-3..3 alpha=0.6 folds=False

cumsum x=(2,3,4) axis=0|1|-1 exclusive=False reverse=False|True
cumsum x=(2,3,4) axis=0|1|-1 exclusive=True reverse=False|True folds=False
reduce_argmax x=float64(2,3,4)<3 axis=0|1|-1 keep_dims=False|True
reduce_argmin x=float64(2,3,4)<3 axis=0|1|-1 keep_dims=False|True
reduce_l1_norm x=(2,3,4,3)@-2..2 axes=[0]|[-1]|[1,3]|[-2,-4] keep_dims=False|True ulps=2
reduce_l2_norm x=(2,3,4,3)@-2..2 axes=[0]|[-1]|[1,3]|[-2,-4] keep_dims=False|True ulps=2
reduce_log_sum x=(2,3,4,3)@1.1..3 axes=[0]|[-1]|[1,3]|[-2,-4] keep_dims=False|True ulps=2
reduce_log_sum_exp x=(2,3,4,3)@0.5..3 axes=[0]|[-1]|[1,3]|[-2,-4] keep_dims=False|True ulps=2
reduce_max x=(2,3,4,3)@-2..2 axes=[0]|[-1]|[1,3]|[-2,-4] keep_dims=False|True
reduce_mean x=(2,3,4,3)@-2..2 axes=[0]|[-1]|[1,3]|[-2,-4] keep_dims=False|True ulps=2
reduce_min x=(2,3,4,3)@-2..2 axes=[0]|[-1]|[1,3]|[-2,-4] keep_dims=False|True
reduce_prod x=(2,3,4,3)@-2..2 axes=[0]|[-1]|[1,3]|[-2,-4] keep_dims=False|True ulps=2
reduce_sum x=(2,3,4,3)@-2..2 axes=[0]|[-1]|[1,3]|[-2,-4] keep_dims=False|True ulps=2
reduce_sum_square x=(2,3,4,3)@-2..2 axes=[0]|[-1]|[1,3]|[-2,-4] keep_dims=False|True ulps=2

upsample_bilinear x=(2,3,4,5) scale_factor_height=1|3 scale_factor_width=2|3
    align_corners=True|False ulps=2
upsample_nearest_neighbor x=(2,3,4,6) scale_factor_height=1.0|3.0 scale_factor_width=1.5|2.0|3.0
    fp16=False
resize_nearest_neighbor x=(2,3,4,6) target_size_height=1|4|7 target_size_width=1|3|11
resize_bilinear x=(2,3,4,5) target_size_height=1|8 target_size_width=1|7 ulps=2
    sampling_mode='STRICT_ALIGN_CORNERS'|'ALIGN_CORNERS'|'DEFAULT'|'OFFSET_CORNERS'|'UNALIGN_CORNERS'
resize x=(2,3,4,5) shape=[7,1,0]|[7,3,0]|[7,8,0] resized_dims=uint32(2)
    interpolation_mode='LINEAR' ulps=2
    sampling_mode='STRICT_ALIGN_CORNERS'|'ALIGN_CORNERS'|'DEFAULT'|'OFFSET_CORNERS'|'UNALIGN_CORNERS'
resize x=(2,3,4,5) shape=[7,2,0]|[7,7,0] resized_dims=uint32(2)
    interpolation_mode='NEAREST_NEIGHBOR' sampling_mode='DEFAULT'
resample x=(2,3,4,5) coordinates=(2,3,2,2)@-1.5..1.5 sampling_mode='bilinear'|'nearest'
    padding_mode='constant'|'border' padding_value=0.0
    coordinates_mode='normalized_minus_one_to_one' align_corners=False|True ulps=2
resample x=(2,3,4,5) coordinates=(2,3,2,2)@-1.5..1.5 sampling_mode='bilinear'|'nearest'
    padding_mode='reflection' padding_value=0.0
    coordinates_mode='normalized_minus_one_to_one' align_corners=True ulps=2
resample x=(2,3,4,5) coordinates=(2,3,2,2)@-1.5..1.5 sampling_mode='bilinear'|'nearest'
    padding_mode='symmetric' padding_value=0.0
    coordinates_mode='normalized_minus_one_to_one' align_corners=False ulps=2
affine x=(2,3,4,5) transform_matrix=(2,6)@-1..1 output_height=6 output_width=7
    sampling_mode='bilinear' padding_mode='constant' padding_value=0.0
    coordinates_mode='normalized_minus_one_to_one' align_corners=True ulps=2 target=iOS16
""",
    REFERENCES,
    repeat=2,
)


def cropped(x, box):
    """A box (top, left, bottom, right) of images as 4 rows and 3 columns."""
    top, left, bottom, right = box.tolist()
    places = np.linspace(top, bottom, 4), np.linspace(left, right, 3)
    return interpolated(x, *map(torch.from_numpy, places))


BOXES = np.array([[0.0, 1.0, 3.0, 4.0], [1.5, 0.5, 4.0, 5.5]])
CROPPED = {"target_height": 4, "target_width": 3, "sampling_mode": "STRICT_ALIGN_CORNERS"}


def crop_resize(rng):
    corner = rng.uniform(0, 2, (2, 2))
    boxes = np.concatenate([corner, corner + (3, 2.5)], 1)
    width_first, normal = flip(rng), flip(rng)
    order = [1, 0, 3, 2] if width_first else [0, 1, 2, 3]
    scale = np.array([5.0, 6.0, 5.0, 6.0]) if normal else np.ones(4)

    def reference(x, regions, images, *_):
        return torch.cat(
            [
                cropped(x[i : i + 1], b[order] * torch.from_numpy(scale))
                for i, b in zip(images.tolist(), regions, strict=True)
            ]
        )

    return Case(
        reference,
        x=rng.normal(size=(2, 3, 6, 7)),
        boxes=(boxes / scale)[:, order],
        box_indices=np.array([1, 0], np.int32),
        normalized_coordinates=normal,
        box_coordinate_mode=f"CORNERS_{'WIDTH' if width_first else 'HEIGHT'}_FIRST",
        **CROPPED,
        ulps=2,
    )


RNG = np.random.default_rng(0)
CASES |= {
    # boxes before iOS 17 are [N, 1, 4, 1, 1], for every image, or [N, 1, 5, 1, 1], the image's
    # index first (coremltools declares B crops, not 1)
    "crop_resize": [crop_resize(RNG) for _ in range(8)]
    + [
        Case(
            lambda x, roi, *_: torch.stack([cropped(x, row[-4:]) for row in roi.flatten(1)]),
            x=RNG.normal(size=(batch, 3, 6, 7)),
            roi=roi[:, None, :, None, None],
            **CROPPED,
            ulps=2,
            target=IOS16,
        )
        for batch, roi in ((2, BOXES), (1, np.insert(BOXES, 0, 0, axis=1)))
    ],
}
test_operation = test_of(CASES)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_of_fp16_is_the_nearest_value(axis):
    x = (torch.randn(40, 50, 60, generator=torch.Generator().manual_seed(axis)) * 3).half()
    exact = torch.softmax(x.double(), axis)
    computed = KERNELS["softmax"].run(x.float(), axis=axis).half().double()
    step = 2.0 ** (torch.floor(torch.log2(exact)).clamp(min=-14) - 10)
    # half a step and the error of fp32
    assert float(((computed - exact).abs() / step).max()) <= 0.502
