"""Hindi text to spoken tokens, and these to words with phonemes.

normalizer, reader = load_stages({})
reader.read_sentence(sentence)
"""

import re
from collections.abc import Mapping, Sequence

from kokoro_g2p.bundled import DATA, read_data_text
from kokoro_g2p.characters import clean, compile_special, mark_breaks
from kokoro_g2p.grammar.tokens import build_normalized
from kokoro_g2p.languages.hindi import (
    LETTERS,
    NUMERALS,
    ROW_BEGINS,
    SAID,
    TABLES,
    VERBALIZERS,
    read_word,
)
from kokoro_g2p.languages.rows import PatternRows
from kokoro_g2p.languages.scan import Scan, start_scan
from kokoro_g2p.languages.script_normalizer import ScriptNormalizer, compile_pieces
from kokoro_g2p.languages.script_reader import ScriptReader
from kokoro_g2p.result import Normalized, Token
from kokoro_g2p.word_lists import ListFile

KEPT = compile_special(f"{LETTERS}‰")  # digits are not: they become Latin ones
# The danda । and its double end a sentence; ॰ marks an abbreviation.
MARKS = {ord("।"): ".", ord("॥"): ".", ord("॰"): "."}
SHORT: Mapping[str, str] = TABLES["short"]
PIECES = compile_pieces(
    # An abbreviation begins neither inside a word nor right behind a point.
    rf"(?P<short>(?<![{LETTERS}.])(?:{'|'.join(map(re.escape, SHORT))}))"
    rf"|(?P<word>[{LETTERS}]+)"
)
UNSAID = "-/*"  # signs between words


class HindiNormalizer(ScriptNormalizer):
    """The function normalize(text) -> Normalized."""

    def __init__(self, rows: PatternRows) -> None:
        self.rows = rows

    def __call__(self, text: str, *, dialect: str = "") -> Normalized:
        """Spoken tokens of `text` in order, and what was left out. Never raises on any text."""
        cleaned = clean(mark_breaks(text).translate(MARKS), KEPT)
        scan = start_scan(cleaned.text)
        place = 0
        while place < len(scan.text):
            # a row begins at no letter inside a word
            is_inside = place > 0 and scan.text[place - 1].isalpha() and scan.text[place].isalpha()
            row = None if is_inside else self.rows.read(scan.text, place)
            if row is not None:
                place = scan.say(row[1], place, row[0], "number")
                continue
            match = PIECES.match(scan.text, place)
            assert match is not None  # `other` takes any character, `space` a line break
            # Pieces follow one another without a gap, so that the scan always advances.
            place = self._read_piece(scan, match)
        return build_normalized(scan.pieces, cleaned)

    def _read_piece(self, scan: Scan, match: "re.Match[str]") -> int:
        """What a piece is said as; answers its end."""
        start, end = match.span()
        if match["short"] is not None:
            return scan.say(SHORT[match[0]], start, end)
        if match["word"] is not None:
            return scan.say(match[0], start, end, "")
        # A sign is said where its language has a name for it; hyphens and slashes part words.
        if match["other"] is not None and match[0] in SAID and match[0] not in UNSAID:
            return scan.say(SAID[match[0]], start, end)
        return self.read_common(scan, match)


class HindiReader(ScriptReader):
    """Responsibility: a word by the list, else by the rules."""

    def __init__(self, listed: Mapping[str, str], user: Mapping[str, str]) -> None:
        self.listed, self.user = listed, user

    def is_own(self, token: Token) -> bool:
        """Whether a token is a word in Devanagari."""
        return token.kind == "word" and LETTERS[0] <= token.text[0] <= LETTERS[-1]

    def read_own(self, tokens: Sequence[Token], place: int) -> str:
        """The symbols of a word."""
        return self.read(tokens[place].text)

    def read(self, word: str) -> str:
        """The list's reading, else that of the rules."""
        listed = self.listed.get(word)
        return read_word(word) if listed is None else listed

    def read_character(self, character: str) -> str:
        """The name of a letter or a digit."""
        if character.isdecimal():
            return self.read(NUMERALS.read_digits(character))
        return self.read(character) if LETTERS[0] <= character <= LETTERS[-1] else ""


def load_stages(user: Mapping[str, str]) -> tuple[HindiNormalizer, HindiReader]:
    """The normalizer and the reader of Hindi. `user`: phonemes of the user's own words."""
    rows = PatternRows.from_text(read_data_text(DATA / "hindi.tsv"), VERBALIZERS, ROW_BEGINS)
    return HindiNormalizer(rows), HindiReader(ListFile(DATA / "hindi.txt.gz"), user)
