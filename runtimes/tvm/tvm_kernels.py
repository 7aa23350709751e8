"""TVM functions of this project, at any length: convolution, instance norm, Snake, LSTM steps.

    kernel = convolution(inner=128, out=256, taps=3, dilation=1, left=1, tile=(32, 8))

TVM's default pipeline schedules nothing: 29 times PyTorch's time in a trial on the demo voice. A
tile of a convolution is some outputs times some values of time. It stays in vector registers while
the products of up to LONGEST_SUM inputs are added. More inputs are further partial sums, because
float32 loses 14 dB of the waveform where 2,816 products are added one after another. LLVM divides
the sums of the norm into lanes by itself (library.py allows it to reassociate).
"""

import math
from typing import Any

from tvm import te
from tvm.script import tirx as T

# mypy: disable-error-code="valid-type,no-untyped-def"

LANES = 16
LONGEST_SUM = 384
# TVM takes a buffer of 1 KB or more from the heap, and LLVM then writes the accumulators back at
# every product
ON_STACK = {"disable_lower_builtin": True}
# sum to pi; a small integer times the first is exact in float32
PI_PARTS = (3.140625, 9.67502593994140625e-4, 1.509957990978376e-7)
# of x^3 ... x^13: 5e-10 at pi / 2
SINE = tuple((-1) ** i / math.factorial(2 * i + 1) for i in range(1, 7))


