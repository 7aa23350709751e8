"""An utterance through the streaming layout's three functions, whichever runtime runs them: packed,
cut into windows, joined.

    package = StreamingPackage(Path("build/KokoroVocoder-streaming-fp16.json"))
    samples = package.render(inputs)                                      # [600 F]
    # the same samples, as they are computed
    for piece in package.render_pieces(features, style, statistics, frames): ...

The function `decoder` also computes the generator's first stage, over the whole utterance. The
second stage of a short utterance is the function `utterance`, which measures its statistics: there
a prediction errs most, and there is least to wait for. That of a longer one is cut into windows of
the few lengths that `window` takes, full of real frames.

Any cut gives the same samples. No operation of the second stage reduces over time, so a window is
rendered as the utterance is, but for the columns near its edges that would read beyond it. The
first window begins where the utterance begins and the last ends where it ends: there the zero
padding of the convolutions is upstream's own. At every other edge HALO frames are computed twice
and dropped.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_ane.core import (
    AFFINE,
    COLUMNS_PER_FRAME,
    DECODER,
    ENTERING,
    FEATURES,
    FRAME_SAMPLES,
    STATISTICS,
    STEPS_PER_FRAME,
    STYLE,
    STYLE_AFFINE,
    UTTERANCE,
    WAVEFORM,
    WINDOW,
    InputError,
    Manifest,
    bucket_for,
    described,
    require_shape,
)
from kokoro_ane.vocoder.packing import (
    Array,
    VocoderInputs,
    as_array,
    pack_rows,
    pack_utterance,
    require_finite,
    unpack_spectrum,
)
from kokoro_ane.vocoder.source import HarmonicSource

# frames a side: the second stage spoils 124 columns of 120 a frame, the inverse STFT two more
HALO = 2
# frames, where any length can be rendered: an early first sound, 0.3 s of it, and each window twice
# as long as the one before, so that its sound lasts until the next is computed
WINDOWS = (20, 40, 80, 160)
# frames, of a package: 120 columns a frame stay within the 16,384 that an engine takes
SIZES = (24, 64, 128)
# frames: what is no longer is rendered at once with its own statistics, in less time than its sound
# lasts
MEASURED = 180

# named inputs -> named outputs
Function = Callable[[Mapping[str, Array]], Mapping[str, Array]]
Opener = Callable[[Path, str], Any]  # package, function -> what is called like a mlprogram.Program


@dataclass(frozen=True)
class Window:
    """`frames` frames of the utterance are rendered from `start` on, and those from `begin` to
    `end` are kept.
    """

    start: int
    frames: int
    begin: int
    end: int


def cut_windows(
    frames: int, sizes: tuple[int, ...], early: bool, any_length: bool = False
) -> tuple[Window, ...]:
    """Cover an utterance with windows of these lengths only; `sizes` rise, and the utterance fills
    the shortest. With `early` each length is used once before the longest is used throughout. The
    last window may be a shorter one; with `any_length` it is no longer than it has to be.

    Raises InputError for windows that hold nothing but halo, and for a shorter utterance.
    """
    if sizes[0] <= 2 * HALO or frames < sizes[0]:
        raise InputError(
            f"windows of {', '.join(map(str, sizes))} frames for an utterance of {frames}:"
            f" {2 * HALO} are spoiled by edges"
        )
    # A window that is longer than the utterance cannot be filled.
    sizes = tuple(size for size in sizes if size <= frames)
    cut: list[Window] = []
    begin = 0
    used = 0 if early else len(sizes) - 1
    while begin < frames:
        # Nothing stands before the first window that its edge could spoil.
        halo = HALO if begin else 0
        # The shortest window that reaches the end, among the sizes that are in use.
        last = next((size for size in sizes[: used + 1] if size - halo >= frames - begin), None)
        start = begin - halo
        size = last or sizes[used]
        if last and any_length:
            size = frames - start
        elif last:
            # It moves back until it ends with the utterance, and computes more frames twice.
            start = frames - size
        # Frames at an inner edge are left to the next window.
        end = frames if last else start + size - HALO
        cut.append(Window(start, size, begin, end))
        begin = end
        used = min(used + 1, len(sizes) - 1)
    return tuple(cut)


@dataclass(frozen=True)
class Lengths:
    """The lengths that each function takes, in frames, rising. Only utterances that are longer than
    the function `utterance` takes are cut into windows.
    """

    decoder: tuple[int, ...]
    utterance: tuple[int, ...]
    window: tuple[int, ...]

    @classmethod
    def from_buckets(cls, buckets: tuple[int, ...]) -> "Lengths":
        """The decoder takes all buckets, `utterance` those up to MEASURED, `window` SIZES. Raises
        InputError where an utterance could be longer than these and fill no window.
        """
        utterance = tuple(bucket for bucket in buckets if bucket <= MEASURED)
        if not utterance or utterance[-1] < SIZES[0]:
            raise InputError(
                f"buckets {','.join(map(str, buckets))}: the streaming layout needs one from"
                f" {SIZES[0]}, its shortest window, to {MEASURED}"
            )
        return cls(buckets, utterance, SIZES)

    @classmethod
    def from_longest(cls, decoder: int, utterance: int, windows: tuple[int, ...]) -> "Lengths":
        """Every length up to these, for functions that take any."""
        return cls(tuple(range(1, decoder + 1)), tuple(range(1, utterance + 1)), windows)

    def in_windows(self) -> "Lengths":
        """Measure as few utterances as possible, so that short ones are cut into windows, too."""
        shortest = self.window[0]
        return replace(self, utterance=tuple(each for each in self.utterance if each <= shortest))


@dataclass(frozen=True, eq=False)
class StreamingChain:
    """Responsibilities: 1. give each function its inputs; 2. join what they return."""

    functions: Mapping[str, Function]
    lengths: Lengths
    rows: int  # 2R, gains and shifts of the second stage's norms

    def render_pieces(
        self,
        features: np.ndarray,
        style: np.ndarray,
        statistics: np.ndarray,
        frames: int,
        early: bool = True,
    ) -> Iterator[np.ndarray]:
        """Yield the samples in order, as they are computed, [600F] float32 together. With `early`
        the short windows come first, for an early sound. statistics [1, 2R, 1, 1]: the voice's.
        """
        require_shape(STATISTICS, statistics, (1, self.rows, 1, 1), "these functions")
        arrays = {FEATURES: features, STYLE: style, STATISTICS: statistics}
        decoded = self.functions[DECODER](arrays)
        # [1, C, 20B], [1, 22, 120 (B + 1)]
        entering = _as_floats(decoded[ENTERING])[:, :, 0]
        spectrum = unpack_spectrum(features)
        if frames <= max(self.lengths.utterance, default=0):
            # The decoder's own bucket where the function has it, so that checks choose the fill.
            bucket = features.shape[-1] - 1
            if bucket not in self.lengths.utterance:
                bucket = bucket_for(frames, self.lengths.utterance)
            # What the bucket holds beyond the utterance is cut off, and becomes zeros again.
            packed = _pack_second_stage(
                entering[..., : STEPS_PER_FRAME * frames],
                spectrum[..., : COLUMNS_PER_FRAME * frames + 1],
                bucket,
                np.ones((1, 1, frames), np.float32),
            )
            arrays = {FEATURES: packed, STYLE_AFFINE: decoded[STYLE_AFFINE]}
            rendered = self.functions[UTTERANCE](arrays)
            yield _as_floats(rendered[WAVEFORM]).ravel()[: FRAME_SAMPLES * frames]
            return
        for window in cut_windows(frames, self.lengths.window, early):
            low = window.start
            high = window.start + window.frames
            # [1, C, 20 W]; of the spectrum one column more than 120 W
            shown = entering[..., STEPS_PER_FRAME * low : STEPS_PER_FRAME * high]
            columns = spectrum[..., COLUMNS_PER_FRAME * low : COLUMNS_PER_FRAME * high + 1]
            packed = _pack_second_stage(shown, columns, window.frames)
            rendered = self.functions[WINDOW]({FEATURES: packed, AFFINE: decoded[AFFINE]})
            # The halo on both sides is dropped.
            samples = slice(
                FRAME_SAMPLES * (window.begin - low), FRAME_SAMPLES * (window.end - low)
            )
            yield _as_floats(rendered[WAVEFORM]).ravel()[samples]

    def render(
        self, inputs: VocoderInputs, bucket: int | None = None, early: bool = False
    ) -> np.ndarray:
        """Samples [600F] float32 of an utterance in `bucket`, by default the smallest that holds
        it.
        """
        features = pack_utterance(inputs, bucket or bucket_for(inputs.frames, self.lengths.decoder))
        style = as_array(inputs.style)[:, :, None, None]  # [1, style_dim, 1, 1]
        statistics = inputs.statistics
        if statistics is None:
            statistics = np.zeros((1, self.rows), style.dtype)
        column = as_array(statistics)[:, :, None, None]  # [1, 2R, 1, 1]
        return np.concatenate(
            list(self.render_pieces(features, style, column, inputs.frames, early))
        )


def _as_floats(value: Array) -> np.ndarray:
    """fp16 as float32, float64 as it is."""
    array = as_array(value)
    return array.astype(np.result_type(array, np.float32), copy=False)


def _pack_second_stage(
    entering: np.ndarray, spectrum: np.ndarray, bucket: int, mask: np.ndarray | None = None
) -> np.ndarray:
    """entering [1, C, 20F], spectrum [1, 22, 120F + 1], mask [1, 1, F] -> the features of a second
    stage, [1, channels, 1, bucket + 1].
    """
    parts = [(entering, STEPS_PER_FRAME), (spectrum, COLUMNS_PER_FRAME)]
    parts += [] if mask is None else [(mask, 1)]
    rows = [pack_rows(part, rate, bucket) for part, rate in parts]
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
        """`precision` is that of the executor's arithmetic (mlprogram). `opened` is another way to
        open a function. With `any_length` decoder and utterance take every length up to their
        longest.
        """
        self.manifest = Manifest.load(manifest_path)
        self.manifest.verify()
        self.buckets = None if any_length else self.manifest.buckets
        with described(manifest_path):
            self.source = HarmonicSource.from_manifest(self.manifest.source)
            column = self.manifest.inputs[DECODER][STATISTICS]
            self.predictor = column["predictor_sha256"]
            _, rows, _, _ = column["shape"]
            utterance, windows = (
                tuple(self.manifest.inputs[name][FEATURES]["frames"])
                for name in (UTTERANCE, WINDOW)
            )
            lengths = Lengths(self.manifest.buckets, utterance, windows)
            if any_length:
                lengths = Lengths.from_longest(lengths.decoder[-1], utterance[-1], windows)
            inside = {name: self.manifest.functions[name] for name in (DECODER, UTTERANCE, WINDOW)}
        path = self.manifest.package_path
        opened = opened or make_opener(precision)
        self.chain = StreamingChain(
            {name: opened(path, function) for name, function in inside.items()}, lengths, rows
        )

    def pack(self, inputs: VocoderInputs) -> np.ndarray:
        """The decoder's features [1, channels, 1, B + 1], in the smallest bucket that fits."""
        return pack_utterance(inputs, bucket_for(inputs.frames, self.chain.lengths.decoder))

    def run(self, features: Array, style: Array, statistics: Array, frames: int) -> np.ndarray:
        """All samples at once, [600F]."""
        return np.concatenate(
            list(self.render_pieces(features, style, statistics, frames, early=False))
        )

    def render_pieces(
        self, features: Array, style: Array, statistics: Array, frames: int, early: bool = True
    ) -> Iterator[np.ndarray]:
        """Samples as they are computed. Raises InputError for NaN or infinity in an input."""
        require_finite(FEATURES, features)
        require_finite(STYLE, style)
        require_finite(STATISTICS, statistics)
        columns = as_array(style), as_array(statistics)
        return self.chain.render_pieces(as_array(features), *columns, frames, early)

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        """Waveform [600 F] float32; InputError when the features are longer than the largest
        bucket.
        """
        return self.chain.render(inputs)


def make_opener(precision: str) -> Opener:
    """Opens functions for execution by mlprogram, which needs PyTorch."""
    from mlprogram import Program, ProgramError

    def opened(path: Path, function: str) -> Program:
        try:
            return Program(path, function=function, precision=precision)
        except ProgramError as problem:
            raise InputError(str(problem)) from None

    return opened
