"""Convolutions, matrix products, norms, pools, attention and recurrent layers against PyTorch."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from built import IOS16, IOS18, case, flip, makers, test_of
from mlprogram.ops.linear import REDUCTION

Tensor = torch.Tensor
CONVOLUTIONS = (F.conv1d, F.conv2d, F.conv3d)
AVERAGES, MAXIMA = (
    (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d),
    (F.max_pool1d, F.max_pool2d, F.max_pool3d),
)


def sizes(rng, low, high, count):
    return rng.integers(low, high, count).tolist()


def normal(rng, *shape):
    return rng.normal(size=shape) / 2


def padded(x, kernel, attrs, value=0):
    """x with the padding of its pad_type around the axes of the kernel, dilation included."""
    kind, pairs = attrs["pad_type"], []
    plan = zip(
        x.shape[2:], kernel, attrs["strides"], attrs["pad"][::2], attrs["pad"][1::2], strict=True
    )
    for n, k, stride, before, after in plan:
        total = max(0, (-(-n // stride) - 1) * stride + k - n)
        less, more = total // 2, total - total // 2
        by_kind = {
            "valid": (0, 0),
            "custom": (before, after),
            "same": (less, more),
            "same_lower": (more, less),
        }
        pairs = [*by_kind[kind], *pairs]
    return F.pad(x, pairs, value=value)


def convolved(x, weight, attrs):
    kernel = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], attrs["dilations"], strict=True)]
    run = CONVOLUTIONS[x.dim() - 3]
    return run(
        padded(x, kernel, attrs),
        weight,
        None,
        attrs["strides"],
        0,
        attrs["dilations"],
        attrs["groups"],
    )


def with_bias(y, bias):
    return y + bias.reshape(-1, *[1] * (y.dim() - 2))


def conv_attributes(rng, kernel, *more):
    return {
        "strides": sizes(rng, 1, 4, len(kernel)),
        "pad_type": str(rng.choice(["valid", "same", "custom", *more])),
        "pad": [int(rng.integers(0, k)) for k in kernel for _ in range(2)],
        "dilations": sizes(rng, 1, 3, len(kernel)),
        "groups": int(rng.choice([1, 1, 2, 4])),
    }


def conv(rng, rank, channels):
    kernel = sizes(rng, 1, 4, rank)
    attrs = conv_attributes(rng, kernel, "same_lower")
    if channels > 4:
        attrs["groups"] = 1
    weights = {"weight": normal(rng, 2 * channels, channels // attrs["groups"], *kernel)}
    weights |= {"bias": normal(rng, 2 * channels)} if flip(rng, 0.7) else {}

    def reference(x, weight, *rest):
        y = convolved(x, weight, attrs)
        return with_bias(y, rest[0]) if "bias" in weights else y

    x = normal(rng, 2, channels, *sizes(rng, 6, 9, rank))
    return case(reference, x=x, consts=weights, ulps=4, **attrs)


def conv_transpose(rng):
    """Against the gradient of the convolution that it is the transpose of."""
    kernel = sizes(rng, 1, 4, rng.integers(1, 4))
    attrs = conv_attributes(rng, kernel)
    if len(kernel) == 3:
        attrs |= {"dilations": [1] * 3, "groups": 1}
    x = normal(rng, 2, 4, *sizes(rng, 4, 7, len(kernel)))
    axes = [*zip(x.shape[2:], attrs["strides"], kernel, attrs["dilations"], strict=True)]
    size = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in axes]
    if attrs["pad_type"] == "same":
        size = [n * s for n, s, _, _ in axes]
    if attrs["pad_type"] == "custom":
        size = [max(1, n - sum(attrs["pad"][2 * i : 2 * i + 2])) for i, n in enumerate(size)]
        if flip(rng):
            size[-1] += attrs["strides"][-1] - 1  # what PyTorch calls output padding
            attrs["output_shape"] = [2, 8, *size]

    def reference(x, weight, bias, *_):
        start = torch.zeros(2, 8, *size, dtype=x.dtype)
        _, y = torch.autograd.functional.vjp(lambda y: convolved(y, weight, attrs), start, x)
        return with_bias(y, bias)

    weights = {"weight": normal(rng, 4, 8 // attrs["groups"], *kernel), "bias": normal(rng, 8)}
    return case(reference, x=x, consts=weights, ulps=4, **attrs)


def linear(rng):
    weights = {"weight": normal(rng, 5, 6), "bias": normal(rng, 5)}
    x = normal(rng, *sizes(rng, 1, 5, rng.integers(1, 4)), 6)
    return case(F.linear, x=x, consts=weights, ulps=4)


def matmul(rng):
    x, y = normal(rng, 2, 1, 4, 5), normal(rng, *[(3, 5, 6), (1, 5, 6), (5, 6)][rng.integers(3)])
    if flip(rng, 0.2):
        return case(torch.matmul, x=x[0, 0, 0], y=y, ulps=4)
    left, right = flip(rng), flip(rng)
    return case(
        lambda x, y, *_: (x.mT if left else x) @ (y.mT if right else y),
        x=x.swapaxes(-1, -2).copy() if left else x,
        y=y.swapaxes(-1, -2).copy() if right else y,
        transpose_x=left,
        transpose_y=right,
        ulps=4,
    )


def scaled_dot_product_attention(rng):
    mask = rng.random((4, 5)) < 0.7
    mask[:, 0] = True
    kind = rng.integers(3)
    return case(
        F.scaled_dot_product_attention,
        query=normal(rng, 2, 3, 4, 8),
        key=normal(rng, 2, 3, 5, 8),
        value=normal(rng, 2, 3, 5, 6),
        ulps=4,
        folds=kind != 1,  # a bool mask constant is not folded
        **[{}, {"attn_mask": mask}, {"attn_mask": normal(rng, 4, 5)}][kind],
    )


def scale_and_zero(rng, scales, kind, low):
    """A scale for each channel of axis 1 or one for all, with a zero point or without."""
    scale = scales if flip(rng) else np.array(scales[0])
    zero = {"zero_point": rng.integers(low, 9, scale.shape).astype(kind)} if flip(rng, 0.7) else {}
    return {"consts": {"scale": scale} | zero} | ({"axis": 1} if scale.ndim else {})


def along(parameters):
    """(scale, zero point) that line up with axis 1."""
    scale, *zero = (p.double().reshape(-1, 1) for p in parameters if isinstance(p, Tensor))
    return scale, zero[0] if zero else torch.zeros(1, 1)


def quantize(rng):
    kind = (np.int8, np.uint8)[rng.integers(2)]
    low, high = np.iinfo(kind).min, np.iinfo(kind).max

    def reference(x, *parameters):
        scale, zero = along(parameters)
        return ((x / scale).round() + zero).clamp(low, high)

    ties, name = rng.integers(-300, 300, (3, 4, 5)) / 32.0, np.dtype(kind).name
    # powers of two: a tie is a tie in every type
    more = scale_and_zero(rng, 2.0 ** rng.integers(-6, -3, 4), kind, 0)
    return case(reference, input=ties, output_dtype=name, **more)


def dequantize(rng):
    def reference(codes, *parameters):
        scale, zero = along(parameters)
        return (codes.double() - zero) * scale

    more = scale_and_zero(rng, rng.uniform(0.01, 0.1, 4), np.int8, -9)
    codes = {"input": rng.integers(-128, 128, (3, 4, 5)).astype(np.int8)}
    return case(reference, **more | {"consts": codes | more["consts"]})


def channels(rng):
    return normal(rng, 2, 4, *sizes(rng, 2, 6, rng.integers(1, 3))) * 6 + 1


def batch_norm(rng):
    names = ("mean", "variance", "gamma", "beta")
    return case(
        lambda x, *rest: F.batch_norm(x, *rest[:4], eps=rest[4]),
        x=channels(rng),
        consts={n: rng.uniform(0.5, 2, 4) for n in names},
        epsilon=1e-3,
        ulps=8,
    )


def instance_norm(rng):
    return case(
        lambda x, gamma, beta, e: F.instance_norm(x, weight=gamma, bias=beta, eps=e),
        x=channels(rng),
        consts={n: normal(rng, 4) for n in ("gamma", "beta")},
        epsilon=1e-3,
        ulps=8,
    )


def layer_norm(rng):
    axes, x = [[-1], [1], [1, 2], [-2, -1]][rng.integers(4)], normal(rng, 3, 4, 5) * 4
    inner, last = [x.shape[a] for a in axes], [*range(-len(axes), 0)]

    def reference(x, gamma, beta, axes, epsilon):
        return F.layer_norm(x.movedim(axes, last), inner, gamma, beta, epsilon).movedim(last, axes)

    weights = {n: normal(rng, *inner) for n in ("gamma", "beta")}
    return case(reference, x=x, consts=weights, axes=axes, epsilon=1e-3, ulps=8)


def l2_norm(rng):
    return case(
        lambda x, e: x / (x.square().sum((1, 2, 3), keepdim=True) + e).sqrt(),
        x=normal(rng, 2, 3, 4, 5),
        epsilon=1e-3,
        ulps=2,
    )


def local_response_norm(rng):
    x, size = normal(rng, 2, 6, 3, 4) * 2, int(rng.integers(1, 5))
    return case(F.local_response_norm, x=x, size=size, alpha=0.5, beta=0.75, k=1.5, ulps=2)


# A case maker for pooling
def pool(kind):
    def make(rng):
        kernel = sizes(rng, 1, 4, rng.integers(1, 3 if kind == "l2" else 4))
        attrs = {
            "kernel_sizes": kernel,
            "strides": sizes(rng, 1, 4, len(kernel)),
            "pad_type": str(rng.choice(["valid", "same", "same_lower", "custom"])),
            "pad": [int(rng.integers(0, k)) for k in kernel for _ in range(2)],
        }
        inner = {"exclude_padding_from_average": flip(rng)} if kind == "avg" else {}

        def mean(x):
            return AVERAGES[len(kernel) - 1](padded(x, kernel, attrs), kernel, attrs["strides"])

        def reference(x, *_):
            if kind == "max":
                return MAXIMA[len(kernel) - 1](
                    padded(x, kernel, attrs, -np.inf), kernel, attrs["strides"]
                )
            if kind == "l2":
                return (mean(x.square()) * np.prod(kernel)).sqrt()
            return mean(x) / mean(torch.ones_like(x)) if any(inner.values()) else mean(x)

        x = normal(rng, 2, 3, *sizes(rng, 4, 8, len(kernel)))
        return case(reference, x=x, ulps=2, **attrs, **inner)

    return make


def reordered(matrix, *order):
    """Gate blocks of a weight or a bias in another order."""
    return torch.cat([matrix.chunk(len(order))[i] for i in order])


def recurrent(rng, gates, *suffixes):
    """Inputs of five steps, a batch of 2 and 3 features; weights of 4 states for each suffix."""
    states = ("initial_h", "initial_c") if gates == 4 else ("initial_h",)
    shapes = {"weight_ih": (4 * gates, 3), "weight_hh": (4 * gates, 4), "bias": (4 * gates,)}
    return {
        "x": normal(rng, 5, 2, 3),
        **{n: normal(rng, 2, 4 * len(suffixes)) for n in states},
        "consts": {n + s: normal(rng, *shape) for s in suffixes for n, shape in shapes.items()},
        "ulps": 2,
    }


def lstm(rng):
    both, whole = flip(rng), flip(rng, 0.6)
    reverse = not both and flip(rng)
    more = recurrent(rng, 4, *["", "_back"][: 1 + both])

    def reference(x, h, c, *rest):
        parameters = []
        for i in range(0, 3 + 3 * both, 3):
            # PyTorch i f g o -> MIL i f o g
            w, u, b = (reordered(v, 0, 1, 3, 2) for v in rest[i : i + 3])
            parameters += [w, u, b, torch.zeros_like(b)]
        state = [torch.stack(v.chunk(1 + both, -1)) for v in (h, c)]
        x = x.flip(0) if reverse else x  # the result is in processing order
        y, *last = torch.lstm(x, state, parameters, True, 1, 0.0, False, both, False)
        last = [torch.cat([*v], -1) for v in last]
        return (y if whole else last[0][None], *last)

    direction = "bidirectional" if both else "reverse" if reverse else "forward"
    return case(reference, direction=direction, output_sequence=whole, **more)


def gru(rng):
    reverse, whole = flip(rng), flip(rng)
    more = recurrent(rng, 3, "")

    def reference(x, h, w, u, b, *_):
        y = []
        for row in F.linear(x.flip(0) if reverse else x, w, b):
            (w_r, w_n, w_z), (u_r, u_n, u_z) = row.chunk(3, -1), u.chunk(3)
            r, z = torch.sigmoid(w_r + h @ u_r.T), torch.sigmoid(w_z + h @ u_z.T)
            h = (1 - z) * torch.tanh(w_n + (r * h) @ u_n.T) + z * h
            y.append(h)
        return (torch.stack(y) if whole else h[None], h)

    return case(
        reference,
        direction="reverse" if reverse else "forward",
        output_sequence=whole,
        **more,
    )


def rnn(rng):
    reverse, activation = flip(rng), str(rng.choice(["tanh", "relu"]))
    more = recurrent(rng, 1, "")

    def reference(x, h, w, u, b, *_):
        run = torch.rnn_tanh if activation == "tanh" else torch.rnn_relu
        x, parameters = x.flip(0) if reverse else x, [w, u, b, torch.zeros_like(b)]
        y, last = run(x, h[None], parameters, True, 1, 0.0, False, False, False)
        return (y, last[0])  # in processing order

    direction = "reverse" if reverse else "forward"
    return case(
        reference,
        direction=direction,
        output_sequence=True,
        activation=activation,
        **more,
    )


DRAWN = np.random.default_rng(0)
CASES = makers(globals()) | {
    # (rank, channels): those of 16 and more run with their channels last
    "conv": [
        conv(DRAWN, *more)
        for more in ((1, 4), (2, 4), (3, 4), (1, 4), (2, 4), (3, 4), (2, 15), (2, 16), (2, 33))
    ],
    "conv_transpose": [conv_transpose(DRAWN) for _ in range(12)],
    "avg_pool": pool("avg"),
    "max_pool": pool("max"),
    "l2_pool": pool("l2"),
    "einsum": [
        case(
            lambda v, e: torch.einsum(e, *v),
            values=[normal(DRAWN, *a), normal(DRAWN, *b)],
            equation=equation,
            ulps=4,
        )
        for a, b, equation in (
            ((2, 3, 4, 5), (2, 5, 4, 6), "nchw,nwhu->nchu"),
            ((3, 4, 5), (5, 4, 6), "chw,whr->chr"),
        )
    ],
}

test_operation = test_of(CASES, {"l2_pool": IOS16, "scaled_dot_product_attention": IOS18})


AXES = [axes for size in (1, 2, 3, 4) for axes in itertools.combinations(range(4), size)]


@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize(
    "op", ["reduce_mean", "reduce_sum", "reduce_l2_norm", "reduce_max", "reduce_log_sum_exp"]
)
def test_reductions_do_not_hang_on_the_storage(op, keep_dims):
    x = torch.randn(2, 5, 3, 7, generator=torch.Generator().manual_seed(0))
    stored = x.to(memory_format=torch.channels_last)
    for axes in (*AXES, (-1,), (-3, -1)):
        run = REDUCTION[op].run
        usual, other = (run(t, axes=list(axes), keep_dims=keep_dims) for t in (x, stored))
        assert other.shape == usual.shape
        torch.testing.assert_close(other, usual)
