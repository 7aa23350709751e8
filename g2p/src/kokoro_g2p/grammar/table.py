"""Rows of the grammar: read from a table, and compiled when they are first tried.

    for source, columns in read_table("us.tsv"): ...
    row, starts = read_row(0, columns, Slots(...), source)
    row.match("5 kg", 0)

A row has six columns: class, before, pattern, after, say, weight. `before` and `after` are context
and are not consumed. `{name}` in an expression is a slot or a word set; a digit behind the name
makes a second one of its kind. `before` may begin with `@class,class:`: the token before has one of
these classes and ends where the expression of the gap begins. `after` may be `@same`: what follows
is a value that a range may join to the one before; a leading `+` lets a match end inside a word.
Expressions are of the dialect that Python's `re` and ICU's read alike: no look-behind, no
possessive repetition; unbounded repetitions are bounded by LONGEST, so every row takes linear time.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from kokoro_g2p.bundled import DATA, read_data_text
from kokoro_g2p.grammar.starts import Beginning, Starts, find_beginning, find_starts
from kokoro_g2p.morphology import list_stems
from kokoro_g2p.result import Dialect

LONGEST = 40  # characters that one repetition may take
PRIVATE = 0xE000  # the first character that stands for a slot
SLOT = re.compile(r"\{([a-z]+)(\d?)\}")
SPOKEN = re.compile(r"\{([a-z]*\d?)((?::[a-z]+)*)\}")
# An escape or a class, which stays as it is, or a repetition without an end
UNBOUNDED = re.compile(r"(\\.|\[(?:\\.|[^\]\\])*\])|([+*]|\{\d+,\})")
# a context whose last character is a space, whichever of its alternatives is taken
NO_CHOICE = r"(?:[^()|]|\((?:[^()]|\([^()]*\))*\))* "
SPACED = re.compile(rf"{NO_CHOICE}(?:\|{NO_CHOICE})*")
COLUMNS = ("class", "before", "pattern", "after", "say", "weight")

Known = Callable[[str], bool]  # whether a lexicon lists a string
Line = tuple[str, list[str]]  # `file:line`, columns
Piece = str | tuple[str, tuple[str, ...]]  # words, or a slot and its verbalizers
Section = tuple[bool, tuple[Piece, ...]]  # whether it is left out where a slot is empty


def read_table(name: str) -> Iterator[Line]:
    """`file:line` and columns of each line of a table; empty lines and remarks (#) are left out.
    Raises InputError where the file is damaged.
    """
    for number, line in enumerate(read_data_text(DATA / "grammar" / name).split("\n"), 1):
        if line and not line.startswith("#"):
            yield f"{name}:{number}", line.split("\t")


def bound_repeats(expression: str) -> str:
    """`expression` with `+`, `*` and `{n,}` bounded, outside of classes and escapes."""

    def limit(match: re.Match[str]) -> str:
        if not match[2]:
            return match[0]
        low = {"+": "1", "*": "0"}.get(match[2]) or match[2][1:-2]
        return f"{{{low},{LONGEST}}}"

    return UNBOUNDED.sub(limit, expression)


def build_alternation(forms: Iterable[str]) -> str:
    """An expression of literal forms that takes the longest; common beginnings are written once."""
    branches: dict[str, list[str]] = {}
    # Sorted, so that the expression is the same in every process.
    for form in sorted(set(forms)):
        branches.setdefault(form[:1], []).append(form[1:])
    ends = branches.pop("", None) is not None
    written = []
    for first, rests in branches.items():
        rest = build_alternation(rests)
        # A branch needs a group only where its rests begin differently.
        is_choice = "" not in rests and len({one[0] for one in rests}) > 1
        written.append(re.escape(first) + (f"(?:{rest})" if is_choice else rest))
    if not ends:
        return "|".join(written)
    # Where a form ends, the longer ones are optional: greedy, so that the longest is taken.
    return f"(?:{'|'.join(written)})?" if written else ""


@dataclass(frozen=True)
class Slots:
    """What stands between braces: expressions by name, and word sets by name."""

    expressions: dict[str, str]
    sets: dict[str, dict[str, tuple[str, ...]]]
    expanded: dict[str, str] = field(default_factory=dict)  # of those that were asked for
    # of these names: a private character each, and by that its beginning (starts.py)
    slot_marks: dict[str, str] = field(default_factory=dict)
    slot_beginnings: dict[str, Beginning] = field(default_factory=dict)

    def expand_slot(self, name: str) -> str:
        """The expression that `{name}` stands for, nested slots in it expanded."""
        if name not in self.expanded:
            self.expanded[name] = SLOT.sub(
                lambda slot: f"(?:{self.expand_slot(slot[1])})", self.get_expression(name)
            )
        return self.expanded[name]

    def get_expression(self, name: str) -> str:
        """The expression that `{name}` stands for as its table has it."""
        if name in self.expressions:
            return self.expressions[name]
        if name not in self.sets:
            raise ValueError(f"no slot and no word set is named {name!r}")
        return build_alternation(self.sets[name])

    # a port gets the methods whose names its code asks for: these two share theirs with none
    def with_marks(self, expression: str) -> str:
        """`expression` with one private character for each slot, whose beginning is then known."""
        return SLOT.sub(lambda slot: self.mark_of_slot(slot[1]), expression)

    def mark_of_slot(self, name: str) -> str:
        """The private character of a slot."""
        if name not in self.slot_marks:
            # Slots inside this one take their characters first.
            beginning = find_beginning(
                self.with_marks(self.get_expression(name)), self.slot_beginnings
            )
            self.slot_marks[name] = chr(PRIVATE + len(self.slot_marks))
            self.slot_beginnings[self.slot_marks[name]] = beginning
        return self.slot_marks[name]

    def expand(self, expression: str, capture: bool = True) -> str:
        """`expression` with each `{slot}` as a group, named where `capture` and where it is the
        first of its name, and with every repetition bounded.
        """
        names: set[str] = set()

        def name_group(match: re.Match[str]) -> str:
            name = match[1] + match[2]
            # A group's name can stand only once; a second slot of that name just matches.
            if not capture or name in names:
                return f"(?:{self.expand_slot(match[1])})"
            names.add(name)
            return f"(?P<{name}>{self.expand_slot(match[1])})"

        return bound_repeats(SLOT.sub(name_group, expression))


@dataclass(frozen=True)
class SlotContext:
    """What a verbalizer may ask for beside the text of its slot: `parts` are all slots of the
    match, `depth` is how many texts inside texts this one is.
    """

    dialect: Dialect
    sets: dict[str, dict[str, tuple[str, ...]]]
    known: Known | None
    depth: int = 0
    parts: dict[str, str] = field(default_factory=dict)

    def has_word(self, word: str) -> bool:
        """Whether a lexicon lists a word, or what it is made of by an ending."""
        low = word.lower()
        forms = (low, *(stem for _, stem in list_stems(low)))
        return self.known is not None and any(map(self.known, forms))

    def find_entry(self, name: str, written: str) -> tuple[str, ...]:
        """What a word set has for a written form: spoken, plural, more; the form where nothing."""
        forms = self.sets[name]
        # The exact form comes first: MW and mW are two units.
        entry = forms.get(written) or forms.get(written.lower())
        return entry if entry and entry[0] else (written, f"{written}s", "")


@dataclass(frozen=True, eq=False)
class GrammarRow:
    """One row. `source` names its table and line for `--explain`. Its expressions are compiled when
    they are first tried; `compile_expression` raises ValueError that names the row where that
    fails.
    """

    number: int
    kind: str
    columns: tuple[str, str, str]  # before, pattern, after
    open_end: bool  # a match may end inside a word
    slots: Slots
    previous: frozenset[str]  # classes that the token before must have; empty: any
    joins: bool  # `@same`: a value of a class that a range joins must follow
    has_context: bool  # whether `after` asks for something: a dot in the match ends no sentence
    say: tuple[Section, ...]
    weight: int
    source: str
    needs_space: bool  # whether a space stands before each match
    seconds: str  # ASCII characters that may stand second in a match

    def can_begin(self, second: str, is_spaced: bool) -> bool:
        """Whether the row may match where `second` stands second, without a look at its pattern."""
        is_near = second.isascii()
        # Seconds are listed for ASCII only. Of truth values >= means: spaced, or no space is
        # needed.
        return (second in self.seconds or not is_near) and is_spaced >= self.needs_space

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What is read, with what must follow it."""
        after = self.columns[2]
        follow = f"(?={self.slots.expand(after, capture=False)})" if after else ""
        # a match that goes on inside a word is none, so that shorter alternatives are tried
        ended = "" if self.open_end else r"(?!\B\w)"
        return self.compile_expression(f"(?:{self.slots.expand(self.columns[1])}){ended}{follow}")

    @cached_property
    def before(self) -> re.Pattern[str] | None:
        """What must stand before it, or between the token before and it."""
        before = self.columns[0]
        if not before:
            return None
        # a word of the context begins where a word begins
        edge = r"\b" if re.match(r"(?:\(\?i?:)*[A-Za-z{]", before) else ""
        return self.compile_expression(rf"{edge}(?:{self.slots.expand(before, capture=False)})$")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The pattern's slots."""
        return tuple(self.pattern.groupindex)

    def compile_expression(self, expression: str) -> re.Pattern[str]:
        """An expression of this row."""
        try:
            return re.compile(expression)
        except re.error as error:
            raise ValueError(f"{self.source}: {error}") from error


def parse_say(say: str) -> tuple[Section, ...]:
    """Sections of the say column; `<...>` is left out where one of its slots is empty."""
    sections = []
    # Splitting by a group gives plain and optional parts in turn.
    for position, part in enumerate(re.split(r"<([^>]*)>", say)):
        pieces: list[Piece] = []
        last = 0
        for match in SPOKEN.finditer(part):
            pieces += [part[last : match.start()], (match[1], tuple(match[2].split(":")[1:]))]
            last = match.end()
        sections.append((position % 2 == 1, (*pieces, part[last:])))
    return tuple(sections)


def read_row(
    number: int, columns: list[str], slots: Slots, source: str
) -> tuple[GrammarRow, Starts]:
    """The row of `columns`, and what can begin a match of it. Raises ValueError that names the row
    where its pattern cannot be read.
    """
    if not 3 <= len(columns) <= len(COLUMNS):
        raise ValueError(f"{source}: {len(columns)} columns where {len(COLUMNS)} are wanted")
    # Columns that are missing at the end are empty.
    kind, before, pattern, after, say, weight = [*columns, "", "", ""][: len(COLUMNS)]
    previous: frozenset[str] = frozenset()
    if before[:1] == "@":
        names, _, before = before[1:].partition(":")
        previous = frozenset(names.split(","))
    joins, open_end = after == "@same", after[:1] == "+"
    after = "" if joins else after.lstrip("+")
    try:
        starts = find_starts(slots.with_marks(pattern), open_end, slots.slot_beginnings)
    except (re.error, ValueError) as error:
        raise ValueError(f"{source}: {error}") from error
    row = GrammarRow(
        number=number,
        kind=kind,
        columns=(before, pattern, after),
        open_end=open_end,
        slots=slots,
        previous=previous,
        joins=joins,
        # A context that only forbids something asks for nothing.
        has_context=bool(after) and not after.startswith("(?!"),
        say=parse_say(say),
        weight=int(weight or 0),
        source=source,
        # Behind a token the gap is judged, which may have no space.
        needs_space=not previous and SPACED.fullmatch(before) is not None,
        seconds=starts.seconds,
    )
    return row, starts
