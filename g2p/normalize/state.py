"""What a scan carries along: the cleaned text, the tokens so far, what was left out. Handlers write, the scan loop reads.

    state = Scan(text="5 kg", dialect="us")
    state.say("five kilograms", 0, 4)

Spoken text is a line of words. `~FBI` asks for letters, a mark of PUNCTUATION stands alone, hyphens part words (`‑`, U+2011, joins them).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from g2p.result import PUNCTUATION, Dialect, Kind

# text, start, end, kind, whether white space follows (None: look at the text)
Raw = tuple[str, int, int, Kind, bool | None]
Drop = tuple[int, int, str]  # start, end, category


@dataclass
class Scan:
    """Responsibilities: 1. tokens in order; 2. drops in order; 3. the left context a handler may ask for."""

    text: str
    dialect: Dialect
    tokens: list[Raw] = field(default_factory=list)
    drops: list[Drop] = field(default_factory=list)
    quote_open: bool = False  # a single quotation mark waits for its partner
    double_open: bool = False  # a double one does
    known: Callable[[str], bool] | None = None  # whether a lexicon lists a mixed-case string whole

    def word(self, text: str, start: int, end: int, space: bool | None = None) -> None:
        """One word as the text writes it."""
        self.tokens.append((text, start, end, "word", space))

    def letters(self, text: str, start: int, end: int, space: bool | None = None) -> None:
        """An acronym, to be said letter by letter."""
        self.tokens.append((text, start, end, "letters", space))

    def mark(self, text: str, start: int, end: int) -> None:
        """One mark of PUNCTUATION."""
        self.tokens.append((text, start, end, "punctuation", None))

    def drop(self, start: int, end: int, category: str) -> None:
        """text[start:end] is not spoken."""
        self.drops.append((start, end, category))

    def say(self, spoken: str, start: int, end: int, space: bool | None = None) -> None:
        """Words that share one span."""
        pieces = spoken.replace("-", " ").split()
        for index, piece in enumerate(pieces):
            last = index == len(pieces) - 1
            after = space if last else pieces[index + 1] not in PUNCTUATION
            kind: Kind = "letters" if piece[0] == "~" else "punctuation" if piece in PUNCTUATION else "word"
            self.tokens.append((piece.lstrip("~").replace("‑", "-"), start, end, kind, after))

    def silent(self, start: int, end: int) -> None:
        """A hyphen or underscore inside a run: it belongs to the word before it; after none it is a symbol left out."""
        if not self.tokens or self.tokens[-1][2] != start:
            self.drop(start, end, "symbol")
            return
        first, index = self.tokens[-1][1], len(self.tokens) - 1
        while index >= 0 and self.tokens[index][1:3] == (first, start):
            text, _, _, kind, space = self.tokens[index]
            self.tokens[index] = (text, first, end, kind, space)
            index -= 1

    def space_last(self) -> None:
        """The last token is spoken apart from the next, though no white space stands between."""
        text, start, end, kind, _ = self.tokens[-1]
        self.tokens[-1] = (text, start, end, kind, True)

    def previous(self, back: int = 1) -> str:
        """Text of a token before, marks included; empty at the start."""
        return self.tokens[-back][0] if len(self.tokens) >= back else ""

    def previous_word(self) -> str:
        """Lower case of the last token where it is a word, else empty."""
        return self.tokens[-1][0].lower() if self.tokens and self.tokens[-1][3] != "punctuation" else ""

    def space_before(self, position: int) -> bool:
        """Whether the text starts there or white space stands before it."""
        return position == 0 or self.text[position - 1].isspace()


# A handler looks at scan.text from a position, writes tokens or drops, and answers where it stopped; the same position: not mine.
Handler = Callable[[Scan, int], int]
