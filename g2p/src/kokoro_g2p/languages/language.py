"""Spanish, Italian, French and Brazilian Portuguese: what each language has of its own.

LANGUAGES["fr"].joined("le/leZ", "", "ɑ̃fˈɑ̃")  # "lez"
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from kokoro_g2p.bundled import DATA
from kokoro_g2p.languages import forms, french, italian, portuguese, spanish
from kokoro_g2p.languages.grammar import LanguageGrammar, read_words
from kokoro_g2p.languages.language_normalizer import Normalizer
from kokoro_g2p.result import Language as Code
from kokoro_g2p.word_lists import ListFile


@dataclass(frozen=True)
class Language:
    """A language by its functions and tables."""

    name: str  # of its files in g2p/data
    espeak: str
    grammar: LanguageGrammar
    normalizer: type[Normalizer]
    joined: Callable[[str, str, str], str]  # phonemes, those before and after it ("" at a pause)
    # the reading of a word, from what espeak-ng says
    probed: Callable[[str, Callable[[str], str], bool], str]
    elided: Mapping[str, str]  # what stands before an apostrophe
    confidence: float  # share of unseen words read as espeak-ng does (training/languages.py)
    adverb_ending: str = ""  # has a stress of its own behind the stress of its stem
    adverb_sounds: str = ""
    reduced: tuple[tuple[str, str], ...] = ()  # vowels of a stressed letter's name, and unstressed

    @property
    def compounds(self) -> tuple[str, ...]:
        """Words of several parts that may have a reading of their own, numbers among them."""
        listed = read_words(self.name).get("compounds", "").split()
        numbers = (
            word for number in range(100) for word in self.grammar.cardinal(number, "").split()
        )
        # A dictionary drops repeats and keeps the order, unlike a set.
        return tuple(dict.fromkeys((*listed, *(word for word in numbers if "-" in word))))

    @cached_property
    def normalize(self) -> Normalizer:
        """The function from written text to spoken words."""
        return self.normalizer(self.grammar)

    @cached_property
    def listed(self) -> Mapping[str, str]:
        """Words that the network reads otherwise than espeak-ng, to their readings."""
        return ListFile(DATA / f"{self.name}.txt.gz")


LANGUAGES: Mapping[Code, Language] = {
    "es": Language(
        "spanish",
        "es",
        spanish.SPANISH,
        Normalizer,
        spanish.joined,
        partial(forms.probed, "{} toma"),
        {},
        0.99,
        "mente",
        "mˈente",
        (("ɛ", "e"),),
    ),
    "it": Language(
        "italian",
        "it",
        italian.ITALIAN,
        Normalizer,
        italian.joined,
        partial(forms.probed, "casa {} cane"),
        italian.ELIDED,
        0.89,
    ),
    "fr": Language(
        "french",
        "fr-fr",
        french.FRENCH,
        french.FrenchNormalizer,
        french.joined,
        french.probed,
        french.ELIDED,
        0.95,
    ),
    "pt": Language(
        "portuguese",
        "pt-br",
        portuguese.PORTUGUESE,
        portuguese.PortugueseNormalizer,
        portuguese.joined,
        partial(forms.probed, "casas {} pato"),
        portuguese.ELIDED,
        0.95,
    ),
}
