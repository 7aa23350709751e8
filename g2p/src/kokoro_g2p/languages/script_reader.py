"""Tokens of a language with a script of its own to words with phonemes; Latin letters are read by
the English reader.

    class ChineseReader(ScriptReader): ...
    reader.read_sentence(sentence)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kokoro_g2p.overrides import Foreign, Override, ReadsOthers
from kokoro_g2p.result import PUNCTUATION, US, Source, Token, Word
from kokoro_g2p.sentence import Sentence, find_override, mark_of

OPENING = "(“"


class ScriptReader:
    """Responsibilities: 1. what each token is said as; 2. its place in the text; 3. the spaces
    between words. A language says which tokens are its own and what they are said as.
    """

    listed: Mapping[str, str]  # the language's words
    user: Mapping[str, str]
    others: ReadsOthers  # of which the English one reads Latin letters

    def is_own(self, token: Token) -> bool:
        """Whether a token is a word of the language's script."""
        raise NotImplementedError

    def read_own(self, tokens: Sequence[Token], place: int) -> str:
        """Phonemes of a token of its own among others."""
        raise NotImplementedError

    def read_character(self, character: str) -> str:
        """Phonemes of one character or digit alone; empty where it is not the language's."""
        raise NotImplementedError

    def prepare(self, words: Iterable[str]) -> None:
        """Nothing is asked in advance: there is no network."""

    def read_sentence(self, sentence: Sentence) -> tuple[tuple[Word, ...], int]:
        """The words of a sentence in order, and how many characters have no sound at all."""
        tokens = sentence.normalized.tokens
        spoken: list[Word] = []
        unsaid = 0
        for place, token in enumerate(tokens):
            override = find_override(sentence.marked, token)
            phonemes, source = self._read(sentence, place, override)
            # No network reads this script; "neural" stands for the English reader here.
            if source == "neural":  # of the English reader
                words = self._read_latin(sentence, token)
                unsaid += 0 if words else len(token.text)
                spoken.extend(words)
            elif phonemes:
                spoken.append(sentence.make_word(token, phonemes, source, override))
            elif source != "punctuation":
                unsaid += 1
        return tuple(add_spaces(spoken)), unsaid

    def _read(
        self, sentence: Sentence, place: int, override: Override | None
    ) -> tuple[str, Source]:
        """Phonemes of a token and where they come from; "neural": ask for its Latin words."""
        token = sentence.normalized.tokens[place]
        if token.kind == "punctuation":
            return mark_of(sentence.marked.text, token), "punctuation"
        if token.kind == "override":
            return self._read_override(override)
        # The exact spelling of a user's word comes before that in lower case.
        mine = self.user.get(token.text) or self.user.get(token.text.lower())
        if mine is not None:
            return mine, "user"
        if self.is_own(token):
            return self.read_own(sentence.normalized.tokens, place), "rule"
        return "", "neural"

    def _read_override(self, override: Override | None) -> tuple[str, Source]:
        if override is not None and override.say_as:
            return self._read_spelled(override.say_as), "spelled"
        return override.sound if override is not None else ("", "override")

    def _read_spelled(self, text: str) -> str:
        """Characters one by one; Latin letters by their English names."""
        names: list[str] = []
        for character in text:
            name = self.read_character(character)
            if name:
                names.append(name)
            # The English markup for spelling gives the names of Latin letters.
            elif character.isalpha():
                names += [word[2] for word in self._read_english(f"[{character}](characters)")]
        return " ".join(names)

    def _read_english(self, text: str) -> Sequence[Foreign]:
        words, _ = self.others(US, text) or ((), ())
        return words

    def _read_latin(self, sentence: Sentence, token: Token) -> list[Word]:
        """The words of a run of Latin letters, at their places where it is as long as the text."""
        # Where the token is not as long as its text, places inside it mean nothing.
        is_long = token.end - token.start == len(token.text)
        words = []
        for start, end, phonemes, _ in self._read_english(token.text):
            part = token
            if is_long:
                part = replace(token, start=token.start + start, end=token.start + end)
            said = token.text[start:end]
            words.append(sentence.make_word(part, phonemes, "rule", None, said=said))
        return words


def add_spaces(words: Sequence[Word]) -> list[Word]:
    """The words with spaces between them, behind a mark, and before one that opens."""
    spaced = []
    for place, word in enumerate(words):
        # The last word keeps the space that it has.
        following = words[place + 1].phonemes if place + 1 < len(words) else ""
        is_mark_next = following[:1] in PUNCTUATION and following[:1] not in OPENING
        space = not is_mark_next and word.phonemes not in OPENING if following else word.space
        # a new word is the most that reading one costs
        spaced.append(word if word.space == space else replace(word, space=space))
    return spaced
