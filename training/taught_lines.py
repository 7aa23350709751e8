"""Lines that the predictor of the streaming layout is taught with (training/fit_statistics.py):
prose of Python's documentation, cut and joined anew, with words of the lexicon in it, in voices,
blends and speeds that are drawn. None of the texts is in a set that tunes or judges.

    for line in islice(draw_lines(checkpoint.voices, seed=0), 240): ...
"""

import gzip
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

WORDS = (4, 90)  # of a text: as many have 4 to 8 as have 8 to 16
ALTERED = 0.25  # of all lines
# Kind of alteration -> how often, least and greatest strength: of a whisper none, seconds that the
# longest vowel is held for, what is added to the energy (a logarithm), how often the only word is
# said.
ALTERATIONS = {
    "whispered": (0.35, 0.0, 0.0),
    "held": (0.35, 2.0, 6.0),
    "energy": (0.18, -4.0, 2.0),
    "repeated": (0.12, 8.0, 24.0),
}


@dataclass(frozen=True)
class TaughtLine:
    """A text to be spoken, altered by one of ALTERATIONS where it names one."""

    text: str
    voice: str
    speed: float
    alteration: str = ""
    strength: float = 0.0


def read_prose() -> list[str]:
    """The plain sentences of Python's documentation, sorted."""
    import pydoc_data.topics

    paragraphs = (
        " ".join(part.split())
        for topic in pydoc_data.topics.topics.values()
        for part in re.split(r"\n\s*\n", topic)
    )
    sentences = {
        sentence for paragraph in paragraphs for sentence in re.split(r"(?<=[.!?])\s+", paragraph)
    }
    # no code, no markup: letters and the signs of prose, at least three words
    return sorted(
        s
        for s in sentences
        if re.fullmatch(r"[A-Z][A-Za-z ,;:'\-]{14,260}[.!?]", s) and len(s.split()) >= 3
    )


def draw_lines(voices: tuple[str, ...], seed: int) -> Iterator[TaughtLine]:
    """Yield texts of WORDS words without end, ALTERED of them altered. Three in ten are whole
    sentences; the others are pieces of several, with a fifth of the words exchanged for words of
    the lexicon.
    """
    from kokoro_g2p import DATA

    rng = random.Random(seed)
    sentences = read_prose()
    with gzip.open(DATA / "cmudict.txt.gz", "rt", encoding="latin-1") as stream:
        spellings = [line.split()[0].lower() for line in stream]
    lexicon = [word for word in spellings if re.fullmatch("[a-z]{3,12}", word)]
    pieces = list(_cut_pieces(sentences, rng))
    shares = [share for share, *_ in ALTERATIONS.values()]
    while True:
        # as many of a length as of twice that
        count = round(np.exp(rng.uniform(*np.log(WORDS))))
        text = _draw_text(rng, sentences, pieces, lexicon, count)
        kind = ""
        strength = 0.0
        if rng.random() < ALTERED:
            kind = rng.choices(tuple(ALTERATIONS), shares)[0]
            strength = rng.uniform(*ALTERATIONS[kind][1:])
        if kind == "repeated":
            text = " ".join([rng.choice(lexicon)] * round(strength)) + "."
        speed = 1.0 if rng.random() < 0.6 else round(rng.uniform(0.6, 2.0), 2)
        yield TaughtLine(text, _draw_voice(rng, voices), speed, kind, strength)


def _cut_pieces(sentences: list[str], rng: random.Random) -> Iterator[str]:
    for sentence in sentences:
        words = sentence[:-1].split()
        while words:
            count = rng.randint(2, 7)
            yield " ".join(words[:count])
            words = words[count:]


def _draw_text(
    rng: random.Random, sentences: list[str], pieces: list[str], lexicon: list[str], count: int
) -> str:
    if rng.random() < 0.3:
        return _draw_sentences(rng, sentences, count)
    words: list[str] = []
    while len(words) < count:
        words += rng.choice(pieces).split()
        # punctuation at the seams, because it shapes prosody
        if rng.random() < 0.25:
            words[-1] = words[-1].rstrip(",;:") + rng.choice((",", ",", ";", ":", " -"))
    chosen = [rng.choice(lexicon) if rng.random() < 0.2 else word for word in words[:count]]
    text = " ".join(chosen).rstrip(",;:- ")
    return text[:1].upper() + text[1:] + rng.choice("....?!")


def _draw_sentences(rng: random.Random, sentences: list[str], count: int) -> str:
    """Unchanged sentences of about `count` words, at six characters each."""
    chosen: list[str] = []
    while sum(map(len, chosen)) < 6 * count:
        chosen.append(rng.choice(sentences))
    return " ".join(chosen)


def _draw_voice(rng: random.Random, voices: tuple[str, ...]) -> str:
    """One voice, or a blend of two or three."""
    count = min(len(voices), rng.choices((1, 2, 3), (0.55, 0.3, 0.15))[0])
    names = rng.sample(voices, count)
    return (
        names[0] if count == 1 else ",".join(f"{name}:{rng.random() + 0.05:.2f}" for name in names)
    )
