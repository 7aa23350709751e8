r"""Rows of a language by which numbers, dates, money, units and telephone numbers are said: a
pattern, what must stand before it, and what is said.

    rows = PatternRows.from_text(lines, {"number": cardinal, ...}, r"\d")    # of chinese.tsv
    rows.read("2月14日", 0)     # (5, "二月十四日")

A line is `name, before, pattern, say`, tabs between; `#` begins a comment, `slot` a name that
patterns use as {name}. The first row that matches counts. In `say`, {y:digits} is the group y said
by the verbalizer `digits`, {y} by `number`, and {all} is the whole match.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

WHOLE = "all"
LOOKED_BACK = 16  # characters before a match that `before` sees
_NAMED = re.compile(r"\{([a-z]+)\}")
# Text up to a brace, then a group and its verbalizer: `年` or `{y:digits}`
_SAID = re.compile(r"([^{}]*)(?:\{([a-z]+)(?::([a-z]+))?\})?")


@dataclass(frozen=True)
class PatternRow:
    """One row: `say` holds texts and groups with their verbalizers."""

    before: "re.Pattern[str] | None"
    pattern: "re.Pattern[str]"
    say: tuple[tuple[str, str, str], ...]  # text, then a group ("": none) and its verbalizer


@dataclass(frozen=True)
class PatternRows:
    """The rows of a language in order, and the functions that their parts are said by."""

    rows: tuple[PatternRow, ...]
    verbalizers: Mapping[str, Callable[[str], str]]
    begins: "re.Pattern[str]"  # a character where a row may begin

    @classmethod
    def from_text(
        cls, lines: str, verbalizers: Mapping[str, Callable[[str], str]], begins: str
    ) -> "PatternRows":
        """Read the rows of a file. Raises KeyError for a slot or a verbalizer that is not there."""
        slots: dict[str, str] = {}
        rows = []
        for line in lines.splitlines():
            if not line or line[0] == "#":
                continue
            # Columns at the end of a line may be missing: a slot has three.
            name, before, pattern, say = (line.split("\t") + ["", ""])[:4]
            if name == "slot":
                # A slot may name the slots above it.
                slots[before] = _fill(pattern, slots)
                continue
            # The pattern also matches the empty text at the end, which is dropped.
            parts = tuple(
                (part[1], part[2] or "", part[3] or "number")
                for part in _SAID.finditer(say)
                if part[0]
            )
            for _, group, verbalizer in parts:
                if group:
                    verbalizers[verbalizer]  # unknown ones raise here, not while a text is read
            # The anchor ties the pattern to the place right before the match.
            behind = re.compile(f"(?:{_fill(before, slots)})$") if before else None
            rows.append(PatternRow(behind, re.compile(_fill(pattern, slots)), parts))
        return cls(tuple(rows), verbalizers, re.compile(begins))

    def read(self, text: str, place: int) -> tuple[int, str] | None:
        """The end of what the first row matches at `place`, and what is said; None where none
        does.
        """
        # Few characters begin a row, and one test here spares all the others.
        if self.begins.match(text, place) is None:
            return None
        # A slice of its own, since $ must mean this place and not the end of the text.
        before = text[max(0, place - LOOKED_BACK) : place]
        for row in self.rows:
            match = row.pattern.match(text, place)
            # A match of nothing would not advance the scan.
            if match is None or match.end() == place:
                continue
            if row.before is None or row.before.search(before):
                return match.end(), self._read_match(row, match)
        return None

    def _read_match(self, row: PatternRow, match: "re.Match[str]") -> str:
        said = ""
        for words, group, verbalizer in row.say:
            said += words
            # An optional group without a match says nothing.
            matched = match[0] if group == WHOLE else match[group] if group else ""
            if matched:
                said += self.verbalizers[verbalizer](matched)
        return said


@dataclass(frozen=True)
class Numerals:
    """How a language says numbers and what is made of them."""

    cardinal: Callable[[str], str]  # a number as it is written
    names: Sequence[str]  # of the digits
    point: str  # between the parts of a version or an address
    signs: Mapping[str, str]
    joint: str = ""  # between words

    def read_digits(self, text: str) -> str:
        """The name of each digit; other characters are not said."""
        return self.joint.join([self.names[int(one)] for one in text if one.isdecimal()])

    def read_dotted(self, text: str) -> str:
        """The parts of a version or an address."""
        return self.point.join([self.read_digits(part) for part in text.split(".")])

    def sum(self, text: str) -> str:
        """Numbers and the signs between them."""
        # Numbers with commas and decimals, or single signs
        parts = re.findall(r"\d[\d,]*(?:\.\d+)?|[^\d\s]", text)
        return self.joint.join(
            [self.cardinal(one) if one[0].isdecimal() else self.signs.get(one, "") for one in parts]
        )

    def list_verbalizers(self) -> dict[str, Callable[[str], str]]:
        """The functions of a row's parts that all languages have."""
        return {
            "number": self.cardinal,
            "digits": self.read_digits,
            "dotted": self.read_dotted,
            "sum": self.sum,
            "text": lambda words: words.strip(),
        }


@dataclass(frozen=True)
class ReadingRow:
    """A reading of a word between what must be around it."""

    before: "re.Pattern[str]"
    after: "re.Pattern[str]"
    reading: str


def read_reading_rows(table: Sequence[Sequence[str]]) -> dict[str, list[ReadingRow]]:
    """Rows of a table by their word, in order. A row is a word, what stands before and after it as
    patterns, and the reading.
    """
    rows: dict[str, list[ReadingRow]] = {}
    for word, before, after, reading in table:
        # What stands before must end at the word, what stands after must begin there.
        row = ReadingRow(re.compile(f"(?:{before})$"), re.compile(after), reading)
        rows.setdefault(word, []).append(row)
    return rows


def choose_reading(rows: Sequence[ReadingRow], before: str, after: str) -> str:
    """The reading of the first row that fits; empty where none does."""
    for row in rows:
        if row.before.search(before) and row.after.match(after):
            return row.reading
    return ""


def _fill(pattern: str, slots: Mapping[str, str]) -> str:
    """A pattern with the slots that it names; braces with digits are repeats."""
    return _NAMED.sub(lambda match: f"(?:{slots[match[1]]})", pattern)
