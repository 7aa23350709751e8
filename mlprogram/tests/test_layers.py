"""Convolutions, matrix products, norms, pools, attention and recurrent layers against PyTorch."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from mlprogram.ops.linear import REDUCTION
from operation_cases import Case, flip, table, test_of

CONVOLUTIONS = (F.conv1d, F.conv2d, F.conv3d)
TRANSPOSED = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)


def borders(pad_type, pad, surplus):
    """(before, after) of each axis: what its pad_type makes of this surplus of places."""
    halves = [(max(0, n) // 2, n - max(0, n) // 2) for n in surplus]
    return {
        "valid": [(0, 0)] * len(surplus),
        "custom": [*zip(pad[::2], pad[1::2], strict=True)],
        "same": halves,
        "same_lower": [pair[::-1] for pair in halves],
    }[pad_type]


def padded(x, spans, strides, *padding, value=0):
    """x with its padding around axes on which a kernel reaches over these spans."""
    axes = zip(x.shape[2:], spans, strides, strict=True)
    surplus = [max(0, (-(-n // stride) - 1) * stride + k - n) for n, k, stride in axes]
    pairs = borders(*padding, surplus)
    return F.pad(x, [n for pair in pairs[::-1] for n in pair], value=value)


def spans_of(weight, dilations):
    return [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]


def conv(x, weight, *rest):
    *bias, strides, pad_type, pad, dilations, groups = rest
    x = padded(x, spans_of(weight, dilations), strides, pad_type, pad)
    bias = bias[0] if bias else None
    return CONVOLUTIONS[x.dim() - 3](x, weight, bias, strides, 0, dilations, groups)


def conv_transpose(x, weight, bias, strides, pad_type, pad, dilations, groups, shape=None):
    """PyTorch's result without padding, less its borders, or up to a shape where one is given."""
    y = TRANSPOSED[x.dim() - 3](x, weight, None, strides, 0, 0, groups, dilations)
    spans = spans_of(weight, dilations)
    cuts = borders(pad_type, pad, [k - s for k, s in zip(spans, strides, strict=True)])
    if shape is not None:
        # what PyTorch calls output padding
        cuts[-1] = (cuts[-1][0], y.shape[-1] - cuts[-1][0] - shape[-1])
    y = F.pad(y, [-n for cut in cuts[::-1] for n in cut])
    return y + bias.reshape(-1, *[1] * (x.dim() - 2))


def windows(x, kernel, strides, *padding, value=0):
    """The values under a kernel at each of its places: [N, C, *places, values]."""
    x = padded(x, kernel, strides, *padding, value=value)
    for axis, (size, stride) in enumerate(zip(kernel, strides, strict=True)):
        x = x.unfold(axis + 2, size, stride)
    return x.flatten(-len(kernel))


def avg_pool(x, *rest):
    *window, excludes_padding = rest
    values = windows(x, *window)
    if excludes_padding:
        return values.sum(-1) / windows(torch.ones_like(x), *window).sum(-1)
    return values.mean(-1)


def layer_norm(x, gamma, beta, axes, epsilon):
    last = [*range(-len(axes), 0)]
    y = F.layer_norm(x.movedim(axes, last), gamma.shape, gamma, beta, epsilon)
    return y.movedim(last, axes)


def columns(scale, *rest):
    """Scale and zero point, 0 where there is none, along axis 1: behind them comes the axis where
    each channel has its own.
    """
    zero = rest[0] if len(rest) > isinstance(scale, torch.Tensor) else 0
    return (torch.as_tensor(v).double().reshape(-1, 1) for v in (scale, zero))


def quantize(x, *rest):
    *parameters, name = rest
    scale, zero = columns(*parameters)
    limits = torch.iinfo(getattr(torch, name))
    return ((x / scale).round() + zero).clamp(limits.min, limits.max)


def dequantize(codes, *parameters):
    scale, zero = columns(*parameters)
    return (codes.double() - zero) * scale


