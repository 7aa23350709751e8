"""Languages whose words are read by trees of letters and a list of what these read wrong: French
and Brazilian Portuguese.

    normalizer, reader, _ = letter_stages("fr", {})

A reading may have two forms, END/INSIDE of a phrase; what else its neighbours change is the
language's `joined`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from kokoro_ane.g2p.alphabet import KNOWN, PRIMARY, SECONDARY
from kokoro_ane.g2p.bundled import DATA
from kokoro_ane.g2p.languages import french, portuguese
from kokoro_ane.g2p.languages.grammar import Grammar, read_words
from kokoro_ane.g2p.languages.language_normalizer import Normalizer
from kokoro_ane.g2p.languages.letter_trees import ACCENTS, BEFORE, SPAN, LetterTrees
from kokoro_ane.g2p.languages.rule_reader import Language as Rules
from kokoro_ane.g2p.languages.rule_reader import RuleReader
from kokoro_ane.g2p.result import Language
from kokoro_ane.g2p.word_lists import ListFile

VOWEL = re.compile("[aeiouyà-öø-ÿ]")


@dataclass(frozen=True)
class LetterLanguage:
    """A language by its functions. `confidence`: share of unseen words read as espeak-ng does
    (training/grow_trees.py).
    """

    name: str  # of its files in g2p/data
    espeak: str
    grammar: Grammar
    normalizer: type[Normalizer]
    stressed: Callable[[str], str]  # gives the trees' sounds the stress they leave to a rule
    joined: Callable[[str, str, str], str]
    # reading of a word by what espeak-ng says
    probed: Callable[[str, Callable[[str], str], bool], str]
    elided: Mapping[str, str]  # what stands before an apostrophe
    stem: Callable[[str], str]  # what of a word the trees read; the rest is said as written
    asked: int  # places of a window that the trees ask about
    confidence: float

    @property
    def compounds(self) -> tuple[str, ...]:
        """Words of several parts that may have a reading of their own, numbers among them."""
        listed = read_words(self.name)["compounds"].split()
        numbers = (
            word for number in range(100) for word in self.grammar.cardinal(number, "").split()
        )
        return tuple(dict.fromkeys((*listed, *(word for word in numbers if "-" in word))))

    @cached_property
    def trees(self) -> LetterTrees:
        """Loaded once. Raises InputError when they are missing or damaged."""
        return LetterTrees.load(self.name)

    @cached_property
    def listed(self) -> Mapping[str, str]:
        """Word to reading."""
        return ListFile(DATA / f"{self.name}.txt.gz")

    def sounds(self, word: str) -> str:
        """Reading of a word in lower case: the list's, its parts', the trees'."""
        word = word.strip("'-")
        if word in self.listed:
            return self.listed[word]
        if parts := re.match(r"([^'-]+)(['-]+)(.+)", word):
            return self.together(parts[1], parts[2][0], parts[3])
        return self.ruled(word) if word else ""

    def ruled(self, word: str) -> str:
        """Reading of a word that no list has: the trees', in Portuguese letter by letter where it
        has no vowel.
        """
        if self.name == "portuguese" and len(word) > 1 and VOWEL.search(word) is None:
            return self.spelled(word)
        heard = self.trees(stem := self.stem(word))
        return self.stressed(tidy(heard and heard + word[len(stem) :]))

    def together(self, head: str, mark: str, tail: str) -> str:
        """l'ami, dit-il: the first part inside the word, then each form of the rest."""
        rest = self.sounds(tail)
        if head in self.elided and (mark == "'" or head == "t"):
            first = self.elided[head]
        else:
            first = self.joined(self.sounds(head), "", rest)
            first = first.replace(PRIMARY, "") if mark == "'" else first
        return (
            "/".join(first + form.removeprefix(french.BLOCKED) for form in rest.split("/"))
            if rest
            else first
        )

    def spelled(self, letters: str) -> str:
        """Letter by letter, as one word: the last name bears the stress."""
        *names, last = [
            self.sounds(letter).partition("/")[0].strip("-ZTNPR") for letter in letters
        ] or [""]
        return "".join(name.replace(PRIMARY, SECONDARY) for name in names) + last


LETTER_LANGUAGES: Mapping[Language, LetterLanguage] = {
    "fr": LetterLanguage(
        "french",
        "fr-fr",
        french.FRENCH,
        french.FrenchNormalizer,
        french.stressed,
        french.joined,
        french.probed,
        french.ELIDED,
        str,
        2 * SPAN + BEFORE,
        0.97,
    ),
    "pt": LetterLanguage(
        "portuguese",
        "pt-br",
        portuguese.PORTUGUESE,
        portuguese.PortugueseNormalizer,
        portuguese.stressed,
        portuguese.joined,
        portuguese.probed,
        portuguese.ELIDED,
        partial(portuguese.PLURAL.sub, ""),
        2 * SPAN + BEFORE + ACCENTS,
        0.96,
    ),
}


def tidy(sounds: str) -> str:
    """What trees answer together: marks only where they mean something."""
    ends = {0: french.BLOCKED, len(sounds) - 1: "".join(french.LATENT)}
    return "".join(
        sound
        for place, sound in enumerate(sounds)
        if (sound in KNOWN and sound not in french.LATENT) or sound in ends.get(place, "")
    )


class LetterReader(RuleReader):
    """RuleReader for readings that hold more than phonemes."""

    def _ruled(self, word: str) -> str:
        return self._sounds(word)


def letter_stages(
    code: Language, words: Mapping[str, str]
) -> tuple[Normalizer, RuleReader, RuleReader]:
    """Normalizer, and what reads words and sentences. `words`: the user's own. The stress inside a
    phrase stands in the reading.
    """
    settings = LETTER_LANGUAGES[code]
    reader = LetterReader(
        Rules(
            settings.grammar,
            settings.sounds,
            settings.spelled,
            lambda phonemes, _: phonemes,
            settings.joined,
            settings.confidence,
        ),
        words,
    )
    return settings.normalizer(settings.grammar), reader, reader
