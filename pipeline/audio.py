"""Finished audio: what is done to a chunk's samples beyond the models, and where they go. 24 kHz,
mono, 16 bit, the same samples everywhere.

    samples, gain = finished(waveform)                  # fades, within full scale
    with to_file(Path("hello.wav")) as sink: sink.write(samples)
    StreamSink(sys.stdout.buffer, "wav").write(samples)
    TrimmedSink(sink).write(samples)                    # silence at both ends cut
    levelled(samples, -19)                              # at -19 LUFS, and the loudness reached
"""

import contextlib
import errno
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from kokoro_ane.core.contract import FRAME_SAMPLES, SAMPLE_RATE_HZ
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.staging import staged

FADE_SAMPLES = 120  # 5 ms
CEILING = 1.0  # full scale; a louder chunk is turned down as a whole
VOICE_PERCENTILE = 95  # of a chunk's frames: what the voice passes in one frame of twenty
FULL_SCALE = 32767
SUFFIXES = (".wav", ".flac")
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


def finished(waveform: np.ndarray) -> tuple[np.ndarray, float]:
    """A chunk [n] float32 ready to be joined, and the gain it was turned down by (1 = not). Shorter
    than two fades: shorter fades.
    """
    length = min(FADE_SAMPLES, len(waveform) // 2)
    faded, slope = waveform.astype(np.float32, copy=True), fade(length)
    faded[:length] *= slope
    faded[len(faded) - length :] *= slope[::-1]
    peak = float(np.abs(faded).max(initial=0.0))
    gain = 1.0 if peak <= CEILING else CEILING / peak
    return (faded if gain == 1.0 else np.clip(faded * np.float32(gain), -CEILING, CEILING)), gain


class StreamFinish:
    """`finished` for a chunk that comes in pieces: the same fades; what is too loud is turned down
    from there on, over one fade.
    """

    def __init__(self, length: int) -> None:
        """`length`: samples of the chunk."""
        self.length, self.at, self.gain = length, 0, 1.0

    def __call__(self, piece: np.ndarray) -> np.ndarray:
        """The next piece [n] float32 -> [n]; none is needed twice."""
        samples, fading = piece.astype(np.float32, copy=True), min(FADE_SAMPLES, self.length // 2)
        slope, places = fade(fading), np.arange(self.at, self.at + len(piece))
        for edge in (places, self.length - 1 - places):  # from the beginning, from the end
            near = edge < fading
            samples[near] *= slope[edge[near]]
        self.at += len(piece)
        before, peak = self.gain, float(np.abs(samples).max(initial=0.0))
        self.gain = min(before, CEILING / peak if peak > 0 else 1.0)
        gains = np.full(len(piece), self.gain, np.float32)
        ramp = min(FADE_SAMPLES, len(piece))
        gains[:ramp] = np.linspace(before, self.gain, ramp, dtype=np.float32)
        return (
            samples if before == self.gain == 1.0 else np.clip(samples * gains, -CEILING, CEILING)
        )


def to_pcm(samples: np.ndarray) -> np.ndarray:
    """Float in -1..1 to 16 bit, rounded half to even: 1.0 becomes 32767."""
    return (
        np.rint(samples.astype(np.float64) * FULL_SCALE).clip(-FULL_SCALE, FULL_SCALE).astype("<i2")
    )


def largest_step(samples: np.ndarray) -> float:
    """Largest difference between neighbouring samples."""
    return float(np.abs(np.diff(samples.astype(np.float64))).max(initial=0.0))


def voice_step(samples: np.ndarray) -> float:
    """The largest step in each whole frame, 95th percentile over frames: what the voice does from
    frame to frame.
    """
    frames = samples[: len(samples) // FRAME_SAMPLES * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
    return (
        float(np.percentile([largest_step(frame) for frame in frames], VOICE_PERCENTILE))
        if len(frames)
        else 0.0
    )


def join_db(before: np.ndarray, after: np.ndarray, pause: int) -> float:
    """Largest step where the join has changed anything (both fades and the pause), in dB over the
    smaller `voice_step` of the two chunks.

    `before` and `after` are finished chunks. At or below 0 dB a join is no louder than the voice
    itself; -inf: nothing moves there.
    """
    silence = np.zeros(min(pause, FADE_SAMPLES), np.float32)
    near = np.concatenate([before[-FADE_SAMPLES:], silence, after[:FADE_SAMPLES]])
    step, voice = largest_step(near), min(voice_step(before), voice_step(after))
    with np.errstate(divide="ignore"):
        return (
            float(20 * np.log10(step / voice))
            if voice
            else (float("inf") if step else float("-inf"))
        )


class Sink(ABC):
    """Takes float samples; counts what was written and what touches full scale."""

    def __init__(self) -> None:
        self.samples = self.full_scale = 0

    def write(self, samples: np.ndarray) -> None:
        """samples [n] float32 in -1..1."""
        pcm = to_pcm(samples)
        self.samples += len(pcm)
        self.full_scale += int((np.abs(pcm) >= FULL_SCALE).sum())
        self._put(pcm)

    @abstractmethod
    def _put(self, pcm: np.ndarray) -> None:
        """pcm [n] int16, where it is to go."""


@contextlib.contextmanager
def full_disk_is_an_oserror(path: Path) -> Iterator[None]:
    """libsndfile says "System error" where a file cannot be opened or cannot grow; say what it
    is.
    """
    import soundfile

    try:
        yield
    except soundfile.LibsndfileError as problem:
        raise OSError(
            errno.ENOSPC, f"no room for it, or too large a file ({problem})", path.name
        ) from None


class FileSink(Sink):
    """soundfile, written aside."""

    def __init__(self, path: Path) -> None:
        import soundfile

        super().__init__()
        self.path = path
        with full_disk_is_an_oserror(path):
            self.file = soundfile.SoundFile(path, "w", SAMPLE_RATE_HZ, 1, subtype="PCM_16")

    def _put(self, pcm: np.ndarray) -> None:
        with full_disk_is_an_oserror(self.path):
            self.file.write(pcm)
            self.file.flush()  # a disk that fills is found here, not when the file is closed


class StreamSink(Sink):
    """A pipe; every chunk is flushed as it comes."""

    def __init__(self, stream: BinaryIO, kind: str) -> None:
        super().__init__()
        self.stream = stream
        if kind == "wav":
            # 44 bytes of a 16-bit mono wav whose length is not known yet: both sizes are
            # 0xFFFFFFFF, as players expect of a stream
            layout = struct.pack("<IHHIIHH", 16, 1, 1, SAMPLE_RATE_HZ, 2 * SAMPLE_RATE_HZ, 2, 16)
            sizes = struct.pack("<I", UNKNOWN_LENGTH)
            self._send(b"RIFF" + sizes + b"WAVEfmt " + layout + b"data" + sizes)

    def _put(self, pcm: np.ndarray) -> None:
        self._send(pcm.tobytes())

    def _send(self, data: bytes) -> None:
        try:
            self.stream.write(data)
            self.stream.flush()
        except BrokenPipeError:
            raise InputError(
                f"the reader of the stream went away after {self.samples / SAMPLE_RATE_HZ:.1f} s of"
                " audio"
            ) from None


class ArraySink(Sink):
    """Memory: the samples as they come, in float."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = [np.zeros(0, np.float32)]

    def write(self, samples: np.ndarray) -> None:
        """samples [n] float32 in -1..1."""
        super().write(samples)
        self.parts.append(samples)

    @property
    def all(self) -> np.ndarray:
        """[n] float32."""
        return np.concatenate(self.parts)

    def _put(self, pcm: np.ndarray) -> None:
        """Nowhere else."""


@contextlib.contextmanager
def to_file(path: Path) -> Iterator[Sink]:
    """A file that appears under its name when it is complete."""
    with staged(path) as aside:
        sink = FileSink(aside)
        with sink.file:
            yield sink


class TrimmedSink:
    """A sink's samples without silence before the first sound beyond 0.1 s, and behind the last
    beyond 0.25 s; what is between stays.
    """

    def __init__(self, sink: "Sink | LevelledSink") -> None:
        self.sink, self.held, self.begun, self.cut = sink, np.zeros(0, np.float32), False, 0

    def write(self, samples: np.ndarray) -> None:
        """samples [n] float32 in -1..1; silence is held back until a sound follows."""
        held = np.concatenate([self.held, samples])
        heard = np.flatnonzero(np.abs(held) > SILENT)
        if len(heard):
            first = 0 if self.begun else max(0, int(heard[0]) - LEAD)
            last = int(heard[-1]) + 1
            self.cut, self.begun = self.cut + first, True
            self.sink.write(held[first:last])
            held = held[last:]
        self.held = held

    def finish(self) -> None:
        """The last sound's silence, 0.25 s at most."""
        silence = self.held[:TAIL] if self.begun else self.held
        self.cut += len(self.held) - len(silence)
        self.sink.write(silence)


def check_loudness(lufs: float) -> float:
    """Raises InputError for what is no loudness of speech."""
    if not LEVELS_LUFS[0] <= lufs <= LEVELS_LUFS[1]:
        raise InputError(
            f"a loudness of {lufs:g} LUFS: give {LEVELS_LUFS[0]:g} to {LEVELS_LUFS[1]:g}; -19 is"
            " usual for mono speech"
        )
    return lufs


def levelled(samples: np.ndarray, lufs: float) -> tuple[np.ndarray, float | None]:
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
    gain_db = min(lufs - loudness, LOUDEST_DBFS - 20 * np.log10(np.abs(samples).max()))
    return samples * np.float32(10 ** (gain_db / 20)), round(float(loudness + gain_db), 2)


class LevelledSink:
    """A sink's samples at one loudness: all are held until the last is there."""

    def __init__(self, sink: Sink, lufs: float) -> None:
        self.sink, self.lufs = sink, lufs
        self.held, self.reached = [np.zeros(0, np.float32)], None  # type: list, float | None

    def write(self, samples: np.ndarray) -> None:
        """samples [n] float32 in -1..1."""
        self.held.append(samples)

    def finish(self) -> None:
        """Level, and write it all."""
        samples, self.reached = levelled(np.concatenate(self.held), self.lufs)
        self.sink.write(samples)
