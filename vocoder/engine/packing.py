"""The variant's one flexible input: every row with its halo, packed on the host.

features = pack_rows(inputs, bucket=79, geometry=geometry)      # [1, channels, 1, 80] float32
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.contract import COLUMNS_PER_FRAME, PROSODY_PER_FRAME
from pipeline.errors import InputError
from vocoder.engine.geometry import Geometry
from vocoder.packing import VocoderInputs


def pack_rows(inputs: VocoderInputs, bucket: int, geometry: Geometry) -> Tensor:
    """Lay the seam tensors down in channels of bucket + 1 columns, zeros in the padding: [1, channels, 1, bucket + 1] float32."""
    if inputs.frames > bucket:
        raise InputError(f"features hold {inputs.frames} frames, bucket is {bucket}")
    g, columns = geometry, bucket + 1
    frames = [(inputs.asr, 1), (inputs.f0_hz[:, None], PROSODY_PER_FRAME), (inputs.energy[:, None], PROSODY_PER_FRAME)]
    frames.append((torch.ones(1, 1, inputs.frames), 1))
    parts = [F.pad(part.float(), (0, rate * columns - part.shape[2])).reshape(1, -1, columns) for part, rate in frames]
    first, last = torch.ones(1, 1, 2 * g.rates[0] * inputs.frames), torch.ones(1, 1, COLUMNS_PER_FRAME * inputs.frames + 1)
    parts.append(_rows(inputs.spectrum, g.last_width, g.spectrum, g.spectrum_width, bucket, g))
    parts.append(_rows(first, g.first_width, g.first_noise, g.first_noise_width, bucket, g))
    parts.append(_rows(last, g.last_width, g.last_noise[0], g.last_noise_width, bucket, g))
    return torch.cat(parts, dim=1)[:, :, None]  # [1, channels, 1, bucket + 1]


def _rows(part: Tensor, step: int, left: int, width: int, bucket: int, geometry: Geometry) -> Tensor:
    """part [1, C, n] -> rows that begin every `step` columns and reach `left` back, each `width` wide: [1, C * slab, bucket + 1]."""
    rows, whole = (bucket + 1) // geometry.row_frames, geometry.slab(width) * geometry.row_frames
    line = F.pad(part.float(), (left, max(0, (rows - 1) * step + whole - left - part.shape[2])))
    folded = line.unfold(2, whole, step)[:, :, :rows]  # [1, C, R, whole]
    return folded.reshape(1, -1, bucket + 1)
