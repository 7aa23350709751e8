"""The vocoder's inputs: five tensors of one utterance, checked; and their packing into the
package's one flexible input, in NumPy.

    inputs = VocoderInputs(asr, f0_hz, energy, style, spectrum)
    features = pack(inputs, bucket=80)            # [1, channels, 1, 81]

Before iOS 18 only one input of a program may have enumerated shapes, so everything that grows with
time shares one tensor. A tensor of R rows and n columns is padded to a multiple of bucket + 1
columns; the graph reads it back by `vocoder.decoder.unpack`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_ane.core import (
    COLUMNS_PER_FRAME,
    COLUMNS_PER_STEP,
    PROSODY_PER_FRAME,
    SPECTRUM_CHANNELS,
    InputError,
    require_shape,
)

SPECTRUM_ROWS = SPECTRUM_CHANNELS * COLUMNS_PER_FRAME  # of features
FIELDS = ("asr", "f0_hz", "energy", "style", "spectrum")
Array = Any  # np.ndarray or torch.Tensor; all five of one kind


def as_array(value: Array) -> np.ndarray:
    """A NumPy view of an array or a tensor."""
    return np.asarray(value.detach() if hasattr(value, "detach") else value)


def require_finite(name: str, value: Array, rule: str = "features must be finite") -> None:
    """Raise InputError for NaN or infinity, with the tensor's name and the first position."""
    bad = np.argwhere(~np.isfinite(as_array(value)))
    if len(bad):
        raise InputError(
            f"{name} holds {len(bad)} NaN or infinite values, the first at {bad[0].tolist()}:"
            f" {rule}"
        )


@dataclass(frozen=True)
class VocoderInputs:
    """The inputs of one utterance.

    asr [1, hidden, F]; f0_hz [1, 2F], 0 where unvoiced; energy [1, 2F]; style [1, style_dim];
    spectrum [1, 22, 120F + 1]. statistics [1, 2R]: of the voice, for a layout that predicts them;
    None: the predictor's alone, which is enough to compare numbers. The constructor checks shapes
    and looks for NaN and infinity; InputError names the tensor and the first bad position.
    """

    asr: Array
    f0_hz: Array
    energy: Array
    style: Array
    spectrum: Array
    statistics: Array | None = None

    def __post_init__(self) -> None:
        frames = self.asr.shape[-1]
        expected = {
            # -1 is no size, so a tensor of another rank never fits.
            "asr": (1, self.asr.shape[1] if len(self.asr.shape) == 3 else -1, frames),
            "f0_hz": (1, PROSODY_PER_FRAME * frames),
            "energy": (1, PROSODY_PER_FRAME * frames),
            "style": (1, self.style.shape[-1]),
            "spectrum": (1, SPECTRUM_CHANNELS, COLUMNS_PER_FRAME * frames + 1),
        }
        if self.statistics is not None:
            expected["statistics"] = (1, self.statistics.shape[-1])
        for name, shape in expected.items():
            value = getattr(self, name)
            require_shape(name, value, shape, f"{frames} frames of asr")
            require_finite(name, value)

    @property
    def frames(self) -> int:
        """F: 40 per second."""
        return int(self.asr.shape[-1])


def cut_excerpt(inputs: VocoderInputs, start: int, frames: int) -> VocoderInputs:
    """`frames` frames from `start` on, as an utterance."""
    stop = start + frames
    pair = slice(PROSODY_PER_FRAME * start, PROSODY_PER_FRAME * stop)
    # F frames have 120F + 1 columns: both edges count.
    columns = slice(COLUMNS_PER_FRAME * start, COLUMNS_PER_FRAME * stop + 1)
    return VocoderInputs(
        inputs.asr[..., start:stop],
        inputs.f0_hz[:, pair],
        inputs.energy[:, pair],
        inputs.style,
        inputs.spectrum[..., columns],
        inputs.statistics,
    )


def pack(inputs: VocoderInputs, bucket: int) -> np.ndarray:
    """Write the tensors as rows of bucket + 1 columns: [1, channels, 1, bucket + 1] in their dtype,
    with zeros in the padding.
    """
    if inputs.frames > bucket:
        raise InputError(f"features hold {inputs.frames} frames, bucket is {bucket}")
    asr, f0_hz, energy, _, spectrum = (as_array(getattr(inputs, name)) for name in FIELDS)
    mask = np.ones((1, 1, inputs.frames), asr.dtype)
    parts = (asr, f0_hz[:, None], energy[:, None], mask, spectrum)
    per_frame = (1, PROSODY_PER_FRAME, PROSODY_PER_FRAME, 1, COLUMNS_PER_FRAME)
    rows = [pack_rows(part, rate, bucket) for part, rate in zip(parts, per_frame, strict=True)]
    return np.concatenate(rows, axis=1)[:, :, None]  # [1, channels, 1, bucket + 1]


def pack_rows(part: np.ndarray, per_frame: int, bucket: int) -> np.ndarray:
    """Pad a tensor [1, R, n] of `per_frame` columns a frame with zeros and write it row after row:
    [1, R * per_frame, bucket + 1].
    """
    # One frame more than the bucket holds the columns behind the last frame.
    missing = per_frame * (bucket + 1) - part.shape[-1]
    return np.pad(part, ((0, 0), (0, 0), (0, missing))).reshape(1, -1, bucket + 1)


def pack_utterance(inputs: VocoderInputs, bucket: int) -> np.ndarray:
    """Features of the streaming layout [1, channels, 1, B + 1]: those of `pack`, but each six
    columns of the spectrum stand as six rows of 20 (B + 1) columns.
    """
    packed = pack(inputs, bucket)
    others = packed[:, :-SPECTRUM_ROWS]
    spectrum = packed[:, -SPECTRUM_ROWS:]
    # [1, 22, 20 (B + 1), 6]
    spectrum = spectrum.reshape(1, SPECTRUM_CHANNELS, -1, COLUMNS_PER_STEP)
    spectrum = spectrum.transpose(0, 1, 3, 2)  # [1, 22, 6, 20 (B + 1)]
    return np.concatenate([others, spectrum.reshape(1, SPECTRUM_ROWS, 1, bucket + 1)], axis=1)


def unpack_spectrum(features: np.ndarray) -> np.ndarray:
    """Features of the streaming layout -> [1, 22, 120 (B + 1)]."""
    # [1, 22, 6, 20 (B + 1)]
    rows = features[:, -SPECTRUM_ROWS:].reshape(1, SPECTRUM_CHANNELS, COLUMNS_PER_STEP, -1)
    return rows.transpose(0, 1, 3, 2).reshape(1, SPECTRUM_CHANNELS, -1)