REFERENCES = {
    "avg_pool": avg_pool,
    "batch_norm": lambda x, *rest: F.batch_norm(x, *rest[:4], eps=rest[4]),
    "conv": conv,
    "conv_transpose": conv_transpose,
    "dequantize": dequantize,
    "einsum": lambda values, equation: torch.einsum(equation, *values),
    "instance_norm": lambda x, gamma, beta, e: F.instance_norm(x, weight=gamma, bias=beta, eps=e),
    "l2_norm": lambda x, e: x / (x.square().sum((1, 2, 3), keepdim=True) + e).sqrt(),
    "l2_pool": lambda x, *window: windows(x.square(), *window).sum(-1).sqrt(),
    "layer_norm": layer_norm,
    "linear": F.linear,
    "local_response_norm": F.local_response_norm,
    "matmul": lambda x, y, left, right: (x.mT if left else x) @ (y.mT if right else y),
    "max_pool": lambda x, *window: windows(x, *window, value=-np.inf).amax(-1),
    "quantize": quantize,
    "scaled_dot_product_attention": F.scaled_dot_product_attention,
}
CASES = table(
    """
conv x=(2,4,7)@-1..1 const:weight=(8,4,3)@-1..1 const:bias=(8,)@-1..1 strides=[1]|[3]
    pad_type='valid'|'same'|'same_lower'|'custom' pad=[2,1] dilations=[2] groups=1 ulps=4
conv x=(2,4,7,8)@-1..1 const:weight=(8,2,3,2)@-1..1 strides=[1,2]
    pad_type='valid'|'same'|'same_lower'|'custom' pad=[0,2,1,0] dilations=[2,1] groups=2 ulps=4
conv x=(2,4,6,7,8)@-1..1 const:weight=(8,4,2,3,1)@-1..1 const:bias=(8,)@-1..1 strides=[2,1,3]
    pad_type='same'|'same_lower'|'custom' pad=[0,1,2,0,0,0] dilations=[1,2,1] groups=1 ulps=4
conv x=(2,15,6,7)@-1..1 const:weight=(30,15,2,3)@-1..1 const:bias=(30,)@-1..1 strides=[1,1]
    pad_type='same' pad=[0,0,0,0] dilations=[1,1] groups=1 ulps=4
conv x=(2,16,6,7)@-1..1 const:weight=(32,16,2,3)@-1..1 const:bias=(32,)@-1..1 strides=[1,2]
    pad_type='same'|'custom' pad=[1,0,0,2] dilations=[1,2] groups=1 ulps=4
conv x=(2,33,6,7)@-1..1 const:weight=(66,33,3,1)@-1..1 strides=[2,1]
    pad_type='valid'|'same_lower' pad=[0,0,0,0] dilations=[1,1] groups=1 ulps=4
conv_transpose x=(2,4,5)@-1..1 const:weight=(4,8,3)@-1..1 const:bias=(8,)@-1..1 strides=[1]|[2]|[4]
    pad_type='valid'|'same'|'custom' pad=[2,1] dilations=[1]|[2] groups=1 ulps=4
conv_transpose x=(2,4,5,6)@-1..1 const:weight=(4,4,2,3)@-1..1 const:bias=(8,)@-1..1 strides=[1,3]
    pad_type='valid'|'same'|'custom' pad=[1,0,2,0] dilations=[2,1] groups=2 ulps=4
conv_transpose x=(2,4,4,5,6)@-1..1 const:weight=(4,8,2,3,1)@-1..1 const:bias=(8,)@-1..1
    strides=[2,1,3] pad_type='valid'|'same'|'custom' pad=[0,1,2,1,0,0] dilations=[1,1,1] groups=1
    ulps=4
conv_transpose x=(2,4,5,6)@-1..1 const:weight=(4,8,2,3)@-1..1 const:bias=(8,)@-1..1 strides=[1,3]
    pad_type='custom' pad=[1,0,0,2] dilations=[1,1] groups=1 output_shape=[2,8,5,18] ulps=4
avg_pool x=(2,3,7)@-1..1 kernel_sizes=[3] strides=[2] pad_type='valid'|'same'|'same_lower'|'custom'
    pad=[1,2] exclude_padding_from_average=False|True ulps=2
avg_pool x=(2,3,5,6,7)@-1..1 kernel_sizes=[2,3,1] strides=[1,2,3] pad_type='same'|'custom'
    pad=[1,0,0,2,0,0] exclude_padding_from_average=False|True ulps=2
max_pool x=(2,3,7)@-3..-1 kernel_sizes=[3] strides=[2] pad_type='valid'|'same'|'same_lower'|'custom'
    pad=[1,2]
max_pool x=(2,3,5,6,7)@-3..-1 kernel_sizes=[2,3,1] strides=[1,2,3] pad_type='same'|'custom'
    pad=[1,0,0,2,0,0]
l2_pool x=(2,3,7)@-1..1 kernel_sizes=[3] strides=[2] pad_type='valid'|'same'|'same_lower'|'custom'
    pad=[1,2] ulps=2 target=iOS16
l2_pool x=(2,3,6,7)@-1..1 kernel_sizes=[2,3] strides=[1,2] pad_type='same'|'custom' pad=[1,0,0,2]
    ulps=2 target=iOS16
linear x=(6,)@-1..1|(3,6)@-1..1|(2,3,6)@-1..1 const:weight=(5,6)@-1..1 const:bias=(5,)@-1..1 ulps=4
matmul x=(2,1,4,5)@-1..1 y=(3,5,6)@-1..1|(1,5,6)@-1..1|(5,6)@-1..1 transpose_x=False
    transpose_y=False ulps=4
matmul x=(2,1,5,4)@-1..1 y=(3,5,6)@-1..1 transpose_x=True transpose_y=False ulps=4
matmul x=(2,1,4,5)@-1..1 y=(3,6,5)@-1..1|(6,5)@-1..1 transpose_x=False transpose_y=True ulps=4
matmul x=(5,4)@-1..1 y=(6,5)@-1..1 transpose_x=True transpose_y=True ulps=4
matmul x=(5,)@-1..1 y=(5,6)@-1..1 transpose_x=False transpose_y=False ulps=4
einsum values=[(2,3,4,5),(2,5,4,6)] equation='nchw,nwhu->nchu' ulps=4
einsum values=[(3,4,5),(5,4,6)] equation='chw,whr->chr' ulps=4
scaled_dot_product_attention query=(2,3,4,8)@-1..1 key=(2,3,5,8)@-1..1 value=(2,3,5,6)@-1..1 ulps=4
    target=iOS18
scaled_dot_product_attention query=(2,3,4,8)@-1..1 key=(2,3,5,8)@-1..1 value=(2,3,5,6)@-1..1 ulps=4
    attn_mask=(4,5)@-1..1 target=iOS18
scaled_dot_product_attention query=(2,3,4,8)@-1..1 key=(2,3,5,8)@-1..1 value=(2,3,5,6)@-1..1 ulps=4
    attn_mask=bool[[1,0,1,1,0],[1,1,1,0,0],[0,1,0,0,1],[1,1,1,1,1]] folds=False target=iOS18
quantize input=(3,4,5) const:scale=float64[0.125,0.0625,0.5,1] const:zero_point=int8[-3,0,5,8]
    axis=1 output_dtype='int8'
quantize input=(3,4,5) const:scale=float64[0.125,0.0625,0.5,1] axis=1 output_dtype='uint8'
quantize input=(3,4,5) const:scale=0.125 const:zero_point=uint8(7) output_dtype='uint8'
quantize input=(3,4,5)@-20..20 const:scale=0.0625 output_dtype='int8'
dequantize const:input=int8(3,4,5)<256 const:scale=float64[0.125,0.0625,0.5,0.75]
    const:zero_point=int8[-9,0,5,8] axis=1
dequantize const:input=int8(3,4,5)<256 const:scale=float64[0.125,0.0625,0.5,0.75] axis=1
dequantize const:input=uint8(3,4,5)<256 const:scale=0.125 const:zero_point=uint8(7)
dequantize const:input=int8(3,4,5)<256 const:scale=0.375
batch_norm x=(2,4,5)@-9..9|(2,4,3,5)@-9..9 const:mean=(4,)@-1..2 const:variance=(4,)@0.5..2
    const:gamma=(4,)@0.5..2 const:beta=(4,)@0.5..2 epsilon=1e-3 ulps=8
instance_norm x=(2,4,5)@-9..9|(2,4,3,5)@-9..9 const:gamma=(4,)@-1..1 const:beta=(4,)@-1..1
    epsilon=1e-3 ulps=8
layer_norm x=(3,4,5)@-9..9 const:gamma=(5,)@-1..1 const:beta=(5,)@-1..1 axes=[-1] epsilon=1e-3
    ulps=8
layer_norm x=(3,4,5)@-9..9 const:gamma=(4,)@-1..1 const:beta=(4,)@-1..1 axes=[1] epsilon=1e-3 ulps=8
layer_norm x=(3,4,5)@-9..9 const:gamma=(4,5)@-1..1 const:beta=(4,5)@-1..1 axes=[1,2]|[-2,-1]
    epsilon=1e-3 ulps=8
l2_norm x=(2,3,4,5)@-1..1 epsilon=1e-3 ulps=2
local_response_norm x=(2,6,3,4)@-2..2 size=1|2|3|4 alpha=0.5 beta=0.75 k=1.5 ulps=2
""",
    REFERENCES,
)


