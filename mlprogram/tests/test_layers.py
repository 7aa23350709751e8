"""Convolutions, matrix products, attention and quantization against sums written out in NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import coremltools as ct
import numpy as np
import pytest
import scipy.special
import torch

from built import Case, makers, test_of
from mlprogram.ops.conv import CONV
from mlprogram.ops.linear import REDUCTION

Rng = np.random.Generator


def pads_of(
    kind: str, pad: list[int], sizes: tuple, kernel: list[int], strides: list[int]
) -> list[tuple[int, int]]:
    if kind == "valid":
        return [(0, 0)] * len(sizes)
    if kind == "custom":
        return list(zip(pad[::2], pad[1::2], strict=True))
    totals = [
        max(0, (int(np.ceil(n / s)) - 1) * s + k - n)
        for n, k, s in zip(sizes, kernel, strides, strict=True)
    ]
    return [(t // 2, t - t // 2) if kind == "same" else (t - t // 2, t // 2) for t in totals]


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
    consts = {"weight": rng.normal(size=(8, 4 // groups, *kernel))} | (
        {"bias": rng.normal(size=8)} if rng.random() < 0.7 else {}
    )

    def reference(x, weight, *rest):
        effective = [(k - 1) * d + 1 for k, d in zip(kernel, attrs["dilations"], strict=True)]
        pads = pads_of(attrs["pad_type"], attrs["pad"], x.shape[2:], effective, attrs["strides"])
        padded = torch.from_numpy(np.pad(x, [(0, 0), (0, 0), *pads]))
        bias = torch.from_numpy(rest[0]) if "bias" in consts else None
        run = (torch.conv1d, torch.conv2d, torch.conv3d)[rank - 1]
        return run(
            padded, torch.from_numpy(weight), bias, attrs["strides"], 0, attrs["dilations"], groups
        ).numpy()

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
    full = [
        (n - 1) * s + (k - 1) * d + 1
        for n, s, k, d in zip(x.shape[2:], strides, kernel, dilations, strict=True)
    ]
    if attrs["pad_type"] == "custom" and rng.random() < 0.5:
        attrs["output_shape"] = [
            2,
            8,
            *(
                max(1, f - attrs["pad"][2 * i] - attrs["pad"][2 * i + 1])
                for i, f in enumerate(full)
            ),
        ]
        attrs["output_shape"][-1] += strides[-1] - 1  # what PyTorch calls output padding

    def reference(x, weight, bias, *_):
        run = (torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d)[rank - 1]
        y = run(
            torch.from_numpy(x), torch.from_numpy(weight), None, strides, 0, 0, groups, dilations
        ).numpy()
        return place(y, x) + bias.reshape(-1, *[1] * rank)

    def place(y, x):
        if attrs["pad_type"] == "custom":
            before = attrs["pad"][::2]
            out = attrs.get(
                "output_shape",
                [
                    0,
                    0,
                    *(
                        f - attrs["pad"][2 * i] - attrs["pad"][2 * i + 1]
                        for i, f in enumerate(full)
                    ),
                ],
            )[2:]
        else:
            out = (
                [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
                if attrs["pad_type"] == "same"
                else full
            )
            before = [
                max(0, f - o) // 2 if attrs["pad_type"] == "same" else 0
                for f, o in zip(full, out, strict=True)
            ]
        y = np.pad(
            y,
            [
                (0, 0),
                (0, 0),
                *((0, max(0, b + o - f)) for b, o, f in zip(before, out, full, strict=True)),
            ],
        )
        return y[
            (slice(None),) * 2 + tuple(slice(b, b + o) for b, o in zip(before, out, strict=True))
        ]

    return Case({"x": x}, reference, consts=consts, attrs=attrs, ulps=4)


def linear(rng: Rng) -> Case:
    x = rng.normal(size=(*(int(n) for n in rng.integers(1, 5, rng.integers(1, 4))), 6))
    return Case({"x": x}, lambda x, weight, bias: x @ weight.T + bias,
        consts={"weight": rng.normal(size=(5, 6)), "bias": rng.normal(size=5)}, ulps=4)  # fmt: skip


def matmul(rng: Rng) -> Case:
    left, right = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
    x, y = (
        rng.normal(size=(2, 1, 4, 5)),
        rng.normal(size=[(3, 5, 6), (1, 5, 6), (5, 6)][rng.integers(3)]),
    )
    if rng.random() < 0.2:
        return Case({"x": rng.normal(size=5), "y": y}, np.matmul, ulps=4)
    swap = (np.swapaxes(x, -1, -2) if left else x, np.swapaxes(y, -1, -2) if right else y)
    return Case(
        {"x": swap[0], "y": swap[1]},
        lambda x, y, *_: (
            (np.swapaxes(x, -1, -2) if left else x) @ (np.swapaxes(y, -1, -2) if right else y)
        ),
        attrs={"transpose_x": left, "transpose_y": right},
        ulps=4,
    )


def einsum(rng: Rng) -> Case:
    if rng.random() < 0.5:
        values, equation = (
            [rng.normal(size=(2, 3, 4, 5)), rng.normal(size=(2, 5, 4, 6))],
            "nchw,nwhu->nchu",
        )
    else:
        values, equation = [rng.normal(size=(3, 4, 5)), rng.normal(size=(5, 4, 6))], "chw,whr->chr"
    return Case(
        {"values": values},
        lambda values, equation: np.einsum(equation, *values),
        attrs={"equation": equation},
        ulps=4,
    )


def scaled_dot_product_attention(rng: Rng) -> Case:
    q, k, v = (
        rng.normal(size=(2, 3, 4, 8)),
        rng.normal(size=(2, 3, 5, 8)),
        rng.normal(size=(2, 3, 5, 6)),
    )
    mask = rng.random((4, 5)) < 0.7
    mask[:, 0] = True
    kind = rng.integers(3)
    masks = [{}, {"attn_mask": mask}, {"attn_mask": rng.normal(size=(4, 5))}][kind]

    def reference(q, k, v, *mask):
        added = np.where(mask[0], 0, -np.inf) if kind == 1 else mask[0] if kind == 2 else 0
        return scipy.special.softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(8) + added, -1) @ v

    # a bool mask constant is not folded
    return Case({"query": q, "key": k, "value": v} | masks, reference, ulps=4, folds=kind != 1)


def quantize(rng: Rng) -> Case:
    signed, vector, zero = (
        bool(rng.random() < 0.5),
        bool(rng.random() < 0.5),
        bool(rng.random() < 0.7),
    )
    low, high, kind = (-128, 127, np.int8) if signed else (0, 255, np.uint8)
    # powers of two: a tie is a tie in every type
    scale = 2.0 ** rng.integers(-6, -3, 4) if vector else np.array(0.0625)
    consts = {"scale": scale} | (
        {"zero_point": rng.integers(0, 9, scale.shape).astype(kind)} if zero else {}
    )
    attrs = {"output_dtype": np.dtype(kind).name} | ({"axis": 1} if vector else {})
    ties = rng.integers(-300, 300, (3, 4, 5)) / 32.0

    def reference(x, scale, *rest):
        along = (lambda v: np.asarray(v).reshape(1, -1, 1)) if vector else np.asarray
        return np.clip(
            np.round(x / along(scale)) + (along(rest[0]).astype(float) if zero else 0), low, high
        )

    return Case({"input": ties}, reference, consts=consts, attrs=attrs)


def dequantize(rng: Rng) -> Case:
    vector, zero = bool(rng.random() < 0.5), bool(rng.random() < 0.7)
    scale = rng.uniform(0.01, 0.1, 4) if vector else np.array(0.03)
    codes = rng.integers(-128, 128, (3, 4, 5)).astype(np.int8)
    consts = {"input": codes, "scale": scale} | (
        {"zero_point": rng.integers(-9, 9, scale.shape).astype(np.int8)} if zero else {}
    )

    def reference(codes, scale, *rest):
        along = (lambda v: np.asarray(v).reshape(1, -1, 1)) if vector else np.asarray
        return (codes.astype(float) - (along(rest[0]).astype(float) if zero else 0)) * along(scale)

    return Case({}, reference, consts=consts, attrs={"axis": 1} if vector else {})


def channels(rng: Rng) -> np.ndarray:
    return (
        rng.normal(size=(2, 4, *(int(n) for n in rng.integers(2, 6, rng.integers(1, 3))))) * 3 + 1
    )


def per_channel(v: np.ndarray, x: np.ndarray) -> np.ndarray:
    return v.reshape(-1, *[1] * (x.ndim - 2))


def batch_norm(rng: Rng) -> Case:
    def reference(x, mean, variance, gamma, beta, epsilon):
        return (x - per_channel(mean, x)) / np.sqrt(
            per_channel(variance, x) + epsilon
        ) * per_channel(gamma, x) + per_channel(beta, x)

    consts = {
        "mean": rng.normal(size=4),
        "variance": rng.uniform(0.5, 2, 4),
        "gamma": rng.normal(size=4),
        "beta": rng.normal(size=4),
    }
    return Case({"x": channels(rng)}, reference, consts=consts, attrs={"epsilon": 1e-3}, ulps=8)


def instance_norm(rng: Rng) -> Case:
    def reference(x, gamma, beta, epsilon):
        axes = tuple(range(2, x.ndim))
        return (x - x.mean(axes, keepdims=True)) / np.sqrt(
            x.var(axes, keepdims=True) + epsilon
        ) * per_channel(gamma, x) + per_channel(beta, x)

    return Case(
        {"x": channels(rng)},
        reference,
        consts={"gamma": rng.normal(size=4), "beta": rng.normal(size=4)},
        attrs={"epsilon": 1e-3},
        ulps=8,
    )


def layer_norm(rng: Rng) -> Case:
    axes, x = [[-1], [1], [1, 2], [-2, -1]][rng.integers(4)], rng.normal(size=(3, 4, 5)) * 2
    inner = tuple(x.shape[a] for a in axes)

    def reference(x, gamma, beta, axes, epsilon):
        spread = [n if i in {a % 3 for a in axes} else 1 for i, n in enumerate(x.shape)]
        normal = (x - x.mean(tuple(axes), keepdims=True)) / np.sqrt(
            x.var(tuple(axes), keepdims=True) + epsilon
        )
        return normal * gamma.reshape(spread) + beta.reshape(spread)

    return Case(
        {"x": x},
        reference,
        consts={"gamma": rng.normal(size=inner), "beta": rng.normal(size=inner)},
        attrs={"axes": axes, "epsilon": 1e-3},
        ulps=8,
    )


def l2_norm(rng: Rng) -> Case:
    return Case(
        {"x": rng.normal(size=(2, 3, 4, 5))},
        lambda x, e: x / np.sqrt((x * x).sum((-3, -2, -1), keepdims=True) + e),
        attrs={"epsilon": 1e-3},
        ulps=2,
    )


def local_response_norm(rng: Rng) -> Case:
    def reference(x, size, alpha, beta, k):
        squares = np.pad(x * x, [(0, 0), (size // 2, (size - 1) // 2), (0, 0), (0, 0)])
        total = sum(squares[:, i : i + x.shape[1]] for i in range(size))
        return x / (k + alpha / size * total) ** beta

    return Case(
        {"x": rng.normal(size=(2, 6, 3, 4))},
        reference,
        attrs={"size": int(rng.integers(1, 5)), "alpha": 0.5, "beta": 0.75, "k": 1.5},
        ulps=2,
    )


# A case maker for pooling: the reference walks over the windows
def pool(kind: str) -> Callable[[Rng], Case]:

    def make(rng: Rng) -> Case:
        rank = int(rng.integers(1, 3 if kind == "l2" else 4))
        kernel, strides = (
            [int(n) for n in rng.integers(1, 4, rank)],
            [int(n) for n in rng.integers(1, 4, rank)],
        )
        attrs = {
            "kernel_sizes": kernel,
            "strides": strides,
            "pad_type": str(rng.choice(["valid", "same", "same_lower", "custom"])),
            "pad": [int(rng.integers(0, k)) for k in kernel for _ in range(2)],
        }
        if kind == "avg":
            attrs["exclude_padding_from_average"] = bool(rng.random() < 0.5)

        def reference(x, *_):
            pads = pads_of(attrs["pad_type"], attrs["pad"], x.shape[2:], kernel, strides)
            padded = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=np.nan)
            # [N, C, *D, *K]
            windows = np.lib.stride_tricks.sliding_window_view(
                padded, kernel, tuple(range(2, x.ndim))
            )
            windows = windows[(slice(None),) * 2 + tuple(slice(None, None, s) for s in strides)]
            return reduce(windows.reshape(*windows.shape[: x.ndim], -1))

        def reduce(window):
            if kind == "max":
                return np.nanmax(window, -1)
            if kind == "l2":
                return np.sqrt(np.nansum(window**2, -1))
            return (
                np.nanmean(window, -1)
                if attrs["exclude_padding_from_average"]
                else np.nansum(window, -1) / window.shape[-1]
            )

        return Case(
            {"x": rng.normal(size=(2, 3, *(int(n) for n in rng.integers(4, 8, rank))))},
            reference,
            attrs=attrs,
            ulps=2,
        )

    return make


# gate blocks of a PyTorch weight or bias in another order
def reordered(matrix: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    parts = np.split(matrix, len(order))
    return np.concatenate([parts[i] for i in order])


def lstm(rng: Rng) -> Case:
    both, batch, size, hidden, steps = bool(rng.random() < 0.5), 2, 3, 4, 5
    reverse, whole = bool(not both and rng.random() < 0.5), bool(rng.random() < 0.6)
    # PyTorch i f g o -> MIL i f o g
    names, mil = [""] + (["_reverse"] if both else []), (0, 1, 3, 2)
    consts = {}
    for back in ["", "_back"][: len(names)]:
        consts |= {
            f"weight_ih{back}": rng.normal(size=(16, size)) / 2,
            f"weight_hh{back}": rng.normal(size=(16, hidden)) / 2,
            f"bias{back}": rng.normal(size=16) / 2,
        }
    inputs = {
        "x": rng.normal(size=(steps, batch, size)),
        "initial_h": rng.normal(size=(batch, hidden * len(names))),
        "initial_c": rng.normal(size=(batch, hidden * len(names))),
    }

    def reference(x, h, c, *weights):
        module, state = torch.nn.LSTM(size, hidden, bidirectional=both).double(), {}
        for i, name in enumerate(names):
            w, u, b = (torch.from_numpy(reordered(v, mil)) for v in weights[3 * i : 3 * i + 3])
            state |= {
                f"weight_ih_l0{name}": w,
                f"weight_hh_l0{name}": u,
                f"bias_ih_l0{name}": b,
                f"bias_hh_l0{name}": torch.zeros_like(b),
            }
        module.load_state_dict(state)
        start = [torch.from_numpy(np.stack(np.split(v, len(names), -1))) for v in (h, c)]
        with torch.no_grad():
            y, (last_h, last_c) = module(torch.from_numpy(x[::-1].copy() if reverse else x), start)
        y = y.numpy()  # in processing order
        last = [np.concatenate(list(v.numpy()), -1) for v in (last_h, last_c)]
        return (y if whole else last[0][None], *last)

    direction = "bidirectional" if both else "reverse" if reverse else "forward"
    return Case(
        inputs,
        reference,
        consts=consts,
        attrs={"direction": direction, "output_sequence": whole},
        ulps=2,
    )


def gru(rng: Rng) -> Case:
    reverse, whole, batch, size, hidden = (
        bool(rng.random() < 0.5),
        bool(rng.random() < 0.5),
        2,
        3,
        4,
    )
    consts = {
        "weight_ih": rng.normal(size=(12, size)) / 2,
        "weight_hh": rng.normal(size=(12, hidden)) / 2,
        "bias": rng.normal(size=12) / 2,
    }

    def reference(x, h, w, u, b, *_):
        def sigmoid(v):
            return 1 / (1 + np.exp(-v))

        (w_r, w_n, w_z), (u_r, u_n, u_z), (b_r, b_n, b_z) = (np.split(m, 3) for m in (w, u, b))
        y = []
        for row in x[::-1] if reverse else x:
            r, z = sigmoid(row @ w_r.T + h @ u_r.T + b_r), sigmoid(row @ w_z.T + h @ u_z.T + b_z)
            h = (1 - z) * np.tanh(row @ w_n.T + (r * h) @ u_n.T + b_n) + z * h
            y.append(h)
        return (np.stack(y) if whole else h[None], h)

    return Case(
        {"x": rng.normal(size=(5, batch, size)), "initial_h": rng.normal(size=(batch, hidden))},
        reference,
        consts=consts,
        attrs={"direction": "reverse" if reverse else "forward", "output_sequence": whole},
        ulps=2,
    )


def rnn(rng: Rng) -> Case:
    reverse, activation = bool(rng.random() < 0.5), str(rng.choice(["tanh", "relu"]))
    consts = {
        "weight_ih": rng.normal(size=(4, 3)) / 2,
        "weight_hh": rng.normal(size=(4, 4)) / 2,
        "bias": rng.normal(size=4) / 2,
    }

    def reference(x, h, w, u, b, *_):
        module = torch.nn.RNN(3, 4, nonlinearity=activation).double()
        state = {"weight_ih_l0": w, "weight_hh_l0": u, "bias_ih_l0": b, "bias_hh_l0": np.zeros(4)}
        module.load_state_dict({k: torch.from_numpy(v) for k, v in state.items()})
        with torch.no_grad():
            y, last = module(
                torch.from_numpy(x[::-1].copy() if reverse else x), torch.from_numpy(h)[None]
            )
        return (y.numpy(), last.numpy()[0])  # in processing order

    return Case(
        {"x": rng.normal(size=(5, 2, 3)), "initial_h": rng.normal(size=(2, 4))},
        reference,
        consts=consts,
        attrs={
            "direction": "reverse" if reverse else "forward",
            "output_sequence": True,
            "activation": activation,
        },
        ulps=2,
    )


CASES = makers(globals()) | {
    "avg_pool": pool("avg"),
    "max_pool": pool("max"),
    "l2_pool": pool("l2"),
}
TARGETS = {"l2_pool": ct.target.iOS16, "scaled_dot_product_attention": ct.target.iOS18}


test_operation = test_of(CASES, TARGETS)


AXES = [axes for size in (1, 2, 3, 4) for axes in itertools.combinations(range(4), size)]


@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize(
    "op", ["reduce_mean", "reduce_sum", "reduce_l2_norm", "reduce_max", "reduce_log_sum_exp"]
)
def test_reductions_do_not_hang_on_the_storage(op: str, keep_dims: bool) -> None:
    x = torch.randn(2, 5, 3, 7, generator=torch.Generator().manual_seed(0))
    stored = x.to(memory_format=torch.channels_last)
    for axes in (*AXES, (-1,), (-3, -1)):
        usual, other = (
            REDUCTION[op].run(t, axes=list(axes), keep_dims=keep_dims) for t in (x, stored)
        )
        assert other.shape == usual.shape
        torch.testing.assert_close(other, usual)


@pytest.mark.parametrize("channels", [15, 16, 33])
def test_convolution_of_rows(channels: int) -> None:
    generator = torch.Generator().manual_seed(channels)
    x, weight = (
        torch.randn(1, channels, 4, 50, generator=generator),
        torch.randn(channels, channels, 1, 7, generator=generator),
    )
    bias = torch.randn(channels, generator=generator)
    computed = CONV["conv"].run(
        x, weight, bias, pad_type="custom", pad=[0, 0, 9, 9], dilations=[1, 3]
    )
    exact = torch.conv2d(
        x.double(), weight.double(), bias.double(), padding=(0, 9), dilation=(1, 3)
    )
    torch.testing.assert_close(computed.double(), exact, atol=1e-4, rtol=1e-4)
