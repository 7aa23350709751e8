"""A user's own words and phrases: a TSV or JSON file, or a mapping, from text to Kokoro phonemes,
checked line by line.

    Kokoro<TAB>kˈOkəɹO              # my.tsv; lines that begin with # are comments
    {"Kokoro": "kˈOkəɹO"}           # my.json

A lower-case word also holds for its capitalised form; possessives and inflections are built from
it. An entry of several words is a phrase: it is said so wherever it stands, before anything else is
read.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from kokoro_g2p.alphabet import find_unknown_symbol, to_kokoro
from kokoro_g2p.errors import InputError
from kokoro_g2p.files import parse_json

MAX_BYTES = 50_000_000
_MARKUP = re.compile(r"[\[\]()]")


def load_user_lexicon(
    source: Path | str | Mapping[str, str] | None,
) -> tuple[dict[str, str], dict[str, str]]:
    """The checked entries of a file or a mapping: single words, and phrases of several words.
    Raises InputError naming place, word and symbol.
    """
    if source is None:
        return {}, {}
    if isinstance(source, Mapping):
        entries = _collect(_number_rows(source.items()), "the lexicon")
    else:
        entries = read_user_lexicon(Path(source))
    phrases = {text: phonemes for text, phonemes in entries.items() if " " in text}
    words = {text: phonemes for text, phonemes in entries.items() if text not in phrases}
    return words, phrases


def read_user_lexicon(path: Path) -> dict[str, str]:
    """The checked entries of a file. Raises InputError naming file, line and symbol."""
    try:
        if not path.is_file():
            raise InputError(
                f"cannot read the lexicon {path}:"
                f" {'it is not a file' if path.exists() else 'there is no such file'}"
            )
        if path.stat().st_size > MAX_BYTES:
            raise InputError(
                f"{path} has {path.stat().st_size} bytes: a lexicon has at most {MAX_BYTES}"
            )
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as problem:
        raise InputError(
            f"{path} is not UTF-8 text (byte {problem.start}): a lexicon is word<TAB>phonemes, or"
            " JSON"
        ) from None
    except OSError as problem:
        raise InputError(f"cannot read the lexicon {str(path)[:200]}: {problem.strerror}") from None
    if path.suffix.lower() != ".json":
        return _collect(_split_lines(text), path)
    pairs = parse_json(text, str(path), pairs=tuple)
    if not isinstance(pairs, tuple):
        raise InputError(f'{path}: the lexicon is one object, {{"word": "phonemes"}}')
    return _collect(_number_rows(pairs), path)


def _number_rows(pairs: Iterable[tuple[object, object]]) -> Iterator[tuple[str, object, object]]:
    for number, (word, phonemes) in enumerate(pairs, 1):
        yield f"entry {number}", word, phonemes


def _split_lines(text: str) -> Iterator[tuple[str, object, object]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            word, _, phonemes = line.partition("\t")
            yield f"line {number}", word, phonemes


def _collect(rows: Iterable[tuple[str, object, object]], path: Path | str) -> dict[str, str]:
    """The entries of rows of place, word and phonemes, each checked."""
    entries: dict[str, str] = {}
    for place, word, phonemes in rows:
        if not isinstance(word, str) or not isinstance(phonemes, str):
            raise InputError(
                f"{path}, {place}: {word!r} to {phonemes!r}; both are text, a word and its phonemes"
            )
        word, phonemes = _check_entry(f"{path}, {place}", word, phonemes)
        # The same entry twice does no harm, a different one does.
        if entries.setdefault(word, phonemes) != phonemes:
            raise InputError(
                f"{path}, {place}: {word!r} stands there a second time with other phonemes"
            )
    if not entries:
        raise InputError(f"{path} holds no words: a line is word<TAB>phonemes")
    return entries


def _check_entry(place: str, word: str, phonemes: str) -> tuple[str, str]:
    word = " ".join(word.replace("’", "'").split())
    phonemes = to_kokoro(phonemes.strip())
    if not any(character.isalpha() for character in word):
        raise InputError(f"{place}: {word!r} holds no letters; a line is word<TAB>phonemes")
    if not phonemes:
        raise InputError(f"{place}: {word!r} has no phonemes; a line is word<TAB>phonemes")
    if " " in word and not (word[0].isalnum() and word[-1].isalnum() and not _MARKUP.search(word)):
        raise InputError(
            f"{place}: the phrase {word!r} never matches: it begins and ends with a letter"
            " or digit and holds no brackets"
        )
    symbol = find_unknown_symbol(phonemes)
    if symbol is not None:
        raise InputError(
            f"{place}: {symbol!r} (U+{ord(symbol):04X}) in the phonemes of {word!r} is not"
            " in Kokoro's vocabulary"
        )
    return word, phonemes
