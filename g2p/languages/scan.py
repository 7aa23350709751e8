"""What a scan of a text carries along: the tokens so far, and what was left out. Handlers of a
language write, its loop reads.

    scan = Scan("5 kg")
    scan.say("cinque chilogrammi", 0, 4)
    tuple(tokens_of(scan, cleaned))

Spoken text is a line of words: a mark of PUNCTUATION stands alone, hyphens part words.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from kokoro_ane.g2p.characters import Cleaned
from kokoro_ane.g2p.lines import BREAK
from kokoro_ane.g2p.result import PUNCTUATION, Drop, Kind, Token
from kokoro_ane.g2p.tags import markup_end

# text, start, end, kind, whether white space follows (None: look at the text)
Raw = tuple[str, int, int, Kind, bool | None]
SPOKEN = ("word", "letters")


@dataclass
class Scan:
    """Responsibilities: 1. tokens in order; 2. drops in order; 3. the left context a handler may
    ask for.
    """

    text: str
    tokens: list[Raw] = field(default_factory=list)
    drops: list[Drop] = field(default_factory=list)
    brackets: set[int] = field(default_factory=set)  # where > closes a placeholder

    def word(self, text: str, start: int, end: int, space: bool | None = None) -> int:
        """One word as the text writes it. Answers `end`."""
        self.tokens.append((text, start, end, "word", space))
        return end

    def letters(self, text: str, start: int, end: int) -> int:
        """An acronym, to be said letter by letter. Answers `end`."""
        self.tokens.append((text, start, end, "letters", None))
        return end

    def mark(self, text: str, start: int, end: int) -> int:
        """One mark of PUNCTUATION. Answers `end`."""
        self.tokens.append((text, start, end, "punctuation", None))
        return end

    def drop(self, start: int, end: int, category: str) -> int:
        """text[start:end] is not spoken. Answers `end`."""
        self.drops.append((start, end, category))
        return end

    def say(self, spoken: str, start: int, end: int, space: bool | None = None) -> int:
        """Words that share one span. Answers `end`."""
        pieces = spoken.replace("-", " ").split()
        for index, piece in enumerate(pieces):
            last = index == len(pieces) - 1
            after = space if last else pieces[index + 1] not in PUNCTUATION
            kind: Kind = "punctuation" if piece in PUNCTUATION else "word"
            self.tokens.append((piece, start, end, kind, after))
        return end

    def silent(self, start: int, end: int) -> None:
        """A hyphen or underscore inside a run: it belongs to the word before it; after none it is a
        symbol left out.
        """
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

    def previous(self) -> str:
        """Text of the token before, a mark included; empty at the start."""
        return self.tokens[-1][0] if self.tokens else ""


def line_break(scan: Scan, position: int) -> int:
    """A line break that is heard: a full stop, but behind the dot of an abbreviation that is one
    already.
    """
    if scan.tokens and (scan.tokens[-1][3] != "punctuation" or scan.tokens[-1][0] in ")”"):
        scan.tokens.append((".", position, position + 1, "punctuation", True))
    return position + 1


def tag(scan: Scan, position: int) -> int:
    """A tag, or either bracket of a placeholder, is dropped; anything else stays."""
    if position in scan.brackets:
        return scan.drop(position, position + 1, "bracket")
    end, closing = markup_end(scan.text, position)
    if closing:
        scan.brackets.add(closing)
    return scan.drop(position, end, "bracket" if closing else "markup") if end > position else end


def tokens_of(scan: Scan, cleaned: Cleaned) -> Iterator[Token]:
    """The scan's tokens with offsets of the original; two spoken ones that touch (5pm, 10–15) are
    said apart.
    """
    text, raw = scan.text, scan.tokens
    before = (0, 0)
    for (word, start, end, kind, space), after in zip(
        raw, [*(token[3] for token in raw[1:]), "punctuation"], strict=False
    ):
        if space is None or (space and kind in SPOKEN and after == "punctuation"):
            space = (
                text[end : end + 1].isspace()
                and text[end] != BREAK
                or (kind in SPOKEN and after in SPOKEN)
            )
        before = cleaned.span_behind(before, start, end)
        yield Token(word, *before, kind, space)
