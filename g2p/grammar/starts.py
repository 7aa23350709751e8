"""What can begin a match of a row, read from its parsed expression: nobody writes an index.

starts_of("(?:kg|lb)s?", open_end=False)     # Starts(words={"kg", "kgs", "lb", "lbs"})
starts_of("[0-9]{1,3}", open_end=False)      # Starts(characters={"0", ..., "9"})
starts_of("[0-9]%", open_end=False).seconds  # "%"

A slot of an expression is one character of `slots`, which gives its beginning: a large word set is
parsed once, not once for each row that names it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
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


Heads = frozenset[str] | None  # letters of each way to begin, closed by NUL; None: not sure
# Characters that may stand first and second; among them "" where a match may end before
Opening = tuple[frozenset[str], frozenset[str]]
Beginning = tuple[Heads, Opening]
Slotted = Mapping[str, Beginning]  # of slots, by the characters that stand for them
EMPTY: Opening = (frozenset(("",)), frozenset())


def starts_of(expression: str, open_end: bool, slots: Slotted = MappingProxyType({})) -> Starts:
    """What each match of `expression` begins with: listed words where that is sure."""
    heads, (firsts, seconds) = beginning_of(expression, slots)
    second = ASCII if "" in firsts | seconds else "".join(sorted(filter(str.isascii, seconds)))
    words = frozenset(head.strip(CLOSED) for head in heads or ("",))
    if "" not in words and not (open_end and any(head[-1] != CLOSED for head in heads or ())):
        return Starts(words, seconds=second)
    return Starts(characters=CHARACTERS if "" in firsts else firsts & CHARACTERS, seconds=second)


def beginning_of(expression: str, slots: Slotted) -> Beginning:
    """Heads and opening of a whole expression."""
    nodes = list(re._parser.parse(expression))  # type: ignore[attr-defined]
    return heads_of(nodes, slots), opening_of(nodes, slots)


def heads_of(nodes: Iterable[tuple[Any, Any]], slots: Slotted) -> Heads:
    """Heads of a sequence of parsed nodes."""
    heads = frozenset(("",))
    for operation, value in nodes:
        growing = frozenset(head for head in heads if not head.endswith(CLOSED))
        if not growing:
            break
        parts = node_heads(str(operation), value, slots)
        if parts is None:
            return None
        heads = heads - growing | {head + part for head in growing for part in parts}
    return heads


def node_heads(name: str, value: Any, slots: Slotted) -> Heads:
    """Heads of one parsed node: letters go on with the word, anything else closes it."""
    if name == "LITERAL":
        character = chr(value)
        if character in slots:
            return slots[character][0]
        return frozenset((character.lower() if character.isalpha() else CLOSED,))
    if name == "SUBPATTERN":
        return heads_of(value[3], slots)
    if name == "BRANCH":
        return all_heads(heads_of(branch, slots) for branch in value[1])
    if name == "MAX_REPEAT":
        low, high, inner = value
        heads = heads_of(inner, slots)
        # letters may follow letters
        if heads is None or (high > 1 and any(head[-1:] not in ("", CLOSED) for head in heads)):
            return None
        return heads if low else heads | {""}
    if name == "IN":
        marks, others = slots_in(value, slots)
        if marks:
            rest = [node_heads(name, others, slots)] if others else []
            return all_heads([*(heads for heads, _ in marks), *rest])
        characters = class_characters(tuple(value))
        letters = frozenset(character.lower() for character in characters if character.isalpha())
        is_listed = all(str(operation) == "LITERAL" for operation, _ in value)
        if len(letters) > 1 and not is_listed:
            return None
        # [Ee] goes on with a word as e does, and so does each letter of [ab.]
        return letters if all(map(str.isalpha, characters)) else letters | {CLOSED}
    return frozenset(("",)) if name in ("ASSERT", "ASSERT_NOT", "AT") else None


def all_heads(parts: Iterable[Heads]) -> Heads:
    """Heads of several ways."""
    every = list(parts)
    sure = [heads for heads in every if heads is not None]
    return frozenset().union(*sure) if len(sure) == len(every) else None


def slots_in(value: Any, slots: Slotted) -> tuple[list[Beginning], list[Any]]:
    """Slots of a class, for the parser makes one of `{one}|{two}`, and what else it has."""
    codes = {ord(mark) for mark in slots}
    marks = [slots[chr(code)] for _, code in value if code in codes]
    return marks, [item for item in value if item[1] not in codes]


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
    opening = EMPTY
    for operation, value in nodes:
        if "" not in opening[0] | opening[1]:
            break
        opening = followed(opening, node_opening(str(operation), value, slots))
    return opening


def followed(opening: Opening, other: Opening) -> Opening:
    """The opening of a match of one and then one of `other`."""
    firsts, seconds = opening
    if "" in seconds:
        seconds = seconds - {""} | other[0]
    if "" in firsts:
        firsts, seconds = firsts - {""} | other[0], seconds | other[1]
    return firsts, seconds


def either(openings: Iterable[Opening]) -> Opening:
    """The opening of a match of one of several."""
    firsts, seconds = zip(*openings, strict=True)
    return frozenset().union(*firsts), frozenset().union(*seconds)


def node_opening(name: str, value: Any, slots: Slotted) -> Opening:
    """The opening of one parsed node; of one that is not listed here, anything."""
    if name == "LITERAL":
        if chr(value) in slots:
            return slots[chr(value)][1]
        return frozenset((chr(value),)), EMPTY[0]
    if name == "IN":
        marks, others = slots_in(value, slots)
        rest = [(class_characters(tuple(others)), EMPTY[0])] if others else []
        return either([*(opening for _, opening in marks), *rest])
    if name == "SUBPATTERN":
        firsts, seconds = opening_of(value[3], slots)
        if value[1] & re.IGNORECASE:
            return either_case(firsts), either_case(seconds)
        return firsts, seconds
    if name == "BRANCH":
        return either(opening_of(branch, slots) for branch in value[1])
    if name == "MAX_REPEAT":
        low, high, inner = value
        once = opening_of(inner, slots)
        again = either((once, EMPTY))
        first = once if low else again
        return followed(first, again) if high > 1 else first
    return EMPTY if name in ("ASSERT", "ASSERT_NOT", "AT") else (ALL | {""}, ALL | {""})


def either_case(characters: frozenset[str]) -> frozenset[str]:
    """`characters`, letters in both cases."""
    return characters.union(map(str.lower, characters), map(str.upper, characters))


def is_of_word(character: str) -> bool:
    """Whether \\w matches it."""
    return character.isalnum() or character == "_"
