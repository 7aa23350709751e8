"""Spanish and Italian words to sounds by rule: one reading for one spelling, the user's first, and
the form it takes in its sentence.

RuleReader(LANGUAGES["it"], {}).words(sentence)
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from kokoro_ane.g2p.alphabet import KNOWN, PAUSES, SECONDARY, folded, restress
from kokoro_ane.g2p.languages import italian, spanish
from kokoro_ane.g2p.languages.grammar import ITALIAN, SPANISH, Grammar
from kokoro_ane.g2p.overrides import Override
from kokoro_ane.g2p.result import Source, Token, Word
from kokoro_ane.g2p.sentence import Sentence, mark_of, override_at, pause_mark
from kokoro_ane.g2p.word_lists import pairs

Code = Literal["es", "it"]


@dataclass(frozen=True)
class Language:
    """A language by its functions. `joined`: what a word's neighbours change.

    `confidence`: the share of held-out words read as the voices' training data has them
    (measured at commit ec85133).
    """

    grammar: Grammar
    sounds: Callable[[str], str]
    spelled: Callable[[str], str]
    # phonemes and the mark that stays, "" or a secondary stress
    weakened: Callable[[str, str], str]
    joined: Callable[[str, str, str], str]  # phonemes, those before and after it ("" at a pause)
    confidence: float


LANGUAGES: Mapping[Code, Language] = {
    "es": Language(
        SPANISH, spanish.sounds, spanish.spelled, spanish.weakened, spanish.joined, 0.99
    ),
    "it": Language(
        ITALIAN, italian.sounds, italian.spelled, italian.weakened, italian.joined, 0.85
    ),
}
FOREIGN = str.maketrans(pairs("æ:ae œ:oe ø:o ð:d þ:t ł:l đ:d ħ:h ŧ:t ŋ:n ĸ:k ı:i"))
REMEMBERED = 50_000  # readings kept


def unflapped(phonemes: str) -> str:
    """What somebody wrote as ɾ: English reads it as its flap T, these languages as their r."""
    return phonemes.replace("T", "ɾ")


class RuleReader:
    """Responsibilities: 1. one reading for one spelling, the user's first; 2. the form it takes
    between its neighbours.
    """

    def __init__(self, language: Language, user: Mapping[str, str]) -> None:
        self.language, self._user = (
            language,
            {word: unflapped(phonemes) for word, phonemes in user.items()},
        )
        self._sounds = lru_cache(REMEMBERED)(language.sounds)

    def prepare(self, words: Iterable[str]) -> None:
        """Nothing is asked for many words at once."""

    def words(self, sentence: Sentence) -> tuple[tuple[Word, ...], int]:
        """The words of a sentence in order, and how many characters have no sound at all."""
        readings: list[tuple[Word, bool]] = []  # whether the form is given, not to be changed
        unsaid = 0
        for token in sentence.normalized.tokens:
            override = override_at(sentence.marked, token)
            phonemes, source, lost = self._read(token, override, sentence.marked.text)
            if override is not None and override.stress is not None:
                phonemes = restress(phonemes, override.stress)
            unsaid += lost
            if phonemes:
                start, end = (
                    sentence.marked.original(token.start, token.end)
                    if not sentence.marked.plain
                    else (token.start, token.end)
                )
                pause_s = override.pause_s if override is not None and source == "pause" else 0.0
                confidence = self.language.confidence if source == "rule" else 1.0
                at = (start + sentence.offset, end + sentence.offset)
                word = Word(
                    sentence.text[start:end],
                    *at,
                    token.text,
                    phonemes,
                    source,
                    confidence,
                    token.space,
                    pause_s,
                )
                readings.append((word, override is not None or source != "rule"))
        return tuple(self._in_context(readings)), unsaid

    def _read(self, token: Token, override: Override | None, text: str) -> tuple[str, Source, int]:
        """Phonemes of a token, where they come from, and characters without a sound."""
        if token.kind == "punctuation":
            return mark_of(text, token), "punctuation", 0
        if token.kind == "override":
            return self._overridden(override)
        if token.kind == "letters":
            return self._spelled(token.text)
        mine = self._user.get(token.text) or self._user.get(token.text.lower())
        if mine is not None:
            return mine, "user", 0
        plain = folded(token.text).translate(FOREIGN)
        phonemes = self._ruled(token.text.lower()) or "".join(
            map(self._ruled, re.findall(r"[^\W\d_]+", plain))
        )
        return (phonemes, "rule", 0) if phonemes else self._spelled(plain)

    def _ruled(self, word: str) -> str:
        """The rules' answer; empty for one that is no phonemes of Kokoro."""
        phonemes = self._sounds(word)
        return phonemes if all(symbol in KNOWN for symbol in phonemes) else ""

    def _overridden(self, override: Override | None) -> tuple[str, Source, int]:
        if override is None:
            return "", "override", 1
        if override.pause_s:
            return pause_mark(override.pause_s), "pause", 0
        if override.say_as:
            return self._spelled(override.say_as)
        if override.clitic:
            return self._spelled(override.clitic[0])
        return unflapped(override.phonemes or ""), "user" if override.user else "override", 0

    def _spelled(self, text: str) -> tuple[str, Source, int]:
        """Letters and digits one by one."""
        digits = self.language.grammar.digits
        names = [
            self._sounds(digits[int(letter)])
            if letter.isdecimal()
            else self.language.spelled(letter.lower())
            for letter in text
            if letter.isalnum()
        ]
        letters = (
            self.language.spelled(text.lower()) if text.isalpha() else " ".join(filter(None, names))
        )
        return letters, "spelled", sum(not name for name in names)

    def _in_context(self, readings: Sequence[tuple[Word, bool]]) -> list[Word]:
        spoken: list[Word] = []
        for place, (word, is_fixed) in enumerate(readings):
            after = readings[place + 1][0] if place + 1 < len(readings) else None
            pause = after is None or after.phonemes[0] in PAUSES or after.source == "pause"
            phonemes = word.phonemes
            if not is_fixed and not pause:
                phonemes = self._weakened(word.spoken.lower(), phonemes)
            if not is_fixed:
                before = (
                    spoken[-1].phonemes if spoken and spoken[-1].phonemes[-1] not in PAUSES else ""
                )
                phonemes = self.language.joined(
                    phonemes, before, "" if pause or after is None else after.phonemes
                )
            spoken.append(replace(word, phonemes=phonemes))
        return spoken

    def _weakened(self, word: str, phonemes: str) -> str:
        if word in self.language.grammar.unstressed:
            return self.language.weakened(phonemes, "")
        return (
            self.language.weakened(phonemes, SECONDARY)
            if word in self.language.grammar.secondary
            else phonemes
        )
