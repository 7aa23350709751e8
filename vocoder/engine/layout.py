"""How time is folded into rows: geometry of a bucket, and the packed input that holds overlapping rows.

    rows = RowGeometry.of(bucket=320)                     # 3 rows of 107 frames
    features = pack_rows(inputs, rows)                    # [1, channels, 3, 107 + 36] float32
    samples = flat_samples(waveform, inputs.frames)       # [1, 1, 3, 64200] -> [600 F]

A row holds `core` frames of its own and HALO_INPUT frames of its neighbours on each side, as much as the convolutions before the waveform can
reach, so no row asks another for anything but its share of the statistics. No axis passes the 16,384 of M1 to M3 (mlprogram/data/ane_rules.json).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.contract import COLUMNS_PER_FRAME, FRAME_SAMPLES, PROSODY_PER_FRAME, SPECTRUM_CHANNELS, check_buckets
from pipeline.errors import InputError
from vocoder.packing import VocoderInputs

MAX_WIDTH = 16384
# Frames of neighbours on each side at 1, 20 and 120 columns a frame. Reach in columns: stage 2 noise_res 60 + resblocks 60 + conv_post 3 +
# inverse STFT 2 = 125; stage 1 noise_res 36 + resblocks 60 + upsampler 12 = 108; decoder 11 frames + upsampler 1.
HALO_LAST = 2
HALO_FIRST = 6
HALO_INPUT = 18
MAX_CORE = MAX_WIDTH // COLUMNS_PER_FRAME - 2 * HALO_LAST
INTERLEAVES = (5, 4, 3, 2)  # columns of a frame, coarse to fine: 120
PHASED = SPECTRUM_CHANNELS + 2  # spectrum, mask with the reflected column, that column alone
MASK_CHANNEL, ONSET_CHANNEL = SPECTRUM_CHANNELS, SPECTRUM_CHANNELS + 1


@dataclass(frozen=True)
class RowGeometry:
    """`rows` rows of `core` frames each: rows * core >= bucket."""

    rows: int
    core: int

    @classmethod
    def of(cls, bucket: int) -> "RowGeometry":
        """The fewest rows that keep every axis within MAX_WIDTH, as even as possible."""
        check_buckets((bucket,))
        rows = math.ceil(bucket / MAX_CORE)
        return cls(rows, math.ceil(bucket / rows))

    @property
    def width(self) -> int:
        """Frames of a row with both halos."""
        return self.core + 2 * HALO_INPUT

    @property
    def frames(self) -> int:
        """Frames that fit."""
        return self.rows * self.core

    def shape(self, channels: int) -> tuple[int, int, int, int]:
        """Shape of the packed input."""
        return 1, channels, self.rows, self.width


def geometries(buckets: tuple[int, ...]) -> tuple[RowGeometry, ...]:
    """One for each bucket. Raises InputError where two buckets need the same shape."""
    found = [RowGeometry.of(bucket) for bucket in check_buckets(buckets)]
    for index, rows in enumerate(found):
        if rows in found[:index]:
            twin = buckets[found.index(rows)]
            raise InputError(f"buckets {twin} and {buckets[index]} both fold into {rows.rows} rows of {rows.core} frames: name one of them")
    return tuple(found)


@dataclass(frozen=True)
class RowLayout:
    """Channels of `features`: asr, f0 and energy (two values a frame each), mask, two weights of the statistics, 24 x 120 phases."""

    hidden_dim: int

    @property
    def sizes(self) -> tuple[int, int, int, int, int, int]:
        """Channels of each part, in order."""
        return self.hidden_dim, 2 * PROSODY_PER_FRAME, 1, 1, 1, PHASED * COLUMNS_PER_FRAME

    @property
    def channels(self) -> int:
        """Channels in all."""
        return sum(self.sizes)


def pack_rows(inputs: VocoderInputs, rows: RowGeometry, dtype: torch.dtype = torch.float32) -> Tensor:
    """[1, channels, R, core + 36]: every row with its neighbours' frames, zeros outside the utterance. InputError when it does not fit.

    dtype: what the statistics' weights are rounded to (their sum stays 1).
    """
    frames = inputs.frames
    if frames > rows.frames:
        raise InputError(f"features hold {frames} frames, {rows.rows} rows of {rows.core} frames hold {rows.frames}")
    columns = COLUMNS_PER_FRAME * frames
    pairs = [t.float().reshape(1, frames, PROSODY_PER_FRAME).transpose(1, 2) for t in (inputs.f0_hz, inputs.energy)]  # [1, 2, F] each
    ones = torch.ones(1, 1, frames)
    local = torch.cat([inputs.asr.float(), *pairs, ones], dim=1)
    phased = torch.zeros(1, PHASED, COLUMNS_PER_FRAME * (frames + 1))  # from one frame before the first: column -1 is the reflected one
    phased[:, :SPECTRUM_CHANNELS, COLUMNS_PER_FRAME - 1 :] = inputs.spectrum.float()
    phased[:, MASK_CHANNEL, COLUMNS_PER_FRAME - 1 :] = 1.0
    phased[:, ONSET_CHANNEL, COLUMNS_PER_FRAME - 1] = 1.0
    weight = torch.cat([torch.zeros(1), _shares(torch.ones(frames), dtype)])
    elements = torch.cat([torch.ones(1), torch.full((frames,), float(COLUMNS_PER_FRAME))])
    weights = torch.stack([weight, _shares(elements / (columns + 1), dtype)])[None]  # [1, 2, 1 + F]
    parts = (_rows(local, rows, first=0), _core_only(_rows(weights, rows, first=-1), rows), _rows(_phases(phased), rows, first=-1))
    return torch.cat(parts, dim=1)


def _shares(amounts: Tensor, dtype: torch.dtype) -> Tensor:
    """`amounts` scaled to sum 1, each rounded to `dtype`, the rounding error handed on to the next so that the sum is 1 after rounding too."""
    total, found, carried = float(amounts.sum()), [], 0.0
    for amount in (amounts.double() / total).tolist():
        value = float(torch.tensor(amount + carried, dtype=torch.float64).to(dtype))
        carried += amount - value
        found.append(value)
    return torch.tensor(found)


def _phases(columns: Tensor) -> Tensor:
    """[1, 24, 120 n] -> [1, 24 * 120, n]; within a channel the finest of INTERLEAVES is the slowest index."""
    channels = columns.shape[1]
    split = columns.reshape(channels, -1, *INTERLEAVES)  # [24, n, 5, 4, 3, 2]
    return split.permute(0, 5, 4, 3, 2, 1).reshape(1, channels * COLUMNS_PER_FRAME, -1)


def _rows(part: Tensor, rows: RowGeometry, first: int) -> Tensor:
    """[1, C, n], whose column 0 is frame `first`, to overlapping rows [1, C, R, core + 36], zeros where there is nothing."""
    before = HALO_INPUT + first
    after = rows.frames + HALO_INPUT - first - part.shape[-1]
    padded = torch.nn.functional.pad(part, (before, after))
    return padded.unfold(2, rows.width, rows.core).contiguous()


def _core_only(weights: Tensor, rows: RowGeometry) -> Tensor:
    """Every frame counts once, in the row it belongs to; the column before the first frame stands in row 0's halo."""
    kept = weights.clone()
    kept[..., HALO_INPUT + rows.core :] = 0
    kept[:, :, 1:, :HALO_INPUT] = 0
    return kept


def flat_samples(waveform: Tensor, frames: int) -> Tensor:
    """[1, 1, R, 600 core], rows one after another in memory, to the utterance's [600 F]."""
    return waveform.flatten()[: FRAME_SAMPLES * frames]
