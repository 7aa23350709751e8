"""Written text to spoken words: numbers, dates, money, web addresses, abbreviations said as people
say them; nothing lost in silence.

    from kokoro_ane.g2p.normalize import normalize
    normalize("Dr. Smith paid $3.50 on 3/15/2026.")
    normalize("Dr Smith paid £3.50 on 15/3/2026.", dialect="gb")

Stages: characters.py (one form for quotes, dashes, accents), scan.py (tokens, with the handlers of
the other files), offsets back. A `letters` token holds capitals (`FBI`) and perhaps `s` or `'s` at
its end (`CDs`, `FBI's`): that is the ending's sound, not a letter. Words keep the case and the
accents of the text (NFC); spoken words (`twenty`, `dollars`) are lower case, names of months
capitalized.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator

from kokoro_ane.g2p.normalize.characters import Cleaned, clean
from kokoro_ane.g2p.normalize.lines import BREAK, with_breaks
from kokoro_ane.g2p.normalize.scan import run
from kokoro_ane.g2p.normalize.state import Drop, Scan
from kokoro_ane.g2p.result import US, Dialect, Normalized, Token

__all__ = ["analyse", "normalize"]


SPOKEN = ("word", "letters")
NUMERO = re.compile(r"\b[Nn][º°](?=\s?\d)")
Known = Callable[[str], bool] | None


def tokens_of(state: Scan, cleaned: Cleaned) -> Iterator[Token]:
    """The scan's tokens with offsets of the original; two spoken ones that touch (5pm, 10–15) are
    said apart.
    """
    text, raw = state.text, state.tokens
    before = (0, 0)
    for (word, start, end, kind, space), after in zip(
        raw, [*(token[3] for token in raw[1:]), "punctuation"], strict=False
    ):
        if space is None or (space and kind in SPOKEN and after == "punctuation"):
            space = (
                text[end : end + 1].isspace()
                and text[end] != BREAK
                or (kind in SPOKEN and after in SPOKEN)
            )
        if cleaned.starts is None:
            yield Token(word, start, end, kind, space)
            continue
        first, last = cleaned.span(start, end)
        # both began inside one character (¹¼): the later one takes what is left, or the same span
        if first < before[1]:
            first, last = (before[1], last) if last > before[1] else before
        before = (first, last)
        yield Token(word, first, last, kind, space)


def analyse(
    text: str, *, dialect: Dialect = US, known: Known = None
) -> tuple[tuple[Token, ...], list[Drop]]:
    """Tokens, and each drop with its offsets: (start, end, category), in order."""
    cleaned = clean(NUMERO.sub("№ ", text) if "º" in text or "°" in text else text)
    state = Scan(with_breaks(cleaned.text), dialect, known=known)
    run(state)
    drops = cleaned.drops + [(*cleaned.span(start, end), why) for start, end, why in state.drops]
    return tuple(tokens_of(state, cleaned)), sorted(drops)


def normalize(text: str, *, dialect: Dialect = US, known: Known = None) -> Normalized:
    """Spoken tokens of `text` in order, and what was left out, counted by category. Never raises on
    any text; linear time.

    `known`: whether a lexicon lists a mixed-case string (iPhone) whole; such a one is not split.
    """
    from kokoro_ane.g2p.grammar import grammar_of

    return grammar_of(dialect).normalize(text, known)
