"""Normalizations and pooling against NumPy, recurrent layers against PyTorch's own with their parameters copied in.

python -m pytest tests/test_mlprogram_layers.py -q
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
import torch

from tests.mlprogram_build import Case, check

Rng = np.random.Generator
from tests.test_mlprogram_products import pads_of


def channels(rng: Rng) -> np.ndarray:
    return rng.normal(size=(2, 4, *(int(n) for n in rng.integers(2, 6, rng.integers(1, 3))))) * 3 + 1


def per_channel(v: np.ndarray, x: np.ndarray) -> np.ndarray:
    return v.reshape(-1, *[1] * (x.ndim - 2))


def batch_norm(rng: Rng) -> Case:
    def reference(x, mean, variance, gamma, beta, epsilon):
        return (x - per_channel(mean, x)) / np.sqrt(per_channel(variance, x) + epsilon) * per_channel(gamma, x) + per_channel(beta, x)

    consts = {"mean": rng.normal(size=4), "variance": rng.uniform(0.5, 2, 4), "gamma": rng.normal(size=4), "beta": rng.normal(size=4)}
    return Case({"x": channels(rng)}, reference, consts=consts, attrs={"epsilon": 1e-3}, ulps=8)


def instance_norm(rng: Rng) -> Case:
    def reference(x, gamma, beta, epsilon):
        axes = tuple(range(2, x.ndim))
        return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon) * per_channel(gamma, x) + per_channel(
            beta, x
        )

    return Case(
        {"x": channels(rng)}, reference, consts={"gamma": rng.normal(size=4), "beta": rng.normal(size=4)}, attrs={"epsilon": 1e-3}, ulps=8
    )


def layer_norm(rng: Rng) -> Case:
    axes = [[-1], [1], [1, 2], [-2, -1]][rng.integers(4)]
    x = rng.normal(size=(3, 4, 5)) * 2
    inner = tuple(x.shape[a] for a in axes)

    def reference(x, gamma, beta, axes, epsilon):
        spread = [n if i in {a % 3 for a in axes} else 1 for i, n in enumerate(x.shape)]
        normal = (x - x.mean(tuple(axes), keepdims=True)) / np.sqrt(x.var(tuple(axes), keepdims=True) + epsilon)
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


def pool(kind: str) -> Callable[[Rng], Case]:
    """A case maker for pooling: the reference walks over the windows."""

    def make(rng: Rng) -> Case:
        rank = int(rng.integers(1, 3 if kind == "l2" else 4))
        kernel, strides = [int(n) for n in rng.integers(1, 4, rank)], [int(n) for n in rng.integers(1, 4, rank)]
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
            out = [(n - k) // s + 1 for n, k, s in zip(padded.shape[2:], kernel, strides, strict=True)]
            y = np.zeros((*x.shape[:2], *out))
            for place in itertools.product(*(range(n) for n in out)):
                window = padded[(slice(None),) * 2 + tuple(slice(p * s, p * s + k) for p, s, k in zip(place, strides, kernel, strict=True))]
                y[(slice(None),) * 2 + place] = reduce(window.reshape(*x.shape[:2], -1))
            return y

        def reduce(window):
            if kind == "max":
                return np.nanmax(window, -1)
            if kind == "l2":
                return np.sqrt(np.nansum(window**2, -1))
            return np.nanmean(window, -1) if attrs["exclude_padding_from_average"] else np.nansum(window, -1) / window.shape[-1]

        return Case({"x": rng.normal(size=(2, 3, *(int(n) for n in rng.integers(4, 8, rank))))}, reference, attrs=attrs, ulps=2)

    return make


def reordered(matrix: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """Gate blocks of a PyTorch weight or bias in another order."""
    parts = np.split(matrix, len(order))
    return np.concatenate([parts[i] for i in order])


def lstm(rng: Rng) -> Case:
    both, batch, size, hidden, steps = bool(rng.random() < 0.5), 2, 3, 4, 5
    reverse, whole = bool(not both and rng.random() < 0.5), bool(rng.random() < 0.6)
    names, mil = [""] + (["_reverse"] if both else []), (0, 1, 3, 2)  # PyTorch i f g o -> MIL i f o g
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
        module = torch.nn.LSTM(size, hidden, bidirectional=both).double()
        state = {}
        for i, name in enumerate(names):
            w, u, b = (torch.from_numpy(reordered(v, mil)) for v in weights[3 * i : 3 * i + 3])
            state |= {f"weight_ih_l0{name}": w, f"weight_hh_l0{name}": u, f"bias_ih_l0{name}": b, f"bias_hh_l0{name}": torch.zeros_like(b)}
        module.load_state_dict(state)
        start = [torch.from_numpy(np.stack(np.split(v, len(names), -1))) for v in (h, c)]
        with torch.no_grad():
            y, (last_h, last_c) = module(torch.from_numpy(x[::-1].copy() if reverse else x), start)
        y = y.numpy()  # in processing order
        last = [np.concatenate(list(v.numpy()), -1) for v in (last_h, last_c)]
        return (y if whole else last[0][None], *last)

    direction = "bidirectional" if both else "reverse" if reverse else "forward"
    return Case(inputs, reference, consts=consts, attrs={"direction": direction, "output_sequence": whole}, ulps=2)


def gru(rng: Rng) -> Case:
    reverse, whole, batch, size, hidden = bool(rng.random() < 0.5), bool(rng.random() < 0.5), 2, 3, 4
    consts = {"weight_ih": rng.normal(size=(12, size)) / 2, "weight_hh": rng.normal(size=(12, hidden)) / 2, "bias": rng.normal(size=12) / 2}

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
    consts = {"weight_ih": rng.normal(size=(4, 3)) / 2, "weight_hh": rng.normal(size=(4, 4)) / 2, "bias": rng.normal(size=4) / 2}

    def reference(x, h, w, u, b, *_):
        module = torch.nn.RNN(3, 4, nonlinearity=activation).double()
        state = {"weight_ih_l0": w, "weight_hh_l0": u, "bias_ih_l0": b, "bias_hh_l0": np.zeros(4)}
        module.load_state_dict({k: torch.from_numpy(v) for k, v in state.items()})
        with torch.no_grad():
            y, last = module(torch.from_numpy(x[::-1].copy() if reverse else x), torch.from_numpy(h)[None])
        return (y.numpy(), last.numpy()[0])  # in processing order

    return Case(
        {"x": rng.normal(size=(5, 2, 3)), "initial_h": rng.normal(size=(2, 4))},
        reference,
        consts=consts,
        attrs={"direction": "reverse" if reverse else "forward", "output_sequence": True, "activation": activation},
        ulps=2,
    )


CASES: dict[str, Callable[[Rng], Case]] = {
    f.__name__: f for f in (batch_norm, instance_norm, layer_norm, l2_norm, local_response_norm, lstm, gru, rnn)
} | {"avg_pool": pool("avg"), "max_pool": pool("max"), "l2_pool": pool("l2")}


@pytest.mark.parametrize("op", sorted(CASES))
def test_operation(op: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(sum(map(ord, op)))
    check(op, [CASES[op](rng) for _ in range(6)], tmp_path, ct.target.iOS16 if op == "l2_pool" else ct.target.iOS17)
