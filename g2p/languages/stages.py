"""The stages of a language read by rule, for g2p/phonemizer.py: no lists, no tagger, no network.

normalizer, reader, sentence_reader = rule_stages("es", {"Kokoro": "kˈokoɾo"})
"""

from collections.abc import Mapping

from g2p.languages.normalize import NORMALIZERS, Normalizer
from g2p.languages.reader import RuleReader
from g2p.languages.registry import LANGUAGES, Code


def rule_stages(code: Code, words: Mapping[str, str]) -> tuple[Normalizer, RuleReader, RuleReader]:
    """Normalizer, and what reads words and sentences. `words`: the user's own."""
    reader = RuleReader(LANGUAGES[code], words)
    return NORMALIZERS[code], reader, reader
