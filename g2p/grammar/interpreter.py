"""The grammar's interpreter: at each place of a text the longest matching row wins, then its weight.

    grammar = grammar_of("us")
    grammar.normalize("Flight 112 leaves at 5:30pm.")   # Normalized
    grammar.explain("5:30pm")                           # rows that matched, the winner first

A plain word costs one look-up: only rows that list it are tried. Anything else tries the rows that
can begin with its first character.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from kokoro_ane.g2p.characters import LATIN, Cleaned, clean
from kokoro_ane.g2p.grammar.table import Row, Slots, compile_row, read_table
from kokoro_ane.g2p.grammar.verbalizers import VERBALIZERS
from kokoro_ane.g2p.lines import BREAK, with_breaks
from kokoro_ane.g2p.result import PUNCTUATION, Dialect, Kind, Normalized, Token

LETTERS = re.compile(r"[^\W\d_]+")
# A plain word between spaces or common marks, and a word with its apostrophes and hyphens.
ENDED = r"(?=[ \n]|[,;!?]+(?:[ \n]|$)|[.:](?:[ \n]|$)|$)"
WHOLE = re.compile(rf"[A-Za-z][a-zà-ÿ]+(?:'[a-z]+)?{ENDED}")
PLAIN = re.compile(rf"(?:^|[ \n])(([A-Za-z][a-zà-ÿ]+)(?:'[a-z]+)?){ENDED}")
PART = rf"[{LATIN}]+(?:'[{LATIN}]+)*"
WORD = re.compile(rf"{PART}(?:-{PART})*(?:(?<=[sS])'(?=[\s.,;:!?)]|$))?")
CLITIC = re.compile(r"'s(?!\w)")
INSIDE = re.compile(r"\B\w")  # a word goes on here
SPOKEN = re.compile(r"\[([^\]]*)\]('?s)?|([;:,.!?—…\"()“”])|([^\s;:,.!?—…\"()“”\[\]-]+)")
CONTEXT = 40  # characters before a place that a row may ask for
SAID = ("word", "letters")
DEEPEST = 3  # grammars inside grammars: a slot that is read as text
RUN = re.compile(r"\.{2,}|-{2,}|([!?,;:])\1*|…+|—+|\.")
MARKS = frozenset(PUNCTUATION)
STOPS, SPACES = frozenset(",.;:!?"), frozenset(("", " ", "\n"))  # no row begins with both
SAME_MARK = {"[": "(", "]": ")", "{": "(", "}": ")"}


@dataclass(slots=True)
class Spoken:
    """text[start:end] of the cleaned text as words; `kind` is its class (empty: a word or mark as
    it stands), `source` names the row that decided.
    """

    start: int
    end: int
    words: str
    kind: str = ""
    source: str = ""


@dataclass(frozen=True)
class Context:
    """What a verbalizer may ask for."""

    grammar: "Grammar"
    known: Callable[[str], bool] | None  # whether a lexicon lists a string
    depth: int


def is_override(character: str) -> bool:
    """Whether a caller's placeholder stands there (result.py)."""
    return "\ue000" <= character <= "\uf8ff"


