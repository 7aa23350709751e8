"""Finished chunks of a long run, kept beside the output until it is complete, so that an
interrupted run can go on.

    with ResumeState.open(Path("book.wav.parts"), settings, resume=True) as state:
        for speech in pipeline.speak(text, voice, options, state.earlier): state.keep(speech)
        state.remove()

OUT.parts/ holds settings.json (hashes of text, voice and models, speed, seed), audio.f32 (samples
one after the other, float32), chunks.jsonl (one line a chunk, written after its samples, with their
SHA-256) and owner.lock (one process at a time). A line cut short by a crash is dropped with all
that follows.
"""

import hashlib
import json
import os
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_ane.core.data_files import conform, parse_json, read_json
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.process import LOCK, locked
from kokoro_ane.core.staging import check_implied, discard, json_text, staged, strangers, write_json
from kokoro_ane.pipeline.synthesis import Speech
from kokoro_ane.pipeline.text import Chunk

SETTINGS, AUDIO, CHUNKS = "settings.json", "audio.f32", "chunks.jsonl"
FILES = (SETTINGS, AUDIO, CHUNKS, LOCK)
BYTES = 4  # a sample
# of a process's number in its lock; how often a waiting one looks
PROCESS_DIGITS, AGAIN_S = 10, 0.1


class _Taken(InputError):
    """Another process has made the folder meanwhile."""


def held(folder: Path, content: Any) -> tuple[int, bool]:
    """The folder's lock, held, and whether the folder is new: made with its settings and lock, so
    never there without them.

    Raises InputError for a folder that no `speak` wrote.
    """
    while True:
        lock = None if (folder / SETTINGS).is_file() else _made(folder, content)
        if lock is not None:
            return lock, True
        check_implied(folder, resume_state_of_ours)
        lock = _waited_for(folder)
        if lock is not None:
            return lock, False


def _made(folder: Path, content: Any) -> int | None:
    """None where another process was faster."""

    def free(place: Path) -> str | None:
        if (place / SETTINGS).is_file():
            raise _Taken
        return resume_state_of_ours(place)

    with ExitStack() as undone, suppress(_Taken):
        with staged(folder, free) as aside:
            aside.mkdir()
            (aside / SETTINGS).write_text(json_text(content), encoding="utf-8")
            lock = _signed(aside)
            assert lock is not None  # nobody else knows the folder yet
            undone.callback(os.close, lock)
        undone.pop_all()
        return lock
    return None


def _waited_for(folder: Path) -> int | None:
    """None where its owner has removed the folder."""
    reported = False
    with suppress(FileNotFoundError):
        while (lock := _signed(folder)) is None:
            if not reported:
                owner = (folder / LOCK).read_bytes()[:PROCESS_DIGITS].decode(errors="replace")
                line = f"{folder}: process {owner} writes this output: waiting until it has ended"
                print(line, file=sys.stderr, flush=True)
            reported = True
            time.sleep(AGAIN_S)
        if os.path.samestat(os.fstat(lock), (folder / LOCK).stat()):
            return lock
        os.close(lock)
    return None


