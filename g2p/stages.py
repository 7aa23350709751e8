"""The trained stages, each loaded at the first word that needs it: text all in the lists waits for neither.

LateNeural("us").predict(["blorf"])
LateHeteronyms().choose(["They", "live"], 1, ("DEFAULT", "VERB"))
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from core.errors import InputError
from g2p.result import Dialect, Guess, Source
from g2p.symbols import unknown_symbol

if TYPE_CHECKING:
    from g2p.heteronyms import Heteronyms
    from g2p.neural import NeuralG2P


CLOSED = {"M": "MD", "D": "DT", "S": "PRP$", "P": "PRP", "O": "PRP", "I": "IN", "T": "TO", "C": "CC", "W": "WP", "0": "CD", "X": "EX"}


class LateNeural:
    """The bundled neural model (g2p/neural.py)."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    @cached_property
    def model(self) -> "NeuralG2P":
        """Loaded once. Raises InputError when the weights are missing or damaged."""
        from g2p.neural import NeuralG2P

        return NeuralG2P.load(dialect=self.dialect)

    def predict(self, words: Sequence[str]) -> list[Guess]:
        """One guess a word; an empty one means: spell it."""
        return self.model.predict(words)


class FallbackNeural:
    """A user's own reader of unknown words in the neural model's place. Raises InputError for symbols outside Kokoro's vocabulary."""

    source: Source = "fallback"

    def __init__(self, read: Callable[[str], str | None]) -> None:
        self._read = read

    def predict(self, words: Sequence[str]) -> list[Guess]:
        """One guess a word; what the reader has no answer for is spelled."""
        return [self._checked(word, self._read(word)) for word in words]

    def _checked(self, word: str, phonemes: str | None) -> Guess:
        symbol = unknown_symbol(phonemes or "")
        if symbol is not None:
            raise InputError(f"the fallback says {word!r} as {phonemes!r}: {symbol!r} is not in Kokoro's vocabulary")
        return Guess(phonemes or "", 1.0 if phonemes else 0.0)


class LateHeteronyms:
    """The bundled tagger and its choice (g2p/heteronyms.py)."""

    @cached_property
    def chooser(self) -> "Heteronyms":
        """Loaded once. Raises InputError when the tagger is missing or damaged."""
        from g2p.heteronyms import Heteronyms

        return Heteronyms.load()

    def tag(self, words: Sequence[str], index: int) -> str:
        """A Penn tag of `words[index]`: of a closed class by the word, of the others the tagger's likeliest."""
        tagger = self.chooser.tagger
        closed = CLOSED.get(tagger.classes(words[index])[:1])
        name = words[index][:1].isupper() and index > 0 and not words[index].isupper()
        return closed or ("NNP" if name else tagger.tag(words, index).upper())

    def choose(self, words: Sequence[str], index: int, keys: Sequence[str]) -> str:
        """One of `keys` for `words[index]`."""
        return self.chooser.choose(words, index, keys)