def normal(rng, *shape):
    return rng.normal(size=shape) / 2


def lstm_step(activation):
    def step(row, u, h, c):
        i, f, o, g = (row + h @ u.T).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * activation(c), c

    return step


def gru_step(row, u, h):
    (w_r, w_n, w_z), (u_r, u_n, u_z) = row.chunk(3, -1), u.chunk(3)
    r, z = torch.sigmoid(w_r + h @ u_r.T), torch.sigmoid(w_z + h @ u_z.T)
    return ((1 - z) * torch.tanh(w_n + (r * h) @ u_n.T) + z * h,)


def rnn_step(activation):
    return lambda row, u, h: (activation(row + h @ u.T),)


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
CASES |= {
    "lstm": [
        recurrent(DRAWN, way, 4, lstm_step(run), activation=run.__name__)
        for way in DIRECTIONS
        for run in (torch.tanh, torch.relu)
    ],
    "gru": [recurrent(DRAWN, way, 3, gru_step) for way in DIRECTIONS[:2] for _ in range(3)],
    "rnn": [
        recurrent(DRAWN, way, 1, rnn_step(run), activation=run.__name__)
        for way in DIRECTIONS[:2]
        for run in (torch.tanh, torch.relu)
    ],
}

test_operation = test_of(CASES)


AXES = [axes for size in (1, 2, 3, 4) for axes in itertools.combinations(range(4), size)]


@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize(
    "op", ["reduce_mean", "reduce_sum", "reduce_l2_norm", "reduce_max", "reduce_log_sum_exp"]
)
def test_reductions_do_not_depend_on_the_memory_format(op, keep_dims):
    x = torch.randn(2, 5, 3, 7, generator=torch.Generator().manual_seed(0))
    stored = x.to(memory_format=torch.channels_last)
    for axes in (*AXES, (-1,), (-3, -1)):
        run = REDUCTION[op].run
        usual, other = (run(t, axes=list(axes), keep_dims=keep_dims) for t in (x, stored))
        assert other.shape == usual.shape
        torch.testing.assert_close(other, usual)
