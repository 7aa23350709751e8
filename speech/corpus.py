"""The frozen texts and utterances that levels are tuned and judged on.

    for line in read_speech_lines("judged"): print(line.speed, line.text)
    utterance = load(DATA / "check_speech.npz")

core/data/speech holds sets of texts that a checkpoint speaks with its own encoder
(speech/speech.py). By `settling` voices are settled, `tuning` is for ranges, recipes and limits,
`judged` and `second` for verdicts only, with other texts and voices. `voices` has lines of voices
that no tuning saw, in their own languages, which judge where a checkpoint holds them. `third` was
written without sight of any result, and decides nothing.
core/data/check_speech.npz is a sentence spoken by flite, with which builds are checked;
tests/data/demo-voice has more of that kind.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kokoro_ane.core import PROSODY_PER_FRAME, InputError, read_npz

DATA = Path(__file__).resolve().parents[1] / "core" / "data"
FRAMES_OF_A_PHONEME = 2.8  # on average over the judged set on real Kokoro
SETTLING = "settling"  # eight sentences, by which voices are settled (speech/settling.py)


class Line(NamedTuple):
    """A text to be spoken: its speed (1 is the voice's normal one), its phonemes for American and
    for British voices, and the text itself. voice: where one line is one voice's, in its language.
    """

    speed: float
    phonemes_us: str
    phonemes_gb: str
    text: str
    voice: str = ""


class SpokenLine(NamedTuple):
    """A line of a set in the dialect of the voice that speaks it. With its features it is an
    Utterance.
    """

    id: str
    voice: str
    text: str
    phonemes: str
    speed: float = 1.0

    @property
    def frames(self) -> int:
        """About how many it will last: by these, lines are ordered and the time left is told."""
        return round(len(self.phonemes) * FRAMES_OF_A_PHONEME / self.speed)


@dataclass(frozen=True, eq=False)
class Utterance:
    """A sentence with what the vocoder's inputs are made from. F = sum(durations)."""

    id: str
    voice: str
    text: str
    phonemes: str
    input_ids: np.ndarray  # [T] int32, upstream's: 0, phonemes, 0
    durations: np.ndarray  # [T] int32, frames
    f0_hz: np.ndarray  # [2F] float32, 0 where unvoiced
    energy: np.ndarray  # [2F] float32, ln of the mel spectrum's norm
    speed: float = 1.0  # at which the durations were predicted

    @property
    def frames(self) -> int:
        """F: 40 a second."""
        return int(self.durations.sum())


# of a set, with its features, or of a corpus, which are made when its turn comes
Clip: TypeAlias = Utterance | SpokenLine


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text as they are said, lower case: numbers and abbreviations spelled out, a
    hyphen parts words.
    """
    from kokoro_g2p import normalize

    spoken = " ".join(token.text for token in normalize(text).tokens if token.kind != "punctuation")
    return tuple(re.findall(r"[a-z']+", spoken.lower()))


def cut_within(clip: Utterance, frames: float) -> Utterance:
    """The clip, or as many of its first words as last at most `frames` with its closing token. The
    text stays whole: word errors are compared, not counted.

    Raises InputError where not even the first word fits.
    """
    if clip.frames <= frames:
        return clip
    closing = int(clip.durations[-1])
    ends = np.cumsum(clip.durations)
    # token i + 1 is phoneme i: the token before a space is the last one of a word
    fitting = [
        place
        for place, symbol in enumerate(clip.phonemes)
        if symbol == " " and ends[place] + closing <= frames
    ]
    if not fitting:
        raise InputError(f"{clip.id}: no word of it fits {frames:g} frames")
    words = fitting[-1]

    def keep_ends(values: np.ndarray, first: int, last: int) -> np.ndarray:
        # What is in front, and the closing token's share at the end.
        return np.concatenate([values[:first], values[len(values) - last :]])

    columns = PROSODY_PER_FRAME * int(ends[words]), PROSODY_PER_FRAME * closing
    return replace(
        clip,
        id=f"{clip.id}-within-{frames:g}",
        phonemes=clip.phonemes[:words],
        input_ids=keep_ends(clip.input_ids, words + 1, 1),
        durations=keep_ends(clip.durations, words + 1, 1),
        f0_hz=keep_ends(clip.f0_hz, *columns),
        energy=keep_ends(clip.energy, *columns),
    )


def read_unseen_sentences() -> list[str]:
    """102 sentences to listen to; nothing is tuned or gated on them."""
    return (DATA / "unseen.txt").read_text(encoding="utf-8").splitlines()


def locate_speech(name: str) -> Path:
    """Where the texts of a set are."""
    return DATA / "speech" / f"{name}.tsv"


def read_speech_lines(name: str) -> list[Line]:
    """The frozen lines of a set, in order."""
    head, *rows = locate_speech(name).read_text(encoding="utf-8").splitlines()
    columns = [dict(zip(head.split("\t"), row.split("\t"), strict=True)) for row in rows]
    # Voices of one language need one column of phonemes.
    return [
        Line(
            float(row["speed"]),
            row.get("phonemes_us") or row["phonemes"],
            row.get("phonemes_gb") or row["phonemes"],
            row["text"],
            row.get("voice", ""),
        )
        for row in columns
    ]


def require_disjoint(tuned: Iterable[Clip], judged: Iterable[Clip]) -> None:
    """Raise InputError when an utterance of `tuned` has the text or the phonemes of one that is
    judged.
    """
    judged_ids: dict[str, str] = {}
    # By text and by phonemes: two spellings may sound alike.
    for other in judged:
        judged_ids |= {letters(other.text): other.id, other.phonemes: other.id}
    for utterance in tuned:
        for key in (letters(utterance.text), utterance.phonemes):
            if key in judged_ids:
                raise InputError(
                    f"{utterance.id} is tuned on and is also judged, as {judged_ids[key]}:"
                    f" {utterance.text!r}; tune on other text"
                )


def letters(text: str) -> str:
    """The letters and digits of a text in lower case: two texts with equal ones are the same."""
    return "".join(letter for letter in text.lower() if letter.isalnum())


def load(file: Path) -> Utterance:
    """An utterance from its .npz."""
    texts = ("id", "voice", "text", "phonemes")
    fields: dict[str, Any] = read_npz(
        file, names=("input_ids", "durations", "f0_hz", "energy", *texts)
    )
    # Texts stand in the file as arrays without a dimension.
    return Utterance(**fields | {name: str(fields[name]) for name in texts})
