"""Audio behind the models: fades and gain of a chunk, silence and loudness of a whole text, and the
file or stream that it is written to: 24 kHz, mono, 16 bit.

    samples, gain = finished(waveform)                    # faded at both ends, within full scale
    blocks = trim_silence(blocks)                         # without long silence at both ends
    samples, reached_lufs = level_loudness(samples, -19)  # at -19 LUFS
    with open_file(Path("hello.wav")) as output: output.write(samples)
    open_stream(sys.stdout.buffer, "wav").write(samples)
"""

import contextlib
import errno
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

import numpy as np

from kokoro_ane.core import SAMPLE_RATE_HZ, InputError, require_installed, staged

FADE_SAMPLES = 120  # 5 ms
CEILING = 1.0  # full scale; a louder chunk is turned down as a whole
FULL_SCALE = 32767
# by the suffix of a file: libsndfile's container and coding
FORMATS = MappingProxyType(
    {
        ".wav": ("WAV", "PCM_16"),
        ".flac": ("FLAC", "PCM_16"),
        ".mp3": ("MP3", "MPEG_LAYER_III"),
        ".opus": ("OGG", "OPUS"),
    }
)
SUFFIXES = tuple(FORMATS)
UNKNOWN_LENGTH = 0xFFFFFFFF  # a wav header written before the audio is known
# samples of silence that stay: 0.1 s, 0.25 s
LEAD, TAIL = SAMPLE_RATE_HZ // 10, SAMPLE_RATE_HZ // 4
SILENT = 10 ** (-50 / 20)  # of full scale
# of a sample, where a level is set: room for what coding and resampling add
LOUDEST_DBFS = -1.0
LEVELS_LUFS = (-50.0, -5.0)


def fade(samples: int = FADE_SAMPLES) -> np.ndarray:
    """Raised cosine [samples] float32 from near 0 to near 1: sin^2(pi (2n + 1) / 4 samples)."""
    phase = np.pi * (2 * np.arange(samples) + 1) / (4 * samples)
    return np.square(np.sin(phase)).astype(np.float32)


