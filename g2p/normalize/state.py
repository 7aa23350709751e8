"""What a scan carries along: the cleaned text, the tokens so far, what was left out. Handlers
write, the scan loop reads.

    state = Scan(text="5 kg", dialect="us")
    state.say("five kilograms", 0, 4)

Spoken text is a line of words. `~FBI` asks for letters, a mark of PUNCTUATION stands alone, hyphens
part words (`‑`, U+2011, joins them).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kokoro_ane.g2p.bundled import table
from kokoro_ane.g2p.morphology import stems
from kokoro_ane.g2p.result import PUNCTUATION, Dialect, Kind
from kokoro_ane.g2p.word_lists import word_set

# text, start, end, kind, whether white space follows (None: look at the text)
Raw = tuple[str, int, int, Kind, bool | None]
Drop = tuple[int, int, str]  # start, end, category


@dataclass
class Scan:
    """Responsibilities: 1. tokens in order; 2. drops in order; 3. the left context a handler may
    ask for.
    """

    text: str
    dialect: Dialect
    tokens: list[Raw] = field(default_factory=list)
    drops: list[Drop] = field(default_factory=list)
    quote_open: bool = False  # a single quotation mark waits for its partner
    double_open: bool = False  # a double one does
    brackets: set[int] = field(default_factory=set)  # where > closes a placeholder
    dated: int = 0  # where the last day of two numbers ended
    known: Callable[[str], bool] | None = None  # whether a lexicon lists a mixed-case string whole

    def word(self, text: str, start: int, end: int, space: bool | None = None) -> int:
        """One word as the text writes it. Answers `end`."""
        self.tokens.append((text, start, end, "word", space))
        return end

    def letters(self, text: str, start: int, end: int, space: bool | None = None) -> int:
        """An acronym, to be said letter by letter. Answers `end`."""
        self.tokens.append((text, start, end, "letters", space))
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
            kind: Kind = (
                "letters" if piece[0] == "~" else "punctuation" if piece in PUNCTUATION else "word"
            )
            self.tokens.append((piece.lstrip("~").replace("‑", "-"), start, end, kind, after))
        return end

    def owns(self, start: int, end: int) -> int:
        """The 's behind what was said last (PS5's, AT&T's, 3.11's). Answers `end`."""
        self.silent(start, end)
        text, first, last, kind, space = self.tokens[-1]
        self.tokens[-1] = (f"{text}'s", first, last, kind, space)
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

    def previous(self, back: int = 1) -> str:
        """Text of a token before, marks included; empty at the start."""
        return self.tokens[-back][0] if len(self.tokens) >= back else ""

    def previous_word(self) -> str:
        """Lower case of the last token where it is a word, else empty."""
        return (
            self.tokens[-1][0].lower()
            if self.tokens and self.tokens[-1][3] != "punctuation"
            else ""
        )

    def unlisted(self, word: str) -> bool:
        """Whether there is a lexicon that lists neither the word nor a stem of it."""
        return self.known is not None and not any(
            map(self.known, (word, *(stem for _, stem in stems(word))))
        )

    def space_before(self, position: int) -> bool:
        """Whether the text starts there or white space stands before it."""
        return position == 0 or self.text[position - 1].isspace()


# A handler looks at scan.text from a position, writes tokens or drops, and answers where it
# stopped; the same position: not mine.
Handler = Callable[[Scan, int], int]


def read(name: str) -> dict[str, Any]:
    """One file of the package's own data."""
    return table(f"normalize/{name}.json")


ABBREVIATIONS, MONEY, WEB, NAMES = read("abbreviations"), read("money"), read("web"), read("names")
_UNITS, _ACRONYMS = read("units"), read("acronyms")

MONTHS: tuple[str, ...] = tuple(NAMES["months"])
# Every form of a month's name -> its full name.
MONTH_FORMS = {name: name for name in MONTHS} | {
    key: value for key, value in ABBREVIATIONS["plain"].items() if value in MONTHS
}
WEEKDAY_NAMES = {
    key: value for key, value in ABBREVIATIONS["plain"].items() if value.endswith("day")
}
WEEKDAYS = word_set(NAMES["weekdays"])
REGNAL, COUNTED, VERSIONED, PAIRED, SCORE, DIAL = (
    word_set(NAMES[key]) for key in ("regnal", "counted", "versioned", "paired", "score", "dial")
)
YEAR_BEFORE = word_set(NAMES["year_before"])

READ, SPELLED, SHORT, AMBIGUOUS, KEEP = (
    word_set(_ACRONYMS[key]) for key in ("read", "spelled", "short", "ambiguous", "keep")
)
PREFIXES = word_set(_ACRONYMS["prefixes"])
RESPELLED: dict[str, str] = _ACRONYMS["respelled"] | {
    word: f"~{word.upper()}" for word in _ACRONYMS["small"].split()
}
# words that people write without vowels; by their beginning
SQUEEZED, CUT = (f" {_ACRONYMS[key]} " for key in ("squeezed", "cut"))

LETTERED = word_set(NAMES["lettered"])
STARTERS, COUNTED_NOUNS, NO_PLURALS, ARTICLES, NO_NOUNS, BEFORE_DEGREES, NUMERIC = (
    word_set(NAMES[key])
    for key in (
        "starters",
        "counted_nouns",
        "no_plurals",
        "articles",
        "no_nouns",
        "before_degrees",
        "numeric",
    )
)
SYMBOL_NAMES: dict[str, str] = read("symbols")["names"]
GREEK: dict[str, str] = read("symbols")["greek"]

DOMAINS, EXTENSIONS, WEB_WORDS, WEB_LETTERS = (
    word_set(WEB[key]) for key in ("domains", "extensions", "words", "letters")
)
BARE_DOMAINS = word_set(WEB["bare"])

WORDS: dict[str, tuple[str, ...]] = {
    key: tuple(words.split()) for key, words in _UNITS["words"].items()
}
UNIT_PLURALS: dict[str, str] = _UNITS["plural"]
UNITS: dict[str, str] = _UNITS["always"] | _UNITS["letter"]
SPACED_UNITS: dict[str, str] = _UNITS["spaced"]  # only with white space between number and unit


def alternation(words: "frozenset[str] | dict[str, Any] | tuple[str, ...]") -> str:
    """A regex alternation of literal words, longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))
