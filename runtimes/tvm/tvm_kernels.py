"""TVM functions of ours that multiply, of any length: convolution, product with a weight, LSTM
steps.

    kernel = convolution(inner=128, out=256, taps=3, dilation=1, tile=48, rows=8)

TVM's default pipeline schedules nothing: 29 times PyTorch's time in a trial on the demo voice. A
tile here is some outputs times `tile` values of time, held in vector registers while the products
of up to LONGEST_SUM inputs are added; more inputs are further partial sums, because float32 loses
14 dB of the waveform where 2,816 products are added one after another. Buffers stay below 1 KB:
larger ones TVM takes from the heap, and LLVM then writes the accumulators back at every product.
"""

import math
from typing import Any

from tvm.script import tirx as T

# mypy: disable-error-code="valid-type,no-untyped-def"
# inlines are read by TVM where they stand, not called later
# ruff: noqa: B023

LANES = 16
# of a product, at once
ROWS = 4
LONGEST_SUM = 384
CACHED_BYTES = 4 << 20
# of the norms: core.layers.NORM_EPSILON, compared by the tests
EPSILON = 1e-5
PLAIN, LEAKY, SNAKE = "plain", "leaky", "snake"
# sum to pi; a small integer times the first is exact in float32
PI_PARTS = (3.140625, 9.67502593994140625e-4, 1.509957990978376e-7)
# of x^3 ... x^13: 5e-10 at pi / 2
SINE = tuple((-1) ** i / math.factorial(2 * i + 1) for i in range(1, 7))


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


