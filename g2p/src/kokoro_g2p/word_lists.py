"""Word lists: misaki's, ours by hand, CMUdict in Kokoro's symbols, and the American ones said by a
British voice.

    ListFile(CMUDICT)["thompson"]
    convert_to_british("kˈɑɹsən", "carson")      # "kˈɑːsən"

A line is word, tab, phonemes; misaki's lists have a form of their own (`read`). CMUdict's file was
made at commit ec85133; ours_us.tsv and ours_gb.tsv are written by hand. The British form is a rule
each from the textbooks of both accents (Wells, Accents of English, 1982: the lexical sets);
spelling tells ɒ from ɑː and ɔː, which American merges. What the lists are for, and how often they
are right: docs/g2p.md.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from kokoro_g2p.alphabet import to_kokoro
from kokoro_g2p.bundled import AGAIN, DATA, read_data_text, read_json
from kokoro_g2p.errors import InputError
from kokoro_g2p.result import GB, US, Dialect

CMUDICT = DATA / "cmudict.txt.gz"
OURS: Mapping[Dialect, Path] = {US: DATA / "ours_us.tsv", GB: DATA / "ours_gb.tsv"}


def parse_set(text: str) -> frozenset[str]:
    """The words of a list written as text."""
    return frozenset(text.split())


def parse_pairs(text: str) -> dict[str, str]:
    """A table written as text: `parse_pairs("a:be ce:d_e")` is `{"a": "be", "ce": "d e"}`."""
    return dict(pair.replace("_", " ").split(":") for pair in text.split())


def read_word_sets(file: str, names: str) -> list[frozenset[str]]:
    """The sets of words in g2p/data/FILE.json by their names."""
    sets = read_json(f"{file}.json")
    return [parse_set(sets[name]) for name in names.split()]


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
            lines = read_data_text(self.path).split("\n")
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


def read_extra_senses(dialect: Dialect) -> dict[str, dict[str, str]]:
    """This project's senses that misaki's gold list lacks, by word and key: `{"lead": {"METAL":
    "lˈɛd"}, ...}`.
    """
    return read_json("senses.json")[dialect]


# The four lists of data/ hold the entries of these JSON files of misaki, and nothing else:
# training/misaki_lists.py packed them.
MISAKI_VERSION = "0.9.4"
MISAKI_SHA256 = {
    "us_gold": "dc414872a49a28ae6c141463d502fd945f3b2fde040484fdc47d00cc4612686f",
    "us_silver": "de8f67be911bb6c659187b4a65fd966b6a30e56350e0f790d763210b053ac475",
    "gb_gold": "29e62f4b60261c88f7f3c2c7811ca3825978948090b72d2b27d565b729282f71",
    "gb_silver": "48131e2d92ccc41655f4543e87e0f938e71463eb5a54be7f0693bb712ebb6bce",
}
Entry = str | dict[str, str | None]


def describe_lists(names: Iterable[str]) -> dict[str, Any]:
    """Return where these lists of misaki come from, as a manifest says it."""
    return {
        "data": f"misaki {MISAKI_VERSION}, Apache-2.0",
        "sha256": {name: MISAKI_SHA256[name] for name in names},
    }


def read(name: str) -> dict[str, Entry]:
    """Return the entries of `us_gold`, `us_silver`, `gb_gold` or `gb_silver`. Raises InputError
    where there is no such list or its file is damaged.

    The file has three parts with a tab between: the words, a line each; their phonemes, a line
    each, empty for a heteronym; and the entries of the heteronyms as one JSON object.
    """
    if name not in MISAKI_SHA256:
        raise InputError(f"there is no word list {name!r}: one of {', '.join(MISAKI_SHA256)}")
    # Two columns in place of pairs are parsed in half the time, and packed 6 % smaller.
    words, phonemes, heteronyms = read_data_text(DATA / f"{name}.txt.gz").split("\t")
    entries: dict[str, Entry] = dict(zip(words.split("\n"), phonemes.split("\n"), strict=True))
    entries.update(json.loads(heteronyms))
    return entries


_VOWEL = "(?=[ˈˌ]?[AIQWYaiuæɐɑɒɔəɛɜɪʊʌᵊ])"
_OTHER = _VOWEL.replace("(?=", "(?!")
_PLAIN = str.maketrans({"T": "t", "ᵻ": "ɪ", "æ": "a", "O": "Q"})


# In this order, since a rule sees what those above it have made
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
        # No r is said that no vowel follows: it goes here, behind the vowels that it has
        # lengthened.
        "ɹ" + _OTHER,
        "(?<=[ˈˌ])i",
        "(?<=[ˈˌj])u",
        "u$",
        "ɔ(?!ː)",
        "ɑ(?!ː)",
    )
]


def convert_to_british(phonemes: str, spelling: str) -> str:
    """The British form of American `phonemes` of a word spelled so."""
    text = to_kokoro(phonemes).translate(_PLAIN)
    letters = spelling.lower()
    # An o in the spelling tells the vowel of stop from that of father, which American merges.
    rounded = "o" in letters
    forms = (
        "ɜːɹ",
        "ə",
        "ɒɹ" if rounded else "ɑːɹ",
        "ɑːɹ",
        # Forest and sorry have ɒ, story has ɔː.
        "ɒɹ" if re.search("orr|or[aeiouy](?!$)", letters) else "ɔːɹ",
        "ɔːɹ",
        # Fairy has ɛː, carry a, merry ɛ.
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
        # Law and taught have ɔː, long and dog ɒ.
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
        return convert_to_british(self.american[word], word)

    def __iter__(self) -> Iterator[str]:
        return iter(self.american)

    def __len__(self) -> int:
        return len(self.american)
