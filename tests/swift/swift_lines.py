"""Lines to read by Swift and by Python: prose, messages, names, numbers, markup, from a seed; none
is from outside this repository.
"""

import random
import re

from kokoro_g2p.bundled import DATA
from kokoro_g2p.languages.scripts import SCRIPTS  # and the names of their folders
from kokoro_g2p.port.text_tables import MARKED
from reader_tests.espeak import LANGUAGES, SENTENCES
from reader_tests.lines import PATTERNS, filled, sentence
from reader_tests.typed import FOLDER, read_lines, rows
from training.taught_lines import draw_lines as prose


def lines(language, count, seed=0):
    """Distinct lines, those with pauses and paces first. Half have other digits than they were
    written with.
    """
    rng = random.Random(f"{language}{seed}")
    names = {code: one.name for code, one in LANGUAGES.items()} | dict(SCRIPTS)
    is_foreign = language in names
    pieces, words = sources(language, names.get(language, ""))
    english, texts = prose(("af_heart",), seed), dict.fromkeys(MARKED)
    while len(texts) < count:
        kind = rng.random()
        if kind < 0.4 and not is_foreign:
            text = next(line.text for line in english if not line.alteration)
        elif kind < 0.7:
            text = " ".join(rng.choices(pieces, k=rng.randint(1, 3)))
        elif kind < 0.85 or is_foreign:
            length, separator = rng.randint(2, 12), rng.choice((" ", " ", ", "))
            parts = [
                filled(rng.choice(PATTERNS), rng) if rng.random() < 0.2 else rng.choice(words)
                for _ in range(length)
            ]
            text = separator.join(parts) + rng.choice(".?!")
        else:
            text = sentence(rng)
        if rng.random() < 0.5:
            text = re.sub(r"\d", lambda _: str(rng.randrange(10)), text)
        texts[text.encode("utf-8", "ignore").decode()] = None
    return list(texts)


def sources(language, name):
    """The written lines of a language, and its words. name: of its files, "" for English."""
    pieces = [row[3] for row in rows("normalize_cases") if row[2] == language]
    pieces += [line.text for line in read_lines() if line.dialect == language] + list(MARKED[:-1])
    if not name:
        for path in sorted(FOLDER.glob("heteronyms_*.tsv")):
            pieces += [row[-1] for row in rows(path.stem)[1:]]
        return pieces, [row[2] for row in rows("names")]
    for path in sorted((SENTENCES.parent / name).glob("*")):
        rows_of_file = path.read_text(encoding="utf-8").splitlines()
        # a register, a sentence, syllables; or a text and what is said
        pieces += [row.split("\t")[row.count("\t") > 1] for row in rows_of_file]
    for path in sorted(SENTENCES.glob(f"{name}*.txt")):
        pieces += path.read_text(encoding="utf-8").splitlines()
    return pieces, re.findall(r"[^\W\d_]{2,}", (DATA / f"{name}.json").read_text(encoding="utf-8"))
