"""The vocoder's tail on the host, in NumPy float32: conv_post, exp and sin, inverse STFT. What the
last fp32 region of a package does.

    tail = HostTail.of(vocoder)
    samples = tail(trunk)            # [C, 120F + 1] -> [600F]

A package that ends before conv_post has no fp32 operation: nothing of it has to leave the Neural
Engine for Core ML's CPU library. The weights stand in the manifest (22 C 7 + 22 numbers, base64 of
little-endian float32). For Accelerate: docs/synthesis.md.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_ane.core.contract import HOP_SAMPLES, N_FFT, SPECTRUM_CHANNELS
from kokoro_ane.core.errors import InputError
from kokoro_ane.vocoder.source import BINS, WINDOW, synthesis

if TYPE_CHECKING:
    from kokoro_ane.vocoder.decoder import Vocoder

HOPS = N_FFT // HOP_SAMPLES


@dataclass(frozen=True, eq=False)
class HostTail:
    """weight [22, C, k] and bias [22] of conv_post, float32."""

    weight: np.ndarray
    bias: np.ndarray

    @classmethod
    def of(cls, vocoder: "Vocoder") -> "HostTail":
        """The tail of a vocoder in PyTorch."""
        conv = vocoder.generator.conv_post
        assert conv.bias is not None
        weight = conv.weight.detach().float().numpy()[:, :, 0]  # [22, C, k]
        return cls(weight, conv.bias.detach().float().numpy())

    @classmethod
    def recorded(cls, words: Mapping[str, Any]) -> "HostTail":
        """From a manifest. Raises InputError for NaN; ValueError, KeyError, TypeError where it is
        something else.
        """
        shape = tuple(int(size) for size in words["shape"])
        weight, bias = (
            np.frombuffer(base64.b64decode(words[name], validate=True), "<f4").reshape(size)
            for name, size in (("weight", shape), ("bias", SPECTRUM_CHANNELS))
        )
        # An even kernel has no middle, so the result would be a column longer or shorter.
        if len(shape) != 3 or shape[0] != SPECTRUM_CHANNELS or shape[2] % 2 == 0:
            raise ValueError(f"conv_post of shape {list(shape)}")
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise InputError("the weights of the tail hold NaN or infinity")
        return cls(weight, bias)

    def described(self) -> dict[str, Any]:
        """For the manifest."""
        weight, bias = (
            base64.b64encode(array.astype("<f4").tobytes()).decode()
            for array in (self.weight, self.bias)
        )
        return {
            "shape": list(self.weight.shape),
            "weight": weight,
            "bias": bias,
            "encoding": "base64 of float32, little-endian",
            "steps": "convolution, exp, sin, inverse STFT in float32: docs/synthesis.md",
        }

    def __call__(self, trunk: np.ndarray) -> np.ndarray:
        """trunk [C, 120F + 1] -> samples [600F] float32."""
        spectrum = self.convolved(trunk.astype(np.float32, copy=False))  # [22, S]
        magnitude, phase = np.exp(spectrum[:BINS]), np.sin(spectrum[BINS:])
        bins = np.concatenate([magnitude * np.cos(phase), magnitude * np.sin(phase)])  # [22, S]
        power = np.array(WINDOW, np.float32)[:, None] ** 2  # [20, 1]
        envelope = overlapped(np.repeat(power, bins.shape[1], axis=1))
        return overlapped(synthesis().T @ bins) / envelope

    def convolved(self, trunk: np.ndarray) -> np.ndarray:
        """conv_post: [C, S] -> [22, S]."""
        taps, columns = self.weight.shape[2], trunk.shape[1]
        edged = np.pad(trunk, ((0, 0), (taps // 2, taps // 2)))
        total = np.repeat(self.bias[:, None], columns, axis=1)
        for tap in range(taps):
            total += self.weight[:, :, tap] @ edged[:, tap : tap + columns]
        return total


def overlapped(frames: np.ndarray) -> np.ndarray:
    """Frames [20, S] added up 5 samples apart, half a frame cut at both ends: [5 (S - 1)]."""
    columns = frames.shape[1]
    total = np.zeros((columns + HOPS - 1, HOP_SAMPLES), np.float32)
    for hop in range(HOPS):
        total[hop : hop + columns] += frames[HOP_SAMPLES * hop : HOP_SAMPLES * (hop + 1)].T
    return total.ravel()[N_FFT // 2 : N_FFT // 2 + HOP_SAMPLES * (columns - 1)]
