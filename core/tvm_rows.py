# mypy: disable-error-code="valid-type"
"""TVM functions of ours that lay values out in rows for a convolution, of any length: activation, norm with Snake, strides, weaving.

    kernel = normed_rows(channels=128, left=3, kind=SNAKE, slope=0.0)

A row has the convolution's zeros at both ends, so that the kernel that reads it (core/tvm_kernels.py) asks for no border.
"""

import math
from typing import Any

from tvm.script import tirx as T

LANES = 16
EPSILON = 1e-5  # of the norms: core.layers.NORM_EPSILON, compared by the tests
PLAIN, LEAKY, SNAKE = "plain", "leaky", "snake"
PI_PARTS = (3.140625, 9.67502593994140625e-4, 1.509957990978376e-7)  # sum to pi; a small integer times the first is exact in float32
SINE = tuple((-1) ** i / math.factorial(2 * i + 1) for i in range(1, 7))  # of x^3 ... x^13: 5e-10 at pi / 2


def sine_square(u: Any) -> Any:
    """sin(u)^2, which repeats every pi."""
    turns = T.nearbyint(u * T.float32(1 / math.pi))
    for part in PI_PARTS:
        u = u - turns * T.float32(part)
    square, series = u * u, T.float32(SINE[-1])
    for term in SINE[-2::-1]:
        series = series * square + T.float32(term)
    wave = u + u * square * series
    return wave * wave


def activation(kind: str, slope: float) -> Any:
    """The function of one value."""
    if kind == SNAKE:
        return lambda u: u + sine_square(u)
    if kind == LEAKY:
        return lambda u: T.max(u, T.float32(0)) + T.float32(slope) * T.min(u, T.float32(0))
    return lambda u: u


def rows_of(channels: int, left: int, kind: str, slope: float) -> Any:
    """x [1, C, 1, S] through an activation, in rows of N: `left` zeros, S values, zeros."""
    act = activation(kind, slope)

    @T.prim_func
    def rows(x_in: T.handle, y_in: T.handle) -> None:
        T.func_attr({"tirx.noalias": True})
        steps, width = T.int64(), T.int64()
        x = T.match_buffer(x_in, (1, channels, 1, steps), "float32")
        y = T.match_buffer(y_in, (channels, width), "float32")
        for c in range(channels):
            for s in range(left):
                y[c, s] = T.float32(0)
            for i in range(steps // LANES):
                for lane in T.vectorized(LANES):
                    y[c, left + i * LANES + lane] = act(x[0, c, 0, i * LANES + lane])
            for i in range(steps % LANES):
                y[c, left + steps // LANES * LANES + i] = act(x[0, c, 0, steps // LANES * LANES + i])
            for i in range(width - left - steps):
                y[c, left + steps + i] = T.float32(0)

    return rows


def normed_rows(channels: int, left: int, kind: str, slope: float) -> Any:
    """rows_of behind an instance norm with gain and shift [C]; the variance is of values less a first mean, whose rest is found with it."""
    act = activation(kind, slope)

    @T.prim_func
    def normed(x_in: T.handle, gain: T.Buffer((channels,), "float32"), shift: T.Buffer((channels,), "float32"), y_in: T.handle) -> None:
        T.func_attr({"tirx.noalias": True})
        steps, width = T.int64(), T.int64()
        x = T.match_buffer(x_in, (1, channels, 1, steps), "float32")
        y = T.match_buffer(y_in, (channels, width), "float32")
        sums = T.alloc_buffer((LANES,), "float32")
        squares = T.alloc_buffer((LANES,), "float32")
        found = T.alloc_buffer((4,), "float32")  # first mean, mean of what it left, mean square; then factor and offset
        for c in range(channels):
            for lane in T.vectorized(LANES):
                sums[lane] = T.float32(0)
            found[0] = T.float32(0)
            for i in range(steps // LANES):
                for lane in T.vectorized(LANES):
                    sums[lane] = sums[lane] + x[0, c, 0, i * LANES + lane]
            for i in range(steps % LANES):
                found[0] = found[0] + x[0, c, 0, steps // LANES * LANES + i]
            for lane in range(LANES):
                found[0] = found[0] + sums[lane]
            found[0] = found[0] / T.Cast("float32", steps)
            for lane in T.vectorized(LANES):
                sums[lane] = T.float32(0)
                squares[lane] = T.float32(0)
            found[1] = T.float32(0)
            found[2] = T.float32(0)
            for i in range(steps // LANES):
                for lane in T.vectorized(LANES):
                    sums[lane] = sums[lane] + (x[0, c, 0, i * LANES + lane] - found[0])
                    squares[lane] = squares[lane] + (x[0, c, 0, i * LANES + lane] - found[0]) * (x[0, c, 0, i * LANES + lane] - found[0])
            for i in range(steps % LANES):
                found[3] = x[0, c, 0, steps // LANES * LANES + i] - found[0]
                found[1] = found[1] + found[3]
                found[2] = found[2] + found[3] * found[3]
            for lane in range(LANES):
                found[1] = found[1] + sums[lane]
                found[2] = found[2] + squares[lane]
            found[1] = found[1] / T.Cast("float32", steps)
            found[2] = T.max(found[2] / T.Cast("float32", steps) - found[1] * found[1], T.float32(0))
            found[2] = gain[c] / T.sqrt(found[2] + T.float32(EPSILON))
            found[3] = shift[c] - found[1] * found[2]
            for s in range(left):
                y[c, s] = T.float32(0)
            for i in range(steps // LANES):
                for lane in T.vectorized(LANES):
                    y[c, left + i * LANES + lane] = act((x[0, c, 0, i * LANES + lane] - found[0]) * found[2] + found[3])
            for i in range(steps % LANES):
                y[c, left + steps // LANES * LANES + i] = act((x[0, c, 0, steps // LANES * LANES + i] - found[0]) * found[2] + found[3])
            for i in range(width - left - steps):
                y[c, left + steps + i] = T.float32(0)

    return normed


def dealt_rows(channels: int, left: int, stride: int) -> Any:
    """x [1, C, 1, S] -> [C stride, N], for a convolution with that stride: row c * stride + j holds the values j - left + n stride."""

    @T.prim_func
    def dealt(x_in: T.handle, y_in: T.handle) -> None:
        T.func_attr({"tirx.noalias": True})
        steps, width = T.int64(), T.int64()
        x = T.match_buffer(x_in, (1, channels, 1, steps), "float32")
        y = T.match_buffer(y_in, (channels * stride, width), "float32")
        for c in range(channels):
            for j in range(stride):
                for q in range(width):
                    if q * stride + j >= left and q * stride + j < left + steps:
                        y[c * stride + j, q] = x[0, c, 0, q * stride + j - left]
                    else:
                        y[c * stride + j, q] = T.float32(0)

    return dealt


def interleaved(channels: int, stride: int, trim: int) -> Any:
    """x [1, stride C, 1, Q], the phases of a transposed convolution, and bias [C] -> [1, C, 1, M] without the first `trim` values."""

    @T.prim_func
    def woven(x_in: T.handle, bias: T.Buffer((channels,), "float32"), y_in: T.handle) -> None:
        T.func_attr({"tirx.noalias": True})
        wide, steps = T.int64(), T.int64()
        x = T.match_buffer(x_in, (1, stride * channels, 1, wide), "float32")
        y = T.match_buffer(y_in, (1, channels, 1, steps), "float32")
        for c in range(channels):
            for t in range(steps):
                y[0, c, 0, t] = x[0, (t + trim) % stride * channels + c, 0, (t + trim) // stride] + bias[c]

    return woven
