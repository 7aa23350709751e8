"""An utterance through the streaming layout's three functions, whoever runs them: packed, cut into
windows, joined.

    package = StreamingPackage(Path("build/KokoroVocoder-streaming-fp16.json"))
    samples = package.render(inputs)                                      # [600 F]
    # the same samples, as they are computed
    for piece in package.pieces(features, style, frames): ...

The decoder computes the generator's first stage with it, over the whole utterance. The second stage
of a short one is the function `utterance`, with statistics of its own: there a prediction errs
most, and there is least to wait for. That of a longer one is cut into windows of the few lengths
that `window` takes, full of real frames.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_ane.core.contract import (
    AFFINE,
    COLUMNS_PER_FRAME,
    DECODER,
    ENTERING,
    FEATURES,
    FRAME_SAMPLES,
    STEPS_PER_FRAME,
    STYLE,
    STYLE_AFFINE,
    UTTERANCE,
    WAVEFORM,
    WINDOW,
    bucket_for,
)
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest, described
from kokoro_ane.vocoder.packing import (
    Array,
    VocoderInputs,
    as_array,
    pack_utterance,
    packed_rows,
    require_finite,
    unpacked_spectrum,
)
from kokoro_ane.vocoder.source import HarmonicSource
from kokoro_ane.vocoder.streaming.windows import MEASURED, SIZES, fixed_windows

# named inputs, and a hook where one is given -> named outputs
Function = Callable[..., Mapping[str, Array]]
Hook = Callable[..., None]
Opener = Callable[[Path, str], Any]  # package, function -> what is called like a mlprogram.Program


@dataclass(frozen=True)
class Lengths:
    """In frames, rising: of the decoder, of the utterances that are measured, and of windows, which
    only longer ones are cut into.
    """

    decoder: tuple[int, ...]
    utterance: tuple[int, ...]
    windows: tuple[int, ...]

    @classmethod
    def of(
        cls, buckets: tuple[int, ...], measured: int = MEASURED, windows: tuple[int, ...] = SIZES
    ) -> "Lengths":
        """Buckets up to `measured` are of measured utterances. InputError where one could be longer
        than these and fill no window.
        """
        utterance = tuple(bucket for bucket in buckets if bucket <= measured)
        if not utterance or utterance[-1] < windows[0]:
            message = (
                f"the streaming layout needs one from {windows[0]}, its shortest window, to"
                f" {measured}"
            )
            raise InputError(f"buckets {','.join(map(str, buckets))}: {message}")
        return cls(buckets, utterance, windows)

    @classmethod
    def up_to(cls, decoder: int, utterance: int, windows: tuple[int, ...]) -> "Lengths":
        """Every length: of functions that take any."""
        return cls(tuple(range(1, decoder + 1)), tuple(range(1, utterance + 1)), windows)

    def in_windows(self) -> "Lengths":
        """Measure as few as there may be, to see windows in short utterances."""
        shortest = self.windows[0]
        return replace(self, utterance=tuple(each for each in self.utterance if each <= shortest))


@dataclass(frozen=True, eq=False)
class StreamingChain:
    """Responsibilities: 1. hand each function its inputs; 2. join what they give."""

    functions: Mapping[str, Function]
    lengths: Lengths

    def pieces(
        self,
        features: np.ndarray,
        style: np.ndarray,
        frames: int,
        early: bool = True,
        hooks: Mapping[str, Hook] | None = None,
    ) -> Iterator[np.ndarray]:
        """Samples in order, as they are computed, [600F] float32 together. `early`: short windows
        first, for an early sound; `hooks`: by function, see mlprogram.Program.
        """

        def run(name: str, length: Mapping[str, Array]) -> Mapping[str, Array]:
            return self.functions[name](
                length, **({"hook": hooks[name]} if hooks and name in hooks else {})
            )

        decoded = run(DECODER, {FEATURES: features, STYLE: style})
        # [1, C, 20B], [1, 22, 120 (B + 1)]
        entering, spectrum = _floats(decoded[ENTERING])[:, :, 0], unpacked_spectrum(features)
        if frames <= max(self.lengths.utterance, default=0):
            # The decoder's own bucket where the function has it, so that checks choose the fill.
            bucket = features.shape[-1] - 1
            if bucket not in self.lengths.utterance:
                bucket = bucket_for(frames, self.lengths.utterance)
            packed = _packed(
                entering[..., : STEPS_PER_FRAME * frames],
                spectrum[..., : COLUMNS_PER_FRAME * frames + 1],
                bucket,
                np.ones((1, 1, frames), np.float32),
            )
            rendered = run(UTTERANCE, {FEATURES: packed, STYLE_AFFINE: decoded[STYLE_AFFINE]})
            yield _floats(rendered[WAVEFORM]).ravel()[: FRAME_SAMPLES * frames]
            return
        for window in fixed_windows(frames, self.lengths.windows, early):
            low, high = window.start, window.start + window.frames
            shown = entering[..., STEPS_PER_FRAME * low : STEPS_PER_FRAME * high]
            columns = spectrum[..., COLUMNS_PER_FRAME * low : COLUMNS_PER_FRAME * high + 1]
            packed = _packed(shown, columns, window.frames)
            rendered = run(WINDOW, {FEATURES: packed, AFFINE: decoded[AFFINE]})
            # The halo on both sides is dropped.
            samples = slice(
                FRAME_SAMPLES * (window.begin - low), FRAME_SAMPLES * (window.end - low)
            )
            yield _floats(rendered[WAVEFORM]).ravel()[samples]

    def render(
        self,
        inputs: VocoderInputs,
        bucket: int | None = None,
        early: bool = False,
        hooks: Mapping[str, Hook] | None = None,
    ) -> np.ndarray:
        """[600F] float32, in the bucket that holds it or a longer one."""
        features = pack_utterance(inputs, bucket or bucket_for(inputs.frames, self.lengths.decoder))
        style = as_array(inputs.style)[:, :, None, None]  # [1, style_dim, 1, 1]
        return np.concatenate(list(self.pieces(features, style, inputs.frames, early, hooks)))


def _floats(value: Array) -> np.ndarray:
    return as_array(value).astype(np.float32, copy=False)


def _packed(
    entering: np.ndarray, spectrum: np.ndarray, bucket: int, mask: np.ndarray | None = None
) -> np.ndarray:
    """entering [1, C, 20F], spectrum [1, 22, 120F + 1], mask [1, 1, F] -> rows of bucket + 1
    columns.
    """
    parts = [(entering, STEPS_PER_FRAME), (spectrum, COLUMNS_PER_FRAME)]
    parts += [] if mask is None else [(mask, 1)]
    rows = [packed_rows(part, rate, bucket) for part, rate in parts]
    return np.concatenate(rows, axis=1)[:, :, None]  # [1, channels, 1, bucket + 1]


class StreamingPackage:
    """Responsibilities: 1. refuse a package that is not the one its manifest describes; 2. a
    VocoderBackend with windows.
    """

    arrays = True

    def __init__(
        self,
        manifest_path: Path,
        precision: str = "declared",
        opened: Opener | None = None,
        any_length: bool = False,
    ) -> None:
        """`precision`: of the executor's arithmetic (mlprogram). `opened`: another way to open a
        function. `any_length`: decoder and utterance take every length up to their longest.
        """
        self.manifest = Manifest.load(manifest_path)
        self.manifest.verify()
        self.buckets = None if any_length else self.manifest.buckets
        with described(manifest_path):
            self.source = HarmonicSource.recorded(self.manifest.source)
            self.voices = tuple(self.manifest.inputs[DECODER][STYLE]["voices"])
            utterance, windows = (
                tuple(self.manifest.inputs[name][FEATURES]["frames"])
                for name in (UTTERANCE, WINDOW)
            )
            lengths = Lengths(self.manifest.buckets, utterance, windows)
            if any_length:
                lengths = Lengths.up_to(lengths.decoder[-1], utterance[-1], windows)
            inside = {name: self.manifest.functions[name] for name in (DECODER, UTTERANCE, WINDOW)}
        path = self.manifest.package_path
        opened = opened or _executed(precision)
        self.chain = StreamingChain(
            {name: opened(path, function) for name, function in inside.items()}, lengths
        )

    def pack(self, inputs: VocoderInputs) -> np.ndarray:
        """The decoder's features, in the smallest bucket that holds them."""
        return pack_utterance(inputs, bucket_for(inputs.frames, self.chain.lengths.decoder))

    def run(self, features: Array, style: Array, frames: int) -> np.ndarray:
        """All samples at once, [600F]."""
        return np.concatenate(list(self.pieces(features, style, frames, early=False)))

    def pieces(
        self, features: Array, style: Array, frames: int, early: bool = True
    ) -> Iterator[np.ndarray]:
        """Samples as they are computed. Raises InputError for NaN or infinity in an input."""
        require_finite("features", features)
        require_finite("style", style)
        return self.chain.pieces(as_array(features), as_array(style), frames, early)

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        """Waveform [600 F] float32; InputError when the features are longer than the largest
        bucket.
        """
        return self.chain.render(inputs)


def _executed(precision: str) -> Opener:
    """By mlprogram, which needs PyTorch."""
    from mlprogram import Program, ProgramError

    def opened(path: Path, function: str) -> Program:
        try:
            return Program(path, function=function, precision=precision)
        except ProgramError as problem:
            raise InputError(str(problem)) from None

    return opened
