"""espeak-ng's answers in Kokoro's symbols: the other reader that benches and training compare with. No command speaks with it.

espeak_ng(["library"])
"""

import re
from collections.abc import Sequence

from kokoro_ane.core.errors import InputError
from kokoro_ane.g2p.alphabet import to_kokoro

ESPEAK_SYMBOLS = {
    "ʔˌn\u0329": "ʔn", "ʔn\u0329": "ʔn", "a^ɪ": "I", "a^ʊ": "W", "d^ʒ": "ʤ", "e^ɪ": "A", "t^ʃ": "ʧ", "ɔ^ɪ": "Y", "ə^l": "ᵊl", "o^ʊ": "O",
    "ʲo": "jo", "ʲə": "jə", "e": "A", "ʲ": "", "ɚ": "əɹ", "r": "ɹ", "x": "k", "ç": "k", "ɐ": "ə", "ɬ": "l", "\u0303": "",
}  # fmt: skip
AFTERWARDS = (("ɜːɹ", "ɜɹ"), ("ɜː", "ɜɹ"), ("ɪə", "iə"), ("ː", ""), ("o", "ɔ"), ("^", ""), ("-", ""), (" ", ""))  # in this order
SYLLABIC = re.compile("(\\S)\u0329")


def espeak_ng(words: Sequence[str]) -> list[str]:
    """Kokoro phonemes of each word by espeak-ng's American voice. Raises InputError when it is not installed."""
    try:
        import espeakng_loader
        from phonemizer.backend import EspeakBackend
        from phonemizer.backend.espeak.wrapper import EspeakWrapper
    except ModuleNotFoundError as problem:
        raise InputError(f"{problem}: espeakng_loader and phonemizer run espeak-ng; run `make venv`") from None
    EspeakWrapper.set_library(espeakng_loader.get_library_path())
    EspeakWrapper.set_data_path(espeakng_loader.get_data_path())
    backend = EspeakBackend(language="en-us", preserve_punctuation=True, with_stress=True, tie="^")
    return [from_espeak(answer) for answer in backend.phonemize(list(words))]


def from_espeak(answer: str) -> str:
    """espeak-ng's American IPA with ties -> Kokoro's symbols."""
    found = answer.strip()
    for theirs, ours in sorted(ESPEAK_SYMBOLS.items(), key=lambda pair: -len(pair[0])):
        found = found.replace(theirs, ours)
    found = SYLLABIC.sub(r"ᵊ\1", found).replace("\u0329", "")
    for theirs, ours in AFTERWARDS:
        found = found.replace(theirs, ours)
    return to_kokoro(found)