@dataclass
class Grammar:
    """Rows, word sets and verbalizers of one dialect."""

    dialect: Dialect
    slots: Slots
    by_word: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    by_character: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    # one-off forms: written -> words; and the longest of them by what it begins with
    literals: dict[str, str] = field(default_factory=dict)
    longest: dict[str, int] = field(default_factory=dict)

    def add_literal(self, written: str, words: str) -> None:
        """Put a one-off form into the index."""
        self.literals[written] = words
        run = LETTERS.match(written)
        first = run[0].lower() if run else written[0]
        self.longest[first] = max(self.longest.get(first, 0), len(written))
        if run:
            self.by_word.setdefault(first, ())

    # ---- classify

    def candidates(self, text: str, place: int) -> tuple[Row, ...]:
        """Rows that can begin at `place`."""
        character = text[place]
        if not character.isalpha():
            return self.by_character.get(character, ())
        run = LETTERS.match(text, place)
        listed = self.by_word.get(run[0].lower(), ()) if run else ()
        begins = place == 0 or text[place - 1] in SPACES
        if begins and WHOLE.match(text, place):
            return listed
        return listed + self.by_character.get(character, ())

    def match(self, row: Row, text: str, place: int, last: Spoken | None) -> int:
        """Where a match of `row` at `place` ends; `place` where there is none. `last`: the token
        before.
        """
        match = row.pattern.match(text, place)
        if not match or match.end() == place:
            return place
        end = match.end()
        if row.previous:
            if not last or last.kind not in row.previous:
                return place
            gap = text[last.end : place]
            if gap and not (row.before and row.before.match(gap)):
                return place
        elif row.before and not row.before.search(text[max(0, place - CONTEXT) : place]):
            return place
        if row.joins and not self.joins(last, text, place, end):
            return place
        return end

    def matches(self, text: str, place: int, last: Spoken | None) -> list[tuple[int, Row]]:
        """(end, row) of each row that matches at `place`, best first."""
        ends = ((self.match(row, text, place, last), row) for row in self.candidates(text, place))
        return sorted(
            ((end, row) for end, row in ends if end > place),
            key=lambda item: (-item[0], -item[1].weight, item[1].number),
        )

    def literal(self, text: str, place: int) -> int:
        """Where the longest form of the whitelist at `place` ends; `place` where there is none."""
        run = LETTERS.match(text, place)
        longest = self.longest.get(run[0].lower() if run else text[place], 0)
        for end in range(min(len(text), place + longest), place, -1):
            if text[place:end] in self.literals and not INSIDE.match(text, end):
                return end
        return place

    def joins(self, last: Spoken | None, text: str, place: int, end: int) -> bool:
        """Whether a range may join the value before `place` to what begins at `end`: both of one
        class, or a number without its unit before any value (5-10 kg, 9-5pm).
        """
        ranged = self.slots.sets["ranged"]
        if not last or end >= len(text):
            return False
        if text[last.end : place].strip() or last.kind not in ranged:
            return False
        following = self.matches(text, end, None)
        kind = following[0][1].kind if following else ""
        return kind in ranged and (
            kind == last.kind or last.kind == "cardinal" or kind == "cardinal"
        )

    # ---- walk

    def walk(self, text: str, context: Context) -> Iterator[Spoken]:
        """The text's pieces in order, each with the row that decided."""
        place, last, quoted, by_word = 0, None, False, self.by_word
        while place < len(text):
            plain = PLAIN.match(text, place)
            if plain and plain[2].lower() not in by_word:
                last = Spoken(plain.start(1), plain.end(), plain[1])
                place = last.end
                yield last
                continue
            character = text[place]
            if character == " " or character == "\n":
                place += 1
                continue
            ends_word = character in STOPS and text[place + 1 : place + 2] in SPACES
            matches = [] if ends_word else self.matches(text, place, last)
            end = matches[0][0] if matches else place
            literal_end = place if ends_word else self.literal(text, place)
            if literal_end > place and literal_end >= end:
                words = self.literals[text[place:literal_end]]
                last = Spoken(place, literal_end, words, "whitelist", "whitelist.tsv")
            elif matches:
                row = matches[0][1]
                match = row.pattern.match(text, place)
                assert match
                words = self.fill(row, match, context)
                is_short = text[end - 1] == "." and words[-1:] not in MARKS
                if is_short and self.ends_sentence(text, end, row):
                    words += "."
                last = Spoken(place, end, words, row.kind, row.source)
            elif character == "'":
                opens = (
                    text[place + 1 : place + 2].isalnum() and not text[place - 1 : place].isalnum()
                )
                closes = quoted and not opens and text[place - 1 : place].strip() != ""
                quoted = opens or (quoted and not closes)
                last = Spoken(place, place + 1, "“" if opens else "”" if closes else "")
            else:
                last = self.default(text, place, last, context)
            if (
                last.kind
                and CLITIC.match(text, last.end)
                and last.words[-1:].isalpha() | (last.words[-1:] == "]")
            ):
                last.words, last.end = f"{last.words}'s", last.end + 2
            place = last.end
            yield last

    def ends_sentence(self, text: str, end: int, row: Row) -> bool:
        """Whether the full stop of a short form before `end` is the sentence's too."""
        rest = text[end : end + CONTEXT].lstrip(" \")”'\n")
        if not rest:
            return not text[end:].strip(" \")”'\n")
        first = LETTERS.match(rest)
        if first is None or row.has_context:
            return False
        starts = first[0] in self.slots.sets["starter"] or (
            row.kind == "weekday" and first[0][0].isupper() and text[end].isspace()
        )
        return starts and text[end].isspace() and rest[first.end() :][:1] != "."

    def default(self, text: str, place: int, last: Spoken | None, context: Context) -> Spoken:
        """A word, a mark; anything else is silent."""
        match = WORD.match(text, place)
        if match:
            return Spoken(place, match.end(), match[0])
        match = RUN.match(text, place)
        if match:
            run = match[0]
            if run == "." and self.is_cut(text, place, last, context):
                return Spoken(place, place + 1, "")
            mark = "…" if run[:2] == ".." or run[0] == "…" else "—" if run[0] in "-—" else run[0]
            return Spoken(place, match.end(), mark)
        character = SAME_MARK.get(text[place], text[place])
        if is_override(character):
            return Spoken(place, place + 1, character)
        if character == BREAK:
            silent = last is None or last.words[-1:] in MARKS - {")", "”"}
            return Spoken(place, place + 1, "" if silent else ".")
        return Spoken(place, place + 1, character if character in MARKS else "")

    def is_cut(self, text: str, place: int, last: Spoken | None, context: Context) -> bool:
        """Whether the full stop at `place` stands behind a word cut short that no lexicon lists,
        and a small letter follows.
        """
        if not last or last.end != place or context.known is None:
            return False
        follows = text[place + 1 : place + 2].isspace() and text[place + 1 :].lstrip()[:1].islower()
        return follows and last.words.islower() and not context.known(last.words)

    # ---- verbalize

    def fill(self, row: Row, match: re.Match[str], context: Context) -> str:
        """The words of a row's say column."""
        parts = {name: match[name] or "" for name in row.slots}
        parts["0"] = match[0]
        words = []
        for optional, pieces in row.say:
            slots = [piece[0] for piece in pieces if not isinstance(piece, str)]
            if optional and not all(parts.get(slot) for slot in slots):
                continue
            for piece in pieces:
                words.append(
                    piece if isinstance(piece, str) else self.verbalize(*piece, parts, context)
                )
        return "".join(words)

    def verbalize(
        self, slot: str, verbalizers: tuple[str, ...], parts: dict[str, str], context: Context
    ) -> str:
        """The words of one slot."""
        value, name = parts.get(slot, ""), slot.rstrip("0123456789")
        if not verbalizers:
            is_listed = name in self.slots.sets
            return (
                self.entry(name, value)[0]
                if is_listed
                else VERBALIZERS["amount"](value, parts, context)
            )
        for verbalizer in verbalizers:
            if verbalizer == "text":
                value = self.say(value, context) if context.depth < DEEPEST else value
            else:
                value = VERBALIZERS[verbalizer](value, parts, context)
        return value

    def entry(self, name: str, written: str) -> tuple[str, ...]:
        """What a word set has for a written form: spoken, plural, more; the form where nothing."""
        forms = self.slots.sets[name]
        entry = forms.get(written) or forms.get(written.lower())
        return entry if entry and entry[0] else (written, f"{written}s", "")

    def say(self, text: str, context: Context) -> str:
        """Words of a text inside a text."""
        inner = Context(self, context.known, context.depth + 1)
        return " ".join(spoken.words for spoken in self.walk(text, inner) if spoken.words)

    def normalize(self, text: str, known: Callable[[str], bool] | None = None) -> Normalized:
        """Spoken tokens of `text` with their offsets, and what was left out by category."""
        cleaned = clean(text)
        broken = with_breaks(cleaned.text)
        pieces = list(self.walk(broken, Context(self, known, 0)))
        drops = cleaned.drops + [
            (*cleaned.span(piece.start, piece.end), piece.kind or "symbol")
            for piece in pieces
            if not piece.words and cleaned.text[piece.start] != "\n"
        ]
        tokens = tuple(tokens_of(pieces, broken, cleaned))
        return Normalized(tokens, dict(Counter(why for _, _, why in drops)), tuple(sorted(drops)))

    def explain(self, text: str) -> Iterator[str]:
        """One line a piece: what it is, how it is said, the row that decided; rows that lost."""
        cleaned, last = clean(text).text, None
        for piece in self.walk(cleaned, Context(self, None, 0)):
            why = f"{piece.source} {piece.kind}" if piece.kind else "as it stands"
            yield f"{cleaned[piece.start : piece.end]!r} -> {piece.words!r}: {why}"
            for end, row in self.matches(cleaned, piece.start, last)[1:]:
                yield f"    not {row.source} {row.kind}: {cleaned[piece.start : end]!r}"
            last = piece


