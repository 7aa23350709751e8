"""Word lists: misaki's, ours by hand, CMUdict in Kokoro's symbols, and the American ones said by a
British voice.

    ListFile(CMUDICT)["thompson"]
    british("kˈɑɹsən", "carson")      # "kˈɑːsən"

A line is word, tab, phonemes. CMUdict's file was made at commit ec85133;
ours_us.tsv and ours_gb.tsv are written by hand. The British form is a rule each from the textbooks
of both accents (Wells, Accents of English, 1982: the lexical sets); spelling tells ɒ from ɑː and
ɔː, which American merges. What the lists are for, and how often they are right: docs/g2p.md.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from kokoro_ane.core.errors import InputError
from kokoro_ane.g2p.alphabet import to_kokoro
from kokoro_ane.g2p.bundled import AGAIN, DATA, table, text
from kokoro_ane.g2p.result import GB, US, Dialect

CMUDICT = DATA / "cmudict.txt.gz"
OURS: Mapping[Dialect, Path] = {US: DATA / "ours_us.tsv", GB: DATA / "ours_gb.tsv"}


def word_set(text: str) -> frozenset[str]:
    """The words of a list written as text."""
    return frozenset(text.split())


def pairs(text: str) -> dict[str, str]:
    """A table written as text: `pairs("a:be ce:d_e")` is `{"a": "be", "ce": "d e"}`."""
    return dict(pair.replace("_", " ").split(":") for pair in text.split())


def word_sets(file: str, names: str) -> list[frozenset[str]]:
    """The sets of words in g2p/data/FILE.json by their names."""
    sets = table(f"{file}.json")
    return [word_set(sets[name]) for name in names.split()]


class ListFile(Mapping[str, str]):
    """A file of words as a mapping; nothing is read before the first look-up. Raises InputError
    when it is missing or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def entries(self) -> dict[str, str]:
        """Word to phonemes."""
        try:
            lines = text(self.path).split("\n")
        except (OSError, EOFError, UnicodeDecodeError) as problem:
            raise InputError(f"{self.path} is no list of words ({problem}); {AGAIN}") from None
        pairs = (line.partition("\t") for line in lines if line and line[0] != "#")
        return {word: phonemes for word, _, phonemes in pairs}

    def __contains__(self, word: object) -> bool:
        return word in self.entries

    def __getitem__(self, word: str) -> str:
        return self.entries[word]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


def extra_senses(dialect: Dialect) -> dict[str, dict[str, str]]:
    """This project's senses that misaki's gold list lacks, by word and key: `{"lead": {"METAL":
    "lˈɛd"}, ...}`.
    """
    return table("senses.json")[dialect]


MISAKI_VERSION = "0.9.4"
SHA256 = {
    "us_gold": "dc414872a49a28ae6c141463d502fd945f3b2fde040484fdc47d00cc4612686f",
    "us_silver": "de8f67be911bb6c659187b4a65fd966b6a30e56350e0f790d763210b053ac475",
    "gb_gold": "29e62f4b60261c88f7f3c2c7811ca3825978948090b72d2b27d565b729282f71",
    "gb_silver": "48131e2d92ccc41655f4543e87e0f938e71463eb5a54be7f0693bb712ebb6bce",
}
Entry = str | dict[str, str | None]


def data_folder() -> Path:
    """`misaki/data` of this Python, misaki itself not imported. Raises InputError when misaki is
    missing or of another version.
    """
    try:
        installed = version("misaki")
    except PackageNotFoundError:
        raise InputError(
            f"misaki {MISAKI_VERSION} is not installed: the lexicon comes from it; run `make venv`"
        ) from None
    if installed != MISAKI_VERSION:
        raise InputError(
            f"misaki {installed} is installed, the lexicon was built with {MISAKI_VERSION}: run"
            " `make venv`"
        )
    spec = find_spec("misaki")
    if spec is None or not spec.submodule_search_locations:
        raise InputError("misaki is installed without its files: run `make venv`")
    return Path(spec.submodule_search_locations[0]) / "data"


