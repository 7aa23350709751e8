"""A user's own words: a TSV or JSON file from word to Kokoro phonemes, checked line by line.

    Kokoro<TAB>kˈOkəɹO              # my.tsv; lines that begin with # are comments
    {"Kokoro": "kˈOkəɹO"}           # my.json

A lower-case word also holds for its capitalised form; possessives and inflections are built from it.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from core.errors import InputError
from g2p.symbols import unknown_symbol

MAX_BYTES = 50_000_000


def read_user_lexicon(path: Path) -> dict[str, str]:
    """Words and phonemes of `path`. Raises InputError naming file, line and symbol."""
    try:
        if not path.is_file():
            raise InputError(f"cannot read the lexicon {path}: {'it is not a file' if path.exists() else 'there is no such file'}")
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path} has {path.stat().st_size} bytes: a lexicon has at most {MAX_BYTES}")
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as problem:
        raise InputError(f"{path} is not UTF-8 text (byte {problem.start}): a lexicon is word<TAB>phonemes, or JSON") from None
    except OSError as problem:
        raise InputError(f"cannot read the lexicon {str(path)[:200]}: {problem.strerror}") from None
    entries: dict[str, str] = {}
    for place, word, phonemes in _json_entries(text, path) if path.suffix.lower() == ".json" else _tsv_entries(text, path):
        if word in entries and entries[word] != phonemes:
            raise InputError(f"{path}, {place}: {word!r} stands there a second time with other phonemes")
        entries[word] = phonemes
    if not entries:
        raise InputError(f"{path} holds no words: a line is word<TAB>phonemes")
    return entries


def _tsv_entries(text: str, path: Path) -> Iterator[tuple[str, str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        word, tab, phonemes = line.partition("\t")
        if not tab:
            raise InputError(f"{path}, line {number}: no tab in {line[:40]!r}; a line is word<TAB>phonemes")
        yield _checked(f"line {number}", word, phonemes, path)


def _json_entries(text: str, path: Path) -> Iterator[tuple[str, str, str]]:
    try:
        content = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError) as problem:  # ValueError: also a number of 5,000 digits
        raise InputError(f"{path} is not JSON: {problem}") from None
    pairs: Iterable[object] = content if isinstance(content, list) else ()
    found = [pair for pair in pairs if isinstance(pair, tuple)]
    if not found:
        raise InputError(f'{path}: the lexicon is one object, {{"word": "phonemes"}}')
    for number, (word, phonemes) in enumerate(found, 1):
        if not isinstance(phonemes, str):
            raise InputError(f"{path}, entry {number}: the phonemes of {word!r} are no text")
        yield _checked(f"entry {number}", word, phonemes, path)


def _checked(place: str, word: str, phonemes: str, path: Path) -> tuple[str, str, str]:
    word, phonemes = word.strip().replace("’", "'"), phonemes.strip()
    if not word or any(character.isspace() for character in word) or not any(character.isalpha() for character in word):
        raise InputError(f"{path}, {place}: {word!r} is not one word; several words take an inline override, [two words](/phonemes/)")
    if not phonemes:
        raise InputError(f"{path}, {place}: {word!r} has no phonemes")
    symbol = unknown_symbol(phonemes)
    if symbol is not None:
        raise InputError(f"{path}, {place}: {symbol!r} (U+{ord(symbol):04X}) in the phonemes of {word!r} is not in Kokoro's vocabulary")
    return place, word, phonemes