def _signed(folder: Path) -> int | None:
    """The folder's lock with this process's number in it; None where another holds it."""
    lock = locked(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
    if lock is not None:
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
    return lock


@dataclass(frozen=True)
class Entry:
    """One finished chunk: where its samples stand, and what they were made of."""

    phonemes: str
    durations: tuple[int, ...]
    pause: int
    gain: float
    peak: float
    sha256: str
    offset: int  # samples before it in audio.f32
    edges: tuple[int, ...]

    @property
    def samples(self) -> int:
        """Without the pause."""
        return self.edges[-1]


class ResumeState:
    """Responsibilities: 1. keep what is finished; 2. give it back to the same text and settings
    only, checked by hash.
    """

    def __init__(self, folder: Path, entries: list[Entry], lock: int) -> None:
        self.folder, self.entries, self._lock = folder, entries, lock
        self.written, self._end, lines = len(entries), 0, []
        self._audio = (folder / AUDIO).open("r+b" if entries else "w+b")
        if entries:
            self._end = entries[-1].offset + entries[-1].samples
            text = (folder / CHUNKS).read_text(encoding="utf-8", errors="replace")
            lines = text.splitlines()[: self.written]
        # what stands behind the last whole chunk goes
        self._audio.truncate(self._end * BYTES)
        self._lines = (folder / CHUNKS).open("w", encoding="utf-8")
        self._lines.writelines(f"{line}\n" for line in lines)
        self._lines.flush()

    @classmethod
    def open(cls, folder: Path, settings: dict[str, Any], resume: bool) -> "ResumeState":
        """Begin anew, or with `resume` go on; waits for another process that writes there.

        Raises InputError when the kept chunks are of another text or other settings.
        """
        lock, new = held(folder, settings)
        try:
            if resume and not new:
                earlier = read_json(folder / SETTINGS, "it names what the kept chunks were made of")
                if not isinstance(earlier, dict):
                    raise InputError(f"{folder / SETTINGS} is damaged: start anew without --resume")
                for name in sorted({*earlier, *settings}):
                    if earlier.get(name) != settings.get(name):
                        raise InputError(
                            f"{folder} holds chunks of another {name}: start anew without"
                            " --resume, or give what it was made with"
                        )
                return cls(folder, read_entries(folder), lock)
            if not new:
                # before its settings: chunks are never beside those of another text
                for name in (CHUNKS, AUDIO):
                    (folder / name).unlink(missing_ok=True)
                write_json(folder / SETTINGS, settings)
            try:
                return cls(folder, [], lock)
            except BaseException:
                discard(folder)
                raise
        except BaseException:
            os.close(lock)
            raise

    def earlier(self, index: int, chunk: Chunk) -> Speech | None:
        """Chunk `index` of the earlier run, if it said the same and its samples are whole."""
        if index >= len(self.entries) or self.entries[index].phonemes != chunk.phonemes:
            return None
        entry = self.entries[index]
        self._audio.seek(entry.offset * BYTES)
        data = self._audio.read(entry.samples * BYTES)
        if hashlib.sha256(data).hexdigest() != entry.sha256:
            return None
        samples = np.frombuffer(data, "<f4")
        return Speech(
            index,
            chunk,
            entry.durations,
            samples,
            entry.pause,
            entry.gain,
            entry.peak,
            {},
            entry.edges,
        )

    def keep(self, speech: Speech) -> None:
        """Write a finished chunk: samples, then its line. One that came from here is left as it
        stands.
        """
        if speech.index < self.written:
            if not speech.seconds:
                return
            # from here on nothing is kept: the stored chunk was damaged and has been spoken anew
            self._end, self.written = self.entries[speech.index].offset, speech.index
            del self.entries[speech.index :]
            lines = (self.folder / CHUNKS).read_text(encoding="utf-8").splitlines(keepends=True)
            self._lines.seek(0)
            self._lines.truncate()
            self._lines.writelines(lines[: speech.index])
        data = speech.samples.astype("<f4").tobytes()
        self._audio.seek(self._end * BYTES)
        self._audio.write(data)
        self._audio.flush()
        line = {
            "phonemes": speech.chunk.phonemes,
            "durations": speech.durations,
            "pause": speech.pause,
            "gain": speech.gain,
            "peak": speech.peak,
            "sha256": hashlib.sha256(data).hexdigest(),
            "offset": self._end,
            "edges": speech.edges,
        }
        self._lines.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._lines.flush()
        self._end += len(speech.samples)
        self.written += 1

    def __enter__(self) -> "ResumeState":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._audio.close()
            self._lines.close()
        finally:
            os.close(self._lock)

    def remove(self) -> None:
        """The output is complete."""
        discard(self.folder)


def resume_state_of_ours(folder: Path) -> str | None:
    """Why a folder is no kept state, or None: for core.staging.check_output."""
    if not (folder / SETTINGS).is_file():
        return f"it holds no {SETTINGS} of an interrupted run"
    for path in (folder / name for name in FILES):
        if path.is_symlink() or (path.exists() and not path.is_file()):
            return f"its {path.name} is no file of an interrupted run"
    return strangers(folder, FILES)


def read_entries(folder: Path) -> list[Entry]:
    """Whole lines whose samples are there, up to the first that is not."""
    path, audio = folder / CHUNKS, folder / AUDIO
    entries: list[Entry] = []
    if not (path.is_file() and audio.is_file()):
        return entries
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            if "\ufffd" in line:
                break  # what was no UTF-8
            fields = parse_json(line, str(path))
            conform(fields, Entry, str(path))
            lists = {name: tuple(fields[name]) for name in ("durations", "edges")}
            entry = Entry(**fields | lists)
        except InputError:
            break
        if len(entry.edges) != len(entry.durations) + 1:
            break
        end = (entry.offset + entry.samples) * BYTES
        if (
            min(entry.offset, entry.pause, *entry.durations, *entry.edges) < 0
            or end > audio.stat().st_size
        ):
            break
        entries.append(entry)
    return entries
