"""A corpus of the user's own: lines in a file, which a checkpoint reads and speaks.

    lines = read_corpus(Path("lines.tsv"), checkpoint)
    clip = say(backend, checkpoint, lines[0])  # when its turn comes

The file is UTF-8 with tabs between three columns, named in its first line: voice (or blend), speed
(1 is the voice's own pace) and text. Ten thousand features would fill the memory, so that here
texts are only read, by the rules and networks of g2p.
"""

import hashlib
import sys
from pathlib import Path

from kokoro_ane.core import CORPUS, TUNING, Checkpoint, InputError, check_voice
from kokoro_ane.encoder import check_speed, encode_phonemes
from kokoro_ane.speech.corpus import SpokenLine, require_disjoint
from kokoro_ane.speech.speech import list_spoken_lines

COLUMNS = ["voice", "speed", "text"]
MOST_LINES = 10_000


def read_corpus(file: Path, checkpoint: Checkpoint) -> tuple[SpokenLine, ...]:
    """The lines of a file, each once. Their ids are made of voice, speed and text, so that figures
    of a line stay its own when lines move.

    Raises InputError with the number of the line: one that lacks a column, an unknown voice, a
    speed out of range, a text without words or too long for one utterance, or one that levels are
    tuned on; and for a file that cannot be read, or that holds no lines or too many.
    """
    from kokoro_g2p import phonemize, read_text, voice_language

    head, *rows = str(read_text(None, file, sys.stdin.buffer)).rstrip("\r\n").split("\n")
    if head.rstrip("\r").split("\t") != COLUMNS:
        raise InputError(f"{file} does not begin with the columns {', '.join(COLUMNS)} (tabs)")
    if not 1 <= len(rows) <= MOST_LINES:
        raise InputError(f"{file} holds {len(rows)} lines: give 1 to {MOST_LINES}")
    voices = checkpoint.voices
    lines: dict[str, SpokenLine] = {}
    # Line 1 holds the names of the columns.
    for number, row in enumerate(rows, 2):
        try:
            line = _read_line(row.rstrip("\r"))
            check_voice(line.voice, voices, str(checkpoint.folder / "voices"))
            phonemes = phonemize(line.text, voice_language(line.voice)).phonemes
            encode_phonemes(phonemes, checkpoint.config.vocab)
        except InputError as problem:
            raise InputError(f"{file}, line {number}: {problem}") from None
        # A line that stands twice is judged once.
        lines.setdefault(line.id, line._replace(phonemes=phonemes))
    chosen = tuple(lines.values())
    require_disjoint(list_spoken_lines(checkpoint, TUNING), chosen)
    return chosen


def _read_line(row: str) -> SpokenLine:
    """A line without its phonemes."""
    cells = row.split("\t")
    if len(cells) != len(COLUMNS):
        raise InputError(f"has {len(cells)} columns, not {len(COLUMNS)}")
    voice, speed, text = cells
    try:
        pace = float(speed)
    except ValueError:
        raise InputError(f"the speed {speed[:20]!r} is no number") from None
    check_speed(pace)
    # A speed of 1 and of 1.0 is the same line.
    digest = hashlib.sha256(f"{voice}\t{pace:g}\t{text}".encode()).hexdigest()
    return SpokenLine(f"{CORPUS}-{digest[:16]}", voice, text, "", pace)
