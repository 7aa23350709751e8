"""Where every row begins and ends: rows are windows of the utterance, so no axis grows with its length and no column is padding.

    window = Windows.of(frames=300, bucket=362)     # starts and own frames of 3 rows, 132 frames each
    shape_of(bucket=362)                            # (3, 120): rows, frames a row adds

A bucket of R rows with a pitch of P frames holds up to R P + 2 frames. Each row shows the generator P + 12 frames of the utterance, all
real: the first row begins where the utterance begins, the last ends where it ends, so the zero padding of the convolutions at these two
edges is upstream's own. At every other edge it spoils a halo, which the statistics do not count and the host cuts away. The decoder, which
is cheap, sees 12 more frames a side, zeros beyond the utterance, under a mask.
"""

import math
from dataclasses import dataclass

from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.contract import COLUMNS_PER_FRAME, DEFAULT_BUCKETS, MAX_BUCKET_FRAMES, PROSODY_PER_FRAME, SPECTRUM_CHANNELS
from kokoro_ane.core.errors import InputError

RATES = (10, 6)  # of the upsamplers: 20, then 120 columns a frame
KERNELS, DILATIONS = (3, 7, 11), (1, 3, 5)
LOW_RATE = PROSODY_PER_FRAME * RATES[0]  # columns a frame of the first stage
HALO = 6  # frames a side that the generator's first stage may spoil: it spoils 118 of 120 columns
HALO_LAST = 21  # columns of the first stage that the last stage may spoil: it spoils 124 of 126 columns of its own
SHIFT = LOW_RATE * HALO - HALO_LAST  # columns that a row gives up between the stages, a side
MARGIN = 12  # frames a side that the decoder may spoil: it spoils 11
EDGE = 1  # frames more that the first and the last row own, because one of their edges spoils nothing
ROWS, MAX_PITCH = 3, 120  # fewest rows; longest pitch: 120 frames make the widest axis 14,653 columns
MIN_PITCH = 6
MARGIN_WIDTH = 2 * (HALO + MARGIN)  # frames that a row of the input has beyond its pitch


def shape_of(bucket: int) -> tuple[int, int]:
    """(rows, pitch in frames) of a bucket. InputError when no whole pitch gives it."""
    rows = max(ROWS, math.ceil((bucket - 2 * EDGE) / MAX_PITCH))
    pitch, rest = divmod(bucket - 2 * EDGE, rows)
    if rest or pitch < MIN_PITCH:
        near = rows * max(MIN_PITCH, pitch + (rest > 0)) + 2 * EDGE
        raise InputError(f"bucket {bucket}: {rows} rows need rows * pitch + 2 frames, pitch {MIN_PITCH} to {MAX_PITCH}; {near} would be")
    return rows, pitch


def shortest(bucket: int) -> int:
    """Fewest frames that fill every row of a bucket with real frames."""
    rows, pitch = shape_of(bucket)
    return max(pitch + 2 * HALO, rows * (HALO - EDGE) + 2 * EDGE)


def check_row_buckets(buckets: tuple[int, ...]) -> tuple[int, ...]:
    """`buckets`, or InputError where one has no shape or where some length between two has none."""
    for before, bucket in zip((None, *buckets), buckets, strict=False):
        if before is not None and shortest(bucket) > before + 1:
            raise InputError(
                f"bucket {bucket} holds {shortest(bucket)} frames or more and the one before at most {before}: "
                f"add one between, so that every length from {shortest(buckets[0])} on has a shape"
            )
    return buckets


def default_row_buckets() -> tuple[int, ...]:
    """The contract's lengths, each raised to whole rows, and what is missing between them."""
    found: list[int] = []
    for length in DEFAULT_BUCKETS:
        found.append(raised(length))
        while len(found) > 1 and shortest(found[-1]) > found[-2] + 1:
            longest = max(b for b in range(found[-2] + 1, found[-1]) if _is_shape(b) and shortest(b) <= found[-2] + 1)
            found.insert(-1, longest)
    return tuple(sorted(set(found)))


def raised(length: int) -> int:
    """The shortest bucket that holds so many frames."""
    return next(b for b in range(length, length + MAX_PITCH) if _is_shape(b))


def _is_shape(bucket: int) -> bool:
    rows = max(ROWS, math.ceil((bucket - 2 * EDGE) / MAX_PITCH))
    return (bucket - 2 * EDGE) % rows == 0 and (bucket - 2 * EDGE) // rows >= MIN_PITCH


