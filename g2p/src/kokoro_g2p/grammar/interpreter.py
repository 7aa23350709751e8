"""The grammar's interpreter: at each place of a text the longest match wins, then the row's weight.

    grammar = grammar_of("us")
    grammar.normalize("Flight 112 leaves at 5:30pm.")   # Normalized
    grammar.explain("5:30pm")                           # rows that matched, the winner first

A plain word costs one look-up: only rows that list it are tried. Anything else tries the rows that
can begin with its first character.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kokoro_g2p.characters import BREAK, LATIN, clean, mark_breaks
from kokoro_g2p.grammar.table import GrammarRow, Known, SlotContext, Slots
from kokoro_g2p.grammar.tokens import SpokenPiece, build_normalized, is_override
from kokoro_g2p.grammar.verbalizers import VERBALIZERS
from kokoro_g2p.number_words import whole
from kokoro_g2p.result import PUNCTUATION, Dialect, Language, Normalized
from kokoro_g2p.tags import find_markup_end

LETTERS = re.compile(rf"[{LATIN}\u0370-\u03ff]{{1,60}}")  # no word of a row is longer
# A plain word between spaces or common marks, and a word with its apostrophes and hyphens.
ENDED = r"(?=[ \n]|[,;!?]+(?:[ \n]|$)|[.:](?:[ \n]|$)|$)"
WHOLE = re.compile(rf"[A-Za-z][a-zà-öø-ÿ]+(?:'[a-z]+)?{ENDED}")
PLAIN = re.compile(rf"(?:^|[ \n])(([A-Za-z][a-zà-öø-ÿ]+)(?:'[a-z]+)?){ENDED}")
PART = rf"[{LATIN}]+(?:'[{LATIN}]+)*"
WORD = re.compile(rf"{PART}(?:-{PART})*(?:(?<=[sS])'(?=[\s.,;:!?)]|$))?")
# The other half of a word that a line's end cuts at its hyphen
OTHER_HALF = re.compile(rf"-\n[ \t]*([{LATIN}]+(?:'[{LATIN}]+)*)")
DIGITS = re.compile("[0-9]+")
CLITIC = re.compile(r"'s(?!\w)")
INSIDE = re.compile(r"\B\w")  # a word goes on here
FAR = "é"  # stands for every second character beyond ASCII
RAISED = str.maketrans("ºª", "oa")  # Nº 5
CONTEXT = 40  # characters before a place that a row may ask for
DEEPEST = 3  # grammars inside grammars: a slot that is read as text
# Repeated marks are one mark; dots with spaces between are an ellipsis from three on.
RUN = re.compile(r"\.{2,}|\.(?: \.){2,}|-{2,}|([!?,;:])\1*|…+|—+|\.")
MARKS = frozenset(PUNCTUATION)
STOPS, SPACES = frozenset(",.;:!?"), frozenset(("", " ", "\n"))  # no row begins with both
SAME_MARK = {"[": "(", "]": ")", "{": "(", "}": ")"}


@dataclass
class Signs:
    """Quotes and brackets whose partner comes later."""

    quoted: bool = False  # a single quotation mark waits for its partner
    closing: set[int] = field(default_factory=set)  # where > closes a placeholder

    def quote(self, text: str, place: int) -> SpokenPiece | None:
        """A single quotation mark by its side; an apostrophe is silent."""
        if text[place] != "'":
            return None
        before = text[place - 1 : place]
        # A mark before a letter and behind none opens, one behind text may close; others are
        # apostrophes.
        opens = text[place + 1 : place + 2].isalnum() and not before.isalnum()
        closes = self.quoted and not opens and before.strip() != ""
        self.quoted = opens or (self.quoted and not closes)
        return SpokenPiece(place, place + 1, "“" if opens else "”" if closes else "")

    def match_bracket(self, text: str, place: int) -> SpokenPiece | None:
        """A tag, or a bracket around words, is silent."""
        # This > was found together with its <.
        if place in self.closing:
            return SpokenPiece(place, place + 1, "", "bracket")
        if text[place] != "<":
            return None
        end, closing = find_markup_end(text, place)
        if closing:
            self.closing.add(closing)
        return (
            SpokenPiece(place, end, "", "bracket" if closing else "markup") if end > place else None
        )


@dataclass
class Grammar:
    """Rows, word sets and verbalizers of one dialect."""

    dialect: Dialect
    slots: Slots
    rows: tuple[GrammarRow, ...] = ()
    by_word: dict[str, tuple[GrammarRow, ...]] = field(default_factory=dict)
    by_character: dict[str, tuple[GrammarRow, ...]] = field(default_factory=dict)
    # of those, by the second character too, and whether a space stands before
    by_beginning: dict[tuple[str, str, bool], list[GrammarRow]] = field(default_factory=dict)
    # one-off forms: written -> words; and the longest of them by what it begins with
    literals: dict[str, str] = field(default_factory=dict)
    longest: dict[str, int] = field(default_factory=dict)

    def add_literal(self, written: str, words: str) -> None:
        """Put a one-off form into the index."""
        self.literals[written] = words
        # A form is found by its first run of letters, else by its first character.
        run = LETTERS.match(written)
        first = run[0].lower() if run else written[0]
        self.longest[first] = max(self.longest.get(first, 0), len(written))
        # An entry without rows keeps `walk` from taking the word for a plain one.
        if run:
            self.by_word.setdefault(first, ())

    def compile(self) -> int:
        """Compile all rows and count them. Raises ValueError that names one which cannot be."""
        # Patterns are compiled when they are asked for, so that asking for all compiles all.
        return len([(row.pattern, row.before) for row in self.rows])

    def make_context(self, known: Known | None, depth: int = 0) -> SlotContext:
        """The context of a verbalizer where no row has matched."""
        return SlotContext(self.dialect, self.slots.sets, known, depth)

    # ---- classify

    def list_candidates(self, text: str, place: int) -> Sequence[GrammarRow]:
        """Rows that can begin at `place`."""
        character, second = text[place], text[place + 1 : place + 2]
        second = second if second.isascii() else FAR
        is_spaced = place > 0 and text[place - 1] == " "
        if character.isalpha():
            run = LETTERS.match(text, place)
            rows = self.by_word.get(run[0].lower(), ()) if run else ()
            # A whole word between spaces tries only the rows that list it; those that begin with
            # its letter are tried where capitals, digits or signs stand in it or beside it.
            if not (is_spaced or place == 0 or text[place - 1] == "\n") or not WHOLE.match(
                text, place
            ):
                rows = rows + self.by_character.get(character, ())
            return [row for row in rows if row.can_begin(second, is_spaced)]
        beginning = (character, second, is_spaced)
        if beginning not in self.by_beginning:
            rows = self.by_character.get(character, ())
            self.by_beginning[beginning] = [row for row in rows if row.can_begin(second, is_spaced)]
        return self.by_beginning[beginning]

    def is_in_context(
        self, row: GrammarRow, text: str, place: int, match: re.Match[str], last: SpokenPiece | None
    ) -> bool:
        """Whether what stands beside a match of the row's pattern is what the row asks for.
        `last`: the token before.
        """
        # A match of nothing would not move the walk on.
        if match.end() == place:
            return False
        if row.previous:
            if not last or last.kind not in row.previous:
                return False
            # Behind a token of one of these classes only the row's own gap may stand.
            gap = text[last.end : place]
            if gap and not (row.before and row.before.match(gap)):
                return False
        elif row.before and not row.before.search(text[max(0, place - CONTEXT) : place]):
            return False
        return not row.joins or self.can_join(last, text, place, match.end())

    def find_matches(
        self, text: str, place: int, last: SpokenPiece | None
    ) -> list[tuple[int, GrammarRow]]:
        """(end, row) of each row that matches at `place`, best first."""
        ends = []
        for row in self.list_candidates(text, place):
            match = row.pattern.match(text, place)
            if match and self.is_in_context(row, text, place, match, last):
                ends.append((match.end(), row))
        # The longest match first, then the heaviest row, then the first in the table
        return sorted(ends, key=lambda item: (-item[0], -item[1].weight, item[1].number))

    def match_literal(self, text: str, place: int) -> int:
        """Where the longest form of the whitelist at `place` ends; `place` where there is none."""
        run = LETTERS.match(text, place)
        longest = self.longest.get(run[0].lower() if run else text[place], 0)
        # Downwards from the longest form; one that ends inside a word is none.
        for end in range(min(len(text), place + longest), place, -1):
            if text[place:end] in self.literals and not INSIDE.match(text, end):
                return end
        return place

    def can_join(self, last: SpokenPiece | None, text: str, place: int, end: int) -> bool:
        """Whether a range may join the value before `place` to what begins at `end`: both of one
        class, or a number without its unit before any value (5-10 kg, 9-5pm).
        """
        ranged = self.slots.sets["ranged"]
        if not last or end >= len(text):
            return False
        if text[last.end : place].strip() or last.kind not in ranged:
            return False
        # What follows is judged by itself, since the range is not read yet.
        following = self.find_matches(text, end, None)
        kind = following[0][1].kind if following else ""
        return kind in ranged and (
            kind == last.kind or last.kind == "cardinal" or kind == "cardinal"
        )

    # ---- walk

    def walk(self, text: str, context: SlotContext) -> Iterator[SpokenPiece]:
        """The text's pieces in order, each with the row that decided."""
        place = 0
        last = None
        by_word = self.by_word
        signs = Signs()
        while place < len(text):
            # Most of a text is plain words that no row lists: one look-up, and no row is tried.
            plain = PLAIN.match(text, place)
            if plain and plain[2].lower() not in by_word:
                last = SpokenPiece(plain.start(1), plain.end(), plain[1])
                place = last.end
                yield last
                continue
            if text[place] in " \n":
                place += 1
                continue
            # Tags come before rows, and a quotation mark only where no row takes it as a sign.
            last = (
                signs.match_bracket(text, place)
                or self.apply_rows(text, place, last, context)
                or signs.quote(text, place)
                or self.read_unmatched(text, place, last, context)
            )
            # the 's behind a value or letters is the last word's; 'tis has an apostrophe already
            owns = last.kind and last.words[:1] != "'" and CLITIC.match(text, last.end)
            if owns and (last.words[-1:].isalpha() or last.words[-1:] == "]"):
                last.words, last.end = f"{last.words}'s", last.end + 2
            place = last.end
            yield last

    def apply_rows(
        self, text: str, place: int, last: SpokenPiece | None, context: SlotContext
    ) -> SpokenPiece | None:
        """The words of the best row at a place, or of a whitelist form that is as long."""
        # A mark before a space is only a mark.
        if text[place] in STOPS and text[place + 1 : place + 2] in SPACES:
            return None
        matches = self.find_matches(text, place, last)
        end = matches[0][0] if matches else place
        literal_end = self.match_literal(text, place)
        # A form of the whitelist wins over a row that takes no more than it.
        if literal_end > place and literal_end >= end:
            row, end, kind, source = None, literal_end, "whitelist", "whitelist.tsv"
            words = self.literals[text[place:end]]
        elif matches:
            row = matches[0][1]
            words = self.read(row, text, place, context)
            kind = row.kind
            source = row.source
        else:
            return None
        # A form that ends in a dot may have taken the sentence's full stop, which is then a mark.
        is_short = text[end - 1] == "." and words[-1:] not in MARKS
        if is_short and self.is_sentence_end(text, end, row):
            words += "."
        return SpokenPiece(place, end, words, kind, source)

    def is_sentence_end(self, text: str, end: int, row: GrammarRow | None) -> bool:
        """Whether the full stop of a short form before `end` is the sentence's too; `row`: the one
        that took the form, None where the whitelist did.
        """
        # What stands behind closing quotation marks and brackets decides.
        rest = text[end : end + CONTEXT].lstrip(" \")”'\n")
        if not rest:
            return not text[end:].strip(" \")”'\n")
        first = LETTERS.match(rest)
        # A row that asks for what follows has judged it already.
        if first is None or (row is not None and row.has_context):
            return False
        starts = first[0] in self.slots.sets["starter"] or (
            row is not None and row.kind == "weekday" and first[0][0].isupper()
        )
        return starts and text[end].isspace() and rest[first.end() :][:1] != "."

    def read_unmatched(
        self, text: str, place: int, last: SpokenPiece | None, context: SlotContext
    ) -> SpokenPiece:
        """Read a word, a mark or digits that no row matches; anything else is silent."""
        match = WORD.match(text, place)
        if match:
            return self.read_word(text, match, context)
        match = DIGITS.match(text, place)
        if match:
            return SpokenPiece(place, match.end(), whole(match[0], self.dialect), "digits")
        match = RUN.match(text, place)
        if match:
            run = match[0]
            if run == "." and self.is_cut(text, place, last, context):
                return SpokenPiece(place, place + 1, "")
            is_dots = (run[0] == "." and run[1:]) or run[0] == "…"
            mark = "…" if is_dots else "—" if run[0] in "-—" else run[0]
            return SpokenPiece(place, match.end(), mark)
        character = SAME_MARK.get(text[place], text[place])
        # A paragraph ends like a sentence, unless a mark has ended it or nothing was said.
        if character == BREAK:
            silent = last is None or last.words[-1:] in MARKS - {")", "”"}
            return SpokenPiece(place, place + 1, "" if silent else ".")
        is_heard = character in MARKS or is_override(character)
        return SpokenPiece(place, place + 1, character if is_heard else "")

    def read_word(self, text: str, match: re.Match[str], context: SlotContext) -> SpokenPiece:
        """A word, with its other half where a line end cuts it: one word where a lexicon lists it
        or does not list both halves.
        """
        rest = OTHER_HALF.match(text, match.end())
        if rest is None or context.known is None:
            return SpokenPiece(match.start(), match.end(), match[0])
        first = match[0].rpartition("-")[2]
        is_two = context.has_word(first) and context.has_word(rest[1])
        joint = "-" if is_two and not context.has_word(first + rest[1]) else ""
        return SpokenPiece(match.start(), rest.end(), match[0] + joint + rest[1])

    def is_cut(self, text: str, place: int, last: SpokenPiece | None, context: SlotContext) -> bool:
        """Whether the full stop at `place` stands behind a word cut short that no lexicon lists,
        and a small letter follows.
        """
        if not last or last.end != place or context.known is None:
            return False
        follows = text[place + 1 : place + 2].isspace() and text[place + 1 :].lstrip()[:1].islower()
        return follows and last.words.islower() and not context.known(last.words)

    # ---- verbalize

    def read(self, row: GrammarRow, text: str, place: int, context: SlotContext) -> str:
        """The words of a row that matches at `place`."""
        # The pattern is matched again, because only the end of its match was kept.
        match = row.pattern.match(text, place)
        assert match
        parts = {name: match[name] or "" for name in row.names}
        parts["0"] = match[0]
        inner = SlotContext(self.dialect, self.slots.sets, context.known, context.depth, parts)
        words = []
        for optional, pieces in row.say:
            slots = [piece[0] for piece in pieces if not isinstance(piece, str)]
            # A section in angle brackets is left out as a whole.
            if optional and not all(parts.get(slot) for slot in slots):
                continue
            for piece in pieces:
                words.append(piece if isinstance(piece, str) else self.verbalize(*piece, inner))
        return "".join(words)

    def verbalize(self, slot: str, verbalizers: tuple[str, ...], context: SlotContext) -> str:
        """The words of one slot."""
        value = context.parts.get(slot, "")
        # A digit behind a name only tells two slots of one kind apart.
        name = slot.rstrip("0123456789")
        if not verbalizers and name in context.sets:
            return context.find_entry(name, value)[0]
        for verbalizer in verbalizers or ("amount",):
            # Text inside text is read by the whole grammar, to a depth that bounds the work.
            if verbalizer == "text":
                value = self.say(value, context) if context.depth < DEEPEST else value
            else:
                value = VERBALIZERS[verbalizer](value, context)
        return value

    def say(self, text: str, context: SlotContext) -> str:
        """The words of a text inside a text."""
        # No row has matched in the inner text, so that it has no parts.
        inner = self.make_context(context.known, context.depth + 1)
        return " ".join(spoken.words for spoken in self.walk(text, inner) if spoken.words)

    def normalize(self, text: str, known: Known | None = None) -> Normalized:
        """Spoken tokens of `text` with their offsets, and what was left out by category."""
        cleaned = clean(mark_breaks(text).translate(RAISED))
        pieces = list(self.walk(cleaned.text, self.make_context(known)))
        return build_normalized(pieces, cleaned)

    def __call__(
        self, text: str, *, dialect: Language | None = None, known: Known | None = None
    ) -> Normalized:
        """`normalize`, as every language's normalizer is called; `dialect` is this grammar's."""
        return self.normalize(text, known)

    def explain(self, text: str, known: Known | None = None) -> Iterator[str]:
        """For each piece that a row or the whitelist reads: what stands there, how it is said and
        the row's place in its table; behind it the rows that matched less.
        """
        cleaned = clean(mark_breaks(text).translate(RAISED)).text
        last = None
        for piece in self.walk(cleaned, self.make_context(known)):
            if piece.source:
                written = cleaned[piece.start : piece.end]
                yield f"{written!r} -> {piece.words!r}: {piece.source}, {piece.kind}"
                for end, row in self.find_matches(cleaned, piece.start, last):
                    if row.source != piece.source:
                        shorter = cleaned[piece.start : end]
                        yield f"    not {row.source}, {row.kind}, of {shorter!r}"
            last = piece
