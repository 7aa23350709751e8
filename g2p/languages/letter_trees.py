"""Words to sounds by decision trees, one for each letter: what a letter is said as, asked of the
letters around it.

    LetterTrees.load("french")("maisons")     # "mɛzɔ̃Z": Z is said before a vowel only

A question is "does the letter at this place belong to this set", or the same of what the two
letters before were said as, and of the first accent written after and before. A first set of trees
votes whether the word is a foreign one, which has trees of its own. `python -m training.grow_trees`
grows them on what espeak-ng says of the commonest words; the words that they read wrong are a list
beside them.
"""

import io
from dataclasses import dataclass

from kokoro_ane.core.tensor_files import read_npz
from kokoro_ane.g2p.bundled import DATA, content

# the first: beyond the word
LETTERS = "#abcdefghijklmnopqrstuvwxyzàáâãäåæçèéêëìíîïñòóôõöøùúûüýÿœðþß"
GROUPS = (
    "aeiouyàáâãäåæèéêëìíîïòóôõöøùúûüýÿœ",
    "eiyéèêëîïíæœ",
    "aouàâäôöùûüáóúãõ",
    "bcdfghjklmnpqrstvwxzçñ",
    "bdgjlmnrvwz",
    "cfhkpqstx",
    "mn",
    "lr",
    "#es",
)
ID = {letter: place for place, letter in enumerate(LETTERS)}
SETS = tuple(frozenset((place,)) for place in range(len(LETTERS))) + tuple(
    frozenset(map(ID.__getitem__, group)) for group in GROUPS
)
# letters on either side, answers before, and accents after and before, that can be asked about
SPAN, BEFORE, ACCENTS = 7, 2, 2
ACCENTED = frozenset(map(ID.__getitem__, "áéíóúâêôãõ"))
LEAF = 255
OWN, FOREIGN, WHICH = range(3)  # sets of trees
DOUBT = 30  # votes that a foreign word has at least
RARE, NOTHING = 1, 0  # codes of an answer before: beyond the frequent ones, or none


def window(row: list[int], place: int, before: list[int]) -> list[int]:
    """Codes that are asked about. `row`: letters with SPAN zeros around; `before`: answers so far,
    the last one last.
    """
    codes = [code + 2 if code + 3 < len(LETTERS) else RARE for code in before[: -BEFORE - 1 : -1]]
    sides = () if ACCENTED.isdisjoint(row) else (row[place + SPAN + 1 :], row[: place + SPAN])
    marks = [next(filter(ACCENTED.__contains__, side), NOTHING) for side in sides] or [
        NOTHING
    ] * ACCENTS
    return (
        row[place : place + SPAN]
        + row[place + SPAN + 1 : place + 2 * SPAN + 1]
        + codes
        + [NOTHING] * (BEFORE - len(codes))
        + marks
    )


def padded(word: str) -> list[int]:
    """Letters as codes, SPAN zeros around."""
    return [0] * SPAN + [ID[letter] for letter in word] + [0] * SPAN


@dataclass(frozen=True)
class LetterTrees:
    """Nodes in a row. A node asks place `where` for set `what`: yes is the next node, no is `no`
    nodes on; of a leaf `no` is the value.
    """

    where: list[int]
    what: list[int]
    no: list[int]
    roots: list[list[int]]  # of each set of trees by letter; -1: no tree
    chunks: list[str]  # answers, the commonest first

    @classmethod
    def load(cls, language: str) -> "LetterTrees":
        """The bundled trees. Raises InputError when they are missing or damaged."""
        names = ("where", "what", "no", "roots", "chunks")
        arrays = read_npz(io.BytesIO(content(DATA / f"{language}.npz")), names=names)
        where, what, no, roots, chunks = (arrays[name].tolist() for name in names)
        return cls(where, what, no, roots, bytes(chunks).decode().split("\n"))

    def __call__(self, word: str) -> str:
        """Sounds of a word in lower case; empty for one with a character outside LETTERS."""
        if not ID.keys() >= set(word):
            return ""
        row = padded(word)
        kind = (
            FOREIGN
            if sum(self._answer(WHICH, row, place, []) for place in range(len(word))) > DOUBT
            else OWN
        )
        spoken: list[int] = []
        for place in range(len(word)):
            spoken.append(self._answer(kind, row, place, spoken))
        return "".join(self.chunks[code] for code in spoken)

    def _answer(self, kind: int, row: list[int], place: int, before: list[int]) -> int:
        node = self.roots[kind][row[place + SPAN]]
        if node < 0:
            return 0
        codes = [] if self.where[node] == LEAF else window(row, place, before)
        while self.where[node] != LEAF:
            node += 1 if codes[self.where[node]] in SETS[self.what[node]] else self.no[node]
        return self.no[node]
