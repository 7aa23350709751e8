"""Text to Kokoro's American symbols for training: misaki's lexicon, inflections, weak forms. Not the g2p package: no tagger, no guessing.

    spell = Speller(read("us_silver") | read("us_gold"))     # g2p.misaki_data
    spell("I saw the owl, and a dog.")                       # 'ˌI sˈɔ ði ˈWl, ænd ɐ dˈɔɡ.'

Training needs exactness, not coverage: a word that the lexicon does not hold makes the sentence useless (None), and the generator writes
another. A heteronym has its default reading; where flite says the other one, the alignment is bad and the sentence is dropped.
Weak forms as misaki 0.9.4 has them (en.py, Lexicon.get_special_case and G2P.token_context).
"""

import re
from collections.abc import Mapping

from g2p.alphabet import PRIMARY, SECONDARY, to_kokoro
from g2p.morphology import SUFFIXES, stems, with_clitic
from g2p.result import PUNCTUATION, US
from g2p.symbols import PAUSES, VOWELS, restress

STRESSES = frozenset(PRIMARY + SECONDARY)
MARKS = frozenset(PUNCTUATION)
_PIECE = re.compile(r"[A-Za-z']+|[^\sA-Za-z']|\s+")
_CAPITAL_STRESS = 0.5  # misaki's level for a capitalized word


class Speller:
    """Responsibilities: 1. look words up; 2. weak forms by what follows; 3. put symbols, marks and spaces in order."""

    def __init__(self, lexicon: Mapping[str, str | Mapping[str, str | None]]) -> None:
        self.lexicon = lexicon

    def __call__(self, text: str) -> str | None:
        """Phonemes of a sentence, or None where a word is unknown."""
        spoken: list[str] = []
        vowel_follows: bool | None = None  # None: a pause follows
        for piece in reversed(_PIECE.findall(text)):
            if piece.isspace():
                spoken.append(" ")
            elif piece in MARKS:
                spoken.append(piece)
                vowel_follows = None if piece in PAUSES else vowel_follows
            else:
                phonemes = self._word(piece, vowel_follows)
                if phonemes is None:
                    return None
                spoken.append(phonemes)
                vowel_follows = next(symbol for symbol in phonemes if symbol not in STRESSES) in VOWELS
        return to_kokoro("".join(reversed(spoken)))

    def _word(self, word: str, vowel_follows: bool | None) -> str | None:
        weak = _weak_form(word, vowel_follows)
        if weak is not None:
            return weak
        phonemes = self._entry(word, vowel_follows) or self._inflected(word, vowel_follows)
        return restress(phonemes, _CAPITAL_STRESS) if phonemes is not None and word != word.lower() else phonemes

    def _entry(self, word: str, vowel_follows: bool | None) -> str | None:
        found = self.lexicon.get(word) or self.lexicon.get(word.lower()) or self.lexicon.get(word.capitalize())
        if found is None or isinstance(found, str):
            return found
        return (found.get("None") if vowel_follows is None else None) or found["DEFAULT"]

    def _inflected(self, word: str, vowel_follows: bool | None) -> str | None:
        base, apostrophe, clitic = word.lower().rpartition("'")
        if apostrophe:
            phonemes = self._entry(base, vowel_follows) or self._inflected(base, vowel_follows)
            return None if phonemes is None else with_clitic(to_kokoro(phonemes), clitic, US)
        for suffix, stem in stems(word.lower()):
            phonemes = self._entry(stem, vowel_follows)
            if phonemes is not None:
                return SUFFIXES[suffix](to_kokoro(phonemes), US)
        return None


def _weak_form(word: str, vowel_follows: bool | None) -> str | None:
    if word == "I":
        return SECONDARY + "I"
    match word.lower():
        case "a":
            return "ɐ"
        case "an":
            return "ɐn"
        case "am" if vowel_follows is not None:
            return "ɐm"
        case "the":
            return "ði" if vowel_follows else "ðə"
        case "to":
            return {None: "tu", False: "tə", True: "tʊ"}[vowel_follows]
        case "in":
            return PRIMARY + "ɪn" if vowel_follows is None else "ɪn"
    return None


def american_speller() -> Speller:
    """misaki's two American word lists, the hand-edited one first."""
    from g2p.misaki_data import read

    return Speller(read("us_silver") | read("us_gold"))
