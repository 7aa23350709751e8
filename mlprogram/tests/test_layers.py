"""Convolutions, matrix products, norms, pools, attention and recurrent layers against PyTorch."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from built import IOS16, IOS18, Case, flip, test_of
from mlprogram.ops import KERNELS
from mlprogram.ops.linear import REDUCTION

CONVOLUTIONS = (F.conv1d, F.conv2d, F.conv3d)
TRANSPOSED = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)


def sizes(rng, low, high, count):
    return rng.integers(low, high, count).tolist()


def normal(rng, *shape):
    return rng.normal(size=shape) / 2


def borders(attrs, surplus):
    """(before, after) of each axis: what its pad_type makes of this surplus of places."""
    halves = [(max(0, n) // 2, n - max(0, n) // 2) for n in surplus]
    return {
        "valid": [(0, 0)] * len(surplus),
        "custom": [*zip(attrs["pad"][::2], attrs["pad"][1::2], strict=True)],
        "same": halves,
        "same_lower": [pair[::-1] for pair in halves],
    }[attrs["pad_type"]]


def padded(x, kernel, attrs, value=0):
    """x with the padding of its pad_type around the axes of the kernel, dilation included."""
    axes = zip(x.shape[2:], kernel, attrs["strides"], strict=True)
    surplus = [max(0, (-(-n // stride) - 1) * stride + k - n) for n, k, stride in axes]
    return F.pad(x, [n for pair in borders(attrs, surplus)[::-1] for n in pair], value=value)


def spans(kernel, attrs):
    """Places that a kernel reaches over on each axis."""
    return [(k - 1) * d + 1 for k, d in zip(kernel, attrs["dilations"], strict=True)]


def window_attributes(rng, kernel, *more):
    return {
        "strides": sizes(rng, 1, 4, len(kernel)),
        "pad_type": str(rng.choice(["valid", "same", "custom", *more])),
        "pad": [int(rng.integers(0, k)) for k in kernel for _ in range(2)],
    }


def conv_attributes(rng, kernel, *more):
    dilations = {"dilations": sizes(rng, 1, 3, len(kernel))}
    return window_attributes(rng, kernel, *more) | dilations | {"groups": int(rng.choice([1, 2]))}


def conv(rng, rank, channels):
    kernel = sizes(rng, 1, 4, rank)
    attrs = conv_attributes(rng, kernel, "same_lower")
    if channels > 4:
        attrs["groups"] = 1
    weights = {"weight": normal(rng, 2 * channels, channels // attrs["groups"], *kernel)}
    weights |= {"bias": normal(rng, 2 * channels)} if flip(rng, 0.7) else {}

    def reference(x, weight, *rest):
        bias = rest[0] if "bias" in weights else None
        x = padded(x, spans(kernel, attrs), attrs)
        strides, dilations = attrs["strides"], attrs["dilations"]
        return CONVOLUTIONS[rank - 1](x, weight, bias, strides, 0, dilations, attrs["groups"])

    x = normal(rng, 2, channels, *sizes(rng, 6, 9, rank))
    return Case(reference, x=x, consts=weights, ulps=4, **attrs)


def conv_transpose(rng, rank):
    """Against PyTorch's result without padding, less its borders."""
    kernel = sizes(rng, 1, 4, rank)
    attrs = conv_attributes(rng, kernel)
    if rank == 3:
        attrs |= {"dilations": [1] * 3, "groups": 1}
    x = normal(rng, 2, 4, *sizes(rng, 4, 7, rank))
    axes = [*zip(x.shape[2:], spans(kernel, attrs), attrs["strides"], strict=True)]
    cuts = borders(attrs, [span - stride for _, span, stride in axes])
    if attrs["pad_type"] == "custom" and flip(rng):
        # what PyTorch calls output padding
        cuts[-1] = (cuts[-1][0], cuts[-1][1] - attrs["strides"][-1] + 1)
        rows = zip(axes, cuts, strict=True)
        attrs["output_shape"] = [2, 8, *((n - 1) * s + k - sum(cut) for (n, k, s), cut in rows)]

    def reference(x, weight, bias, *_):
        y = TRANSPOSED[rank - 1](
            x, weight, None, attrs["strides"], 0, 0, attrs["groups"], attrs["dilations"]
        )
        return F.pad(y, [-n for cut in cuts[::-1] for n in cut]) + bias.reshape(-1, *[1] * rank)

    weights = {"weight": normal(rng, 4, 8 // attrs["groups"], *kernel), "bias": normal(rng, 8)}
    return Case(reference, x=x, consts=weights, ulps=4, **attrs)


def linear(rng):
    weights = {"weight": normal(rng, 5, 6), "bias": normal(rng, 5)}
    x = normal(rng, *sizes(rng, 1, 5, rng.integers(1, 4)), 6)
    return Case(F.linear, x=x, consts=weights, ulps=4)


def matmul(rng, batch, left, right):
    return Case(
        lambda x, y, *_: (x.mT if left else x) @ (y.mT if right else y),
        x=normal(rng, 2, 1, *((5, 4) if left else (4, 5))),
        y=normal(rng, *batch, *((6, 5) if right else (5, 6))),
        transpose_x=left,
        transpose_y=right,
        ulps=4,
    )


def scaled_dot_product_attention(rng):
    mask = rng.random((4, 5)) < 0.7
    mask[:, 0] = True
    kind = rng.integers(3)
    return Case(
        F.scaled_dot_product_attention,
        query=normal(rng, 2, 3, 4, 8),
        key=normal(rng, 2, 3, 5, 8),
        value=normal(rng, 2, 3, 5, 6),
        ulps=4,
        folds=kind != 1,  # a bool mask constant is not folded
        target=IOS18,
        **[{}, {"attn_mask": mask}, {"attn_mask": normal(rng, 4, 5)}][kind],
    )


def scale_and_zero(rng, kind):
    """A scale for each channel of axis 1 or one for all, with a zero point or without: both as
    columns, and the arguments.
    """
    size = [4] if flip(rng) else []
    # powers of two: a tie is a tie in every type
    scale, zero = 2.0 ** rng.integers(-6, -3, size), rng.integers(0, 9, size).astype(kind)
    more = {"consts": {"scale": np.array(scale)}} | ({"axis": 1} if size else {})
    if flip(rng, 0.7):
        more["consts"]["zero_point"] = zero
    else:
        zero = 0 * zero
    return *(torch.tensor(np.reshape(p, (-1, 1))).double() for p in (scale, zero)), more


def quantize(rng):
    kind = (np.int8, np.uint8)[rng.integers(2)]
    limits, (scale, zero, more) = np.iinfo(kind), scale_and_zero(rng, kind)
    return Case(
        lambda x, *_: ((x / scale).round() + zero).clamp(limits.min, limits.max),
        input=rng.integers(-300, 300, (3, 4, 5)) / 32.0,
        output_dtype=limits.dtype.name,
        **more,
    )


def dequantize(rng):
    scale, zero, more = scale_and_zero(rng, np.int8)
    more["consts"] = {"input": rng.integers(-128, 128, (3, 4, 5)).astype(np.int8)} | more["consts"]
    return Case(lambda codes, *_: (codes.double() - zero) * scale, **more)


def channels(rng):
    return normal(rng, 2, 4, *sizes(rng, 2, 6, rng.integers(1, 3))) * 6 + 1


def batch_norm(rng):
    names = ("mean", "variance", "gamma", "beta")
    return Case(
        lambda x, *rest: F.batch_norm(x, *rest[:4], eps=rest[4]),
        x=channels(rng),
        consts={n: rng.uniform(0.5, 2, 4) for n in names},
        epsilon=1e-3,
        ulps=8,
    )


def instance_norm(rng):
    return Case(
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
    return Case(reference, x=x, consts=weights, axes=axes, epsilon=1e-3, ulps=8)


def l2_norm(rng):
    return Case(
        lambda x, e: x / (x.square().sum((1, 2, 3), keepdim=True) + e).sqrt(),
        x=normal(rng, 2, 3, 4, 5),
        epsilon=1e-3,
        ulps=2,
    )


def local_response_norm(rng):
    x, size = normal(rng, 2, 6, 3, 4) * 2, int(rng.integers(1, 5))
    return Case(F.local_response_norm, x=x, size=size, alpha=0.5, beta=0.75, k=1.5, ulps=2)


def windows(x, attrs, value=0):
    """The values under a kernel at each of its places: [N, C, *places, values]."""
    kernel = attrs["kernel_sizes"]
    x = padded(x, kernel, attrs, value)
    for axis, (size, stride) in enumerate(zip(kernel, attrs["strides"], strict=True)):
        x = x.unfold(axis + 2, size, stride)
    return x.flatten(-len(kernel))


def pool(rng, reference, rank, **more):
    kernel = sizes(rng, 1, 4, rank)
    attrs = {"kernel_sizes": kernel, **window_attributes(rng, kernel, "same_lower"), **more}
    x = normal(rng, 2, 3, *sizes(rng, 4, 8, rank))
    return Case(lambda x, *_: reference(x, attrs), x=x, ulps=2, **attrs)


def average(x, attrs):
    if attrs["exclude_padding_from_average"]:
        return windows(x, attrs).sum(-1) / windows(torch.ones_like(x), attrs).sum(-1)
    return windows(x, attrs).mean(-1)


def largest(x, attrs):
    return windows(x, attrs, -np.inf).amax(-1)


def root_of_squares(x, attrs):
    return windows(x.square(), attrs).sum(-1).sqrt()


def lstm_step(row, u, h, c):
    i, f, o, g = (row + h @ u.T).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def gru_step(row, u, h):
    (w_r, w_n, w_z), (u_r, u_n, u_z) = row.chunk(3, -1), u.chunk(3)
    r, z = torch.sigmoid(w_r + h @ u_r.T), torch.sigmoid(w_z + h @ u_z.T)
    return ((1 - z) * torch.tanh(w_n + (r * h) @ u_n.T) + z * h,)


def recurrent(rng, direction, gates, step, **attrs):
    """Five steps of a batch of 2 with 3 features and 4 states, one step after the other. A reverse
    layer answers in the order in which it runs, a bidirectional one in the order of its input.
    """
    both, whole = direction == "bidirectional", flip(rng)
    shapes = {"weight_ih": (4 * gates, 3), "weight_hh": (4 * gates, 4), "bias": (4 * gates,)}
    states = ["initial_h", "initial_c"] if gates == 4 else ["initial_h"]

    def reference(x, *rest):
        runs = []
        for i in range(1 + both):
            state = [s.chunk(1 + both, -1)[i] for s in rest[: len(states)]]
            w, u, b = rest[len(states) + 3 * i :][:3]
            y = []
            for row in F.linear(x.flip(0) if i or direction == "reverse" else x, w, b):
                state = step(row, u, *state)
                y.append(state[0])
            runs.append((torch.stack(y[::-1] if i else y), *state))
        y, *last = (torch.cat(parts, -1) for parts in zip(*runs, strict=True))
        return (y if whole else last[0][None], *last)

    return Case(
        reference,
        x=normal(rng, 5, 2, 3),
        **{name: normal(rng, 2, 4 * (1 + both)) for name in states},
        consts={
            name + suffix: normal(rng, *shape)
            for suffix in ("", "_back")[: 1 + both]
            for name, shape in shapes.items()
        },
        direction=direction,
        output_sequence=whole,
        ulps=2,
        **attrs,
    )


DRAWN = np.random.default_rng(0)
DIRECTIONS = ("forward", "reverse", "bidirectional")
MAKERS = {name: maker for name, maker in globals().items() if name in KERNELS}
CASES = MAKERS | {
    # (rank, channels): those of 16 and more run with their channels last
    "conv": [
        conv(DRAWN, *more)
        for more in ((1, 4), (2, 4), (3, 4), (1, 4), (2, 4), (3, 4), (2, 15), (2, 16), (2, 33))
    ],
    "conv_transpose": [conv_transpose(DRAWN, rank) for rank in (1, 2, 3) for _ in range(4)],
    "matmul": [
        Case(torch.matmul, x=normal(DRAWN, 5), y=normal(DRAWN, 5, 6), ulps=4),
        *(
            matmul(DRAWN, batch, *sides)
            for batch in ((), (1,), (3,))
            for sides in ((False, True), (True, False))
        ),
    ],
    "avg_pool": [
        pool(DRAWN, average, rank, exclude_padding_from_average=share)
        for rank in (1, 2, 3)
        for share in (False, True)
    ],
    "max_pool": [pool(DRAWN, largest, rank) for rank in (1, 2, 3) for _ in range(2)],
    "l2_pool": [
        pool(DRAWN, root_of_squares, rank, target=IOS16) for rank in (1, 2) for _ in range(3)
    ],
    "lstm": [recurrent(DRAWN, way, 4, lstm_step) for way in DIRECTIONS for _ in range(3)],
    "gru": [recurrent(DRAWN, way, 3, gru_step) for way in DIRECTIONS[:2] for _ in range(3)],
    "rnn": [
        recurrent(
            DRAWN,
            way,
            1,
            lambda row, u, h, run=run: (run(row + h @ u.T),),
            activation=run.__name__,
        )
        for way in DIRECTIONS[:2]
        for run in (torch.tanh, torch.relu)
    ],
    "einsum": [
        Case(
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

test_operation = test_of(CASES)


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
