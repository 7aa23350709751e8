"""The state of a scan of a text: the pieces so far, which the handlers of a language write.

scan = start_scan("5 kg")
scan.say("cinque chilogrammi", 0, 4)
build_normalized(scan.pieces, cleaned)      # g2p/grammar/tokens.py
"""

from dataclasses import dataclass

from kokoro_g2p.grammar.interpreter import Signs
from kokoro_g2p.grammar.tokens import SpokenPiece

# what another script leaves to the English reader: words, and addresses
LATIN_RUN = r"[A-Za-zÀ-ÖØ-öø-ÿ]+(?:['’.&+-](?=[A-Za-zÀ-ÿ])[A-Za-zÀ-ÖØ-öø-ÿ]+)*"
ADDRESS = (
    r"[A-Za-z0-9_.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
    r"|(?:https?://|www\.)[!-~]*[A-Za-z0-9/]"
)


def start_scan(text: str) -> "Scan":
    """A scan of a text of which nothing is read yet."""
    # A piece without a place stands for the beginning of the text.
    return Scan(text, [], SpokenPiece(-1, -1, ""), Signs())


@dataclass
class Scan:
    """Responsibilities: 1. pieces in order; 2. the left context that a handler may ask for."""

    text: str
    pieces: list[SpokenPiece]
    last: SpokenPiece  # the last piece that is spoken
    signs: Signs

    def say(self, words: str, start: int, end: int, kind: str = "spoken") -> int:
        """Words or a mark for text[start:end]; kind "": one word as the text writes it. Words with
        hyphens (dix-huit) stay whole. Answers `end`.
        """
        # A non-breaking hyphen keeps a compound one word, where a plain one would part it.
        words = words.replace("-", "‑") if kind else words
        if words.strip():
            self.last = SpokenPiece(start, end, words, kind)
            self.pieces.append(self.last)
        return end

    def extend(self, end: int) -> None:
        """Extend the last piece to `end`: a hyphen inside a run."""
        # An expression of several words is several pieces with one span; all of them grow.
        span = (self.last.start, self.last.end)
        for piece in reversed(self.pieces):
            if (piece.start, piece.end) != span:
                break
            piece.end = end

    def drop(self, start: int, end: int, category: str) -> None:
        """Mark text[start:end] as not spoken."""
        self.pieces.append(SpokenPiece(start, end, "", category))

    @property
    def previous(self) -> str:
        """The word or mark before; empty at the start."""
        # A compound's hyphen parts it again here: the word before is its last part.
        return self.last.words.replace("‑", " ").split()[-1] if self.last.words else ""
