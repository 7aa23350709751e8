"""Lines to read by Swift and by Python: prose, messages, names, numbers, markup, from a seed; none
is from outside this repository.
"""

import random
import re

from kokoro_ane.g2p.bundled import DATA
from kokoro_ane.pipeline.text_tables import MARKED
from tests.g2p.espeak import LANGUAGES, SENTENCES
from tests.g2p.lines import PATTERNS, filled, sentence
from tests.g2p.typed import FOLDER, read_lines, rows
from training.fit_statistics import WORDS
from training.fit_statistics import lines as prose


def lines(language, count, seed=0):
    """Each once, those with pauses and paces first. Half of what is not prose has other digits than
    it was written with.
    """
    rng, said, found = (
        random.Random(f"{language}{seed}"),
        prose(("af_heart",), seed, WORDS, 0.0),
        dict.fromkeys(MARKED),
    )
    pieces = [row[3] for row in rows("normalize_cases") if row[2] == language]
    pieces += [line.text for line in read_lines() if line.dialect == language] + list(MARKED[:-1])
    own = LANGUAGES[language].name if language in LANGUAGES else ""
    pieces += [
        row[-1]
        for path in sorted(FOLDER.glob("heteronyms_*.tsv"))
        for row in rows(path.stem)[1:]
        if not own
    ]
    for path in sorted(SENTENCES.glob(f"{own}*.txt")) if own else ():
        pieces += path.read_text(encoding="utf-8").splitlines()
    words = (
        re.findall(r"[^\W\d_]{2,}", (DATA / f"{own}.json").read_text(encoding="utf-8"))
        if own
        else [row[2] for row in rows("names")]
    )
    while len(found) < count:
        kind = rng.random()
        if kind < 0.7:
            text = (
                next(said).text
                if kind < 0.4 and not own
                else " ".join(rng.choices(pieces, k=rng.randint(1, 3)))
            )
        elif kind < 0.85 or own:
            made = (
                filled(rng.choice(PATTERNS), rng) if rng.random() < 0.2 else rng.choice(words)
                for _ in range(rng.randint(2, 12))
            )
            text = rng.choice((" ", " ", ", ")).join(made) + rng.choice(".?!")
        else:
            text = sentence(rng)
        changed = (
            re.sub(r"\d", lambda _: str(rng.randrange(10)), text) if rng.random() < 0.5 else text
        )
        found[changed.encode("utf-8", "ignore").decode()] = None
    return list(found)
