"""The frozen texts and utterances that levels are tuned and judged on.

    for line in speech_lines("judged"): print(line.speed, line.text)
    utterance = load(DATA / "check_speech.npz")

core/data/speech: texts that a checkpoint speaks with its own encoder (quantize/speech.py). tuning:
for ranges, recipes, limits. judged: for verdicts only. second: other texts and voices, to see
whether the verdicts agree. core/data/check_speech.npz is a sentence of flite's, with which builds
are checked; tests/data/demo-voice has more of that kind.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kokoro_ane.core.errors import InputError
from kokoro_ane.core.tensor_files import read_npz

DATA = Path(__file__).resolve().parents[1] / "core" / "data"


class Line(NamedTuple):
    """A text to be spoken: speed (1 = the voice's own), phonemes for American and for British
    voices, the text.
    """

    speed: float
    phonemes_us: str
    phonemes_gb: str
    text: str


@dataclass(frozen=True, eq=False)
class Utterance:
    """A sentence as the vocoder is given it. F = sum(durations)."""

    id: str
    voice: str
    text: str
    phonemes: str
    input_ids: np.ndarray  # [T] int32, upstream's: 0, phonemes, 0
    durations: np.ndarray  # [T] int32, frames
    f0_hz: np.ndarray  # [2F] float32, 0 where unvoiced
    energy: np.ndarray  # [2F] float32, ln of the mel spectrum's norm
    speed: float = 1.0  # that the durations were found at

    @property
    def frames(self) -> int:
        """F: 40 a second."""
        return int(self.durations.sum())


def unseen_sentences() -> list[str]:
    """102 sentences to listen to; nothing is tuned or gated on them."""
    return (DATA / "unseen.txt").read_text(encoding="utf-8").splitlines()


def speech_file(name: str) -> Path:
    """Where the texts of "tuning", "judged" or "second" are."""
    return DATA / "speech" / f"{name}.tsv"


def speech_lines(name: str) -> list[Line]:
    """The frozen lines of a set, in order, with the phonemes of both dialects."""
    _, *rows = speech_file(name).read_text(encoding="utf-8").splitlines()
    return [
        Line(float(speed), us, gb, text)
        for speed, us, gb, text in (row.split("\t") for row in rows)
    ]


def require_disjoint(tuned: Iterable[Utterance], judged: Iterable[Utterance]) -> None:
    """Raise InputError when something is tuned on that is also judged, by text or by phonemes."""
    judged_ids = {letters(other.text): other.id for other in judged} | {
        other.phonemes: other.id for other in judged
    }
    for utterance in tuned:
        for key in (letters(utterance.text), utterance.phonemes):
            if key in judged_ids:
                raise InputError(
                    f"{utterance.id} is tuned on and is also judged, as {judged_ids[key]}:"
                    f" {utterance.text!r}; tune on other text"
                )


def letters(text: str) -> str:
    """What makes a text this one: its letters and digits, in lower case."""
    return "".join(letter for letter in text.lower() if letter.isalnum())


def load(file: Path) -> Utterance:
    """An utterance from its .npz."""
    texts = ("id", "voice", "text", "phonemes")
    fields: dict[str, Any] = read_npz(
        file, names=("input_ids", "durations", "f0_hz", "energy", *texts)
    )
    return Utterance(**fields | {name: str(fields[name]) for name in texts})
