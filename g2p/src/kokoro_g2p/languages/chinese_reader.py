"""Tokens of Mandarin to words with phonemes: each character by its syllable.

reader = ChineseReader(Readings(listed, read_reading_rows(TABLES["polyphones"])), {})
reader.read_sentence(sentence)
"""

from collections.abc import Mapping, Sequence

from kokoro_g2p.bundled import DATA, read_data_text
from kokoro_g2p.languages.chinese import (
    HAN,
    NUMERALS,
    ROW_BEGINS,
    TABLES,
    VERBALIZERS,
    ChineseNormalizer,
    Readings,
    load_simplified,
    read_syllable,
)
from kokoro_g2p.languages.lattice import Lattice
from kokoro_g2p.languages.rows import PatternRows, read_reading_rows
from kokoro_g2p.languages.script_reader import ScriptReader
from kokoro_g2p.result import Token
from kokoro_g2p.word_lists import ListFile

NEAR = 3  # words on either side that decide a reading
# HAN is the inside of a character class: first, hyphen, last, 〇
FIRST, LAST, ZERO = HAN[0], HAN[2], HAN[3]


class ChineseReader(ScriptReader):
    """Responsibility: what is around a word where its reading hangs on it."""

    def __init__(self, readings: Readings, user: Mapping[str, str]) -> None:
        self.readings, self.user = readings, user
        self.listed = readings.listed

    def is_own(self, token: Token) -> bool:
        """Whether a token is a word of Chinese characters."""
        return token.kind == "word" and (FIRST <= token.text[0] <= LAST or token.text[0] == ZERO)

    def read_own(self, tokens: Sequence[Token], place: int) -> str:
        """The symbols of a word's syllables."""
        word = tokens[place].text
        before, after = "", ""
        # Neighbours are joined only for characters that need them, as most do not.
        if word.translate(load_simplified()) in self.readings.polyphones:
            before, after = self.join_neighbours(tokens, place)
        syllables = self.readings.find_syllables(word, before, after)
        return "".join([read_syllable(syllable) for syllable in syllables])

    def read_character(self, character: str) -> str:
        """The syllable of a character or a digit."""
        plain = NUMERALS.read_digits(character) if character.isdecimal() else character
        # A character of no listed range has no syllable; a digit has become one by now.
        if not FIRST <= plain <= LAST:
            return ""
        return "".join(
            [read_syllable(name) for name in self.readings.find_syllables(plain, "", "")]
        )

    def join_neighbours(self, tokens: Sequence[Token], place: int) -> tuple[str, str]:
        """The words before and after a token up to the next mark, simplified, spaces between."""
        start, end = place, place + 1
        # Words of another script and marks end what decides a reading.
        while start > 0 and place - start < NEAR and self.is_own(tokens[start - 1]):
            start -= 1
        while end < len(tokens) and end - place <= NEAR and self.is_own(tokens[end]):
            end += 1
        before = " ".join([token.text for token in tokens[start:place]])
        after = " ".join([token.text for token in tokens[place + 1 : end]])
        return before.translate(load_simplified()), after.translate(load_simplified())


def load_stages(user: Mapping[str, str]) -> tuple[ChineseNormalizer, ChineseReader]:
    """The normalizer and the reader of Mandarin. `user`: phonemes of the user's own words."""
    listed = ListFile(DATA / "chinese.txt.gz").entries
    rows = PatternRows.from_text(read_data_text(DATA / "chinese.tsv"), VERBALIZERS, ROW_BEGINS)
    normalizer = ChineseNormalizer(Lattice(listed, user), rows)
    return normalizer, ChineseReader(
        Readings(listed, read_reading_rows(TABLES["polyphones"])), user
    )
