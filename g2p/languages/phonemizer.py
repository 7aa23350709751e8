"""G2P of a language read by rule: the same call, Result, overrides and lexicons as in English.

RuleG2P.of("es", {}, {}).phonemize("Hola.")
"""

from collections.abc import Mapping

from g2p.languages.normalize import NORMALIZERS
from g2p.languages.reader import RuleReader
from g2p.languages.registry import LANGUAGES, Code
from g2p.overrides import Phrases
from g2p.phonemizer import G2P


class RuleG2P(G2P):
    """G2P whose words are read by rule: no lists, no tagger, no network."""

    def __init__(self, code: Code, words: Mapping[str, str], phrases: Mapping[str, str]) -> None:
        reader = RuleReader(LANGUAGES[code], words)
        self._normalizer, self._dialect, self._unk = NORMALIZERS[code], code, None
        self._heteronyms, self._phrases = None, Phrases(phrases) if phrases else None
        self._reader, self._sentence_reader = reader, reader
