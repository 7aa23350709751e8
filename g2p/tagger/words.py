"""Written text to words and marks, as training and tests need it; the normalizer does this for the user's text.

.venv/bin/python -c 'from g2p.tagger.words import split_words; print(split_words("They live, don\\'t they?"))'
"""

import re

WORD = re.compile(r"[A-Za-z0-9]+(?:[-'.][A-Za-z0-9]+)*|[^\sA-Za-z0-9]")


def split_words(text: str) -> tuple[str, ...]:
    """Words (with inner hyphens and apostrophes) and single marks, in order."""
    return tuple(WORD.findall(text))


def word_set(text: str) -> frozenset[str]:
    """The words of a list written as text."""
    return frozenset(text.split())


def nth(words: tuple[str, ...], word: str, occurrence: int) -> int:
    """Index of the occurrence-th (from 0) `word`, case ignored. Raises ValueError when there is none."""
    places = [index for index, found in enumerate(words) if found.lower() == word]
    if occurrence >= len(places):
        raise ValueError(f"{word!r} stands {len(places)} times in the sentence, not {occurrence + 1}")
    return places[occurrence]
