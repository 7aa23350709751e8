"""What can begin a match of a row, read from its parsed expression: nobody writes an index.

starts_of("(?:kg|lb)s?", open_end=False)     # Starts(words={"kg", "kgs", "lb", "lbs"})
starts_of("[0-9]{1,3}", open_end=False)      # Starts(characters={"0", ..., "9"})
starts_of("[0-9]%", open_end=False).seconds  # "%"

A slot of an expression is one character of `slots`, which gives its beginning: a large word set is
parsed once, not once for each row that names it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, reduce
from types import MappingProxyType
from typing import Any

# Characters that rows begin with: Latin, Greek, signs.
CHARACTERS = frozenset(map(chr, (*range(33, 0x250), *range(0x370, 0x400), *range(0x2010, 0x2B60))))
ASCII = "".join(map(chr, range(128)))
ALL = CHARACTERS | frozenset(ASCII)
CLOSED = "\0"  # behind a word that is whole


@dataclass(frozen=True)
class Starts:
    """Lower-case words, each a whole run of letters, or single characters; one of both is empty."""

    words: frozenset[str] = frozenset()
    characters: frozenset[str] = frozenset()
    # ASCII characters that may stand behind the first one; all where one character is a match
    seconds: str = ASCII


Head = str | frozenset[str]  # letters so far (closed by NUL), or a set of first characters


@dataclass(frozen=True)
class Opening:
    """ASCII characters that a match may have first and second, and whether it may have none or
    one. Letters stand in both cases.
    """

    firsts: frozenset[str] = frozenset()
    seconds: frozenset[str] = frozenset()
    empty: bool = True
    one: bool = False

    def followed_by(self, other: "Opening") -> "Opening":
        """The opening of a match of this and then one of `other`."""
        seconds = self.seconds
        if self.one:
            seconds |= other.firsts
        if self.empty:
            seconds |= other.seconds
        return Opening(
            self.firsts | other.firsts if self.empty else self.firsts,
            seconds,
            self.empty and other.empty,
            (self.one and other.empty) or (self.empty and other.one),
        )

    def or_else(self, other: "Opening") -> "Opening":
        """The opening of a match of this or of `other`."""
        return Opening(
            self.firsts | other.firsts,
            self.seconds | other.seconds,
            self.empty or other.empty,
            self.one or other.one,
        )


@dataclass(frozen=True)
class Beginning:
    """What a whole expression or slot begins with."""

    heads: frozenset[Head]
    opening: Opening


Slotted = Mapping[str, Beginning]  # of slots, by the characters that stand for them


def starts_of(expression: str, open_end: bool, slots: Slotted = MappingProxyType({})) -> Starts:
    """What each match of `expression` begins with: listed words where that is sure."""
    beginning = beginning_of(expression, slots)
    heads, opening = beginning.heads, beginning.opening
    is_short = opening.empty or opening.one
    seconds = ASCII if is_short else "".join(sorted(opening.seconds))
    words = {head for head in heads if isinstance(head, str) and head.strip(CLOSED)}
    if len(words) == len(heads) and not (open_end and any(head[-1] != CLOSED for head in words)):
        return Starts(frozenset(head.strip(CLOSED) for head in words), seconds=seconds)
    characters: set[str] = set()
    for head in heads:
        if isinstance(head, frozenset):
            characters |= head
        else:
            characters |= {head[0], head[0].upper()} if head.strip(CLOSED) else CHARACTERS
    return Starts(characters=frozenset(characters), seconds=seconds)


def beginning_of(expression: str, slots: Slotted) -> Beginning:
    """The beginning of a whole expression."""
    nodes = list(re._parser.parse(expression))  # type: ignore[attr-defined]
    return Beginning(frozenset(heads_of(nodes, slots)), opening_of(nodes, slots))


def heads_of(nodes: Iterable[tuple[Any, Any]], slots: Slotted) -> set[Head]:
    """Heads of a sequence of parsed nodes."""
    heads: set[Head] = {""}
    for operation, value in nodes:
        grown: set[Head] = set()
        for head in heads:
            if isinstance(head, frozenset) or head.endswith(CLOSED):
                grown.add(head)
            else:
                grown |= {join(head, more) for more in node_heads(str(operation), value, slots)}
        heads = grown
    return heads


def join(head: str, more: Head) -> Head:
    """`head` with what follows it: letters go on with the word, anything else closes it."""
    if isinstance(more, str):
        return head + more
    if not head:
        return more
    if any(character.isalpha() for character in more):
        return frozenset((head[0], head[0].upper()))
    return head + CLOSED


def node_heads(name: str, value: Any, slots: Slotted) -> Set[Head]:
    """Heads of one parsed node."""
    if name == "LITERAL":
        character = chr(value)
        if character in slots:
            return slots[character].heads
        return {character.lower() if character.isalpha() else frozenset(character)}
    if name == "SUBPATTERN":
        return heads_of(value[3], slots)
    if name == "BRANCH":
        return set().union(*(heads_of(branch, slots) for branch in value[1]))
    if name == "MAX_REPEAT":
        low, high, inner = value
        heads = heads_of(inner, slots)
        if high > 1:
            # letters may follow letters: only the first one is sure
            heads = {
                frozenset((head[0], head[0].upper()))
                if isinstance(head, str) and head.strip(CLOSED) and head[-1] != CLOSED
                else head
                for head in heads
            }
        return heads | {""} if low == 0 else heads
    if name == "IN":
        # the parser makes a class of `{one}|{two}`
        marks = {chr(code) for _, code in value if isinstance(code, int) and chr(code) in slots}
        if marks:
            others = [item for item in value if item[1] not in map(ord, marks)]
            slotted = set().union(*(slots[mark].heads for mark in marks))
            return slotted | (node_heads(name, others, slots) if others else set())
        characters = class_characters(tuple(value))
        letters = {character.lower() for character in characters if character.isalpha()}
        is_listed = all(str(operation) == "LITERAL" for operation, _ in value)
        if not letters or not (is_listed or len(letters) == 1):
            return {characters}
        # [Ee] goes on with a word as e does, and so does each letter of [ab.]
        others = frozenset(character for character in characters if not character.isalpha())
        return letters | ({others} if others else set())
    if name in ("ASSERT", "ASSERT_NOT", "AT"):
        return {""}
    return {CHARACTERS}


@cache
def class_characters(items: Sequence[tuple[Any, Any]]) -> frozenset[str]:
    """Characters of ALL that a class of an expression has."""
    characters: set[str] = set()
    negated = False
    for operation, value in items:
        name = str(operation)
        negated |= name == "NEGATE"
        if name == "LITERAL":
            characters.add(chr(value))
        elif name == "RANGE":
            characters.update(map(chr, range(value[0], value[1] + 1)))
        elif name == "CATEGORY":
            characters |= category_characters(str(value))
    return ALL - characters if negated else ALL & characters


@cache
def category_characters(name: str) -> frozenset[str]:
    """Characters of a category of Python's parser: digits, white space, words, or all others."""
    if "NOT_" in name:
        return ALL - category_characters(name.replace("NOT_", ""))
    kinds = {"DIGIT": str.isdecimal, "SPACE": str.isspace, "WORD": is_of_word}
    return frozenset(filter(kinds[name.rpartition("_")[2]], ALL))