def pieces_of(words: str) -> Iterator[tuple[str, Kind]]:
    """Spoken words one by one: `[FBI]` are letters, marks stand alone, hyphens part words."""
    for match in SPOKEN.finditer(words):
        if match[1] is not None:
            yield match[1] + (match[2] or ""), "letters"
        elif match[3]:
            yield match[3], "punctuation"
        elif is_override(match[4]):
            yield match[4], "override"
        else:
            yield match[4].replace("‑", "-"), "word"


def tokens_of(spoken: list[Spoken], text: str, cleaned: Cleaned) -> Iterator[Token]:
    """Tokens with offsets of the original text; two spoken ones that touch (5pm, 10–15) are said
    apart.
    """
    # word, start, end, kind, whether another piece of the same words follows
    raw: list[tuple[str, int, int, Kind, bool]] = []
    for piece in spoken:
        start, end, words = piece.start, piece.end, piece.words
        if not piece.kind and words[:1].isalpha() and not is_override(words[0]):
            raw.append((words, start, end, "word", False))
            continue
        pieces = list(pieces_of(words))
        for place, (word, kind) in enumerate(pieces, 1):
            raw.append((word, start, end, kind, place < len(pieces)))
    for index, (word, start, end, kind, goes_on) in enumerate(raw):
        after = raw[index + 1][3] if index + 1 < len(raw) else "punctuation"
        if goes_on and after != "punctuation":
            space = True
        elif goes_on and kind not in SAID:
            space = False
        else:
            space = text[end : end + 1].isspace() and text[end] != BREAK
            space = space or (kind in SAID and after in SAID)
        yield Token(word, *cleaned.span(start, end), kind, space)


