"""A user's own words: a TSV or JSON file from word to Kokoro phonemes, checked line by line.

    Kokoro<TAB>kˈOkəɹO              # my.tsv; lines that begin with # are comments
    {"Kokoro": "kˈOkəɹO"}           # my.json

A lower-case word also holds for its capitalised form; possessives and inflections are built from it. An entry of several words is a phrase:
it is said so wherever it stands, before anything else is read. A mapping from Python takes the place of a file.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from core.errors import InputError
from core.staging import parse_json
from g2p.alphabet import to_kokoro
from g2p.symbols import unknown_symbol

MAX_BYTES = 50_000_000
THE_MAPPING = "the lexicon"
_MARKUP = re.compile(r"[\[\]()]")


@dataclass(frozen=True)
class UserLexicon:
    """Single words, and phrases of several."""

    words: Mapping[str, str]
    phrases: Mapping[str, str]


def user_lexicon(source: Path | str | Mapping[str, str] | None) -> UserLexicon:
    """The words of a file or a mapping, checked. Raises InputError naming place, word and symbol."""
    if source is None:
        return UserLexicon({}, {})
    if isinstance(source, Mapping):
        entries = _collected(
            (_checked(f"entry {number}", *_texts(number, *pair), THE_MAPPING) for number, pair in enumerate(source.items(), 1)), THE_MAPPING
        )
    else:
        entries = read_user_lexicon(Path(source))
    words = {word: phonemes for word, phonemes in entries.items() if " " not in word}
    return UserLexicon(words, {word: phonemes for word, phonemes in entries.items() if " " in word})


def _texts(number: int, word: object, phonemes: object) -> tuple[str, str]:
    if not isinstance(word, str) or not isinstance(phonemes, str):
        raise InputError(f"{THE_MAPPING}, entry {number}: {word!r} to {phonemes!r}; both are text, a word and its phonemes")
    return word, phonemes


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
    return _collected(_json_entries(text, path) if path.suffix.lower() == ".json" else _tsv_entries(text, path), path)


def _collected(found: Iterable[tuple[str, str, str]], path: Path | str) -> dict[str, str]:
    entries: dict[str, str] = {}
    for place, word, phonemes in found:
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
    content = parse_json(text, str(path), pairs=list)
    pairs: Iterable[object] = content if isinstance(content, list) else ()
    found = [pair for pair in pairs if isinstance(pair, tuple)]
    if not found:
        raise InputError(f'{path}: the lexicon is one object, {{"word": "phonemes"}}')
    for number, (word, phonemes) in enumerate(found, 1):
        if not isinstance(phonemes, str):
            raise InputError(f"{path}, entry {number}: the phonemes of {word!r} are no text")
        yield _checked(f"entry {number}", word, phonemes, path)


def _checked(place: str, word: str, phonemes: str, path: Path | str) -> tuple[str, str, str]:
    word, phonemes = " ".join(word.replace("’", "'").split()), to_kokoro(phonemes.strip())
    if not any(character.isalpha() for character in word):
        raise InputError(f"{path}, {place}: {word!r} holds no letters; a line is word<TAB>phonemes")
    if " " in word and not (word[0].isalnum() and word[-1].isalnum() and not _MARKUP.search(word)):
        raise InputError(
            f"{path}, {place}: the phrase {word!r} never matches: it begins and ends with a letter or digit and holds no brackets"
        )
    if not phonemes:
        raise InputError(f"{path}, {place}: {word!r} has no phonemes")
    symbol = unknown_symbol(phonemes)
    if symbol is not None:
        raise InputError(f"{path}, {place}: {symbol!r} (U+{ord(symbol):04X}) in the phonemes of {word!r} is not in Kokoro's vocabulary")
    return place, word, phonemes