@T.inline
def write_row(y, x, c, left, steps, width, value) -> None:
    """Row c of y: `left` zeros, `value` of each of the S values of x [1, C, 1, S], zeros."""
    for s in range(left):
        y[c, s] = T.float32(0)
    for i in range(steps // LANES):
        for lane in T.vectorized(LANES):
            y[c, left + i * LANES + lane] = value(x[0, c, 0, i * LANES + lane])
    # what does not fill a vector
    for i in range(steps % LANES):
        y[c, left + steps // LANES * LANES + i] = value(x[0, c, 0, steps // LANES * LANES + i])
    for i in range(width - left - steps):
        y[c, left + steps + i] = T.float32(0)


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
            write_row(y, x, c, left, steps, width, act)

    return rows


def normed_rows(channels: int, left: int, kind: str, slope: float) -> Any:
    """rows_of behind an instance norm with gain and shift [C]; the variance is of values less a
    first mean, whose rest is found with it.
    """
    act = activation(kind, slope)

    @T.prim_func
    def normed(
        x_in: T.handle,
        gain: T.Buffer((channels,), "float32"),
        shift: T.Buffer((channels,), "float32"),
        y_in: T.handle,
    ) -> None:
        T.func_attr({"tirx.noalias": True})
        steps, width = T.int64(), T.int64()
        x = T.match_buffer(x_in, (1, channels, 1, steps), "float32")
        y = T.match_buffer(y_in, (channels, width), "float32")
        sums = T.alloc_buffer((LANES,), "float32")
        squares = T.alloc_buffer((LANES,), "float32")
        # first mean, mean of what it left, mean square; then factor and offset
        stats = T.alloc_buffer((4,), "float32")
        for c in range(channels):
            for lane in T.vectorized(LANES):
                sums[lane] = T.float32(0)
            stats[0] = T.float32(0)
            for i in range(steps // LANES):
                for lane in T.vectorized(LANES):
                    sums[lane] += x[0, c, 0, i * LANES + lane]
            for i in range(steps % LANES):
                stats[0] += x[0, c, 0, steps // LANES * LANES + i]
            for lane in range(LANES):
                stats[0] += sums[lane]
            stats[0] /= T.Cast("float32", steps)
            for lane in T.vectorized(LANES):
                sums[lane] = T.float32(0)
                squares[lane] = T.float32(0)
            stats[1] = T.float32(0)
            stats[2] = T.float32(0)
            for i in range(steps // LANES):
                for lane in T.vectorized(LANES):
                    rest = T.meta_var(x[0, c, 0, i * LANES + lane] - stats[0])
                    sums[lane] += rest
                    squares[lane] += rest * rest
            for i in range(steps % LANES):
                stats[3] = x[0, c, 0, steps // LANES * LANES + i] - stats[0]
                stats[1] += stats[3]
                stats[2] += stats[3] * stats[3]
            for lane in range(LANES):
                stats[1] += sums[lane]
                stats[2] += squares[lane]
            stats[1] /= T.Cast("float32", steps)
            stats[2] = T.max(
                stats[2] / T.Cast("float32", steps) - stats[1] * stats[1], T.float32(0)
            )
            # the norm as one product and one sum a value
            stats[2] = gain[c] / T.sqrt(stats[2] + T.float32(EPSILON))
            stats[3] = shift[c] - stats[1] * stats[2]
            normal = T.meta_var(lambda value: act((value - stats[0]) * stats[2] + stats[3]))
            write_row(y, x, c, left, steps, width, normal)

    return normed


def dealt_rows(channels: int, left: int, stride: int) -> Any:
    """x [1, C, 1, S] -> [C stride, N], for a convolution with that stride: row c * stride + j holds
    the values j - left + n stride.
    """

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
    """x [1, stride C, 1, Q], the phases of a transposed convolution, and bias [C] -> [1, C, 1, M]
    without the first `trim` values.
    """

    @T.prim_func
    def woven(x_in: T.handle, bias: T.Buffer((channels,), "float32"), y_in: T.handle) -> None:
        T.func_attr({"tirx.noalias": True})
        wide, steps = T.int64(), T.int64()
        x = T.match_buffer(x_in, (1, stride * channels, 1, wide), "float32")
        y = T.match_buffer(y_in, (1, channels, 1, steps), "float32")
        for c in range(channels):
            for t in range(steps):
                y[0, c, 0, t] = (
                    x[0, (t + trim) % stride * channels + c, 0, (t + trim) // stride] + bias[c]
                )

    return woven


def convolution(inner: int, out: int, taps: int, dilation: int, tile: int, rows: int) -> Any:
    """x [inner, N] in rows that reach over the last tile, weight [out / rows, inner, taps, rows],
    bias [out] -> [1, out, 1, M].

    The accumulators are two halves because of the 1 KB. A tile's inputs are copied together first:
    rows of 57 KB cost a page look-up each. Weights that no cache holds are read once instead, with
    time as the inner loop.
    """
    vectors, groups, half = tile // LANES, -(-out // rows), rows // 2
    part = max(1, LONGEST_SUM // taps)
    parts, by_time = -(-inner // part), inner * out * taps * 4 <= CACHED_BYTES
    copied, span = inner if by_time else 1, tile + (taps - 1) * dilation
    # of the outer and the inner loop
    time_of, group_of = (lambda a, b: a if by_time else b), (lambda a, b: b if by_time else a)

    at = lambda r, v, lane: r * tile + v * LANES + lane  # noqa: E731
    read = lambda near, x, i, s, t: near[i, t] if by_time else x[i, s * tile + t]  # noqa: E731

    @T.prim_func
    def conv(
        x_in: T.handle,
        weight: T.Buffer((groups, inner, taps, rows), "float32"),
        bias: T.Buffer((out,), "float32"),
        y_in: T.handle,
    ) -> None:
        T.func_attr({"tirx.noalias": True})
        width, steps = T.int64(), T.int64()
        x = T.match_buffer(x_in, (inner, width), "float32")
        y = T.match_buffer(y_in, (1, out, 1, steps), "float32")
        near = T.alloc_buffer((copied, span), "float32")
        for a in range(time_of((steps + tile - 1) // tile, groups)):
            for i in range(inner if by_time else 0):
                for t in range(span):
                    near[i, t] = x[i, a * tile + t]
            for b in range(group_of((steps + tile - 1) // tile, groups)):
                s, o = T.meta_var(time_of(a, b)), T.meta_var(group_of(a, b))

                # each is called for both halves: `first` is the first output of one
                @T.inline
                def multiply(added, i, k, first) -> None:
                    for r in T.unroll(half):
                        for v in T.unroll(vectors):
                            for lane in T.vectorized(LANES):
                                added[at(r, v, lane)] += (
                                    read(near, x, i, s, k * dilation + at(0, v, lane))
                                    * weight[o, i, k, first + r]
                                )

                # of a tile that reaches over the end
                @T.inline
                def store_inside(total, first) -> None:
                    for r in range(T.min(half, out - o * rows - first)):
                        for t in range(T.min(tile, steps - s * tile)):
                            y[0, o * rows + first + r, 0, s * tile + t] = total[r * tile + t]

                total = T.alloc_buffer((half * tile,), "float32")
                total2 = T.alloc_buffer((half * tile,), "float32")
                added = T.alloc_buffer((half * tile,), "float32")
                added2 = T.alloc_buffer((half * tile,), "float32")
                for r in T.unroll(half):
                    for v in T.unroll(vectors):
                        for lane in T.vectorized(LANES):
                            total[at(r, v, lane)] = bias[T.min(o * rows + r, out - 1)]
                            total2[at(r, v, lane)] = bias[T.min(o * rows + half + r, out - 1)]
                for p in range(parts):
                    for r in T.unroll(half):
                        for v in T.unroll(vectors):
                            for lane in T.vectorized(LANES):
                                added[at(r, v, lane)] = T.float32(0)
                                added2[at(r, v, lane)] = T.float32(0)
                    for i in range(p * part, T.min(p * part + part, inner)):
                        for k in T.unroll(taps):
                            multiply(added, i, k, 0)
                            multiply(added2, i, k, half)
                    for r in T.unroll(half):
                        for v in T.unroll(vectors):
                            for lane in T.vectorized(LANES):
                                total[at(r, v, lane)] += added[at(r, v, lane)]
                                total2[at(r, v, lane)] += added2[at(r, v, lane)]
                if s * tile + tile <= steps and o * rows + rows <= out:
                    for r in T.unroll(half):
                        for v in T.unroll(vectors):
                            for lane in T.vectorized(LANES):
                                at_time = T.meta_var(s * tile + v * LANES + lane)
                                y[0, o * rows + r, 0, at_time] = total[at(r, v, lane)]
                                y[0, o * rows + half + r, 0, at_time] = total2[at(r, v, lane)]
                else:
                    store_inside(total, 0)
                    store_inside(total2, half)

    return conv


def product(inner: int, out: int, tile: int) -> Any:
    """x [T, inner], weight [out / tile, inner, tile], bias [out] -> [T, out]; a row beyond the last
    is computed as the last again.
    """
    vectors, groups = tile // LANES, -(-out // tile)
    parts = -(-inner // LONGEST_SUM)

    @T.prim_func
    def linear(
        x_in: T.handle,
        weight: T.Buffer((groups, inner, tile), "float32"),
        bias: T.Buffer((out,), "float32"),
        y_in: T.handle,
    ) -> None:
        T.func_attr({"tirx.noalias": True})
        tokens = T.int64()
        x = T.match_buffer(x_in, (tokens, inner), "float32")
        y = T.match_buffer(y_in, (tokens, out), "float32")
        for o in range(groups):
            for t in range((tokens + ROWS - 1) // ROWS):
                total = T.alloc_buffer((ROWS * tile,), "float32")
                added = T.alloc_buffer((ROWS * tile,), "float32")
                for r in T.unroll(ROWS):
                    for v in T.unroll(vectors):
                        for lane in T.vectorized(LANES):
                            total[r * tile + v * LANES + lane] = T.float32(0)
                for p in range(parts):
                    for r in T.unroll(ROWS):
                        for v in T.unroll(vectors):
                            for lane in T.vectorized(LANES):
                                added[r * tile + v * LANES + lane] = T.float32(0)
                    for i in range(T.min(LONGEST_SUM, inner - p * LONGEST_SUM)):
                        for r in T.unroll(ROWS):
                            for v in T.unroll(vectors):
                                for lane in T.vectorized(LANES):
                                    added[r * tile + v * LANES + lane] += (
                                        weight[o, p * LONGEST_SUM + i, v * LANES + lane]
                                        * x[T.min(t * ROWS + r, tokens - 1), p * LONGEST_SUM + i]
                                    )
                    for r in T.unroll(ROWS):
                        for v in T.unroll(vectors):
                            for lane in T.vectorized(LANES):
                                place = T.meta_var(r * tile + v * LANES + lane)
                                total[place] += added[place]
                for r in range(T.min(ROWS, tokens - t * ROWS)):
                    for n in range(T.min(tile, out - o * tile)):
                        y[t * ROWS + r, o * tile + n] = total[r * tile + n] + bias[o * tile + n]

    return linear


def recurrence(hidden: int) -> Any:
    """encoder.lstm.lstm_steps: sums [T, 4 hidden], onward [hidden, 4 hidden] -> states [T,
    hidden].
    """
    gates, wide = 4 * hidden, math.gcd(4 * hidden, 128)
    # read by the parser as a function of one value
    sigmoid = lambda x: T.float32(1) / (T.float32(1) + T.exp(-x))  # noqa: E731

    @T.prim_func
    def steps(
        sums_in: T.handle, onward: T.Buffer((hidden, gates), "float32"), y_in: T.handle
    ) -> None:
        T.func_attr({"tirx.noalias": True})
        tokens = T.int64()
        sums = T.match_buffer(sums_in, (tokens, gates), "float32")
        y = T.match_buffer(y_in, (tokens, hidden), "float32")
        cell = T.alloc_buffer((hidden,), "float32")
        state = T.alloc_buffer((hidden,), "float32")
        gate = T.alloc_buffer((gates,), "float32")
        for h in range(hidden):
            cell[h] = T.float32(0)
            state[h] = T.float32(0)
        for t in range(tokens):
            for g in range(gates // wide):
                added = T.alloc_buffer((wide,), "float32")
                for lane in T.vectorized(wide):
                    added[lane] = T.float32(0)
                for h in range(hidden):
                    for lane in T.vectorized(wide):
                        added[lane] += onward[h, g * wide + lane] * state[h]
                for lane in T.vectorized(wide):
                    gate[g * wide + lane] = added[lane] + sums[t, g * wide + lane]
            for h in range(hidden):
                cell[h] = sigmoid(gate[hidden + h]) * cell[h] + sigmoid(gate[h]) * T.tanh(
                    gate[2 * hidden + h]
                )
                state[h] = sigmoid(gate[3 * hidden + h]) * T.tanh(cell[h])
                y[t, h] = state[h]

    return steps
