"""Books, news and mail as they are printed, and texts that are read the same however wide they are
wrapped.

    python -m reader_tests.printed

The lines are g2p/tests/data/printed_cases.tsv and printed_sealed.tsv, whose heads have the form.
Misses are printed of the first alone.
"""

import re
import textwrap
from collections import Counter
from functools import cache
from typing import NamedTuple

from kokoro_g2p import G2P
from reader_tests.names import rows


class Case(NamedTuple):
    """One line of a file."""

    kind: str
    dialect: str
    text: str
    wanted: str


def read_cases(name):
    """The cases of one file."""
    return [Case(row[0], row[1], row[2].replace("⏎", "\n"), row[3]) for row in rows(name)]


@cache
def reader(dialect):
    """The reader of a dialect or language, with all stages."""
    return G2P.load(dialect)


def said(dialect, text):
    """The spoken words in lower case, letters apart, `/` between sentences, and ` . ` where a line
    is heard inside one.
    """
    sentences = []
    for sentence in reader(dialect).sentences(text):
        words = []
        for word in sentence.words:
            if word.source in ("punctuation", "pause"):
                words += ["."] * (word.text == "\n" and word.phonemes == ".")
            elif word.source == "spelled" and word.spoken.rstrip("s'").isupper():
                words += re.sub(r"([A-Z])(?=[A-Z])", r"\1 ", word.spoken).split()
            else:
                words += re.sub(r"(?<=[a-z])(?=[A-Z])|[-‑]", " ", word.spoken).split()
        sentences.append(" ".join(words).lower())
    return " / ".join(sentences)


def is_right(case):
    """Whether a case is read as one of its readings, and how it is read."""
    check, _, rest = case.wanted.partition(" ")
    if check == "sounds":
        phonemes = reader(case.dialect).phonemize(case.text).phonemes
        return re.search(rest, phonemes.replace(" ", "")) is not None, phonemes
    if check == "same":
        phonemes = reader(case.dialect).phonemize(case.text).phonemes
        alike = [reader(case.dialect).phonemize(text).phonemes for text in rest.split(" | ")]
        return phonemes in alike, f"{phonemes} ({' | '.join(alike)})"
    reading = said(case.dialect, case.text)
    return reading in case.wanted.split(" | "), reading


def wrapped(text, width):
    """`text` as a mail program wraps it: broken at spaces alone."""
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def main():
    """Print the share of cases read right by kind, and what is read otherwise of those to mend."""
    for name in ("printed_cases", "printed_sealed"):
        cases = read_cases(name)
        answers = [(case, *is_right(case)) for case in cases]
        wrong = [(case, reading) for case, is_good, reading in answers if not is_good]
        print(f"{name}: {len(cases) - len(wrong)} of {len(cases)} right")
        if name == "printed_cases":
            print(*[f"{case}\n    {reading}" for case, reading in wrong], sep="\n")
        print("wrong:", dict(Counter(case.kind for case, _ in wrong)))


if __name__ == "__main__":
    main()