def convolution(
    inner: int, out: int, taps: int, dilation: int, left: int, tile: tuple[int, int]
) -> Any:
    """x [1, inner, 1, S] behind `left` zeros, weight [out / rows, inner, taps, rows], bias [out] ->
    [1, out, 1, M].

    tile: values of time and outputs (rows) that stay in registers. A tile's inputs are copied
    together first: rows of 57 KB cost a page look-up each.
    """
    width, rows = tile
    # Accumulators of a tile: rows times this many vectors of 16 values.
    vectors = width // LANES
    groups = -(-out // rows)
    # The inputs that one tile reads: its width and the reach of the kernel.
    span = width + (taps - 1) * dilation
    # Input channels of one partial sum, LONGEST_SUM products at most.
    part = max(1, LONGEST_SUM // taps)
    parts = -(-inner // part)

    @T.prim_func
    def conv(
        x_in: T.handle,
        weight: T.Buffer((groups, inner, taps, rows), "float32"),
        bias: T.Buffer((out,), "float32"),
        y_in: T.handle,
    ) -> None:
        T.func_attr({"tirx.noalias": True})
        length, steps = T.int64(), T.int64()
        x = T.match_buffer(x_in, (1, inner, 1, length), "float32")
        y = T.match_buffer(y_in, (1, out, 1, steps), "float32")
        near = T.alloc_buffer((inner, span), "float32")
        for s in range((steps + width - 1) // width):
            for i in range(inner):
                for t in range(span):
                    # Zeros first: at the edges part of the span lies outside of x.
                    near[i, t] = T.float32(0)
                for t in range(T.max(0, left - s * width), T.min(span, length + left - s * width)):
                    near[i, t] = x[0, i, 0, s * width + t - left]
            for o in range(groups):
                # The last group and the last tile may be filled in part, and store only what is
                # theirs.
                inside = T.meta_var((T.min(rows, out - o * rows), T.min(width, steps - s * width)))
                for r, t in T.grid(*inside):
                    y[0, o * rows + r, 0, s * width + t] = bias[o * rows + r]
                # Rows by width values that live in registers while one partial sum grows.
                added = T.alloc_buffer((rows, width), "float32", annotations=ON_STACK)
                for p in range(parts):
                    for r in T.unroll(rows):
                        for v in T.unroll(vectors):
                            for lane in T.vectorized(LANES):
                                added[r, v * LANES + lane] = T.float32(0)
                    for i in range(p * part, T.min(p * part + part, inner)):
                        for k in T.unroll(taps):
                            for r in T.unroll(rows):
                                for v in T.unroll(vectors):
                                    for lane in T.vectorized(LANES):
                                        # A weight is one number for a whole vector of times.
                                        added[r, v * LANES + lane] += (
                                            near[i, k * dilation + v * LANES + lane]
                                            * weight[o, i, k, r]
                                        )
                    for r, t in T.grid(*inside):
                        y[0, o * rows + r, 0, s * width + t] += added[r, t]

    return conv


def norm(channels: int, epsilon: float) -> Any:
    """Instance norm of x [1, C, 1, S] with gain and shift [C]."""

    @T.prim_func
    def normed(
        x_in: T.handle,
        gain: T.Buffer((channels,), "float32"),
        shift: T.Buffer((channels,), "float32"),
        y_in: T.handle,
    ) -> None:
        T.func_attr({"tirx.noalias": True})
        steps = T.int64()
        x = T.match_buffer(x_in, (1, channels, 1, steps), "float32")
        y = T.match_buffer(y_in, (1, channels, 1, steps), "float32")
        mean = T.alloc_buffer((1,), "float32")
        squares = T.alloc_buffer((1,), "float32")
        for c in range(channels):
            # Two passes: a variance as the mean of squares less a square would lose all digits.
            mean[0] = T.float32(0)
            for s in range(steps):
                mean[0] += x[0, c, 0, s]
            mean[0] /= T.Cast("float32", steps)
            squares[0] = T.float32(0)
            for s in range(steps):
                rest = T.meta_var(x[0, c, 0, s] - mean[0])
                squares[0] += rest * rest
            variance = T.meta_var(squares[0] / T.Cast("float32", steps))
            factor = T.meta_var(gain[c] / T.sqrt(variance + T.float32(epsilon)))
            for s in range(steps):
                y[0, c, 0, s] = (x[0, c, 0, s] - mean[0]) * factor + shift[c]

    return normed


def sine_square(u: Any) -> Any:
    """sin(u)^2, which repeats every pi."""
    # sin(u)^2 repeats every pi, so u is brought to [-pi / 2, pi / 2] first.
    turns = T.nearbyint(u * T.float32(1 / math.pi))
    for part in PI_PARTS:
        # pi in three parts, subtracted one by one, so that a large u loses few digits.
        u = u - turns * T.float32(part)
    square = u * u
    series = T.float32(SINE[-1])
    # Horner's rule in u^2, from the highest term down.
    for term in SINE[-2::-1]:
        series = series * square + T.float32(term)
    wave = u + u * square * series
    return wave * wave


def snake(u: te.Tensor) -> te.Tensor:
    """u + sin(u)^2."""
    return te.compute(u.shape, lambda *place: u(*place) + sine_square(u(*place)))


def interleaved(x: te.Tensor, bias: te.Tensor, stride: int, trim: int, samples: Any) -> te.Tensor:
    """x [1, C stride, 1, Q], the phases of a transposed convolution, and bias [C] -> [1, C, 1,
    samples] without the first `trim` values.
    """
    return te.compute(
        (1, bias.shape[0], 1, samples),
        # Sample t is phase t mod stride of column t / stride, both counted before the trim.
        lambda _, c, __, t: (
            x[0, c * stride + (t + trim) % stride, 0, (t + trim) // stride] + bias[c]
        ),
    )


def recurrence(hidden: int) -> Any:
    """encoder.lstm.lstm_steps: sums [T, 4 hidden], onward [hidden, 4 hidden] -> states [T,
    hidden].
    """
    gates = 4 * hidden

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
            # The inputs' part of each gate holds the bias already.
            for g in range(gates):
                gate[g] = sums[t, g]
            # The state in the outer loop: each row of weights is read once, in order.
            for h in range(hidden):
                for g in range(gates):
                    gate[g] += onward[h, g] * state[h]
            for h in range(hidden):
                # The gates are input, forget, cell and output.
                cell[h] = T.sigmoid(gate[hidden + h]) * cell[h] + T.sigmoid(gate[h]) * T.tanh(
                    gate[2 * hidden + h]
                )
                state[h] = T.sigmoid(gate[3 * hidden + h]) * T.tanh(cell[h])
                y[t, h] = state[h]

    return steps
