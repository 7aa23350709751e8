"""Word lists of this repository: ours by hand, and CMUdict in Kokoro's symbols, each read at the first word that asks for it.

    ListFile(CMUDICT)["thompson"]

A line is word, tab, phonemes. g2p.training.cmudict makes CMUdict's file; ours_us.tsv and ours_gb.tsv are written by hand. What the two
lists are for, and how often they are right: docs/g2p.md.
"""

import gzip
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from core.errors import InputError
from g2p.result import GB, US, Dialect

DATA = Path(__file__).parent / "data"
CMUDICT = DATA / "cmudict.txt.gz"
OURS: Mapping[Dialect, Path] = {US: DATA / "ours_us.tsv", GB: DATA / "ours_gb.tsv"}


class ListFile(Mapping[str, str]):
    """A file of words as a mapping; nothing is read before the first look-up. Raises InputError when it is missing or damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def entries(self) -> dict[str, str]:
        """Word to phonemes."""
        try:
            content = self.path.read_bytes()
            text = (gzip.decompress(content) if self.path.suffix == ".gz" else content).decode("utf-8")
            pairs = (line.partition("\t") for line in text.split("\n") if line and line[0] != "#")
            return {word: phonemes for word, _, phonemes in pairs}
        except (OSError, EOFError, ValueError) as problem:
            raise InputError(f"{self.path} is no list of words ({problem}): `git checkout g2p/data` brings it back") from None

    def __contains__(self, word: object) -> bool:
        return word in self.entries

    def __getitem__(self, word: str) -> str:
        return self.entries[word]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)
