"""One spelling to one reading: lexicon first, then its parts, then the neural model, then letter by
letter.

    reader = Reader(lexicon, neural)
    # one batched call of the neural model for all words nobody knows
    reader.prepare(["well-read", "blorf"])
    reader.read("blorf")  # WordReading("blˈɔɹf", "neural", ...)
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol

from kokoro_g2p.alphabet import (
    MAX_LETTERS,
    PRIMARY,
    SECONDARY,
    VOWELS,
    find_unknown_symbol,
    is_readable,
    restress,
    weight,
)
from kokoro_g2p.errors import InputError
from kokoro_g2p.lexicon import DEFAULT, Found, Lexicon, is_plural_acronym
from kokoro_g2p.morphology import fold, is_clitic, spell, with_clitic, with_s
from kokoro_g2p.result import GB, Guess, Language, Source
from kokoro_g2p.weak_forms import find_weak_parts
from kokoro_g2p.word_lists import convert_to_british
from kokoro_g2p.word_parts import ReadingPlan, plan, read_by_origin, with_accent

if TYPE_CHECKING:
    from kokoro_g2p.neural import NeuralG2P

CAPITALISED, CAPITALS = 0.5, 2  # stress levels misaki gives to Word and WORD
ACRONYM = 5  # so many capitals that nobody knows are said letter by letter
PREFIX_SOUNDS = {"re": "ɹˌi", "de": "dˌi"}
STAMMER = re.compile(r"([^\W\dA-Zaeiouy_]{1,3})-(?:\1-)*\1.+")
ONSET = re.compile(f"[{PRIMARY}{SECONDARY}]?([^{''.join(sorted(VOWELS))}{PRIMARY}{SECONDARY}]+)")
REMEMBERED = 50_000  # readings kept
_LETTERS_ENDING = re.compile(r"(?<=[A-Z0-9])'?s'?$")
# A compound is as good as its worst part.
_BETTER = "spelled fallback neural silver cmudict morphology ours gold user"
_ORDER = _BETTER.split()


class Neural(Protocol):
    """A reader of words that no list has: one guess for each word, an empty one to spell it."""

    def predict(self, words: Sequence[str]) -> list[Guess]: ...


class LateNeural:
    """The bundled neural model (g2p/neural.py), loaded at the first word that needs it."""

    def __init__(self, dialect: Language) -> None:
        self.dialect = dialect

    @cached_property
    def model(self) -> "NeuralG2P":
        """The model. Raises InputError when the weights are missing or damaged."""
        from kokoro_g2p.neural import NeuralG2P

        return NeuralG2P.load(dialect=self.dialect)

    def predict(self, words: Sequence[str]) -> list[Guess]:
        """One guess for each word; an empty one means that the word is spelled."""
        return self.model.predict(words)


class FallbackNeural:
    """A user's own reader of unknown words in the neural model's place. Raises InputError for
    symbols outside Kokoro's vocabulary.
    """

    source: Source = "fallback"

    def __init__(self, read: Callable[[str], str | None]) -> None:
        self._read = read

    def predict(self, words: Sequence[str]) -> list[Guess]:
        """One guess for each word; a word without an answer is spelled."""
        return [self._check(word, self._read(word)) for word in words]

    def _check(self, word: str, phonemes: str | None) -> Guess:
        symbol = find_unknown_symbol(phonemes or "")
        if symbol is not None:
            raise InputError(
                f"the fallback says {word!r} as {phonemes!r}: {symbol!r} is not in Kokoro's"
                " vocabulary"
            )
        return Guess(phonemes or "", 1.0 if phonemes else 0.0)


@dataclass(frozen=True)
class WordReading:
    """Phonemes of one spelling. `senses`: the sentence decides; `vowel`: the first sound is one;
    `unsaid`: letters without a name.
    """

    phonemes: str
    source: Source
    confidence: float = 1.0
    senses: Mapping[str, str | None] | None = None
    vowel: bool = False
    unsaid: int = 0

    def with_phonemes(self, phonemes: str, source: Source | None = None) -> "WordReading":
        """Return the reading with other phonemes."""
        return replace(
            self,
            phonemes=phonemes,
            source=source or self.source,
            vowel=has_initial_vowel(phonemes),
            senses=None,
        )


def has_initial_vowel(phonemes: str) -> bool:
    """Whether the first sound is a vowel; stress marks are not sounds."""
    return phonemes.lstrip("ˈˌ")[:1] in VOWELS if phonemes else False


class Reader:
    """Two responsibilities: one reading for one spelling, and remembering it. It knows nothing of
    sentences.
    """

    def __init__(self, lexicon: Lexicon, neural: Neural | None) -> None:
        self.lexicon, self.neural = lexicon, neural
        self._readings: dict[str, WordReading] = {}
        self._guesses: dict[str, Guess] = {}

    def prepare(self, words: Iterable[str]) -> None:
        """Ask the neural model once for every part of `words` that nothing else can read."""
        if len(self._readings) > REMEMBERED:
            self._readings.clear()
            self._guesses.clear()
        # A dictionary as a set in order: each part is asked for once, and answers match.
        words_to_ask: dict[str, None] = {}
        for word in words:
            if word not in self._readings:
                entry = self._find(word)
                if entry is not None:
                    self._readings[word] = _apply_capitals(entry, word)
                else:
                    words_to_ask.update(dict.fromkeys(self._list_unknown_parts(word)))
        if words_to_ask and self.neural is not None:
            self._guesses.update(
                zip(words_to_ask, self.neural.predict(list(words_to_ask)), strict=True)
            )

    def read(self, word: str) -> WordReading:
        """The reading of `word`, remembered. Parts that were not prepared are spelled."""
        reading = self._readings.get(word)
        if reading is None:
            reading = self._readings[word] = self._read(word)
        return reading

    def read_letters(self, text: str) -> WordReading:
        """`text` letter by letter, as the normalizer asked; a small s or 's at its end is an ending
        (CDs, FBI's).
        """
        ending = _LETTERS_ENDING.search(text)
        reading = self._read_spelled(text[: ending.start()] if ending else text, 1.0)
        return (
            _add_ending(reading, lambda phonemes: with_s(phonemes, self.lexicon.dialect))
            if ending
            else reading
        )

    def _list_unknown(self, word: str) -> Iterator[str]:
        if self.lexicon.find(word) is None:
            yield from self._list_unknown_parts(word)

    def _list_unknown_parts(self, word: str) -> Iterator[str]:
        parts = _split_parts(word)
        if len(parts) > 1:
            for part in parts:
                yield from self._list_unknown(part)
            return
        # A clitic has sounds of its own, so that only the stem is unknown.
        stem, _, clitic = word.rpartition("'")
        if stem and (not clitic or is_clitic(clitic)):
            yield from self._list_unknown(stem)
        elif can_guess(word):
            planned = self._plan(word)
            if planned is None:
                yield fold(word)
            else:
                for part in planned.parts:
                    yield from self._list_unknown(part)

    def _plan(self, word: str) -> ReadingPlan | None:
        """How the word is read by its parts; a user's own reader of unknown words is asked for
        whole ones.
        """
        is_asked = getattr(self.neural, "source", "neural") != "neural"
        return (
            None
            if is_asked
            else plan(word, self.lexicon.is_edited, partial(self._convert_to_dialect, word))
        )

    def _find(self, word: str) -> Found | None:
        """The entry of the lists; CMUdict guessed names of China and Japan by English spelling, and
        gold has letters of Greek (xi, Xi).
        """
        entry = self.lexicon.find(word)
        doubtful = entry is not None and (
            entry.source == "cmudict" or (entry.source == "gold" and word in ("Xi", "Xu"))
        )
        origin = read_by_origin(word) if doubtful and word[:1].isupper() else None
        if entry is None or origin is None:
            accents = entry is not None and entry.source == "cmudict" and not word.isascii()
            return (
                entry.with_change(partial(with_accent, word))
                if entry is not None and accents
                else entry
            )
        return replace(entry, phonemes=self._convert_to_dialect(word, origin), source="morphology")

    def _convert_to_dialect(self, word: str, phonemes: str) -> str:
        return convert_to_british(phonemes, word) if self.lexicon.dialect == GB else phonemes

    def _read_plan(self, planned: ReadingPlan) -> WordReading:
        readings = [self.read(part) for part in planned.parts]
        phonemes = planned.said([reading.phonemes for reading in readings])
        # The worst source of the parts, and at best `morphology`: no list has the whole word.
        source: Source = min(
            (reading.source for reading in readings), key=_ORDER.index, default="morphology"
        )
        source = source if _ORDER.index(source) < _ORDER.index("morphology") else "morphology"
        return WordReading(phonemes, source, planned.confidence, vowel=has_initial_vowel(phonemes))

    def _read(self, word: str) -> WordReading:
        entry = self._find(word)
        if entry is not None:
            return _apply_capitals(entry, word)
        parts = _split_parts(word)
        if len(parts) > 1:
            return self._read_compound([self.read(part) for part in parts], parts)
        stem, mark, clitic = word.rpartition("'")
        if mark and stem and (not clitic or is_clitic(clitic)):
            return _add_ending(
                self.read(stem),
                lambda phonemes: (
                    with_clitic(phonemes, clitic, self.lexicon.dialect) if clitic else phonemes
                ),
            )
        if is_plural_acronym(word):
            return _add_ending(
                self.read(word[:-1]), lambda phonemes: with_s(phonemes, self.lexicon.dialect)
            )
        planned = self._plan(word) if can_guess(word) else None
        if planned is not None:
            return self._read_plan(planned)
        guess = self._guesses.get(fold(word))
        if guess is not None and guess.phonemes and find_unknown_symbol(guess.phonemes) is None:
            source: Source = getattr(self.neural, "source", "neural")
            phonemes = guess.phonemes
            if source == "neural":
                phonemes = with_accent(word, phonemes)
            return WordReading(
                phonemes, source, guess.confidence, vowel=has_initial_vowel(phonemes)
            )
        return self._read_spelled(word, 0.0)

    def _read_spelled(self, text: str, confidence: float) -> WordReading:
        names = self.lexicon.letter_names
        phonemes = spell(text, names)
        unsaid = sum(
            character.isalnum() and not any(part in names for part in fold(character).upper())
            for character in text
        )
        return WordReading(
            phonemes, "spelled", confidence, vowel=has_initial_vowel(phonemes), unsaid=unsaid
        )

    def _read_compound(self, readings: list[WordReading], parts: list[str]) -> WordReading:
        """Parts said as one word: half of them lose their primary stress (misaki/en.py,
        resolve_tokens), not two names.
        """
        last = readings[-1].phonemes
        onset = ONSET.match(last)
        if onset and STAMMER.fullmatch("-".join([*parts[:-1], parts[-1].lower()])):
            # th-that repeats all consonants, p-please the first one
            sound = onset[1] if len(parts[0]) > 1 else onset[1][:1]
            return readings[-1].with_phonemes(f"{sound}ə" * (len(parts) - 1) + last)
        spoken = [
            (part, reading)
            for part, reading in zip(parts, readings, strict=True)
            if reading.phonemes
        ]
        weak: list[str | None] = [None] * len(spoken)
        if len(spoken) > 2:
            weak = list(
                find_weak_parts(
                    [part for part, _ in spoken], [reading.vowel for _, reading in spoken]
                )
            )
        if parts[0].lower() in PREFIX_SOUNDS:  # re-write: the lists have the preposition
            weak[0] = PREFIX_SOUNDS[parts[0].lower()] + "ː" * (self.lexicon.dialect == GB)
        if parts[0] in ("a", "A") and parts[1].endswith("ing"):
            weak[0] = "ɐ"  # a-running
        full = [form or reading.phonemes for form, (_, reading) in zip(weak, spoken, strict=True)]
        pieces = _reduce_stress(full, [part for part, _ in spoken])
        worst: Source = min(
            (reading.source for _, reading in spoken), key=_ORDER.index, default="spelled"
        )
        source: Source = worst if _ORDER.index(worst) < _ORDER.index("morphology") else "morphology"
        phonemes = "".join(pieces)
        confidence = min((reading.confidence for _, reading in spoken), default=0.0)
        return WordReading(
            phonemes,
            source,
            confidence,
            vowel=has_initial_vowel(phonemes),
            unsaid=sum(reading.unsaid for reading in readings),
        )


def can_guess(word: str) -> bool:
    """Whether the neural model may try: letters it knows, a vowel among them, not a short run of
    capitals.
    """
    plain = fold(word)
    if (
        len(plain) > MAX_LETTERS
        or not is_readable(plain)
        or is_plural_acronym(plain)
        or (plain.isupper() and len(plain) <= ACRONYM)
    ):
        return False
    return len(plain) > 1 and re.search("[aeiouy]", plain.lower()) is not None


def _split_parts(word: str) -> list[str]:
    return [
        part for part in re.split(r"[-‐‑–_/]+", word.translate({0x2019: "'"})) if part.strip("'")
    ]


def _reduce_stress(phonemes: list[str], parts: list[str]) -> list[str]:
    stressed = [PRIMARY in sounds for sounds in phonemes]
    # A single letter bears the stress: X-ray, T-shirt.
    if len(phonemes) == 2 and len(parts[0]) == 1:
        chosen = [1]
    elif (
        len(phonemes) < 2
        or sum(stressed) <= (len(phonemes) + 1) // 2
        or all(len(part) > 3 and part != part.lower() for part in parts)
    ):
        chosen = []
    else:
        # Unstressed and light parts first: of equals the earlier one loses its stress.
        order = sorted(
            range(len(phonemes)),
            key=lambda place: (stressed[place], weight(phonemes[place]), place),
        )
        chosen = order[: len(phonemes) // 2]
    return [
        restress(sounds, -0.5) if place in chosen else sounds
        for place, sounds in enumerate(phonemes)
    ]


def _apply_capitals(entry: Found, word: str) -> WordReading:
    """A listed word with the stress of its capitals."""
    level = (
        None
        if entry.source == "user" or word == word.lower()
        else CAPITALS
        if word == word.upper()
        else CAPITALISED
    )
    if level is not None:
        entry = entry.with_change(lambda phonemes: restress(phonemes, level))
    # A default alone leaves the sentence nothing to decide.
    senses = entry.senses if entry.senses and set(entry.senses) != {DEFAULT} else None
    return WordReading(
        entry.phonemes, entry.source, entry.confidence, senses, has_initial_vowel(entry.phonemes)
    )


def _add_ending(stem: WordReading, change: Callable[[str], str]) -> WordReading:
    """The stem's reading with an ending."""
    return stem.with_phonemes(change(stem.phonemes)) if stem.phonemes else stem
