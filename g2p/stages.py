"""The trained stages, each loaded at the first word that needs it: text all in the lists waits for neither numpy nor PyTorch.

LateNeural("us").predict(["blorf"])
LateHeteronyms().choose(["They", "live"], 1, ("DEFAULT", "VERB"))
"""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from g2p.result import Dialect, Guess

if TYPE_CHECKING:
    from g2p.heteronyms import Heteronyms
    from g2p.neural import NeuralG2P


class LateNeural:
    """The bundled neural model (g2p/neural.py)."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    @cached_property
    def model(self) -> "NeuralG2P":
        """Loaded once. Raises InputError when the weights are missing or damaged."""
        from g2p.neural import NeuralG2P

        return NeuralG2P.load()

    def predict(self, words: Sequence[str]) -> list[Guess]:
        """One guess a word; an empty one means: spell it."""
        return self.model.predict(words)


class LateHeteronyms:
    """The bundled tagger and its choice (g2p/heteronyms.py)."""

    @cached_property
    def chooser(self) -> "Heteronyms":
        """Loaded once. Raises InputError when the tagger is missing or damaged."""
        from g2p.heteronyms import Heteronyms

        return Heteronyms.load()

    def choose(self, words: Sequence[str], index: int, keys: Sequence[str]) -> str:
        """One of `keys` for `words[index]`."""
        return self.chooser.choose(words, index, keys)
