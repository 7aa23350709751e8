"""What can begin a match of a row, read from its parsed expression: nobody writes an index.

find_starts("(?:kg|lb)s?", open_end=False)     # Starts(words={"kg", "kgs", "lb", "lbs"})
find_starts("[0-9]{1,3}", open_end=False)      # Starts(characters={"0", ..., "9"})
find_starts("[0-9]%", open_end=False).seconds  # "%"

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
# Heads, and the characters that may stand first and second: "" where a match may end before
Beginning = tuple[Heads, frozenset[str], frozenset[str]]
Slotted = Mapping[str, Beginning]  # of slots, by the characters that stand for them
END = frozenset(("",))
EMPTY: Beginning = (END, END, frozenset())


def find_starts(expression: str, open_end: bool, slots: Slotted = MappingProxyType({})) -> Starts:
    """What each match of `expression` begins with: listed words where that is sure."""
    heads, firsts, seconds = find_beginning(expression, slots)
    # Where a match may end before its second character, any may stand there.
    second = ASCII if "" in firsts | seconds else "".join(sorted(filter(str.isascii, seconds)))
    words = frozenset(head.strip(CLOSED) for head in heads or END)
    # Words are an index only if each match begins with a whole one that is known.
    if "" not in words and not (open_end and any(head[-1] != CLOSED for head in heads or ())):
        return Starts(words, seconds=second)
    return Starts(characters=CHARACTERS if "" in firsts else firsts & CHARACTERS, seconds=second)


def find_beginning(expression: str, slots: Slotted) -> Beginning:
    """The beginning of a whole expression."""
    return find_sequence_beginning(re._parser.parse(expression), slots)  # type: ignore[attr-defined]


def find_sequence_beginning(nodes: Iterable[tuple[Any, Any]], slots: Slotted) -> Beginning:
    """The beginning of parsed nodes one behind the other."""
    beginning = EMPTY
    for operation, value in nodes:
        beginning = join_beginnings(beginning, find_node_beginning(str(operation), value, slots))
    return beginning


def join_beginnings(beginning: Beginning, other: Beginning) -> Beginning:
    """The beginning of a match of one and then one of `other`."""
    heads, firsts, seconds = beginning
    # Only a beginning that no sign has closed yet grows with what follows.
    growing = frozenset(head for head in heads or () if not head.endswith(CLOSED))
    if heads is not None and growing:
        parts = other[0]
        grown = parts and frozenset(head + part for head in growing for part in parts)
        heads = grown and heads - growing | grown
    # The first character may be all of a match so far: then the other's first is the second.
    if "" in seconds:
        seconds = seconds - END | other[1]
    # The match may be empty so far: then all of the other's beginning counts.
    if "" in firsts:
        firsts, seconds = firsts - END | other[1], seconds | other[2]
    return heads, firsts, seconds


def merge_beginnings(ways: Iterable[Beginning]) -> Beginning:
    """The beginning of a match of one of several."""
    every, firsts, seconds = zip(*ways, strict=True)
    heads = None if None in every else frozenset().union(*every)
    return heads, frozenset().union(*firsts), frozenset().union(*seconds)


def find_node_beginning(name: str, value: Any, slots: Slotted) -> Beginning:
    """The beginning of one parsed node; of one that is not listed here, anything."""
    if name == "LITERAL":
        character = chr(value)
        # Rows are found by lower case; a sign closes a word.
        head = character.lower() if character.isalpha() else CLOSED
        return slots.get(character) or (frozenset((head,)), frozenset((character,)), END)
    if name == "IN":
        # the parser makes a class of `{one}|{two}`
        codes = {ord(mark) for mark in slots}
        ways = [slots[chr(code)] for _, code in value if code in codes]
        others = tuple(item for item in value if item[1] not in codes)
        return merge_beginnings([*ways, find_class_beginning(others)] if others else ways)
    if name == "SUBPATTERN":
        heads, *parts = find_sequence_beginning(value[3], slots)
        if value[1] & re.IGNORECASE:
            # Under (?i:...) either case of a character may begin a match.
            parts = [part.union(map(str.swapcase, part)) for part in parts]
        return heads, parts[0], parts[1]
    if name == "BRANCH":
        return merge_beginnings(find_sequence_beginning(branch, slots) for branch in value[1])
    if name == "MAX_REPEAT":
        low, high, inner = value
        # Two rounds tell all, since only first and second characters matter.
        once = find_sequence_beginning(inner, slots)
        again = merge_beginnings((once, EMPTY))
        first = once if low else again
        if high < 2:
            return first
        heads, firsts, seconds = join_beginnings(first, again)
        # letters may follow letters
        is_sure = once[0] and all(head[-1:] in ("", CLOSED) for head in once[0])
        return heads if is_sure else None, firsts, seconds
    # Look-around and anchors take nothing; a kind of node not listed may begin with anything.
    return EMPTY if name in ("ASSERT", "ASSERT_NOT", "AT") else (None, ALL | END, ALL | END)


@cache
def find_class_beginning(items: Sequence[tuple[Any, Any]]) -> Beginning:
    """The beginning of a class. [Ee] goes on with a word as e does, and so does each of [ab.]."""
    characters: frozenset[str] = frozenset()
    kinds = [str(operation) for operation, _ in items]
    for kind, (_, value) in zip(kinds, items, strict=True):
        if kind == "LITERAL":
            characters |= {chr(value)}
        elif kind == "RANGE":
            characters |= frozenset(map(chr, range(value[0], value[1] + 1)))
        elif kind == "CATEGORY":
            # digits, white space, words, or all others
            letter = str(value).rpartition("_")[2][0]
            escape = re.compile(f"\\{letter if 'NOT_' in str(value) else letter.lower()}")
            characters |= frozenset(filter(escape.match, ALL))
    characters = ALL - characters if "NEGATE" in kinds else ALL & characters
    letters = frozenset(character.lower() for character in characters if character.isalpha())
    # Letters alone grow into words; a sign in the class closes one.
    heads = letters if all(map(str.isalpha, characters)) else letters | {CLOSED}
    return heads if len(letters) < 2 or {*kinds} == {"LITERAL"} else None, characters, END
