"""Frequent words of a language and what espeak-ng says of them, as the voices of Kokoro were trained: for development only.

    words = frequent_words("es", 10_000)
    espeak("es", words)                        # Kokoro's symbols, through misaki 0.9.4

Words come from the package wordfreq 3.1.1 (CC BY-SA 4.0; read as a file, with msgpack); neither it nor espeak-ng is needed at run time.
"""

import gzip
import hashlib
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from core.errors import InputError

COMMONEST = 10_000  # half of them judge: `judged`
_WORD = re.compile(r"[a-zà-öø-ÿœ]{2,}")


def frequent_words(language: str, count: int) -> list[str]:
    """The commonest words of two letters or more, the commonest first. Raises InputError when wordfreq or msgpack is not installed."""
    spec = find_spec("wordfreq")
    if spec is None or not spec.submodule_search_locations or find_spec("msgpack") is None:
        raise InputError("wordfreq and msgpack are not installed: `pip install --no-deps wordfreq==3.1.1 msgpack`")
    import msgpack

    path = Path(spec.submodule_search_locations[0]) / "data" / f"large_{language}.msgpack.gz"
    _, *bins = msgpack.unpackb(gzip.decompress(path.read_bytes()), raw=False)
    return [word for words in bins for word in words if _WORD.fullmatch(word)][:count]


def judged(word: str) -> bool:
    """Whether a word is of the half that judges, by hash; the other half is for choices."""
    return hashlib.sha256(f"languages {word}".encode()).digest()[0] % 2 == 1


def espeak(language: str, texts: Sequence[str]) -> list[str]:
    """What espeak-ng says in Kokoro's symbols, one text at a time. Raises InputError when misaki's espeak parts are not installed."""
    try:
        from misaki.espeak import EspeakG2P
    except ImportError as problem:
        raise InputError(f"misaki with espeak-ng is not installed ({problem}): run `make venv`") from None
    reader = EspeakG2P(language)
    return [reader(text)[0] for text in texts]