def opening_of(nodes: Iterable[tuple[Any, Any]], slots: Slotted) -> Opening:
    """The opening of a sequence of parsed nodes."""
    opening = Opening()
    for operation, value in nodes:
        if not (opening.empty or opening.one):
            break
        opening = opening.followed_by(node_opening(str(operation), value, slots))
    return opening


def node_opening(name: str, value: Any, slots: Slotted) -> Opening:
    """The opening of one parsed node; of one that is not listed here, anything."""
    if name == "LITERAL":
        if chr(value) in slots:
            return slots[chr(value)].opening
        return Opening(either_case(frozenset(chr(value))), empty=False, one=True)
    if name == "IN":
        marks = {chr(code) for _, code in value if isinstance(code, int) and chr(code) in slots}
        openings = [slots[mark].opening for mark in sorted(marks)]
        if len(marks) < len(value):
            characters = either_case(class_characters(tuple(value)))
            openings.append(Opening(characters, empty=False, one=True))
        return reduce(Opening.or_else, openings)
    if name == "SUBPATTERN":
        return opening_of(value[3], slots)
    if name == "BRANCH":
        return reduce(Opening.or_else, (opening_of(branch, slots) for branch in value[1]))
    if name == "MAX_REPEAT":
        low, high, inner = value
        once = opening_of(inner, slots)
        again = once.or_else(Opening())
        first = once if low else again
        return first.followed_by(again) if high > 1 else first
    if name in ("ASSERT", "ASSERT_NOT", "AT"):
        return Opening()
    return Opening(frozenset(ASCII), frozenset(ASCII), empty=True, one=True)


@cache
def either_case(characters: frozenset[str]) -> frozenset[str]:
    """The ASCII ones of `characters`, letters in both cases."""
    plain = filter(str.isascii, characters)
    return frozenset(case for character in plain for case in (character.lower(), character.upper()))


def is_of_word(character: str) -> bool:
    """Whether \\w matches it."""
    return character.isalnum() or character == "_"
