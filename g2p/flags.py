"""How a number is read, as misaki's number flags ask: `[1,001](#&#)` one thousand and one, `[100](#a#)` a hundred.

    tokens = with_flags(tokens, marked.overrides)

`&` puts "and" before the last two digits, `n` the same as a short "ən" on the word before, `a` says "a" for a leading "one". Only words of
the flagged span change (misaki/en.py, extend_num).
"""

from collections.abc import Sequence
from dataclasses import replace

from g2p.normalize.number_words import ONES, SCALES, TENS
from g2p.overrides import Override
from g2p.result import Kind, Token

_SMALL = frozenset((*ONES[1:], *TENS[2:]))
_SCALES = frozenset(("hundred", *SCALES[1:]))
REDUCED_AND = "ən"


def with_flags(tokens: Sequence[Token], overrides: Sequence[Override]) -> tuple[Token, ...]:
    """`tokens` with the flags of each override applied to the number words of its span."""
    for override in overrides:
        if override.flags:
            inside = [token for token in tokens if override.start <= token.start < override.end]
            if inside:
                first = tokens.index(inside[0])
                tokens = (*tokens[:first], *_flagged(inside, override.flags), *tokens[first + len(inside) :])
    return tuple(tokens)


def _flagged(tokens: list[Token], flags: str) -> list[Token]:
    if "a" in flags and len(tokens) > 1 and tokens[0].text == "one" and tokens[1].text in _SCALES:
        tokens = [replace(tokens[0], text="a"), *tokens[1:]]
    place = _and_place(tokens) if "&" in flags or "n" in flags else None
    if place is None:
        return tokens
    kind: Kind = "word" if "&" in flags else "override"
    before = tokens[place - 1]
    return [
        *tokens[: place - 1],
        replace(before, space=kind == "word"),
        replace(before, text="and", kind=kind, space=True),
        *tokens[place:],
    ]


def _and_place(tokens: list[Token]) -> int | None:
    """Where "and" belongs: behind the last hundred, thousand ... when one or two words below a hundred end the number."""
    scales = [place for place, token in enumerate(tokens) if token.text in _SCALES]
    tail = tokens[scales[-1] + 1 :] if scales else []
    return scales[-1] + 1 if 0 < len(tail) <= 2 and all(token.text in _SMALL for token in tail) else None
