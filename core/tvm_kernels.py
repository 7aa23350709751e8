# mypy: disable-error-code="valid-type"
"""TVM functions of ours that multiply, of any length: convolution, product with a weight, LSTM steps.

    kernel = convolution(inner=128, out=256, taps=3, dilation=1, tile=48, rows=8)

TVM's default pipeline schedules nothing: 29 times PyTorch's time in a trial on the demo voice. A tile here is some outputs times `tile`
values of time, held in vector registers while the products of up to LONGEST_SUM inputs are added; more inputs are further partial sums,
because float32 loses 14 dB of the waveform where 2,816 products are added one after another.
Buffers stay below 1 KB: larger ones TVM takes from the heap, and LLVM then writes the accumulators back at every product.
"""

import math
from typing import Any

from tvm.script import tirx as T

from core.tvm_rows import LANES

ROWS = 4  # of a product, at once
LONGEST_SUM = 384
CACHED_BYTES = 4 << 20


def convolution(inner: int, out: int, taps: int, dilation: int, tile: int, rows: int) -> Any:
    """x [inner, N] in rows that reach over the last tile, weight [out / rows, inner, taps, rows], bias [out] -> [1, out, 1, M].

    The accumulators are two halves because of the 1 KB. A tile's inputs are copied together first: rows of 57 KB cost a page look-up each.
    Weights that no cache holds are read once instead, with time as the inner loop.
    """
    vectors, groups, half = tile // LANES, -(-out // rows), rows // 2
    part = max(1, LONGEST_SUM // taps)
    parts, by_time = -(-inner // part), inner * out * taps * 4 <= CACHED_BYTES
    copied, span = inner if by_time else 1, tile + (taps - 1) * dilation
    time_of, group_of = (lambda a, b: a if by_time else b), (lambda a, b: b if by_time else a)  # of the outer and the inner loop

    at = lambda r, v, lane: r * tile + v * LANES + lane  # noqa: E731
    read = lambda near, x, i, s, t: near[i, t] if by_time else x[i, s * tile + t]  # noqa: E731

    @T.prim_func
    def conv(
        x_in: T.handle, weight: T.Buffer((groups, inner, taps, rows), "float32"), bias: T.Buffer((out,), "float32"), y_in: T.handle
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
                            for r in T.unroll(half):
                                for v in T.unroll(vectors):
                                    for lane in T.vectorized(LANES):
                                        added[at(r, v, lane)] += read(near, x, i, s, k * dilation + at(0, v, lane)) * weight[o, i, k, r]
                            for r in T.unroll(half):
                                for v in T.unroll(vectors):
                                    for lane in T.vectorized(LANES):
                                        added2[at(r, v, lane)] += (
                                            read(near, x, i, s, k * dilation + at(0, v, lane)) * weight[o, i, k, half + r]
                                        )
                    for r in T.unroll(half):
                        for v in T.unroll(vectors):
                            for lane in T.vectorized(LANES):
                                total[at(r, v, lane)] += added[at(r, v, lane)]
                                total2[at(r, v, lane)] += added2[at(r, v, lane)]
                if s * tile + tile <= steps and o * rows + rows <= out:
                    for r in T.unroll(half):
                        for v in T.unroll(vectors):
                            for lane in T.vectorized(LANES):
                                y[0, o * rows + r, 0, s * tile + v * LANES + lane] = total[at(r, v, lane)]
                                y[0, o * rows + half + r, 0, s * tile + v * LANES + lane] = total2[at(r, v, lane)]
                else:
                    for r in range(T.min(half, out - o * rows)):
                        for t in range(T.min(tile, steps - s * tile)):
                            y[0, o * rows + r, 0, s * tile + t] = total[r * tile + t]
                    for r in range(T.min(half, out - o * rows - half)):
                        for t in range(T.min(tile, steps - s * tile)):
                            y[0, o * rows + half + r, 0, s * tile + t] = total2[r * tile + t]

    return conv


def product(inner: int, out: int, tile: int) -> Any:
    """x [T, inner], weight [out / tile, inner, tile], bias [out] -> [T, out]; a row beyond the last is computed as the last again."""
    vectors, groups = tile // LANES, -(-out // tile)
    parts = -(-inner // LONGEST_SUM)

    @T.prim_func
    def linear(
        x_in: T.handle, weight: T.Buffer((groups, inner, tile), "float32"), bias: T.Buffer((out,), "float32"), y_in: T.handle
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
                                    added[r * tile + v * LANES + lane] = (
                                        added[r * tile + v * LANES + lane]
                                        + weight[o, p * LONGEST_SUM + i, v * LANES + lane]
                                        * x[T.min(t * ROWS + r, tokens - 1), p * LONGEST_SUM + i]
                                    )
                    for r in T.unroll(ROWS):
                        for v in T.unroll(vectors):
                            for lane in T.vectorized(LANES):
                                total[r * tile + v * LANES + lane] = total[r * tile + v * LANES + lane] + added[r * tile + v * LANES + lane]
                for r in range(T.min(ROWS, tokens - t * ROWS)):
                    for n in range(T.min(tile, out - o * tile)):
                        y[t * ROWS + r, o * tile + n] = total[r * tile + n] + bias[o * tile + n]

    return linear


def recurrence(hidden: int) -> Any:
    """encoder.operator_lstm.lstm_steps: sums [T, 4 hidden], onward [hidden, 4 hidden] -> states [T, hidden]."""
    gates, wide = 4 * hidden, math.gcd(4 * hidden, 128)
    sigmoid = lambda x: T.float32(1) / (T.float32(1) + T.exp(-x))  # noqa: E731  # read by the parser as a function of one value

    @T.prim_func
    def steps(sums_in: T.handle, onward: T.Buffer((hidden, gates), "float32"), y_in: T.handle) -> None:
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
                        added[lane] = added[lane] + onward[h, g * wide + lane] * state[h]
                for lane in T.vectorized(wide):
                    gate[g * wide + lane] = added[lane] + sums[t, g * wide + lane]
            for h in range(hidden):
                cell[h] = sigmoid(gate[hidden + h]) * cell[h] + sigmoid(gate[h]) * T.tanh(gate[2 * hidden + h])
                state[h] = sigmoid(gate[3 * hidden + h]) * T.tanh(cell[h])
                y[t, h] = state[h]

    return steps
