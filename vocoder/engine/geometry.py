"""Where every row begins and ends: time folded into rows with halos, so that no axis grows with the length of the audio.

    geometry = Geometry.of(row_frames=40)
    geometry.features_channels(hidden_dim)          # channels of the one flexible input, [1, channels, 1, bucket + 1]

A row holds `row_frames` frames; bucket + 1 is a multiple of it. At each rate a row carries a halo: columns of its neighbours, wide enough
that what the zero padding of the convolutions spoils never reaches the row itself. Spoiled columns are not counted by the statistics.
"""

import math
from dataclasses import dataclass

from pipeline.config import KokoroConfig
from pipeline.contract import COLUMNS_PER_FRAME, DEFAULT_BUCKETS, PROSODY_PER_FRAME, SPECTRUM_CHANNELS
from pipeline.errors import InputError

POST_REACH = 3  # conv_post is 7 wide
RATES = (10, 6)
KERNELS, DILATIONS = (3, 7, 11), (1, 3, 5)
NOISE_KERNELS = (7, 11)  # upstream's residual blocks on the spectrum: first stage, last stage
ROW_FRAMES = (40, 80, 120)  # each has its own number of input channels, by which a packer knows it
DEFAULT_ROW_FRAMES = 40


def reach(kernel: int, dilations: tuple[int, ...]) -> int:
    """Columns a side that a residual block of AdaINResBlock1's kind looks at: each dilated convolution is followed by an undilated one."""
    return (kernel - 1) // 2 * (sum(dilations) + len(dilations))


@dataclass(frozen=True)
class Geometry:
    """Widths and halos, in columns of the rate they belong to.

    `fold` halo of the rows at 2 columns a frame; `first` of the first stage (20 a frame), `first_noise` of its spectrum branch; `last`
    (left, right) of the second stage (120 a frame), `last_noise` likewise; `spectrum` of the spectrum rows; `low` what the second
    upsampling reads of the first stage's halo.
    """

    row_frames: int
    rates: tuple[int, int]
    fold: int
    first: int
    first_noise: int
    low: int
    last: tuple[int, int]
    last_noise: tuple[int, int]
    spectrum: int

    @classmethod
    def of(cls, row_frames: int = DEFAULT_ROW_FRAMES) -> "Geometry":
        """Smallest halos for upstream's architecture. InputError for rows that are not offered."""
        if row_frames not in ROW_FRAMES:
            raise InputError(f"rows of {row_frames} frames: choose from {', '.join(map(str, ROW_FRAMES))}")
        one, two = RATES
        block = max(reach(kernel, DILATIONS) for kernel in KERNELS)
        noise = [reach(kernel, DILATIONS) for kernel in NOISE_KERNELS]
        low = math.ceil((block + POST_REACH + 1 + two // 2) / two)
        last = (two * low - two // 2 - 1, two * low - two // 2 + 1)
        fold = math.ceil((block + low + one // 2) / one)
        first = one * fold - one // 2
        return cls(
            row_frames=row_frames,
            rates=RATES,
            fold=fold,
            first=first,
            first_noise=first + noise[0],
            low=low,
            last=last,
            last_noise=(last[0] + noise[1], last[1] + noise[1]),
            spectrum=two * (first + noise[0]) + (two + 1) // 2,
        )

    @classmethod
    def by_channels(cls, channels: int, hidden_dim: int) -> "Geometry":
        """The geometry whose features have that many channels, or InputError."""
        for row_frames in ROW_FRAMES:
            geometry = cls.of(row_frames)
            if geometry.features_channels(hidden_dim) == channels:
                return geometry
        raise InputError(f"features of {channels} channels for a text encoder of width {hidden_dim}: no packing of this project has them")

    @property
    def first_width(self) -> int:
        """Columns of a row of the first stage, without halo."""
        return PROSODY_PER_FRAME * self.rates[0] * self.row_frames

    @property
    def last_width(self) -> int:
        """Columns of a row of the last stage, without halo."""
        return COLUMNS_PER_FRAME * self.row_frames

    @property
    def first_noise_width(self) -> int:
        """With the halo of the spectrum branch."""
        return self.first_width + 2 * self.first_noise

    @property
    def last_noise_width(self) -> int:
        """With the halo of the spectrum branch."""
        return self.last_width + sum(self.last_noise)

    @property
    def spectrum_width(self) -> int:
        """With halo."""
        return self.last_width + 2 * self.spectrum

    def slab(self, width: int) -> int:
        """Channels of `features` that hold one row of `width` columns."""
        return math.ceil(width / self.row_frames)

    def sizes(self, hidden_dim: int) -> tuple[int, ...]:
        """Channels of asr, f0, energy, frame mask, spectrum rows, mask rows of the first and of the last stage."""
        rows = SPECTRUM_CHANNELS * self.slab(self.spectrum_width)
        masks = (self.slab(self.first_noise_width), self.slab(self.last_noise_width))
        return (hidden_dim, PROSODY_PER_FRAME, PROSODY_PER_FRAME, 1, rows, *masks)

    def features_channels(self, hidden_dim: int) -> int:
        """Channels in all."""
        return sum(self.sizes(hidden_dim))

    def check_buckets(self, buckets: tuple[int, ...]) -> tuple[int, ...]:
        """`buckets`, or InputError when one plus 1 is no multiple of the row."""
        for bucket in buckets:
            if (bucket + 1) % self.row_frames:
                near = max(1, round((bucket + 1) / self.row_frames)) * self.row_frames - 1
                raise InputError(
                    f"bucket {bucket}: a row holds {self.row_frames} frames, so bucket + 1 must be a multiple; {near} would be"
                )
        return buckets

    def default_buckets(self) -> tuple[int, ...]:
        """The contract's lengths, each raised to whole rows."""
        return tuple(sorted({math.ceil((bucket + 1) / self.row_frames) * self.row_frames - 1 for bucket in DEFAULT_BUCKETS}))


def require_architecture(config: KokoroConfig) -> None:
    """InputError unless the generator has the rates, kernels and dilations that the halos were computed for."""
    net = config.istftnet
    found = (net.upsample_rates, net.upsample_kernel_sizes, net.resblock_kernel_sizes, net.resblock_dilation_sizes)
    made_for = (RATES, tuple(2 * rate for rate in RATES), KERNELS, (DILATIONS,) * len(KERNELS))
    if tuple(tuple(map(tuple, v)) if isinstance(v[0], (list, tuple)) else tuple(v) for v in found) != made_for:
        raise InputError(f"istftnet rates, kernels, block kernels and dilations are {found}: the engine variant is made for {made_for}")
