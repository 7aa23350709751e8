"""espeak-ng's answers in Kokoro's symbols, with which benches and training compare. No command
speaks with it.

read_by_espeak(["library"])
"""

import logging
import re
from collections.abc import Callable, Sequence
from typing import Any

from kokoro_g2p.alphabet import KNOWN, to_kokoro
from kokoro_g2p.errors import InputError
from kokoro_g2p.word_lists import parse_pairs

ESPEAK_SYMBOLS = parse_pairs(
    "ʔˌn̩:ʔn ʔn̩:ʔn a^ɪ:I a^ʊ:W d^ʒ:ʤ e^ɪ:A t^ʃ:ʧ ɔ^ɪ:Y ə^l:ᵊl o^ʊ:O ʲo:jo ʲə:jə e:A ʲ:"
    " ɚ:əɹ r:ɹ x:k ç:k ɐ:ə ɬ:l ̃:"
)
# in this order
AFTERWARDS = parse_pairs("ɜːɹ:ɜɹ ɜː:ɜɹ ɪə:iə ː: o:ɔ ^: -:") | {" ": ""}
UPSTREAM = parse_pairs("a^ɪ:I a^ʊ:W d^z:ʣ d^ʒ:ʤ e^ɪ:A o^ʊ:O s^s:S t^s:ʦ t^ʃ:ʧ ə^ʊ:Q ɔ^ɪ:Y")
SWITCH = re.compile(r"\(([a-z^]+)\)")
SYLLABIC = re.compile("(\\S)\u0329")


def read_by_espeak(words: Sequence[str]) -> list[str]:
    """Kokoro phonemes of each word by espeak-ng's American voice. Raises InputError when it is not
    installed.
    """
    return [from_espeak(answer) for answer in open_backend("en-us").phonemize(list(words))]


def open_backend(language: str, switches: str = "keep-flags") -> Any:
    """phonemizer's espeak-ng. Raises InputError when it is not installed."""
    try:
        import espeakng_loader
        from phonemizer.backend import EspeakBackend
        from phonemizer.backend.espeak.wrapper import EspeakWrapper
    except ModuleNotFoundError as problem:
        raise InputError(
            f"{problem}: espeakng_loader and phonemizer run espeak-ng; run `make venv`"
        ) from None
    EspeakWrapper.set_library(espeakng_loader.get_library_path())
    EspeakWrapper.set_data_path(espeakng_loader.get_data_path())
    quiet = logging.getLogger("espeak")
    quiet.setLevel(logging.ERROR)
    return EspeakBackend(
        language,
        preserve_punctuation=True,
        with_stress=True,
        tie="^",
        language_switch=switches,
        logger=quiet,
    )


def open_espeak(language: str) -> Callable[[str], str]:
    """Return a function from a text to the symbols that the voices of another language were trained
    on, misaki's for espeak-ng's. A foreign word begins with @.
    """
    speak = open_backend(language)

    def read(text: str) -> str:
        answer = SWITCH.sub(
            lambda flag: "" if flag[1].replace("^", "") == language[:2] else "@",
            speak.phonemize([text])[0].strip(),
        )
        for theirs, ours in UPSTREAM.items():
            answer = answer.replace(theirs, ours)
        return "".join(
            symbol for symbol in answer.replace("-", "") if symbol in KNOWN or symbol in " @\n"
        )

    return read


def from_espeak(answer: str) -> str:
    """espeak-ng's American IPA with ties -> Kokoro's symbols."""
    matches = answer.strip()
    # The longest first, since a short symbol is part of a long one.
    for theirs, ours in sorted(ESPEAK_SYMBOLS.items(), key=lambda pair: -len(pair[0])):
        matches = matches.replace(theirs, ours)
    # A syllabic consonant has a reduced vowel before it: button.
    matches = SYLLABIC.sub(r"ᵊ\1", matches).replace("\u0329", "")
    for theirs, ours in AFTERWARDS.items():
        matches = matches.replace(theirs, ours)
    return to_kokoro(matches)
