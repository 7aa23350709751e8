"""Pieces of a text as the walk leaves them, and the tokens that they become.

make_tokens([SpokenPiece(0, 3, "five [PM]", "time", "us.tsv:120")], clean("5pm"))
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from kokoro_g2p.characters import BREAK, Cleaned
from kokoro_g2p.result import Kind, Normalized, Token

# Letters in brackets with their 's, a mark, or a word; spaces and hyphens part words.
SPOKEN = re.compile(r"\[([^\]]*)\]('?s)?|([;:,.!?—…\"()“”])|([^\s;:,.!?—…\"()“”\[\]-]+)")
SAID = ("word", "letters")


@dataclass(slots=True)
class SpokenPiece:
    """text[start:end] of the cleaned text as words; `kind` is its class (empty: a word or mark as
    it stands), `source` names the row that decided.
    """

    start: int
    end: int
    words: str
    kind: str = ""
    source: str = ""


def is_override(character: str) -> bool:
    """Whether a caller's placeholder stands there (result.py)."""
    return "\ue000" <= character <= "\uf8ff"


def split_spoken(words: str) -> Iterator[tuple[str, Kind]]:
    """Spoken words one by one: `[FBI]` are letters, marks stand alone, hyphens part words."""
    for match in SPOKEN.finditer(words):
        if match[1] is not None:
            yield match[1] + (match[2] or ""), "letters"
        elif match[3]:
            yield match[3], "punctuation"
        elif is_override(match[4]):
            yield match[4], "override"
        else:
            # A non-breaking hyphen kept the word whole, and is a plain one from here on.
            yield match[4].replace("‑", "-"), "word"


def build_normalized(pieces: list[SpokenPiece], cleaned: Cleaned) -> Normalized:
    """The tokens of `pieces` of a cleaned text, and what was left out."""
    # Line ends are silent too, but nothing that a reader would miss.
    drops = cleaned.drops + [
        (*cleaned.find_span(piece.start, piece.end), piece.kind or "symbol")
        for piece in pieces
        if not piece.words and cleaned.text[piece.start] not in ("\n", BREAK)
    ]
    counts = dict(Counter(why for _, _, why in drops))
    return Normalized(tuple(make_tokens(pieces, cleaned)), counts, tuple(sorted(drops)))


def make_tokens(spoken: list[SpokenPiece], cleaned: Cleaned) -> Iterator[Token]:
    """Tokens with offsets of the original text; two spoken ones that touch (5pm, 10–15) are said
    apart.
    """
    # word, start, end, kind, whether another piece of the same words follows
    raw: list[tuple[str, int, int, Kind, bool]] = []
    for piece in spoken:
        start, end, words = piece.start, piece.end, piece.words
        # A plain word is a token as it stands, hyphens in it too.
        if not piece.kind and words[:1].isalpha() and not is_override(words[0]):
            raw.append((words, start, end, "word", False))
            continue
        pieces = list(split_spoken(words))
        for place, (word, kind) in enumerate(pieces, 1):
            raw.append((word, start, end, kind, place < len(pieces)))
    before = (0, 0)
    text = cleaned.text
    for index, (word, start, end, kind, goes_on) in enumerate(raw):
        # Nothing that is said follows the last token, as if a mark did.
        after = raw[index + 1][3] if index + 1 < len(raw) else "punctuation"
        if goes_on:
            space = after != "punctuation"
        else:
            # The text's own space counts; between two words there is one even where it has none.
            space = text[end : end + 1].isspace() and text[end] != BREAK
            space = space or (kind in SAID and after in SAID) or text[start] == BREAK
        before = cleaned.find_span_behind(before, start, end)
        yield Token(word, *before, kind, space)