@dataclass(frozen=True)
class Windows:
    """One utterance in a bucket: first frame that each row shows the generator, first frame that each row owns, the end of the last."""

    pitch: int
    starts: tuple[int, ...]
    owned: tuple[int, ...]  # one more than rows: where row r's own frames begin; the last entry is the number of frames

    @classmethod
    def of(cls, frames: int, bucket: int) -> "Windows":
        """Own frames as even as can be. InputError when the bucket is too short, or too long to be filled."""
        rows, pitch = shape_of(bucket)
        if frames > bucket:
            raise InputError(f"features hold {frames} frames, bucket is {bucket}")
        if frames < shortest(bucket):
            raise InputError(
                f"features hold {frames} frames and the rows of bucket {bucket} show {shortest(bucket)} or more: "
                f"build a smaller bucket, or take the padded vocoder (shortest bucket here: {ROWS * MIN_PITCH + 2 * EDGE} frames, "
                f"{MIN_PITCH + 2 * HALO} or more)"
            )
        inner = [EDGE + round(row * (frames - 2 * EDGE) / rows) for row in range(1, rows)]
        last = frames - pitch - 2 * HALO
        starts = [0, *(min(max(own - HALO, 0), last) for own in inner[:-1]), last]
        return cls(pitch, tuple(starts), (0, *inner, frames))

    @property
    def frames(self) -> int:
        """Of the utterance."""
        return self.owned[-1]

    @property
    def rows(self) -> int:
        """Rows of the input."""
        return len(self.starts)

    def result_starts(self) -> tuple[int, ...]:
        """Column, at 20 a frame, at which each row of the result begins: the first keeps its left edge, the last its right one."""
        shifts = [0, *(SHIFT for _ in self.starts[2:]), 2 * SHIFT]
        return tuple(LOW_RATE * start + shift for start, shift in zip(self.starts, shifts, strict=True))


def row_sizes(hidden_dim: int) -> tuple[int, ...]:
    """Channels of asr, f0, energy, the mask, the weights of three rates, the factors of the roots, the spectrum."""
    return hidden_dim, PROSODY_PER_FRAME, PROSODY_PER_FRAME, 1, 1, 1, 1, 1, SPECTRUM_CHANNELS * COLUMNS_PER_FRAME


def features_shape(bucket: int, hidden_dim: int) -> tuple[int, int, int, int]:
    """[1, channels, rows, pitch + 36] of the one flexible input."""
    rows, pitch = shape_of(bucket)
    return 1, sum(row_sizes(hidden_dim)), rows, pitch + MARGIN_WIDTH


def columns_of(pitch: int) -> tuple[int, int, int, int]:
    """Columns of a row at the frame rate, at twice that rate, in the first and in the last stage."""
    frames, low = pitch + MARGIN_WIDTH, LOW_RATE * pitch + 2 * HALO_LAST
    return frames, 2 * frames, LOW_RATE * (pitch + 2 * HALO), RATES[1] * low + 1


def bucket_of(shape: tuple[int, ...]) -> int:
    """The bucket, in frames, whose features have this shape."""
    return shape[2] * (shape[3] - MARGIN_WIDTH) + 2 * EDGE


def described() -> dict[str, int]:
    """For a port of the synthesis steps."""
    names = ("halo", "margin", "edge", "shift_at_20", "max_pitch", "max_bucket")
    return dict(zip(names, (HALO, MARGIN, EDGE, SHIFT, MAX_PITCH, MAX_BUCKET_FRAMES), strict=True))


def require_architecture(config: KokoroConfig) -> None:
    """InputError unless the generator has the rates, kernels and dilations that the halos were computed for."""
    net = config.istftnet
    found = (net.upsample_rates, net.upsample_kernel_sizes, net.resblock_kernel_sizes, net.resblock_dilation_sizes)
    made_for = (RATES, tuple(2 * rate for rate in RATES), KERNELS, (DILATIONS,) * len(KERNELS))
    if tuple(tuple(map(tuple, v)) if isinstance(v[0], (list, tuple)) else tuple(v) for v in found) != made_for:
        raise InputError(f"istftnet rates, kernels, block kernels and dilations are {found}: the tiled layout is made for {made_for}")
