"""Where finished audio goes: a .wav or .flac file, or stdout as wav or raw PCM. 24 kHz, mono, 16 bit, the same samples everywhere.

with to_file(Path("hello.wav")) as sink: sink.write(samples)
with to_stream(sys.stdout.buffer, "wav") as sink: ...
"""

import contextlib
import errno
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from core.contract import SAMPLE_RATE_HZ
from core.errors import InputError
from core.staging import staged
from pipeline.join import FULL_SCALE, to_pcm

SUFFIXES = (".wav", ".flac")
UNKNOWN_LENGTH = 0xFFFFFFFF  # a wav header written before the audio is known


class Sink(ABC):
    """Takes float samples; counts what was written and what touches full scale."""

    def __init__(self) -> None:
        self.samples, self.full_scale, self.peak = 0, 0, 0.0

    def write(self, samples: np.ndarray) -> None:
        """samples [n] float32 in -1..1."""
        pcm = to_pcm(samples)
        self.samples += len(pcm)
        self.full_scale += int((np.abs(pcm) >= FULL_SCALE).sum())
        self.peak = max(self.peak, float(np.abs(samples).max(initial=0.0)))
        self._put(pcm)

    @abstractmethod
    def _put(self, pcm: np.ndarray) -> None:
        """pcm [n] int16, where it is to go."""


@contextlib.contextmanager
def full_disk_is_an_oserror(path: Path) -> Iterator[None]:
    """libsndfile says "System error" where a file cannot be opened or cannot grow; say what it is."""
    import soundfile

    try:
        yield
    except soundfile.LibsndfileError as problem:
        raise OSError(errno.ENOSPC, f"no room for it, or too large a file ({problem})", path.name) from None


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
            self._send(wav_header())

    def _put(self, pcm: np.ndarray) -> None:
        self._send(pcm.tobytes())

    def _send(self, data: bytes) -> None:
        try:
            self.stream.write(data)
            self.stream.flush()
        except BrokenPipeError:
            raise InputError(f"the reader of the stream went away after {self.samples / SAMPLE_RATE_HZ:.1f} s of audio") from None


def wav_header() -> bytes:
    """44 bytes of a 16-bit mono wav whose length is not known yet: both sizes are 0xFFFFFFFF, as players expect of a stream."""
    form = struct.pack("<HHIIHH", 1, 1, SAMPLE_RATE_HZ, 2 * SAMPLE_RATE_HZ, 2, 16)
    sizes = struct.pack("<I", UNKNOWN_LENGTH)
    return b"RIFF" + sizes + b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + sizes


@contextlib.contextmanager
def to_file(path: Path) -> Iterator[Sink]:
    """A file that appears under its name when it is complete."""
    with staged(path) as aside:
        sink = FileSink(aside)
        try:
            yield sink
        finally:
            sink.file.close()


@contextlib.contextmanager
def to_stream(stream: BinaryIO, kind: str) -> Iterator[Sink]:
    """Standard output, or anything like it."""
    yield StreamSink(stream, kind)
