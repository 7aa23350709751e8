"""What can begin a match of a row, read from its parsed expression: nobody writes an index.

starts_of("(?:kg|lb)s?", open_end=False)     # Starts(words={"kg", "kgs", "lb", "lbs"})
starts_of("[0-9]{1,3}", open_end=False)      # Starts(characters={"0", ..., "9"})
starts_of("[0-9]%", open_end=False).seconds  # "%"
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

# Characters that rows begin with: Latin, Greek, signs.
CHARACTERS = frozenset(map(chr, (*range(33, 0x250), *range(0x370, 0x400), *range(0x2010, 0x2B60))))
ASCII = "".join(map(chr, range(128)))
CLOSED = "\0"  # behind a word that is whole


@dataclass(frozen=True)
class Starts:
    """Lower-case words, each a whole run of letters, or single characters; one of both is empty."""

    words: frozenset[str] = frozenset()
    characters: frozenset[str] = frozenset()
    # ASCII characters that may stand behind the first one; all where one character is a match
    seconds: str = ASCII


Head = str | frozenset[str]  # letters so far (closed by NUL), or a set of first characters


def starts_of(expression: str, open_end: bool) -> Starts:
    """What each match of `expression` begins with: listed words where that is sure."""
    nodes = list(re._parser.parse(expression))  # type: ignore[attr-defined]
    heads, opening = heads_of(nodes), opening_of(nodes)
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


def heads_of(nodes: Iterable[tuple[Any, Any]]) -> set[Head]:
    """Heads of a sequence of parsed nodes."""
    heads: set[Head] = {""}
    for operation, value in nodes:
        grown: set[Head] = set()
        for head in heads:
            if isinstance(head, frozenset) or head.endswith(CLOSED):
                grown.add(head)
            else:
                grown |= {join(head, more) for more in node_heads(str(operation), value)}
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


def node_heads(name: str, value: Any) -> set[Head]:
    """Heads of one parsed node."""
    if name == "LITERAL":
        character = chr(value)
        return {character.lower() if character.isalpha() else frozenset(character)}
    if name == "SUBPATTERN":
        return heads_of(value[3])
    if name == "BRANCH":
        return set().union(*(heads_of(branch) for branch in value[1]))
    if name == "MAX_REPEAT":
        low, high, inner = value
        heads = heads_of(inner)
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
    """Characters of CHARACTERS, space and line feed that a class of an expression has."""
    return frozenset(
        character for character in CHARACTERS | {" ", "\n"} if in_class(character, items)
    )


def in_class(character: str, items: Sequence[tuple[Any, Any]]) -> bool:
    """Whether a parsed class has `character`."""
    negated = hit = False
    for operation, value in items:
        name = str(operation)
        if name == "NEGATE":
            negated = True
        elif name == "LITERAL":
            hit |= ord(character) == value
        elif name == "RANGE":
            hit |= value[0] <= ord(character) <= value[1]
        elif name == "CATEGORY":
            kind = str(value)
            is_in = (
                character.isdecimal()
                if "DIGIT" in kind
                else character.isspace()
                if "SPACE" in kind
                else character.isalnum() or character == "_"
            )
            hit |= is_in != ("NOT" in kind)
    return hit != negated


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


def opening_of(nodes: Iterable[tuple[Any, Any]]) -> Opening:
    """The opening of a sequence of parsed nodes."""
    opening = Opening()
    for operation, value in nodes:
        if not (opening.empty or opening.one):
            break
        opening = opening.followed_by(node_opening(str(operation), value))
    return opening


def node_opening(name: str, value: Any) -> Opening:
    """The opening of one parsed node; of one that is not listed here, anything."""
    if name == "LITERAL":
        character = chr(value)
        return Opening(frozenset((character.lower(), character.upper())), empty=False, one=True)
    if name == "IN":
        return Opening(class_ascii(tuple(value)), empty=False, one=True)
    if name == "SUBPATTERN":
        return opening_of(value[3])
    if name == "BRANCH":
        return reduce(Opening.or_else, map(opening_of, value[1]))
    if name == "MAX_REPEAT":
        low, high, inner = value
        once = opening_of(inner)
        again = once.or_else(Opening())
        first = once if low else again
        return first.followed_by(again) if high > 1 else first
    if name in ("ASSERT", "ASSERT_NOT", "AT"):
        return Opening()
    return Opening(frozenset(ASCII), frozenset(ASCII), empty=True, one=True)


@cache
def class_ascii(items: Sequence[tuple[Any, Any]]) -> frozenset[str]:
    """ASCII characters that a class of an expression has in either case."""
    return frozenset(
        character
        for character in ASCII
        if in_class(character.lower(), items) or in_class(character.upper(), items)
    )
