"""What people type, by class: messages, identifiers, dates, heteronyms in fragments, names; in a
half to look at and one only counted.

    # --misses prints the tuning half's, never the judged half's
    python -m reader_tests.typed [--misses]

The lines are g2p/tests/data/typed*.tsv, written before the first run; `judged_hash` names their
judged half; typed.tsv's head has the form. Those of typed_batches.tsv were mended against: cases
that stay right.
"""

import argparse
import json
import re
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

from kokoro_g2p import G2P
from kokoro_g2p.languages.language import LANGUAGES
from kokoro_g2p.lexicon import Lexicon
from kokoro_g2p.normalizer import normalize
from kokoro_g2p.splitting import cut_sentences
from reader_tests.names import alike, rows

FOLDER = Path(__file__).resolve().parents[1] / "data"
PAUSES = frozenset(".,;:!?—…")
_ENGLISH, _SPANISH, _ITALIAN = (
    "zero|oh|one|two|three|four|five|six|seven|eight|nine",
    "cero|uno|dos|tres|cuatro|cinco",
    "due|tre|quattro",
)
DIGITS = f"{_ENGLISH}|{_SPANISH}|seis|siete|ocho|nueve|{_ITALIAN}|cinque|sei|sette|otto|nove"
LATER = ("last", "newest", "unseen", "final", "sealed")
FILES = ("typed", *(f"typed_{later}" for later in LATER), "typed_batches")
UNHEARD = str.maketrans("", "", "ˌ")


@dataclass(frozen=True)
class Line:
    """One line of one file: `wanted` is a reading, a sound, or accepted pronunciations, as the
    class has it.
    """

    group: str
    dialect: str
    text: str
    # the judged hashes are of the repr, so this name stays
    wanted: str
    word: str = ""

    @property
    def judged(self):
        """Whether this line is only counted."""
        return (
            int(sha256(self.text.encode()).hexdigest(), 16) % 2 == 1 and "batch" not in self.group
        )


def read_lines():
    """All lines of the files."""
    for group, dialect, text, reading, *word in (row for name in FILES for row in rows(name)):
        yield Line(group, dialect, text.replace("⏎", "\n").replace("⇥", "\t"), reading, *word)


def judged_hash(later=""):
    """SHA-256 of the judged lines, which stay as they were written; `later`: one of LATER, of that
    file.
    """
    lines = (
        line
        for line in read_lines()
        if line.judged and ({*line.group.split()} & {*LATER} or {""}) == {later}
    )
    return sha256("\n".join(map(repr, lines)).encode()).hexdigest()


def spoken(tokens):
    """Tokens as one line: words lower, letters apart in capitals, a slash for a pause; none at the
    end.
    """
    pieces = []
    for token in tokens:
        if token.kind == "letters":
            pieces += re.sub(
                r"([^\W\d_])(?=[^\W\d_'])", r"\1 ", re.sub(r"(?<=[A-Z])s$", "'s", token.text)
            ).split()
        elif token.kind == "word":
            pieces += re.sub(r"(?<=[a-z])(?=[A-Z])|-", " ", token.text).lower().split()
        elif token.text in PAUSES and pieces and pieces[-1] != "/":
            pieces.append("/")
    return "".join(f"{piece} " for piece in (pieces[:-1] if pieces[-1:] == ["/"] else pieces))


def pattern(reading):
    """A reading as a pattern of `spoken` lines."""
    whole = [
        "".join(
            re.sub(r"[^\s()|?]+", lambda word: re.escape(word[0].lower()) + r"\x20", part).split()
        )
        for part in reading.split(" || ")
    ]
    return re.compile("|".join(f"(?:{part})" for part in whole))


@cache
def reader():
    """The American reader."""
    return G2P.load("us")


def answer(line):
    """Whether a line is read as expected, and how it is read."""
    if line.group.startswith("name"):
        phonemes = reader().phonemize(line.text).phonemes
        return any(alike(phonemes, form) for form in line.wanted.split()), phonemes
    if line.group.startswith("phrase"):  # the words of the name alone
        text = line.text.replace(f"{line.word}'s", line.word)
        start, end = text.index(line.word), text.index(line.word) + len(line.word)
        phonemes = "".join(
            word.phonemes
            for word in reader().phonemize(text).words
            if start <= word.start and word.end <= end
        )
        return any(alike(phonemes, form) for form in line.wanted.split()), phonemes
    if line.group.startswith("fragment"):
        sounds = [
            word.phonemes
            for word in reader().phonemize(line.text).words
            if line.word in word.text.lower().split("-")
        ]
        return any(
            line.wanted.translate(UNHEARD) in sound.translate(UNHEARD) for sound in sounds
        ), " ".join(sounds)
    reading = re.sub(
        r"/( /)+", "/", " / ".join(spoken(sentence.tokens).strip() for sentence in normalized(line))
    ).strip("/ ")
    # digits may be said in groups
    forms = (reading, re.sub(rf"\b({DIGITS}) /(?= (?:{DIGITS})\b)", r"\1", reading))
    return any(pattern(line.wanted).fullmatch(f"{form.lower()} ") for form in forms), reading


@cache
def english():
    """The normalizer as G2P calls it."""
    return partial(normalize, known=Lexicon.load("us").has_word)


def normalized(line):
    """The tokens of each sentence."""
    read = english() if line.dialect in ("us", "gb") else LANGUAGES[line.dialect].normalize
    for _, sentence in cut_sentences(line.text):
        yield read(sentence, dialect=line.dialect)


def main(argv=None):
    """The counts by class and half."""
    parser = argparse.ArgumentParser(prog="reader_tests.typed", description=__doc__.splitlines()[0])
    parser.add_argument("--misses", action="store_true", help="print the tuning half's misses")
    arguments = parser.parse_args(argv)
    figures = {}
    for line in read_lines():
        good, reading = answer(line)
        for key in (f"{line.group} {'judged' if line.judged else 'tuning'}", f"{line.group} all"):
            counts = figures.setdefault(key, [0, 0])
            counts[0], counts[1] = counts[0] + good, counts[1] + 1
        if arguments.misses and not good and not line.judged:
            print(f"{line.group}: {line.text!r}\n  expected {line.wanted}\n  read     {reading}")
    for key, (good, count) in sorted(figures.items()):
        print(f"{key}: {good} of {count}, {100 * good / count:.1f} %")
    print(json.dumps({"judged_sha256": judged_hash(), **figures}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