@cache
def grammar_of(dialect: Dialect) -> Grammar:
    """The bundled grammar of a dialect: `us.tsv`, and over it `gb.tsv` in British."""
    files = ["us.tsv"] + ["gb.tsv"] * (dialect == "gb")
    lines = [row for name in files for row in read_table(name)]
    expressions = {columns[1]: columns[2] for _, columns in lines if columns[0] == "slot"}
    sets: dict[str, dict[str, tuple[str, ...]]] = {}
    entries: dict[tuple[str, ...], tuple[str, ...]] = {}
    for _, (name, written, *spoken) in read_table("sets.tsv"):
        for form in written.split("|"):
            entry = (*spoken, "", "", "")[:3]
            sets.setdefault(name, {})[form] = entries.setdefault(entry, entry)
    twice = sorted(expressions.keys() & sets.keys())
    if twice:
        raise ValueError(f"a slot and a word set are both named {', '.join(twice)}")
    grammar = Grammar(dialect, Slots(expressions, sets))
    for _, (written, words, _) in read_table("whitelist.tsv"):
        grammar.add_literal(written, words)
    by_word: dict[str, list[Row]] = {word: [] for word in grammar.by_word}
    by_character: dict[str, list[Row]] = {}
    rows = [(source, columns) for source, columns in lines if columns[0] != "slot"]
    for number, (source, columns) in enumerate(rows):
        row, starts = compile_row(number, columns, grammar.slots, source)
        for word in starts.words:
            by_word.setdefault(word, []).append(row)
        for character in starts.characters:
            by_character.setdefault(character, []).append(row)
    # one tuple for all places that try the same rows
    same: dict[tuple[int, ...], tuple[Row, ...]] = {}
    for index, table in ((grammar.by_word, by_word), (grammar.by_character, by_character)):
        for start, candidates in table.items():
            numbers = tuple(row.number for row in candidates)
            index[start] = same.setdefault(numbers, tuple(candidates))
    return grammar
