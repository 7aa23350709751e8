"""Text for the encoder's training: word salad with the grammar of short phrases, 1 to 40 words, every mark, from a seed.

    for sentence in prose(count=2400, seed=0, words=rare_words(gold)): ...

The vocoder's sentences (sentences.py) teach sounds; these teach timing and melody: questions, exclamations, lists, single words, no final
mark, weak forms before vowels and consonants, and words from all over misaki's lexicon. A content word that only frozen
sentences hold is never used, so all of those sentences stay unseen.
"""

import random
import re
from collections.abc import Iterable

from core.corpus import frozen_sentences
from demo.sentences import list_words, training_sentences, vocabulary, words_of


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FROZEN = ("heldout", "calibration", "unseen")
LONGEST = 40  # words
DETERMINERS = _words("the the the the a a an this that these my your his her our their some any every each no one two seven forty")
SUBJECTS = _words("I you he she it we they who someone everybody nothing this that")
OBJECTS = _words("me you him her it us them myself something everyone")
AUXILIARIES = _words(
    "can could will would should may might must did does do has had have is was are were be been am "
    "don't can't won't isn't didn't couldn't wasn't"
)
PREPOSITIONS = _words(
    "of of of in in to to for for with on at from by about into over after under through between against without before behind like than as"
)
CONJUNCTIONS = _words("and and and but or so because if when while although that which then until")
ADVERBS = _words("not never always very too just still again soon now here there then only even also well yes oh up out down away")
QUESTIONS = _words("what who where when why how which whose")
INNER_MARKS = {",": 20, ";": 2, ":": 1, "—": 2, "…": 1}
ENDINGS = {".": 62, "?": 16, "!": 10, "": 8, "…": 2, ";": 1, ":": 1}
BRACKETS = ("“”", '""', "()")
_SPOKEN = str.maketrans({"—": ",", "…": ",", ";": ",", ":": ",", "“": None, "”": None, '"': None, "(": None, ")": None})


def prose(count: int, seed: int, words: list[str]) -> list[str]:
    """`count` sentences, a quarter of them from the vocoder's templates; the same arguments give the same list."""
    draw = random.Random(seed)
    templates = iter(training_sentences(count, seed + 1))
    known = list(list_words())
    return [next(templates) if draw.random() < 0.25 else Writer(draw, known, words).sentence() for _ in range(count)]


def rare_words(lexicon: Iterable[str]) -> list[str]:
    """Plain lower-case words of a lexicon that no frozen sentence keeps for itself, sorted."""
    kept = reserved_words()
    return sorted(word for word in lexicon if re.fullmatch(r"[a-z]{3,12}", word) and word not in kept)


def reserved_words() -> frozenset[str]:
    """Words of the frozen sentences that the vocoder's generator does not have."""
    return frozenset(word for name in FROZEN for text in frozen_sentences(name) for word in words_of(text)) - vocabulary()


def spoken_text(written: str) -> str:
    """What flite is given: it knows full stop, comma, question and exclamation mark."""
    text = re.sub(r"\s*,(?:\s*,)*", ",", written.translate(_SPOKEN)).strip()
    return re.sub(r",$", ".", text)


class Writer:
    """Responsibilities: 1. draw phrases; 2. join them to one sentence of a drawn length."""

    def __init__(self, draw: random.Random, common: list[str], rare: list[str]) -> None:
        self.draw, self.common, self.rare = draw, common, rare

    def sentence(self) -> str:
        """One sentence, capitalized, with its marks."""
        length = self.draw.choice((1, 2, 3)) if self.draw.random() < 0.15 else min(LONGEST, 2 + int(self.draw.expovariate(1 / 9)))
        ending = self._weighted(ENDINGS)
        pieces = [self.draw.choice(QUESTIONS + AUXILIARIES)] if ending == "?" and length > 2 else []
        while len(" ".join(pieces).split()) < length:
            phrase = self._phrase() if length > 2 else self.word()
            if self.draw.random() < 0.05:
                left, right = self.draw.choice(BRACKETS)
                phrase = left + phrase + right
            if pieces and self.draw.random() < 0.22:
                mark = self._weighted(INNER_MARKS)
                pieces[-1] += " —" if mark == "—" and self.draw.random() < 0.5 else mark
            pieces.append(phrase)
        text = " ".join(pieces)
        return text[0].upper() + text[1:] + ending

    def word(self) -> str:
        """A content word."""
        return self.draw.choice(self.common if self.draw.random() < 0.6 else self.rare)

    def _noun_phrase(self) -> str:
        word = self.word() if self.draw.random() < 0.7 else f"{self.word()} {self.word()}"
        determiner = self.draw.choice(DETERMINERS)
        if determiner in ("a", "an"):
            determiner = "an" if word[0] in "aeiou" else "a"
        return f"{determiner} {word}"

    def _phrase(self) -> str:
        draw = self.draw
        kind = draw.randrange(8)
        if kind == 0:
            return f"{draw.choice(SUBJECTS)} {draw.choice(AUXILIARIES)} {self.word()}"
        if kind == 1:
            return f"{draw.choice(CONJUNCTIONS)} {self._noun_phrase()} {draw.choice(AUXILIARIES)} {self.word()}"
        if kind == 2:
            return f"{draw.choice(PREPOSITIONS)} {self._noun_phrase()}"
        if kind == 3:
            return f"{draw.choice(PREPOSITIONS)} {draw.choice(OBJECTS)}"
        if kind == 4:
            return f"{draw.choice(CONJUNCTIONS)} {draw.choice(SUBJECTS)} {self.word()} {draw.choice(ADVERBS)}"
        if kind == 5:
            return f"{self.word()} {draw.choice(('and', 'or', 'to', 'of'))} {self.word()}"
        return f"{draw.choice(ADVERBS)} {self.word()}" if kind == 6 else self._noun_phrase()

    def _weighted(self, marks: dict[str, int]) -> str:
        return self.draw.choices(list(marks), list(marks.values()))[0]
