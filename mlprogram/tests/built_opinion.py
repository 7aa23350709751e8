"""One small program with every operation that bench/coreai bridges, each with an output of its own, for mlprogram/tests/test_opinion.py.

path, given = every_operation(tmp_path / "n.mlpackage", np.float32)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import torch
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import Function, types

from mlprogram.benches.coreai.asked import PYTHON
from mlprogram.benches.coreai.bridge import PlainKernels, read_graph
from mlprogram.benches.coreai.runner import LOWERINGS, Bridge, widened
from mlprogram.tests.built import save

Cases = dict[str, Callable[[], Any]]


def _numbers(shape: tuple[int, ...], dtype: type, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _elementwise(x: Any, y: Any, kind: type) -> Cases:
    half = kind(0.5)
    above = mb.greater(x=x, y=half)
    square = mb.mul(x=x, y=x)
    both = {name: lambda name=name: getattr(mb, name)(x=x, y=y) for name in ("add", "sub", "mul", "maximum")}
    one = {name: lambda name=name: getattr(mb, name)(x=x) for name in ("sin", "cos", "exp", "relu", "sigmoid", "tanh")}
    axes = {name: lambda name=name: getattr(mb, name)(x=x, axes=[1, 3], keep_dims=True) for name in
            ("reduce_mean", "reduce_sum", "reduce_max", "reduce_min", "reduce_l2_norm")}  # fmt: skip
    seen = {
        "greater": lambda: mb.cast(x=above, dtype="int32"),
        "greater_equal": lambda: mb.cast(x=mb.greater_equal(x=x, y=half), dtype="int32"),
        "not_equal": lambda: mb.cast(x=mb.not_equal(x=mb.cast(x=x, dtype="int32"), y=0), dtype="int32"),
        "cast": lambda: mb.cast(x=mb.mul(x=x, y=kind(3)), dtype="int32"),
        "select": lambda: mb.select(cond=above, a=x, b=y),
        "cumsum": lambda: mb.cumsum(x=mb.cast(x=x, dtype="int32"), axis=3),
    }
    rest = {
        "sub of a number": lambda: mb.sub(x=kind(1), y=x),
        "real_div": lambda: mb.real_div(x=x, y=mb.add(x=square, y=half)),
        "maximum of a number": lambda: mb.maximum(x=half, y=x),
        "log": lambda: mb.log(x=square, epsilon=kind(0.25)),
        "rsqrt": lambda: mb.rsqrt(x=square, epsilon=kind(0.25)),
        "gelu": lambda: mb.gelu(x=x, mode="TANH_APPROXIMATION"),
        "leaky_relu": lambda: mb.leaky_relu(x=x, alpha=kind(0.2)),
        "clip": lambda: mb.clip(x=x, alpha=kind(-0.5), beta=half),
        "softmax": lambda: mb.softmax(x=x, axis=1),
    }
    return both | one | axes | seen | rest


def _layout(x: Any, kind: type) -> Cases:
    indices = np.array([[2, 0], [1, 1]], np.int32)
    return {
        "concat": lambda: mb.concat(values=[x, x], axis=3),
        "expand_dims": lambda: mb.expand_dims(x=mb.squeeze(x=x, axes=[2]), axes=[0, -1]),
        "squeeze": lambda: mb.squeeze(x=x, axes=[0, 2]),
        "reshape": lambda: mb.reshape(x=x, shape=[0, 2, 2, -1]),
        "transpose": lambda: mb.transpose(x=x, perm=[0, -1, 2, 1]),
        "split": lambda: mb.split(x=x, split_sizes=[1, 3], axis=1)[1],
        "split in equal parts": lambda: mb.split(x=x, num_splits=2, axis=1)[1],
        "slice_by_index": lambda: mb.slice_by_index(
            x=x, begin=[0, 1, 0, -5], end=[0, 3, 0, -1], stride=[1, 1, 1, 2], begin_mask=[True, False, False, False],
            end_mask=[True, False, True, False], squeeze_mask=[False, False, True, False],
        ),
        "gather": lambda: mb.gather(x=x, indices=indices, axis=1),
        "pad": lambda: mb.pad(x=x, pad=[0, 0, 1, 2], mode="constant", constant_val=kind(0.5)),
    }  # fmt: skip


def _layers(x: Any, kind: type) -> Cases:
    weight, bias = _numbers((6, 4, 1, 3), kind, 1), _numbers((6,), kind, 2)
    up, deep = _numbers((4, 3, 1, 4), kind, 3), _numbers((5, 6), kind, 4)
    row = mb.squeeze(x=x, axes=[2])  # [1, 4, 6]
    pooled = {"kernel_sizes": [1, 3], "strides": [1, 2], "pad_type": "custom", "pad": [0, 0, 1, 1]}
    scale = kind(0.05)
    codes = mb.quantize(input=x, scale=scale, output_dtype="int8")
    along = mb.quantize(input=x, scale=_numbers((4,), kind, 5) ** 2 + kind(0.1), zero_point=np.array([3, -3, 0, 9], np.int8), axis=1,
                        output_dtype="int8")  # fmt: skip
    return {
        "conv": lambda: mb.conv(x=x, weight=weight, bias=bias, pad_type="custom", pad=[0, 0, 1, 1]),
        "conv, wide and uneven": lambda: mb.conv(x=x, weight=weight, dilations=[1, 2], strides=[1, 2], pad_type="custom", pad=[0, 0, 3, 1]),
        "conv_transpose": lambda: mb.conv_transpose(x=x, weight=up, strides=[1, 2], pad_type="custom", pad=[0, 0, 1, 1]),
        "max_pool": lambda: mb.max_pool(x=x, ceil_mode=True, **pooled),
        "avg_pool": lambda: mb.avg_pool(x=x, exclude_padding_from_average=False, **pooled),
        "linear": lambda: mb.linear(x=row, weight=deep, bias=bias[:5]),
        "matmul": lambda: mb.matmul(x=row, y=row, transpose_x=False, transpose_y=True),
        "layer_norm": lambda: mb.layer_norm(x=row, axes=[-1], gamma=bias, beta=bias[::-1].copy(), epsilon=kind(1e-4)),
        "upsample_nearest_neighbor": lambda: mb.upsample_nearest_neighbor(x=x, scale_factor_height=1, scale_factor_width=3),
        "quantize": lambda: mb.cast(x=codes, dtype="int32"),
        "quantize along an axis": lambda: mb.cast(x=along, dtype="int32"),
        "dequantize": lambda: mb.dequantize(input=codes, scale=scale),
        "lstm": lambda: _lstm(mb.transpose(x=row, perm=[2, 0, 1]), kind),
    }


def _lstm(steps: Any, kind: type) -> Any:
    """steps [6, 1, 4] -> [6, 1, 6]."""
    weights = {f"{name}{end}": _numbers(shape, kind, len(name + end)) for end in ("", "_back")
               for name, shape in (("weight_ih", (12, 4)), ("weight_hh", (12, 3)), ("bias", (12,)))}  # fmt: skip
    first = _numbers((1, 6), kind, 6)
    return mb.lstm(x=steps, initial_h=first, initial_c=-first, direction="bidirectional", output_sequence=True, **weights)[0]


def every_operation(path: Path, dtype: type) -> tuple[Path, dict[str, np.ndarray], dict[str, str]]:
    """The package, its inputs, and case -> name of its output."""
    given = {"x": _numbers((1, 4, 1, 6), dtype, 7), "y": _numbers((1, 4, 1, 6), dtype, 8)}
    kind = types.fp16 if dtype is np.float16 else types.fp32
    placeholders = {name: mb.placeholder(shape=value.shape, dtype=kind) for name, value in given.items()}
    with Function(placeholders, opset_version=ct.target.iOS17) as function:
        x, y = (function.inputs[name] for name in given)
        cases = _elementwise(x, y, dtype) | _layout(x, dtype) | _layers(x, dtype)
        names = {case: f"out_{i}" for i, case in enumerate(cases)}
        function.set_outputs([_named(make(), names[case]) for case, make in cases.items()])
    return save(function, path, ct.target.iOS17), given, names


def _named(value: Any, name: str) -> Any:
    value.name = name  # an output by the name that the case is known by
    return value


class PlainRuntime:
    """In the place of Apple's: the bridge in PyTorch, in this process. `lowerings`: of another meaning, for controls."""

    def __init__(self, _python: Path = PYTHON, lowerings: Mapping[str, Any] = LOWERINGS) -> None:
        self.lowerings = lowerings

    def ask(
        self,
        package: Path,
        function: str,
        cases: Sequence[Mapping[str, np.ndarray]],
        watched: Sequence[str] = (),
        free: Mapping[str, Sequence[int]] | None = None,
        wide: bool = False,
    ) -> tuple[list[dict[str, np.ndarray]], dict[str, Any]]:
        graph = read_graph(package, function)
        module = Bridge(graph, PlainKernels(), tuple(watched), self.lowerings, torch.float32 if wide else torch.float16).eval()
        names = (*graph.outputs, *watched)
        answers = []
        with torch.inference_mode():
            for case in cases:
                values = module(*(torch.from_numpy(widened(case[name], wide)) for name in graph.inputs))
                answers.append({name: value.numpy() for name, value in zip(names, values, strict=True)})
        return answers, {"convert_s": 0.0, "execute_s": 0.0, "versions": {}}
