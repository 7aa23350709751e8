"""Convolutions, matrix products, attention and quantization against sums written out in NumPy.

python -m pytest tests/test_mlprogram_products.py -q
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
import scipy.special

from tests.mlprogram_build import Case, check

Rng = np.random.Generator


def pads_of(kind: str, pad: list[int], sizes: tuple, kernel: list[int], strides: list[int]) -> list[tuple[int, int]]:
    """(before, after) per axis, from the definition."""
    if kind == "valid":
        return [(0, 0)] * len(sizes)
    if kind == "custom":
        return list(zip(pad[::2], pad[1::2], strict=True))
    totals = [max(0, (int(np.ceil(n / s)) - 1) * s + k - n) for n, k, s in zip(sizes, kernel, strides, strict=True)]
    return [(t // 2, t - t // 2) if kind == "same" else (t - t // 2, t // 2) for t in totals]


def conv_by_taps(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, strides: list, pads: list, dilations: list, groups: int
) -> np.ndarray:
    """A convolution as a sum over kernel taps."""
    x = np.pad(x, [(0, 0), (0, 0), *pads])
    out = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(x.shape[2:], weight.shape[2:], dilations, strides, strict=True)]
    x, w = x.reshape(x.shape[0], groups, -1, *x.shape[2:]), weight.reshape(groups, -1, *weight.shape[1:])
    y = np.zeros((x.shape[0], groups, w.shape[1], *out))
    for tap in itertools.product(*(range(k) for k in weight.shape[2:])):
        window = tuple(slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(tap, dilations, out, strides, strict=True))
        y += np.einsum("bgc...,goc->bgo...", x[(slice(None),) * 3 + window], w[(slice(None),) * 3 + tap])
    y = y.reshape(x.shape[0], -1, *out)
    return y if bias is None else y + bias.reshape(-1, *[1] * len(out))


def conv_attributes(rng: Rng, rank: int) -> tuple[dict, list[int], int]:
    kind = str(rng.choice(["valid", "same", "same_lower", "custom"]))
    attrs = {
        "strides": [int(n) for n in rng.integers(1, 4, rank)],
        "pad_type": kind,
        "pad": [int(n) for n in rng.integers(0, 3, 2 * rank)],
        "dilations": [int(n) for n in rng.integers(1, 3, rank)],
        "groups": int(rng.choice([1, 1, 2, 4])),
    }
    return attrs, [int(n) for n in rng.integers(1, 4, rank)], attrs["groups"]


def conv(rng: Rng) -> Case:
    rank = int(rng.integers(1, 4))
    attrs, kernel, groups = conv_attributes(rng, rank)
    x = rng.normal(size=(2, 4, *(int(n) for n in rng.integers(6, 9, rank))))
    consts = {"weight": rng.normal(size=(8, 4 // groups, *kernel))} | ({"bias": rng.normal(size=8)} if rng.random() < 0.7 else {})

    def reference(x, weight, *rest):
        bias = rest[0] if "bias" in consts else None
        effective = [(k - 1) * d + 1 for k, d in zip(kernel, attrs["dilations"], strict=True)]
        pads = pads_of(attrs["pad_type"], attrs["pad"], x.shape[2:], effective, attrs["strides"])
        return conv_by_taps(x, weight, bias, attrs["strides"], pads, attrs["dilations"], groups)

    return Case({"x": x}, reference, consts=consts, attrs=attrs, ulps=4)


def conv_transpose(rng: Rng) -> Case:
    rank = int(rng.integers(1, 4))
    attrs, kernel, groups = conv_attributes(rng, rank)
    attrs["pad_type"] = str(rng.choice(["valid", "same", "custom"]))
    attrs["pad"] = [int(rng.integers(0, k)) for k in kernel for _ in range(2)]
    if rank == 3:
        attrs |= {"dilations": [1] * 3, "groups": (groups := 1)}
    x = rng.normal(size=(2, 4, *(int(n) for n in rng.integers(4, 7, rank))))
    consts = {"weight": rng.normal(size=(4, 8 // groups, *kernel)), "bias": rng.normal(size=8)}
    strides, dilations = attrs["strides"], attrs["dilations"]
    full = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(x.shape[2:], strides, kernel, dilations, strict=True)]
    if attrs["pad_type"] == "custom" and rng.random() < 0.5:
        attrs["output_shape"] = [2, 8, *(max(1, f - attrs["pad"][2 * i] - attrs["pad"][2 * i + 1]) for i, f in enumerate(full))]
        attrs["output_shape"][-1] += strides[-1] - 1  # what PyTorch calls output padding

    def reference(x, weight, bias, *_):
        y = np.zeros((x.shape[0], groups, 8 // groups, *full))
        inputs, kernels = x.reshape(2, groups, -1, *x.shape[2:]), weight.reshape(groups, -1, *weight.shape[1:])
        for tap in itertools.product(*(range(k) for k in kernel)):
            window = tuple(
                slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(tap, dilations, x.shape[2:], strides, strict=True)
            )
            y[(slice(None),) * 3 + window] += np.einsum("bgc...,gco->bgo...", inputs, kernels[(slice(None),) * 3 + tap])
        return place(y.reshape(2, 8, *full), x) + bias.reshape(-1, *[1] * rank)

    def place(y, x):
        if attrs["pad_type"] == "custom":
            before = attrs["pad"][::2]
            out = attrs.get("output_shape", [0, 0, *(f - attrs["pad"][2 * i] - attrs["pad"][2 * i + 1] for i, f in enumerate(full))])[2:]
        else:
            out = [n * s for n, s in zip(x.shape[2:], strides, strict=True)] if attrs["pad_type"] == "same" else full
            before = [max(0, f - o) // 2 if attrs["pad_type"] == "same" else 0 for f, o in zip(full, out, strict=True)]
        y = np.pad(y, [(0, 0), (0, 0), *((0, max(0, b + o - f)) for b, o, f in zip(before, out, full, strict=True))])
        return y[(slice(None),) * 2 + tuple(slice(b, b + o) for b, o in zip(before, out, strict=True))]

    return Case({"x": x}, reference, consts=consts, attrs=attrs, ulps=4)


def linear(rng: Rng) -> Case:
    x = rng.normal(size=(*(int(n) for n in rng.integers(1, 5, rng.integers(1, 4))), 6))
    return Case(
        {"x": x},
        lambda x, weight, bias: x @ weight.T + bias,
        consts={"weight": rng.normal(size=(5, 6)), "bias": rng.normal(size=5)},
        ulps=4,
    )


def matmul(rng: Rng) -> Case:
    left, right = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
    x, y = rng.normal(size=(2, 1, 4, 5)), rng.normal(size=[(3, 5, 6), (1, 5, 6), (5, 6)][rng.integers(3)])
    if rng.random() < 0.2:
        return Case({"x": rng.normal(size=5), "y": y}, np.matmul, ulps=4)
    swap = (np.swapaxes(x, -1, -2) if left else x, np.swapaxes(y, -1, -2) if right else y)
    return Case(
        {"x": swap[0], "y": swap[1]},
        lambda x, y, *_: (np.swapaxes(x, -1, -2) if left else x) @ (np.swapaxes(y, -1, -2) if right else y),
        attrs={"transpose_x": left, "transpose_y": right},
        ulps=4,
    )


def einsum(rng: Rng) -> Case:
    if rng.random() < 0.5:
        values, equation = [rng.normal(size=(2, 3, 4, 5)), rng.normal(size=(2, 5, 4, 6))], "nchw,nwhu->nchu"
    else:
        values, equation = [rng.normal(size=(3, 4, 5)), rng.normal(size=(5, 4, 6))], "chw,whr->chr"
    return Case({"values": values}, lambda values, equation: np.einsum(equation, *values), attrs={"equation": equation}, ulps=4)


def scaled_dot_product_attention(rng: Rng) -> Case:
    q, k, v = rng.normal(size=(2, 3, 4, 8)), rng.normal(size=(2, 3, 5, 8)), rng.normal(size=(2, 3, 5, 6))
    mask = rng.random((4, 5)) < 0.7
    mask[:, 0] = True
    kind = rng.integers(3)
    masks = [{}, {"attn_mask": mask}, {"attn_mask": rng.normal(size=(4, 5))}][kind]

    def reference(q, k, v, *mask):
        added = np.where(mask[0], 0, -np.inf) if kind == 1 else mask[0] if kind == 2 else 0
        return scipy.special.softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(8) + added, -1) @ v

    return Case({"query": q, "key": k, "value": v} | masks, reference, ulps=4, folds=kind != 1)  # a bool mask constant is not folded


def quantize(rng: Rng) -> Case:
    signed, vector, zero = bool(rng.random() < 0.5), bool(rng.random() < 0.5), bool(rng.random() < 0.7)
    low, high, kind = (-128, 127, np.int8) if signed else (0, 255, np.uint8)
    scale = 2.0 ** rng.integers(-6, -3, 4) if vector else np.array(0.0625)  # powers of two: a tie is a tie in every type
    consts = {"scale": scale} | ({"zero_point": rng.integers(0, 9, scale.shape).astype(kind)} if zero else {})
    attrs = {"output_dtype": np.dtype(kind).name} | ({"axis": 1} if vector else {})
    ties = rng.integers(-300, 300, (3, 4, 5)) / 32.0

    def reference(x, scale, *rest):
        along = (lambda v: np.asarray(v).reshape(1, -1, 1)) if vector else np.asarray
        return np.clip(np.round(x / along(scale)) + (along(rest[0]).astype(float) if zero else 0), low, high)

    return Case({"input": ties}, reference, consts=consts, attrs=attrs)


def dequantize(rng: Rng) -> Case:
    vector, zero = bool(rng.random() < 0.5), bool(rng.random() < 0.7)
    scale = rng.uniform(0.01, 0.1, 4) if vector else np.array(0.03)
    codes = rng.integers(-128, 128, (3, 4, 5)).astype(np.int8)
    consts = {"input": codes, "scale": scale} | ({"zero_point": rng.integers(-9, 9, scale.shape).astype(np.int8)} if zero else {})

    def reference(codes, scale, *rest):
        along = (lambda v: np.asarray(v).reshape(1, -1, 1)) if vector else np.asarray
        return (codes.astype(float) - (along(rest[0]).astype(float) if zero else 0)) * along(scale)

    return Case({}, reference, consts=consts, attrs={"axis": 1} if vector else {})


CASES: dict[str, Callable[[Rng], Case]] = {
    f.__name__: f for f in (conv, conv_transpose, linear, matmul, einsum, scaled_dot_product_attention, quantize, dequantize)
}


@pytest.mark.parametrize("op", sorted(CASES))
def test_operation(op: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(sum(map(ord, op)))
    check(op, [CASES[op](rng) for _ in range(6)], tmp_path, ct.target.iOS18 if op == "scaled_dot_product_attention" else ct.target.iOS17)
