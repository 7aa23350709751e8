"""The variant's one flexible input, a window of the utterance in every row, and its result, put together from the rows.

features = pack_rows(inputs, bucket=362, half=True)            # [1, channels, rows, pitch + 36] float32
samples = joined_rows(waveform, Windows.of(inputs.frames, 362))      # [600 F]

Weights of the statistics are numbers like 1.2173. Rounded to fp16 they would be wrong by the same part in every norm of a stage, which
adds up. So for an fp16 package they are the two neighbouring fp16 numbers in turn, right in the mean, and a single factor is two fp16
numbers, right in the product.
"""

import math
from itertools import accumulate

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_ane.core.contract import COLUMNS_PER_FRAME, FRAME_SAMPLES, PROSODY_PER_FRAME, SPECTRUM_CHANNELS
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.tiled.geometry import LOW_RATE, MARGIN, MARGIN_WIDTH, RATES, Windows, columns_of
from kokoro_ane.vocoder.tiled.upsample import FACTORS


def pack_rows(inputs: VocoderInputs, bucket: int, half: bool = False) -> Tensor:
    """[1, channels, rows, pitch + 36] float32, zeros beyond the utterance. `half`: the package takes fp16.

    InputError when the bucket does not suit the length.
    """
    windows = Windows.of(inputs.frames, bucket)
    prosody = (_by_frame(part, PROSODY_PER_FRAME) for part in (inputs.f0_hz[:, None], inputs.energy[:, None]))
    parts = [inputs.asr.float(), *prosody, torch.ones(1, 1, inputs.frames)]
    spectrum = F.pad(inputs.spectrum.float(), (0, LOW_RATE * RATES[1] - 1))  # one frame more: [1, 22, 120 (F + 1)]
    rows = [_tiled(part, windows) for part in parts]
    rows += [*_weights(windows, half), _tiled(folded(spectrum), windows)]
    return torch.cat(rows, dim=1)


def folded(spectrum: Tensor) -> Tensor:
    """[1, 22, 120 n] -> [1, 2640, n], the phases of a frame in the order in which the graph lays them down."""
    x = spectrum.reshape(1, SPECTRUM_CHANNELS, -1, LOW_RATE, RATES[1])  # [1, 22, n, 20, 6]
    x = x.reshape(1, SPECTRUM_CHANNELS, x.shape[2], *FACTORS[LOW_RATE], *FACTORS[RATES[1]])  # [1, 22, n, 4, 5, 2, 3]
    return x.permute(0, 1, 6, 5, 4, 3, 2).reshape(1, -1, x.shape[2])


def joined_rows(waveform: Tensor, windows: Windows) -> Tensor:
    """waveform [1, 1, R, n] -> [600 F]: of every row its own samples."""
    parts = []
    for row, start in enumerate(windows.result_starts()):
        begin = start * FRAME_SAMPLES // LOW_RATE
        own = slice(FRAME_SAMPLES * windows.owned[row] - begin, FRAME_SAMPLES * windows.owned[row + 1] - begin)
        parts.append(waveform[0, 0, row, own])
    return torch.cat(parts)


def joined_columns(trunk: Tensor, windows: Windows) -> Tensor:
    """trunk [1, C, R, n] -> [C, 120 F + 1]: of every row its own columns, the utterance's last one from the last row."""
    parts, last = [], windows.rows - 1
    for row, start in enumerate(windows.result_starts()):
        begin = start * COLUMNS_PER_FRAME // LOW_RATE
        end = COLUMNS_PER_FRAME * windows.owned[row + 1] + (row == last)
        parts.append(trunk[0, :, row, COLUMNS_PER_FRAME * windows.owned[row] - begin : end - begin])
    return torch.cat(parts, dim=1)


def _by_frame(part: Tensor, rate: int) -> Tensor:
    # [1, 1, rate F] -> [1, rate, F]
    return part.float().reshape(1, -1, rate).transpose(1, 2)


def _tiled(part: Tensor, windows: Windows) -> Tensor:
    """part [1, C, n] -> [1, C, R, pitch + 36], zeros outside."""
    width = windows.pitch + MARGIN_WIDTH
    line = F.pad(part, (MARGIN, width))
    return torch.stack([line[..., start : start + width] for start in windows.starts], dim=2)


def _weights(windows: Windows, half: bool) -> list[Tensor]:
    """Weights at the frame rate, for the first and the last stage, and the factors of the roots, [1, 1, R, pitch + 36] each."""
    rows, width = windows.rows, windows.pitch + MARGIN_WIDTH
    columns, factors = columns_of(windows.pitch), torch.zeros(1, 1, rows, width)
    counted = [rate * windows.frames + extra for rate, extra in ((1, 0), (2, 0), (LOW_RATE, 0), (LOW_RATE * RATES[1], 1))]
    for index, (count, wide) in enumerate(zip(counted, columns, strict=True)):
        factors[..., 2 * index : 2 * index + 2] = torch.tensor(_root_and_power(math.sqrt(count / rows) / wide, half))
    totals = [rows * wide for wide in columns]
    means = [totals[0] / counted[0], totals[2] / counted[2], totals[3] / counted[3]]
    return [*(_owned(windows, _in_turn(mean, windows.frames, half)) for mean in means), factors]


def _root_and_power(factor: float, half: bool) -> tuple[float, float]:
    """(a, b) with a^2 b = factor^2: b is 1, or where both are to be fp16 numbers the pair that comes nearest, a close to factor."""
    if not half:
        return factor, 1.0
    roots = np.float16(factor) * np.linspace(0.8, 1.2, 801)
    roots = roots.astype(np.float16).astype(np.float64)
    powers = np.square(factor / roots).astype(np.float16).astype(np.float64)
    best = np.argmin(np.abs(np.square(roots) * powers - factor**2))
    return float(roots[best]), float(powers[best])


def _in_turn(value: float, times: int, half: bool) -> list[float]:
    """`value` so often; as fp16 numbers whose mean it is, the lower and the higher neighbour mixed evenly."""
    if not half:
        return [value] * times
    nearest = np.float16(value)
    low = nearest if float(nearest) <= value else np.nextafter(nearest, np.float16(0))
    high = np.nextafter(low, np.float16(np.inf))
    part = (value - float(low)) / (float(high) - float(low))
    steps = [math.floor(total + 0.5) for total in accumulate([part] * times)]
    return [float(high if now > before else low) for before, now in zip([0, *steps], steps, strict=False)]


def _owned(windows: Windows, values: list[float]) -> Tensor:
    """A value on every frame, in the row that owns it, else 0: [1, 1, R, pitch + 36]."""
    own = torch.zeros(1, 1, windows.rows, windows.pitch + MARGIN_WIDTH)
    for row, start in enumerate(windows.starts):
        begin, end = windows.owned[row : row + 2]
        own[..., row, begin - start + MARGIN : end - start + MARGIN] = torch.tensor(values[begin:end])
    return own
