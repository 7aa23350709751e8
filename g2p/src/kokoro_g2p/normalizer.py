"""Written text to spoken words: numbers, dates, money, web addresses, abbreviations said as people
say them; nothing lost in silence.

    normalize("Dr. Smith paid $3.50 on 3/15/2026.")
    normalize("Dr Smith paid £3.50 on 15/3/2026.", dialect="gb")

The rows of g2p/data/grammar say how (g2p/grammar). A `letters` token holds capitals (`FBI`) and
perhaps `s` or `'s` at its end (`CDs`, `FBI's`): that is the ending's sound, not a letter. Words
keep the case and the accents of the text (NFC); spoken words (`twenty`, `dollars`) are lower case,
names of months capitalized.
"""

from collections.abc import Callable

from kokoro_g2p.grammar.load import grammar_of
from kokoro_g2p.result import US, Dialect, Normalized


def normalize(
    text: str, *, dialect: Dialect = US, known: Callable[[str], bool] | None = None
) -> Normalized:
    """Spoken tokens of `text` in order, and what was left out, counted by category. Never raises on
    any text; linear time.

    `known`: whether a lexicon lists a mixed-case string (iPhone) whole; such a one is not split.
    """
    return grammar_of(dialect).normalize(text, known)