def faded(piece: np.ndarray, at: int, length: int) -> np.ndarray:
    """A copy of a piece [n] float32 that begins at sample `at` of its chunk, with its part of the
    fades over the first and last 5 ms of the chunk's `length` samples, or half of a shorter one.
    """
    # A copy, because the fades are multiplied in place.
    samples = piece.astype(np.float32, copy=True)
    fading = min(FADE_SAMPLES, length // 2)
    slope = fade(fading)
    places = np.arange(at, at + len(piece))
    for edge in (places, length - 1 - places):  # samples from the beginning, from the end
        near = edge < fading
        samples[near] *= slope[edge[near]]
    return samples


def finished(waveform: np.ndarray) -> tuple[np.ndarray, float]:
    """A chunk [n] float32 with fades and within full scale, and the gain that it was turned down
    by (1: it was not).
    """
    samples = faded(waveform, 0, len(waveform))
    peak = float(np.abs(samples).max(initial=0.0))
    gain = 1.0 if peak <= CEILING else CEILING / peak
    if gain < 1.0:
        samples = np.clip(samples * np.float32(gain), -CEILING, CEILING)
    return samples, gain


class StreamFinish:
    """`finished` for a chunk that comes in pieces: the same fades; a piece that is too loud turns
    down itself and all behind it, over one fade.
    """

    def __init__(self, length: int) -> None:
        """`length`: samples of the chunk."""
        self.length, self.at, self.gain = length, 0, 1.0

    def __call__(self, piece: np.ndarray) -> np.ndarray:
        """The next piece [n] float32 -> [n]."""
        samples = faded(piece, self.at, self.length)
        self.at += len(piece)
        before = self.gain
        peak = float(np.abs(samples).max(initial=0.0))
        # A gain never rises again within a chunk: one would hear it.
        self.gain = min(before, CEILING / peak if peak > 0 else 1.0)
        gains = np.full(len(piece), self.gain, np.float32)
        # The change is spread over a fade, because a step would click.
        ramp = min(FADE_SAMPLES, len(piece))
        gains[:ramp] = np.linspace(before, self.gain, ramp, dtype=np.float32)
        if self.gain < 1.0:
            # Within the ramp the gain may still be too high.
            samples = np.clip(samples * gains, -CEILING, CEILING)
        return samples


def convert_to_pcm(samples: np.ndarray) -> np.ndarray:
    """Float in -1..1 to 16 bit, rounded half to even: 1.0 becomes 32767."""
    # -32768 is never written, so that both signs end alike.
    return (
        np.rint(samples.astype(np.float64) * FULL_SCALE).clip(-FULL_SCALE, FULL_SCALE).astype("<i2")
    )


class Output:
    """Writes float samples as 16-bit PCM; counts samples, and those at full scale."""

    def __init__(self, put: Callable[[np.ndarray], object]) -> None:
        """`put` takes PCM [n] int16 to its place."""
        self.put, self.samples, self.full_scale = put, 0, 0

    def write(self, samples: np.ndarray) -> None:
        """Write samples [n] float32 in -1..1."""
        pcm = convert_to_pcm(samples)
        try:
            self.put(pcm)
        except BrokenPipeError:
            seconds = self.samples / SAMPLE_RATE_HZ
            raise InputError(
                f"the reader of the stream went away after {seconds:.1f} s of audio"
            ) from None
        self.samples += len(pcm)
        self.full_scale += int((np.abs(pcm) >= FULL_SCALE).sum())


def check_format(path: Path) -> None:
    """Raises InputError for a file that the libsndfile here does not write."""
    import soundfile

    if not soundfile.check_format(*FORMATS[path.suffix.lower()]):
        raise InputError(
            f"libsndfile {soundfile.__libsndfile_version__} writes no {path.suffix}: `pip install"
            " --upgrade soundfile` brings a newer one; .flac and .wav always work"
        )


@contextlib.contextmanager
def open_file(path: Path) -> Iterator[Output]:
    """A file of FORMATS, which appears under its name when it is complete."""
    import soundfile

    container, coding = FORMATS[path.suffix.lower()]
    with staged(path) as aside:
        try:
            with soundfile.SoundFile(
                aside, "w", SAMPLE_RATE_HZ, 1, subtype=coding, format=container
            ) as file:

                def put(pcm: np.ndarray) -> None:
                    file.write(pcm)
                    file.flush()  # a disk that fills is found here, not when the file is closed

                yield Output(put)
        except soundfile.LibsndfileError as problem:
            # libsndfile says "System error" where a file cannot be opened or cannot grow
            message = f"no room for it, or too large a file ({problem})"
            raise OSError(errno.ENOSPC, message, path.name) from None


def open_stream(stream: BinaryIO, kind: str) -> Output:
    """A pipe, flushed after every block: "wav", or "pcm" without a header."""
    if kind == "wav":
        # 44 bytes of a 16-bit mono wav whose length is not known yet: both sizes are 0xFFFFFFFF, as
        # players expect of a stream
        layout = struct.pack("<IHHIIHH", 16, 1, 1, SAMPLE_RATE_HZ, 2 * SAMPLE_RATE_HZ, 2, 16)
        size = struct.pack("<I", UNKNOWN_LENGTH)
        stream.write(b"RIFF" + size + b"WAVEfmt " + layout + b"data" + size)

    def put(pcm: np.ndarray) -> None:
        stream.write(pcm.tobytes())
        stream.flush()

    return Output(put)


def trim_silence(blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """The samples without silence beyond 0.1 s before the first sound and beyond 0.25 s behind the
    last one; silence between sounds stays.
    """
    silence = np.zeros(0, np.float32)
    begun = False
    for block in blocks:
        # silence is held back until a sound follows
        held = np.concatenate([silence, block])
        sounds = np.flatnonzero(np.abs(held) > SILENT)
        if len(sounds):
            # A tenth of a second stays before the first sound.
            first = 0 if begun else max(0, int(sounds[0]) - LEAD)
            end = int(sounds[-1]) + 1
            yield held[first:end]
            held = held[end:]
            begun = True
        silence = held
    # What is nothing but silence stays whole.
    yield silence[:TAIL] if begun else silence


def check_loudness(lufs: float) -> float:
    """Raises InputError for what is no loudness of speech."""
    if not LEVELS_LUFS[0] <= lufs <= LEVELS_LUFS[1]:
        raise InputError(
            f"a loudness of {lufs:g} LUFS: give {LEVELS_LUFS[0]:g} to {LEVELS_LUFS[1]:g}; -19 is"
            " usual for mono speech"
        )
    require_installed("--loudness", "loudness")
    return lufs


def level_loudness(samples: np.ndarray, lufs: float) -> tuple[np.ndarray, float | None]:
    """samples [n] float32 at `lufs` by ITU-R BS.1770-4 (pyloudnorm), or as near as a peak of
    LOUDEST_DBFS lets, and the LUFS reached.

    None, and the samples as they are: silence, or shorter than the 0.4 s that a loudness is
    measured over.
    """
    from pyloudnorm import Meter

    meter = Meter(SAMPLE_RATE_HZ)
    if len(samples) < meter.block_size * SAMPLE_RATE_HZ:
        return samples, None
    loudness = meter.integrated_loudness(samples.astype(np.float64))
    if np.isneginf(loudness):
        return samples, None
    # The lower of two gains: to the level, and to the highest peak.
    gain_db = min(lufs - loudness, LOUDEST_DBFS - 20 * np.log10(np.abs(samples).max()))
    return samples * np.float32(10 ** (gain_db / 20)), round(float(loudness + gain_db), 2)