def read(name: str, folder: Path | None = None) -> dict[str, Entry]:
    """Entries of `us_gold`, `us_silver`, `gb_gold` or `gb_silver`. Raises InputError when the file
    is missing or has another SHA-256.
    """
    if name not in SHA256:
        raise InputError(f"there is no word list {name!r}: one of {', '.join(SHA256)}")
    path = (folder or data_folder()) / f"{name}.json"
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"{path} does not exist: misaki {MISAKI_VERSION} brings it; run `make venv`"
        ) from None
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != SHA256[name]:
        raise InputError(
            f"{path} has SHA-256 {sha256[:12]}, this repository was built with {SHA256[name][:12]}:"
            " run `make venv`"
        )
    return json.loads(content)


_VOWEL = "(?=[ˈˌ]?[AIQWYaiuæɐɑɒɔəɛɜɪʊʌᵊ])"
_OTHER = _VOWEL.replace("(?=", "(?!")
_PLAIN = str.maketrans({"T": "t", "ᵻ": "ɪ", "æ": "a", "O": "Q"})


_SOUNDS = [
    re.compile(pattern)
    for pattern in (
        "ɜɹ",
        "əɹ" + _OTHER,
        "ɑɹ" + _VOWEL,
        "ɑɹ",
        "ɔɹ" + _VOWEL,
        "ɔɹ",
        "ɛɹ" + _VOWEL,
        "ɛɹ" + _OTHER,
        "ɪɹ",
        "ʊɹ",
        "ɹ" + _OTHER,
        "(?<=[ˈˌ])i",
        "(?<=[ˈˌj])u",
        "u$",
        "ɔ(?!ː)",
        "ɑ(?!ː)",
    )
]


def british(phonemes: str, spelling: str) -> str:
    """The British form of American `phonemes` of a word spelled so."""
    text, letters = to_kokoro(phonemes).translate(_PLAIN), spelling.lower()
    rounded = "o" in letters
    forms = (
        "ɜːɹ",
        "ə",
        "ɒɹ" if rounded else "ɑːɹ",
        "ɑːɹ",
        "ɒɹ" if re.search("orr|or[aeiouy](?!$)", letters) else "ɔːɹ",
        "ɔːɹ",
        (
            "ɛːɹ"
            if re.search("air|are$|ear|arah|ar[ai]$|ary$", letters)
            else "aɹ"
            if re.search("ar", letters)
            else "ɛɹ"
        ),
        "ɛː",
        "ɪəɹ",
        "ʊəɹ",
        "",
        "iː",
        "uː",
        "uː",
        "ɔː" if re.search("au|aw|al|ough|oa", letters) else "ɒ",
        "ɒ" if rounded else "ɑː",
    )
    for pattern, form in zip(_SOUNDS, forms, strict=True):
        text = pattern.sub(form, text)
    return text


class BritishList(Mapping[str, str]):
    """The American edited lists and CMUdict in British form, by lower-case word; both are read at
    the first look-up.
    """

    @cached_property
    def american(self) -> Mapping[str, str]:
        """Word to American phonemes: ours, gold, CMUdict; heteronyms give their default."""
        entries = {
            word: entry if isinstance(entry, str) else entry["DEFAULT"]
            for word, entry in read("us_gold").items()
        }
        gold = {
            word.lower(): sound for word, sound in entries.items() if sound and not word.isupper()
        }
        return {**ListFile(CMUDICT), **gold, **ListFile(OURS[US])}

    def __contains__(self, word: object) -> bool:
        return word in self.american

    def __getitem__(self, word: str) -> str:
        return british(self.american[word], word)

    def __iter__(self) -> Iterator[str]:
        return iter(self.american)

    def __len__(self) -> int:
        return len(self.american)
