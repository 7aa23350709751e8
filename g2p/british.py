"""American phonemes said by a British voice, for words that only American lists have: no r before a consonant, long vowels, ɒ.

    british("kˈɑɹsən", "carson")      # "kˈɑːsən"

A rule each from the textbooks of both accents (Wells, Accents of English, 1982: the lexical sets); spelling tells ɒ from ɑː and ɔː, which
American merges. How often it is right: docs/g2p.md.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property

from g2p.alphabet import to_kokoro
from g2p.lists import CMUDICT, OURS, ListFile
from g2p.result import US

_VOWEL = "(?=[ˈˌ]?[AIQWYaiuæɐɑɒɔəɛɜɪʊʌᵊ])"
_OTHER = _VOWEL.replace("(?=", "(?!")
_PLAIN = str.maketrans({"T": "t", "ᵻ": "ɪ", "æ": "a", "O": "Q"})


def british(phonemes: str, spelling: str) -> str:
    """The British form of American `phonemes` of a word spelled so."""
    text, letters = to_kokoro(phonemes).translate(_PLAIN), spelling.lower()
    rounded = "o" in letters
    for pattern, new in (
        ("ɜɹ", "ɜːɹ"),
        ("əɹ" + _OTHER, "ə"),
        ("ɑɹ" + _VOWEL, "ɒɹ" if rounded else "ɑːɹ"),
        ("ɑɹ", "ɑːɹ"),
        ("ɔɹ" + _VOWEL, "ɒɹ" if re.search("orr|or[aeiouy](?!$)", letters) else "ɔːɹ"),
        ("ɔɹ", "ɔːɹ"),
        ("ɛɹ" + _VOWEL, "ɛːɹ" if re.search("air|are$|ear|arah|ar[ai]$|ary$", letters) else "aɹ" if re.search("ar", letters) else "ɛɹ"),
        ("ɛɹ" + _OTHER, "ɛː"),
        ("ɪɹ", "ɪəɹ"),
        ("ʊɹ", "ʊəɹ"),
        ("ɹ" + _OTHER, ""),
        ("(?<=[ˈˌ])i", "iː"),
        ("(?<=[ˈˌj])u", "uː"),
        ("u$", "uː"),
        ("ɔ(?!ː)", "ɔː" if re.search("au|aw|al|ough|oa", letters) else "ɒ"),
        ("ɑ(?!ː)", "ɒ" if rounded else "ɑː"),
    ):
        text = re.sub(pattern, new, text)
    return text


class BritishList(Mapping[str, str]):
    """The American edited lists and CMUdict in British form, by lower-case word; both are read at the first look-up."""

    @cached_property
    def american(self) -> Mapping[str, str]:
        """Word to American phonemes: ours, gold, CMUdict; heteronyms give their default."""
        from g2p.misaki_data import read

        entries = {word: entry if isinstance(entry, str) else entry["DEFAULT"] for word, entry in read("us_gold").items()}
        gold = {word.lower(): sound for word, sound in entries.items() if sound and not word.isupper()}
        return {**ListFile(CMUDICT), **gold, **ListFile(OURS[US])}

    def __contains__(self, word: object) -> bool:
        return word in self.american

    def __getitem__(self, word: str) -> str:
        return british(self.american[word], word)

    def __iter__(self) -> Iterator[str]:
        return iter(self.american)

    def __len__(self) -> int:
        return len(self.american)
