"""What a verbalizer may ask for beside the text of its slot."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kokoro_ane.g2p.grammar.table import Slots
from kokoro_ane.g2p.result import Dialect

Known = Callable[[str], bool]  # whether a lexicon lists a string


class Reader(Protocol):
    """The grammar that a verbalizer is called by."""

    dialect: Dialect
    slots: Slots

    def entry(self, name: str, written: str) -> tuple[str, ...]:
        """What a word set has for a written form: spoken, plural, more."""


@dataclass(frozen=True)
class Context:
    """A verbalizer's grammar, the lexicon's list, and how many texts inside texts this one is."""

    grammar: Reader
    known: Known | None
    depth: int
