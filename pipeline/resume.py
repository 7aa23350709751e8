"""Finished chunks of a long run, kept beside the output until it is complete, so that an
interrupted run can go on.

    with resume_state(Path("book.wav.parts"), settings) as state:
        for speech in pipeline.speak(text, voice, options, state.earlier): state.keep(speech)

OUT.parts/ holds settings.json (hashes of text, voice and models, speed, seed), one NUMBER.npz for
each chunk, and owner.lock (one process at a time). A chunk whose file a crash cut short or damaged
is spoken again: the zip format has the file's length and a checksum.
"""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_ane.core import (
    LOCK,
    InputError,
    check_implied,
    claim,
    discard,
    json_text,
    read_json,
    read_npz,
    strangers,
)
from kokoro_ane.pipeline.synthesis import Speech
from kokoro_g2p import Chunk

KEPT_SUFFIX = ".parts"  # of a folder beside an output that is not finished
SETTINGS = "settings.json"
CHUNK_FILE = re.compile(r"\d{6,}\.npz")
FIELDS = ("phonemes", "durations", "edges", "samples", "pause", "gain", "peak")


def name_parts(out: Path) -> Path:
    """Where finished chunks are kept until the output is complete."""
    return out.with_name(out.name + KEPT_SUFFIX)


@dataclass(frozen=True)
class ResumeState:
    """The kept chunks of a text that is spoken with certain settings."""

    folder: Path

    @property
    def chunk_files(self) -> list[Path]:
        """The files of the chunks, in order."""
        return sorted(path for path in self.folder.glob("*.npz") if CHUNK_FILE.fullmatch(path.name))

    def file(self, index: int) -> Path:
        """The file of chunk `index`."""
        return self.folder / f"{index:06}.npz"

    def earlier(self, index: int, chunk: Chunk) -> Speech | None:
        """Chunk `index` of the earlier run, if it has the same phonemes and its file is whole."""
        # A file that is missing or damaged is a chunk to be spoken again.
        with suppress(InputError):
            fields = read_npz(self.file(index), names=FIELDS)
            if str(fields["phonemes"]) == chunk.phonemes:
                return Speech(
                    index,
                    chunk,
                    tuple(fields["durations"].tolist()),
                    tuple(fields["edges"].tolist()),
                    fields["samples"],
                    int(fields["pause"]),
                    float(fields["gain"]),
                    float(fields["peak"]),
                    seconds={},
                )
        return None

    def keep(self, speech: Speech) -> None:
        """Write a finished chunk; one of the earlier run stands there already."""
        # Only what was spoken just now has times.
        if speech.seconds:
            fields = {name: getattr(speech, name) for name in FIELDS[1:]}
            path = self.file(speech.index)
            try:
                np.savez(path, phonemes=speech.chunk.phonemes, **fields)
            except BaseException:
                # what has no room, or was interrupted, is no finished chunk
                path.unlink(missing_ok=True)
                raise

    def begin(self, settings: dict[str, Any], fresh: bool) -> None:
        """Keep what an earlier run left, and say so; with `fresh` remove it. Raises InputError
        where it was made with other settings.
        """
        path = self.folder / SETTINGS
        count = len(self.chunk_files)
        if fresh or not count:
            # before the new settings: chunks never stand beside those of another text
            for file in self.chunk_files:
                file.unlink()
            path.write_text(json_text(settings), encoding="utf-8")
            return
        earlier = read_json(path, "it names what the kept chunks were made of")
        if not isinstance(earlier, dict):
            raise InputError(f"{path} is damaged: --fresh discards the chunks beside it")
        # Names of both sides, because a setting may be new or gone.
        for name in sorted({*earlier, *settings}):
            if earlier.get(name) != settings.get(name):
                raise InputError(
                    f"{self.folder} holds {count} finished chunks of another {name}: give what they"
                    " were made with, or --fresh, which discards them"
                )
        print(
            f"{count} finished chunks of an earlier run are kept ({self.folder}); --fresh discards"
            " them",
            file=sys.stderr,
        )


@contextmanager
def resume_state(
    folder: Path, settings: dict[str, Any], fresh: bool = False
) -> Iterator[ResumeState]:
    """The chunks kept in `folder`, for one process at a time. The folder is removed when all went
    well; else its chunks stay, and a line on stderr says how to go on.

    Raises InputError for a folder that no `speak` wrote, and where the kept chunks are of another
    text or of other settings.
    """
    check_implied(folder, explain_foreign_state)
    lock = claim(folder)
    try:
        state = ResumeState(folder)
        begun = False
        complete = False
        try:
            state.begin(settings, fresh)
            begun = True
            yield state
            complete = True
        finally:
            count = len(state.chunk_files)
            # Without chunks there is nothing to go on with.
            if complete or not count:
                discard(folder)
            elif begun:
                print(
                    f"{count} finished chunks are kept in {folder}: the same command goes on",
                    file=sys.stderr,
                )
    finally:
        os.close(lock)


def explain_foreign_state(folder: Path) -> str | None:
    """Why a folder is no kept state, or None: for core.staging.check_output. A process that was
    killed before it wrote the settings leaves the lock alone.
    """
    # By pattern: a user's own .npz is a stranger here.
    chunks = [path.name for path in ResumeState(folder).chunk_files]
    names = [SETTINGS, LOCK, *chunks] if (folder / SETTINGS).exists() else [LOCK]
    for path in (folder / name for name in names):
        if path.is_symlink() or (path.exists() and not path.is_file()):
            return f"its {path.name} is no file of an interrupted run"
    return strangers(folder, names)
