"""One sentence's tokens to words with phonemes, read from the end, because a small word's form
hangs on what follows it.

words, unsaid = SentenceReader(reader, heteronyms).read_sentence(sentence)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kokoro_g2p.alphabet import KNOWN, PAUSES, restress
from kokoro_g2p.lexicon import DEFAULT
from kokoro_g2p.morphology import with_clitic
from kokoro_g2p.overrides import Marked, Override
from kokoro_g2p.reading import Reader, WordReading, has_initial_vowel
from kokoro_g2p.result import Normalized, Source, Token, Word
from kokoro_g2p.weak_forms import (
    END,
    LOUD,
    WEAK,
    Ahead,
    choose_sense,
    find_weak_form,
    is_article,
    is_loud,
    is_shouted,
)

# misaki says the point of 3.1 without stress, and the voice was trained on it
DECIMAL_POINT = "pYnt"
# words either side that decide a heteronym: a text without sentences takes linear time
NEAR = 40


class SenseChooser(Protocol):
    """A chooser between the senses of a word in its sentence, by the lexicon's keys."""

    def choose(self, words: Sequence[str], index: int, keys: Sequence[str]) -> str: ...


@dataclass(frozen=True)
class Sentence:
    """A sentence before its words are read: its offset in the whole text, its text, its overrides,
    and its tokens (offsets in `marked.text`).
    """

    offset: int
    text: str
    marked: Marked
    normalized: Normalized

    def make_word(
        self,
        token: Token,
        phonemes: str,
        source: Source,
        override: Override | None,
        confidence: float = 1.0,
        said: str = "",
    ) -> Word:
        """A token with its phonemes, at its place in the whole text. `said`: what the word is
        said as where that is not the token's text.
        """
        start, end = token.start, token.end
        if not self.marked.is_plain:
            start, end = self.marked.find_original(start, end)
        return Word(
            self.text[start:end],
            start + self.offset,
            end + self.offset,
            said or token.text,
            phonemes,
            source,
            confidence,
            token.space,
            override.pause_s if override is not None and source == "pause" else 0.0,
        )


class SentenceReader:
    """Two responsibilities: the form each word takes in its sentence, and its offsets in the text
    as given.
    """

    def __init__(self, reader: Reader, heteronyms: SenseChooser | None) -> None:
        self._reader, self._heteronyms = reader, heteronyms

    def read_sentence(self, sentence: Sentence) -> tuple[tuple[Word, ...], int]:
        """The words of a sentence in order, and how many characters have no sound at all."""
        tokens = sentence.normalized.tokens
        plain = sentence.marked.is_plain
        shouted = is_shouted(tokens)
        vowel = END.vowel
        following = END.word
        unsaid = 0
        words_out: list[Word] = []
        source: Source
        for place in range(len(tokens) - 1, -1, -1):
            token = tokens[place]
            override = None
            spoken, kind = token.text, token.kind
            if is_loud(token, shouted, tokens[place - 1].text if place else ""):
                kind = "word"
            if kind == "punctuation":
                phonemes = mark_of(sentence.marked.text, token)
                source = "punctuation"
                confidence = 1.0
                # Behind a pause the word before it has nothing ahead.
                if spoken in PAUSES:
                    vowel, following = None, ""
            else:
                override = None if plain else find_override(sentence.marked, token)
                reading = self._read_token(token, kind, sentence.marked, override)
                phonemes, source, confidence = reading.phonemes, reading.source, reading.confidence
                unsaid += reading.unsaid
                written = sentence.marked.text[token.start : token.end]
                is_written = spoken.lower() in written.lower()
                if spoken == "point" and kind == "word" and not is_written:
                    phonemes, source = DECIMAL_POINT, "rule"
                elif spoken.isalpha() and not is_written and spoken not in WEAK:
                    # a word that a row writes (30 min.) has its usual sense
                    phonemes = reading.phonemes
                elif kind == "word" and (reading.senses is not None or spoken.lower() in WEAK):
                    ahead = Ahead(vowel, following)
                    phonemes, source = self._read_in_context(tokens, place, reading, ahead, shouted)
                if override is not None and override.stress is not None:
                    phonemes = restress(phonemes, override.stress)
                if source == "pause":
                    vowel, following = None, ""
                elif phonemes:
                    is_changed = phonemes != reading.phonemes
                    vowel = has_initial_vowel(phonemes) if is_changed else reading.vowel
                    following = spoken.lower()
            if phonemes:
                words_out.append(sentence.make_word(token, phonemes, source, override, confidence))
        return tuple(reversed(words_out)), unsaid

    def _read_token(
        self, token: Token, kind: str, marked: Marked, override: Override | None
    ) -> WordReading:
        if kind == "override":
            return self._read_override(override, marked)
        if kind == "letters":
            return self._reader.read_letters(token.text)
        return self._reader.read(token.text)

    def _read_override(self, override: Override | None, marked: Marked) -> WordReading:
        """The phonemes of an override, or the clitic behind them; nothing where there is none."""
        if override is None:
            return WordReading("", "override")
        if override.say_as:
            return self._reader.read_letters("".join(filter(str.isalnum, override.say_as)))
        if not override.clitic:
            return WordReading("", "override").with_phonemes(*override.sound)
        # The clitic's stem is the override before it, which is said already.
        stem = marked.overrides[marked.overrides.index(override) - 1].phonemes or ""
        ended = with_clitic(stem, override.clitic, self._reader.lexicon.dialect)
        return WordReading(ended[len(stem) :], "rule")

    def _read_in_context(
        self, tokens: Sequence[Token], place: int, reading: WordReading, ahead: Ahead, shouted: bool
    ) -> tuple[str, Source]:
        """Phonemes and source of a small word or a heteronym."""
        word = tokens[place].text
        weak = find_weak_form(
            word, ahead, word == "A" and is_article(tokens, place, ahead), shouted
        )
        if weak is not None:
            return weak, "rule"

        def choose(keys: tuple[str, ...]) -> str:
            if self._heteronyms is None:
                letters = (
                    key
                    for key in keys
                    if reading.senses and reading.senses[key] is None and word.lower() not in LOUD
                )
                return next(letters, DEFAULT)
            first = max(0, place - NEAR)
            # A window of the sentence, so that a long text takes linear time
            words = [token.text for token in tokens[first : place + NEAR]]
            return self._heteronyms.choose(words, place - first, keys)

        phonemes = choose_sense(
            reading.senses or {DEFAULT: reading.phonemes}, ahead, shouted, choose
        )
        return (
            (self._reader.read_letters(word).phonemes, "spelled")
            if phonemes is None
            else (phonemes, reading.source)
        )


def mark_of(text: str, token: Token) -> str:
    """The phonemes of a mark: three dots stay three, as in misaki; a mark outside the vocabulary
    has none.
    """
    if token.text == "…" and text[token.start : token.end] == "...":
        return "..."
    return token.text if token.text in KNOWN else ""


def find_override(marked: Marked, token: Token) -> Override | None:
    """The override where a token begins, or inside the token where it is a link with a
    placeholder.
    """
    is_link = token.kind == "override" and token.end - token.start > 1
    for override in marked.overrides:
        if override.start <= token.start < override.end:
            return override
        if is_link and token.start <= override.start < token.end:
            return override
    return None
