"""What can begin a match of a row, read from its parsed expression: nobody writes an index.

starts_of("(?:kg|lb)s?", open_end=False)     # Starts(words={"kg", "kgs", "lb", "lbs"})
starts_of("[0-9]{1,3}", open_end=False)      # Starts(characters={"0", ..., "9"})

A slot of an expression is one character of `slots`, which gives its heads: a large word set is
parsed once, not once for each row that names it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

# Characters that rows begin with: Latin, Greek, signs.
CHARACTERS = frozenset(map(chr, (*range(33, 0x250), *range(0x370, 0x400), *range(0x2010, 0x2B60))))
ALL = CHARACTERS | {" ", "\n"}
CLOSED = "\0"  # behind a word that is whole


@dataclass(frozen=True)
class Starts:
    """Lower-case words, each a whole run of letters, or single characters; one of both is empty."""

    words: frozenset[str] = frozenset()
    characters: frozenset[str] = frozenset()


Head = str | frozenset[str]  # letters so far (closed by NUL), or a set of first characters


Slotted = Mapping[str, frozenset[Head]]  # heads of a slot by the character that stands for it


def starts_of(expression: str, open_end: bool, slots: Slotted = MappingProxyType({})) -> Starts:
    """What each match of `expression` begins with: listed words where that is sure."""
    heads = expression_heads(expression, slots)
    words = {head for head in heads if isinstance(head, str) and head.strip(CLOSED)}
    if len(words) == len(heads) and not (open_end and any(head[-1] != CLOSED for head in words)):
        return Starts(words=frozenset(head.strip(CLOSED) for head in words))
    characters: set[str] = set()
    for head in heads:
        if isinstance(head, frozenset):
            characters |= head
        else:
            characters |= {head[0], head[0].upper()} if head.strip(CLOSED) else CHARACTERS
    return Starts(characters=frozenset(characters))


def expression_heads(expression: str, slots: Slotted) -> frozenset[Head]:
    """Heads of a whole expression."""
    return frozenset(heads_of(re._parser.parse(expression), slots))  # type: ignore[attr-defined]


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
            return slots[character]
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
            rest = [item for item in value if item[1] not in map(ord, marks)]
            found = set().union(*(slots[mark] for mark in marks))
            return found | node_heads(name, rest, slots) if rest else found
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


def is_of_word(character: str) -> bool:
    """Whether \\w matches it."""
    return character.isalnum() or character == "_"
